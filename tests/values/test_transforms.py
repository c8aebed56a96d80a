"""Transforms and spatial vectors on the host and in kernels."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.base.errors import WarpCodegenAttributeError, WarpCodegenTypeError

SEVEN = (1.0, 2.0, 3.0, 0.5, -0.5, 0.5, 0.5)


def test_construct_and_read() -> None:
    t = wp.transform(*SEVEN)
    assert t == wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat(0.5, -0.5, 0.5, 0.5))
    assert t == wp.transform((1.0, 2.0, 3.0), (0.5, -0.5, 0.5, 0.5)) == wp.transform(np.array(SEVEN))
    assert t == wp.transform(p=t.p, q=t.q) == wp.transform(t.p, q=t.q) == wp.transform(t)
    assert type(t.p) is wp.vec3
    assert type(t.q) is wp.quat
    assert (t[0], t[-1], len(t), list(t)) == (1.0, 0.5, 7, list(SEVEN))
    assert t[0:3] == t.p
    assert wp.transform() == wp.transform_identity() == wp.transform(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    assert wp.transform(wp.vec3(1.0, 2.0, 3.0)) == wp.transform(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
    assert wp.transform(2.0) == wp.transform(*[2.0] * 7)
    assert wp.types.transformation(dtype=wp.float64) is wp.transformd
    assert wp.transformation(wp.vec3d(1.0, 2.0, 3.0), dtype=wp.float64) == wp.transformd((1.0, 2.0, 3.0))
    assert repr(t) == f"transformf({list(SEVEN)})"


def test_parts_are_assigned() -> None:
    t = wp.transform()
    t.p = (1.0, 2.0, 3.0)
    t.q = wp.quat(0.5, -0.5, 0.5, 0.5)
    assert t == wp.transform(*SEVEN)
    t[0:3] = wp.vec3(4.0)
    t[6] = 9.0
    assert t == wp.transform(4.0, 4.0, 4.0, 0.5, -0.5, 0.5, 9.0)
    wp.transform_set_translation(t, wp.vec3(1.0, 2.0, 3.0))
    wp.transform_set_rotation(t, wp.quat_identity())
    assert t == wp.transform(wp.vec3(1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match=r"`p` of a transformf is a vec3\[float32\], got 2 numbers"):
        t.p = (1.0, 2.0)


def test_wrong_numbers() -> None:
    with pytest.raises(ValueError, match="takes 7 numbers, or a translation of 3 and a quaternion, got numbers: 3, 3$"):
        wp.transform(wp.vec3(), wp.vec3())
    with pytest.raises(TypeError, match="takes `p` and `q`, or numbers, got both"):
        wp.transform(wp.vec3(), p=wp.vec3())
    with pytest.raises(TypeError, match="the dtype of a transform is a float type, got int32"):
        wp.types.transformation(int)


def test_arithmetic() -> None:
    t = wp.transform(*SEVEN)
    assert t + t == 2.0 * t == t * 2.0 == wp.transform(*(2 * x for x in SEVEN))
    assert t - t == wp.transform(0.0)
    assert -t == t * -1.0
    assert t / 2.0 == t * 0.5
    turned = wp.quat_rotate(t.q, t.p)
    np.testing.assert_allclose((t * t).p, np.array(turned) + t.p, rtol=1e-6)
    assert (t * t).q == t.q * t.q
    assert t * t == wp.mul(t, t) == wp.transform_multiply(t, t)
    assert t == t
    assert t != t + t
    for other in (wp.vec3(), wp.quat(), wp.transformd()):
        with pytest.raises(TypeError):
            t * other


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64, wp.bfloat16])
def test_copies_and_arrays(dtype: Any) -> None:
    kind = wp.types.transformation(dtype)
    t = kind(*SEVEN)
    assert pickle.loads(pickle.dumps(t)) == copy.deepcopy(t) == t
    a = wp.array([t, kind()], dtype=kind)
    assert a.numpy().shape == (2, 7)
    assert a.dtype is kind
    again = wp.array(a.numpy(), dtype=kind) if dtype is not wp.bfloat16 else a
    np.testing.assert_array_equal(again.numpy(), a.numpy())
    assert wp.zeros(3, dtype=kind).numpy().tolist() == [[0.0] * 7] * 3


@wp.struct
class Body:
    pose: wp.transform
    speed: wp.spatial_vector


def test_in_a_struct() -> None:
    b = Body()
    assert b.pose == wp.transform(0.0)
    b.pose = wp.transform(*SEVEN)
    b.speed = wp.spatial_vector(wp.vec3(1.0), wp.vec3(2.0))
    assert b.pose.p == wp.vec3(1.0, 2.0, 3.0)
    bodies = wp.array([b, Body()], dtype=Body)
    out = wp.zeros(2, dtype=wp.transform)
    wp.launch(shift, dim=2, inputs=[bodies], outputs=[out])
    assert out.numpy().tolist() == [[1, 2, 13, 0.5, -0.5, 0.5, 2], [0, 0, 10, 0, 0, 0, 0]]


@wp.kernel
def shift(bodies: wp.array(dtype=Body), out: wp.array(dtype=wp.transform)):
    i = wp.tid()
    bodies[i].pose.p.z += 10.0
    b = bodies[i]
    b.pose.q.w *= 4.0
    out[i] = b.pose


@wp.kernel
def make(a: wp.array(dtype=wp.transform), out: wp.array(dtype=wp.transform)):
    out[0] = wp.transform()
    out[1] = wp.transform(wp.vec3(1.0, 2.0, 3.0))
    out[2] = wp.transform(p=wp.vec3(1.0, 2.0, 3.0), q=wp.quat(1.0, 2.0, 3.0, 4.0))
    out[3] = wp.transformation(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    out[4] = wp.transformation(wp.vec3(5.0), q=wp.quat_identity(), dtype=float)
    out[5] = wp.transform_identity() + a[0] * 2.0 - a[0] / 2.0
    out[6] = -a[0] * wp.transform(2.0)
    out[7] = wp.transform(a[0])


def test_made_in_a_kernel() -> None:
    a = wp.array([wp.transform(*SEVEN)], dtype=wp.transform)
    out = wp.zeros(8, dtype=wp.transform)
    wp.launch(make, dim=1, inputs=[a], outputs=[out])
    t = wp.transform(*SEVEN)
    expected = [
        [0] * 7,
        [1, 2, 3, 0, 0, 0, 1],
        [1, 2, 3, 1, 2, 3, 4],
        [1, 2, 3, 4, 5, 6, 7],
        [5, 5, 5, 0, 0, 0, 1],
        np.array([0, 0, 0, 0, 0, 0, 1]) + 1.5 * np.array(SEVEN),
        (-t) * wp.transform(2.0),
        SEVEN,
    ]
    np.testing.assert_allclose(out.numpy(), np.array([list(e) for e in expected]), rtol=1e-6)


@wp.kernel
def change(i: int, out: wp.array(dtype=wp.transform)):
    t = wp.transform_identity()
    t.p = wp.vec3(1.0, 2.0, 3.0)
    t.p.x = 4.0
    t.q[1] += 0.5
    t.q[i] = 7.0
    t.p[i] *= 2.0
    t[-1] += 1.0
    out[0] = t
    t.p[i + 1] = 99.0
    t.p[i + 2] = 99.0
    out[1].p = t.p
    out[1].p += wp.vec3(1.0)
    out[1].q.w = 5.0
    wp.transform_set_translation(out[2], wp.vec3(3.0))
    wp.transform_set_rotation(t, wp.quat(1.0, 2.0, 3.0, 4.0))
    out[3] = t
    wp.atomic_add(out, 4, t)
    out[4] += t
    out[5][i] = 1.0
    if t == out[3] and t.q == out[3].q and t.q != out[0].q:
        out[5].q = t.q


def test_changed_in_a_kernel() -> None:
    out = wp.zeros(6, dtype=wp.transform)
    wp.launch(change, dim=1, inputs=[2], outputs=[out])
    set_back = [4, 2, 6, 1, 2, 3, 4]
    assert out.numpy().tolist() == [
        [4, 2, 6, 0, 0.5, 7, 2],
        [5, 3, 7, 0, 0, 0, 5],
        [3, 3, 3, 0, 0, 0, 0],
        set_back,
        [2 * x for x in set_back],
        [0, 0, 1, 1, 2, 3, 4],
    ]


@wp.kernel
def poses(t: wp.array(dtype=wp.transformd), x: wp.array(dtype=wp.vec3d), out: wp.array(dtype=wp.vec3d)):
    i = wp.tid()
    pose = t[i] * wp.transform_inverse(t[i]) * t[i]
    pose.p += wp.normalize(pose.q * pose.q)[0:3]
    out[i] = wp.transform_point(pose, x[i]) + wp.transform_vector(t[i], x[i])


def test_gradient_of_a_kernel() -> None:
    rng = np.random.default_rng(1)
    values, points = rng.normal(size=(3, 7)), rng.normal(size=(3, 3))
    values[:, 3:] /= np.linalg.norm(values[:, 3:], axis=1, keepdims=True)

    def loss(v: np.ndarray, p: np.ndarray) -> float:
        out = wp.zeros(3, dtype=wp.vec3d)
        wp.launch(poses, dim=3, inputs=[wp.array(v, dtype=wp.transformd), wp.array(p, dtype=wp.vec3d)], outputs=[out])
        return float(out.numpy().sum())

    t = wp.array(values, dtype=wp.transformd, requires_grad=True)
    x = wp.array(points, dtype=wp.vec3d, requires_grad=True)
    out = wp.zeros(3, dtype=wp.vec3d, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(poses, dim=3, inputs=[t, x], outputs=[out])
    tape.backward(grads={out: wp.ones(3, dtype=wp.vec3d)})
    for array, given in ((t, values), (x, points)):
        expected = np.zeros_like(given)
        for at in np.ndindex(given.shape):
            moved = given.copy()
            moved[at] += 1e-6
            up = loss(moved, points) if array is t else loss(values, moved)
            moved[at] -= 2e-6
            down = loss(moved, points) if array is t else loss(values, moved)
            expected[at] = (up - down) / 2e-6
        np.testing.assert_allclose(array.grad.numpy(), expected, rtol=1e-6, atol=1e-7)


def test_compose_and_decompose() -> None:
    rng = np.random.default_rng(2)
    for mirrored in (False, True):
        scale = wp.vec3d(*rng.uniform(0.5, 2.0, 3))
        scale[1] *= -1.0 if mirrored else 1.0
        q = wp.normalize(wp.quatd(*rng.normal(size=4)))
        m = wp.transform_compose(wp.vec3d(*rng.normal(size=3)), q, scale)
        p, r, s = wp.transform_decompose(m)
        np.testing.assert_allclose(wp.transform_compose(p, r, s), m, atol=1e-14)
        assert (s[0] < 0) == mirrored
    t = wp.transformd(wp.vec3d(1.0, 2.0, 3.0), q)
    back = wp.transform_from_matrix(wp.transform_to_matrix(t))
    np.testing.assert_allclose(back.q * (back.q[3] * t.q[3] / abs(back.q[3] * t.q[3])), t.q, atol=1e-14)
    assert back.p == t.p


SPATIAL = [
    (
        wp.spatial_cross(wp.spatial_vector(1, 2, 3, 4, 5, 6), wp.spatial_vector(3, 1, 2, -4, 5, 7)),
        [1, 7, -5, 3, -9, 2],
    ),
    (
        wp.spatial_cross_dual(wp.spatial_vector(1, 2, 3, 4, 5, 6), wp.spatial_vector(3, 1, 2, -4, 5, 7)),
        [6, -45, 35, -1, -19, 13],
    ),
    (wp.velocity_at_point(wp.spatial_vector(1, 2, 3, 4, 5, 6), wp.vec3(3, 1, 2)), [5, 12, 1]),
    (wp.spatial_dot(wp.spatial_vector(1, 2, 3, 4, 5, 6), wp.spatial_vector(3, 1, 2, -4, 5, 7)), 62),
    (
        wp.transform_twist(wp.transform((1, 2, 3), wp.quat_rpy(0.1, 0.2, 0.3)), wp.spatial_vector(1, 2, 3, 4, 5, 6)),
        [1.0411537, 2.0916088, 2.9225287, 3.2500298, 5.919834, 5.554864],
    ),
    (
        wp.transform_wrench(wp.transform((1, 2, 3), wp.quat_rpy(0.1, 0.2, 0.3)), wp.spatial_vector(1, 2, 3, 4, 5, 6)),
        [-5.0244274, 7.5854416, 1.2818341, 3.6797984, 5.718902, 5.5455623],
    ),
]
"""Results, and what warp-lang 1.19 gives."""


@pytest.mark.parametrize(("got", "expected"), SPATIAL, ids=range(len(SPATIAL)))
def test_spatial_functions(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(got), expected, rtol=2e-6)


def test_spatial_types() -> None:
    assert wp.spatial_vector is wp.types.vector(6, float)
    assert wp.spatial_matrixd is wp.types.matrix((6, 6), wp.float64)
    v = wp.spatial_vector(wp.vec3(1.0, 2.0, 3.0), wp.vec3(4.0, 5.0, 6.0))
    assert v == wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert (wp.spatial_top(v), wp.spatial_bottom(v)) == (wp.vec3(1.0, 2.0, 3.0), wp.vec3(4.0, 5.0, 6.0))
    m = wp.spatial_adjoint(wp.mat33(*range(9)), wp.mat33(*range(10, 19)))
    expected = np.zeros((6, 6))
    expected[:3, :3] = expected[3:, 3:] = np.arange(9).reshape(3, 3)
    expected[3:, :3] = np.arange(10, 19).reshape(3, 3)
    np.testing.assert_array_equal(m, expected)


@wp.kernel
def stack(out: wp.array(dtype=wp.spatial_vectord), m: wp.array(dtype=wp.mat44)):
    top = wp.vec3d(wp.float64(1.0))
    v = wp.spatial_vectord(top, top * wp.float64(2.0))
    out[0] = wp.spatial_vectord(wp.spatial_bottom(v), wp.spatial_top(v))
    m[0] = wp.matrix(wp.vec3(1.0), wp.quat_identity(), wp.vec3(2.0))
    m[1] = wp.matrix(pos=wp.vec3(1.0), rot=wp.quat_identity(), scale=wp.vec3(2.0), dtype=float)


def test_spatial_vectors_in_a_kernel() -> None:
    out, m = wp.zeros(1, dtype=wp.spatial_vectord), wp.zeros(2, dtype=wp.mat44)
    wp.launch(stack, dim=1, outputs=[out, m])
    assert out.numpy().tolist() == [[2, 2, 2, 1, 1, 1]]
    assert m.numpy().tolist() == [np.array([[2, 0, 0, 1], [0, 2, 0, 1], [0, 0, 2, 1], [0, 0, 0, 1]]).tolist()] * 2


@wp.kernel
def wrong_part(out: wp.array(dtype=wp.transform)):
    out[0].r = wp.vec3(1.0)


@wp.kernel
def wrong_number(out: wp.array(dtype=wp.transform)):
    out[0] = wp.transform(1.0, 2.0)


@wp.kernel
def wrong_name(out: wp.array(dtype=wp.transform)):
    out[0] = wp.transform(pos=wp.vec3(1.0))


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (
            wrong_part,
            WarpCodegenAttributeError,
            r"a transform\[float32\] has no attribute `r`: it has p, its translation, and q, its rotation",
        ),
        (
            wrong_number,
            WarpCodegenTypeError,
            r"a transform\[float32\] is made of none, 1 or 7 numbers, or of a vector of 3 and a quaternion, got 2",
        ),
        (wrong_name, WarpCodegenTypeError, r"transform\(\) has no argument `pos`"),
    ],
)
def test_mistakes(kernel: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wp.launch(kernel, dim=1, outputs=[wp.zeros(1, dtype=wp.transform)])


def test_transform_of_a_flat_sequence() -> None:
    numbers = [1.0, 2.0, 3.0, 0.0, 0.6, 0.0, 0.8]
    for given in (numbers, tuple(numbers), np.array(numbers)):
        t = wp.transform_expand(given)
        assert type(t) is wp.transform
        assert (t.p, t.q) == (wp.vec3(*numbers[:3]), wp.quat(*numbers[3:]))
    with pytest.raises(ValueError, match="takes 7 numbers"):
        wp.transform_expand(numbers[:6])


def test_a_number_fills_a_part() -> None:
    assert wp.transform(2.0, wp.quat(0.0, 0.0, 0.0, 1.0)) == wp.transform(2, 2, 2, 0, 0, 0, 1)
    assert wp.transform(wp.vec3(1.0, 2.0, 3.0), 0.5) == wp.transform(1, 2, 3, 0.5, 0.5, 0.5, 0.5)
