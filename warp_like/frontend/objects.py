"""Reading the memory of objects that ids refer to; only bodies of builtins call those with an underscore."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.contract import ObjectKind
from warp_like.frontend import volumes
from warp_like.frontend.arguments import arguments, type_argument
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.frontend.textures import texture_sample
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.objects import DESCRIPTORS, MESH
from warp_like.ir.types import Array, Type, float32, int32, int64, uint64

_EXTENT = 1 << 40
"""More elements than any such array has: what bounds an index is known to the body alone."""


def _array(
    ctx: Context, address: Value, t: Type, *, constant: bool, kind: int = 0, gradient: tuple[Value, ...] = ()
) -> Value:
    shape = (ctx.b.constant(len(DESCRIPTORS[kind]) if kind else _EXTENT, int64),)
    made = ops.AtAddress(address, shape, gradient, constant=constant, kind=kind)
    return ctx.b.insert(made, Array(t, 1)).result


def _word(kind: int) -> Callable[[Context, ast.Call], Operand]:
    """Read a word of a descriptor: ``_hash_grid(id, "starts")``."""

    def build(ctx: Context, node: ast.Call) -> Operand:
        address, word = node.args
        assert isinstance(word, ast.Constant)
        words = _array(ctx, ctx.value(address), uint64, constant=True, kind=kind)
        return ctx.b.load(words, [ctx.b.index(DESCRIPTORS[kind].index(str(word.value)))])

    return build


def _constant_at(ctx: Context, node: ast.Call) -> Operand:
    """Read an element of an array that a descriptor points to: ``_constant_at(address, i, int32)``."""
    address, index, dtype = node.args
    return constant_at(ctx, ctx.value(address), ctx.value(index), type_argument(ctx, dtype, "dtype"))


def _memory_at(ctx: Context, node: ast.Call) -> Operand:
    """Read an element of an array of the user's, which kernels may write."""
    address, index, dtype = node.args
    array = _array(ctx, ctx.value(address), type_argument(ctx, dtype, "dtype"), constant=False)
    return ctx.b.load(array, [ctx.value(index)])


def _graded_at(ctx: Context, node: ast.Call) -> Operand:
    """Do what ``_memory_at`` does, with the address of the adjoints: ``_graded_at(address, gradient, i, dtype)``."""
    address, gradient, index, dtype = node.args
    t = type_argument(ctx, dtype, "dtype")
    array = _array(ctx, ctx.value(address), t, constant=False, gradient=(ctx.value(gradient),))
    return ctx.b.load(array, [ctx.value(index)])


def _add_at(ctx: Context, node: ast.Call) -> Operand:
    """Add to a float32 of an array of adjoints: ``_add_at(address, i, x)``."""
    address, index, x = (ctx.value(a) for a in node.args)
    ctx.b.atomic("add", _array(ctx, address, float32, constant=False), [index], x)
    return ()


def _mesh_get(ctx: Context, node: ast.Call) -> Operand:
    """``wp.mesh_get(id)``: the arrays of a mesh, as a struct."""
    given = arguments(node, "mesh_get", ("id",), 1)["id"]
    words = ctx.apply("_mesh_memory", ctx.value(given))
    assert isinstance(words, tuple)
    points, points_gradient, velocities, velocities_gradient, indices, point_count, index_count = words
    moving = ctx.b.select(ctx.b.ne(velocities, ctx.b.zero(uint64)), point_count, ctx.b.zero(int32))
    arrays = (
        ops.AtAddress(points, (point_count,), (points_gradient,)),
        ops.AtAddress(velocities, (moving,), (velocities_gradient,)),
        ops.AtAddress(indices, (index_count,)),
    )
    types = (t for _, t in MESH.fields)
    return ctx.b.make(MESH, [ctx.b.insert(made, t).result for made, t in zip(arrays, types, strict=True)])


def constant_at(ctx: Context, address: Value, index: Value, t: Type) -> Value:
    """Return element ``index`` of the array of ``t`` at ``address``, which belongs to an object."""
    return ctx.b.load(_array(ctx, address, t, constant=True), [index])


HANDLERS = {
    "_hash_grid": _word(ObjectKind.HASH_GRID),
    "_bvh": _word(ObjectKind.BVH),
    "_mesh": _word(ObjectKind.MESH),
    "_constant_at": _constant_at,
    "_memory_at": _memory_at,
    "_graded_at": _graded_at,
    "_add_at": _add_at,
    "mesh_get": _mesh_get,
    "_texture": _word(ObjectKind.TEXTURE),
    "texture_sample": texture_sample,
    "_volume": _word(ObjectKind.VOLUME),
    **volumes.HANDLERS,
}
