"""Scalar mathematics: selecting, rounding, exponentials and circular functions.

Gradients at points where no derivative exists are finite choices, 0 unless the row says otherwise, so that a value
that a kernel discards with ``where`` never turns a gradient into NaN.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

import math

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.operators import COMPARISON, INTEGERS, STEPS
from warp_like.builtins.patterns import F, I, S
from warp_like.builtins.spec import Adjoints, Expand, NoGradient, Rule, Symbol, Target, builtin
from warp_like.ir.core import Value
from warp_like.ir.types import bool_, int32

GROUP = "Scalar Math"

# --- selecting and signs --------------------------------------------------------------------------------------


def _winner_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    """The gradient goes to the argument that was returned; to the first where they are equal."""
    zero, first = b.zero(g.type), b.eq(out, x)
    return b.select(first, g, zero), b.select(first, zero, g)


def _sign(b: Emitter, x: Value) -> Value:
    one = b.constant(1, x.type)
    if scalar_type(x).is_int and not scalar_type(x).is_signed:
        return one
    return b.select(b.lt(x, 0), b.constant(-1, x.type), one)


def _int_abs(b: Emitter, x: Value) -> Value:
    return b.select(b.lt(x, 0), b.neg(x), x) if scalar_type(x).is_signed else x


def _abs_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Value:
    return b.select(b.gt(x, 0.0), g, b.select(b.lt(x, 0.0), b.neg(g), b.zero(g.type)))


@builtin(group=GROUP, lower=Symbol("fmin", "__nv_fmin", llvm="llvm.minimumnum"), ref=np.fmin, adjoint=_winner_adjoint)
def min(a: F, b: F) -> F:
    """Return the lesser of two numbers; where one is NaN, the other. Of equal ones, the first gets the gradient."""


@builtin(
    name="min",
    group=GROUP,
    lower=Expand(lambda b, x, y: b.select(b.lt(y, x), y, x)),
    ref=np.minimum,
    adjoint=INTEGERS,
)
def min_int(a: I, b: I) -> I:
    """Return the lesser of two integers."""


@builtin(group=GROUP, lower=Symbol("fmax", "__nv_fmax", llvm="llvm.maximumnum"), ref=np.fmax, adjoint=_winner_adjoint)
def max(a: F, b: F) -> F:
    """Return the greater of two numbers; where one is NaN, the other. Of equal ones, the first gets the gradient."""


@builtin(
    name="max",
    group=GROUP,
    lower=Expand(lambda b, x, y: b.select(b.gt(y, x), y, x)),
    ref=np.maximum,
    adjoint=INTEGERS,
)
def max_int(a: I, b: I) -> I:
    """Return the greater of two integers."""


@builtin(group=GROUP, lower=Expand(lambda b, x, low, high: b.min(b.max(x, low), high)), ref=reference.clamp)
def clamp(x: S, low: S, high: S) -> S:
    """Return ``x`` limited to ``[low, high]``; NaN gives ``low``, and ``high`` wins where the limits cross.

    The gradient goes to ``x`` inside the interval, ends included, and to the limit outside of it.
    """


@builtin(group=GROUP, lower=Symbol("fabs", "__nv_fabs", llvm="llvm.fabs"), ref=np.abs, adjoint=_abs_adjoint)
def abs(x: F) -> F:
    """Return the absolute value. Its gradient at 0 is 0."""


@builtin(name="abs", group=GROUP, lower=Expand(_int_abs), ref=np.abs, adjoint=INTEGERS)
def abs_int(x: I) -> I:
    """Return the absolute value of an integer; that of the least integer wraps to itself."""


@builtin(group=GROUP, lower=Expand(_sign), ref=lambda x: np.where(x < 0, -1, 1), adjoint=STEPS)
def sign(x: S) -> S:
    """Return -1 where ``x < 0`` and 1 otherwise, so 1 for zero of either sign."""


@builtin(
    group=GROUP,
    lower=Symbol("copysign", "__nv_copysign", llvm="llvm.copysign"),
    ref=np.copysign,
    adjoint=lambda b, g, out, x, y: (
        _abs_adjoint(b, b.mul(g, b.copysign(b.constant(1.0, g.type), y)), out, x),
        None,
    ),
)
def copysign(x: F, y: F) -> F:
    """Return the magnitude of ``x`` with the sign of ``y``. The gradient at ``x = 0`` is 0."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, x: b.select(b.lt(x, 0), b.constant(1, x.type), b.zero(x.type))),
    ref=lambda x: np.where(x < 0, 1, 0),
    adjoint=STEPS,
)
def step(x: S) -> S:
    """Return 1 where ``x < 0`` and 0 otherwise."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, x: b.select(b.ne(x, 0), b.constant(1, x.type), b.zero(x.type))),
    ref=lambda x: np.where(x != 0, 1, 0),
    adjoint=STEPS,
)
def nonzero(x: S) -> S:
    """Return 1 where ``x`` is not zero and 0 otherwise; 1 for NaN."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, a: b.lt(b.abs(a), b.constant(math.inf, a.type))),
    ref=np.isfinite,
    adjoint=COMPARISON,
)
def isfinite(a: F) -> bool_:
    """Return whether ``a`` is neither infinite nor NaN."""


@builtin(group=GROUP, lower=Expand(lambda b, a: b.ne(a, a)), ref=np.isnan, adjoint=COMPARISON)
def isnan(a: F) -> bool_:
    """Return whether ``a`` is NaN."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, a: b.eq(b.abs(a), b.constant(math.inf, a.type))),
    ref=np.isinf,
    adjoint=COMPARISON,
)
def isinf(a: F) -> bool_:
    """Return whether ``a`` is positive or negative infinity."""


# --- rounding -------------------------------------------------------------------------------------------------


@builtin(
    group=GROUP,
    lower=Symbol("round", "__nv_round", llvm="llvm.round"),
    ref=reference.round_away,
    adjoint=STEPS,
)
def round(x: F) -> F:
    """Return the nearest integer, halves rounded away from zero (NumPy's ``round`` is ``rint``)."""


@builtin(group=GROUP, lower=Symbol("rint", "__nv_rint", llvm="llvm.rint"), ref=np.rint, adjoint=STEPS)
def rint(x: F) -> F:
    """Return the nearest integer, halves rounded to the even one."""


@builtin(group=GROUP, lower=Symbol("trunc", "__nv_trunc", llvm="llvm.trunc"), ref=np.trunc, adjoint=STEPS)
def trunc(x: F) -> F:
    """Return ``x`` without its fractional part."""


@builtin(group=GROUP, lower=Symbol("floor", "__nv_floor", llvm="llvm.floor"), ref=np.floor, adjoint=STEPS)
def floor(x: F) -> F:
    """Return the greatest integer that is not above ``x``."""


@builtin(group=GROUP, lower=Symbol("ceil", "__nv_ceil", llvm="llvm.ceil"), ref=np.ceil, adjoint=STEPS)
def ceil(x: F) -> F:
    """Return the least integer that is not below ``x``."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, x: b.sub(x, b.trunc(x))),
    ref=lambda x: x - np.trunc(x),
    adjoint=lambda b, g, out, x: g,
)
def frac(x: F) -> F:
    """Return ``x - trunc(x)``, which has the sign of ``x``. Its gradient is 1."""


# --- exponentials and logarithms ------------------------------------------------------------------------------


def _log_adjoint(base: float) -> Rule:
    scale = 1.0 / math.log(base)

    def rule(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
        return b.select(b.gt(x, 0.0), b.div(b.mul(g, scale) if base != math.e else g, x), b.zero(g.type))

    return rule


@builtin(
    group=GROUP,
    lower=Symbol("exp", "__nv_exp", vector=True),
    ref=np.exp,
    adjoint=lambda b, g, out, x: b.mul(g, out),
)
def exp(x: F) -> F:
    """Return e to the power ``x``."""


@builtin(group=GROUP, lower=Symbol("log", "__nv_log", vector=True), ref=np.log, adjoint=_log_adjoint(math.e))
def log(x: F) -> F:
    """Return the natural logarithm. Its gradient is 0 where ``x <= 0``."""


@builtin(group=GROUP, lower=Symbol("log2", "__nv_log2", vector=True), ref=np.log2, adjoint=_log_adjoint(2.0))
def log2(x: F) -> F:
    """Return the logarithm to base 2. Its gradient is 0 where ``x <= 0``."""


@builtin(group=GROUP, lower=Symbol("log10", "__nv_log10", vector=True), ref=np.log10, adjoint=_log_adjoint(10.0))
def log10(x: F) -> F:
    """Return the logarithm to base 10. Its gradient is 0 where ``x <= 0``."""


# --- circular and hyperbolic functions ------------------------------------------------------------------------


def _into_domain(b: Emitter, x: Value) -> Value:
    """``x`` limited to ``[-1, 1]``; NaN stays NaN."""
    one = b.constant(1.0, x.type)
    return b.select(b.gt(b.abs(x), 1.0), b.copysign(one, x), x)


def _arc_adjoint(sign: float) -> Rule:
    """The rule of asin (``sign`` 1) and acos (-1): 0 at the ends of the domain and outside of it."""

    def rule(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
        inside = b.lt(b.abs(x), 1.0)
        rest = b.mul(b.sub(1.0, x), b.add(x, 1.0))
        root = b.sqrt(b.select(inside, rest, b.constant(1.0, x.type)))
        return b.select(inside, b.div(b.mul(g, sign), root), b.zero(g.type))

    return rule


def _atan2_adjoint(b: Emitter, g: Value, out: Value, y: Value, x: Value) -> Adjoints:
    """By the ratio of the coordinates, since the sum of their squares may overflow or vanish."""
    flat = b.ge(b.abs(x), b.abs(y))
    larger, smaller = b.select(flat, x, y), b.select(flat, y, x)
    origin = b.eq(larger, 0.0)
    zero = b.zero(g.type)
    larger = b.select(origin, b.constant(1.0, g.type), larger)
    ratio = b.div(smaller, larger)
    along = b.select(origin, zero, b.div(b.div(g, larger), b.add(b.mul(ratio, ratio), 1.0)))
    across = b.mul(along, ratio)
    return b.select(flat, along, across), b.neg(b.select(flat, across, along))


@builtin(
    group=GROUP,
    lower=Symbol("sin", "__nv_sin", vector=True),
    ref=np.sin,
    adjoint=lambda b, g, out, x: b.mul(g, b.cos(x)),
)
def sin(x: F) -> F:
    """Return the sine of ``x`` (radians)."""


@builtin(
    group=GROUP,
    lower=Symbol("cos", "__nv_cos", vector=True),
    ref=np.cos,
    adjoint=lambda b, g, out, x: b.neg(b.mul(g, b.sin(x))),
)
def cos(x: F) -> F:
    """Return the cosine of ``x`` (radians)."""


@builtin(
    group=GROUP,
    lower=Symbol("tan", "__nv_tan", vector=True),
    ref=np.tan,
    adjoint=lambda b, g, out, x: b.mul(g, b.add(b.mul(out, out), 1.0)),
)
def tan(x: F) -> F:
    """Return the tangent of ``x`` (radians)."""


INTERNAL = NoGradient("bodies use it where the public builtin has a rule of its own", zero=False)


@builtin(name="_asin", group=GROUP, lower=Symbol("asin", "__nv_asin", vector=True), ref=np.arcsin, adjoint=INTERNAL)
def asin_in_domain(x: F) -> F:
    """Return the arcsine of an ``x`` in ``[-1, 1]``."""


@builtin(name="_acos", group=GROUP, lower=Symbol("acos", "__nv_acos", vector=True), ref=np.arccos, adjoint=INTERNAL)
def acos_in_domain(x: F) -> F:
    """Return the arccosine of an ``x`` in ``[-1, 1]``."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, x: b.apply("_asin", _into_domain(b, x))),
    ref=lambda x: np.arcsin(np.clip(x, -1.0, 1.0)),
    adjoint=_arc_adjoint(1.0),
)
def asin(x: F) -> F:
    """Return the arcsine (radians) of ``x`` limited to ``[-1, 1]``. Its gradient is 0 at the limits and beyond."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, x: b.apply("_acos", _into_domain(b, x))),
    ref=lambda x: np.arccos(np.clip(x, -1.0, 1.0)),
    adjoint=_arc_adjoint(-1.0),
)
def acos(x: F) -> F:
    """Return the arccosine (radians) of ``x`` limited to ``[-1, 1]``. Its gradient is 0 at the limits and beyond."""


@builtin(
    group=GROUP,
    lower=Symbol("atan", "__nv_atan", vector=True),
    ref=np.arctan,
    adjoint=lambda b, g, out, x: b.div(g, b.add(b.mul(x, x), 1.0)),
)
def atan(x: F) -> F:
    """Return the arctangent of ``x`` (radians)."""


@builtin(group=GROUP, lower=Symbol("atan2", "__nv_atan2", vector=True), ref=np.arctan2, adjoint=_atan2_adjoint)
def atan2(y: F, x: F) -> F:
    """Return the angle (radians, from -pi to pi) of the point ``(x, y)``. Its gradient at the origin is 0."""


@builtin(
    group=GROUP,
    lower=Symbol("sinh", "__nv_sinh", vector=True),
    ref=np.sinh,
    adjoint=lambda b, g, out, x: b.mul(g, b.cosh(x)),
)
def sinh(x: F) -> F:
    """Return the hyperbolic sine."""


@builtin(
    group=GROUP,
    lower=Symbol("cosh", "__nv_cosh", vector=True),
    ref=np.cosh,
    adjoint=lambda b, g, out, x: b.mul(g, b.sinh(x)),
)
def cosh(x: F) -> F:
    """Return the hyperbolic cosine."""


@builtin(
    group=GROUP,
    lower=Symbol("tanh", "__nv_tanh", vector=True),
    ref=np.tanh,
    adjoint=lambda b, g, out, x: b.mul(g, b.sub(1.0, b.mul(out, out))),
)
def tanh(x: F) -> F:
    """Return the hyperbolic tangent."""


DEGREES = 180.0 / math.pi


@builtin(group=GROUP, lower=Expand(lambda b, x: b.mul(x, DEGREES)), ref=np.degrees)
def degrees(x: F) -> F:
    """Return the angle ``x`` (radians) in degrees."""


@builtin(group=GROUP, lower=Expand(lambda b, x: b.mul(x, 1.0 / DEGREES)), ref=np.radians)
def radians(x: F) -> F:
    """Return the angle ``x`` (degrees) in radians."""


# --- bits -----------------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Target(), ref=reference.bit_count, adjoint=INTEGERS)
def bit_count(x: I) -> int32:
    """Return the number of set bits of ``x`` in two's complement."""
