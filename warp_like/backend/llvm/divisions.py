"""Divisions in lanes of what processors divide one by one: quotients of integers, and remainders of floats.

Integers of up to 32 bits are divided as float64, which is exact: a quotient that is no integer is farther from the next
one than float64 rounds. So are remainders of float32, where the quotient has at most 29 bits: its product with the
divisor is then exact, too. Remainders of float64 take a fused multiply-add. Where a quotient may be larger, libm is
called lane by lane.
"""

from __future__ import annotations

import math

from warp_like.backend.llvm.lane_math import LaneMath, call_function, choose
from warp_like.backend.llvm.shuffle import from_lanes, to_lanes
from warp_like.backend.llvm.values import LaneScalar, register_type
from warp_like.backend.llvm.writer import PURE_CALL, Writer
from warp_like.ir.types import float64


def integer_quotient(w: Writer, t: LaneScalar, a: str, b: str) -> str:
    """Append the truncated quotient of integers; ``b`` is not 0, and the quotient does not overflow."""
    r, d = register_type(t), LaneMath(w, LaneScalar(float64.kind, float64.bits, t.width))
    sign = "s" if t.is_signed else "u"
    x, y = (w.op(f"{sign}itofp {r} {v} to {d.reg}") for v in (a, b))
    return w.op(f"fpto{sign}i {d.reg} {w.op(f'fdiv {d.reg} {x}, {y}')} to {r}")


def remainder(w: Writer, t: LaneScalar, a: str, b: str) -> str:
    """Append ``fmod(a, b)`` of floats."""
    return call_function(LaneMath(w, t), "fmod", [a, b], lambda a, b: _remainder(w, t, a, b))


def _remainder(w: Writer, t: LaneScalar, a: str, b: str) -> str:
    v, d = LaneMath(w, t), LaneMath(w, LaneScalar(float64.kind, float64.bits, t.width))
    x, y = (v.abs(k) if t.bits == 64 else w.op(f"fpext {v.reg} {v.abs(k)} to {d.reg}") for k in (a, b))
    most = 2.0**51 if t.bits == 64 else 2.0**29
    usual = d.both(d.compare("olt", x, d.mul(y, most)), d.compare("olt", y, math.inf))

    def in_double(a: str, b: str) -> str:
        quotient = d.intrinsic("trunc", w.op(f"fdiv {d.reg} {x}, {y}"))
        if t.bits == 64:
            rest = d.intrinsic("fma", w.op(f"fneg {d.reg} {quotient}"), y, x)
            size = d.select(d.compare("olt", rest, 0.0), d.add(rest, y), rest)  # where the quotient was rounded up
        else:
            size = w.op(f"fptrunc {d.reg} {d.sub(x, d.mul(quotient, y))} to {v.reg}")
        return v.intrinsic("copysign", size, a)

    return choose(v, v.any(v.unless(usual)), "fmod_special", [a, b], lambda a, b: _by_libm(w, t, a, b), in_double)


def _by_libm(w: Writer, t: LaneScalar, a: str, b: str) -> str:
    one, name = register_type(t.one), "fmod" if t.bits == 64 else "fmodf"
    w.declare(name, f"{one} @{name}({one}, {one})")
    lanes = zip(from_lanes(w, t, a), from_lanes(w, t, b), strict=True)
    calls = [w.op(f"call {one} @{name}({one} {x}, {one} {y}) {w.attributes(PURE_CALL)}") for x, y in lanes]
    return to_lanes(w, t, calls)


__all__ = ["integer_quotient", "remainder"]
