"""The exponential function of float32 in lanes, in place: no call, so that a loop keeps its values in registers.

With ``n`` the whole number nearest to ``x / log(2)``, ``exp(x) = 2**n * exp(r)`` where ``r = x - n * log(2)`` is at
most ``log(2) / 2`` in size; a polynomial of degree 6 is ``exp(r)``. Over the whole domain the result is within 1.02
units in the last place. ``log(2)`` is the sum of two numbers, of which the first has few bits, so that its product with
``n`` is exact.

AVX-512 multiplies by ``2**n`` in one instruction, which rounds once: 16 numbers take 0.6 of the time. Results that
vanish are masked there, since an instruction whose result is rounded to 0 takes 200 cycles. Other processors make two
factors.
"""

from __future__ import annotations

from warp_like.backend.llvm.lane_math import LaneMath
from warp_like.backend.llvm.shuffle import join, split
from warp_like.backend.llvm.values import LaneScalar, vector
from warp_like.backend.llvm.writer import Writer

COEFFICIENTS = (
    *(0.001381453941576182, 0.008368745446205139, 0.04166838899254799, 0.1666652113199234, 0.4999999403953552),
)
"""Of ``(exp(r) - 1 - r) / r**2``, the highest power first: least squares, reweighted until all errors are alike."""
LOG2_E, LOG_2, LOG_2_REST = 1.4426950408889634, 0.693145751953125, 1.4286068203094172e-06
VANISHED, OVERFLOWN = -103.98, 88.73
"""Below the first, and above the second, results are 0 and infinity."""
TINY = 2.0**-40
"""Added to arguments: squares of denormal ones would be denormal, which processors take long for."""
ROUNDING = 12582912.0
"""1.5 * 2**23: the lowest bits of a sum with it are the nearest integer."""
LANES = 16
"""The lanes of a register of AVX-512."""


def is_in_place(w: Writer, libm: str, t: LaneScalar) -> bool:
    """Return whether ``libm`` of lanes of type ``t`` is computed here."""
    return libm == "exp" and t.bits == 32 and "fma" in w.target.feature_set


def exponential(w: Writer, t: LaneScalar, x: str) -> str:
    """Append code for ``exp(x)``."""
    if "avx512f" in w.target.feature_set and t.width % LANES == 0:
        one = LaneScalar(t.kind, t.bits, LANES)
        return join(w, one, [_of_register(w, one, part) for part in split(w, t, x, LANES)])
    v = LaneMath(w, t)
    integer = vector("i32", t)
    low = v.select(v.compare("olt", x, VANISHED), VANISHED, x)  # NaN stays
    shifted, _, power = _reduced(v, low)
    number = w.op(f"sub {integer} {w.op(f'bitcast {v.reg} {shifted} to {integer}')}, {v.bits(0x4B400000)}")
    half = w.op(f"ashr {integer} {number}, {v.bits(1)}")
    rest = w.op(f"sub {integer} {number}, {half}")
    factor = v.select(v.compare("ole", x, VANISHED), 0.0, _power_of_two(v, integer, rest))  # rounding to 0 takes long
    return v.mul(v.mul(power, _power_of_two(v, integer, half)), factor)


def _of_register(w: Writer, t: LaneScalar, x: str) -> str:
    """``exp(x)`` of a register of AVX-512; ``4`` stands for the rounding mode as it is."""
    v = LaneMath(w, t)
    _, whole, power = _reduced(v, x)
    mask = w.op(f"bitcast {v.mask} {v.compare('ugt', x, VANISHED)} to i{LANES}")  # NaN stays
    types, args = [v.reg] * 3 + [f"i{LANES}", "i32"], [power, whole, "zeroinitializer", mask, "4"]
    return w.intrinsic("llvm.x86.avx512.mask.scalef.ps.512", v.reg, types, args)


def _reduced(v: LaneMath, low: str) -> tuple[str, str, str]:
    """``n`` plus ``ROUNDING``, ``n``, and ``exp(r)``, for an ``x`` that may still be too large."""
    near = v.add(v.select(v.compare("ogt", low, OVERFLOWN), OVERFLOWN, low), TINY)
    shifted = v.intrinsic("fma", near, LOG2_E, ROUNDING)
    whole = v.sub(shifted, ROUNDING)
    r = v.intrinsic("fma", whole, -LOG_2, near)
    r = v.intrinsic("fma", whole, -LOG_2_REST, r)
    square = v.mul(r, r)
    return shifted, whole, v.add(v.intrinsic("fma", square, _polynomial(v, r, square), r), 1.0)


def _polynomial(v: LaneMath, r: str, square: str) -> str:
    """The polynomial of ``COEFFICIENTS``, in pairs that do not wait for each other."""
    e, d, c, b, a = COEFFICIENTS
    low, high = v.intrinsic("fma", r, b, a), v.intrinsic("fma", r, d, c)
    return v.intrinsic("fma", square, v.intrinsic("fma", square, e, high), low)


def _power_of_two(v: LaneMath, integer: str, n: str) -> str:
    """``2**n`` for exponents of normal numbers, by its bits; twice so that results may be denormal or infinite."""
    biased = v.w.op(f"add {integer} {n}, {v.bits(127)}")
    bits = v.w.op(f"shl {integer} {biased}, {v.bits(23)}")
    return v.w.op(f"bitcast {integer} {bits} to {v.reg}")
