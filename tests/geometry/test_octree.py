"""Octrees around surfaces: no cell is missed; marching cubes on them gives the surface of the dense grid."""

import itertools

import numpy as np
import pytest
from scipy.spatial import cKDTree

import warp_like as wp
import warp_like.geometry
from tests.geometry.surfaces import add_squares, euler_characteristic, open_edges, volume
from warp_like.geometry import cube_cases

RNG = np.random.default_rng(22)
CORNERS = np.array(cube_cases.CORNERS)


def two_balls(p):
    """Return the distance from two balls in float64; it is not smooth between them."""
    p = np.asarray(p, np.float64)
    centers, radii = np.array([[0.3, 0.1, 0.2], [-0.4, -0.4, -0.3]]), [0.5, 0.3]
    return np.min(np.linalg.norm(p[..., None, :] - centers, axis=-1) - radii, axis=-1)


@wp.func
def ball(x: wp.vec3, radius: float) -> float:
    return wp.length(x - wp.vec3(0.05, 0.1, 0.0)) - radius


@wp.kernel
def measure_ball(points: wp.array[wp.vec3], radius: wp.array[float], values: wp.array[float]):
    i = wp.tid()
    values[i] = ball(points[i], radius[0])


def field_of(function, asked=None):
    """Return a field for a function of NumPy arrays."""

    def field(points):
        if asked is not None:
            asked.append(points.numpy())
        return wp.array(function(points.numpy()).astype(np.float32), dtype=float)

    return field


def nodes(shape, lower, upper):
    axes = (np.linspace(a, b, n) for a, b, n in zip(lower, upper, shape, strict=True))
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def crossed_cells(values):
    inside = values < 0
    corners = [inside[tuple(slice(o, o + n - 1) for o, n in zip(c, values.shape, strict=True))] for c in CORNERS]
    count = np.sum(corners, axis=0)
    return {tuple(map(int, c)) for c in np.argwhere((count > 0) & (count < 8))}


@pytest.mark.parametrize("bound", [1.0, 2.5])
@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_the_octree(depth, bound):
    asked = []
    field = field_of(lambda p: bound * two_balls(p), asked)
    origin, width = (-1.0, -0.9, -1.1), 2.0
    cells, cell_width = wp.geometry.lipschitz_octree(field, origin, width, depth, lipschitz_bound=bound)
    assert (cells.dtype, cell_width) == (wp.vec3i, width / 2**depth)
    found = {tuple(c) for c in cells.numpy().tolist()}
    assert len(found) == cells.size
    n = 2**depth
    grid = nodes((n + 1,) * 3, origin, np.add(origin, width))
    assert crossed_cells(two_balls(grid)) <= found
    centers = np.array(origin) + (np.array(list(itertools.product(range(n), repeat=3))) + 0.5) * cell_width
    near = np.abs(two_balls(centers)) <= np.sqrt(3) / 2 * cell_width
    assert {tuple(map(int, c)) for c in np.argwhere(near.reshape(n, n, n))} == found
    if depth == 5:
        assert sum(map(len, asked)) < 32**3 / 2


@pytest.mark.parametrize(("start", "width", "depth", "radius"), [(-1.0, 2.0, 24, 1e-6), (-1000.0, 2000.0, 24, 1e-3)])
def test_cells_far_from_the_corner(start, width, depth, radius):
    """Centers near to the origin are rounded as their distances from the corner are."""
    center = np.array([0.3, -0.2, 0.1]) * radius
    field = field_of(lambda p: np.linalg.norm(p - center, axis=-1) - radius)
    cells, cell_width = wp.geometry.lipschitz_octree(field, (start,) * 3, width, depth)
    directions = np.random.default_rng(7).normal(size=(20_000, 3))
    points = center + radius * directions / np.linalg.norm(directions, axis=1)[:, None]
    met = np.floor((points - start) / cell_width).astype(int).tolist()
    assert {tuple(c) for c in met} <= {tuple(c) for c in cells.numpy().tolist()}


def as_set(verts, triangles):
    """Return the triangles by their vertices, as a sorted array."""
    corners = np.asarray(verts, np.float32)[triangles]
    first = np.array([np.lexsort(t.T[::-1])[0] for t in corners], int)
    turned = corners[np.arange(len(corners))[:, None], (first[:, None] + np.arange(3)) % 3]
    flat = turned.reshape(len(corners), 3 * corners.shape[-1])
    return flat[np.lexsort(flat.T[::-1])]


@pytest.mark.parametrize(
    ("shape", "threshold"), [((2, 2, 2), 1.2), ((17, 17, 17), 0.0), ((11, 15, 22), 0.0), ((9, 34, 13), 0.1)], ids=str
)
def test_as_on_the_dense_grid(shape, threshold):
    lower, upper = (-1.0, -1.2, -0.9), (1.0, 1.3, 1.1)
    asked = []
    verts, indices, stats = wp.geometry.sparse_marching_cubes(
        field_of(two_balls, asked), *shape, lower=lower, upper=upper, threshold=threshold, return_stats=True
    )
    begin, end = np.float32(lower), np.float32(upper)
    spacing = ((end.astype(float) - begin) / (np.array(shape) - 1)).astype(np.float32)
    grid = begin + np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).astype(np.float32) * spacing
    dense = wp.array(two_balls(grid).astype(np.float32), dtype=float)
    expected, triangles = wp.geometry.IsoSurfaceMarchingCubes.extract(dense, threshold, lower=lower, upper=upper)
    assert verts.size == expected.size
    distance, match = cKDTree(expected.numpy()).query(verts.numpy())
    assert distance.max(initial=0) < 1e-4  # points are rounded otherwise than in NumPy
    triangles = triangles.numpy().reshape(-1, 3)
    found = as_set(np.arange(expected.size)[:, None], match[indices.numpy().reshape(-1, 3)])
    assert np.array_equal(found, as_set(np.arange(expected.size)[:, None], triangles))
    points = np.concatenate(asked)
    assert (points >= np.float32(lower) - 1e-5).all()  # the field is not asked for points outside
    assert (points <= np.float32(upper) + 1e-5).all()
    assert stats["field_evaluations"] == len(points)
    assert stats["unique_corners"] == len(asked[-1]) == len(np.unique(asked[-1], axis=0))
    assert stats["culled_cells"] == 0
    assert stats["resolution"] >= max(shape) - 1
    assert stats["leaf_cells"] >= len(crossed_cells(two_balls(grid) - threshold))


def test_a_ball():
    radius = wp.array([0.75], dtype=float)

    def field(points):
        values = wp.empty(points.size, dtype=float)
        wp.launch(measure_ball, dim=points.size, inputs=[points, radius], outputs=[values])
        return values

    bounds = {"lower": (-1, -1, -1), "upper": (1, 1, 1)}
    verts, indices = wp.geometry.sparse_marching_cubes(field, 65, 65, 65, **bounds)
    points, triangles = verts.numpy().astype(np.float64), indices.numpy().reshape(-1, 3)
    assert not len(open_edges(points, triangles))
    assert euler_characteristic(points, triangles) == 2
    assert volume(points, triangles) == pytest.approx(4 / 3 * np.pi * 0.75**3, rel=2e-3)
    again = wp.geometry.sparse_marching_cubes(field, 65, 65, 65, **bounds)
    assert np.array_equal(verts.numpy(), again[0].numpy())
    assert np.array_equal(indices.numpy(), again[1].numpy())


def test_nothing_infinity_and_nan():
    empty = wp.geometry.sparse_marching_cubes(field_of(two_balls), 9, 9, 9, threshold=-5.0, return_stats=True)
    assert (empty[0].shape, empty[1].shape) == ((0,), (0,))
    assert empty[2]["leaf_cells"] == empty[2]["unique_corners"] == 0
    bounds = {"lower": (-1, -1, -1), "upper": (1, 1, 1)}
    expected = wp.geometry.sparse_marching_cubes(field_of(two_balls), 17, 17, 17, **bounds)
    for far in (np.inf, np.nan):  # "nothing within 0.9" as a value; NaN says nothing, and the octree goes on
        clipped = field_of(lambda p, far=far: np.where(two_balls(p) > 0.9, far, two_balls(p)))
        verts, indices = wp.geometry.sparse_marching_cubes(clipped, 17, 17, 17, **bounds)
        assert np.array_equal(verts.numpy(), expected[0].numpy())
        assert np.array_equal(indices.numpy(), expected[1].numpy())
    cells, _ = wp.geometry.lipschitz_octree(field_of(two_balls), (-1, -1, -1), 2.0, 3, threshold=-9.0)
    assert cells.shape == (0,)


def cells_of_a_block(shape):
    """Return the cells and values of noise on a grid, in random order."""
    field = RNG.uniform(-1, 1, shape).astype(np.float32)
    cells = RNG.permutation(np.argwhere(np.ones(np.subtract(shape, 1))))
    return field, cells, field[tuple((cells[:, None] + CORNERS).transpose(2, 0, 1))]


def test_cells_that_are_given():
    field, cells, values = cells_of_a_block((6, 7, 9))
    expected, triangles = wp.geometry.IsoSurfaceMarchingCubes.extract(wp.array(field, dtype=float), 0.1)
    expected = as_set(expected.numpy(), triangles.numpy().reshape(-1, 3))
    shift = np.array([-(2**24) - 5, 3, 2**20])
    forms = (
        (cells, values, (0, 0, 0)),
        (cells.tolist(), values.ravel(), wp.vec3(0.0)),
        (wp.array(cells, dtype=wp.vec3i), wp.array(values, dtype=float), (0, 0, 0)),
        (wp.array(cells.astype(np.int32), dtype=int), wp.array(values.ravel(), dtype=float), (0, 0, 0)),
        (wp.array(np.repeat(cells, 2, axis=1).astype(np.int32), dtype=int)[:, ::2], values, (0, 0, 0)),
        (cells, wp.array(np.repeat(values, 2, axis=1), dtype=float)[:, ::2], (0, 0, 0)),
        (cells + shift, values, tuple(-shift.astype(float))),
    )
    for given, at, origin in forms:
        verts, indices = wp.geometry.sparse_marching_cubes_from_cells(given, at, origin, threshold=0.1)
        assert np.array_equal(as_set(verts.numpy(), indices.numpy().reshape(-1, 3)), expected)
    verts, indices = wp.geometry.sparse_marching_cubes_from_cells(cells[:1], values[:1], (1, 2, 3), 0.5)
    crossed = {edge for polygon in cube_cases.polygons(sum(int(v >= 0) << i for i, v in enumerate(values[0])))
               for edge in polygon}  # fmt: skip
    assert verts.size == len(crossed)
    low = np.array([1, 2, 3]) + 0.5 * cells[0]
    assert ((verts.numpy() >= low - 1e-6) & (verts.numpy() <= low + 0.5 + 1e-6)).all()
    for nothing in (([], []), (np.zeros((0, 3), np.int32), np.zeros((0, 8)))):
        verts, indices = wp.geometry.sparse_marching_cubes_from_cells(*nothing)
        assert verts.size == indices.size == 0


def test_gradients_of_given_values():
    """The sum over a shared corner's values is the gradient of the field's node."""
    field, cells, values = cells_of_a_block((4, 5, 6))
    grads = []
    for dense in (True, False):
        given = wp.array(field if dense else values, dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            if dense:
                verts, _ = wp.geometry.IsoSurfaceMarchingCubes.extract(given)
            else:
                verts, _ = wp.geometry.sparse_marching_cubes_from_cells(cells, given)
            wp.launch(add_squares, dim=verts.size, inputs=[verts], outputs=[loss])
        tape.backward(loss)
        grads.append(given.grad.numpy())
    summed = np.zeros_like(field)
    np.add.at(summed, tuple((cells[:, None] + CORNERS).transpose(2, 0, 1)), grads[1])
    assert np.allclose(summed, grads[0], rtol=1e-4, atol=1e-3)


def test_gradients_through_the_field():
    """Of the squared vertices of a ball, with respect to its radius, against central differences."""

    def total(value, tape=None):
        radius = wp.array([value], dtype=float, requires_grad=True)

        def field(points):
            values = wp.empty(points.size, dtype=float, requires_grad=True)
            wp.launch(measure_ball, dim=points.size, inputs=[points, radius], outputs=[values])
            return values

        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with tape or wp.Tape():
            bounds = {"lower": (-1, -1, -1), "upper": (1, 1, 1)}
            verts, _ = wp.geometry.sparse_marching_cubes(field, 9, 10, 11, **bounds)
            wp.launch(add_squares, dim=verts.size, inputs=[verts], outputs=[loss])
        if tape:
            tape.backward(loss)
            return radius.grad.numpy()[0]
        return float(loss.numpy()[0])

    slope = total(0.6, wp.Tape())
    assert slope == pytest.approx((total(0.602) - total(0.598)) / 0.004, rel=1e-2)


def test_bad_input():
    field = field_of(two_balls)
    cubes, octree, given = (
        wp.geometry.sparse_marching_cubes,
        wp.geometry.lipschitz_octree,
        wp.geometry.sparse_marching_cubes_from_cells,
    )
    one = np.zeros((1, 3), np.int32)
    for call, error, message in (
        (lambda: cubes(field, 1, 9, 9), ValueError, "`nx` is from 2 to 1048577, got 1"),
        (lambda: cubes(field, 9, 9.5, 9), TypeError, "`ny` is an integer, got 9.5"),
        (lambda: cubes(ball, 9, 9, 9), TypeError, "`field` is a Python function that takes an array"),
        (lambda: cubes(42, 9, 9, 9), TypeError, "`field` is a Python function that takes an array"),
        (lambda: cubes(field, 9, 9, 9, lipschitz_bound=-1.0), ValueError, "`lipschitz_bound` is positive, got -1.0"),
        (lambda: cubes(field, 9, 9, 9, upper=(1, 2)), TypeError, "`upper` is three numbers or None"),
        (lambda: cubes(field, 9, 9, 9, threshold=float("nan")), ValueError, "`threshold` is a number, got NaN"),
        (lambda: cubes(lambda p: p.numpy(), 9, 9, 9), TypeError, "`field` returns an array of float32, got"),
        (lambda: cubes(lambda _p: wp.zeros(3, dtype=float), 9, 9, 9), ValueError, "a value for each of 1 points"),
        (lambda: octree(ball, (0, 0, 0), 1.0, 4), TypeError, r"lipschitz_octree\(\): `field` is a Python function"),
        (lambda: octree(field, (0, 0), 1.0, 4), TypeError, "`origin` is three numbers"),
        (lambda: octree(field, (0, 0, 0), 0.0, 4), ValueError, "`root_width` is positive, got 0.0"),
        (lambda: octree(field, (0, 0, 0), 1.0, 31), ValueError, "`max_depth` is from 0 to 30, got 31"),
        (lambda: given(one, np.zeros((2, 8))), ValueError, r"`corner_values` has the shape \(1, 8\), got \(2, 8\)"),
        (lambda: given([], np.zeros(3)), ValueError, r"`corner_values` has the shape \(0, 8\), got \(3,\)"),
        (lambda: given(one, np.zeros((1, 8)), cell_width=0), ValueError, "`cell_width` is positive, got 0"),
        (lambda: given(one + 0.5, np.zeros((1, 8))), TypeError, "`cells` are integers, got float64"),
        (lambda: given(one[:, :2], np.zeros((1, 8))), ValueError, r"`cells` has the shape \(n, 3\), got \(1, 2\)"),
        (lambda: given([[2**40, 0, 0]], np.zeros((1, 8))), ValueError, "`cells` are integers of 32 bits"),
        (lambda: given([[0, 0, 0], [0, 2**21, 0]], np.zeros((2, 8))), ValueError, "`cells` span at most 2097151 cells"),
        (lambda: given(wp.zeros(3, dtype=float), np.zeros((1, 8))), ValueError, "`cells` is an array of vec3i"),
        (lambda: given(one, wp.zeros((1, 8), dtype=wp.float64)), TypeError, "`corner_values` is an array of float32"),
    ):
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(RuntimeError, match="needs results at once"), wp.ScopedCapture():
        cubes(field, 9, 9, 9)
