"""The angle of a point, ``atan2(y, x)``, in lanes: points whose coordinates have very different or extreme sizes.

The library is slow where a coordinate is 0, infinite or NaN, or where the square of their ratio leaves the numbers. The
angle depends on the ratio alone: both coordinates are scaled to a middle size. Where the ratio is below the rounding
error of ``pi``, the angle is ``y / x``, ``pi`` or ``pi / 2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from warp_like.backend.llvm.lane_math import LaneMath, denormal_digits
from warp_like.backend.llvm.values import vector


class _Sizes(NamedTuple):
    """Of a float type: the numbers below are exponents of 2.

    Attributes:
        usual: Coordinates from ``-usual`` to ``usual`` go to the library as they are.
        apart: From this ratio on, the smaller coordinate counts for nothing, or linearly.
        middle: Up to ``middle`` and from ``-middle`` on, the larger coordinate needs no scale.
        down: The scale of larger ones.
        up: The scale of smaller ones.
    """

    usual: int
    apart: int
    middle: int
    down: int
    up: int


_SINGLE, _DOUBLE = _Sizes(12, 25, 40, -80, 100), _Sizes(60, 120, 500, -600, 700)


def is_unusual(v: LaneMath, y: str, x: str) -> str:
    """Append the mask of the points that ``angle`` is for."""
    most = _sizes(v).usual

    def outside(a: str) -> str:
        size, integer = _bits(v, v.abs(a)), _integer(v)
        above = v.w.op(f"sub {integer} {size}, {v.bits(_exponent(v, -most))}")
        return v.w.op(f"icmp ugt {integer} {above}, {v.bits(2 * most << _digits(v))}")

    return v.either(outside(y), outside(x))


def angle(v: LaneMath, y: str, x: str, call: Callable[[str, str], str]) -> str:
    """Append ``atan2(y, x)`` for all points; ``call`` appends that of the library."""
    w, sizes = v.w, _sizes(v)
    across, along = _without_denormals(v, v.abs(y), v.abs(x))
    difference = w.op(f"sub {_integer(v)} {_bits(v, along)}, {_bits(v, across)}")
    apart = w.op(f"icmp sgt {_integer(v)} {_absolute(v, difference)}, {v.bits(sizes.apart << _digits(v))}")
    larger = v.intrinsic("maximumnum", across, along)
    infinite = v.compare("oeq", larger, math.inf)
    apart = v.either(apart, v.both(infinite, v.compare("one", across, along)))
    scale = v.select(v.compare("olt", larger, 2.0**-sizes.middle), 2.0**sizes.up, 1.0)
    scale = v.select(v.compare("ogt", larger, 2.0**sizes.middle), 2.0**sizes.down, scale)
    unknown = v.compare("uno", x, y)
    replaced = v.either(unknown, v.either(apart, infinite))

    def near(size: str, a: str) -> str:
        scaled = v.mul(v.select(replaced, 1.0, size), v.select(replaced, 1.0, scale))
        return v.intrinsic("copysign", scaled, a)

    usual = call(near(across, y), near(along, x))
    is_flat = w.op(f"icmp sgt {_integer(v)} {difference}, {v.bits(0)}")
    is_ratio = v.both(v.both(apart, is_flat), v.compare("ogt", x, 0.0))
    ratio = w.op(f"fdiv {v.reg} {v.select(is_ratio, across, 0.0)}, {v.select(is_ratio, along, 1.0)}")
    end = v.select(is_flat, v.select(is_ratio, ratio, math.pi), math.pi / 2)
    result = v.select(apart, v.intrinsic("copysign", end, y), usual)
    return v.select(unknown, math.nan, result)


def _without_denormals(v: LaneMath, a: str, b: str) -> tuple[str, str]:
    """The same point, and where both coordinates are denormal, one in the same direction."""
    least = v.bits(_exponent(v, -1022 if v.t.bits == 64 else -126))
    either = v.w.op(f"or {_integer(v)} {_bits(v, a)}, {_bits(v, b)}")
    small = v.w.op(f"icmp ult {_integer(v)} {either}, {least}")
    return v.select(small, denormal_digits(v, a), a), v.select(small, denormal_digits(v, b), b)


def _sizes(v: LaneMath) -> _Sizes:
    return _DOUBLE if v.t.bits == 64 else _SINGLE


def _integer(v: LaneMath) -> str:
    return vector(f"i{v.t.bits}", v.t)


def _bits(v: LaneMath, x: str) -> str:
    return v.w.op(f"bitcast {v.reg} {x} to {_integer(v)}")


def _absolute(v: LaneMath, x: str) -> str:
    return v.w.intrinsic(f"llvm.abs.v{v.t.width}i{v.t.bits}", _integer(v), [_integer(v), "i1"], [x, "false"])


def _digits(v: LaneMath) -> int:
    """The bits of the mantissa."""
    return 52 if v.t.bits == 64 else 23


def _exponent(v: LaneMath, n: int) -> int:
    """The bits of ``2**n``."""
    return (n + (1023 if v.t.bits == 64 else 127)) << _digits(v)
