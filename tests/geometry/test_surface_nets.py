"""Surface nets: closed surfaces, their measures, vertices by their definition, and gradients."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

import warp_like as wp
import warp_like.geometry
from tests.geometry.surfaces import add_squares, area, grid, open_edges, surrounded, volume
from tests.long_tail import crossed, name
from warp_like.geometry import cube_cases

Nets = wp.geometry.IsoSurfaceNets
RNG = np.random.default_rng(21)


def extract(field, threshold=0.0, **options):
    """Return vertices and quads."""
    field = wp.array(np.asarray(field, np.float32), dtype=float)
    verts, indices = Nets.extract(field, threshold, topology="quad", **options)
    assert (verts.dtype, indices.dtype) == (wp.vec3, wp.int32)
    return verts.numpy().astype(np.float64), indices.numpy().reshape(-1, 4)


def halves(quads):
    """Return the triangles of quads."""
    return quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def quad_edges(verts, quads):
    """Return how many quads each edge has; no two run along it in the same direction."""
    a, b = quads.ravel().astype(np.int64), np.roll(quads, -1, axis=1).ravel()
    assert (a != b).all()
    assert len(np.unique(a * len(verts) + b)) == len(a)
    return np.unique(np.minimum(a, b) * len(verts) + np.maximum(a, b), return_counts=True)[1]


def sheets(field, threshold):
    """Return the vertices by their definition, in float64: means of crossings, joined by sides of faces.

    Two crossed edges belong together if a side of a polygon leads from one to the other. Where four edges of a face are
    crossed, sides separate the outside corners, unless that would join all four on both sides of the face.
    """
    field = np.asarray(field, np.float64)
    outside, last = ~(field < threshold), np.array(field.shape) - 1
    cases = {
        cube: sum(int(outside[tuple(np.add(cube, c))]) << n for n, c in enumerate(cube_cases.CORNERS))
        for cube in np.ndindex(*last)
    }
    pinched = {
        (cube, face)
        for cube, case in cases.items()
        for face, corners in enumerate(cube_cases.FACES)
        if len({case >> c & 1 for c in corners[::2]}) == len({case >> c & 1 for c in corners[1::2]}) == 1
        and (case >> corners[0] & 1) != (case >> corners[1] & 1)
        and any({e for e, ends in enumerate(cube_cases.EDGES) if {*ends} <= {*corners}} <= {*p}
                for p in cube_cases.polygons(case))
    }  # fmt: skip
    found = []
    for cube, case in cases.items():
        for face in range(6):
            step = [0, 0, 0]
            step[2 - face // 2] = 1 if face % 2 else -1
            if (cube, face) in pinched and (tuple(int(c) for c in np.add(cube, step)), face ^ 1) in pinched:
                case = 255 - case
                break
        for polygon in cube_cases.polygons(case):
            places, kept = [], False
            for edge in polygon:
                a, b = (np.add(cube, cube_cases.CORNERS[c]) for c in cube_cases.EDGES[edge])
                va, vb = field[tuple(a)], field[tuple(b)]
                places.append(a + (threshold - va) / (vb - va) * (b - a))
                kept |= all(0 < a[k] < last[k] for k in range(3) if a[k] == b[k])
            if kept:
                found.append(np.mean(places, axis=0))
    return np.array(found).reshape(-1, 3)


def test_the_cases():
    """36 cases have one polygon with two sides in a face, and then it is one face; so the rule is enough."""
    twice = [[cube_cases.twice_crossed_face(p) for p in cube_cases.polygons(case)] for case in range(256)]
    assert sum(any(f is not None for f in faces) for faces in twice) == 36
    assert max(sum(f is not None for f in faces) for faces in twice) == 1
    assert max(map(len, twice)) == 4
    for case, faces in enumerate(twice):
        if any(f is not None for f in faces):  # in the opposite case, no face has both sides of one polygon
            assert all(f is None for f in twice[255 - case])


@pytest.mark.parametrize(
    ("signs_alone", "shape"),
    crossed([False, True], [(2, 2, 2), (3, 3, 2), (3, 4, 33), (6, 7, 64), (4, 3, 65), (12, 11, 14)], every=3),
    ids=name,
)
def test_noise(shape, signs_alone):
    """All cases beside each other: closed inside, at most two faces at an edge, each vertex used."""
    field = RNG.uniform(-1, 1, shape).astype(np.float32)
    field = np.sign(field) if signs_alone else field
    verts, quads = extract(field, 0.125)
    expected = sheets(field, 0.125)
    assert len(verts) == len(expected)
    if len(verts):
        distance, match = cKDTree(expected).query(verts)
        assert distance.max() < 2e-5
        assert signs_alone or len(np.unique(match)) == len(verts)
    assert quad_edges(verts, quads).max(initial=0) <= 2
    assert np.array_equal(np.unique(quads), np.arange(len(verts)))
    for around in (1.0, -1.0):
        closed = extract(surrounded(field, around), 0.125)
        assert (quad_edges(*closed) == 2).all()


def test_diagonal_cubes_stay_apart():
    """Two inside nodes at opposite corners of a cube are two surfaces, and the cube between them has two vertices."""
    field = np.ones((4, 4, 4))
    field[1, 1, 1] = field[2, 2, 2] = -1
    verts, quads = extract(field)
    assert (len(verts), len(quads)) == (16, 12)
    assert len(verts) - len(quad_edges(verts, quads)) + len(quads) == 4  # two spheres


def test_a_sphere_and_a_torus():
    x, y, z = grid(48, 41, 67)
    verts, quads = extract(np.sqrt(x**2 + y**2 + z**2), 0.7, lower=(-1, -1, -1), upper=wp.vec3(1.0, 1.0, 1.0))
    triangles = halves(quads)
    assert not len(open_edges(verts, triangles))
    assert len(verts) - len(quads) == 2
    assert np.allclose(np.linalg.norm(verts, axis=1), 0.7, atol=2e-3)
    assert volume(verts, triangles) == pytest.approx(4 / 3 * np.pi * 0.7**3, rel=1e-2)  # outwards, so it is positive
    assert area(verts, triangles) == pytest.approx(4 * np.pi * 0.7**2, rel=1e-2)
    x, y, z = grid(64, 64, 35)
    field = np.hypot(np.hypot(x, y) - 0.6, 0.5 * z) - 0.2
    verts, quads = extract(field, lower=(-1.0, -1.0, -0.5), upper=(1.0, 1.0, 0.5))
    assert len(verts) - len(quads) == 0
    assert volume(verts, halves(quads)) == pytest.approx(2 * np.pi**2 * 0.6 * 0.2**2, rel=0.03)


def test_triangles_are_the_halves_of_the_quads():
    field = wp.array(RNG.uniform(-1, 1, (7, 8, 40)), dtype=float)
    verts, indices = Nets.extract(field)
    quad_verts, quads = Nets.extract(field, topology="quad")
    assert np.array_equal(verts.numpy(), quad_verts.numpy())
    assert np.array_equal(indices.numpy().reshape(-1, 3), halves(quads.numpy().reshape(-1, 4)))


def test_nothing_values_that_are_not_finite_and_views():
    for field in (np.ones((3, 4, 5)), -np.ones((3, 4, 5)), np.full((3, 4, 5), np.nan)):
        verts, quads = extract(field)
        assert (verts.shape, quads.shape) == ((0, 3), (0, 4))
    for odd in (np.nan, np.inf, -np.inf):
        field = RNG.uniform(-1, 1, (6, 7, 40))
        field[RNG.uniform(size=field.shape) < 0.2] = odd
        verts, quads = extract(surrounded(field))
        assert (quad_edges(verts, quads) == 2).all()
        assert np.isfinite(verts).all()
    whole = RNG.uniform(-1, 1, (9, 80, 12)).astype(np.float32)
    key = (slice(None, None, 2), slice(3, 70), slice(1, 11, 3))
    verts, _ = Nets.extract(wp.array(whole, dtype=float)[key], topology="quad")
    assert np.array_equal(verts.numpy(), extract(whole[key])[0])


def test_gradients():
    """Of the sum of the squared vertices, with respect to every node; against finite differences in float64."""
    values = RNG.uniform(0.2, 1, (4, 4, 5)) * RNG.choice([-1, 1], (4, 4, 5))
    field = wp.array(values.astype(np.float32), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        verts, _ = Nets.extract(field, 0.1)
        wp.launch(add_squares, dim=verts.size, inputs=[verts], outputs=[loss])
    tape.backward(loss)
    expected = np.zeros_like(values)
    for node in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[node] = 1e-5
        above, below = (np.sum(sheets(values + s, 0.1) ** 2) for s in (step, -step))
        expected[node] = (above - below) / 2e-5
    assert np.allclose(field.grad.numpy(), expected, rtol=1e-3, atol=2e-3)
    assert not Nets.extract(wp.array(values, dtype=float))[0].requires_grad


def test_an_object_is_used_again():
    x, y, z = grid(12, 13, 14)
    field = wp.array(np.sqrt(x**2 + y**2 + z**2) - 0.5, dtype=float)
    nets = Nets(12, 13, 14, lower=(-1, -1, -1), upper=(1, 1, 1), topology="quad")
    assert (nets.verts, nets.indices) == (None, None)
    nets.surface(field, 0.0)
    verts, quads = Nets.extract(field, lower=(-1, -1, -1), upper=(1, 1, 1), topology="quad")
    assert np.array_equal(nets.verts.numpy(), verts.numpy())
    assert np.array_equal(nets.indices.numpy(), quads.numpy())
    nets.topology, nets.lower, nets.upper = "triangle", None, (22, 12, 13)
    nets.surface(field, threshold=0.0)
    assert np.allclose(nets.verts.numpy(), (verts.numpy() + 1) * [11, 6, 6.5], atol=1e-5)
    assert 2 * nets.indices.size == 3 * quads.size
    assert issubclass(Nets, wp.geometry.IsoSurfaceBase)


def test_bad_input():
    field = wp.zeros((3, 4, 5), dtype=float)
    with pytest.raises(ValueError, match="`field` has at least 2 nodes on each axis"):
        Nets(1, 8, 8).surface(wp.zeros((1, 8, 8), dtype=float), 0.0)
    with pytest.raises(TypeError, match="`field` is an array of float32, got float64"):
        Nets.extract(wp.zeros((3, 4, 5), dtype=wp.float64))
    with pytest.raises(ValueError, match=r"`field` has the shape of the grid, \(3, 4, 6\), got \(3, 4, 5\)"):
        Nets(3, 4, 6).surface(field, 0.0)
    with pytest.raises(ValueError, match="`threshold` is a number, got NaN"):
        Nets.extract(field, float("nan"))
    for make in (lambda: Nets(3, 4, 5, topology="quads"), lambda: Nets.extract(field, topology="quads")):
        with pytest.raises(ValueError, match="`topology` is 'triangle' or 'quad', got 'quads'"):
            make()
    with pytest.raises(ValueError, match=r"`topology` is 'triangle' or 'quad', got \['quad'\]"):
        Nets.extract(field, topology=["quad"])
    with pytest.raises(RuntimeError, match="needs results at once"), wp.ScopedCapture():
        Nets.extract(field)
