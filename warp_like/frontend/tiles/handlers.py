"""Builtins of tiles whose calls the frontend builds: they take shapes, functions, parts of tiles, or several forms."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.frontend.tiles import algebra, cooperation, making, maps, memory, parts, queries
from warp_like.ir import ops
from warp_like.ir.types import Tile

Handler = Callable[[Context, ast.Call], Operand]


def _of_the_block(build: Handler) -> Handler:
    """Let the loops of a builtin be work of the block, where it has several threads."""

    def built(ctx: Context, node: ast.Call) -> Operand:
        block, before = ctx.b.block, len(ctx.b.block.ops)
        made = build(ctx, node)
        if ctx.session.block_dim > 1:
            for o in block.ops[before:]:
                if isinstance(o, ops.For) and (not o.results or any(isinstance(r.type, Tile) for r in o.results)):
                    o.together = True
        return made

    return built


_BUILDERS: dict[str, Handler] = {
    **making.HANDLERS,
    **memory.HANDLERS,
    **parts.HANDLERS,
    **maps.HANDLERS,
    **algebra.HANDLERS,
    **cooperation.HANDLERS,
    **queries.HANDLERS,
}
HANDLERS = {name: _of_the_block(build) for name, build in _BUILDERS.items()}

__all__ = ["HANDLERS"]
