"""Divisions in lanes of what processors divide one by one: quotients of integers, and remainders of floats.

Integers of up to 32 bits are divided as float64, which is exact: a quotient that is no integer is farther from the next
one than float64 rounds. So are remainders of float32, where the quotient has at most 29 bits: its product with the
divisor is then exact, too. Remainders of float64 take a fused multiply-add. Where a quotient may be larger, up to 2,098
bits, none is made: the difference of the exponents is a power of two, whose remainder is found by squaring.
"""

from __future__ import annotations

import math

from warp_like.backend.llvm.lane_math import (
    LaneMath,
    call_function,
    choose,
    less_product,
    mantissa,
    product,
    scaled,
)
from warp_like.backend.llvm.shuffle import splat
from warp_like.backend.llvm.values import LaneScalar, constant, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import float64

_ROUNDING = 6755399441055744.0
"""1.5 * 2**52: the sum with it is rounded to a whole number."""


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

    def in_double(a: str, b: str) -> str:
        rest = _rest(d, x, y, t.bits == 64)  # NaN where ``x`` is infinite or ``y`` is 0, as it shall be
        return _with_sign(v, d, d.select(d.compare("oeq", y, math.inf), d.add(x, d.sub(x, x)), rest), a)

    special = d.any(_is_long(d, x, y, t.bits))
    return choose(v, special, "fmod_special", [a, b], lambda a, b: _long_division(v, d, a, b), in_double)


def _is_long(d: LaneMath, x: str, y: str, bits: int) -> str:
    """Whether the quotient of finite numbers is long, or, for float64, a number on the way might be denormal."""
    w, infinity = d.w, d.bits(0x7FF << 52)
    a, b = d.to_bits(x), d.to_bits(y)
    beyond = w.op(f"add {d.integer} {b}, {d.bits((51 if bits == 64 else 29) << 52)}")
    long = d.both(w.op(f"icmp uge {d.integer} {a}, {beyond}"), w.op(f"icmp ult {d.integer} {a}, {infinity}"))
    long = d.both(long, w.op(f"icmp ne {d.integer} {b}, zeroinitializer"))
    for number in (a, b) if bits == 64 else ():
        below = w.op(f"sub {d.integer} {number}, {d.bits(1)}")  # 0 wraps
        long = d.either(long, w.op(f"icmp ult {d.integer} {below}, {d.bits((54 << 52) - 1)}"))
    return long


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
    rest = d.intrinsic("fma", d.negative(quotient), y, x)
    return d.select(d.compare("olt", rest, 0.0), d.add(rest, y), rest)  # where the quotient was rounded up


def _long_division(v: LaneMath, d: LaneMath, a: str, b: str) -> str:
    """``fmod(a, b)`` for all numbers.

    With ``x = m * 2**j`` and ``y = n * 2**k``, where ``m`` and ``n`` are whole and have 53 or 24 bits, it is
    ``m * 2**(j - k)`` modulo ``n``, times ``2**k``.
    """
    w = d.w
    x, y = _sizes(v, d, a, b)
    defined = d.both(d.compare("olt", x, math.inf), d.both(d.compare("ogt", y, 0.0), d.compare("olt", y, math.inf)))
    (m, j), (n, k) = mantissa(d, x), mantissa(d, y)
    all_bits = w.op(f"sub {d.integer} {j}, {k}")
    below = w.op(f"icmp slt {d.integer} {all_bits}, zeroinitializer")
    bits = w.select(d.either(below, d.unless(defined)), d.integer, "zeroinitializer", all_bits, d.mask)
    modulus = _Modulus(d, v.digits, n)
    rest = modulus.product(modulus.power_of_two(bits), modulus.residue(m))
    rest = d.abs(d.select(d.compare("olt", rest, 0.0), d.add(rest, modulus.n), rest))
    size = scaled(
        d,
        rest,
        w.select(defined, d.integer, w.op(f"sub {d.integer} {k}, {d.bits(1023 + v.digits)}"), d.bits(0), d.mask),
    )
    is_all = d.either(below, d.both(d.compare("oeq", y, math.inf), d.compare("olt", x, math.inf)))
    size = d.select(is_all, x, d.select(defined, size, math.nan))
    return _with_sign(v, d, d.select(d.compare("uno", x, y), math.nan, size), a)


class _Modulus:
    """Arithmetic modulo a whole number ``n`` of 53 or 24 bits; residues are from ``-n / 2`` to ``n / 2``.

    Of 24 bits, products of two residues are exact. Of 53, they are a float and its error. The estimated quotient is
    less than ``2**51``, so off by less than 1: what it leaves is less than ``2**53``, and exact.
    """

    def __init__(self, d: LaneMath, digits: int, n: str) -> None:
        self.d, self.digits = d, digits
        self.n = d.mul(n, 2.0**digits)
        self.inverse = d.w.op(f"fdiv {d.reg} {constant(1.0, d.t)}, {self.n}")

    def residue(self, m: str) -> str:
        """The residue of a number of the size of ``n``, given in ``[1, 2)``."""
        whole = self.d.mul(m, 2.0**self.digits)
        return less_product(self.d, whole, self._quotient(whole, self.inverse), self.n)

    def _quotient(self, x: str, inverse: str) -> str:
        return self.d.sub(self.d.add_product(_ROUNDING, x, inverse), _ROUNDING)

    def product(self, x: str, y: str, is_twice: str | None = None) -> str:
        """The residue of a product of residues; of twice the product in the lanes ``is_twice``."""
        d, inverse = self.d, self.inverse

        def once_or_twice(a: str) -> str:
            return a if is_twice is None else d.select(is_twice, d.add(a, a), a)

        if self.digits == 23:
            p = d.mul(x, once_or_twice(y))
            return less_product(d, p, self._quotient(p, inverse), self.n)
        p, error = product(d, x, y)
        rest = less_product(d, p, self._quotient(p, inverse), self.n)
        total = d.add(rest, error)
        rest, error, inverse = once_or_twice(rest), once_or_twice(error), once_or_twice(inverse)
        return d.add(less_product(d, rest, self._quotient(total, inverse), self.n), error)

    def power_of_two(self, bits: str) -> str:
        """The residue of ``2**bits``: of ``2**(bits >> s)``, below ``n / 2``, and its squares for the bits below."""
        d, w = self.d, self.d.w
        name = f"llvm.vector.reduce.smax.v{d.t.width}i64"
        most = w.intrinsic(name, "i64", [d.integer], [bits])
        head, body, end = (w.label(hint) for hint in ("squares", "square", "squared"))
        zeros = w.intrinsic(
            "llvm.ctlz.i64", "i64", ["i64", "i1"], [w.op(f"udiv i64 {most}, {self.digits - 1}"), "false"]
        )
        steps = w.op(f"sub i64 64, {zeros}")
        first = w.op(f"lshr {d.integer} {bits}, {self._splat(steps)}")
        start = d.from_bits(w.op(f"shl {d.integer} {w.op(f'add {d.integer} {first}, {d.bits(d.one)}')}, {d.bits(52)}"))
        before = w.block
        w.jump(head)
        w.start(head)
        phis = w.phis([d.reg, "i64"])
        phis.add([start, steps], before)
        power, left = phis.registers
        w.branch(w.op(f"icmp sgt i64 {left}, 0"), body, end)
        w.start(body)
        below = w.op(f"sub i64 {left}, 1")
        bit = w.op(f"and {d.integer} {bits}, {self._splat(w.op(f'shl i64 1, {below}'))}")
        is_odd = w.op(f"icmp ne {d.integer} {bit}, zeroinitializer")
        phis.add([self.product(power, power, is_odd), below], w.block)
        phis.finish()
        w.jump(head)
        w.start(end)
        return power

    def _splat(self, n: str) -> str:
        return splat(self.d.w, LaneScalar("int", 64, self.d.t.width), n)


__all__ = ["integer_quotient", "remainder"]
