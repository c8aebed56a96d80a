"""Walks that the threads of a block make together: each step finds one item for each thread.

All threads know where the walk is, and go on in the same way, so a step is a loop over their number, which the block
makes once. Where a block is one thread, it is the step of a plain walk.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import cast

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend.arguments import require_assignable
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand, describe
from warp_like.frontend.tiles.arguments import Arguments
from warp_like.ir.core import Block, Value
from warp_like.ir.objects import TILED_QUERY
from warp_like.ir.types import Tile, bool_, int32

NONE = -1


def _next(name: str) -> Callable[[Context, ast.Call], Operand]:
    def build(ctx: Context, node: ast.Call) -> Operand:
        target = Arguments(ctx, node, name, "query", 1)["query"]
        operand = ctx.expr(target)
        if not (isinstance(target, ast.Name) and isinstance(operand, Value) and operand.type == TILED_QUERY):
            with ctx.at(target):
                raise WarpCodegenTypeError(
                    f"{name}() takes a variable that holds a query of the block, got {describe(operand)}",
                    help="query = wp.tile_bvh_query_aabb(...)",
                )
        require_assignable(ctx, name)
        walk, found = _step(ctx, ctx.b.get_field(operand, 0))
        some = ctx.apply("ge", ctx.b.extract(found, 0), ctx.b.index(0))
        assert isinstance(some, Value)
        ctx.bind(target.id, ctx.b.make(TILED_QUERY, [walk, some]), target)
        return found

    return build


def _step(ctx: Context, walk: Value) -> tuple[Value, Value]:
    """Go on with a walk; return where it is then, and the items: those that there are come first."""
    b, count = ctx.b, ctx.session.block_dim
    t = Tile((count,), int32)
    if count == 1:
        _, walk, item = _item(ctx, walk)
        return walk, b.fill(t, item)
    start = [b.index(0), b.constant(True, bool_), walk, b.fill(t, b.index(NONE))]
    with b.into(Block([Value(v.type) for v in start])) as cond:
        n, going, *_ = cond.params
        b.yield_(b.bit_and(going, b.lt(n, count)))
    with b.into(Block([Value(v.type) for v in start])) as body:
        n, _, now, items = body.params
        there, then, item = _item(ctx, now)
        b.yield_(b.add(n, 1), there, then, b.insert_component(items, item, n))
    _, _, walk, items = b.while_(start, cond, body)
    return walk, items


def _item(ctx: Context, walk: Value) -> tuple[Value, Value, Value]:
    """Whether there is a next item, where the walk is then, and the item."""
    found = ctx.apply("bvh_query_next", walk, ctx.b.index(NONE), Literal(math.inf))
    return cast("tuple[Value, Value, Value]", found)


HANDLERS = {
    name: _next(name)
    for name in (
        *("tile_bvh_query_next", "bvh_query_next_tiled"),
        *("tile_mesh_query_aabb_next", "mesh_query_aabb_next_tiled"),
    )
}
