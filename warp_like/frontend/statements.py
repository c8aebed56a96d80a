"""Statements that neither assign nor branch, and those that end a block."""

from __future__ import annotations

import ast

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.base.loc import current_loc
from warp_like.frontend.context import Context, Returns, statement, with_article
from warp_like.frontend.flow import Flow
from warp_like.frontend.host import Host
from warp_like.frontend.operands import NOTHING, Operand, describe, require_value_kind
from warp_like.ir.core import Value


@statement(ast.Expr)
def build_expression(ctx: Context, node: ast.Expr) -> None:
    """A call for what it does, or a docstring."""
    if not isinstance(node.value, ast.Constant):
        ctx.expr(node.value)


@statement(ast.Pass)
def build_pass(ctx: Context, node: ast.Pass) -> None:
    """Nothing."""


@statement(ast.Break)
def build_break(ctx: Context, node: ast.Break) -> Flow:
    """Leave the innermost loop."""
    return Flow(breaks=True)


@statement(ast.Continue)
def build_continue(ctx: Context, node: ast.Continue) -> Flow:
    """Go on with the next iteration."""
    return Flow(continues=True)


@statement(ast.Return)
def build_return(ctx: Context, node: ast.Return) -> Flow:
    """Leave the function, with values."""
    is_nothing = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    operand: Operand = NOTHING if is_nothing or node.value is None else ctx.expr(node.value)
    if operand != NOTHING and ctx.source.role == "kernel":
        raise WarpCodegenTypeError("a kernel returns nothing", help="write the value to an array argument")
    given = [_returned(o) for o in (operand if isinstance(operand, tuple) else (operand,))]
    references = (ctx.scope.read(name) for name in ctx.references)
    return Flow(returns=True, results=(*_settle(ctx, given), *(r for r in references if r is not None)))


def _returned(operand: Operand) -> Operand:
    if isinstance(operand, Host):
        raise WarpCodegenTypeError(f"a function returns values, got {describe(operand)}")
    return require_value_kind(operand)


def _settle(ctx: Context, given: list[Operand]) -> list[Operand]:
    """Check what is returned against the annotation and the other returns; literals stay as they are."""
    r = ctx.returns
    if r.types is None:
        r.types, r.loc = [None] * len(given), current_loc()
    if len(r.types) != len(given):
        here, there = _count(len(given)), _count(len(r.types))
        what = (
            "its annotation says" if r.annotated else f"line {r.loc.line} returns" if r.loc else "another return gives"
        )
        raise WarpCodegenTypeError(f"`{ctx.source.name}` returns {here} here, and {what} {there}")
    return [_one(ctx, r, k, operand) for k, operand in enumerate(given)]


def _one(ctx: Context, r: Returns, k: int, operand: Operand) -> Operand:
    assert r.types is not None
    expected = r.types[k]
    if expected is None:
        if isinstance(operand, Value):
            r.types[k], r.loc = operand.type, current_loc()
        return operand
    if ctx.fits(operand, expected):
        return ctx.convert(operand, expected, "")
    what = "its annotation says" if r.annotated else f"line {r.loc.line} returns" if r.loc else "another return gives"
    given = describe(operand)
    raise WarpCodegenTypeError(
        f"`{ctx.source.name}` returns {with_article(given) if isinstance(operand, Value) else given} here, "
        f"and {what} {with_article(str(expected))}",
        help="return the same type on every path",
    )


def _count(n: int) -> str:
    return "nothing" if n == 0 else "1 value" if n == 1 else f"{n} values"
