"""The angle of a point, ``atan2(y, x)``, in lanes: points whose coordinates have very different or extreme sizes.

The library is slow where a coordinate is 0, infinite or NaN, or where the square of their ratio leaves the numbers. The
angle depends on the ratio alone: both coordinates are scaled to a middle size, by their exponents. Where the ratio is
below the rounding error of ``pi``, the angle is ``y / x``, ``pi`` or ``pi / 2``. Denormal numbers meet no arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from warp_like.backend.llvm.lane_math import LaneMath, mantissa, scaled

_USUAL = {32: 12, 64: 60}
"""Coordinates from ``2**-n`` to ``2**n`` go to the library as they are."""

_APART = {32: 25, 64: 120}
"""From the ratio ``2**n`` on, the smaller coordinate counts for nothing, or linearly."""

_END = 1 << 13
"""An exponent beyond all others."""


def is_unusual(v: LaneMath, y: str, x: str) -> str:
    """Append the mask of the points that ``angle`` is for."""
    most = _USUAL[v.t.bits]

    def outside(a: str) -> str:
        above = v.w.op(f"sub {v.integer} {v.to_bits(v.abs(a))}, {v.bits(v.one - most << v.digits)}")
        return v.w.op(f"icmp ugt {v.integer} {above}, {v.bits(2 * most << v.digits)}")

    return v.either(outside(y), outside(x))


def angle(v: LaneMath, y: str, x: str, call: Callable[[str, str], str]) -> str:
    """Append ``atan2(y, x)`` for all points; ``call`` appends that of the library.

    0 has an exponent far below all others, as ``y`` farther than as ``x``, and infinity one far above.
    """
    w = v.w
    across, along = v.abs(y), v.abs(x)
    (m, j), (n, k) = _parts(v, across, -2 * _END), _parts(v, along, -_END)
    difference = w.op(f"sub {v.integer} {j}, {k}")
    beyond = w.intrinsic(f"llvm.abs.v{v.t.width}i{v.t.bits}", v.integer, [v.integer, "i1"], [difference, "false"])
    apart = w.op(f"icmp sgt {v.integer} {beyond}, {v.bits(_APART[v.t.bits])}")
    is_flat = w.op(f"icmp slt {v.integer} {difference}, zeroinitializer")

    def near(mantissa: str, lower: str, a: str) -> str:
        """A coordinate divided by the power of two in the larger one; 1 where it counts for nothing."""
        exponent = w.select(apart, v.integer, "zeroinitializer", _at_most_0(v, lower), v.mask)
        moved = w.op(
            f"add {v.integer} {v.to_bits(mantissa)}, {w.op(f'shl {v.integer} {exponent}, {v.bits(v.digits)}')}"
        )
        return v.intrinsic("copysign", v.from_bits(moved), a)

    usual = call(near(m, difference, y), near(n, w.op(f"sub {v.integer} zeroinitializer, {difference}"), x))
    ratio = scaled(v, w.op(f"fdiv {v.reg} {m}, {n}"), _at_most_0(v, difference))
    is_behind = w.op(f"icmp slt {v.integer} {v.to_bits(x)}, zeroinitializer")
    end = v.select(is_flat, v.select(is_behind, math.pi, ratio), math.pi / 2)
    result = v.select(apart, v.intrinsic("copysign", end, y), usual)
    return v.select(v.compare("uno", x, y), math.nan, result)


def _parts(v: LaneMath, size: str, zero: int) -> tuple[str, str]:
    """The mantissa and the exponent, to which ``zero`` is added for 0."""
    m, exponent = mantissa(v, size)
    further = v.w.select(v.compare("oeq", size, math.inf), v.integer, v.bits(_END), "zeroinitializer", v.mask)
    further = v.w.select(v.compare("oeq", size, 0.0), v.integer, v.bits(zero), further, v.mask)
    return m, v.w.op(f"add {v.integer} {exponent}, {further}")


def _at_most_0(v: LaneMath, exponent: str) -> str:
    name = f"llvm.smin.v{v.t.width}i{v.t.bits}"
    return v.w.intrinsic(name, v.integer, [v.integer] * 2, [exponent, "zeroinitializer"])
