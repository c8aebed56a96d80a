"""Calls: of builtins, of user functions, of types."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from warp_like import values
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.frozen import Frozen
from warp_like.base.loc import current_loc
from warp_like.builtins.overload import NoMatch, Special
from warp_like.builtins.spec import ASSIGNING, REGISTRY, bind, resolve
from warp_like.frontend import (
    assignment,
    constants,
    constructors,
    derivatives,
    local_arrays,
    making,
    refused,
    specials,
    statics,
)
from warp_like.frontend.context import Context, cast_name, expression, require_bindable, with_article
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
from warp_like.frontend.host import GradientOf, Host, builtin_name, grad, type_named
from warp_like.frontend.operands import NOTHING, Given, Operand, describe, flatten, require_value_kind, type_of
from warp_like.ir import core as ir
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Struct, Transform, Type


@expression(ast.Call)
def build_call(ctx: Context, node: ast.Call) -> Operand:
    """``f(...)``."""
    callee = ctx.type_meant(ctx.expr(node.func), node.func)
    if not isinstance(callee, Host):
        raise WarpCodegenTypeError(f"{describe(callee)} can't be called", help=_as_function(node.func))
    name = builtin_name(callee.obj)
    if name == "static":
        if not isinstance(node.func, (ast.Name, ast.Attribute)) or (
            isinstance(node.func, ast.Name) and node.func.id in ctx.scope.names
        ):  # the cache key would not see it
            raise WarpCodegenError("static() can't go by another name", help="wp.static(...)")
        return statics.static(ctx, node)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise WarpCodegenError("`**` can't unpack in kernel code", help="name each argument")
    if callee.obj is grad:
        return derivatives.build_grad(ctx, node)
    if name is not None:
        return _builtin(ctx, name, node)
    if isinstance(callee.obj, GradientOf):
        return derivatives.call_gradient(ctx, *_called(ctx, callee.obj, node))
    if isinstance(callee.obj, Function):
        function, given = _user_function(ctx, callee.obj, node)
        return ctx.call(function, flatten(tuple(given)))
    t = type_named(callee) if callee.obj is not Any and values.is_type(callee.obj) else None
    if isinstance(t, Struct):
        args = [(ctx.expr(a), a) for a in node.args]
        keywords = {k.arg: (ctx.expr(k.value), k.value) for k in node.keywords if k.arg}
        cls = callee.obj if isinstance(callee.obj, type) else values.from_ir(t)
        return constructors.structure(ctx, t, cls, args, keywords)
    if isinstance(t, Transform):
        return making.transform(ctx, node, t)
    if t is not None:
        making.require_agreement(ctx, node, t, callee.text)
        return constructors.construct(ctx, t, [ctx.expr(a) for a in node.args], node.args)
    raise refused.call(callee)


def _as_function(called: ast.expr) -> str | None:
    """How ``v.length()`` is written: functions are not methods."""
    if isinstance(called, ast.Attribute) and called.attr in REGISTRY:
        return f"wp.{called.attr}({ast.unparse(called.value)})"
    return None


def _builtin(ctx: Context, name: str, node: ast.Call) -> Operand:
    special = specials.HANDLERS.get(name)
    if special is not None:
        return special(ctx, node)
    rows = REGISTRY.get(name)
    if rows is None or any(isinstance(r.lower, Special) for r in rows):
        raise WarpCodegenError(f"{name}() can't be used here")
    args = [ctx.expr(a) for a in node.args]
    keywords = {k.arg: ctx.expr(k.value) for k in node.keywords if k.arg}
    try:
        bound = bind(name, args, keywords)
    except NoMatch as error:
        raise WarpCodegenTypeError(str(error), help=error.help) from None
    nodes = node.args if not keywords and len(bound) == len(node.args) else None
    for argument, operand in zip(node.args, args, strict=True):
        with ctx.at(argument):
            require_value_kind(operand)
    result = ctx.apply(name, *bound, nodes=nodes)
    return _assigned(ctx, name, node, result) if name in ASSIGNING else result


def _assigned(ctx: Context, name: str, node: ast.Call, results: Operand) -> Operand:
    """Give the variables that a builtin changes their new values, and return its other results.

    An argument that is no variable has nothing to change: its new value is dropped, as that of ``wp.rand_init(i)`` in
    ``wp.randf(wp.rand_init(i))``. A call for the sake of the change alone needs a place for it.
    """
    op = next(v.op for v in (results if isinstance(results, tuple) else (results,)) if isinstance(v, Value))
    assert isinstance(op, (ops.Apply, ops.Call))
    row = resolve(name, [a.type for a in op.args]).overload
    if not row.assigns:
        return results
    if not isinstance(node.func, (ast.Name, ast.Attribute)) or ast.unparse(node.func).split(".")[-1] != name:
        raise WarpCodegenError(f"{name}() changes a variable and can't go by another name", help=f"wp.{name}(...)")
    if ctx.no_assignment:
        raise WarpCodegenError(
            f"{name}() changes a variable, so it can't stand {ctx.no_assignment}",
            help="call it in a statement of its own before",
        )
    values = op.results
    kept = len(values) - len(row.assigns)
    given = dict(zip(row.params, node.args, strict=False)) | {k.arg: k.value for k in node.keywords if k.arg}
    for param, new in zip(row.assigns, values[kept:], strict=True):
        target = given[param]
        if isinstance(target, ast.Name) and ctx.scope.variable(target.id) is not None:
            ctx.bind(target.id, new, target)
        elif not kept:
            assignment.assign(ctx, target, new, target)
    return values[0] if kept == 1 else tuple(values[:kept]) if kept else NOTHING


class _Argument(Frozen):
    """An argument of a user function with its syntax, for messages."""

    operand: Operand
    node: ast.expr


def _called(ctx: Context, gradient: GradientOf, node: ast.Call) -> tuple[ir.Function, list[Operand]]:
    """The function of which ``gradient`` is the gradient, for the arguments of ``node``, and these arguments."""
    of = gradient.function
    if isinstance(of, Function):
        function, args = _user_function(ctx, of, node)
        return derivatives.flattened(ctx, function), args
    if isinstance(of, GradientOf):
        primal, args = _called(ctx, of, node)
        return derivatives.gradient_of(ctx, primal), args
    return derivatives.builtin_primal(ctx, of.name, node)


def _user_function(ctx: Context, function: Function, node: ast.Call) -> tuple[ir.Function, list[Operand]]:
    """The overload of a user function that takes the arguments of a call, built for these, and the arguments."""
    args = [_Argument(constants.opened(ctx, ctx.expr(a)), a) for a in node.args]
    keywords = {k.arg: _Argument(constants.opened(ctx, ctx.expr(k.value)), k.value) for k in node.keywords if k.arg}
    try:
        for overload in function.overloads:
            overload.types  # noqa: B018  (raises where a parameter can't be understood)
    except WarpCodegenError as error:
        raise _inside_call(error) from None
    overload, placed = _choose(ctx, function, args, keywords)
    given: list[Given] = []
    operands: list[Operand] = []
    for name, t, arg in zip(overload.params, overload.types, placed, strict=True):
        if isinstance(arg, Default):
            operand = constants.opened(ctx, constants.from_host(ctx, arg.value, f"{name}={arg.value!r}"))
        else:
            operand = arg.operand
        passed = _passed(ctx, operand, t, overload.annotation(name), f"argument `{name}`")
        if isinstance(passed, Value):
            local_arrays.require_shape(overload.annotation(name), name, passed)
        given.append(_given(passed))
        operands.append(passed)
    try:
        callee = ctx.session.call(ctx.session, overload, tuple(given))
    except WarpCodegenError as error:
        raise _inside_call(error) from None
    return callee, operands


def _passed(ctx: Context, operand: Operand, t: Type | None, annotation: Any, what: str) -> Operand:
    """An argument as its parameter takes it, of type ``t`` where that is known: literals are values then."""
    if isinstance(operand, Host):
        require_bindable(operand)
        return operand
    if isinstance(operand, tuple):
        parts = tuple_parts(annotation) or (Any,) * len(operand)
        return tuple(_passed(ctx, x, parameter_type(p), p, what) for x, p in zip(operand, parts, strict=True))
    return ctx.convert(operand, t, what) if t is not None else ctx.settle(operand)


def _given(operand: Operand) -> Given:
    if isinstance(operand, tuple):
        return tuple(map(_given, operand))
    if isinstance(operand, Value):
        return operand.type
    assert isinstance(operand, Host)
    return operand


def _inside_call(error: WarpCodegenError) -> WarpCodegenError:
    """Return an error of a called function with the place of the call put before its own."""
    here = current_loc()
    return type(error)(error.reason, error.loc.called_from(here) if error.loc is not None else here, error.help)


def _choose(
    ctx: Context, function: Function, args: list[_Argument], keywords: dict[str, _Argument]
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


def _refuse(ctx: Context, function: Function, args: list[_Argument], keywords: dict[str, _Argument]) -> NoReturn:
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
    function: Function, args: list[_Argument], keywords: dict[str, _Argument], takes: str
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


def _conversion(overload: Overload, name: str, arg: _Argument) -> str | None:
    """The argument with the cast that it needs."""
    t = overload.types[overload.params.index(name)]
    if isinstance(t, Scalar) and isinstance(type_of(arg.operand), Scalar):
        return f"{cast_name(t)}({ast.unparse(arg.node)})"
    return None
