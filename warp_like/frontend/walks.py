"""Walks through what a query of geometry finds, as ``for`` loops: ``for j in wp.hash_grid_query(grid, x, radius)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context
from warp_like.frontend.objects import constant_at
from warp_like.frontend.operands import Operand
from warp_like.frontend.ranges import Counted, Walk
from warp_like.ir.core import Value
from warp_like.ir.objects import BVH_QUERY, HASH_GRID_QUERY, MESH_SPHERE_QUERY
from warp_like.ir.types import Struct, Type, int32


def walk(ctx: Context, query: Value) -> Walk | None:
    """Return the walk that ``query`` begins; None where it is another value."""
    make = _WALKS.get(query.type)
    return None if make is None else make(ctx, query)


def _results(operand: Operand) -> list[Value]:
    return list(cast("tuple[Value, ...]", operand))


def _field(ctx: Context, query: Value, name: str) -> Value:
    assert isinstance(query.type, Struct)
    return ctx.b.get_field(query, [field for field, _ in query.type.fields].index(name))


def _hash_grid(ctx: Context, query: Value) -> Walk:
    """Rows of cells have their points in one range each."""

    def counted(row: Value) -> Counted:
        ids = _field(ctx, row, "ids")
        first, end = (_field(ctx, row, name) for name in ("current", "end"))
        return Counted(first, end, ctx.b.index(1), lambda k: constant_at(ctx, ids, k, int32))

    def row(name: str) -> Callable[[Value], list[Value]]:
        return lambda q: _results(ctx.apply(name, q))

    return Walk(
        query,
        lambda q: _results(ctx.apply("hash_grid_query_next", q, ctx.b.index(0))),
        (row("_hash_grid_first_row"), row("_hash_grid_next_row"), counted),
    )


def _bvh(ctx: Context, query: Value) -> Walk:
    return Walk(query, lambda q: _results(ctx.apply("bvh_query_next", q, ctx.b.index(0), Literal(math.inf))))


def _mesh_sphere(ctx: Context, query: Value) -> Walk:
    return Walk(query, lambda q: _results(ctx.apply("mesh_query_next", q, ctx.b.index(0))))


_WALKS: dict[Type, Callable[[Context, Value], Walk]] = {
    HASH_GRID_QUERY: _hash_grid,
    BVH_QUERY: _bvh,
    MESH_SPHERE_QUERY: _mesh_sphere,
}
