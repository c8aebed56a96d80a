"""Arrays that a kernel makes.

``wp.zeros`` of a constant shape is the thread's own, ``wp.shared_array`` is the block's, and ``wp.array`` is at an
address.
"""

from __future__ import annotations

import ast
import math

from warp_like.base.contract import MAX_DIMS
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend import indexing
from warp_like.frontend.arguments import arguments
from warp_like.frontend.context import Context, cast_name, with_article
from warp_like.frontend.host import Host, type_named
from warp_like.frontend.operands import NOTHING, Operand, describe
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.layout import size_of
from warp_like.ir.types import Aggregate, Array, Scalar, Struct, Type, float32, holds_arrays, int64, uint64
from warp_like.values.annotation import FixedArrayAnnotation

MAX_BYTES = 256 << 10
"""The most memory of one local array: all threads of a pool have theirs at once, and each lane its own."""


def build_zeros(ctx: Context, node: ast.Call) -> Operand:
    """``wp.zeros(shape=(4,), dtype=float)``: an array of this thread alone."""
    given = arguments(node, "zeros", ("shape", "dtype"), 1)
    shape = _shape(ctx, given["shape"])
    t = _element_type(ctx, given, "zeros")
    with ctx.at(given["shape"]):
        size = math.prod(shape) * size_of(t)
        if size > MAX_BYTES:
            raise WarpCodegenError(
                f"an array of {size} bytes is too large for a thread",
                help=f"at most {MAX_BYTES} bytes; take larger ones as an argument of the kernel",
            )
    return ctx.b.insert(ops.LocalArray(shape), Array(t, len(shape))).result


def build_shared(ctx: Context, node: ast.Call) -> Operand:
    """``wp.shared_array(shape=(256,), dtype=float)``: an array of all threads of a block."""
    given = arguments(node, "shared_array", ("shape", "dtype"), 1)
    shape = _shape(ctx, given["shape"])
    t = _element_type(ctx, given, "shared_array")
    return ctx.b.insert(ops.LocalArray(shape, shared=True), Array(t, len(shape))).result


def build_sync(ctx: Context, node: ast.Call) -> Operand:
    """``wp.block_sync()``."""
    arguments(node, "block_sync", (), 0)
    ctx.b.insert(ops.Barrier())
    return NOTHING


def build_array(ctx: Context, node: ast.Call) -> Operand:
    """``wp.array(ptr=a.ptr, shape=(4,), dtype=float)``: the contiguous array at an address."""
    if node.args:
        raise WarpCodegenTypeError(
            "array() in kernel code is an array at an address", help="wp.array(ptr=..., shape=(n,), dtype=float)"
        )
    given = arguments(node, "array", ("ptr", "shape", "dtype"), 3)
    address = ctx.value(given["ptr"])
    with ctx.at(given["ptr"]):
        if not isinstance(address.type, Scalar) or not address.type.is_int or address.type.bits != 64:
            raise WarpCodegenTypeError(
                f"an address is a uint64, got {with_article(str(address.type))}", help="a.ptr is the address of array a"
            )
    shape = [_extent(ctx, part, given["shape"]) for part in _parts(ctx, given["shape"])]
    t = _element_type(ctx, given, "array")
    made = ops.AtAddress(ctx.b.cast(address, uint64), tuple(shape))
    return ctx.b.insert(made, Array(t, len(shape))).result


def address_of(ctx: Context, array: Value) -> Value:
    """Return ``array.ptr``."""
    return ctx.b.insert(ops.Address(array), uint64).result


def build_address_of(ctx: Context, node: ast.Call) -> Operand:
    """``wp.address_of(a[i])``, ``wp.address_of(a[i].field)``: where the element, or its field, is in memory."""
    given = arguments(node, "address_of", ("value",), 1)["value"]
    fields: list[str] = []
    element = given
    while isinstance(element, ast.Attribute):
        fields.insert(0, element.attr)
        element = element.value
    base = ctx.expr(element.value) if isinstance(element, ast.Subscript) else None
    if not (isinstance(element, ast.Subscript) and isinstance(base, Value) and isinstance(base.type, Array)):
        with ctx.at(given):
            raise WarpCodegenTypeError(
                f"address_of() takes an element of an array, got `{ast.unparse(given)}`",
                help="wp.address_of(a[i]); a variable lies in registers: keep it in wp.zeros(shape=(1,), dtype=...)",
            )
    at = indexing.without_spans(indexing.indices(ctx, element.slice))
    if at is None or len(at) != base.type.ndim:
        with ctx.at(element):
            raise WarpCodegenTypeError("address_of() takes one element of an array", help="wp.address_of(a[i])")
    array, where = indexing.array_indices(ctx, base, at)
    for name in fields:
        assert isinstance(array.type, Array)
        if not isinstance(array.type.dtype, Struct):
            with ctx.at(given):
                raise WarpCodegenTypeError(f"a component of {with_article(str(array.type.dtype))} has no address")
        array = ctx.b.field_view(array, indexing.field(array.type.dtype, name))
    one = ctx.b.constant(1, int64)
    return address_of(ctx, ctx.b.slice(array, where, [one], [one], (len(where) - 1,)))


def require_shape(annotation: object, name: str, value: Value) -> None:
    """Raise where an argument ``name`` is annotated as a fixedarray and is known to have another shape.

    Raises:
        WarpCodegenTypeError: The shapes differ.
    """
    given = value.op.shape if isinstance(value.op, ops.LocalArray) else None
    wanted = getattr(annotation, "_annotation_", None)
    if isinstance(wanted, FixedArrayAnnotation) and given not in (None, wanted.shape):
        raise WarpCodegenTypeError(f"argument `{name}` is a fixedarray of shape {wanted.shape}, got shape {given}")


def _shape(ctx: Context, node: ast.expr) -> tuple[int, ...]:
    """The extents of a constant shape."""
    return tuple(_constant(ctx, part, node) for part in _parts(ctx, node))


def _parts(ctx: Context, node: ast.expr) -> tuple[Operand, ...]:
    """The extents of a shape: a tuple, or one number."""
    shape = ctx.expr(node)
    if isinstance(shape, Host) and isinstance(shape.obj, (tuple, list)):
        shape = tuple(Literal(n) if type(n) is int else Host(n, repr(n)) for n in shape.obj)
    parts = shape if isinstance(shape, tuple) else (shape,)
    with ctx.at(node):
        if not 1 <= len(parts) <= MAX_DIMS:
            raise WarpCodegenTypeError(f"an array has 1 to {MAX_DIMS} dimensions, got {len(parts)}")
    return parts


def _constant(ctx: Context, part: Operand, node: ast.expr) -> int:
    known = part.value if isinstance(part, Literal) else ops.constant_value(part) if isinstance(part, Value) else None
    with ctx.at(node):
        if type(known) is not int or known < 1:
            raise WarpCodegenTypeError(
                f"the shape of an array in a kernel is made of positive constants, got {describe(part)}",
                help="wp.zeros(shape=(4,), dtype=float)",
            )
    return known


def _extent(ctx: Context, part: Operand, node: ast.expr) -> Value:
    with ctx.at(node):
        value = ctx.settle(part)
        if not isinstance(value.type, Scalar) or not value.type.is_int:
            raise WarpCodegenTypeError(f"an extent is an integer, got {with_article(str(value.type))}")
        return ctx.b.cast(value, int64)


def _element_type(ctx: Context, given: dict[str, ast.expr], name: str) -> Type:
    if "dtype" not in given:
        return float32
    operand = ctx.type_meant(ctx.expr(given["dtype"]), given["dtype"])
    with ctx.at(given["dtype"]):
        t = type_named(operand) if isinstance(operand, Host) else None
        if not isinstance(t, (Scalar, Struct, *Aggregate)) or holds_arrays(t):
            raise WarpCodegenTypeError(
                f"the dtype of {name}() in a kernel is a scalar, vector, matrix or struct type without arrays, got "
                f"{t or describe(operand)}",
                help=f"wp.{name}(..., dtype={cast_name(float32)})",
            )
        return t


HANDLERS = {
    "zeros": build_zeros,
    "array": build_array,
    "address_of": build_address_of,
    "shared_array": build_shared,
    "block_sync": build_sync,
}
