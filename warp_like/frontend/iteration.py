"""The range of a ``for`` loop: counted at run time, or items that are known when the kernel is built.

``range``, arrays, vectors and matrices are ``Counted``: an index with its bounds, and what the loop's target is at an
index. Tuples and lists from outside of the kernel are ``Items``, which may differ in type, so their loop is unrolled.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError, WarpCodegenValueError
from warp_like.builtins.patterns import Literal
from warp_like.builtins.trips import trip_count
from warp_like.frontend import constants, indexed_arrays, indexing, statics, walks
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import Host, builtin_name
from warp_like.frontend.operands import Operand, describe
from warp_like.frontend.ranges import Counted, Items, Walk
from warp_like.frontend.syntax import all_nodes
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Aggregate, Array, IndexedArray, Scalar, Type, element_shape, int32, int64


def iterated(ctx: Context, node: ast.expr) -> Counted | Items | Walk:
    """Return what ``for ... in node`` runs over.

    Raises:
        WarpCodegenError: Nothing that a loop can run over.
    """
    call = _loop_call(ctx, node)
    with ctx.at(node):
        if isinstance(node, ast.Call) and call == "range":
            return Counted(*_range(ctx, node))
        if isinstance(node, ast.Call) and call == "reversed":
            if len(node.args) != 1 or node.keywords:
                raise WarpCodegenError("reversed() takes one argument", help="for i in reversed(range(n))")
            return _reversed(ctx, iterated(ctx, node.args[0]))
        operand = ctx.expr(node)
        if isinstance(operand, Value) and (walk := walks.walk(ctx, operand)) is not None:
            return walk
        if isinstance(operand, Value):
            return _elements(ctx, operand)
        if isinstance(operand, tuple):
            return Items(operand)
        if isinstance(operand, Host) and isinstance(operand.obj, (tuple, list, dict, range)):
            texts = ((item, f"{operand.text}[{k}]") for k, item in enumerate(operand.obj))
            return Items(tuple(constants.from_host(ctx, item, text) for item, text in texts))
        raise _no_iteration(operand)


def _loop_call(ctx: Context, node: ast.expr) -> str | None:
    """The name of the builtin that ``node`` calls, where it makes sense in loops alone."""
    callee = ctx.expr(node.func) if isinstance(node, ast.Call) else None
    name = builtin_name(callee.obj) if isinstance(callee, Host) else None
    return name if name in ("range", "reversed") else None


def _no_iteration(operand: Operand) -> WarpCodegenTypeError:
    given = with_article(describe(operand)) if isinstance(operand, Value) else describe(operand)
    return WarpCodegenTypeError(
        f"a for loop can't run over {given}",
        help="it runs over range(...), arrays, vectors, rows of matrices, tuples, and lists from outside of the kernel",
    )


def _elements(ctx: Context, value: Value) -> Counted:
    """The elements of an array, the components of a vector, or the rows of a matrix."""
    zero, one = ctx.b.index(0), ctx.b.index(1)
    match value.type:
        case Array():
            return Counted(zero, ctx.b.dim(value, 0), one, lambda i: indexing.read(ctx, value, [i]))
        case IndexedArray():
            extent = indexed_arrays.shape(ctx, value)[0]
            return Counted(zero, extent, one, lambda i: indexed_arrays.read(ctx, value, [i]))
        case t if isinstance(t, Aggregate):
            return Counted(zero, ctx.b.index(element_shape(t)[0]), one, lambda i: ctx.b.extract(value, i))
    raise _no_iteration(value)


def _reversed(ctx: Context, over: Counted | Items | Walk) -> Counted | Items | Walk:
    """The same the other way round: from the last index that is reached to the first one."""
    if isinstance(over, Walk):
        return over  # what a query finds comes in no order that programs may rely on, here as in Warp
    if isinstance(over, Items):
        return Items(over.items[::-1])
    b, t = ctx.b, over.lo.type
    count = trip_count(b, over.lo, over.hi, over.step)

    def item(k: Value) -> Operand:
        number = b.cast(b.apply("sub", b.apply("sub", count, 1), k), t)
        return over.item(b.apply("add", over.lo, b.apply("mul", number, over.step)))

    return Counted(b.constant(0, count.type), count, b.constant(1, count.type), item)


# --- range ---


def _range(ctx: Context, node: ast.Call) -> tuple[Value, Value, Value]:
    """The bounds and the step of ``range(...)``, of one integer type."""
    if node.keywords or not 1 <= len(node.args) <= 3:
        count = len(node.args) + len(node.keywords)
        raise WarpCodegenError(
            f"range() takes 1 to 3 arguments by position, got {count}",
            help="range(stop) or range(start, stop, step)",
        )
    given = [ctx.index(a, "an argument of range()") for a in node.args]
    lo, hi, step = [Literal(0), given[0], Literal(1)] if len(given) == 1 else [*given, Literal(1)][:3]
    lo, hi, step = _one_type(ctx, [lo, hi, step])
    if ops.constant_value(step) == 0:  # one that is 0 at run time makes the loop run zero times
        raise WarpCodegenValueError("the step of range() is 0, which never ends", help="use 1 or -1")
    return lo, hi, step


def _one_type(ctx: Context, bounds: list[Value | Literal]) -> list[Value]:
    types = list(dict.fromkeys(v.type for v in bounds if isinstance(v, Value)))
    if ctx.session.wide and set(types) == {int32, int64}:
        types = [int64]
    if len(types) > 1:
        shown = " and ".join(map(str, types))
        raise WarpCodegenTypeError(
            f"range() does not mix types: {shown}", help=f"convert one of them, e.g. wp.{types[-1]}(...)"
        )
    t: Type = types[0] if types else _widest([v.default for v in bounds if isinstance(v, Literal)])
    return [ctx.convert(v, t, "an argument of range()") for v in bounds]


def _widest(types: Sequence[Scalar]) -> Scalar:
    return max(types, key=lambda t: (t.bits, not t.is_signed)) if types else int32


# --- loops whose index is known in each iteration ---


def static_values(ctx: Context, node: ast.For) -> list[Any] | None:
    """Return what a loop assigns whose index ``wp.static`` uses or selects from a tuple; None for any other loop."""
    if not isinstance(node.target, ast.Name):
        return None
    name = node.target.id
    if not statics.uses(ctx.source, node.body, name) and not _selects_from_tuple(ctx, node.body, name):
        return None
    return statics.loop_values(ctx.source, statics.known_locals(ctx), node, statics.with_lengths(ctx, node.iter))


def _selects_from_tuple(ctx: Context, body: Sequence[ast.stmt], name: str) -> bool:
    """Whether ``t[name]`` stands in a loop, for a tuple ``t``, whose members have types of their own."""
    selected = (n for s in body for n in all_nodes(s) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name))
    for node in selected:
        held = ctx.scope.variable(node.value.id)  # type: ignore[attr-defined]
        if held is not None and isinstance(held.value, tuple) and statics.mentions(node.slice, name):
            return True
    return False
