"""Values of volumes in kernels: their types, and reading and writing them at byte offsets."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.arguments import arguments, type_argument
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.layout import size_of
from warp_like.ir.objects import GRID_TYPES
from warp_like.ir.types import Array, Scalar, Type, Vec, float32, int32, int64, scalar_of

_EXTENT = 1 << 40
_MAP = {32: 74, 64: 48}
"""Where the map of a grid stands, in numbers of so many bits."""


def _elements(ctx: Context, grid: Value, t: Type) -> Value:
    """The grid's memory as elements of ``t``, which kernels may write."""
    made = ops.AtAddress(grid, (ctx.b.constant(_EXTENT, int64),))
    return ctx.b.insert(made, Array(t, 1)).result


def _places(ctx: Context, node: ast.Call) -> tuple[Value, list[Value], Value]:
    """The array and the indices of the components of the value at a byte offset, and the third argument."""
    grid, at, like = (ctx.value(a) for a in node.args)
    scalar = scalar_of(like.type)
    assert scalar is not None
    first = ctx.b.div(at, ctx.b.constant(size_of(scalar), int64))
    count = like.type.length if isinstance(like.type, Vec) else 1
    indices = [ctx.b.add(first, ctx.b.constant(c, int64)) for c in range(count)]
    return _elements(ctx, grid, scalar), indices, like


def _value_at(ctx: Context, node: ast.Call) -> Operand:
    """Read the value at a byte offset, of the type of another one: ``_value_at(grid, at, zero)``."""
    array, indices, like = _places(ctx, node)
    parts = [ctx.b.load(array, [i]) for i in indices]
    return parts[0] if isinstance(like.type, Scalar) else ctx.b.make(like.type, parts)


def _store_at(ctx: Context, node: ast.Call) -> Operand:
    """Write a value at a byte offset: ``_store_at(grid, at, value)``."""
    array, indices, value = _places(ctx, node)
    parts = [value] if isinstance(value.type, Scalar) else ctx.b.components(value)
    for i, part in zip(indices, parts, strict=True):
        ctx.b.store(array, [i], part)
    return ()


def _scaled(ctx: Context, node: ast.Call) -> Operand:
    """Multiply a value with a float32, in the value's precision."""
    value, weight = (ctx.value(a) for a in node.args)
    scalar = scalar_of(value.type)
    assert scalar is not None
    return ctx.apply("mul", value, ctx.b.cast(weight, scalar))


def _map_at(ctx: Context, node: ast.Call) -> Operand:
    """Read a number of the map of a grid, in the precision of a vector: ``_map_at(grid, n, x)``."""
    grid, n, like = (ctx.value(a) for a in node.args)
    scalar = scalar_of(like.type)
    assert scalar is not None
    made = ops.AtAddress(grid, (ctx.b.constant(_EXTENT, int64),), constant=True)
    array = ctx.b.insert(made, Array(scalar, 1)).result
    return ctx.b.load(array, [ctx.b.add(n, ctx.b.constant(_MAP[scalar.bits], int64))])


def _grid_type(ctx: Context, name: str, t: Type, node: ast.expr) -> Value:
    number = GRID_TYPES.get(t)
    if number is None:
        with ctx.at(node):
            raise WarpCodegenTypeError(f"{name}(): a volume has no values of type {t}")
    return ctx.b.constant(number, int32)


def _given(ctx: Context, node: ast.Call, name: str, *params: str) -> dict[str, ast.expr]:
    return arguments(node, name, params, len(params))


def _lookup(ctx: Context, node: ast.Call) -> Operand:
    given = _given(ctx, node, "volume_lookup", "id", "i", "j", "k", "dtype")
    t = type_argument(ctx, given["dtype"], "dtype")
    number = _grid_type(ctx, "volume_lookup", t, given["dtype"])
    return ctx.apply("_volume_lookup", *_place(ctx, given), number, ctx.b.zero(t))


def _store(ctx: Context, node: ast.Call) -> Operand:
    given = _given(ctx, node, "volume_store", "id", "i", "j", "k", "value")
    value = ctx.value(given["value"])
    number = _grid_type(ctx, "volume_store", value.type, given["value"])
    return ctx.apply("_volume_store", *_place(ctx, given), number, value)


def _place(ctx: Context, given: dict[str, ast.expr]) -> list[Value]:
    indices = [ctx.convert(ctx.expr(given[p]), int32, f"`{p}`", given[p]) for p in "ijk"]
    return [ctx.value(given["id"]), *indices]


def _sample(ctx: Context, node: ast.Call) -> Operand:
    given = _given(ctx, node, "volume_sample", "id", "uvw", "sampling_mode", "dtype")
    t = type_argument(ctx, given["dtype"], "dtype")
    number = _grid_type(ctx, "volume_sample", t, given["dtype"])
    mode = ctx.convert(ctx.expr(given["sampling_mode"]), int32, "`sampling_mode`", given["sampling_mode"])
    uvw = ctx.convert(ctx.expr(given["uvw"]), Vec(3, float32), "`uvw`", given["uvw"])
    scalar = scalar_of(t)
    assert scalar is not None
    if not scalar.is_float:
        return ctx.apply("_volume_sample_closest", ctx.value(given["id"]), uvw, number, ctx.b.zero(t))
    return ctx.apply("_volume_sample", ctx.value(given["id"]), uvw, mode, number, ctx.b.zero(t))


HANDLERS: dict[str, Callable[[Context, ast.Call], Operand]] = {
    "_value_at": _value_at,
    "_store_at": _store_at,
    "_scaled": _scaled,
    "_map_at": _map_at,
    "volume_lookup": _lookup,
    "volume_store": _store,
    "volume_sample": _sample,
}
