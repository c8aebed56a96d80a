"""Values of volumes in kernels: their types, and reading and writing them at byte offsets."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.arguments import arguments, require_assignable, type_argument
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.layout import size_of
from warp_like.ir.objects import GRID_TYPES
from warp_like.ir.types import Array, Mat, Scalar, Type, Vec, float32, int32, int64, scalar_of, uint64

_EXTENT = 1 << 40
_MAP = {32: 74, 64: 48}
"""Where the map of a grid stands, in numbers of so many bits."""


def _elements(ctx: Context, grid: Value, t: Type, *gradient: Value) -> Value:
    """The grid's memory as elements of ``t``, which kernels may write."""
    made = ops.AtAddress(grid, (ctx.b.constant(_EXTENT, int64),), gradient)
    return ctx.b.insert(made, Array(t, 1)).result


def _scalar(t: Type) -> Scalar:
    scalar = scalar_of(t)
    assert scalar is not None
    return scalar


def _size_in_bits(t: Type) -> int:
    """The size of a scalar of a value, as a power of 2."""
    return size_of(_scalar(t)).bit_length() - 1


def _index(ctx: Context, at: Value, t: Type) -> Value:
    """The index of the scalar at a byte offset; unsigned, as it does not count from the end."""
    found = ctx.apply("rshift", ctx.b.cast(at, uint64), ctx.b.constant(_size_in_bits(t), uint64))
    assert isinstance(found, Value)
    return found


def _read(ctx: Context, array: Value, first: Value, t: Type) -> Value:
    """Read the value of ``t`` whose first component has an index."""
    count = t.length if isinstance(t, Vec) else 1
    parts = [ctx.b.load(array, [ctx.b.add(first, ctx.b.constant(c, uint64))]) for c in range(count)]
    return parts[0] if isinstance(t, Scalar) else ctx.b.make(t, parts)


def _graded(ctx: Context, grid: Value, gradient: Value, t: Type) -> Value:
    scalar = _scalar(t)
    return _elements(ctx, grid, scalar, *((gradient,) if scalar.is_float else ()))


def _value_at(ctx: Context, node: ast.Call) -> Operand:
    """Read the value at a byte offset, of the type of another one: ``_value_at(grid, gradient, at, zero)``."""
    grid, gradient, at, like = (ctx.value(a) for a in node.args)
    return _read(ctx, _graded(ctx, grid, gradient, like.type), _index(ctx, at, like.type), like.type)


def _size(ctx: Context, node: ast.Call) -> Operand:
    """The size of the scalars of a value, as a power of 2: ``_size_in_bits(zero)``."""
    return ctx.b.constant(_size_in_bits(ctx.value(node.args[0]).type), int32)


def _corners(ctx: Context, node: ast.Call) -> Operand:
    """Read eight values, given the indices of their first scalars: ``_corners(grid, gradient, at, zero)``."""
    grid, gradient, at, like = (ctx.value(a) for a in node.args)
    array = _graded(ctx, grid, gradient, like.type)
    return tuple(_read(ctx, array, first, like.type) for first in ctx.b.components(at))


def _store_at(ctx: Context, node: ast.Call) -> Operand:
    """Write a value at a byte offset: ``_store_at(grid, at, value)``."""
    grid, at, value = (ctx.value(a) for a in node.args)
    array, first = _elements(ctx, grid, _scalar(value.type)), _index(ctx, at, value.type)
    parts = [value] if isinstance(value.type, Scalar) else ctx.b.components(value)
    for c, part in enumerate(parts):
        ctx.b.store(array, [ctx.b.add(first, ctx.b.constant(c, uint64))], part)
    return ()


def _require_data(ctx: Context, node: ast.Call) -> Operand:
    """End the launch where an array has fewer elements than there are voxels: ``_require_data(count, data)``."""
    count, data = (ctx.value(a) for a in node.args)
    there = ctx.b.cast(ctx.b.dim(data, 0), int64)
    wanted = ctx.b.cast(count, int64)
    text = "`voxel_data` has {0} elements, and the volume has {1} voxels"
    ctx.b.insert(ops.Check("expect", text, ctx.b.le(wanted, there), (there, wanted)))
    return ()


def _scaled(ctx: Context, node: ast.Call) -> Operand:
    """Multiply a value with a float32, in the value's precision."""
    value, weight = (ctx.value(a) for a in node.args)
    return ctx.apply("mul", value, ctx.b.cast(weight, _scalar(value.type)))


def _map_at(ctx: Context, node: ast.Call) -> Operand:
    """Read a number of the map of a grid, in the precision of a vector: ``_map_at(grid, n, x)``."""
    grid, n, like = (ctx.value(a) for a in node.args)
    scalar = _scalar(like.type)
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


def _sampled(ctx: Context, name: str, given: dict[str, ast.expr], body: str) -> tuple[Type, Operand]:
    """The type of values, and what ``body`` gives; of integers, the nearest value."""
    t = type_argument(ctx, given["dtype"], "dtype")
    number = _grid_type(ctx, name, t, given["dtype"])
    mode = ctx.convert(ctx.expr(given["sampling_mode"]), int32, "`sampling_mode`", given["sampling_mode"])
    uvw = ctx.convert(ctx.expr(given["uvw"]), Vec(3, float32), "`uvw`", given["uvw"])
    id = ctx.value(given["id"])
    if not _scalar(t).is_float:
        return t, ctx.apply("_volume_sample_closest", id, uvw, number, ctx.b.zero(t))
    return t, ctx.apply(body, id, uvw, mode, number, ctx.b.zero(t))


def _sample(ctx: Context, node: ast.Call) -> Operand:
    given = _given(ctx, node, "volume_sample", "id", "uvw", "sampling_mode", "dtype")
    return _sampled(ctx, "volume_sample", given, "_volume_sample")[1]


def _sample_grad(ctx: Context, node: ast.Call) -> Operand:
    name = "volume_sample_grad"
    given = _given(ctx, node, name, "id", "uvw", "sampling_mode", "grad", "dtype")
    target = given["grad"]
    old = ctx.value(target)
    require_assignable(ctx, name)
    t, found = _sampled(ctx, name, given, "_volume_sample_grad")
    wanted: Type = Mat(t.length, 3, t.dtype) if isinstance(t, Vec) else Vec(3, _scalar(t))
    if old.type != wanted:
        with ctx.at(target):
            raise WarpCodegenTypeError(f"{name}(): `grad` is a {wanted} for values of type {t}, got a {old.type}")
    value, slope = found if isinstance(found, tuple) else (found, ctx.b.zero(wanted))
    if isinstance(target, ast.Name):
        ctx.bind(target.id, slope, target)
    return value


HANDLERS: dict[str, Callable[[Context, ast.Call], Operand]] = {
    "_value_at": _value_at,
    "_size_in_bits": _size,
    "_corners": _corners,
    "_store_at": _store_at,
    "_require_data": _require_data,
    "_scaled": _scaled,
    "_map_at": _map_at,
    "volume_lookup": _lookup,
    "volume_store": _store,
    "volume_sample": _sample,
    "volume_sample_grad": _sample_grad,
}
