"""Arithmetic on intervals of integers, as ``ranges`` needs it: which numbers an op may give before it wraps.

An interval is ``(low, high)``, both ends included, in Python's integers. A rule gets the intervals of the operands and
the type of the result; it returns an interval that holds the exact result of the op, which may lie outside of the type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from warp_like.ir.types import Scalar

Interval = tuple[int, int]

_Rule = Callable[..., Interval]


@functools.cache
def type_range(t: Scalar) -> Interval:
    """Return all values of an integer type, or of bool as 0 and 1."""
    if t.is_bool:
        return 0, 1
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def hull(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval around both."""
    return min(a[0], b[0]), max(a[1], b[1])


def within(a: Interval, b: Interval) -> bool:
    """Return whether all of ``a`` lies in ``b``."""
    return b[0] <= a[0] and a[1] <= b[1]


def exact_result(fn: str, args: list[Interval], t: Scalar) -> Interval | None:
    """Return where the exact result of builtin ``fn`` lies, or None when there is no rule."""
    rule = _RULES.get(fn)
    return None if rule is None else rule(t, *args)


def _add(t: Scalar, a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _sub(t: Scalar, a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


def _mul(t: Scalar, a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _neg(t: Scalar, a: Interval) -> Interval:
    return -a[1], -a[0]


def _quotient(x: int, y: int) -> int:
    """``x / y`` cut off toward zero; 0 for a divisor of 0."""
    if y == 0:
        return 0
    return abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)


def _div(t: Scalar, a: Interval, b: Interval) -> Interval:
    # On either side of 0 a quotient is monotonic in its divisor: the extremes are at the ends and next to 0.
    divisors = {b[0], b[1], *(d for d in (-1, 0, 1) if b[0] <= d <= b[1])}
    ends = [_quotient(x, d) for x in (*a, *(0,) * (a[0] < 0 < a[1])) for d in divisors]
    return min(ends), max(ends)


def _mod(t: Scalar, a: Interval, b: Interval) -> Interval:
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _min(t: Scalar, a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _max(t: Scalar, a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _and(t: Scalar, a: Interval, b: Interval) -> Interval:
    highs = [x[1] for x in (a, b) if x[0] >= 0]  # a number that is not negative clears all bits above its own
    return (0, min(highs)) if highs else type_range(t)


def _or(t: Scalar, a: Interval, b: Interval) -> Interval:
    if a[0] < 0 or b[0] < 0:
        return type_range(t)
    return 0, (1 << max(a[1], b[1]).bit_length()) - 1


def _invert(t: Scalar, a: Interval) -> Interval:
    return (~a[1], ~a[0]) if t.is_signed else (type_range(t)[1] - a[1], type_range(t)[1] - a[0])


def _left(t: Scalar, a: Interval, b: Interval) -> Interval:
    if b[0] != b[1]:  # the lowest bits of the amount count, whatever it is
        return _mul(t, a, (1, 1 << t.bits - 1))
    return _mul(t, a, (1 << (b[0] & t.bits - 1),) * 2)


def _right(t: Scalar, a: Interval, b: Interval) -> Interval:
    amounts = (b[0] & t.bits - 1,) if b[0] == b[1] else (0, t.bits - 1)
    ends = [x >> n for x in a for n in amounts]
    return min(ends), max(ends)


_RULES: dict[str, _Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "div": _div,
    "mod": _mod,
    "min": _min,
    "max": _max,
    "bit_and": _and,
    "bit_or": _or,
    "bit_xor": _or,
    "invert": _invert,
    "lshift": _left,
    "rshift": _right,
    "bit_count": lambda t, a: (0, 64),
    "block_thread": lambda t: (0, 1023),
    "warp_lane": lambda t: (0, 63),
}
