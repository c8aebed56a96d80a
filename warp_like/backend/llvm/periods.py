"""The sine and the cosine of large numbers in lanes: the quarter turns are taken off exactly, then the sine is called.

``x * 2 / pi`` is needed modulo 4, with as many bits behind the point as ``x`` can cancel: 61 for float64, and 53 more.
So ``2 / pi`` comes in pieces whose products with ``x`` are known exactly. Pieces from before the last two bits of the
integer part are left out: where they begin depends on the exponent of ``x``. What is left of a quarter turn, ``r``, is
at most one half. Of odd quarter turns the sine is a cosine, ``sin(pi / 2 - r)``, in which nothing cancels.

Source:
    M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18 (1983).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from warp_like.backend.llvm.lane_math import LaneMath
from warp_like.backend.llvm.shuffle import gather
from warp_like.backend.llvm.values import LaneScalar, constant, vector
from warp_like.ir.types import float64

DIGITS = 1280
"""The bits of ``2 / pi`` behind the point; the largest float64 has an exponent of 1023."""
_TABLE = "@wl_two_over_pi"
_ROUNDING = 6755399441055744.0
"""1.5 * 2**52: the lowest bits of a sum with it are the nearest integer."""
_HALF_PI_REST = 6.123233995736766e-17
"""What the float64 ``pi / 2`` lacks."""


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


def sine(v: LaneMath, x: str, quarters: int, call: Callable[[str], str]) -> str:
    """Append the sine of ``x`` and so many quarter turns, for finite numbers.

    ``call`` appends that of a number of the same type from ``-pi / 4`` to ``3 / 4 * pi``.
    """
    d = LaneMath(v.w, LaneScalar(float64.kind, float64.bits, v.t.width))
    w, whole = v.w, vector("i64", d.t)
    if v.t.bits == 64:
        turns, angle = _of_double(d, x)
    else:
        turns, angle = _of_single(d, w.op(f"fpext {v.reg} {x} to {d.reg}"))
    if quarters:
        turns = w.op(f"add {whole} {turns}, {d.bits(quarters)}")
    is_odd = w.op(f"trunc {whole} {turns} to {d.mask}")
    near = d.select(is_odd, d.sub(math.pi / 2, angle), angle)
    integer = vector(f"i{v.t.bits}", v.t)
    if v.t.bits == 32:
        near = w.op(f"fptrunc {d.reg} {near} to {v.reg}")
        turns = w.op(f"trunc {whole} {turns} to {integer}")
    is_half = w.op(f"and {integer} {turns}, {v.bits(2)}")
    sign = w.op(f"shl {integer} {is_half}, {v.bits(v.t.bits - 2)}")
    signed = w.op(f"xor {integer} {w.op(f'bitcast {v.reg} {call(near)} to {integer}')}, {sign}")
    return w.op(f"bitcast {integer} {signed} to {v.reg}")


def _of_single(d: LaneMath, x: str) -> tuple[str, str]:
    """The quarter turns of a float32, as integers, and the angle that is left.

    Two pieces of 26 bits have exact products; those of the third, of 53 bits, are less than one half.
    """
    pieces = [math.ldexp(_piece(26 * k, 26), -26 * (k + 1)) for k in range(5)]
    last = [math.ldexp(_piece(26 * k, 54) + 1 >> 1, -26 * k - 53) for k in range(2, 6)]  # rounded
    starts = [d.compare("oge", d.abs(x), 2.0 ** (51 + 26 * k)) for k in range(3)]

    def piece_of(pieces: Sequence[float]) -> str | float:
        chosen: str | float = pieces[0]
        for is_beyond, piece in zip(starts, pieces[1:], strict=False):
            chosen = d.select(is_beyond, piece, chosen)
        return chosen

    first, second = (_modulo_4(d, d.mul(x, piece_of(p))) for p in (pieces[:4], pieces[1:]))
    total, third = d.add(first, second), piece_of(last)
    turns, whole = _nearest(d, d.add(total, d.mul(x, third)))
    rest = d.sub(total, whole)
    if "fma" in d.w.target.feature_set:
        rest = d.intrinsic("fma", x, third, rest)
    else:
        rest = d.add(rest, d.mul(x, third))
    return turns, d.mul(rest, math.pi / 2)


def _of_double(d: LaneMath, x: str) -> tuple[str, str]:
    """The quarter turns of a float64, as integers, and the angle that is left.

    A table has four pieces of 53 bits for each 32 bits at which they may begin.
    """
    scaled, pieces = _table_at(d, x)
    products = [d.mul(scaled, piece) for piece in pieces]
    errors = [d.intrinsic("fma", scaled, piece, _neg(d, p)) for piece, p in zip(pieces[:3], products, strict=False)]
    total, low = _sum(d, _large_modulo_4(d, products[0]), _modulo_4(d, errors[0]))
    for term in (_modulo_4(d, products[1]), errors[1], products[2]):
        total, rest = _sum(d, total, term)
        low = d.add(low, rest)
    turns, whole = _nearest(d, total)
    rest, low = _sum(d, d.sub(total, whole), low)
    low = d.add(low, d.add(errors[2], products[3]))
    angle = d.mul(rest, math.pi / 2)
    error = d.intrinsic("fma", rest, math.pi / 2, _neg(d, angle))
    return turns, d.add(angle, d.add(d.add(error, d.mul(rest, _HALF_PI_REST)), d.mul(low, math.pi / 2)))


def _table_at(d: LaneMath, x: str) -> tuple[str, list[str]]:
    """``x`` without the powers of two that the pieces of ``2 / pi`` for its exponent have, and these four pieces."""
    w, whole = d.w, vector("i64", d.t)
    steps = (1023 - 52 - 2) // 32 + 1
    numbers = [math.ldexp(_piece(32 * s + 53 * k, 53), -53 * (k + 1)) for s in range(steps) for k in range(4)]
    texts = ", ".join(f"double {constant(n, float64)}" for n in numbers)
    w.helper(_TABLE, f"{_TABLE} = private unnamed_addr constant [{len(numbers)} x double] [{texts}], align 64")
    number = w.op(f"bitcast {d.reg} {x} to {whole}")
    exponent = w.op(f"and {whole} {w.op(f'lshr {whole} {number}, {d.bits(52)}')}, {d.bits(0x7FF)}")
    step = w.op(f"ashr {whole} {w.op(f'sub {whole} {exponent}, {d.bits(1023 + 52 + 2)}')}, {d.bits(5)}")
    step = w.intrinsic(f"llvm.smax.v{d.t.width}i64", whole, [whole] * 2, [step, d.bits(0)])
    scaled = w.op(f"sub {whole} {number}, {w.op(f'shl {whole} {step}, {d.bits(52 + 5)}')}")
    first = w.op(f"shl {whole} {step}, {d.bits(2)}")
    pieces = []
    for k in range(4):
        at = w.op(f"add {whole} {first}, {d.bits(k)}")
        pieces.append(gather(w, d.t, w.op(f"getelementptr double, ptr {_TABLE}, {whole} {at}")))
    return w.op(f"bitcast {whole} {scaled} to {d.reg}"), pieces


def _neg(d: LaneMath, x: str) -> str:
    return d.w.op(f"fneg {d.reg} {x}")


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


def _nearest(d: LaneMath, x: str) -> tuple[str, str]:
    """The nearest integer, as an integer of which the lowest bits count, and as a float."""
    shifted = d.add(x, _ROUNDING)
    return d.w.op(f"bitcast {d.reg} {shifted} to {vector('i64', d.t)}"), d.sub(shifted, _ROUNDING)
