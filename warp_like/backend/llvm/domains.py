"""The whole domain of the vector math library's functions, in vectors.

libmvec computes most arguments in vectors and calls libm for the others, lane by lane: where a result overflows or
vanishes, for what has no logarithm, for NaN. A kernel of one such argument in a vector takes twenty times as long. So
lanes call a function of the module instead. It looks whether any lane is outside of the *vector domain*. If none is, it
calls the library. Else it replaces the arguments outside by others inside of the domain, and puts the results right.

Outside are tiny numbers as well, whose squares or fourth powers are denormal: each multiplication of these takes
processors 150 cycles. Odd functions of them are ``x``, or a multiple. Where the function of a tiny number is that of 0,
a larger one is added, which changes no result.

``exp`` of float32 needs neither where the processor has fused additions: see ``exponential.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import NamedTuple

from warp_like.backend.llvm.angles import angle, is_unusual
from warp_like.backend.llvm.lane_math import LaneMath, call_function, choose, denormal_digits, mantissa, scaled
from warp_like.backend.llvm.periods import far
from warp_like.backend.llvm.values import LaneScalar, constant, vector
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Scalar, float64

Call = Callable[[str, LaneScalar, list[str]], str]
"""``call(libm, t, args)`` appends a call of the library's function for lanes of type ``t``."""


def is_guarded(libm: str, library: Set[str]) -> bool:
    """Return whether calls of ``libm`` in lanes go by a function of the module; ``library`` has the vector ones."""
    return libm in (*_GUARDS, *_PERIODIC, "atan2") or (libm == "pow" and library >= {"log2", "exp2"})


def call_guarded(w: Writer, libm: str, t: LaneScalar, args: list[str], call: Call) -> str:
    """Append the call of ``libm`` for arguments of its whole domain, and define the function that it calls."""
    v = LaneMath(w, t)

    def of_one(x: str) -> str:
        guard = _periodic(libm) if libm in _PERIODIC else _GUARDS[libm]
        if libm in _AT_ZERO:
            x = v.add(x, _tiny(t) / 4.0)

        def inside(x: str) -> str:
            return call(libm, t, [x])

        special = v.any(guard.outside(v, x))
        return choose(v, special, f"{libm}_special", [x], lambda x: guard.answer(v, x, inside), inside)

    def of_two(y: str, x: str) -> str:
        def inside(y: str, x: str) -> str:
            return call(libm, t, [y, x])

        def special(y: str, x: str) -> str:
            return angle(v, y, x, inside)

        return choose(v, v.any(is_unusual(v, y, x)), f"{libm}_special", [y, x], special, inside)

    bodies = {"pow": _Power(w, t, call).anywhere, "atan2": of_two}
    return call_function(v, libm, args, bodies.get(libm, of_one))


class _Guard(NamedTuple):
    """A function of one argument.

    Attributes:
        outside: ``outside(v, x)`` is the mask of lanes outside of the vector domain.
        answer: ``answer(v, x, call)`` is the result for all arguments; it calls with some inside of the domain.
    """

    outside: Callable[[LaneMath, str], str]
    answer: Callable[[LaneMath, str, Callable[[str], str]], str]


# --- functions of one argument ----------------------------------------------------------------------------------


def _least_normal(t: Scalar) -> float:
    return 2.0**-1022 if t.bits == 64 else 2.0**-126


def _by(single: float, double: float) -> Callable[[Scalar], float]:
    return lambda t: double if t.bits == 64 else single


def _beyond(limit: Callable[[Scalar], float]) -> Callable[[LaneMath, str], str]:
    """Numbers of at least that size, and NaN."""
    return lambda v, x: v.compare("uge", v.abs(x), limit(v.t))


def _exponential(limit: Callable[[Scalar], float], shift: Callable[[Scalar], float]) -> _Guard:
    """``exp``: far arguments are brought nearer by ``shift``, and the result is scaled."""
    vanished = _by(-104.0, -746.0)  # below, it is 0

    def answer(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        end, by = limit(v.t), shift(v.t)
        above, below = v.compare("ogt", x, end), v.compare("olt", x, -end)
        near = v.select(above, v.sub(x, by), v.select(below, v.add(x, by), x))
        scale = v.select(above, math.exp(by), v.select(below, math.exp(-by), 1.0))
        scale = v.select(v.compare("olt", x, vanished(v.t)), 0.0, scale)  # processors take long to round to 0
        result = v.mul(call(v.clamp(near, -end, end)), scale)
        return v.select(v.compare("uno", x, x), x, result)

    return _Guard(_beyond(limit), answer)


def _hyperbolic(limit: Callable[[Scalar], float], shift: Callable[[Scalar], float]) -> _Guard:
    """The hyperbolic sine or cosine, which are exponential where they are far from 0."""

    def answer(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        end, by = limit(v.t), shift(v.t)
        size = v.abs(x)
        far = v.compare("ogt", size, end)
        near = v.clamp(v.select(far, v.sub(size, by), size), 0.0, end)
        result = v.mul(call(v.intrinsic("copysign", near, x)), v.select(far, math.exp(by), 1.0))
        return v.select(v.compare("uno", x, x), x, result)

    return _Guard(_beyond(limit), answer)


def _logarithm(of_two: float) -> _Guard:
    """A logarithm; ``of_two`` is that of 2. Of denormal numbers the digits are taken."""

    def outside(v: LaneMath, x: str) -> str:
        least, end = (0x10 << 48, 0x7FF << 52) if v.t.bits == 64 else (0x80 << 16, 0xFF << 23)
        integer = vector(f"i{v.t.bits}", v.t)
        above = v.w.op(f"sub {integer} {v.w.op(f'bitcast {v.reg} {x} to {integer}')}, {v.bits(least)}")
        return v.w.op(f"icmp uge {integer} {above}, {v.bits(end - least)}")  # negative numbers have the highest bit

    def answer(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        bits = 1074 if v.t.bits == 64 else 149
        small = v.compare("olt", x, _least_normal(v.t))
        scaled = v.select(small, denormal_digits(v, x), x)
        has_one = v.both(v.compare("ogt", x, 0.0), v.compare("olt", x, math.inf))
        result = v.sub(call(v.select(has_one, scaled, 1.0)), v.select(small, bits * of_two, 0.0))
        end = v.select(v.compare("olt", x, 0.0), math.nan, v.select(v.compare("oeq", x, 0.0), -math.inf, x))
        return v.select(has_one, result, end)

    return _Guard(outside, answer)


def _within(inside: Callable[[LaneMath, str], str], end: Callable[[LaneMath, str], str]) -> _Guard:
    """A function that has simple values, ``end``, outside of the vector domain, in which 0 lies."""

    def answer(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        ok = inside(v, x)
        return v.select(ok, call(v.select(ok, x, 0.0)), end(v, x))

    return _Guard(lambda v, x: v.unless(inside(v, x)), answer)


def _odd(guard: _Guard, slope: float = 1.0) -> _Guard:
    """A guard that also keeps tiny numbers from the library, of which the function is ``slope * x``."""

    def outside(v: LaneMath, x: str) -> str:
        return v.either(guard.outside(v, x), _is_tiny(v, x))

    def answer(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        tiny = _is_tiny(v, x)
        result = guard.answer(v, v.select(tiny, 0.0, x), call)
        return v.select(tiny, x if slope == 1.0 else _multiple(v, x, slope), result)

    return _Guard(outside, answer)


def _multiple(v: LaneMath, x: str, slope: float) -> str:
    """A multiple of tiny numbers, some of which are denormal."""
    digits, exponent = mantissa(v, v.abs(x))
    unbiased = v.w.op(f"sub {v.integer} {exponent}, {v.bits(v.one)}")
    return v.intrinsic("copysign", scaled(v, v.mul(digits, slope), unbiased), x)


def _tiny(t: Scalar) -> float:
    """A number whose fourth power is normal; of ``sin(x)`` and its like the next term is below the rounding."""
    return 2.0**-200 if t.bits == 64 else 2.0**-27


def _is_tiny(v: LaneMath, x: str) -> str:
    """Less than that in size, and not 0."""
    integer, exponent = vector(f"i{v.t.bits}", v.t), (1023 - 200) << 52 if v.t.bits == 64 else (127 - 27) << 23
    size = v.w.op(f"bitcast {v.reg} {v.abs(x)} to {integer}")
    below = v.w.op(f"sub {integer} {size}, {v.bits(1)}")  # 0 wraps
    return v.w.op(f"icmp ult {integer} {below}, {v.bits(exponent - 1)}")


def _periodic(libm: str) -> _Guard:
    """A sine, cosine or tangent: by ``periods.py`` where the library takes the turns off slowly."""
    limit = _by(1e4, 2.0**23)
    near = _Guard(_beyond(limit), _plain)
    guard = near if libm == "cos" else _odd(near)

    def usual(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        return _of_finite(v, x, lambda x: guard.answer(v, x, call))

    def beyond(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        return _of_finite(v, x, lambda x: far(v, x, libm))

    def answer(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
        is_far = v.both(v.compare("oge", v.abs(x), limit(v.t)), _is_finite(v, x))
        return choose(v, v.any(is_far), f"{libm}_far", [x], lambda x: beyond(v, x, call), lambda x: usual(v, x, call))

    return _Guard(guard.outside, answer)


def _of_finite(v: LaneMath, x: str, function: Callable[[str], str]) -> str:
    """The function of finite numbers, and NaN of others."""
    finite = _is_finite(v, x)
    return v.select(finite, function(v.select(finite, x, 0.0)), math.nan)


def _plain(v: LaneMath, x: str, call: Callable[[str], str]) -> str:
    return call(x)


def _nan(v: LaneMath, x: str) -> str:
    return constant(math.nan, v.t)


def _is_finite(v: LaneMath, x: str) -> str:
    return v.compare("olt", v.abs(x), math.inf)


def _is_not_huge(v: LaneMath, x: str) -> str:
    return v.compare("olt", v.abs(x), 2.0**100)


def _is_number(v: LaneMath, x: str) -> str:
    return v.compare("ord", x, x)


def _is_short_of(limit: Callable[[Scalar], float]) -> Callable[[LaneMath, str], str]:
    return lambda v, x: v.compare("olt", x, limit(v.t))


def _nothing(v: LaneMath, x: str) -> str:
    return v.select(v.compare("uno", x, x), x, 0.0)


def _sign(v: LaneMath, x: str) -> str:
    return v.select(v.compare("uno", x, x), x, v.intrinsic("copysign", 1.0, x))


_EXP_LIMIT, _EXP_SHIFT = _by(87.0, 700.0), _by(40.0, 128.0)

_PERIODIC = ("sin", "cos", "tan")

_AT_ZERO = ("cos", "cosh", "exp", "acos")
"""Functions of which ``f(x)`` and ``f(0)`` are alike for tiny ``x``."""

_GUARDS = {
    "exp": _exponential(_EXP_LIMIT, _EXP_SHIFT),
    "log": _logarithm(math.log(2.0)),
    "log2": _logarithm(1.0),
    "log10": _logarithm(math.log10(2.0)),
    "sinh": _odd(_hyperbolic(_EXP_LIMIT, _EXP_SHIFT)),
    "cosh": _hyperbolic(_EXP_LIMIT, _EXP_SHIFT),
    "tanh": _odd(_within(_is_not_huge, _sign)),
    "erf": _odd(_within(_is_number, _nan), 2.0 / math.sqrt(math.pi)),
    "erfc": _within(_is_short_of(_by(10.06, 27.25)), _nothing),
    "asin": _odd(_within(_is_number, _nan)),
    "acos": _within(_is_number, _nan),
    "atan": _odd(_within(_is_number, _nan)),
}

# --- powers -----------------------------------------------------------------------------------------------------


TINY_EXPONENT = 2.0**-100
"""Powers by smaller ones are 1."""
_ROOT_OF_HALF = 0x3FE6A09E667F3BCD
"""Its bits."""
_ROUGH_LOG2 = (1.442316751900048, -0.7247994775494508, 0.5099000236882114, -0.32133024780279146)
"""The polynomial of ``x`` that ``log2(1 + x) / x`` is from the root of a half to that of 2: least squares."""


class _Power:
    """``pow`` of two registers."""

    def __init__(self, w: Writer, t: LaneScalar, call: Call) -> None:
        self.w, self.v, self.call = w, LaneMath(w, t), call
        self.double = LaneScalar(float64.kind, float64.bits, t.width)

    def anywhere(self, x: str, y: str) -> str:
        """The library's function where the result is certainly in range."""
        v = self.v
        most, exponent = (2.0**32, 30.0) if v.t.bits == 64 else (2.0**12, 10.0)
        base = v.both(v.compare("oge", x, 1.0 / most), v.compare("ole", x, most))
        usual = v.both(base, v.compare("ole", v.abs(y), exponent))
        if v.t.bits == 64:  # the library takes denormal exponents one by one
            usual = v.both(usual, v.compare("oge", v.abs(y), TINY_EXPONENT))

        def inside(x: str, y: str) -> str:
            return self.call("pow", v.t, [x, y])

        def outside(x: str, y: str) -> str:
            size = v.abs(x)
            power = self._estimated if v.t.bits == 64 else self._in_double
            y = self._not_tiny(y)
            return self._with_ends(x, y, power(size, y))

        return choose(v, v.any(v.unless(usual)), "pow_special", [x, y], outside, inside)

    def _in_double(self, size: str, y: str) -> str:
        """``exp2(y * log2(size))`` in float64, which is exact enough to be rounded, and where nothing overflows."""
        v, d = self.v, LaneMath(self.w, self.double)
        small = v.both(v.compare("ogt", size, 0.0), v.compare("olt", size, _least_normal(v.t)))
        size = v.select(small, denormal_digits(v, size), size)
        wide, exponent = (self.w.op(f"fpext {v.reg} {a} to {d.reg}") for a in (size, y))
        log = d.sub(self._log2(d, wide), d.select(small, 149.0, 0.0))
        result = self._exp2(d, d.mul(d.clamp(exponent, -1e39, 1e39), log))
        return self.w.op(f"fptrunc {d.reg} {result} to {v.reg}")

    def _not_tiny(self, y: str) -> str:
        """An exponent with the same powers that is not denormal."""
        v = self.v
        tiny = v.both(v.compare("olt", v.abs(y), TINY_EXPONENT), v.compare("one", y, 0.0))
        return v.select(tiny, v.intrinsic("copysign", TINY_EXPONENT, y), y)

    def _log2(self, d: LaneMath, x: str) -> str:
        """The logarithm of a size: a huge number for 0 and infinity, which times 0 is 0."""
        usual = d.both(d.compare("oge", x, 2.0**-1022), d.compare("olt", x, math.inf))
        got = self.call("log2", self.double, [d.select(usual, x, 1.0)])
        end = d.select(d.compare("oeq", x, math.inf), 1e300, d.select(d.compare("olt", x, 1.0), -1e300, 0.0))
        return d.select(usual, got, end)

    def _exp2(self, d: LaneMath, x: str) -> str:
        return self.call("exp2", self.double, [d.clamp(x, -1000.0, 1000.0)])

    def _rough_log2(self, size: str) -> str:
        """The logarithm of a size of float64, at most 0.0005 times as much off; 0 is as the least normal number."""
        v, w = self.v, self.w
        bits = v.to_bits(v.intrinsic("maximumnum", size, 2.0**-1022))
        up = w.op(f"add {v.integer} {bits}, {v.bits((1023 << 52) - _ROOT_OF_HALF)}")
        biased = w.op(f"lshr {v.integer} {up}, {v.bits(52)}")
        by = w.op(f"shl {v.integer} {w.op(f'sub {v.integer} {biased}, {v.bits(1023)}')}, {v.bits(52)}")
        rest = v.sub(v.from_bits(w.op(f"sub {v.integer} {bits}, {by}")), 1.0)
        whole = v.sub(v.from_bits(w.op(f"or {v.integer} {biased}, {v.bits(1023 + 52 << 52)}")), 2.0**52 + 1023.0)
        factor = constant(_ROUGH_LOG2[-1], v.t)
        for coefficient in _ROUGH_LOG2[-2::-1]:
            factor = v.add_product(coefficient, factor, rest)
        return v.add_product(whole, rest, factor)

    def _estimated(self, size: str, y: str) -> str:
        """The power of a size: where its logarithm is near the ends of the range, the square of the root of it.

        So is that of denormal sizes, by the size's root. A rough logarithm tells which is which: the library takes up
        to 1,020 for its result's.
        """
        v = self.v
        estimate = v.mul(v.clamp(y, -1e300, 1e300), self._rough_log2(size))
        far = v.compare("ogt", v.abs(estimate), 1000.0)
        known = v.both(v.compare("ogt", size, 0.0), v.compare("olt", size, math.inf))
        beyond = v.compare("ogt", v.abs(estimate), v.select(known, 1100.0, 0.0))
        usual = v.both(known, v.unless(beyond))
        small = v.both(usual, v.compare("olt", size, 2.0**-1022))
        root = v.mul(v.intrinsic("sqrt", v.select(small, denormal_digits(v, size), 1.0)), 2.0**-537)
        base = v.select(small, root, v.select(usual, size, 1.0))
        exponent = v.select(v.both(far, v.unless(small)), v.mul(y, 0.5), y)
        power = self.call("pow", v.t, [base, v.select(usual, exponent, 1.0)])
        end = v.select(v.compare("ogt", estimate, 0.0), math.inf, 0.0)
        return v.select(beyond, end, v.select(v.either(far, small), v.mul(power, power), power))

    def _with_ends(self, x: str, y: str, power: str) -> str:
        """``pow(x, y)``, given that of the size of ``x``: with its sign, and NaN where it has none."""
        v = self.v
        whole = v.compare("oeq", v.intrinsic("rint", y), y)
        half = v.mul(y, 0.5)
        odd = v.both(whole, v.compare("one", v.intrinsic("rint", half), half))
        signed = v.select(odd, v.intrinsic("copysign", power, x), power)
        negative = v.both(v.compare("olt", x, 0.0), v.compare("ogt", x, -math.inf))
        undefined = v.both(negative, v.unless(whole))
        unknown = v.both(v.compare("uno", x, y), v.both(v.compare("une", y, 0.0), v.compare("une", x, 1.0)))
        return v.select(v.either(undefined, unknown), math.nan, signed)
