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
    product,
)
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
    """The remainder of ``x / y``, whose product with ``y`` is exact or ``fused``.

    Where ``fused``, no quotient is denormal, which would take long: that of a lesser divisor is 0, too.
    """
    divisor = y
    if fused:
        most = d.add_product(2.0**-900, x, 2.0**100)
        divisor = d.select(d.compare("olt", y, most), y, most)
    quotient = d.intrinsic("trunc", d.w.op(f"fdiv {d.reg} {x}, {divisor}"))
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
    m, j = _whole(d, x, v.digits)
    n, k = _normalised(d, *_whole(d, y, v.digits), v.digits)
    difference = w.op(f"sub {d.integer} {j}, {k}")
    bits = w.intrinsic(f"llvm.smax.v{d.t.width}i64", d.integer, [d.integer] * 2, [difference, d.bits(0)])
    size = _from_whole(d, _Modulus(d, v.digits, n).residue(m, bits), k, v.digits)
    size = d.select(w.op(f"icmp slt {d.integer} {difference}, zeroinitializer"), x, size)
    defined = d.both(d.compare("olt", x, math.inf), d.compare("ogt", y, 0.0))
    return _with_sign(v, d, d.select(defined, size, math.nan), a)


def _whole(d: LaneMath, x: str, digits: int) -> tuple[str, str]:
    """A finite number of at least 0 as a whole one of ``digits`` bits and one, and its biased exponent.

    That of a denormal number has fewer bits, and the exponent 1. A float32 is not denormal in float64.
    """
    w, integer = d.w, d.integer
    bits = d.to_bits(x)
    exponent = w.op(f"lshr {integer} {bits}, {d.bits(d.digits)}")
    whole = _with_exponent(d, bits, digits)
    if digits == d.digits:
        small = w.op(f"icmp eq {integer} {exponent}, zeroinitializer")
        whole = d.select(small, d.sub(whole, 2.0**digits), whole)
        exponent = w.intrinsic(f"llvm.smax.v{d.t.width}i64", integer, [integer] * 2, [exponent, d.bits(1)])
    return whole, exponent


def _normalised(d: LaneMath, whole: str, exponent: str, digits: int) -> tuple[str, str]:
    """What ``_whole`` gives, with all bits."""
    if digits < d.digits:
        return whole, exponent
    w, bits = d.w, d.to_bits(whole)
    more = w.op(f"sub {d.integer} {w.op(f'lshr {d.integer} {bits}, {d.bits(d.digits)}')}, {d.bits(d.one + digits)}")
    return _with_exponent(d, bits, digits), w.op(f"add {d.integer} {exponent}, {more}")


def _from_whole(d: LaneMath, whole: str, exponent: str, digits: int) -> str:
    """The number that ``_whole`` makes such a pair of, whose digits may be fewer or 0; its sign does not count.

    Those of denormal numbers are counted.
    """
    w, integer = d.w, d.integer
    if digits < d.digits:
        return d.mul(whole, _power_of_two(d, w.op(f"sub {integer} {exponent}, {d.bits(d.one + digits)}")))
    by = w.op(f"shl {integer} {w.op(f'sub {integer} {exponent}, {d.bits(d.one + digits)}')}, {d.bits(digits)}")
    moved = w.op(f"add {integer} {d.to_bits(whole)}, {by}")
    low = w.intrinsic(f"llvm.smin.v{d.t.width}i64", integer, [integer] * 2, [exponent, d.bits(64)])
    count = d.mul(whole, _power_of_two(d, w.op(f"sub {integer} {low}, {d.bits(1)}")))
    counted = w.op(f"sub {integer} {d.to_bits(d.add(count, 2.0**digits))}, {d.bits(d.one + digits << digits)}")
    return d.from_bits(w.select(d.compare("olt", count, 2.0**digits), integer, counted, moved, d.mask))


def _with_exponent(d: LaneMath, bits: str, exponent: int) -> str:
    """The number with the mantissa of ``bits`` and another exponent."""
    mantissa = d.w.op(f"and {d.integer} {bits}, {d.bits((1 << d.digits) - 1)}")
    return d.from_bits(d.w.op(f"or {d.integer} {mantissa}, {d.bits(d.one + exponent << d.digits)}"))


def _power_of_two(d: LaneMath, n: str) -> str:
    """``2**n`` for integers ``n``."""
    biased = d.w.op(f"add {d.integer} {n}, {d.bits(d.one)}")
    return d.from_bits(d.w.op(f"shl {d.integer} {biased}, {d.bits(d.digits)}"))


class _Modulus:
    """Arithmetic modulo a whole number ``n`` of 53 or 24 bits, on whole numbers.

    Of 24 bits, products of two residues are exact. Of 53, they are a float and its error.
    """

    def __init__(self, d: LaneMath, digits: int, n: str) -> None:
        self.d, self.digits, self.n = d, digits, n
        self.inverse = d.w.op(f"fdiv {d.reg} {constant(1.0, d.t)}, {n}")

    def residue(self, m: str, bits: str) -> str:
        """``m * 2**bits`` modulo ``n``, from 0 on.

        ``2**bits`` is a power of two, squared a few times, without branches: these would be hard to predict. The last
        bits go to ``m``.
        """
        d, w = self.d, self.d.w
        squares = 4 if self.digits == 52 else 2
        first = w.op(f"lshr {d.integer} {bits}, {d.bits(squares)}")
        last = w.op(f"and {d.integer} {bits}, {d.bits((1 << squares) - 1)}")
        power = self._power_of_two(first)
        for _ in range(squares):
            size = power if self.digits == 23 else self._least_size(power)[0]
            power = self._product(size, size)
        rest = self._times(self._reduced(d.mul(m, _power_of_two(d, last))), power)
        return d.select(d.compare("olt", rest, 0.0), d.add(rest, self.n), rest)

    def _power_of_two(self, bits: str) -> str:
        """A residue of ``2**bits``, for up to 131 bits, or 69 where ``n`` has 24."""
        d, w = self.d, self.d.w
        if self.digits == 23:
            return self._reduced(_power_of_two(d, bits))
        most = d.bits(51 + self.digits)
        first = w.intrinsic(f"llvm.smin.v{d.t.width}i64", d.integer, [d.integer] * 2, [bits, most])
        more = _power_of_two(d, w.op(f"sub {d.integer} {bits}, {first}"))
        return self._reduced(d.mul(self._reduced(_power_of_two(d, first)), more))

    def _reduced(self, x: str, rounding: float = _ROUNDING) -> str:
        """A residue of at most ``0.75 * n`` in size, of an ``x`` of at most ``n * 2**51``: exact.

        The quotient is rounded, and its error by the inverse is at most ``2**51 * 2**-53``.
        """
        d = self.d
        quotient = d.sub(d.add_product(rounding, x, self.inverse), rounding)
        return less_product(d, x, quotient, self.n)

    def _product(self, x: str, y: str) -> str:
        """A residue of a product of numbers from 0 to ``n / 2``: less than ``n`` in size.

        The error of a product is at most ``2**50``, and less than ``0.2 * n``; the sum is whole, and exact.
        """
        if self.digits == 23:
            return self._reduced(self.d.mul(x, y))
        p, error = product(self.d, x, y)
        return self.d.add(self._reduced(p, 2.0**52), error)

    def _least_size(self, x: str) -> tuple[str, str]:
        """The size of the least residue, given one of less than ``n`` in size, and whether that is another one."""
        d, size = self.d, self.d.abs(x)
        other = d.sub(self.n, size)
        is_less = d.compare("olt", other, size)
        return d.select(is_less, other, size), is_less

    def _times(self, x: str, y: str) -> str:
        """A residue of a product of residues."""
        if self.digits == 23:
            return self._reduced(self.d.mul(x, y))
        d, w = self.d, self.d.w
        (size, is_less), (other, is_other_less) = self._least_size(x), self._least_size(y)
        signs = w.op(f"xor {d.integer} {d.to_bits(x)}, {d.to_bits(y)}")
        changed = w.op(f"xor {d.integer} {signs}, {d.bits(1 << 63)}")
        signs = w.select(w.op(f"xor {d.mask} {is_less}, {is_other_less}"), d.integer, changed, signs, d.mask)
        signs = w.op(f"and {d.integer} {signs}, {d.bits(1 << 63)}")
        return d.from_bits(w.op(f"xor {d.integer} {d.to_bits(self._product(size, other))}, {signs}"))


__all__ = ["integer_quotient", "remainder"]
