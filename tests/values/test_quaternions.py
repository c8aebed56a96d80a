"""Quaternions on the host and in kernels."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import warp_like as wp
from warp_like.base.errors import WarpCodegenTypeError


def test_construct_and_read() -> None:
    q = wp.quat(1.0, 2.0, 3.0, 4.0)
    assert (q.x, q.y, q.z, q.w) == (1.0, 2.0, 3.0, 4.0)
    assert q[3] == q[-1] == 4.0
    assert list(q) == [1.0, 2.0, 3.0, 4.0]
    assert wp.quat() == wp.quat(0.0, 0.0, 0.0, 0.0)
    assert wp.quatd(wp.vec3d(1.0, 2.0, 3.0), 4.0) == wp.quatd(1, 2, 3, 4)
    assert wp.types.quaternion(dtype=wp.float64) is wp.quatd
    assert wp.quaternion(1.0, 2.0, 3.0, 4.0, dtype=wp.float16) == wp.quath(1, 2, 3, 4)
    assert wp.quat_identity(dtype=wp.float64) == wp.quatd(0, 0, 0, 1)
    assert wp.quat_identity(dtype=None) == wp.quat(0, 0, 0, 1)
    q.w = 5.0
    assert q[3] == 5.0
    assert repr(q) == "quatf([1.0, 2.0, 3.0, 5.0])"
    assert str(q) == "[1.0, 2.0, 3.0, 5.0]"


@pytest.mark.parametrize("args", [(1.0, 2.0), (1.0, 2.0, 3.0, 4.0, 5.0)])
def test_wrong_number_of_components(args: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="quatf takes 4 numbers, or a vector of 3 and a number"):
        wp.quat(*args)


def test_dtype_is_a_float() -> None:
    with pytest.raises(TypeError, match="the dtype of a quaternion is a float type, got int32"):
        wp.types.quaternion(int)


def test_arithmetic() -> None:
    p, q = wp.quat(1.0, 2.0, 3.0, 4.0), wp.quat(0.5, -1.0, 2.0, 1.0)
    assert p + q == wp.quat(1.5, 1.0, 5.0, 5.0)
    assert p - q == wp.quat(0.5, 3.0, 1.0, 3.0)
    assert 2.0 * p == p * 2.0 == wp.quat(2.0, 4.0, 6.0, 8.0)
    assert p / 2.0 == wp.quat(0.5, 1.0, 1.5, 2.0)
    assert -p == wp.quat(-1.0, -2.0, -3.0, -4.0)
    assert p * p == wp.quat(8.0, 16.0, 24.0, 2.0)
    assert wp.mul(p, p) == p * p
    assert p != q
    for other in (wp.vec4(1.0, 2.0, 3.0, 4.0), wp.quatd(1, 2, 3, 4)):
        with pytest.raises(TypeError):
            p * other
    with pytest.raises(TypeError):
        wp.mat44() @ p


def test_copies_and_arrays() -> None:
    q = wp.quat(1.0, 2.0, 3.0, 4.0)
    assert pickle.loads(pickle.dumps(q)) == copy.deepcopy(q) == q
    assert np.array(q).tolist() == [1, 2, 3, 4]
    a = wp.array([q, q], dtype=wp.quat)
    assert a.numpy().shape == (2, 4)
    assert wp.array(np.ones((3, 4)), dtype=wp.quatd).dtype is wp.quatd


@wp.kernel
def compute(q: wp.array(dtype=wp.quat), out: wp.array(dtype=wp.quat), x: wp.array(dtype=float)):
    p = wp.quat(wp.vec3(1.0, 0.0, 0.0), 2.0)
    p.y = q[0].w
    p[2] += 1.0
    out[0] = p * q[0]
    out[1] = wp.quaternion(dtype=float) + wp.quat_identity() * 2.0 - q[0] / 2.0
    out[2] = wp.quaternion(x[0], x[0], x[0], 1.0)
    i = int(x[0])
    x[1] = q[0][i] + wp.length(q[0])


def test_in_a_kernel() -> None:
    q = wp.quat(1.0, 2.0, 3.0, 4.0)
    out, x = wp.zeros(3, dtype=wp.quat), wp.array([1.0, 0.0], dtype=float)
    wp.launch(compute, dim=1, inputs=[wp.array([q], dtype=wp.quat)], outputs=[out, x])
    p = wp.quat(1.0, 4.0, 1.0, 2.0)
    np.testing.assert_allclose(out.numpy(), [p * q, [-0.5, -1, -1.5, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(x.numpy(), [1, 2 + np.sqrt(30)], rtol=1e-6)


@wp.kernel
def wrong(out: wp.array(dtype=wp.quat)):
    out[0] = wp.quat(1.0)


def test_wrong_construction_in_a_kernel() -> None:
    with pytest.raises(WarpCodegenTypeError, match="is made of 4 numbers, or of a vector of 3 and a number"):
        wp.launch(wrong, dim=1, outputs=[wp.zeros(1, dtype=wp.quat)])


def test_rotations_on_the_host() -> None:
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), np.pi / 2)
    np.testing.assert_allclose(wp.quat_rotate(q, wp.vec3(1.0, 0.0, 0.0)), [0, 1, 0], atol=1e-6)
    axis, angle = wp.quat_to_axis_angle(q)
    np.testing.assert_allclose([*axis, angle], [0, 0, 1, np.pi / 2], atol=1e-6)


@wp.kernel
def edges(q: wp.array(dtype=wp.quatd), m: wp.array(dtype=wp.mat33d), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    axis, angle = wp.quat_to_axis_angle(q[i])
    total = wp.quat_slerp(q[i], q[i], wp.float64(0.3)) + wp.quat_twist(axis, q[i])
    e = wp.quat_to_euler(q[i], 0, 1, 2) + wp.quat_to_rpy(q[i]) + axis
    out[i] = angle + wp.dot(total, total) + wp.dot(e, e) + wp.quat_from_matrix(m[i]).x


def test_gradients_at_the_edges_are_finite() -> None:
    half = np.sqrt(0.5)
    quats = [[0, 0, 0, 1], [0, 0, 0, -1], [1, 0, 0, 0], [0, half, 0, half], [0, -half, 0, half], [0, 0, 0, 0]]
    mats = [np.eye(3), -np.eye(3), np.diag([1, -1, -1]), np.diag([-1, -1, 1]), np.zeros((3, 3)), np.ones((3, 3))]
    q = wp.array(np.array(quats, float), dtype=wp.quatd, requires_grad=True)
    m = wp.array(np.array(mats, float), dtype=wp.mat33d, requires_grad=True)
    out = wp.zeros(6, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(edges, dim=6, inputs=[q, m], outputs=[out])
    tape.backward(grads={out: wp.ones(6, dtype=wp.float64)})
    for found in (out, q.grad, m.grad):
        assert np.isfinite(found.numpy()).all()


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64])
def test_rotation_between_directions(dtype: type) -> None:
    vec = wp.types.vector(3, dtype)
    rng = np.random.default_rng(1)
    pairs = [*rng.standard_normal((20, 2, 3)), *([x, -2.0 * x] for x in np.eye(3)), [np.ones(3), -np.ones(3)]]
    for a, b in pairs:
        q = wp.quat_between_vectors(vec(*a), vec(*b))
        turned = wp.quat_rotate(q, vec(*(a / np.linalg.norm(a))))
        np.testing.assert_allclose(turned, b / np.linalg.norm(b), atol=1e-5)
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert 2.0 * math.acos(min(1.0, float(q[3]))) == pytest.approx(math.acos(max(-1.0, cosine)), abs=1e-3)
    assert wp.quat_between_vectors(vec(), vec(1.0)) == wp.types.quaternion(dtype)(0.0, 0.0, 0.0, 1.0)
