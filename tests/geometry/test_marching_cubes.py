"""Marching cubes: closed surfaces, their measures and gradients, and the cases of one cube."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

import warp_like as wp
import warp_like.geometry
from tests.geometry.surfaces import add_squares, area, euler_characteristic, grid, open_edges, surrounded, volume
from tests.long_tail import crossed
from warp_like.geometry import cube_cases

Cubes = wp.geometry.IsoSurfaceMarchingCubes
RNG = np.random.default_rng(20)


def extract(field, threshold=0.0, **bounds):
    verts, indices = Cubes.extract(wp.array(np.asarray(field, np.float32), dtype=float), threshold, **bounds)
    assert (verts.dtype, indices.dtype) == (wp.vec3, wp.int32)
    return verts.numpy().astype(np.float64), indices.numpy().reshape(-1, 3)


def crossings(field, threshold):
    """Return the vertices by their definition, in float64: every edge whose nodes lie on different sides has one."""
    field, found = np.asarray(field, np.float64), []
    for axis in range(3):
        a, b = (np.moveaxis(field, axis, 0)[s] for s in (slice(-1), slice(1, None)))
        a, b = np.moveaxis(a, 0, axis), np.moveaxis(b, 0, axis)
        places = np.argwhere((a < threshold) != (b < threshold)).astype(np.float64)
        low, high = (side[(a < threshold) != (b < threshold)] for side in (a, b))
        places[:, axis] += (threshold - low) / (high - low)
        found.append(places)
    return np.concatenate(found)


def are_the_same_points(a, b):
    near = [cKDTree(p).query(q)[0].max(initial=0) for p, q in ((a, b), (b, a))] if len(a) else [0]
    return len(a) == len(b) and max(near) < 2e-5


@pytest.mark.parametrize(
    "shape",
    crossed([(2, 2, 2), (2, 3, 32), (3, 2, 33), (5, 7, 64), (4, 3, 65), (40, 2, 31), (17, 18, 100)], every=2),
    ids=str,
)
def test_noise(shape):
    """All cases beside each other: the surface is closed inside, and open where it leaves the grid."""
    field = RNG.uniform(-1, 1, shape).astype(np.float32)
    verts, triangles = extract(field, 0.125)
    assert are_the_same_points(verts, crossings(field, 0.125))
    last = np.array(shape) - 1
    for edge in open_edges(verts, triangles):
        ends = verts[edge]
        assert ((ends == 0).all(axis=0) | (ends == last).all(axis=0)).any()  # in one side of the grid
    assert not len(open_edges(*extract(surrounded(field), 0.125)))
    assert not len(open_edges(*extract(surrounded(field, -1.0), 0.125)))


@pytest.mark.parametrize("around", [1.0, -1.0])
def test_every_case(around):
    """256 cubes, one for each case, in a slab; each alone in nodes of one side."""
    corners = np.array(cube_cases.CORNERS)
    field = np.full((64, 64, 4), around, np.float32)
    for case in range(256):
        place = np.add(corners, (4 * (case // 16) + 1, 4 * (case % 16) + 1, 1))
        field[tuple(place.T)] = [1.0 if case >> i & 1 else -1.0 for i in range(8)]
    verts, triangles = extract(field)
    assert not len(open_edges(verts, triangles))
    block = (verts // 4).astype(int) @ [16, 1, 0]
    for case in range(256):
        mine = triangles[(block[triangles] == case).all(axis=1)]
        nothing = case == (255 if around > 0 else 0)
        assert nothing == (len(mine) == 0)
        assert nothing or volume(verts - verts[mine[0, 0]], mine) * around > 0


def test_the_rule_of_faces():
    """Two outside corners of a face that only touch inside ones there are separated; no diagonal lies in a face."""
    opposite = 1 << 0 | 1 << 2  # two corners of the face z = 0
    assert sorted(map(len, cube_cases.polygons(opposite))) == [3, 3]
    assert sorted(map(len, cube_cases.polygons(255 - opposite))) == [6]
    for case in range(256):
        sides = {(p[i - 1], p[i]) for p in cube_cases.polygons(case) for i in range(len(p))}
        for t in cube_cases.triangles(case):
            for a, b in zip(t, (*t[1:], t[0]), strict=True):
                assert (a, b) in sides or not cube_cases.in_one_face(a, b)


def test_a_sphere():
    x, y, z = grid(48, 41, 67)
    verts, triangles = extract(np.sqrt(x**2 + y**2 + z**2), 0.7, lower=(-1, -1, -1), upper=wp.vec3(1.0, 1.0, 1.0))
    assert not len(open_edges(verts, triangles))
    assert euler_characteristic(verts, triangles) == 2
    assert np.allclose(np.linalg.norm(verts, axis=1), 0.7, atol=1e-3)
    assert volume(verts, triangles) == pytest.approx(4 / 3 * np.pi * 0.7**3, rel=4e-3)  # outwards, so it is positive
    assert area(verts, triangles) == pytest.approx(4 * np.pi * 0.7**2, rel=4e-3)


def test_a_torus():
    x, y, z = grid(64, 64, 35)
    field = np.hypot(np.hypot(x, y) - 0.6, 0.5 * z) - 0.2
    verts, triangles = extract(field, lower=(-1.0, -1.0, -0.5), upper=(1.0, 1.0, 0.5))
    assert not len(open_edges(verts, triangles))
    assert euler_characteristic(verts, triangles) == 0
    assert volume(verts, triangles) == pytest.approx(2 * np.pi**2 * 0.6 * 0.2**2, rel=0.02)
    assert area(verts, triangles) == pytest.approx(4 * np.pi**2 * 0.6 * 0.2, rel=0.02)


def test_nothing_and_values_that_are_not_finite():
    for field in (np.ones((3, 4, 5)), -np.ones((3, 4, 5)), np.full((3, 4, 5), np.nan)):
        verts, triangles = extract(field)
        assert (verts.shape, triangles.shape) == ((0, 3), (0, 3))
    verts, triangles = extract(np.ones((40, 2, 40)), 1000.0)
    assert not len(verts)
    for odd in (np.nan, np.inf, -np.inf):
        field = RNG.uniform(-1, 1, (6, 7, 40))
        field[RNG.uniform(size=field.shape) < 0.2] = odd
        verts, triangles = extract(surrounded(field))
        assert not len(open_edges(verts, triangles))
        assert np.isfinite(verts).all()
    verts, _ = extract([[[-np.inf, 1.0], [-np.inf, 1.0]], [[-np.inf, np.inf], [-1.0, np.nan]]])
    assert sorted(map(tuple, verts)) == [(0, 0, 1), (0, 1, 1), (1, 0, 0.5), (1, 1, 0)]


def test_values_at_the_threshold_lie_outside():
    field = RNG.integers(-1, 2, (9, 8, 33)).astype(np.float32)
    verts, triangles = extract(surrounded(field))
    assert not len(open_edges(verts, triangles))
    assert are_the_same_points(verts, crossings(surrounded(field), 0))


def test_views():
    whole = np.ascontiguousarray(RNG.uniform(-1, 1, (9, 80, 12)), np.float32)
    for key in ((slice(None, None, 2), slice(None), slice(1, 11, 3)), (slice(1, 8), slice(3, 70), slice(None))):
        verts, indices = Cubes.extract(wp.array(whole, dtype=float)[key], 0.0)
        expected_verts, expected = extract(whole[key])
        assert np.array_equal(verts.numpy(), expected_verts)
        assert np.array_equal(indices.numpy().reshape(-1, 3), expected)


def test_gradients():
    """Of the sum of the squared vertices, with respect to every node; against finite differences in float64."""
    values = RNG.uniform(0.2, 1, (3, 4, 35)) * RNG.choice([-1, 1], (3, 4, 35))
    field = wp.array(values.astype(np.float32), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        verts, _ = Cubes.extract(field, 0.1)
        wp.launch(add_squares, dim=verts.size, inputs=[verts], outputs=[loss])
    tape.backward(loss)
    expected = np.zeros_like(values)
    for node in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[node] = 1e-5
        above, below = (np.sum(crossings(values + s, 0.1) ** 2) for s in (step, -step))
        expected[node] = (above - below) / 2e-5
    assert np.allclose(field.grad.numpy(), expected, rtol=1e-3, atol=2e-3)
    assert not Cubes.extract(wp.array(values, dtype=float))[0].requires_grad


def test_an_object_is_used_again():
    x, y, z = grid(12, 13, 14)
    field = wp.array(np.sqrt(x**2 + y**2 + z**2) - 0.5, dtype=float)
    cubes = Cubes(12, 13, 14, (-1, -1, -1), (1, 1, 1))
    assert cubes.verts is None
    assert cubes.indices is None
    cubes.surface(field, 0.0)
    verts, indices = Cubes.extract_surface_marching_cubes(field, 0.0, (-1, -1, -1), (1, 1, 1))
    assert np.array_equal(cubes.verts.numpy(), verts.numpy())
    assert np.array_equal(cubes.indices.numpy(), indices.numpy())
    cubes.domain_bounds_lower_corner, cubes.domain_bounds_upper_corner = None, (22, 12, 13)
    cubes.surface(field, threshold=0.0)
    again = (verts.numpy() + 1) * [11, 6, 6.5]
    assert np.allclose(cubes.verts.numpy(), again, atol=1e-5)
    assert (cubes.lower, cubes.domain_bounds_upper_corner) == (None, cubes.upper)
    cubes.resize(nx=2, ny=2, nz=2)
    cubes.surface(wp.zeros((2, 2, 2), dtype=float), 0.0)
    assert cubes.verts.size == cubes.indices.size == 0


def test_names():
    assert wp.MarchingCubes is Cubes
    assert issubclass(Cubes, wp.geometry.IsoSurfaceBase)
    with pytest.raises(TypeError, match="abstract"):
        wp.geometry.IsoSurfaceBase(8, 8, 8)
    assert Cubes(8, 8, 8, domain_bounds_lower_corner=(1, 2, 3)).lower == (1, 2, 3)
    assert (len(Cubes.CUBE_CORNER_OFFSETS), len(Cubes.EDGE_TO_CORNERS)) == (8, 12)
    assert (len(Cubes.CASE_TO_TRI_RANGE), len(Cubes.TRI_LOCAL_INDICES)) == (257, 2460)
    assert Cubes.CASE_TO_TRI_RANGE[1] == 0
    assert Cubes.CASE_TO_TRI_RANGE[255] == Cubes.CASE_TO_TRI_RANGE[256] == 2460


def test_bad_input():
    field = wp.zeros((3, 4, 5), dtype=float)
    for shape in ((1, 8, 8), (8, 1, 8), (8, 8, 1), (0, 8, 8)):
        with pytest.raises(ValueError, match="`field` has at least 2 nodes on each axis"):
            Cubes(*shape).surface(wp.zeros(shape, dtype=float), 0.0)
    for bad, error, message in (
        (wp.zeros((3, 4), dtype=float), ValueError, "`field` is a 3D array, got shape"),
        (wp.zeros((3, 4, 5), dtype=wp.float64), TypeError, "`field` is an array of float32, got float64"),
        (np.zeros((3, 4, 5), np.float32), TypeError, "`field` is an array of float32"),
    ):
        with pytest.raises(error, match=message):
            Cubes.extract(bad, 0.0)
    with pytest.raises(ValueError, match=r"`field` has the shape of the grid, \(3, 4, 6\), got \(3, 4, 5\)"):
        Cubes(3, 4, 6).surface(field, 0.0)
    with pytest.raises(TypeError, match="`threshold` is a number, got 'x'"):
        Cubes.extract(field, "x")
    with pytest.raises(ValueError, match="`threshold` is a number, got NaN"):
        Cubes.extract(field, float("nan"))
    with pytest.raises(TypeError, match="`upper` is three numbers or None"):
        Cubes.extract(field, upper=(1.0, 2.0))
    with pytest.raises(ValueError, match="`lower` is finite"):
        Cubes.extract(field, lower=(1.0, 2.0, float("inf")))
    with pytest.raises(TypeError, match="`ny` is a number of nodes, got 2.5"):
        Cubes(2, 2.5, 2)
    with pytest.raises(TypeError, match="Cannot specify both `upper` and `domain_bounds_upper_corner`"):
        Cubes(2, 2, 2, upper=(1, 1, 1), domain_bounds_upper_corner=(1, 1, 1))
    with pytest.raises(RuntimeError, match="needs results at once"), wp.ScopedCapture():
        Cubes.extract(field)
