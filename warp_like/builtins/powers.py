"""Roots and powers.

A power by a constant is a few multiplications, a root or a division, in derivatives as well: ``x**2.0`` is ``x * x``.
Only this file knows which; ``pow`` of other exponents is the mathematics library's.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

import math

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.patterns import F
from warp_like.builtins.spec import Adjoints, Expand, NoGradient, Symbol, builtin, declare_row
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import float32

GROUP = "Scalar Math"

LARGEST = 16
"""The largest whole exponent that is multiplied out."""

# --- roots ----------------------------------------------------------------------------------------------------


def _sqrt_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    slope = b.mul(b.div(b.constant(1.0, g.type), out), 0.5)  # of 1 / sqrt(x) the division is there already
    return b.select(b.gt(x, 0.0), b.mul(g, slope), b.zero(g.type))


def twice(b: Emitter, g: Value) -> Value:
    """``g + g``; of an adjoint that the slope of a root halved, without the half: a denormal product loses less."""
    match g.op:
        case ops.Apply(fn="where", args=(positive, product, zero)):
            match product.op:
                case ops.Apply(fn="mul", args=(before, Value(op=ops.Apply(fn="mul", args=(inverse, half))))):
                    if ops.is_scalar_constant(half, 0.5) and ops.is_scalar_constant(zero, 0.0):
                        return b.select(positive, b.mul(before, inverse), zero)
    return b.add(g, g)


def _cbrt_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    return b.select(b.ne(x, 0.0), b.div(g, b.mul(b.mul(out, out), 3.0)), b.zero(g.type))


@builtin(group=GROUP, lower=Symbol("sqrt", "__nv_sqrt", llvm="llvm.sqrt"), ref=np.sqrt, adjoint=_sqrt_adjoint)
def sqrt(x: F) -> F:
    """Return the square root; NaN for a negative ``x``. Its gradient is 0 where ``x <= 0``."""


@builtin(group=GROUP, lower=Symbol("cbrt", "__nv_cbrt", vector=True), ref=np.cbrt, adjoint=_cbrt_adjoint)
def cbrt(x: F) -> F:
    """Return the cube root, negative for a negative ``x``. Its gradient at 0 is 0."""


# --- powers ---------------------------------------------------------------------------------------------------


def _number(v: Value) -> float | None:
    """The number that ``v`` is wherever the code runs, if it is known."""
    got = ops.constant_value(v)
    return float(got) if isinstance(got, (int, float)) else None


def _pow(b: Emitter, x: Value, y: Value) -> Value:
    exponent = _number(y)
    known = None if exponent is None else _constant_power(b, x, exponent)
    return b.apply("_pow", x, y) if known is None else known


def _constant_power(b: Emitter, x: Value, y: float) -> Value | None:
    """``x**y`` by a few operations, at most 1 unit in the last place from ``pow``, or None if ``y`` needs more."""
    if scalar_type(x).bits == 16:
        wide = _constant_power(b, b.cast(x, float32), y)
        return None if wide is None else b.cast(wide, x.type)
    if y == 0.0:
        return b.constant(1.0, x.type)
    if abs(y) in (0.5, 1.5) and y != -1.5:
        return _half_power(b, x, y)
    if not y.is_integer() or abs(y) > LARGEST:
        return None
    return _whole_power(b, x, int(y))


def _half_power(b: Emitter, x: Value, y: float) -> Value:
    """``x`` to the power 1/2, -1/2 or 3/2; like ``pow``, and unlike a root, positive for -0 and minus infinity."""
    root = b.sqrt(x) if y == 1.5 else b.abs(b.sqrt(x))  # the root of -0 is -0
    power = b.mul(x, root) if y == 1.5 else root if y == 0.5 else b.div(b.constant(1.0, x.type), root)
    end = b.constant(0.0 if y < 0.0 else math.inf, x.type)
    return b.select(b.eq(x, b.constant(-math.inf, x.type)), end, power)


def _whole_power(b: Emitter, x: Value, n: int) -> Value:
    if n == 1:
        return x
    if n in (2, 3):
        return b.mul(b.mul(x, x), x) if n == 3 else b.mul(x, x)
    if n == -1:
        return b.div(b.constant(1.0, x.type), x)
    return _exact_power(b, x, n)


def _exact_power(b: Emitter, x: Value, n: int) -> Value:
    """``x**n`` by repeated squaring, each product with its rounding error.

    The reciprocal comes first where ``n`` is negative, so that nothing overflows or vanishes on the way. Where a
    product overflows, the errors are NaN and the product is the result.

    Source:
        T. J. Dekker, "A floating-point technique for extending the available precision", Numerische Mathematik 18
        (1971); the error of a product by a fused multiply-add.
    """
    if n > 0:
        high, low = x, b.zero(x.type)
    else:
        high = b.div(b.constant(1.0, x.type), x)
        low = b.mul(b.apply("_fma", b.neg(high), x, b.constant(1.0, x.type)), high)
    first = high, low
    for bit in bin(abs(n))[3:]:
        high, low = _product(b, (high, low), (high, low))
        if bit == "1":
            high, low = _product(b, (high, low), first)
    total = b.copysign(b.add(high, low), high)  # of -0 and an error of 0 the sum is 0
    return b.select(b.eq(total, total), total, high)


def _product(b: Emitter, x: tuple[Value, Value], y: tuple[Value, Value]) -> tuple[Value, Value]:
    """The product of two numbers that are each a number and its error."""
    high = b.mul(x[0], y[0])
    error = b.apply("_fma", x[0], y[0], b.neg(high))
    return high, b.add(error, b.add(b.mul(x[0], y[1]), b.mul(x[1], y[0])))


def _pow_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    exponent = _number(y)
    if exponent is not None:
        return b.mul(g, _constant_slope(b, out, x, exponent)), None
    zero, one = b.zero(g.type), b.constant(1.0, g.type)
    undefined = b.bit_and(b.lt(x, 0.0), b.ne(y, b.rint(y)))
    singular = b.bit_or(undefined, b.bit_or(b.eq(y, 0.0), b.bit_and(b.eq(x, 0.0), b.lt(y, 1.0))))
    slope = b.mul(y, b.pow(b.select(singular, one, x), b.sub(y, 1.0)))
    positive = b.gt(x, 0.0)
    growth = b.mul(out, b.log(b.select(positive, x, one)))
    return b.mul(g, b.select(singular, zero, slope)), b.mul(g, b.select(positive, growth, zero))


def _constant_slope(b: Emitter, out: Value, x: Value, y: float) -> Value:
    """The derivative of ``x**y``, which is ``out``, for a constant ``y``; 0 where it does not exist."""
    zero, one = b.zero(x.type), b.constant(1.0, x.type)
    if y == 0.0:
        return zero
    if y >= 1.0:
        if y.is_integer():
            return b.mul(b.pow(x, y - 1.0), y)
        undefined = b.lt(x, 0.0)
        return b.select(undefined, zero, b.mul(b.pow(b.select(undefined, one, x), y - 1.0), y))
    singular = b.eq(x, 0.0) if y.is_integer() else b.le(x, 0.0)
    if y == 0.5:
        slope = b.div(b.constant(0.5, x.type), b.select(singular, one, out))
    elif y == -1.0:
        slope = b.neg(b.mul(out, out))
    else:
        slope = b.mul(b.pow(b.select(singular, one, x), y - 1.0), y)
    return b.select(singular, zero, slope)


WITHIN = NoGradient("a part of pow(), which has a rule", zero=False)
declare_row(
    "_pow", Symbol("pow", "__nv_pow", vector=True), {"x": F, "y": F}, F, group=GROUP,
    doc="Return ``pow`` of the mathematics library.", ref=reference.power, adjoint=WITHIN,
)  # fmt: skip
declare_row(
    "_fma", Symbol("fma", "__nv_fma", llvm="llvm.fma"), {"x": F, "y": F, "z": F}, F, group=GROUP,
    doc="Return ``x * y + z``, rounded once.", ref=reference.fused, adjoint=WITHIN,
)  # fmt: skip


@builtin(group=GROUP, lower=Expand(_pow), ref=reference.power, adjoint=_pow_adjoint)
def pow(x: F, y: F) -> F:
    """Return ``x`` to the power ``y``: 1 for ``y = 0``, NaN for a negative ``x`` unless ``y`` is an integer.

    Where ``y`` is a constant such as 2.0, 0.5 or -1.0, this is as fast as the multiplications, the root or the
    division that it stands for.

    The gradient with respect to ``x`` is ``y * x**(y - 1)``, for a negative ``x`` and an integer ``y`` too; it is 0 for
    a negative ``x`` and any other ``y``, and where ``x = 0`` and ``y < 1``. That with respect to ``y`` is 0 where
    ``x <= 0``.
    """
