"""The arguments of builtins that the frontend builds itself, taken from the syntax of a call."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context
from warp_like.frontend.host import Host, type_named
from warp_like.frontend.operands import describe
from warp_like.ir.types import Scalar, Type


def arguments(node: ast.Call, name: str, params: Sequence[str], required: int) -> dict[str, ast.expr]:
    """Return the arguments of a call by parameter.

    Raises:
        WarpCodegenTypeError: Too many, too few, or one that does not exist.
    """
    signature = f"wp.{name}({', '.join(params)})"
    if len(node.args) > len(params):
        raise WarpCodegenTypeError(f"{name}() takes {len(params)} arguments, got {len(node.args)}", help=signature)
    found = dict(zip(params, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in params or keyword.arg in found:
            problem = "gets" if keyword.arg in found else "has no argument"
            twice = " twice" if keyword.arg in found else ""
            raise WarpCodegenTypeError(f"{name}() {problem} `{keyword.arg}`{twice}", help=signature)
        found[str(keyword.arg)] = keyword.value
    missing = [p for p in params[:required] if p not in found]
    if missing:
        raise WarpCodegenTypeError(f"{name}() is missing argument `{missing[0]}`", help=signature)
    return found


def require_assignable(ctx: Context, name: str) -> None:
    """Refuse a builtin that changes a variable where nothing may be assigned."""
    if ctx.no_assignment:
        raise WarpCodegenError(
            f"{name}() changes a variable, so it can't stand {ctx.no_assignment}",
            help="call it in a statement of its own before",
        )


def type_argument(ctx: Context, node: ast.expr, what: str) -> Type:
    """Return the type that an argument names."""
    operand = ctx.type_meant(ctx.expr(node), node)
    with ctx.at(node):
        t = type_named(operand) if isinstance(operand, Host) else None
        if t is None:
            raise WarpCodegenTypeError(f"{what} is a type, got {describe(operand)}")
        return t


def scalar_argument(ctx: Context, node: ast.expr, what: str) -> Scalar:
    """Return the scalar type that an argument names."""
    t = type_argument(ctx, node, what)
    if not isinstance(t, Scalar):
        with ctx.at(node):
            raise WarpCodegenTypeError(f"{what} is a scalar type, got {t}")
    return t


def count_argument(ctx: Context, node: ast.expr, what: str, least: int = 1) -> int:
    """Return a number, from ``least`` on, that is known when the kernel is compiled."""
    operand = ctx.expr(node)
    with ctx.at(node):
        if not isinstance(operand, Literal) or type(operand.value) is not int or operand.value < least:
            raise WarpCodegenTypeError(f"{what} is a positive constant, got {describe(operand)}")
        return operand.value


def options_of(node: ast.Call, name: str, allowed: tuple[str, ...]) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call that takes its parts by position."""
    for k in node.keywords:
        if k.arg not in allowed:
            raise WarpCodegenTypeError(f"{name}() has no argument `{k.arg}`", help=f"it has {' and '.join(allowed)}")
    return {str(k.arg): k.value for k in node.keywords}


def positional_only(node: ast.Call, name: str) -> list[ast.expr]:
    """Return the arguments of a call that takes no keywords."""
    if node.keywords:
        raise WarpCodegenTypeError(f"{name}() has no argument `{node.keywords[0].arg}`")
    return node.args


def by_form(
    node: ast.Call, name: str, forms: Sequence[tuple[str, ...]], options: tuple[str, ...]
) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    """Return the parts of a call, by position or by the names of one of its ``forms``, and its ``options``.

    Raises:
        WarpCodegenTypeError: The names fit no form.
    """
    named = {str(k.arg): k.value for k in node.keywords}
    found = {o: named.pop(o) for o in options if o in named}
    for form in forms:
        rest = form[len(node.args) :]
        if named and len(node.args) <= len(form) and set(named) == set(rest):
            return [*node.args, *(named[p] for p in rest)], found
    if not named:
        return list(node.args), found
    help = " or ".join(f"wp.{name}({', '.join(form)})" for form in forms)
    unknown = [p for p in named if all(p not in form for form in forms)]
    if unknown:
        raise WarpCodegenTypeError(f"{name}() has no argument `{unknown[0]}`", help=help)
    given = ", ".join([f"{len(node.args)} by position"] * bool(node.args) + [f"`{p}`" for p in named])
    raise WarpCodegenTypeError(f"{name}() has no form with these arguments: {given}", help=help)
