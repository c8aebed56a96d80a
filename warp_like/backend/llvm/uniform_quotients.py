"""Quotients of lanes of float32 by one number for all lanes, in loops: by its inverse, with the bits of a division.

Dividing 16 numbers keeps the divider of a processor with AVX-512 busy for 10 to 16 cycles. With ``y`` the inverse of
the divisor ``b``, rounded to nearest, this takes a product and four fused additions, of which two are remainders::

    q = a * y
    q = q + (a - b * q) * y
    q = q + (a - b * q) * y

The first two lines leave an error below one unit in the last place, since the second one is off by little more than its
rounding. The third then rounds the quotient itself: Markstein, "Computation of elementary functions on the IBM RISC
System/6000 processor" (1990), theorem for a correctly rounded inverse; also Muller et al., "Handbook of Floating-Point
Arithmetic", the chapter on division. That holds where nothing overflows, and where remainders are exact: with sizes of
``a`` and ``b`` from 2**-60 to 2**60, quotients are normal numbers, and remainders have no digits below 2**-107. Zeros
are fine as well, but lose their sign, so the sign is that of the first line. For all other numbers, a branch divides.
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.backend.llvm.lane_math import LaneMath, choose
from warp_like.backend.llvm.shuffle import join, splat, split
from warp_like.backend.llvm.values import LaneScalar, constant, leaves
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Lanes, float32

LANES = 16
LEAST, MOST = (127 - 60) << 23, (127 + 60) << 23
"""The bits of 2**-60 and 2**60."""
SIZE = 0x7FFFFFFF
"""All bits but the sign."""


def is_float32_quotient(o: ops.Apply) -> bool:
    """Return whether ``o`` divides numbers of float32, in lanes or not."""
    t = o.result.type
    return o.fn == "div" and (t.of if isinstance(t, Lanes) else t) == float32


def quotient_by_uniform(w: Writer, o: ops.Apply, scalar: Callable[[Value], str]) -> str | None:
    """Append ``o`` if it is such a quotient, and return its register; ``scalar`` gives that of a value."""
    if not is_float32_quotient(o) or w.target.is_gpu or "avx512f" not in w.target.feature_set:
        return None
    a, divisor = o.args
    if not isinstance(divisor.op, ops.Broadcast) or not isinstance(a.type, Lanes) or a.type.width % LANES:
        return None
    ((t, _),) = leaves(o.result.type)
    assert isinstance(t, LaneScalar)
    b = scalar(divisor.op.x)
    inverse = w.op(f"fdiv float {constant(1.0, float32)}, {b}")
    v = LaneMath(w, t)
    odd = w.op(f"or i1 {v.any(_odd(w, v, scalar(a)))}, {_is_odd(w, b)}")
    return choose(
        v,
        odd,
        "quotient",
        [scalar(a), scalar(divisor), splat(w, t, inverse)],
        lambda a, b, y: w.op(f"fdiv {v.reg} {a}, {b}"),
        lambda a, b, y: _usual(w, t, a, b, y),
    )


def _usual(w: Writer, t: LaneScalar, a: str, b: str, y: str) -> str:
    one = LaneScalar(t.kind, t.bits, LANES)
    parts = zip(*(split(w, t, x, LANES) for x in (a, b, y)), strict=True)
    return join(w, one, [_of_register(LaneMath(w, one), *part) for part in parts])


def _of_register(v: LaneMath, a: str, b: str, y: str) -> str:
    less = v.w.op(f"fneg {v.reg} {b}")
    first = quotient = v.mul(a, y)
    for _ in range(2):
        quotient = v.intrinsic("fma", v.intrinsic("fma", less, quotient, a), y, quotient)
    return v.intrinsic("copysign", quotient, first)


def _odd(w: Writer, v: LaneMath, a: str) -> str:
    """Which lanes are neither 0 nor of a usual size."""
    integers = f"<{v.t.width} x i32>"
    size = w.op(f"and {integers} {w.op(f'bitcast {v.reg} {a} to {integers}')}, {v.bits(SIZE)}")
    above = w.op(f"sub {integers} {size}, {v.bits(LEAST)}")
    outside = w.op(f"icmp ugt {integers} {above}, {v.bits(MOST - LEAST)}")
    return v.both(outside, w.op(f"icmp ne {integers} {size}, zeroinitializer"))


def _is_odd(w: Writer, b: str) -> str:
    """Whether the divisor is not of a usual size."""
    size = w.op(f"and i32 {w.op(f'bitcast float {b} to i32')}, {SIZE}")
    return w.op(f"icmp ugt i32 {w.op(f'sub i32 {size}, {LEAST}')}, {MOST - LEAST}")


__all__ = ["is_float32_quotient", "quotient_by_uniform"]
