"""The error function, its complement and their inverses."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

import math
from collections.abc import Callable, Sequence

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter
from warp_like.builtins.patterns import F
from warp_like.builtins.spec import Adjoints, Expand, Rule, Symbol, builtin
from warp_like.ir.core import Value
from warp_like.ir.types import float32, float64

GROUP = "Scalar Math"
SLOPE = 2.0 / math.sqrt(math.pi)  # of erf at 0

_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011), chapter 10, table 10.1:
erfinv(x) / x as polynomials of w - 2.5 for w < 5, else of sqrt(w) - 3, where w = -log(1 - x*x)."""


def _polynomial(b: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    total = b.constant(coefficients[0], x.type)
    for c in coefficients[1:]:
        total = b.add(b.mul(total, x), c)
    return total


def _inverse(b: Emitter, a: Value, q: Value) -> Value:
    """The ``y >= 0`` with ``erf(y) = a`` and ``erfc(y) = q = 1 - a``; both are given so that neither cancels."""
    double = a.type == float64
    steps = 2 if double else 1
    tiny = 2.0**-1022 if double else 2.0**-126
    near = b.max(q, tiny)  # the logarithms below stay finite; the end is put right by _with_ends
    w = b.neg(b.log(b.mul(near, b.add(a, 1.0))))
    log_q = b.log(near)
    start = b.mul(a, b.select(
        b.lt(w, 5.0),
        _polynomial(b, b.sub(w, 2.5), _CENTRAL),
        _polynomial(b, b.sub(b.sqrt(b.max(w, 5.0)), 3.0), _TAIL),
    ))  # fmt: skip
    v = b.max(b.neg(log_q), 1.0)
    asymptotic = b.sqrt(b.sub(v, b.mul(b.log(b.mul(v, math.pi)), 0.5)))  # of erfc(y) ~ exp(-y*y) / (y sqrt(pi))
    start = b.select(b.lt(w, 16.0), start, asymptotic)
    central, tail = b.min(start, 2.0), start
    for _ in range(1 if not double else 2):  # Halley's method on erf(y) = a
        r = b.mul(b.mul(b.sub(b.erf(central), a), 1.0 / SLOPE), b.exp(b.mul(central, central)))
        central = b.sub(central, b.div(r, b.add(b.mul(central, r), 1.0)))
    for _ in range(steps):  # Halley's method on log(erfc(y)) = log(q), whose second derivative is about -2 for large y
        log_erfc = b.log(b.max(b.erfc(tail), tiny / 16.0))  # the start may be beyond the end
        gain = b.mul(b.exp(b.add(log_erfc, b.mul(tail, tail))), 1.0 / SLOPE)
        change = b.mul(b.sub(log_erfc, log_q), gain)
        tail = b.add(tail, b.mul(change, b.sub(1.0, b.div(b.mul(change, 0.5), b.max(tail, 0.25)))))
    return b.select(b.lt(a, 0.5), central, tail)


def _with_ends(b: Emitter, y: Value, q: Value) -> Value:
    """Infinity where ``q`` is 0 and NaN where it is negative or NaN."""
    end = b.select(b.eq(q, 0.0), b.constant(math.inf, q.type), b.constant(math.nan, q.type))
    return b.select(b.gt(q, 0.0), y, end)


def _in_float32(body: Callable[[Emitter, Value], Value]) -> Callable[[Emitter, Value], Value]:
    """Compute half types in float32."""

    def expanded(b: Emitter, x: Value) -> Value:
        wide = x if x.type in (float32, float64) else b.cast(x, float32)
        return b.cast(body(b, wide), x.type)

    return expanded


def _erfinv(b: Emitter, x: Value) -> Value:
    """Of small numbers a multiple: processors take long for the steps of denormal ones."""
    size = b.abs(x)
    small = b.lt(size, 2.0**-27 if x.type == float64 else 2.0**-13)
    a = b.select(small, b.constant(0.25, x.type), size)
    q = b.sub(1.0, a)
    return b.copysign(b.select(small, b.mul(size, 1.0 / SLOPE), _with_ends(b, _inverse(b, a, q), q)), x)


def _erfcinv(b: Emitter, x: Value) -> Value:
    signed = b.sub(1.0, x)
    upper = b.sub(2.0, x)
    q = b.select(b.lt(x, 1.0), x, upper)
    return b.copysign(_with_ends(b, _inverse(b, b.abs(signed), q), q), signed)


def _erf_adjoint(sign: float) -> Rule:
    def rule(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
        return b.mul(b.mul(g, sign * SLOPE), b.exp(b.neg(b.mul(x, x))))

    return rule


def _inverse_adjoint(sign: float) -> Rule:
    def rule(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
        inside = b.isfinite(out)
        y = b.select(inside, out, b.zero(out.type))
        slope = b.mul(b.exp(b.mul(y, y)), sign / SLOPE)
        return b.select(inside, b.mul(g, slope), b.zero(g.type))

    return rule


@builtin(
    group=GROUP,
    lower=Symbol("erf", "__nv_erf", vector=True),
    ref=lambda x: reference.vectorized("erf")(x)[()],
    adjoint=_erf_adjoint(1.0),
)
def erf(x: F) -> F:
    """Return the error function, ``2/sqrt(pi)`` times the integral of ``exp(-t*t)`` from 0 to ``x``."""


@builtin(
    group=GROUP,
    lower=Symbol("erfc", "__nv_erfc", vector=True),
    ref=lambda x: reference.vectorized("erfc")(x)[()],
    adjoint=_erf_adjoint(-1.0),
)
def erfc(x: F) -> F:
    """Return ``1 - erf(x)``, accurate for large ``x`` too."""


@builtin(
    group=GROUP,
    lower=Expand(_in_float32(_erfinv)),
    ref=lambda x: np.vectorize(reference.inverse_erf, otypes=[np.float64])(x)[()],
    adjoint=_inverse_adjoint(1.0),
)
def erfinv(x: F) -> F:
    """Return the inverse of ``erf``: infinite at -1 and 1 (with gradient 0 there), NaN beyond."""


@builtin(
    group=GROUP,
    lower=Expand(_in_float32(_erfcinv)),
    ref=lambda x: np.vectorize(reference.inverse_erfc, otypes=[np.float64])(x)[()],
    adjoint=_inverse_adjoint(-1.0),
)
def erfcinv(x: F) -> F:
    """Return the inverse of ``erfc``: infinite at 0 and 2 (with gradient 0 there), NaN beyond."""
