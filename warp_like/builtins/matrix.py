"""Matrices: transpose, determinant, inverse, diagonals, and points under an affine matrix."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from collections.abc import Callable

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter, mat_type, vec_type
from warp_like.builtins.loops import counted, fold, tabulate
from warp_like.builtins.operators import COMPARISON, columns_of, rows_of, sum_of_products, total_of_products
from warp_like.builtins.patterns import MF, V3, F, M, MatOf, S, VecOf
from warp_like.builtins.precision import in_float32
from warp_like.builtins.spec import Adjoints, Elementwise, Expand, builtin
from warp_like.builtins.vector import combined
from warp_like.ir.core import Value
from warp_like.ir.types import Mat, Vec, bool_, is_large

GROUP = "Vector Math"

# --- shape ----------------------------------------------------------------------------------------------------


def _transpose(b: Emitter, m: Value) -> Value:
    t = Mat(mat_type(m).cols, mat_type(m).rows, mat_type(m).dtype)
    if is_large(t):
        return tabulate(b, t, lambda at: b.extract(m, at[1], at[0]))
    return b.make(t, [x for column in columns_of(b, m) for x in column])


def _diagonal(b: Emitter, m: Value) -> list[Value]:
    return [row[i] for i, row in enumerate(rows_of(b, m))]


def _diag(b: Emitter, v: Value) -> Value:
    n = vec_type(v).length
    t = Mat(n, n, vec_type(v).dtype)
    if is_large(t):
        return counted(b, 0, n, [b.zero(t)], lambda i, m: [b.insert_component(m, b.extract(v, i), i, i)])[0]
    xs, zero = b.components(v), b.zero(vec_type(v).dtype)
    return b.make(t, [xs[r] if r == c else zero for r in range(n) for c in range(n)])


def _get_diag(b: Emitter, m: Value) -> Value:
    t = Vec(mat_type(m).rows, mat_type(m).dtype)
    if is_large(m.type):
        return tabulate(b, t, lambda at: b.extract(m, at[0], at[0]))
    return b.make(t, _diagonal(b, m))


def _trace(b: Emitter, m: Value) -> Value:
    if is_large(m.type):
        line = Vec(mat_type(m).rows, mat_type(m).dtype)
        return fold(b, line, lambda at: b.extract(m, at[0], at[0]), b.add)
    total, *rest = _diagonal(b, m)
    for x in rest:
        total = b.add(total, x)
    return total


def _skew(b: Emitter, v: Value) -> Value:
    (x, y, z), zero = b.components(v), b.zero(vec_type(v).dtype)
    return b.make(Mat(3, 3, vec_type(v).dtype), [zero, b.neg(z), y, z, zero, b.neg(x), b.neg(y), x, zero])


@builtin(group=GROUP, lower=Expand(_transpose), ref=np.transpose, adjoint=lambda b, g, out, m: b.transpose(g))
def transpose(a: M) -> MatOf("C", "R", S):
    """Return the matrix with rows and columns exchanged."""


@builtin(
    group=GROUP,
    lower=Expand(in_float32(_trace)),
    ref=np.trace,
    adjoint=lambda b, g, out, m: b.diag(b.make(Vec(mat_type(m).rows, g.type), [g] * mat_type(m).rows)),
)
def trace(a: MatOf("N", "N", S)) -> S:
    """Return the sum of the diagonal of a square matrix."""


@builtin(group=GROUP, lower=Expand(_diag), ref=np.diag, adjoint=lambda b, g, out, v: b.get_diag(g))
def diag(vec: VecOf("N", S)) -> MatOf("N", "N", S):
    """Return the matrix with ``vec`` on the diagonal and zeros elsewhere."""


@builtin(group=GROUP, lower=Expand(_get_diag), ref=np.diag, adjoint=lambda b, g, out, m: b.diag(g))
def get_diag(mat: MatOf("N", "N", S)) -> VecOf("N", S):
    """Return the diagonal of a square matrix."""


@builtin(group=GROUP, lower=Expand(_skew), ref=reference.skew)
def skew(vec: VecOf(3, S)) -> MatOf(3, 3, S):
    """Return the skew-symmetric matrix with ``skew(v) @ w == cross(v, w)``."""


# --- by element -----------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Elementwise("mul"), ref=np.multiply)
def cw_mul(a: M, b: M) -> M:
    """Return the element-wise product of two matrices."""


@builtin(group=GROUP, lower=Elementwise("div"), ref=reference.divide)
def cw_div(a: M, b: M) -> M:
    """Return the element-wise quotient of two matrices; integers as ``div``."""


@builtin(
    group=GROUP,
    lower=Expand(in_float32(total_of_products)),
    ref=lambda a, b: np.sum(a * b, dtype=a.dtype),
    adjoint=lambda b, g, out, x, y: (b.mul(y, g), b.mul(x, g)),
)
def ddot(a: M, b: M) -> S:
    """Return the sum of the products of corresponding elements."""


@builtin(
    name="isfinite",
    group=GROUP,
    lower=Expand(lambda b, m: combined(b, b.bit_and, m, b.isfinite)),
    ref=lambda a: np.all(np.isfinite(a)),
    adjoint=COMPARISON,
)
def isfinite_mat(a: MF) -> bool_:
    """Return whether all elements are finite."""


@builtin(
    name="isnan",
    group=GROUP,
    lower=Expand(lambda b, m: combined(b, b.bit_or, m, b.isnan)),
    ref=lambda a: np.any(np.isnan(a)),
    adjoint=COMPARISON,
)
def isnan_mat(a: MF) -> bool_:
    """Return whether some element is NaN."""


@builtin(
    name="isinf",
    group=GROUP,
    lower=Expand(lambda b, m: combined(b, b.bit_or, m, b.isinf)),
    ref=lambda a: np.any(np.isinf(a)),
    adjoint=COMPARISON,
)
def isinf_mat(a: MF) -> bool_:
    """Return whether some element is infinite."""


# --- determinant and inverse ----------------------------------------------------------------------------------


def _minor(b: Emitter, rows: list[int], columns: list[int], m: list[list[Value]]) -> Value:
    """The determinant of the elements of ``m`` (a list of rows) in ``rows`` and ``columns``, by its first row."""
    first, *others = rows
    if not others:
        return m[first][columns[0]]
    terms = []
    for c in columns:
        rest = [other for other in columns if other != c]
        terms.append(b.mul(m[first][c], _minor(b, others, rest, m)))
    total = terms[0]
    for k, term in enumerate(terms[1:], 1):
        total = b.sub(total, term) if k % 2 else b.add(total, term)
    return total


def _cofactors(b: Emitter, m: Value) -> Value:
    """The matrix of cofactors: the derivative of the determinant, also of a singular matrix."""
    n, elements = mat_type(m).rows, rows_of(b, m)
    found = []
    for r in range(n):
        for c in range(n):
            rows, columns = [i for i in range(n) if i != r], [i for i in range(n) if i != c]
            value = _minor(b, rows, columns, elements)
            found.append(b.neg(value) if (r + c) % 2 else value)
    return b.make(m.type, found)


def _determinant(b: Emitter, m: Value) -> Value:
    indices = list(range(mat_type(m).rows))
    return _minor(b, indices, indices, rows_of(b, m))


def _inverse(b: Emitter, m: Value) -> Value:
    cofactors = _cofactors(b, m)
    first = range(mat_type(m).cols)
    det = sum_of_products(b, [b.extract(m, 0, c) for c in first], [b.extract(cofactors, 0, c) for c in first])
    singular = b.eq(det, 0.0)
    one = b.constant(1.0, det.type)
    scale = b.select(singular, b.zero(det.type), b.div(one, b.select(singular, one, det)))
    return b.mul(b.transpose(cofactors), scale)


def _inverse_adjoint(b: Emitter, g: Value, out: Value, m: Value) -> Adjoints:
    turned = b.transpose(out)
    return b.neg(b.mul(b.mul(turned, g), turned))


def _determinant_adjoint(b: Emitter, g: Value, out: Value, m: Value) -> Adjoints:
    return b.mul(_cofactors(b, m), g)


def _declare_square(n: int) -> None:
    """Determinant and inverse of the matrices of ``n`` rows."""
    shape = MatOf(n, n, F)

    @builtin(group=GROUP, lower=Expand(in_float32(_determinant)), ref=np.linalg.det, adjoint=_determinant_adjoint)
    def determinant(a: shape) -> F:
        """Return the determinant of a matrix of 2, 3 or 4 rows."""

    @builtin(group=GROUP, lower=Expand(in_float32(_inverse)), ref=reference.inverse, adjoint=_inverse_adjoint)
    def inverse(a: shape) -> shape:
        """Return the inverse of a matrix of 2, 3 or 4 rows; zero, with gradient 0, where the determinant is 0."""

    @builtin(group=GROUP, lower=Expand(in_float32(_inverse)), ref=reference.inverse, adjoint=_inverse_adjoint)
    def inverse_approx(a: shape) -> shape:
        """Return the inverse. The name asks for speed over the last bits; the result here is that of ``inverse``."""


for _n in (2, 3, 4):
    _declare_square(_n)


# --- points ---------------------------------------------------------------------------------------------------


def _affine(w: int) -> Callable[[Emitter, Value, Value], Value]:
    def body(b: Emitter, m: Value, v: Value) -> Value:
        xs = b.components(v)
        found = []
        for row in rows_of(b, m)[:3]:
            x = sum_of_products(b, row[:3], xs)
            found.append(b.add(x, row[3]) if w else x)
        return b.make(v.type, found)

    return body


@builtin(group=GROUP, lower=Expand(_affine(1)), ref=lambda mat, point: reference.affine(mat, point, 1.0))
def transform_point(mat: MatOf(4, 4, F), point: V3) -> V3:
    """Return the point moved by an affine matrix: the first three components of ``mat @ (*point, 1)``."""


@builtin(group=GROUP, lower=Expand(_affine(0)), ref=lambda mat, vec: reference.affine(mat, vec, 0.0))
def transform_vector(mat: MatOf(4, 4, F), vec: V3) -> V3:
    """Return the direction turned by an affine matrix: the first three components of ``mat @ (*vec, 0)``."""
