"""The sine, the cosine and the tangent of large numbers in lanes: the turns are taken off exactly.

A sine is taken of what half turns leave, by a polynomial; a cosine is a sine half a half turn later. A tangent is the
sine by the cosine of what quarter turns leave; after an odd number of them, they change places.

``x / pi`` is needed modulo 4, with as many bits behind the point as ``x`` can cancel: 61 for float64, and 53 more. So
``1 / pi`` comes in pieces whose products with ``x`` are known exactly. Pieces from before the last two bits of the
integer part are left out: where they begin depends on the exponent of ``x``. Most numbers of float64 need fewer: those
below ``2**50`` lose so many times ``pi``, and a vector needs the last bits only where a lane is close to a turn.

Source:
    M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18 (1983).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from warp_like.backend.llvm.lane_math import LaneMath, choose, less_product, product
from warp_like.backend.llvm.shuffle import look_up
from warp_like.backend.llvm.values import LaneScalar, constant
from warp_like.ir.types import float64

DIGITS = 1280
"""The bits of ``2 / pi`` behind the point; the largest float64 has an exponent of 1023."""
_STEPS = 32
"""How many groups of 32 bits may be left out, as a power of two."""
_ROUNDING = 6755399441055744.0
"""1.5 * 2**52: the lowest bits of a sum with it are the nearest integer."""
_HALF_PI_REST, _HALF_PI_LAST = 6.123233995736766e-17, -1.4973849048591833e-33
"""What the float64 ``pi / 2`` lacks, and what both lack together."""


@functools.cache
def _two_over_pi() -> int:
    """``2 / pi`` times ``2**DIGITS``, rounded down."""
    guard = 64

    def arctangent(n: int) -> int:  # of 1 / n, by its series
        power = total = (1 << DIGITS + guard) // n
        k, sign = 1, 1
        while power:
            power //= n * n
            k, sign = k + 2, -sign
            total += sign * (power // k)
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))  # J. Machin's formula
    return (2 << 2 * DIGITS + guard) // pi


def _piece(start: int, length: int) -> int:
    """``length`` bits of ``2 / pi`` from bit ``start`` behind the point on."""
    return _two_over_pi() >> DIGITS - start - length & (1 << length) - 1


SINE = {
    32: (-0.16666657498219603, 0.008333010872892338, -0.00019805404187953077, 2.596269773111853e-06),
    64: (
        *(-0.16666666666666666, 0.008333333333333118, -0.00019841269841181568, 2.7557319206425138e-06),
        *(-2.5052106444444175e-08, 1.605891835710338e-10, -7.642441287343727e-13, 2.7154434590333417e-15),
    ),
}
"""The polynomial of ``x * x`` that ``(sin(x) - x) / x**3`` is up to 1.62, by R. Remez's exchange of extremes."""
COSINE = {
    32: (0.04166664492058087, -0.0013887278547124076, 2.442878649795001e-05),
    64: (
        *(0.041666666666665804, -0.0013888888888766498, 2.4801587236410762e-05, -2.755730210156554e-07),
        *(2.0874375934553483e-09, -1.1302468759678315e-11),
    ),
}
"""The polynomial of ``x * x`` that ``(cos(x) - 1 + x**2 / 2) / x**4`` is up to 0.79 and 0.96, by the same method."""


class Turns(NamedTuple):
    """Which turns are taken off: ``n * angle - shift * angle``, with a whole ``n``.

    Attributes:
        half: Whether the angle is ``pi`` instead of ``pi / 2``.
        shift: A part of a turn.
    """

    half: bool
    shift: float = 0.0

    def angle(self, part: float) -> float:
        """A part of ``pi / 2`` as one of the angle."""
        return 2.0 * part if self.half else part

    def part(self, inverse: float) -> float:
        """A part of ``2 / pi`` as one of the angle's inverse."""
        return inverse / 2.0 if self.half else inverse


_TURNS = {"sin": Turns(half=True), "cos": Turns(half=True, shift=0.5), "tan": Turns(half=False)}
"""The functions, whose values at an angle and turns depend on whether these are odd."""


def far(v: LaneMath, x: str, libm: str) -> str:
    """Append a sine, cosine or tangent of finite numbers ``x``."""
    w, d, turns = v.w, LaneMath(v.w, LaneScalar(float64.kind, float64.bits, v.t.width)), _TURNS[libm]

    def finish(number: str, angle: str) -> str:
        return (_tangent if libm == "tan" else _sine_after)(v, number, angle)

    if v.t.bits == 32:
        number, angle = _of_single(d, turns, w.op(f"fpext {v.reg} {x} to {d.reg}"))
        return finish(w.op(f"trunc {d.integer} {number} to {v.integer}"), w.op(f"fptrunc {d.reg} {angle} to {v.reg}"))

    def huge(x: str) -> str:
        number, angle, is_exact = _of_huge(d, turns, x)
        rare = d.any(d.unless(is_exact))
        return choose(
            v, rare, f"{libm}_exact", [x], lambda x: finish(*_of_double(d, turns, x)), lambda x: finish(number, angle)
        )

    is_huge = d.any(d.compare("oge", d.abs(x), MIDDLE))
    return choose(v, is_huge, f"{libm}_huge", [x], huge, lambda x: finish(*_of_middle(d, turns, x)))


def _sine_after(v: LaneMath, number: str, angle: str) -> str:
    """The sine of an angle and half turns."""
    sign = v.w.op(f"shl {v.integer} {number}, {v.bits(v.t.bits - 1)}")
    return v.from_bits(v.w.op(f"xor {v.integer} {v.to_bits(_sine(v, angle, v.mul(angle, angle)))}, {sign}"))


def _tangent(v: LaneMath, number: str, angle: str) -> str:
    """The tangent of an angle that ``COSINE`` is for and quarter turns."""
    square = v.mul(angle, angle)
    sine, cosine = _sine(v, angle, square), _cosine(v, square)
    is_odd = v.w.op(f"trunc {v.integer} {number} to {v.mask}")
    above, below = v.select(is_odd, v.negative(cosine), sine), v.select(is_odd, sine, cosine)
    return v.w.op(f"fdiv {v.reg} {above}, {below}")


def _sine(v: LaneMath, angle: str, square: str) -> str:
    return v.add_product(angle, v.mul(angle, square), _polynomial(v, SINE[v.t.bits], square))


def _cosine(v: LaneMath, square: str) -> str:
    """``1 - square / 2``, what its rounding takes away, and the polynomial."""
    start = v.add_product(1.0, square, -0.5)
    rest = v.add_product(v.sub(1.0, start), square, -0.5)
    return v.add(start, v.add_product(rest, v.mul(square, square), _polynomial(v, COSINE[v.t.bits], square)))


def _polynomial(v: LaneMath, coefficients: Sequence[float], x: str) -> str:
    """The sum of ``coefficients`` times powers of ``x``, in pairs that do not wait for each other."""
    factors, power = [constant(c, v.t) for c in coefficients], x
    while len(factors) > 1:
        last = factors[2 * (len(factors) // 2) :]
        factors = [v.add_product(a, b, power) for a, b in zip(factors[::2], factors[1::2], strict=False)] + last
        power = v.mul(power, power)
    return factors[0]


# --- the number of turns, as integers of which the lowest bits count, and the angle that is left ------------------


def _of_single(d: LaneMath, turns: Turns, x: str) -> tuple[str, str]:
    """Of a float32, in float64, by two pieces of 53 bits for each 16 exponents.

    Above ``2**33`` the product with the first piece is a multiple of ``2**-52``, so without the turns it is exact.
    """
    size = d.intrinsic("maximumnum", d.abs(x), 2.0)
    at = d.w.op(f"lshr {d.integer} {d.to_bits(size)}, {d.bits(56)}")
    starts = [max(0, 16 * k - 24) for k in range(8)]
    first, second = (
        look_up(d.w, d.t, [turns.part(math.ldexp(_piece(s + more, 53), -s - more - 53)) for s in starts], at)
        for more in (0, 53)
    )
    number, whole = _nearest(d, turns, d.mul(x, first))
    rest = less_product(d, less_product(d, whole, x, first), x, second)
    return number, d.mul(rest, -turns.angle(math.pi / 2))


MIDDLE = 2.0**50
"""Sizes of float64 up to which ``_of_middle`` is exact."""


def _of_middle(d: LaneMath, turns: Turns, x: str) -> tuple[str, str]:
    """Of a float64 below ``MIDDLE``: so many times the angle, in three parts, are taken off.

    Without the first part of them, ``x`` is less than 4 and a multiple of ``2**-51``: exact. A turn off too many or too
    few leaves at most 0.07 more than half of the angle, or 0.17 without fused additions.
    """
    number, whole = _nearest(d, turns, x, turns.part(2.0 / math.pi))
    rest = less_product(d, x, whole, turns.angle(math.pi / 2))
    second, error = product(d, whole, turns.angle(_HALF_PI_REST))
    rest, low = _sum_of_multiple(d, rest, d.negative(second))
    return number, d.add(rest, d.sub(d.sub(low, error), d.mul(whole, turns.angle(_HALF_PI_LAST))))


def _of_huge(d: LaneMath, turns: Turns, x: str) -> tuple[str, str, str]:
    """Of a float64, by three pieces of 53 bits, and where this is exact.

    The pieces may begin at each 32 bits. What the third product lacks is below ``2**-72``.
    """
    at, near = _without_step(d, x)
    first, second, third = (_pieces(d, turns, at, k) for k in range(3))
    a, error = product(d, near, first)
    total = d.add(_large_modulo_4(d, a), _modulo_4(d, error))  # multiples of 2**-51
    b, error = product(d, near, second)
    b = _modulo_4(d, b)
    number, whole = _nearest(d, turns, d.add(total, b))
    rest, low = _sum_of_multiple(d, d.sub(total, whole), b)
    small = d.add_product(error, near, third)
    is_far = d.compare("oge", d.abs(x), 2.0**55)
    is_exact = d.both(is_far, d.compare("oge", d.abs(rest), 2.0**-13))
    return number, _angle(d, turns, rest, d.add(low, small)), is_exact


def _of_double(d: LaneMath, turns: Turns, x: str) -> tuple[str, str]:
    """Of a float64, by four pieces, whose products are added with all their errors."""
    at, near = _without_step(d, x)
    (a, b, c), errors = zip(*(product(d, near, _pieces(d, turns, at, k)) for k in range(3)), strict=True)
    total, low = _sum(d, _large_modulo_4(d, a), _modulo_4(d, errors[0]))
    b = _modulo_4(d, b)
    number, whole = _nearest(d, turns, d.add(total, b))
    rest, more = _sum(d, d.sub(total, whole), b)
    small, error = _sum(d, errors[1], c)
    rest, last = _sum(d, rest, small)
    ends = d.add(d.add(error, errors[2]), d.mul(near, _pieces(d, turns, at, 3)))
    return number, _angle(d, turns, rest, d.add(d.add(d.add(low, more), last), ends))


def _pieces(d: LaneMath, turns: Turns, step: str, k: int) -> str:
    """The piece ``k`` of the inverse angle without so many times 32 bits."""
    numbers = [math.ldexp(_piece(32 * s + 53 * k, 53), -53 * (k + 1)) for s in range(_STEPS)]
    return look_up(d.w, d.t, [turns.part(n) for n in numbers], step)


def _angle(d: LaneMath, turns: Turns, x: str, low: str) -> str:
    """So many turns as an angle, given in two parts."""
    rest = d.add(d.mul(x, turns.angle(_HALF_PI_REST)), d.mul(low, turns.angle(math.pi / 2)))
    return d.add_product(rest, x, turns.angle(math.pi / 2))


def _without_step(d: LaneMath, x: str) -> tuple[str, str]:
    """How many times 32 bits of ``2 / pi`` are left out for ``x``, and ``x`` divided by two to the power of them."""
    w = d.w
    number = d.to_bits(x)
    exponent = w.op(f"and {d.integer} {w.op(f'lshr {d.integer} {number}, {d.bits(52)}')}, {d.bits(0x7FF)}")
    step = w.op(f"ashr {d.integer} {w.op(f'sub {d.integer} {exponent}, {d.bits(1023 + 52 + 2)}')}, {d.bits(5)}")
    step = w.intrinsic(f"llvm.smax.v{d.t.width}i64", d.integer, [d.integer] * 2, [step, d.bits(0)])
    near = w.op(f"sub {d.integer} {number}, {w.op(f'shl {d.integer} {step}, {d.bits(52 + 5)}')}")
    return step, d.from_bits(near)


def _modulo_4(d: LaneMath, x: str) -> str:
    """``x``, which is less than ``2**52``, less the nearest multiple of 4, exactly."""
    return d.sub(x, d.sub(d.add(x, 4.0 * _ROUNDING), 4.0 * _ROUNDING))


def _large_modulo_4(d: LaneMath, x: str) -> str:
    """The same for all numbers."""
    return d.sub(x, d.mul(d.intrinsic("rint", d.mul(x, 0.25)), 4.0))


def _sum(d: LaneMath, x: str, y: str) -> tuple[str, str]:
    """The sum and its error."""
    total = d.add(x, y)
    back = d.sub(total, x)
    return total, d.add(d.sub(x, d.sub(total, back)), d.sub(y, back))


def _sum_of_multiple(d: LaneMath, x: str, y: str) -> tuple[str, str]:
    """The same where ``x`` is a multiple of the last bit that ``y`` may have."""
    total = d.add(x, y)
    return total, d.sub(y, d.sub(total, x))


def _nearest(d: LaneMath, turns: Turns, x: str, factor: float | None = None) -> tuple[str, str]:
    """The nearest number of turns to ``x``, times ``factor`` if given: as an integer, and a float without the shift."""

    def plus(z: float) -> str:
        return d.add(x, z) if factor is None else d.add_product(z, x, factor)

    shifted = d.add(plus(turns.shift), _ROUNDING) if turns.shift else plus(_ROUNDING)
    whole = d.sub(shifted, _ROUNDING)
    return d.to_bits(shifted), d.sub(whole, turns.shift) if turns.shift else whole
