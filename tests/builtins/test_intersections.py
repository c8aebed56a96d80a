"""Whether triangles intersect, against linear programming: a common point is a convex combination of both's corners."""

import numpy as np
import pytest
from scipy.optimize import linprog

import warp_like as wp


@wp.kernel
def intersect(v: wp.array2d(dtype=wp.vec3d), u: wp.array2d(dtype=wp.vec3d), out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.intersect_tri_tri(v[i, 0], v[i, 1], v[i, 2], u[i, 0], u[i, 1], u[i, 2])


def found(v, u):
    out = wp.zeros(len(v), dtype=int)
    wp.launch(intersect, len(v), inputs=[wp.array(v, dtype=wp.vec3d), wp.array(u, dtype=wp.vec3d), out])
    return out.numpy()


def expected(v, u):
    sums = [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]]
    equations = np.vstack([np.hstack([v.T, -u.T]), sums])
    return int(linprog(np.zeros(6), A_eq=equations, b_eq=[0.0, 0.0, 0.0, 1.0, 1.0]).status == 0)


@pytest.mark.parametrize("plane", [False, True])
def test_random_triangles(plane):
    rng = np.random.default_rng(7)
    v, u = rng.uniform(-1, 1, (2, 300, 3, 3))
    u = 0.7 * u + rng.uniform(-0.7, 0.7, (300, 1, 3))
    if plane:
        v[..., 2] = u[..., 2] = 0.0
    wanted = np.array([expected(a, b) for a, b in zip(v, u, strict=True)])
    assert 20 < wanted.sum() < 280
    np.testing.assert_array_equal(found(v, u), wanted)
    np.testing.assert_array_equal(found(u, v), wanted)


@pytest.mark.parametrize(
    ("u", "wanted"),
    [
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], 1),  # the same one
        ([[0.1, 0.1, 0], [0.2, 0.1, 0], [0.1, 0.2, 0]], 1),  # inside, in one plane
        ([[0, 0, 0], [-1, 0, 0], [0, -1, 0]], 1),  # a corner touches, in one plane
        ([[0.25, 0.25, 0], [0.25, 0.25, 1], [1, 1, 1]], 1),  # a corner touches the inside
        ([[0, 0, 1e-3], [1, 0, 1e-3], [0, 1, 1e-3]], 0),  # parallel
        ([[0.75, 0.75, -1], [0.75, 0.75, 1], [2, 2, 0]], 0),  # through the plane, beside the triangle
        ([[2, 0, 0], [3, 0, 0], [2, 1, 0]], 0),  # apart in one plane
        ([[0.2, 0.2, 0], [0.2, 0.2, 0], [0.2, 0.2, 0]], 1),  # a point
        ([[0.2, 0.2, -1], [0.2, 0.2, 1], [0.2, 0.2, 0]], 1),  # a line
    ],
)
def test_special_cases(u, wanted):
    v = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    a, b = (np.array([t], dtype=float) for t in (v, u))
    assert found(a, b) == found(b, a) == wanted
