"""Numbers of the source that have no type yet, and what integer types hold; needs nothing of the builtin tables."""

from __future__ import annotations

import math

from warp_like.base.frozen import Frozen
from warp_like.ir import types as ir


class Literal(Frozen):
    """A Python number or bool of the source, which takes the type that its neighbours ask for."""

    value: bool | int | float

    def __eq__(self, other: object) -> bool:
        """Compare kinds too: 1, 1.0 and True are equal in Python, and different literals."""
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    @property
    def default(self) -> ir.Scalar:
        """The type it takes where nothing else decides: bool, int32 (int64 or uint64 if too large) or float32."""
        if isinstance(self.value, bool):
            return ir.bool_
        if isinstance(self.value, float):
            return ir.float32
        return next((t for t in (ir.int32, ir.int64, ir.uint64) if self.fits(t)), ir.int32)

    def fits(self, t: ir.Type) -> bool:
        """Return whether this number can be written as a ``t`` without changing its meaning."""
        if not isinstance(t, ir.Scalar):
            return False
        if isinstance(self.value, bool):
            return t.is_bool
        if isinstance(self.value, float):
            return t.is_float
        if t.is_float:
            return True
        if not t.is_int:
            return False
        lo, hi = int_range(t)
        return lo <= self.value <= hi

    def __str__(self) -> str:
        return f"literal {self.value}"


def as_float(value: float) -> float:
    """Return the double nearest to a Python number; infinite for an integer beyond all doubles."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def int_range(t: ir.Scalar) -> tuple[int, int]:
    """Return the least and the greatest integer of ``t``."""
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
