"""Calls: of builtins, of user functions, of types."""

from __future__ import annotations

import ast
from typing import Any

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.loc import current_loc
from warp_like.builtins.overload import NoMatch, Special
from warp_like.builtins.patterns import Literal
from warp_like.builtins.spec import REGISTRY, bind
from warp_like.frontend import constants, constructors, specials
from warp_like.frontend.context import Context, expression
from warp_like.frontend.function import Default, Function, Overload
from warp_like.frontend.operands import Host, Operand, describe, type_of
from warp_like.ir.core import Value


@expression(ast.Call)
def build_call(ctx: Context, node: ast.Call) -> Operand:
    """``f(...)``."""
    callee = ctx.expr(node.func)
    if not isinstance(callee, Host):
        raise WarpCodegenTypeError(f"{describe(callee)} can't be called")
    name = constants.builtin_name(callee.obj)
    if name == "static":
        return specials.static(ctx, node)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise WarpCodegenError("`**` can't unpack in kernel code", help="name each argument")
    if name is not None:
        return _builtin(ctx, name, node)
    if isinstance(callee.obj, Function):
        args = [ctx.expr(a) for a in node.args]
        keywords = {k.arg: ctx.expr(k.value) for k in node.keywords if k.arg}
        return user_function(ctx, callee.obj, args, keywords)
    t = constants.type_named(callee) if constants.names_type(callee.obj) else None
    if t is not None:
        if node.keywords:
            raise WarpCodegenTypeError(f"{callee.text}() takes its arguments by position")
        return constructors.construct(ctx, t, [ctx.expr(a) for a in node.args], node.args)
    raise _not_callable(callee)


def _not_callable(callee: Host) -> WarpCodegenError:
    if callable(callee.obj):
        return WarpCodegenTypeError(
            f"`{callee.text}` is a Python function, which kernel code can't call",
            help="decorate it with @wp.func, or evaluate it when the kernel is compiled: wp.static(...)",
        )
    return constants.not_a_value(callee)


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
            if isinstance(operand, Host):
                raise constants.not_a_value(operand)
    return ctx.apply(name, *bound, nodes=nodes)


def user_function(
    ctx: Context, function: Function, args: list[Operand], keywords: dict[str, Operand]
) -> Operand:
    """Call the overload of a user function that takes the arguments."""
    overload, placed = _choose(ctx, function, args, keywords)
    given: list[Any] = []
    values: list[Value] = []
    for name, t, arg in zip(overload.params, overload.types, placed, strict=True):
        operand = (
            constants.from_host(ctx, arg.value, f"{name}={arg.value!r}") if isinstance(arg, Default) else arg
        )
        if isinstance(operand, Host):
            given.append(operand.obj)
            continue
        value = ctx.convert(operand, t, f"argument `{name}`") if t is not None else ctx.settle(operand)
        given.append(value.type)
        values.append(value)
    try:
        callee = ctx.session.call(overload, tuple(given))
    except WarpCodegenError as error:
        raise inside_call(error) from None
    return ctx.call(callee, values)


def inside_call(error: WarpCodegenError) -> WarpCodegenError:
    """Return an error of a called function with the place of the call put before its own."""
    here = current_loc()
    return type(error)(
        error.reason, error.loc.called_from(here) if error.loc is not None else here, error.help
    )


def _choose(
    ctx: Context, function: Function, args: list[Operand], keywords: dict[str, Operand]
) -> tuple[Overload, list[Any]]:
    """The overload that fits best, and its arguments in order."""
    best: tuple[int, Overload, list[Any]] | None = None
    placed_any = False
    for overload in function.overloads:
        placed = overload.place(args, keywords)
        if placed is None:
            continue
        placed_any = True
        cost = _cost(ctx, overload, placed)
        if cost is not None and (best is None or cost < best[0]):
            best = cost, overload, placed
    if best is None:
        raise _no_overload(function, args, keywords, placed_any)
    return best[1], best[2]


def _cost(ctx: Context, overload: Overload, placed: list[Any]) -> int | None:
    total = 0
    for name, t, arg in zip(overload.params, overload.types, placed, strict=True):
        if isinstance(arg, Default):
            continue
        if isinstance(arg, tuple):
            return None
        cost = overload.accepts(name, type_of(arg))
        if cost is None and t is not None and ctx.fits(arg, t):
            cost = 3
        if cost is None:
            return None
        total += cost * 100 if cost == 2 else cost
    return total


def _no_overload(
    function: Function, args: list[Operand], keywords: dict[str, Operand], placed: bool
) -> WarpCodegenTypeError:
    takes = " or ".join(o.signature() for o in function.overloads)
    if not placed:
        given = ", ".join([f"{len(args)} by position"] * bool(args) + [f"`{k}`" for k in keywords]) or "none"
        return WarpCodegenTypeError(f"{function.name}() does not take these arguments: {given}", help=takes)
    if len(function.overloads) == 1 and (problem := _first_problem(function.overloads[0], args, keywords)):
        return WarpCodegenTypeError(*problem[:1], help=problem[1])
    shown = [*(describe(a) for a in args), *(f"{k}={describe(v)}" for k, v in keywords.items())]
    return WarpCodegenTypeError(f"{function.name}() has no overload for ({', '.join(shown)})", help=takes)


def _first_problem(
    overload: Overload, args: list[Operand], keywords: dict[str, Operand]
) -> tuple[str, str] | None:
    placed = overload.place(args, keywords) or []
    for i, (name, t, arg) in enumerate(zip(overload.params, overload.types, placed, strict=True)):
        if isinstance(arg, Default):
            continue
        if isinstance(arg, tuple) or overload.accepts(name, type_of(arg)) is None:
            needs = (
                str(t)
                if t is not None
                else getattr(overload.annotation(name), "__name__", str(overload.annotation(name)))
            )
            return (
                f"{overload.source.name}() needs {needs} for argument {i + 1} `{name}`, got {describe(arg)}",
                overload.signature(),
            )
    return None


__all__ = ["Literal", "build_call", "inside_call", "user_function"]
