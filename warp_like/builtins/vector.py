"""Vectors: products, lengths and norms, and what works by component.

Gradients at the zero vector are 0 for the length and for all that divide by it.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter, vec_type
from warp_like.builtins.loops import fold, scan, tabulate
from warp_like.builtins.operators import COMPARISON, STEPS, total_of_products
from warp_like.builtins.patterns import V3S, VF, F, MatOf, S, V, VecOf
from warp_like.builtins.powers import twice
from warp_like.builtins.precision import in_float32
from warp_like.builtins.spec import Adjoints, Elementwise, Expand, NoGradient, builtin
from warp_like.ir.core import Value
from warp_like.ir.types import Mat, bool_, is_large, uint32

GROUP = "Vector Math"
INDEX = NoGradient("an index carries no gradient")


def combined(
    b: Emitter, fn: Callable[[Value, Value], Value], v: Value, of: Callable[[Value], Value] = lambda x: x
) -> Value:
    """Combine ``of`` each component of ``v``, from left to right."""
    if is_large(v.type):
        return fold(b, v.type, lambda at: of(b.extract(v, *at)), fn)
    total, *items = [of(x) for x in b.components(v)]
    for item in items:
        total = fn(total, item)
    return total


# --- products -------------------------------------------------------------------------------------------------


def _outer(b: Emitter, x: Value, y: Value) -> Value:
    t = Mat(vec_type(x).length, vec_type(y).length, vec_type(x).dtype)
    if is_large(t):
        return tabulate(b, t, lambda at: b.mul(b.extract(x, at[0]), b.extract(y, at[1])))
    xs, ys = b.components(x), b.components(y)
    return b.make(t, [b.mul(p, q) for p in xs for q in ys])


def _cross(b: Emitter, x: Value, y: Value) -> Value:
    (x0, x1, x2), (y0, y1, y2) = b.components(x), b.components(y)
    pairs = ((x1, y2, x2, y1), (x2, y0, x0, y2), (x0, y1, x1, y0))
    return b.make(x.type, [b.sub(b.mul(p, q), b.mul(r, s)) for p, q, r, s in pairs])


def _dot_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    if x is y:
        return b.mul(x, twice(b, g)), None
    return b.mul(y, g), b.mul(x, g)


@builtin(group=GROUP, lower=Expand(in_float32(total_of_products)), ref=np.dot, adjoint=_dot_adjoint)
def dot(a: V, b: V) -> S:
    """Return the dot product of two vectors."""


@builtin(
    group=GROUP,
    lower=Expand(_cross),
    ref=np.cross,
    adjoint=lambda b, g, out, x, y: (b.cross(y, g), b.cross(g, x)),
)
def cross(a: V3S, b: V3S) -> V3S:
    """Return the cross product of two vectors of three."""


@builtin(
    group=GROUP,
    lower=Expand(_outer),
    ref=np.outer,
    adjoint=lambda b, g, out, x, y: (b.mul(g, y), b.mul(x, g)),
)
def outer(a: VecOf("R", S), b: VecOf("C", S)) -> MatOf("R", "C", S):
    """Return the matrix of all products ``a[i] * b[j]``."""


@builtin(name="cw_mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply)
def cw_mul_vec(a: V, b: V) -> V:
    """Return the component-wise product of two vectors."""


@builtin(name="cw_div", group=GROUP, lower=Elementwise("div"), ref=reference.divide)
def cw_div_vec(a: V, b: V) -> V:
    """Return the component-wise quotient of two vectors; integers as ``div``."""


# --- lengths --------------------------------------------------------------------------------------------------


def _length_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    origin = b.eq(out, 0.0)
    scale = b.div(g, b.select(origin, b.constant(1.0, g.type), out))
    return b.mul(x, b.select(origin, b.zero(g.type), scale))


def _inverse_length(b: Emitter, x: Value) -> Value:
    """``1 / length(x)``, and 0 for the zero vector."""
    size = b.length(x)
    origin = b.eq(size, 0.0)
    one = b.constant(1.0, size.type)
    return b.select(origin, b.zero(size.type), b.div(one, b.select(origin, one, size)))


_length = in_float32(lambda b, x: b.sqrt(b.dot(x, x)))


def _normalize_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    across = b.sub(g, b.mul(out, b.dot(out, g)))
    return b.mul(across, _inverse_length(b, x))


@builtin(
    group=GROUP,
    lower=Expand(in_float32(lambda b, x: b.dot(x, x))),
    ref=lambda a: np.dot(a, a),
    adjoint=lambda b, g, out, x: b.mul(x, b.mul(g, 2.0)),
)
def length_sq(a: V) -> S:
    """Return the squared Euclidean length."""


@builtin(group=GROUP, lower=Expand(_length), ref=np.linalg.norm, adjoint=in_float32(_length_adjoint))
def length(a: VF) -> F:
    """Return the Euclidean length. Its gradient at the zero vector is 0."""


@builtin(
    group=GROUP,
    lower=Expand(in_float32(lambda b, x: b.mul(x, _inverse_length(b, x)))),
    ref=reference.normalize,
    adjoint=in_float32(_normalize_adjoint),
)
def normalize(a: VF) -> VF:
    """Return the vector of length 1 in the direction of ``a``; the zero vector stays zero, with gradient 0."""


# --- norms ----------------------------------------------------------------------------------------------------


def _norm_l1(b: Emitter, v: Value) -> Value:
    return combined(b, b.add, v, b.abs)


def _norm_huber(b: Emitter, v: Value, delta: Value) -> Value:
    size = b.length(v)
    inner = b.mul(b.dot(v, v), 0.5)
    outer = b.mul(delta, b.sub(size, b.mul(delta, 0.5)))
    return b.select(b.le(size, delta), inner, outer)


def _norm_pseudo_huber(b: Emitter, v: Value, delta: Value) -> Value:
    return b.sqrt(b.add(b.mul(delta, delta), b.dot(v, v)))


def _huber(v: Any, delta: Any) -> Any:
    size = np.linalg.norm(v)
    return 0.5 * size * size if size <= delta else delta * (size - 0.5 * delta)


def _pseudo_huber(v: Any, delta: Any) -> Any:
    return np.sqrt(delta * delta + np.dot(v, v))


@builtin(group=GROUP, lower=Expand(in_float32(_norm_l1)), ref=lambda v: np.sum(np.abs(v)))
def norm_l1(v: VF) -> F:
    """Return the sum of the absolute values of the components."""


@builtin(group=GROUP, lower=Expand(_length), ref=np.linalg.norm, adjoint=in_float32(_length_adjoint))
def norm_l2(v: VF) -> F:
    """Return the Euclidean length, as ``length``."""


@builtin(group=GROUP, lower=Expand(in_float32(_norm_huber)), ref=_huber)
def norm_huber(v: VF, delta: F = 1.0) -> F:
    """Return Huber's norm: ``0.5 * |v|**2`` up to the length ``delta``, then ``delta * (|v| - 0.5 * delta)``."""


@builtin(group=GROUP, lower=Expand(in_float32(_norm_pseudo_huber)), ref=_pseudo_huber)
def norm_pseudo_huber(v: VF, delta: F = 1.0) -> F:
    """Return the smooth form of Huber's norm, ``delta * sqrt(1 + |v|**2 / delta**2)``, for ``delta > 0``."""


@builtin(
    group=GROUP,
    lower=Expand(in_float32(lambda b, v, delta: b.div(v, b.norm_pseudo_huber(v, delta)))),
    ref=lambda v, delta: v / _pseudo_huber(v, delta),
)
def smooth_normalize(v: VF, delta: F = 1.0) -> VF:
    """Return ``v / norm_pseudo_huber(v, delta)``: near the unit vector for large ``v``, smooth at zero."""


# --- by component, and over the components --------------------------------------------------------------------


def _arg(better: str) -> Callable[[Emitter, Value], Value]:
    def body(b: Emitter, v: Value) -> Value:
        def step(x: Value, i: Value, best: Value, at: Value) -> tuple[Value, Value]:
            wins = b.apply(better, x, best)
            if vec_type(v).dtype.is_float:
                wins = b.bit_or(wins, b.bit_and(b.isnan(best), b.unot(b.isnan(x))))
            return b.select(wins, x, best), b.select(wins, i, at)

        if is_large(v.type):
            first = [b.extract(v, 0), b.constant(0, uint32)]
            return scan(b, v.type, first, lambda i, *found: step(b.extract(v, *i), b.cast(i[0], uint32), *found))[1]
        xs = b.components(v)
        best, at = xs[0], b.constant(0, uint32)
        for i, x in enumerate(xs[1:], 1):
            best, at = step(x, b.constant(i, uint32), best, at)
        return at

    return body


def _every(b: Emitter, v: Value, test: Callable[[Value], Value]) -> Value:
    return combined(b, b.bit_and, v, test)


def _some(b: Emitter, v: Value, test: Callable[[Value], Value]) -> Value:
    return combined(b, b.bit_or, v, test)


@builtin(name="min", group=GROUP, lower=Elementwise("min"), ref=np.fmin)
def min_vec(a: V, b: V) -> V:
    """Return the component-wise minimum of two vectors."""


@builtin(name="min", group=GROUP, lower=Expand(lambda b, v: combined(b, b.min, v)), ref=np.fmin.reduce)
def min_of(a: V) -> S:
    """Return the least component; the first of equal ones gets the gradient."""


@builtin(name="max", group=GROUP, lower=Elementwise("max"), ref=np.fmax)
def max_vec(a: V, b: V) -> V:
    """Return the component-wise maximum of two vectors."""


@builtin(name="max", group=GROUP, lower=Expand(lambda b, v: combined(b, b.max, v)), ref=np.fmax.reduce)
def max_of(a: V) -> S:
    """Return the greatest component; the first of equal ones gets the gradient."""


@builtin(group=GROUP, lower=Expand(_arg("lt")), ref=reference.arg(np.nanargmin), adjoint=INDEX)
def argmin(a: V) -> uint32:
    """Return the index of the least component, the first of equal ones; NaN is passed over."""


@builtin(group=GROUP, lower=Expand(_arg("gt")), ref=reference.arg(np.nanargmax), adjoint=INDEX)
def argmax(a: V) -> uint32:
    """Return the index of the greatest component, the first of equal ones; NaN is passed over."""


@builtin(name="abs", group=GROUP, lower=Elementwise("abs"), ref=np.abs)
def abs_vec(x: V) -> V:
    """Return the vector of absolute values."""


@builtin(name="sign", group=GROUP, lower=Elementwise("sign"), ref=lambda x: np.where(x < 0, -1, 1), adjoint=STEPS)
def sign_vec(x: V) -> V:
    """Return the vector of signs: -1 where the component is negative and 1 otherwise."""


@builtin(
    name="isfinite",
    group=GROUP,
    lower=Expand(lambda b, v: _every(b, v, b.isfinite)),
    ref=lambda a: np.all(np.isfinite(a)),
    adjoint=COMPARISON,
)
def isfinite_vec(a: VF) -> bool_:
    """Return whether all components are finite."""


@builtin(
    name="isnan",
    group=GROUP,
    lower=Expand(lambda b, v: _some(b, v, b.isnan)),
    ref=lambda a: np.any(np.isnan(a)),
    adjoint=COMPARISON,
)
def isnan_vec(a: VF) -> bool_:
    """Return whether some component is NaN."""


@builtin(
    name="isinf",
    group=GROUP,
    lower=Expand(lambda b, v: _some(b, v, b.isinf)),
    ref=lambda a: np.any(np.isinf(a)),
    adjoint=COMPARISON,
)
def isinf_vec(a: VF) -> bool_:
    """Return whether some component is infinite."""
