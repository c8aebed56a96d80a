"""Reading the memory of objects that ids refer to; only bodies of builtins call these."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.contract import ObjectKind
from warp_like.frontend.arguments import type_argument
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.objects import DESCRIPTORS
from warp_like.ir.types import Array, Type, int64, uint64

_EXTENT = 1 << 40
"""More elements than any such array has: what bounds an index is known to the body alone."""


def _array(ctx: Context, address: Value, t: Type, *, constant: bool, kind: int = 0) -> Value:
    shape = (ctx.b.constant(len(DESCRIPTORS[kind]) if kind else _EXTENT, int64),)
    made = ops.AtAddress(address, shape, constant=constant, kind=kind)
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


def constant_at(ctx: Context, address: Value, index: Value, t: Type) -> Value:
    """Return element ``index`` of the array of ``t`` at ``address``, which belongs to an object."""
    return ctx.b.load(_array(ctx, address, t, constant=True), [index])


HANDLERS = {
    "_hash_grid": _word(ObjectKind.HASH_GRID),
    "_bvh": _word(ObjectKind.BVH),
    "_mesh": _word(ObjectKind.MESH),
    "_constant_at": _constant_at,
    "_memory_at": _memory_at,
}
