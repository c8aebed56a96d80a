"""Divisions in lanes of what processors divide one by one: quotients of integers, and remainders of floats.

Integers of up to 32 bits are divided as float64, which is exact: a quotient that is no integer is farther from the next
one than float64 rounds. So are remainders of float32, where the quotient has at most 29 bits: its product with the
divisor is then exact, too. Remainders of float64 take a fused multiply-add. Where a quotient may be larger, it is made
of several bits at a time, as by hand: all lanes go on until the longest quotient is done.
"""

from __future__ import annotations

import math

from warp_like.backend.llvm.lane_math import LaneMath, call_function, choose
from warp_like.backend.llvm.values import LaneScalar, register_type, vector
from warp_like.backend.llvm.writer import Writer
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
    x, y = _sizes(v, d, a, b)
    most = 2.0**51 if t.bits == 64 else 2.0**29
    usual = d.both(d.compare("olt", x, d.mul(y, most)), d.compare("olt", y, math.inf))

    def in_double(a: str, b: str) -> str:
        return _with_sign(v, d, _rest(d, x, y, t.bits == 64), a)

    return choose(v, v.any(v.unless(usual)), "fmod_special", [a, b], lambda a, b: _long_division(v, d, a, b), in_double)


def _sizes(v: LaneMath, d: LaneMath, *numbers: str) -> tuple[str, ...]:
    """The absolute values, in float64."""
    sizes = (v.abs(n) for n in numbers)
    return tuple(sizes if v.t.bits == 64 else (v.w.op(f"fpext {v.reg} {n} to {d.reg}") for n in sizes))


def _with_sign(v: LaneMath, d: LaneMath, size: str, a: str) -> str:
    return v.intrinsic("copysign", size if v.t.bits == 64 else v.w.op(f"fptrunc {d.reg} {size} to {v.reg}"), a)


def _rest(d: LaneMath, x: str, y: str, fused: bool) -> str:
    """The remainder of ``x / y``, whose product with ``y`` is exact or ``fused``."""
    quotient = d.intrinsic("trunc", d.w.op(f"fdiv {d.reg} {x}, {y}"))
    if not fused:
        return d.sub(x, d.mul(quotient, y))
    rest = d.intrinsic("fma", d.w.op(f"fneg {d.reg} {quotient}"), y, x)
    return d.select(d.compare("olt", rest, 0.0), d.add(rest, y), rest)  # where the quotient was rounded up


def _long_division(v: LaneMath, d: LaneMath, a: str, b: str) -> str:
    """``fmod(a, b)`` for all numbers: the mantissas are divided, with as many bits of the quotient as are exact.

    With ``x = m * 2**j`` and ``y = n * 2**k``, each round replaces ``m * 2**i`` by its remainder, until ``i`` of the
    ``j - k`` bits are used up. No number on the way overflows or is denormal.
    """
    w, whole = d.w, vector("i64", d.t)
    x, y = _sizes(v, d, a, b)
    defined = d.both(d.compare("olt", x, math.inf), d.both(d.compare("ogt", y, 0.0), d.compare("olt", y, math.inf)))
    (m, j), (n, k) = _mantissa(d, x), _mantissa(d, y)
    all_bits = w.op(f"sub {whole} {j}, {k}")
    bits = w.select(defined, whole, all_bits, "zeroinitializer", d.mask)
    rest = _rounds(d, d.select(d.compare("oge", m, n), d.sub(m, n), m), n, bits, 52 if _is_fused(v) else 28)
    size = _scaled(d, rest, w.select(defined, whole, k, d.bits(1023), d.mask))  # 0 takes long as an exponent
    below = w.op(f"icmp slt {whole} {all_bits}, zeroinitializer")
    is_all = d.either(below, d.both(d.compare("oeq", y, math.inf), d.compare("olt", x, math.inf)))
    size = d.select(is_all, x, d.select(defined, size, math.nan))
    return _with_sign(v, d, d.select(d.compare("uno", x, y), math.nan, size), a)


def _is_fused(v: LaneMath) -> bool:
    return "fma" in v.w.target.feature_set


def _rounds(d: LaneMath, rest: str, divisor: str, bits: str, most: int) -> str:
    """``rest * 2**bits`` modulo ``divisor``, by ``most`` bits in a round; both are in ``[0, 2)``."""
    w, whole = d.w, vector("i64", d.t)
    head, body, end = (w.label(hint) for hint in ("rounds", "round", "divided"))
    before = w.block
    w.jump(head)
    w.start(head)
    phis = w.phis([d.reg, whole])
    phis.add([rest, bits], before)
    rest, bits = phis.registers
    w.branch(d.any(w.op(f"icmp sgt {whole} {bits}, zeroinitializer")), body, end)
    w.start(body)
    some = w.intrinsic(f"llvm.smin.v{d.t.width}i64", whole, [whole] * 2, [bits, d.bits(most)])
    some = w.intrinsic(f"llvm.smax.v{d.t.width}i64", whole, [whole] * 2, [some, d.bits(0)])
    larger = d.mul(rest, _power_of_two(d, w.op(f"add {whole} {some}, {d.bits(1023)}")))
    following = _rest(d, larger, divisor, most == 52)
    phis.add([following, w.op(f"sub {whole} {bits}, {some}")], w.block)
    phis.finish()
    w.jump(head)
    w.start(end)
    return rest


def _mantissa(d: LaneMath, x: str) -> tuple[str, str]:
    """A positive number as one in ``[1, 2)`` and its biased exponent, which is at most 0 if it is denormal."""
    w, whole = d.w, vector("i64", d.t)
    small = d.compare("olt", x, 2.0**-1022)
    number = w.op(f"bitcast {d.reg} {d.select(small, d.mul(x, 2.0**54), x)} to {whole}")
    biased = w.op(f"lshr {whole} {number}, {d.bits(52)}")
    exponent = w.op(f"sub {whole} {biased}, {w.select(small, whole, d.bits(54), 'zeroinitializer', d.mask)}")
    digits = w.op(f"and {whole} {number}, {d.bits((1 << 52) - 1)}")
    return w.op(f"bitcast {whole} {w.op(f'or {whole} {digits}, {d.bits(1023 << 52)}')} to {d.reg}"), exponent


def _scaled(d: LaneMath, x: str, exponent: str) -> str:
    """``x`` times two to the power of a biased exponent, which may be that of a denormal number."""
    w, whole = d.w, vector("i64", d.t)
    half = w.op(f"ashr {whole} {exponent}, {d.bits(1)}")
    rest = w.op(f"sub {whole} {exponent}, {half}")
    first = _power_of_two(d, w.op(f"add {whole} {half}, {d.bits(512)}"))
    return d.mul(d.mul(x, first), _power_of_two(d, w.op(f"add {whole} {rest}, {d.bits(511)}")))


def _power_of_two(d: LaneMath, biased: str) -> str:
    whole = vector("i64", d.t)
    return d.w.op(f"bitcast {whole} {d.w.op(f'shl {whole} {biased}, {d.bits(52)}')} to {d.reg}")


__all__ = ["integer_quotient", "remainder"]
