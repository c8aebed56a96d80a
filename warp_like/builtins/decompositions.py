"""Decompositions of matrices of 2x2 and 3x3: singular values, eigenvalues of symmetric ones, QR.

Half precision computes in float32. A gradient divides by differences of singular values or eigenvalues, as
``d**3 / (d**4 + e**4)`` with a small ``e``: at repeated values that part of the gradient is 0, never infinite, and what
does not depend on the choice of vectors there (such as the polar rotation ``U @ V^T``) is right.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.builtins.device import decompositions as device
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.patterns import F, H, MatOf, VecOf, W
from warp_like.builtins.spec import Expand, Inline, NoGradient, builtin, declare_row
from warp_like.ir.core import Value
from warp_like.ir.types import float32, int32, with_scalar

GROUP = "Vector Math"
WITHIN = NoGradient("the decomposition that it belongs to has a rule of its own")
M22, M33 = MatOf(2, 2, W), MatOf(3, 3, W)
H22, H33 = MatOf(2, 2, H), MatOf(3, 3, H)
V2, V3 = VecOf(2, W), VecOf(3, W)

# --- steps ----------------------------------------------------------------------------------------------------


def _scale(b: Emitter, m: Value) -> Value:
    """The largest absolute value, so that squares neither overflow nor vanish; 1 for the zero matrix."""
    total, *rest = [b.abs(x) for x in b.components(m)]
    for x in rest:
        total = b.max(total, x)
    return b.select(b.eq(total, 0.0), b.constant(1.0, total.type), total)


def _epsilon(b: Emitter, x: Value) -> Value:
    """The spacing of numbers at 1."""
    return b.constant(2.0**-52 if scalar_type(x).bits == 64 else 2.0**-23, x.type)


def _gap_inverse(b: Emitter, gap: Value, scale: Value) -> Value:
    """``1 / gap``, going to 0 where ``gap`` is about the rounding error of values of the size ``scale``."""
    closest = 1e-11 if scalar_type(gap).bits == 64 else 1e-5
    size = b.abs(scale)
    size = b.select(b.eq(size, 0.0), b.constant(1.0, size.type), size)
    d = b.div(gap, size)
    square = b.mul(d, d)
    return b.div(b.div(b.mul(square, d), b.add(b.mul(square, square), closest**4)), size)


def _step(name: str, function: Callable[..., Any] | Expand, *params: Any, result: Any) -> None:
    """Declare a function that the decompositions share."""
    named = {f"x{k}": p for k, p in enumerate(params)}
    lower = function if isinstance(function, Expand) else Inline(function)
    doc = f"Do a step of a decomposition: {name[1:]}."
    declare_row(name, lower, named, result, group=GROUP, doc=doc, adjoint=WITHIN)


M, V = MatOf("N", "N", W), VecOf("N", W)
_step("_scale", Expand(_scale), M, result=W)
_step("_epsilon", Expand(_epsilon), W, result=W)
_step("_gap_inverse", Expand(_gap_inverse), W, W, result=W)
_step("_pivot_inverse", device.pivot_inverse, W, result=W)
_step("_rotate_rows", device.rotate_rows, M, int32, int32, W, W, result=M)
_step("_jacobi_rotation", device.rotation, W, W, W, W, result=(W, W))
_step("_orthogonalise", device.orthogonalise, M, M, int32, int32, result=(M, M))
_step("_order", device.order, M, M, int32, int32, result=(M, M))
_step("_perpendicular", device.perpendicular, V3, result=V3)
_step("_diagonalise", device.diagonalise, M, M, int32, int32, result=(M, M))
_step("_order_eigenvalues", device.order_eigenvalues, V, M, int32, int32, result=(V, M))
_step("_eliminate", device.eliminate, M, M, int32, int32, result=(M, M))
_step("_svd_pair", device.svd_pair, M, M, M, V, int32, int32, result=M)
_step("_eig_pair", device.eig_pair, M, M, V, W, int32, int32, result=M)
_step("_svd3_adjoint", device.svd3_adjoint, M33, V3, M33, M33, V3, M33, result=M33)
_step("_svd2_adjoint", device.svd2_adjoint, M22, V2, M22, M22, V2, M22, result=M22)
_step("_eig3_adjoint", device.eig3_adjoint, M33, V3, M33, V3, result=M33)
_step("_qr3_adjoint", device.qr3_adjoint, M33, M33, M33, M33, result=M33)

# --- references -----------------------------------------------------------------------------------------------


def _svd3_ref(a: Any) -> Any:
    u, sigma, vt = np.linalg.svd(a)
    du, dv = np.linalg.det(u), np.linalg.det(vt)
    u[:, 2] *= np.sign(du)
    vt[2] *= np.sign(dv)
    sigma[2] *= np.sign(du) * np.sign(dv)
    return u, sigma, vt.T


def _svd2_ref(a: Any) -> Any:
    u, sigma, vt = np.linalg.svd(a)
    flip = np.sign(np.linalg.det(vt))
    u[:, 1] *= flip
    vt[1] *= flip
    return u, sigma, vt.T


def _eig3_ref(a: Any) -> Any:
    d, q = np.linalg.eigh((a + a.T) / 2)
    q = q[:, ::-1] * np.array([1, 1, -np.sign(np.linalg.det(q))])
    return q, d[::-1]


def _qr3_ref(a: Any) -> Any:
    q, r = np.linalg.qr(a)
    signs = np.where(np.diag(r) < 0, -1.0, 1.0)
    signs[2] = np.linalg.det(q) * signs[0] * signs[1]
    return q * signs, r * signs[:, None]


# --- rows -----------------------------------------------------------------------------------------------------


def _in_single(name: str) -> Expand:
    """Compute a decomposition of a half-precision matrix in float32."""

    def body(b: Emitter, a: Value) -> Any:
        results = b.apply(name, b.cast(a, with_scalar(a.type, float32)))
        half = a.type.dtype  # type: ignore[attr-defined]
        return tuple(b.cast(x, with_scalar(x.type, half)) for x in results)

    return Expand(body)


def _adjoint(name: str) -> Callable[..., Any]:
    return lambda b, g, out, a: b.apply(name, *g, *out)


@builtin(group=GROUP, lower=Inline(device.svd3), ref=_svd3_ref, adjoint=_adjoint("_svd3_adjoint"))
def svd3(A: M33) -> (M33, V3, M33):
    """Return ``U, sigma, V`` with ``A == U @ diag(sigma) @ V^T``.

    U and V are rotations. The singular values decrease in absolute value; the last has the sign of ``A``'s determinant.
    """


@builtin(name="svd3", group=GROUP, lower=_in_single("svd3"), ref=_svd3_ref)
def svd3_half(A: H33) -> (H33, VecOf(3, H), H33):
    """Return ``U, sigma, V`` of a half-precision matrix, computed in float32."""


@builtin(
    name="svd3",
    group=GROUP,
    lower=Expand(lambda b, a, u, s, v: b.apply("svd3", a)),
    ref=lambda a, u, s, v: _svd3_ref(a),
    assigns=("U", "sigma", "V"),
    example="""
    U, sigma, V = wp.mat33(), wp.vec3(), wp.mat33()
    wp.svd3(wp.mat33(2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0), U, sigma, V)
    """,
)
def svd3_into(
    A: MatOf(3, 3, F), U: MatOf(3, 3, F), sigma: VecOf(3, F), V: MatOf(3, 3, F)
) -> (MatOf(3, 3, F), VecOf(3, F), MatOf(3, 3, F)):
    """Assign the singular value decomposition of ``A`` to the variables ``U``, ``sigma`` and ``V``."""


@builtin(group=GROUP, lower=Inline(device.svd2), ref=_svd2_ref, adjoint=_adjoint("_svd2_adjoint"))
def svd2(A: M22) -> (M22, V2, M22):
    """Return ``U, sigma, V`` with ``A == U @ diag(sigma) @ V^T``.

    V is a rotation, and so is U unless the determinant of ``A`` is negative. The singular values are not negative and
    decrease.
    """


@builtin(name="svd2", group=GROUP, lower=_in_single("svd2"), ref=_svd2_ref)
def svd2_half(A: H22) -> (H22, VecOf(2, H), H22):
    """Return ``U, sigma, V`` of a half-precision matrix, computed in float32."""


@builtin(
    name="svd2",
    group=GROUP,
    lower=Expand(lambda b, a, u, s, v: b.apply("svd2", a)),
    ref=lambda a, u, s, v: _svd2_ref(a),
    assigns=("U", "sigma", "V"),
    example="""
    U, sigma, V = wp.mat22(), wp.vec2(), wp.mat22()
    wp.svd2(wp.mat22(2.0, 1.0, 1.0, 2.0), U, sigma, V)
    """,
)
def svd2_into(
    A: MatOf(2, 2, F), U: MatOf(2, 2, F), sigma: VecOf(2, F), V: MatOf(2, 2, F)
) -> (MatOf(2, 2, F), VecOf(2, F), MatOf(2, 2, F)):
    """Assign the singular value decomposition of ``A`` to the variables ``U``, ``sigma`` and ``V``."""


@builtin(group=GROUP, lower=Inline(device.eig3), ref=_eig3_ref, adjoint=_adjoint("_eig3_adjoint"))
def eig3(A: M33) -> (M33, V3):
    """Return ``Q, d`` with ``A == Q @ diag(d) @ Q^T`` for a symmetric matrix.

    The columns of the rotation Q are eigenvectors, by decreasing eigenvalue. Of another matrix the symmetric part is
    decomposed.
    """


@builtin(name="eig3", group=GROUP, lower=_in_single("eig3"), ref=_eig3_ref)
def eig3_half(A: H33) -> (H33, VecOf(3, H)):
    """Return ``Q, d`` of a half-precision matrix, computed in float32."""


@builtin(
    name="eig3",
    group=GROUP,
    lower=Expand(lambda b, a, q, d: b.apply("eig3", a)),
    ref=lambda a, q, d: _eig3_ref(a),
    assigns=("Q", "d"),
    example="""
    Q, d = wp.mat33(), wp.vec3()
    wp.eig3(wp.mat33(2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0), Q, d)
    """,
)
def eig3_into(A: MatOf(3, 3, F), Q: MatOf(3, 3, F), d: VecOf(3, F)) -> (MatOf(3, 3, F), VecOf(3, F)):
    """Assign the eigenvectors and eigenvalues of ``A`` to the variables ``Q`` and ``d``."""


@builtin(group=GROUP, lower=Inline(device.qr3), ref=_qr3_ref, adjoint=_adjoint("_qr3_adjoint"))
def qr3(A: M33) -> (M33, M33):
    """Return ``Q, R`` with ``A == Q @ R``: Q is a rotation, R an upper triangular matrix.

    The first two elements of R's diagonal are not negative. The gradient through a zero on the diagonal is 0.
    """


@builtin(name="qr3", group=GROUP, lower=_in_single("qr3"), ref=_qr3_ref)
def qr3_half(A: H33) -> (H33, H33):
    """Return ``Q, R`` of a half-precision matrix, computed in float32."""


@builtin(
    name="qr3",
    group=GROUP,
    lower=Expand(lambda b, a, q, r: b.apply("qr3", a)),
    ref=lambda a, q, r: _qr3_ref(a),
    assigns=("Q", "R"),
    example="""
    Q, R = wp.mat33(), wp.mat33()
    wp.qr3(wp.mat33(2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0), Q, R)
    """,
)
def qr3_into(A: MatOf(3, 3, F), Q: MatOf(3, 3, F), R: MatOf(3, 3, F)) -> (MatOf(3, 3, F), MatOf(3, 3, F)):
    """Assign the factors of ``A`` to the variables ``Q`` and ``R``."""
