"""NumPy references whose meaning differs from NumPy's own function of the name: integer division, ties, edges.

They take scalars or arrays and keep the dtype, as the builtins do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _is_int(a: Any) -> bool:
    return bool(np.issubdtype(np.asarray(a).dtype, np.integer))


def _safe(b: Any) -> Any:
    """``b`` with its zeros replaced by ones."""
    return np.where(b == 0, np.ones_like(b), b)


def divide(a: Any, b: Any) -> Any:
    """Division; that of integers truncates toward zero, and by zero gives 0."""
    if not _is_int(a):
        return np.true_divide(a, b)
    safe = _safe(b)
    quotient = np.floor_divide(a, safe)
    inexact = (a - quotient * safe) != 0
    return np.where(b == 0, 0, quotient + (inexact & ((a < 0) != (safe < 0))))


def floor_divide(a: Any, b: Any) -> Any:
    """Division rounded down; integer division by zero gives 0."""
    if not _is_int(a):
        return np.floor(np.true_divide(a, b))
    return np.where(b == 0, 0, np.floor_divide(a, _safe(b)))


def power(x: Any, y: Any) -> Any:
    """C's ``pow``: unlike NumPy's, infinite for minus infinity to the power of one half."""
    return np.power(np.where(np.isneginf(x) & (y == 0.5), np.inf, x), y)


def fused(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once."""
    dtype = np.result_type(x, y, z)
    with np.errstate(all="ignore"):
        plain = x * y + z
    exact = np.vectorize(_fused, otypes=[dtype])(x, y, z, dtype.type, plain)
    return exact[()]


def dot_of_pairs(total: Any, x: Any, y: Any) -> Any:
    """``total`` and the products of two pairs of bfloat16, as the instruction ``vdpbf16ps`` adds them."""
    with np.errstate(all="ignore"):
        for low in (False, True):
            p, q = (np.float64(_without_denormals(_half_of_pair(v, low=low))) for v in (x, y))
            total = _without_denormals(_sum_rounded_once(p * q, _without_denormals(total)))
    return total


def _sum_rounded_once(p: Any, x: Any) -> Any:
    """``p + x`` in float32, of a float64 and a float32: rounded to odd in float64 before, which changes nothing."""
    x = np.float64(x)
    total = np.asarray(p + x)
    of_x = total - p
    rest = (p - (total - of_x)) + (x - of_x)  # what the sum has lost
    is_inexact = np.isfinite(rest) & (rest != 0)
    bits = total.view(np.int64) - (is_inexact & ((rest < 0) != (total < 0)))
    return (bits | is_inexact).view(np.float64).astype(np.float32)


def _half_of_pair(pair: Any, *, low: bool) -> Any:
    bits = np.asarray(pair, np.uint32)
    return (bits << np.uint32(16) if low else bits & np.uint32(0xFFFF0000)).view(np.float32)


def _without_denormals(x: Any) -> Any:
    x = np.asarray(x, np.float32)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)[()]


def _fused(x: Any, y: Any, z: Any, dtype: Any, plain: Any) -> Any:
    if not all(map(math.isfinite, (x, y, z, plain))):
        return plain
    from fractions import Fraction  # for numbers on the host alone

    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    return dtype(exact.numerator / exact.denominator) if exact else plain


def remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of ``a``; that of integers by zero is 0."""
    if not _is_int(a):
        return np.fmod(a, b)
    return np.where(b == 0, 0, np.fmod(a, _safe(b)))


def shift(left: bool) -> Callable[[Any, Any], Any]:
    """A shift whose amount is taken modulo the width."""

    def fn(a: Any, b: Any) -> Any:
        amount = b & np.asarray(b).dtype.type(np.asarray(a).dtype.itemsize * 8 - 1)
        return np.left_shift(a, amount) if left else np.right_shift(a, amount)

    return fn


def round_away(x: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """``x`` between the bounds; the upper one wins where they cross, and NaN gives ``low``."""
    return np.fmin(np.fmax(x, low), high)


def normalize(a: Any) -> Any:
    """The unit vector; zero for the zero vector."""
    size = np.linalg.norm(a)
    return a / size if size > 0 else np.zeros_like(a)


def inverse(a: Any) -> Any:
    """The inverse matrix; zero for a singular one."""
    return np.zeros_like(a) if np.linalg.det(a) == 0 else np.linalg.inv(a)


def smoothstep(a: Any, b: Any, x: Any) -> Any:
    """The cubic that rises from 0 at ``a`` to 1 at ``b``."""
    t = clamp(np.true_divide(x - a, b - a), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def arg(best: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The index of the first component that ``best`` finds; NaN is passed over, all NaN gives 0."""

    def fn(a: Any) -> Any:
        return 0 if np.all(np.isnan(a)) else best(a)

    return fn


def affine(mat: Any, vec: Any, w: float) -> Any:
    """The first three components of a 4x4 matrix times ``(*vec, w)``."""
    return (mat @ np.append(vec, w))[:3]


def skew(v: Any) -> Any:
    """The matrix whose product with a vector is the cross product with it."""
    x, y, z = v
    return np.array([[0 * x, -z, y], [z, 0 * x, -x], [-y, x, 0 * x]])


def bit_count(x: Any) -> Any:
    """The number of set bits in the two's complement."""
    bits = np.asarray(x).dtype.itemsize * 8
    return bin(int(x) & (1 << bits) - 1).count("1")


@functools.cache
def vectorized(name: str) -> Callable[..., Any]:
    """``math``'s function ``name`` for arrays."""
    return np.vectorize(getattr(math, name), otypes=[np.float64])


@functools.cache
def inverse_erf(x: float) -> float:
    """The inverse error function by bisection of ``math.erf``, or of ``math.erfc`` near the ends."""
    if math.isnan(x) or abs(x) > 1.0:
        return math.nan
    if abs(x) < 0.5:
        return math.copysign(_bisect(math.erf, abs(x)), x)
    return math.copysign(inverse_erfc(1.0 - abs(x)), x)


@functools.cache
def inverse_erfc(x: float) -> float:
    """The inverse complementary error function by bisection of ``math.erfc``."""
    if math.isnan(x) or not 0.0 <= x <= 2.0:
        return math.nan
    if x == 0.0 or x == 2.0:
        return math.inf if x == 0.0 else -math.inf
    if x > 0.5:
        return inverse_erf(1.0 - x) if x <= 1.5 else -inverse_erfc(2.0 - x)
    return _bisect(lambda y: -math.erfc(y), -x)


def _bisect(rising: Callable[[float], float], target: float) -> float:
    lo, hi = 0.0, 28.0
    while True:
        mid = 0.5 * (lo + hi)
        if mid in (lo, hi):
            return mid
        lo, hi = (mid, hi) if rising(mid) < target else (lo, mid)
