"""Sums of tiles of structs: field by field. Fields that stay, see ``is_added``, are those of the first struct."""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.builtins.emit import Emitter
from warp_like.builtins.reductions import reduced
from warp_like.builtins.tiles import as_tile, tabulated, tile_type
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir.atomics import has_atomic
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Struct, Tile, Type


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
    """Apply builtin ``name`` to two numbers or vectors, or to the fields of two structs."""
    if not isinstance(x.type, Struct):
        made: Value = b.apply(name, x, y)
        return made
    pairs = [(b.get_field(x, k), b.get_field(y, k)) for k in range(len(x.type.fields))]
    return b.make(x.type, [combined(b, name, p, q) if is_added(p.type) else p for p, q in pairs])


def add_to(b: Emitter, array: Value, where: Sequence[Value], value: Value) -> Value:
    """Add ``value`` to an element of an array atomically, and return the old element; of structs field by field."""
    assert isinstance(array.type, Array)
    if isinstance(value.type, Struct):
        fields = range(len(value.type.fields))
        return b.make(value.type, [add_to(b, b.field_view(array, k), where, b.get_field(value, k)) for k in fields])
    return b.atomic("add", array, where, value) if is_added(value.type) else b.load(array, where)


def is_added(t: Type) -> bool:
    """Return whether sums of structs add a field of type ``t``, or something in it.

    As in Warp, truth values and integers of 8 or 16 bits stay: they have no atomic sum, and other sums are the same.
    """
    return isinstance(t, Struct) or has_atomic("add", t)


__all__ = ["add_to", "combined", "is_added", "is_tile_of_structs", "of_elements", "operator", "total"]
