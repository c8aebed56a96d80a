"""Neighbors of triangles, against a search through all pairs of half edges."""

import numpy as np
import pytest

import warp_like as wp
import warp_like.geometry
from warp_like.geometry import adjacency

RNG = np.random.default_rng(31)


def expected(triangles):
    """Pair each half edge with the next free one that joins the same vertices; slow."""
    sides = [{int(t[(j + 1) % 3]), int(t[(j + 2) % 3])} for t in triangles for j in range(3)]
    twins = np.full(len(sides), -1)
    for h, side in enumerate(sides):
        if twins[h] < 0:
            twins[h] = next((k for k in range(h + 1, len(sides)) if twins[k] < 0 and sides[k] == side), -1)
            if twins[h] >= 0:
                twins[twins[h]] = h
    twins = twins.reshape(-1, 3)
    return np.where(twins < 0, -1, twins // 3), np.where(twins < 0, -1, twins % 3)


def torus(nx, ny):
    """All edges have two triangles."""
    i, j = (a.ravel() for a in np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij"))
    a, b, c, d = (x % nx * ny + y % ny for x, y in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)))
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


FAN = np.stack([np.zeros(37, int), np.arange(1, 38), np.arange(2, 39)], axis=1)
MESHES = {
    "nothing": np.zeros((0, 3), int),
    "one": [[2, 0, 1]],
    "one point": [[3, 3, 3]],
    "a vertex twice": [[0, 0, 1], [1, 0, 2], [2, 2, 2], [2, 1, 1]],
    "two, in opposite directions": [[0, 1, 2], [0, 3, 1]],
    "two, in the same direction": [[0, 1, 2], [0, 1, 3]],
    "duplicates": [[0, 1, 2], [0, 1, 2], [2, 1, 0], [1, 2, 3], [0, 1, 2]],
    "a book of five pages": [[0, 1, k] for k in range(2, 7)],
    "fan": FAN[RNG.permutation(len(FAN))],
    "torus": RNG.permutation(torus(5, 7)),
    "any": RNG.integers(0, 6, (61, 3)),
    "far apart": [[0, 2**31 - 1, 5], [2**31 - 1, 2**31 - 2, 5], [5, 0, 7]],
}


@pytest.mark.parametrize("triangles", MESHES.values(), ids=MESHES)
def test_neighbors(triangles):
    triangles = np.asarray(triangles, np.int32)
    wide = wp.array(np.repeat(triangles, 2, axis=1), dtype=int)
    for indices in (wp.array(triangles, dtype=int), wide[:, ::2]):
        neighbors, edges = wp.geometry.tri_tri_adjacency(indices)
        assert (neighbors.dtype, edges.dtype) == (wp.int32, wp.int32)
        for found, right in zip((neighbors, edges), expected(triangles), strict=True):
            assert found.shape == triangles.shape
            assert np.array_equal(found.numpy(), right)
        alone = wp.geometry.tri_tri_adjacency(indices, 2**31, return_neighbor_edge_indices=False)
        assert np.array_equal(alone.numpy(), neighbors.numpy())


def test_a_torus_is_closed_and_a_vertex_of_many_triangles_is_no_obstacle():
    neighbors, edges = (a.numpy() for a in wp.geometry.tri_tri_adjacency(wp.array(torus(64, 33), dtype=int)))
    t, j = np.indices(neighbors.shape)
    assert np.array_equal(neighbors[neighbors, edges], t)
    assert np.array_equal(edges[neighbors, edges], j)
    n = 300_000
    fan = np.stack([np.zeros(n, int), np.arange(1, n + 1), np.arange(2, n + 2)], axis=1)
    neighbors = wp.geometry.tri_tri_adjacency(wp.array(fan, dtype=int), return_neighbor_edge_indices=False).numpy()
    assert np.array_equal(neighbors[:, 0], np.full(n, -1))
    assert np.array_equal(neighbors[1:, 2], np.arange(n - 1))
    assert np.array_equal(neighbors[:-1, 1], np.arange(1, n))


@wp.kernel
def find(neighbors: wp.array2d[int], pairs: wp.array[wp.vec2i], out: wp.array[int]):
    i = wp.tid()
    out[i] = wp.geometry.find_triangle_neighbor_edge_index(neighbors, pairs[i][0], pairs[i][1])


def test_the_edge_of_a_neighbor():
    triangles = torus(4, 5)
    neighbors = wp.geometry.tri_tri_adjacency(wp.array(triangles, dtype=int), return_neighbor_edge_indices=False)
    pairs = np.indices((len(triangles), len(triangles))).reshape(2, -1).T
    out = wp.zeros(len(pairs), dtype=int)
    wp.launch(find, dim=len(pairs), inputs=[neighbors, wp.array(pairs, dtype=wp.vec2i)], outputs=[out])
    rows = neighbors.numpy()
    right = [next((j for j in range(3) if rows[t, j] == n), -1) for t, n in pairs]
    assert np.array_equal(out.numpy(), right)
    assert len(set(right)) == 4


def test_a_captured_graph():
    indices = wp.array(torus(4, 5), dtype=int)
    with wp.ScopedCapture() as capture:
        neighbors, edges = wp.geometry.tri_tri_adjacency(indices, vertex_count=20)
    for triangles in (torus(4, 5), RNG.permutation(torus(5, 4))):
        indices.assign(triangles)
        wp.capture_launch(capture.graph)
        for found, right in zip((neighbors, edges), expected(triangles), strict=True):
            assert np.array_equal(found.numpy(), right)
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match=r"^tri_tri_adjacency\(\) without `vertex_count` needs"):
        wp.geometry.tri_tri_adjacency(indices)


def test_errors(monkeypatch):
    indices = wp.array([[0, 1, 2], [0, 2, 3]], dtype=int)
    call = wp.geometry.tri_tri_adjacency
    for wrong, error, message in (
        (indices.numpy(), TypeError, "`indices` is an array of int32, got array"),
        (indices.flatten(), ValueError, r"`indices` has the shape \(triangles, 3\), got \(6,\)"),
        (wp.zeros((3, 2), dtype=int), ValueError, r"`indices` has the shape \(triangles, 3\), got \(3, 2\)"),
        (wp.zeros((2, 3), dtype=wp.int64), TypeError, "`indices` is an array of int32, got int64"),
        (wp.array([[0, -7, 2]], dtype=int), ValueError, "`indices` of vertices are from 0 on, got -7"),
    ):
        with pytest.raises(error, match=rf"^tri_tri_adjacency\(\): {message}"):
            call(wrong)
    for count, error, message in (
        (3, ValueError, "`indices` of vertices are from 0 to 2, got 3"),
        (0, ValueError, "`indices` of vertices are from none, as there are no vertices, got 3"),
        (-1, ValueError, "`vertex_count` is not negative, got -1"),
        (4.0, TypeError, "`vertex_count` is an integer or None, got 4.0"),
    ):
        with pytest.raises(error, match=rf"^tri_tri_adjacency\(\): {message}$"):
            call(indices, count)
    monkeypatch.setattr(adjacency, "MOST_TRIANGLES", 1)
    with pytest.raises(ValueError, match="`indices` has at most 1 triangles, got 2"):
        call(indices)
