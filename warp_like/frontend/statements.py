"""Statements that neither assign nor branch, and those that end a block."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.base.loc import current_loc
from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context, Returns, statement, with_article
from warp_like.frontend.flow import Flow, never_falls
from warp_like.frontend.host import Host
from warp_like.frontend.operands import (
    NOTHING,
    Nesting,
    Operand,
    describe,
    leaves,
    nesting_of,
    require_value_kind,
)
from warp_like.frontend.syntax import all_nodes
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import bool_


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


class End(ast.Return):
    """The end of a function that returns values elsewhere, as a statement: they are zero where it is reached."""


def ended(body: Sequence[ast.stmt], references: Sequence[str]) -> list[ast.stmt]:
    """Return the body of a function with its end as a statement, where the end matters."""
    returns = (n for s in body for n in all_nodes(s) if isinstance(n, ast.Return))
    if never_falls(body) or not (references or any(n.value is not None for n in returns)):
        return list(body)
    return [*body, ast.copy_location(End(None), body[-1])]


@statement(End)
def build_end(ctx: Context, node: End) -> Flow:
    """Return zeros, which debug mode reports."""
    types = ctx.returns.types or ()
    if types:
        text = f"`{ctx.source.name}` ends without a value to return"
        ctx.b.insert(ops.Check("unassigned", text, ctx.b.constant(False, bool_), ()))
    zeros = [Literal(0) if t is None else ctx.zero(t) for t in types]
    return Flow(returns=True, results=(*zeros, *_references(ctx)))


def _references(ctx: Context) -> list[Operand]:
    """What the parameters hold that the function was given by reference."""
    return [r for name in ctx.references if (r := ctx.read(name)) is not None]


@statement(ast.Return)
def build_return(ctx: Context, node: ast.Return) -> Flow:
    """Leave the function, with values."""
    is_nothing = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    operand: Operand = NOTHING if is_nothing or node.value is None else ctx.expr(node.value)
    if operand != NOTHING and ctx.source.role == "kernel":
        raise WarpCodegenTypeError("a kernel returns nothing", help="write the value to an array argument")
    parts = operand if isinstance(operand, tuple) else (operand,)
    given = [_returned(o) for part in parts for o in leaves(part)]
    results = _settle(ctx, given, tuple(map(nesting_of, parts)))
    return Flow(returns=True, results=(*results, *_references(ctx)))


def _returned(operand: Operand) -> Operand:
    if isinstance(operand, Host):
        raise WarpCodegenTypeError(f"a function returns values, got {describe(operand)}")
    return require_value_kind(operand)


def _settle(ctx: Context, given: list[Operand], nesting: tuple[Nesting, ...]) -> list[Operand]:
    """Check what is returned against the annotation and the other returns; literals stay as they are."""
    r = ctx.returns
    if r.types is None:
        r.types, r.loc, r.nesting = [None] * len(given), current_loc(), nesting
    if nesting != r.nesting:
        plain = not any(isinstance(part, tuple) for part in (*nesting, *r.nesting))
        here, there = (_count(len(n)) if plain else f"`{_nested_text(n)}`" for n in (nesting, r.nesting))
        what = (
            "its annotation says" if r.annotated else f"line {r.loc.line} returns" if r.loc else "another return gives"
        )
        raise WarpCodegenTypeError(f"`{ctx.source.name}` returns {here} here, and {what} {there}")
    return [_one(ctx, r, k, operand) for k, operand in enumerate(given)]


def _nested_text(nesting: Nesting) -> str:
    """Tuples with a dot for each value: ``(., (., .))``."""
    return "." if nesting is None else f"({', '.join(map(_nested_text, nesting))}{',' * (len(nesting) == 1)})"


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
