"""Sums of tiles of structs: field by field, of the fields that have a sum; the others stay what the first one has."""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.builtins.emit import Emitter
from warp_like.builtins.reductions import reduced
from warp_like.builtins.tiles import as_tile, tabulated, tile_type
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir.atomics import has_atomic
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Struct, Tile, Type, scalar_of


def is_tile_of_structs(operand: Operand) -> bool:
    """Return whether ``operand`` is a tile of structs."""
    return isinstance(operand, Value) and isinstance(operand.type, Tile) and isinstance(operand.type.dtype, Struct)


def operator(ctx: Context, name: str, x: Operand, y: Operand) -> Value | None:
    """Return ``x + y`` or ``x - y`` of two tiles of structs of one type; None for anything else."""
    if name not in ("add", "sub") or not (is_tile_of_structs(x) and is_tile_of_structs(y)):
        return None
    assert isinstance(x, Value)
    assert isinstance(y, Value)
    if x.type != y.type:
        return None
    return tabulated(
        ctx.b, tile_type(x), lambda at: combined(ctx.b, name, ctx.b.extract(x, *at), ctx.b.extract(y, *at))
    )


def of_elements(ctx: Context, name: str, x: Operand, y: Operand) -> Value | None:
    """Return what ``t[i] += y`` or ``t[i] -= y`` makes of an element that is a struct; None for anything else."""
    if name not in ("add", "sub") or not (isinstance(x, Value) and isinstance(y, Value) and isinstance(x.type, Struct)):
        return None
    return combined(ctx.b, name, x, y) if x.type == y.type else None


def total(ctx: Context, x: Value) -> Value:
    """Return the sum of all elements, as a tile of one."""
    b = ctx.b
    return as_tile(b, reduced(b, tile_type(x), lambda at: b.extract(x, *at), lambda p, q: combined(b, "add", p, q)))


def combined(b: Emitter, name: str, x: Value, y: Value) -> Value:
    """Apply builtin ``name`` to the fields of two structs."""
    if isinstance(x.type, Struct):
        fields = range(len(x.type.fields))
        return b.make(x.type, [combined(b, name, b.get_field(x, k), b.get_field(y, k)) for k in fields])
    got: Value = b.apply(name, x, y) if has_sum(x.type) else x
    return got


def add_to(b: Emitter, array: Value, where: Sequence[Value], value: Value) -> Value:
    """Add ``value`` to an element of an array atomically, and return the old element; of structs field by field."""
    assert isinstance(array.type, Array)
    if isinstance(value.type, Struct):
        fields = range(len(value.type.fields))
        return b.make(value.type, [add_to(b, b.field_view(array, k), where, b.get_field(value, k)) for k in fields])
    return b.atomic("add", array, where, value) if has_sum(value.type) else b.load(array, where)


def has_sum(t: Type) -> bool:
    """Return whether ``x + y`` is defined for values of type ``t``; sums leave truth values as they are."""
    scalar = scalar_of(t)
    return scalar is not None and not scalar.is_bool


def has_atomic_sum(t: Type) -> bool:
    """Return whether ``add_to`` works on elements of type ``t``: on each field that has a sum."""
    if isinstance(t, Struct):
        return all(has_atomic_sum(f) for _, f in t.fields)
    return has_atomic("add", t) or not has_sum(t)


__all__ = ["add_to", "combined", "has_atomic_sum", "is_tile_of_structs", "of_elements", "operator", "total"]
