"""Calls of user functions: which overload takes the arguments, and the function built for them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NoReturn

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.frozen import Frozen
from warp_like.base.loc import current_loc
from warp_like.frontend import constants, local_arrays, references
from warp_like.frontend.context import Context, cast_name, require_bindable, with_article
from warp_like.frontend.function import (
    Default,
    Function,
    Overload,
    is_callable_annotation,
    is_tuple_annotation,
    parameter_type,
    shown,
    tuple_parts,
)
from warp_like.frontend.host import Host
from warp_like.frontend.operands import ArgumentType, Operand, describe, flatten, type_of
from warp_like.ir import core as ir
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Type


class Argument(Frozen):
    """An argument of a user function with its syntax, for messages, and the place that it was read from, if known."""

    operand: Operand
    node: ast.expr
    place: Any = None


def call_operator(
    ctx: Context, function: Function, operands: Sequence[Operand], nodes: Sequence[ast.expr]
) -> Operand | None:
    """Call the user function that gives an operator its meaning; None where it does not take the operands."""
    args = [Argument(o, n) for o, n in zip(operands, nodes, strict=True)]
    if all(o.place(args, {}) is None or _cost(ctx, o, list(args)) is None for o in function.overloads):
        return None
    called = instance(ctx, function, args, {})
    return ctx.call(called.function, flatten(tuple(called.args)))


class Instance(Frozen):
    """An overload built for the arguments of a call; ``changed`` are those that it changes, by their parameters."""

    function: ir.Function
    args: list[Operand]
    changed: dict[str, Argument | Default]


def instance(ctx: Context, function: Function, args: list[Argument], keywords: dict[str, Argument]) -> Instance:
    """Return the overload of a user function that takes the arguments of a call, built for these."""
    try:
        for overload in function.overloads:
            overload.types  # noqa: B018  (raises where a parameter can't be understood)
    except WarpCodegenError as error:
        raise _inside_call(error) from None
    overload, placed = _choose(ctx, function, args, keywords)
    given: list[ArgumentType] = []
    operands: list[Operand] = []
    for name, t, arg in zip(overload.params, overload.types, placed, strict=True):
        if isinstance(arg, Default):
            operand = constants.opened(ctx, constants.from_host(ctx, arg.value, f"{name}={arg.value!r}"))
        else:
            operand = arg.operand
        passed = _passed(ctx, operand, t, overload.annotation(name), f"argument `{name}`")
        if isinstance(passed, Value):
            local_arrays.require_shape(overload.annotation(name), name, passed)
        given.append(_argument_type(passed))
        operands.append(passed)
    try:
        callee = ctx.session.call(ctx.session, overload, tuple(given))
    except WarpCodegenError as error:
        raise _inside_call(error) from None
    by_name = dict(zip(overload.params, placed, strict=True))
    return Instance(callee, operands, {name: by_name[name] for name in references.changed(overload, given)})


def _passed(ctx: Context, operand: Operand, t: Type | None, annotation: Any, what: str) -> Operand:
    """An argument as its parameter takes it, of type ``t`` where that is known: literals are values then."""
    if isinstance(operand, Host):
        require_bindable(operand)
        return operand
    if isinstance(operand, tuple):
        parts = tuple_parts(annotation) or (Any,) * len(operand)
        return tuple(_passed(ctx, x, parameter_type(p), p, what) for x, p in zip(operand, parts, strict=True))
    return ctx.convert(operand, t, what) if t is not None else ctx.settle(operand)


def _argument_type(operand: Operand) -> ArgumentType:
    if isinstance(operand, tuple):
        return tuple(map(_argument_type, operand))
    if isinstance(operand, Value):
        return operand.type
    assert isinstance(operand, Host)
    return operand


def _inside_call(error: WarpCodegenError) -> WarpCodegenError:
    """Return an error of a called function with the place of the call put before its own."""
    here = current_loc()
    return type(error)(error.reason, error.loc.called_from(here) if error.loc is not None else here, error.help)


def _choose(
    ctx: Context, function: Function, args: list[Argument], keywords: dict[str, Argument]
) -> tuple[Overload, list[Any]]:
    """The overload that fits best, and its arguments in order."""
    best: tuple[int, Overload, list[Any]] | None = None
    for overload in function.overloads:
        placed = overload.place(args, keywords)
        cost = _cost(ctx, overload, placed) if placed is not None else None
        if placed is not None and cost is not None and (best is None or cost < best[0]):
            best = cost, overload, placed
    if best is None:
        _refuse(ctx, function, args, keywords)
    return best[1], best[2]


_LITERAL, _WIDENED = 100, 10_000
"""The cost of an argument that adapts: any number of generic ones (1 each) is nearer than one of these."""


def _cost(ctx: Context, overload: Overload, placed: list[Any]) -> int | None:
    """How far the arguments are from the overload; None where it does not take them."""
    total = 0
    for name, t, arg in zip(overload.params, overload.types, placed, strict=True):
        if isinstance(arg, Default):
            continue
        cost = _accepts(overload, name, arg.operand)
        if cost is None and t is not None and ctx.fits(arg.operand, t):
            total += _WIDENED
        elif cost is None:
            return None
        else:
            total += _LITERAL if cost == 2 else cost
    return total


def _accepts(overload: Overload, name: str, operand: Operand) -> int | None:
    return overload.accepts(name, _types(operand))


def _types(operand: Operand) -> Any:
    return tuple(map(_types, operand)) if isinstance(operand, tuple) else type_of(operand)


def _refuse(ctx: Context, function: Function, args: list[Argument], keywords: dict[str, Argument]) -> NoReturn:
    """Say why no overload takes the arguments; of a single one, which argument does not fit."""
    takes = " or ".join(o.signature() for o in function.overloads)
    fitting = [(o, p) for o in function.overloads if (p := o.place(args, keywords)) is not None]
    if not fitting:
        raise _wrong_names(function, args, keywords, takes)
    if len(function.overloads) == 1:
        overload, placed = fitting[0]
        for i, (name, arg) in enumerate(zip(overload.params, placed, strict=True)):
            if not isinstance(arg, Default) and _accepts(overload, name, arg.operand) is None:
                with ctx.at(arg.node):
                    needs, got = _needed(overload, name), _described(arg.operand)
                    message = f"{function.name}() needs {needs} for argument {i + 1} `{name}`, got {got}"
                    raise WarpCodegenTypeError(message, help=_conversion(overload, name, arg) or takes)
    shown = [
        *(describe(a.operand) for a in args),
        *(f"{k}={describe(v.operand)}" for k, v in keywords.items()),
    ]
    raise WarpCodegenTypeError(f"{function.name}() has no overload for ({', '.join(shown)})", help=takes)


def _wrong_names(
    function: Function, args: list[Argument], keywords: dict[str, Argument], takes: str
) -> WarpCodegenTypeError:
    only = function.overloads[0] if len(function.overloads) == 1 else None
    if only is not None and not keywords:
        least, most = len(only.params) - len(only.defaults), len(only.params)
        count = str(most) if least == most else f"{least} to {most}"
        plural = "argument" if most == 1 else "arguments"
        return WarpCodegenTypeError(f"{function.name}() takes {count} {plural}, got {len(args)}", help=takes)
    unknown = [k for k in keywords if all(k not in o.params for o in function.overloads)]
    if unknown:
        return WarpCodegenTypeError(f"{function.name}() has no argument `{unknown[0]}`", help=takes)
    given = ", ".join([f"{len(args)} by position"] * bool(args) + [f"`{k}`" for k in keywords]) or "none"
    return WarpCodegenTypeError(f"{function.name}() does not take these arguments: {given}", help=takes)


def _described(operand: Operand) -> str:
    if isinstance(operand, tuple) and operand:
        return f"a tuple ({', '.join(map(_described, operand))})"
    return describe(operand)


def _needed(overload: Overload, name: str) -> str:
    t = overload.types[overload.params.index(name)]
    if t is not None:
        return with_article(str(t))
    annotation = overload.annotation(name)
    if is_tuple_annotation(annotation):
        return f"a {shown(annotation)}"
    return "a function" if is_callable_annotation(annotation) else getattr(annotation, "__name__", str(annotation))


def _conversion(overload: Overload, name: str, arg: Argument) -> str | None:
    """The argument with the cast that it needs."""
    t = overload.types[overload.params.index(name)]
    if isinstance(t, Scalar) and isinstance(type_of(arg.operand), Scalar):
        return f"{cast_name(t)}({ast.unparse(arg.node)})"
    return None
