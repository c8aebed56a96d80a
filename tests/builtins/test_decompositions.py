"""Decompositions of small matrices: what their factors give together, and gradients, at repeated values too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import Kernel
from tests.builtins.calls import Case, cases, empty, kernel
from tests.builtins.test_adjoint_rules import gradients
from tests.ir_builder import start, tid
from tests.long_tail import sampled
from warp_like.ir.types import Array, Mat, Scalar, float16, float32, float64
from warp_like.passes.pipeline import finish

TOLERANCE = {float64: 1e-14, float32: 4e-6, float16: 4e-3}


def case_of(name: str, scalar: Scalar, which: int) -> Case:
    return next(c for c in cases(scalar) if c.row.name == name and len(c.types) == 1 and c.which == which)


def decomposed(name: str, scalar: Scalar, a: np.ndarray, count: int) -> list[np.ndarray]:
    results = [case_of(name, scalar, which).result for which in range(count)]
    argument = Mat(*a.shape[1:], scalar)
    params = {f"out{k}": Array(t, 1) for k, t in enumerate(results)}
    f, b = start("decompose", a=Array(argument, 1), **params)
    i = tid(b)
    for param, x in zip(f.params[1:], b.apply(name, b.load(f.params[0], [i])), strict=True):
        b.store(param, [i], x)
    b.yield_()
    found = [empty(t, len(a)) for t in results]
    Kernel(finish(f))([a, *found], (len(a),))
    return [x.astype(np.float64) for x in found]


def matrices(scalar: Scalar, n: int = 3) -> np.ndarray:
    """Random ones, and those that iterations and divisions stumble over."""
    rng = np.random.default_rng(11)
    a = rng.normal(size=(300, n, n))
    a[0] = 0
    a[1] = np.eye(n)
    a[2] = -np.eye(n)
    a[3] = 1
    a[4] = np.diag(np.arange(n) == 1)
    a[5] = np.diag(np.ones(n - 1), 1)
    a[6:20, 1] = a[6:20, 0]
    a[20:40, :, 1] *= 1e-6
    a[40:60] = np.eye(n) + 1e-7 * a[40:60]
    a[60:70] = np.round(a[60:70])
    if scalar != float16:
        a[70:80] *= 1e-25
        a[80:90] *= 1e25
    return a.astype(str(scalar))


def relative(a: np.ndarray, error: np.ndarray) -> float:
    scale = np.abs(a).max(axis=(1, 2))
    return float((np.abs(error).max(axis=(1, 2)) / np.where(scale > 0, scale, 1)).max())


def orthogonality(q: np.ndarray) -> float:
    return float(np.abs(q @ np.swapaxes(q, 1, 2) - np.eye(q.shape[1])).max())


FLOATS = [float64, float32, float16]


@pytest.mark.parametrize("scalar", FLOATS, ids=str)
@pytest.mark.parametrize("n", [2, 3])
def test_singular_values(scalar: Scalar, n: int) -> None:
    a = matrices(scalar, n)
    u, s, v = decomposed(f"svd{n}", scalar, a, 3)
    exact = a.astype(np.float64)
    assert relative(exact, u * s[:, None] @ np.swapaxes(v, 1, 2) - exact) < TOLERANCE[scalar]
    assert max(orthogonality(u), orthogonality(v)) < TOLERANCE[scalar]
    np.testing.assert_allclose(np.linalg.det(v), 1, atol=TOLERANCE[scalar])
    scale = np.abs(s).max(axis=1, keepdims=True)
    assert (np.diff(np.abs(s), axis=1) <= TOLERANCE[scalar] * scale).all()
    if n == 3:
        np.testing.assert_allclose(np.linalg.det(u), 1, atol=TOLERANCE[scalar])
    else:
        assert (s >= 0).all()


@pytest.mark.parametrize("scalar", FLOATS, ids=str)
def test_eigenvalues(scalar: Scalar) -> None:
    a = matrices(scalar)
    q, d = decomposed("eig3", scalar, a, 2)
    exact = (a.astype(np.float64) + np.swapaxes(a, 1, 2).astype(np.float64)) / 2
    assert relative(exact, q * d[:, None] @ np.swapaxes(q, 1, 2) - exact) < TOLERANCE[scalar]
    assert orthogonality(q) < TOLERANCE[scalar]
    assert (np.diff(d, axis=1) <= 0).all()


@pytest.mark.parametrize("scalar", FLOATS, ids=str)
def test_qr(scalar: Scalar) -> None:
    a = matrices(scalar)
    q, r = decomposed("qr3", scalar, a, 2)
    exact = a.astype(np.float64)
    assert relative(exact, q @ r - exact) < TOLERANCE[scalar]
    assert orthogonality(q) < TOLERANCE[scalar]
    np.testing.assert_allclose(np.linalg.det(q), 1, atol=TOLERANCE[scalar])
    assert (np.tril(r, -1) == 0).all()
    assert (r[:, [0, 1], [0, 1]] >= 0).all()


# --- gradients ------------------------------------------------------------------------------------------------

RESULTS = [("svd3", 0), ("svd3", 1), ("svd3", 2), ("svd2", 0), ("svd2", 1), ("svd2", 2)]
RESULTS += [("eig3", 0), ("eig3", 1), ("qr3", 0), ("qr3", 1)]


@pytest.mark.parametrize(("name", "which"), sampled(RESULTS, every=2))
def test_gradient(name: str, which: int) -> None:
    """Against central differences of the function itself, which is smooth where the values are apart."""
    case = case_of(name, float64, which)
    n = 2 if name == "svd2" else 3
    rng = np.random.default_rng(2)
    rotations = np.linalg.qr(rng.normal(size=(2, 6, n, n)))[0]
    a = rotations[0] * np.array([3.0, 2.0, 0.7])[:n] @ rotations[1]
    g = rng.normal(size=empty(case.result, 6).shape)
    (got,) = gradients(case, [a], g)
    assert got is not None
    run = Kernel(finish(kernel(case)))
    for r, c in np.ndindex(n, n):
        change = []
        for step in (1e-6, -1e-6):
            moved = a.copy()
            moved[:, r, c] += step
            out = empty(case.result, 6)
            run([moved, out], (6,))
            change.append(out)
        slope = (g * (change[0] - change[1])).reshape(6, -1).sum(axis=1) / 2e-6
        np.testing.assert_allclose(got[:, r, c], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "which"), RESULTS)
def test_gradient_is_finite_at_the_edges(name: str, which: int) -> None:
    case = case_of(name, float64, which)
    n = 2 if name == "svd2" else 3
    a = np.array([np.zeros((n, n)), np.eye(n), np.ones((n, n)), -2 * np.eye(n), np.diag([3.0, 2.0, 2.0][:n])])
    g = np.random.default_rng(4).normal(size=empty(case.result, len(a)).shape)
    (got,) = gradients(case, [a], g)
    assert np.isfinite(got).all()
    assert np.abs(got).max() < 1e3


@wp.kernel
def polar(a: wp.array(dtype=wp.mat33d), out: wp.array(dtype=wp.mat33d)):
    i = wp.tid()
    u, _sigma, v = wp.svd3(a[i])
    out[i] = u * wp.transpose(v)


@wp.kernel
def trace_of_square(a: wp.array(dtype=wp.mat33d), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    _q, d = wp.eig3(a[i])
    out[i] = wp.dot(d, d)


def backward(kernel: Any, a: np.ndarray, g: np.ndarray, dtype: Any) -> np.ndarray:
    x = wp.array(a, dtype=wp.mat33d, requires_grad=True)
    out = wp.zeros(len(a), dtype=dtype, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=len(a), inputs=[x], outputs=[out])
    tape.backward(grads={out: wp.array(g, dtype=dtype)})
    return x.grad.numpy()


def test_polar_rotation_at_repeated_singular_values() -> None:
    """At the identity, the derivative of the rotation is the antisymmetric part of the change."""
    g = np.random.default_rng(5).normal(size=(2, 3, 3))
    got = backward(polar, np.array([np.eye(3), 2 * np.eye(3)]), g, wp.mat33d)
    antisymmetric = (g - np.swapaxes(g, 1, 2)) / 2
    np.testing.assert_allclose(got[0], antisymmetric[0], atol=1e-12)
    np.testing.assert_allclose(got[1], antisymmetric[1] / 2, atol=1e-12)


def test_symmetric_function_at_repeated_eigenvalues() -> None:
    a = np.array([np.diag([2.0, 2.0, 1.0]), np.eye(3)])
    got = backward(trace_of_square, a, np.ones(2), wp.float64)
    np.testing.assert_allclose(got, 2 * a, atol=1e-12)


# --- the forms that assign ------------------------------------------------------------------------------------


@wp.kernel
def older_forms(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33), angles: wp.array(dtype=float)):
    u, v, q, r, e = wp.mat33(), wp.mat33(), wp.mat33(), wp.mat33(), wp.mat33()
    sigma, d, axis = wp.vec3(), wp.vec3(), wp.vec3()
    angle = axis[0]
    wp.svd3(a[0], u, sigma, v)
    wp.qr3(a[0], q, r)
    wp.eig3(a[0] + wp.transpose(a[0]), e, d)
    out[0] = u * wp.diag(sigma) * wp.transpose(v)
    out[1] = q * r
    out[2] = e * wp.diag(d) * wp.transpose(e)
    wp.quat_to_axis_angle(wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.5), axis, angle)
    angles[0] = angle * axis[1]


def test_forms_that_assign_their_results() -> None:
    a = np.random.default_rng(6).normal(size=(1, 3, 3)).astype(np.float32)
    out, angles = wp.zeros(3, dtype=wp.mat33), wp.zeros(1, dtype=float)
    wp.launch(older_forms, dim=1, inputs=[wp.array(a, dtype=wp.mat33)], outputs=[out, angles])
    np.testing.assert_allclose(out.numpy(), [a[0], a[0], a[0] + a[0].T], atol=4e-6)
    np.testing.assert_allclose(angles.numpy(), [0.5], rtol=1e-6)


def test_on_the_host() -> None:
    a = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.5)
    u, sigma, v = wp.svd3(a)
    np.testing.assert_allclose(np.array(u) * np.array(sigma) @ np.array(v).T, np.array(a), atol=1e-5)
    assert sigma[2] < 0
