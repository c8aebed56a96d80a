"""Operators: what ``+``, ``*``, ``<`` and their like mean, as functions too.

Operands have one scalar type. Integer arithmetic wraps; dividing an integer by zero gives 0 and never traps. What
touches zero in a gradient is guarded: the derivative of a division by zero is 0, never NaN.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from collections.abc import Sequence

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter, mat_type, scalar_type, vec_type
from warp_like.builtins.loops import fold, product
from warp_like.builtins.patterns import MF, VF, F, I, M, MatOf, S, V, VecOf
from warp_like.builtins.precision import in_float32
from warp_like.builtins.spec import Adjoints, Elementwise, Expand, NoGradient, Target, builtin
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Mat, Vec, is_large

GROUP = "Operators"
INTEGERS = NoGradient("integers carry no gradient")
COMPARISON = NoGradient("a comparison is constant wherever it has a derivative")
STEPS = NoGradient("it is constant between its steps")

# --- sums -----------------------------------------------------------------------------------------------------


def _sum_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    return g, g


def _difference_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    return g, b.neg(g)


@builtin(group=GROUP, lower=Target(), ref=np.add, adjoint=_sum_adjoint)
def add(a: S, b: S) -> S:
    """Return ``a + b``."""


@builtin(name="add", group=GROUP, lower=Elementwise("add"), ref=np.add, adjoint=_sum_adjoint)
def add_vec(a: V, b: V) -> V:
    """Return the component-wise sum of two vectors."""


@builtin(name="add", group=GROUP, lower=Elementwise("add"), ref=np.add, adjoint=_sum_adjoint)
def add_mat(a: M, b: M) -> M:
    """Return the sum of two matrices."""


@builtin(group=GROUP, lower=Target(), ref=np.subtract, adjoint=_difference_adjoint)
def sub(a: S, b: S) -> S:
    """Return ``a - b``."""


@builtin(name="sub", group=GROUP, lower=Elementwise("sub"), ref=np.subtract, adjoint=_difference_adjoint)
def sub_vec(a: V, b: V) -> V:
    """Return the component-wise difference of two vectors."""


@builtin(name="sub", group=GROUP, lower=Elementwise("sub"), ref=np.subtract, adjoint=_difference_adjoint)
def sub_mat(a: M, b: M) -> M:
    """Return the difference of two matrices."""


# --- products -------------------------------------------------------------------------------------------------


def sum_of_products(b: Emitter, xs: Sequence[Value], ys: Sequence[Value]) -> Value:
    """Emit ``xs[0] * ys[0] + xs[1] * ys[1] + ...``."""
    total = b.mul(xs[0], ys[0])
    for x, y in zip(xs[1:], ys[1:], strict=True):
        total = b.add(total, b.mul(x, y))
    return total


def total_of_products(b: Emitter, x: Value, y: Value) -> Value:
    """Emit the sum of the products of corresponding components."""
    if is_large(x.type):
        return fold(b, x.type, lambda at: b.mul(b.extract(x, *at), b.extract(y, *at)), b.add)
    return sum_of_products(b, b.components(x), b.components(y))


def rows_of(b: Emitter, m: Value) -> list[list[Value]]:
    """The components of matrix ``m``, row by row."""
    flat, n = b.components(m), mat_type(m).cols
    return [flat[i : i + n] for i in range(0, len(flat), n)]


def columns_of(b: Emitter, m: Value) -> list[list[Value]]:
    """The components of matrix ``m``, column by column."""
    return [list(column) for column in zip(*rows_of(b, m), strict=True)]


def _mat_vec(b: Emitter, m: Value, v: Value) -> Value:
    t = _vec(mat_type(m).rows, v)
    if any(map(is_large, (m.type, v.type, t))):
        extents = mat_type(m).rows, mat_type(m).cols, 1
        return product(b, t, extents, lambda i, k: b.extract(m, i, k), lambda k, j: b.extract(v, k), lambda i, j: (i,))
    xs = b.components(v)
    return b.make(t, [sum_of_products(b, row, xs) for row in rows_of(b, m)])


def _vec_mat(b: Emitter, v: Value, m: Value) -> Value:
    t = _vec(mat_type(m).cols, v)
    if any(map(is_large, (m.type, v.type, t))):
        extents = 1, mat_type(m).rows, mat_type(m).cols
        return product(b, t, extents, lambda i, k: b.extract(v, k), lambda k, j: b.extract(m, k, j), lambda i, j: (j,))
    xs = b.components(v)
    return b.make(t, [sum_of_products(b, xs, column) for column in columns_of(b, m)])


def _mat_mat(b: Emitter, x: Value, y: Value) -> Value:
    t = Mat(mat_type(x).rows, mat_type(y).cols, mat_type(x).dtype)
    if any(map(is_large, (x.type, y.type, t))):
        extents = t.rows, mat_type(x).cols, t.cols
        return product(b, t, extents, lambda *at: b.extract(x, *at), lambda *at: b.extract(y, *at), lambda *at: at)
    columns = columns_of(b, y)
    elements = [sum_of_products(b, row, column) for row in rows_of(b, x) for column in columns]
    return b.make(t, elements)


def _vec(length: int, like: Value) -> Vec:
    return Vec(length, vec_type(like).dtype)


@builtin(group=GROUP, lower=Target(), ref=np.multiply, adjoint=lambda b, g, out, x, y: (b.mul(g, y), b.mul(g, x)))
def mul(a: S, b: S) -> S:
    """Return ``a * b``."""


def _scaled_adjoint(b: Emitter, g: Value, out: Value, x: Value, s: Value) -> Adjoints:
    return b.mul(g, s), total_of_products(b, g, x)


def _scaling_adjoint(b: Emitter, g: Value, out: Value, s: Value, x: Value) -> Adjoints:
    return total_of_products(b, g, x), b.mul(g, s)


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaled_adjoint)
def mul_vec_scalar(a: V, b: S) -> V:
    """Return vector ``a`` scaled by ``b``."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaling_adjoint)
def mul_scalar_vec(a: S, b: V) -> V:
    """Return vector ``b`` scaled by ``a``."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaled_adjoint)
def mul_mat_scalar(a: M, b: S) -> M:
    """Return matrix ``a`` scaled by ``b``."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaling_adjoint)
def mul_scalar_mat(a: S, b: M) -> M:
    """Return matrix ``b`` scaled by ``a``."""


@builtin(
    name="mul",
    group=GROUP,
    lower=Expand(in_float32(_mat_vec)),
    ref=np.matmul,
    adjoint=lambda b, g, out, m, v: (b.outer(g, v), b.mul(g, m)),
)
def mul_mat_vec(a: M, b: VecOf("C", S)) -> VecOf("R", S):
    """Return the matrix-vector product ``a @ b``."""


@builtin(
    name="mul",
    group=GROUP,
    lower=Expand(in_float32(_vec_mat)),
    ref=np.matmul,
    adjoint=lambda b, g, out, v, m: (b.mul(m, g), b.outer(v, g)),
)
def mul_vec_mat(a: VecOf("R", S), b: M) -> VecOf("C", S):
    """Return the product ``a @ b`` of a row vector and a matrix."""


@builtin(
    name="mul",
    group=GROUP,
    lower=Expand(in_float32(_mat_mat)),
    ref=np.matmul,
    adjoint=lambda b, g, out, x, y: (b.mul(g, b.transpose(y)), b.mul(b.transpose(x), g)),
)
def mul_mat_mat(a: MatOf("R", "K", S), b: MatOf("K", "C", S)) -> MatOf("R", "C", S):
    """Return the matrix product ``a @ b``."""


# --- quotients ------------------------------------------------------------------------------------------------


def _quotient_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    zero = b.zero(g.type)
    pole = b.eq(y, 0.0)
    if ops.is_scalar_constant(x, 1.0):  # the derivative of a reciprocal takes no division
        return None, b.select(pole, zero, b.mul(b.mul(b.neg(g), out), out))
    gx = b.select(pole, zero, b.div(g, y))
    return gx, b.select(pole, zero, b.neg(b.mul(gx, out)))


def _scaled_quotient_adjoint(b: Emitter, g: Value, out: Value, x: Value, s: Value) -> Adjoints:
    zero = b.zero(s.type)
    pole = b.eq(s, 0.0)
    gx = b.mul(g, b.select(pole, zero, b.div(b.constant(1.0, s.type), s)))
    return gx, b.select(pole, zero, b.neg(total_of_products(b, gx, out)))


def _int_floor_div(b: Emitter, x: Value, y: Value) -> Value:
    quotient = b.div(x, y)
    if not scalar_type(x).is_signed:
        return quotient
    rest = b.mod(x, y)
    down = b.bit_and(b.ne(rest, 0), b.ne(b.lt(rest, 0), b.lt(y, 0)))
    return b.select(down, b.sub(quotient, 1), quotient)


@builtin(group=GROUP, lower=Target(), ref=reference.divide, adjoint=_quotient_adjoint)
def div(a: S, b: S) -> S:
    """Return ``a / b``, of the operands' type: that of integers truncates toward zero.

    An integer divided by zero gives 0, and the least integer divided by -1 wraps to itself. The gradient of a float
    division by zero is 0.
    """


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide, adjoint=_scaled_quotient_adjoint)
def div_vec_scalar(a: V, b: S) -> V:
    """Return vector ``a`` with each component divided by ``b``."""


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide)
def div_scalar_vec(a: S, b: V) -> V:
    """Return the vector of ``a`` divided by each component of ``b``."""


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide, adjoint=_scaled_quotient_adjoint)
def div_mat_scalar(a: M, b: S) -> M:
    """Return matrix ``a`` with each element divided by ``b``."""


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide)
def div_scalar_mat(a: S, b: M) -> M:
    """Return the matrix of ``a`` divided by each element of ``b``."""


@builtin(group=GROUP, lower=Expand(lambda b, x, y: b.div(x, y)), ref=np.true_divide, adjoint=_quotient_adjoint)
def div_approx(a: F, b: F) -> F:
    """Return ``a / b``. The name asks for speed over the last bits; the result here is that of ``div``."""


@builtin(
    name="div_approx",
    group=GROUP,
    lower=Elementwise("div_approx"),
    ref=reference.divide,
    adjoint=_scaled_quotient_adjoint,
)
def div_approx_vec_scalar(a: VF, b: F) -> VF:
    """Return vector ``a`` with each component divided by ``b``, as ``div_approx`` of numbers."""


@builtin(name="div_approx", group=GROUP, lower=Elementwise("div_approx"), ref=reference.divide)
def div_approx_scalar_vec(a: F, b: VF) -> VF:
    """Return the vector of ``a`` divided by each component of ``b``, as ``div_approx`` of numbers."""


@builtin(
    name="div_approx",
    group=GROUP,
    lower=Elementwise("div_approx"),
    ref=reference.divide,
    adjoint=_scaled_quotient_adjoint,
)
def div_approx_mat_scalar(a: MF, b: F) -> MF:
    """Return matrix ``a`` with each element divided by ``b``, as ``div_approx`` of numbers."""


@builtin(name="div_approx", group=GROUP, lower=Elementwise("div_approx"), ref=reference.divide)
def div_approx_scalar_mat(a: F, b: MF) -> MF:
    """Return the matrix of ``a`` divided by each element of ``b``, as ``div_approx`` of numbers."""


@builtin(group=GROUP, lower=Expand(lambda b, x, y: b.floor(b.div(x, y))), ref=reference.floor_divide, adjoint=STEPS)
def floordiv(a: F, b: F) -> F:
    """Return ``floor(a / b)``."""


@builtin(name="floordiv", group=GROUP, lower=Expand(_int_floor_div), ref=reference.floor_divide, adjoint=INTEGERS)
def floordiv_int(a: I, b: I) -> I:
    """Return ``a / b`` rounded down, as Python's ``//``; 0 where ``b`` is 0."""


def _mod_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    zero = b.zero(g.type)
    pole = b.eq(y, 0.0)
    slope = b.neg(b.trunc(b.div(x, y)))
    return b.select(pole, zero, g), b.select(pole, zero, b.mul(g, slope))


@builtin(group=GROUP, lower=Target(), ref=reference.remainder, adjoint=_mod_adjoint)
def mod(a: S, b: S) -> S:
    """Return the remainder of ``a / b`` truncated, with the sign of ``a``, as C's ``%`` and ``fmod``.

    The remainder of an integer by zero is 0, that of a float NaN. Python's own ``%`` has the sign of ``b`` instead.
    """


@builtin(name="mod", group=GROUP, lower=Elementwise("mod"), ref=reference.remainder)
def mod_vec(a: V, b: V) -> V:
    """Return the component-wise remainder of two vectors."""


# --- signs ----------------------------------------------------------------------------------------------------


def _neg_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    return b.neg(g)


def _same(b: Emitter, x: Value) -> Value:
    return x


@builtin(group=GROUP, lower=Target(), ref=np.negative, adjoint=_neg_adjoint)
def neg(x: S) -> S:
    """Return ``-x``."""


@builtin(name="neg", group=GROUP, lower=Elementwise("neg"), ref=np.negative, adjoint=_neg_adjoint)
def neg_vec(x: V) -> V:
    """Return the negated vector."""


@builtin(name="neg", group=GROUP, lower=Elementwise("neg"), ref=np.negative, adjoint=_neg_adjoint)
def neg_mat(x: M) -> M:
    """Return the negated matrix."""


@builtin(group=GROUP, lower=Expand(_same), ref=np.positive, adjoint=lambda b, g, out, x: g)
def pos(x: S) -> S:
    """Return ``x``."""


@builtin(name="pos", group=GROUP, lower=Expand(_same), ref=np.positive, adjoint=lambda b, g, out, x: g)
def pos_vec(x: V) -> V:
    """Return the vector."""


@builtin(name="pos", group=GROUP, lower=Expand(_same), ref=np.positive, adjoint=lambda b, g, out, x: g)
def pos_mat(x: M) -> M:
    """Return the matrix."""
