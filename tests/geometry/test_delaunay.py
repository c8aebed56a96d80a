"""Delaunay flips: the in-circle test in exact fractions, SciPy's triangulation, and meshes that are none."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import Delaunay

import warp_like as wp
import warp_like.geometry

RNG = np.random.default_rng(37)


def flip(points, triangles, **options):
    """Return how many edges were flipped, and the triangles."""
    indices = wp.array(np.asarray(triangles, np.int32).reshape(-1, 3), dtype=int)
    total = wp.geometry.delaunay_edge_flip(wp.array(points, dtype=wp.vec2), indices, **options)
    assert (total.shape, total.dtype) == ((1,), wp.int32)
    return total.list()[0], indices.numpy()


def sheet(nx, ny, jitter=0.0, shear=0.0):
    """Return points on a grid, moved, and two triangles for each cell."""
    i, j = np.indices((nx + 1, ny + 1))
    moved = RNG.uniform(-jitter, jitter, (2, nx + 1, ny + 1))
    moved[:, [0, -1]] = moved[:, :, [0, -1]] = 0
    points = np.stack([i + moved[0] + shear * j, j + moved[1]], axis=-1).reshape(-1, 2).astype(np.float32)
    number = np.arange(i.size).reshape(i.shape)
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    halves = np.stack([np.stack([a, b, c], axis=-1), np.stack([a, c, d], axis=-1)], axis=2)
    return points, halves.reshape(-1, 3).astype(np.int32)


def area(points, triangle):
    """Return twice the area, exact."""
    a, b, c = ([Fraction(float(x)) for x in points[v]] for v in triangle)
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def excess(points, triangle, apex):
    """Return the in-circle determinant, exact, as a part of the sizes of its terms."""
    d = [Fraction(float(x)) for x in points[apex]]
    rows = [[Fraction(float(x)) - y for x, y in zip(points[v], d, strict=True)] for v in triangle]
    total = size = Fraction(0)
    for k in range(3):
        (x, y), b, c = rows[k], rows[(k + 1) % 3], rows[(k + 2) % 3]
        total += (x * x + y * y) * (b[0] * c[1] - c[0] * b[1])
        size += (x * x + y * y) * (abs(b[0] * c[1]) + abs(c[0] * b[1]))
    return total / size


def wrong_edges(points, triangles, limit=2e-15):
    """Return the inner edges that are not Delaunay; an edge has at most two triangles, once in each direction."""
    apexes = {}
    for triangle in triangles:
        for j in range(3):
            edge = (int(triangle[(j + 1) % 3]), int(triangle[(j + 2) % 3]))
            assert edge not in apexes
            apexes[edge] = int(triangle[j])
    inner = [(a, b) for a, b in apexes if a < b and (b, a) in apexes]
    return [(a, b) for a, b in inner if excess(points, (apexes[a, b], a, b), apexes[b, a]) > limit]


def boundary(triangles):
    edges = {(int(t[j]), int(t[j - 2])) for t in triangles for j in range(3)}
    return {e for e in edges if e[::-1] not in edges}


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (6, 5), (17, 20)], ids=str)
@pytest.mark.parametrize(("jitter", "shear"), [(0.3, 0.0), (0.0, 0.1), (0.0, 0.0), (0.2, 0.3)])
def test_sheets(size, jitter, shear):
    points, triangles = sheet(*size, jitter, shear)
    before = wrong_edges(points, triangles)
    count, after = flip(points, triangles)
    assert (count > 0) == bool(before)
    assert wrong_edges(points, after) == []
    assert min(area(points, t) for t in after) > 0
    assert sum(area(points, t) for t in after) == sum(area(points, t) for t in triangles)
    assert boundary(after) == boundary(triangles)
    assert flip(points, after)[0] == 0


def test_a_fan_becomes_the_triangulation_of_scipy():
    angles = np.sort(RNG.uniform(0, 2 * np.pi, 61))
    points = np.stack([2 * np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    count, after = flip(points, [[0, k, k + 1] for k in range(1, 60)])
    assert count > 0
    expected = Delaunay(points.astype(np.float64)).simplices
    assert {frozenset(t) for t in after.tolist()} == {frozenset(t) for t in expected.tolist()}


def test_few_passes_and_points_on_circles():
    """Rows do not wait for each other; where four points lie on a circle up to rounding, passes end."""
    points, triangles = sheet(60, 60, shear=0.1)
    count, after = flip(points, triangles, max_passes=5)
    assert count >= 3600
    assert wrong_edges(points, after) == []
    angles = np.linspace(0, 2 * np.pi, 101)[:-1]
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) + np.float32(1e3)
    _, after = flip(points, [[0, k, k + 1] for k in range(1, 99)], max_passes=10_000)
    again = flip(points, after, max_passes=1)
    assert again[0] == 0


def test_limits():
    points = np.array([[-3, 0], [3, 0], [0, 1], [0, -1]], np.float32)
    pair = [[0, 1, 2], [1, 0, 3]]
    flat = wp.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0]], dtype=wp.vec2)
    kept = [{"area_epsilon": 3.0}, {"ref_positions": flat}]
    kept += [{"ref_positions": wp.array(points, dtype=wp.vec2), "ref_area_epsilon": 3.0}]
    for options in kept:
        count, after = flip(points, pair, **options)
        assert (count, after.tolist()) == (0, pair)
    for options in ({}, {"area_epsilon": 2.9}, {"ref_positions": wp.array(-points, dtype=wp.vec2)}):
        assert flip(points, pair, **options)[0] == 1
    points, triangles = sheet(9, 9, shear=0.9)
    first = flip(points, triangles, max_passes=1)[0]
    assert 0 < first < flip(points, triangles)[0]


def test_what_is_no_triangulation():
    """No flip is made there, and nothing is read or written out of bounds."""
    points = np.array([[-3, 0], [3, 0], [0, 1], [0, -1], [np.nan, 0]], np.float32)
    for triangles in (
        [],
        [[0, 1, 2]],
        [[1, 0, 2], [0, 1, 3]],  # clockwise
        [[0, 1, 2], [0, 1, 2]],
        [[0, 1, 2], [2, 1, 0]],
        [[0, 0, 1], [1, 0, 0]],
        [[0, 1, 4], [1, 0, 3]],
    ):
        count, after = flip(points, triangles)
        assert (count, after.tolist()) == (0, triangles)
    noise = RNG.normal(size=(9, 2)).astype(np.float32)
    _, after = flip(noise, RNG.integers(0, 9, (301, 3)))
    assert after.min() >= 0
    assert after.max() < 9


def test_a_captured_graph():
    points, triangles = sheet(8, 7, jitter=0.3)
    count, expected = flip(points, triangles)
    positions, indices = wp.array(points, dtype=wp.vec2), wp.array(triangles, dtype=int)
    with wp.ScopedCapture() as capture:
        total = wp.geometry.delaunay_edge_flip(positions, indices)
    assert np.array_equal(indices.numpy(), triangles)
    for right in (count, 0):
        wp.capture_launch(capture.graph)
        assert total.list() == [right]
        assert np.array_equal(indices.numpy(), expected)
    beyond = np.where(triangles == 30, 10**9, triangles)
    indices.assign(beyond)
    wp.capture_launch(capture.graph)
    assert (np.sort(indices.numpy().ravel()) == 10**9).sum() == (beyond == 10**9).sum()


def test_errors():
    points, pair = wp.zeros(4, dtype=wp.vec2), wp.array([[0, 1, 2], [1, 0, 3]], dtype=int)
    for arguments, options, error, message in (
        ((points, pair.flatten()), {}, ValueError, r"`indices` has the shape \(triangles, 3\), got \(6,\)"),
        ((points.numpy(), pair), {}, TypeError, "`positions` is an array of wp.vec2, got array"),
        ((wp.zeros(4, dtype=wp.vec3), pair), {}, TypeError, "`positions` is an array of wp.vec2, got vec3"),
        ((wp.zeros((2, 2), dtype=wp.vec2), pair), {}, ValueError, "`positions` has one dimension"),
        ((points[:3], pair), {}, ValueError, "`indices` of vertices are from 0 to 2, got 3"),
        ((points, pair, points[:3]), {}, ValueError, "`ref_positions` has as many points as `positions`, 4, got 3"),
        ((points, pair), {"max_passes": 0}, ValueError, "`max_passes` is from 1 to"),
        ((points, pair), {"max_passes": 1.5}, TypeError, "`max_passes` is an integer"),
        ((points, pair), {"area_epsilon": -1.0}, ValueError, "`area_epsilon` is finite and not negative, got -1.0"),
        ((points, pair), {"area_epsilon": np.inf}, ValueError, "`area_epsilon` is finite"),
        ((points, pair), {"ref_area_epsilon": np.nan}, ValueError, "`ref_area_epsilon` is finite"),
        ((points, pair), {"ref_area_epsilon": "x"}, TypeError, "`ref_area_epsilon` is a number, got 'x'"),
    ):
        with pytest.raises(error, match=rf"^delaunay_edge_flip\(\): {message}"):
            wp.geometry.delaunay_edge_flip(*arguments, **options)
    assert pair.numpy().tolist() == [[0, 1, 2], [1, 0, 3]]
