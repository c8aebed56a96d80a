"""Comparisons of numbers of two types: exact for integers, whatever their signs; with a float in the float's type."""

from __future__ import annotations

from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, float32, uint64

BELOW = {"lt": True, "le": True, "gt": False, "ge": False, "eq": False, "ne": True}
"""The result of each comparison if the left side is below the right one."""

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""The comparison that says the same with its sides exchanged."""


def comparable(ctx: Context, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Two numbers as one type: comparing, unlike computing, may mix types, since its result has neither."""
    s, t = _scalar(a), _scalar(b)
    with_literal = isinstance(a, Literal) or isinstance(b, Literal)
    if s is None or t is None or (with_literal and s.is_float and t.is_float):  # it takes the type of its neighbour
        return a, b
    common = _compared_as(s, t)
    return (a, b) if common is None else (_cast(ctx, a, common), _cast(ctx, b, common))


def signed_with_uint64(ctx: Context, name: str, a: Operand, b: Operand) -> Value | None:
    """The comparison of a signed integer with a uint64, for which no type has room; None where they are not these."""
    if not (isinstance(a, Value) and isinstance(b, Value)):
        return None
    if a.type == uint64:
        name, a, b = MIRRORED[name], b, a
    if b.type != uint64 or not (isinstance(a.type, Scalar) and a.type.is_int and a.type.is_signed):
        return None
    negative = ctx.b.lt(a, 0)
    held = ctx.b.apply(name, ctx.b.cast(a, uint64), b)
    return ctx.b.bit_or(negative, held) if BELOW[name] else ctx.b.bit_and(ctx.b.unot(negative), held)


def _scalar(number: Operand) -> Scalar | None:
    if isinstance(number, Literal):
        return float32 if type(number.value) is float else None
    return number.type if isinstance(number, Value) and isinstance(number.type, Scalar) else None


def _cast(ctx: Context, number: Operand, t: Scalar) -> Operand:
    return ctx.b.cast(number, t) if isinstance(number, Value) else number


def _compared_as(a: Scalar, b: Scalar) -> Scalar | None:
    """The type that numbers of two types are compared in; None where they are one type, or none has room for both."""
    if a == b or a.is_bool or b.is_bool:
        return None
    if a.is_float and b.is_float:
        return None if a.bits == b.bits else max(a, b, key=lambda t: t.bits)
    if a.is_float or b.is_float:
        return a if a.is_float else b
    signed = a.is_signed or b.is_signed
    bits = max(2 * t.bits if signed and not t.is_signed else t.bits for t in (a, b))
    return Scalar("int" if signed else "uint", bits) if bits <= 64 else None
