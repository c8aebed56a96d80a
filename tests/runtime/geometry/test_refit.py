"""Refits of trees: every box of every node, against NumPy (``native/refit.cpp``)."""

import numpy as np
import pytest

import warp_like as wp
from tests.guarded import IS_SUPPORTED, guarded

LARGE = 9_000
"""So many items that their tree is fitted in parts."""


def strewn(count, seed=0):
    """Return the vertices and faces of triangles: most in a ball, every thousandth far away, some that touch."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(count, 1, 3))
    middles[::1000] *= 1.0e4
    points = (middles + 0.05 * rng.normal(size=(count, 3, 3))).astype(np.float32).reshape(-1, 3)
    order = rng.permutation(3 * count)
    indices = np.empty(3 * count, np.int32)
    indices[order] = np.arange(3 * count)
    indices[99::100] = indices[0]
    return points[order], indices


def boxes_of_faces(points, indices):
    """Return the lower and upper corners; NaN counts as nothing."""
    corners = points[indices.reshape(-1, 3)]
    return np.fmin.reduce(corners, 1, initial=np.inf), np.fmax.reduce(corners, 1, initial=-np.inf)


def require_fitted(tree, low, high):
    """Compare the boxes of a tree with those of its items: exactly, as these are the same numbers."""
    order = tree.order.numpy()
    boxes = tree.boxes.numpy().reshape(-1, 2, 3)
    np.testing.assert_array_equal(boxes[:, 0], low[order])
    np.testing.assert_array_equal(boxes[:, 1], high[order])
    nodes = tree.nodes.numpy()[: 8 * tree.node_count].reshape(-1, 8)
    skip, first = nodes[:, 6:].view(np.int32).T
    expected = np.empty((len(nodes), 2, 3), np.float32)
    for i in reversed(range(len(nodes))):
        if first[i] >= 0:
            items = order[first[i] : first[i] + skip[i]]
            expected[i] = np.fmin.reduce(low[items], 0, initial=np.inf), np.fmax.reduce(high[items], 0, initial=-np.inf)
        else:
            right = i + 2 if first[i + 1] >= 0 else skip[i + 1]
            expected[i, 0] = np.minimum(expected[i + 1, 0], expected[right, 0])
            expected[i, 1] = np.maximum(expected[i + 1, 1], expected[right, 1])
    np.testing.assert_array_equal(nodes[:, :6].reshape(-1, 2, 3), expected)


def require_blocks(mesh, points, indices):
    """Compare the wide tree of a mesh with its binary one, and its blocks with the faces."""
    faces, tree = mesh._faces, mesh._tree
    nodes = tree.nodes.numpy().reshape(-1, 8)[:, :6]
    wide = faces.wide.numpy().reshape(-1, 64)
    source = wide[:, 56:].view(np.int32)
    boxes = np.where((source < 0)[..., None], np.float32([np.inf] * 3 + [-np.inf] * 3), nodes[source])
    np.testing.assert_array_equal(wide[:, :48].reshape(-1, 6, 8), boxes.swapaxes(1, 2))
    blocks = faces.blocks.numpy().reshape(-1, 10, 8)
    numbers = blocks[:, 9].view(np.int32)
    there = numbers != np.iinfo(np.int32).min
    named = np.where(numbers < 0, ~numbers, numbers)[there]
    np.testing.assert_array_equal(np.sort(named), np.arange(tree.count))
    block, lane = np.divmod(faces.places.numpy(), 80)
    np.testing.assert_array_equal(np.where(numbers < 0, ~numbers, numbers)[block, lane], tree.order.numpy())
    corners = points[indices.reshape(-1, 3)[named]].reshape(-1, 9)
    np.testing.assert_array_equal(blocks[:, :9].swapaxes(1, 2)[there], corners)
    assert np.isnan(blocks[:, :9].swapaxes(1, 2)[~there]).all()
    p, q, r = np.split(corners.astype(np.float64), 3, axis=1)
    with np.errstate(all="ignore"):
        area = np.linalg.norm(np.cross(q - p, r - p), axis=1)
        edge = np.max([np.linalg.norm(e, axis=1) for e in (q - p, r - p, r - q)], axis=0) ** 2
        share = area / edge
    assert (numbers[there] < 0)[~(share > 0.9e-6)].all()
    assert not (numbers[there] < 0)[share > 1.1e-6].any()


@pytest.mark.parametrize(
    ("count", "leaf_size", "threads"), [(1, 4, 1), (2, 1, 1), (8, 8, 2), (9, 4, 1), (300, 2, 2), (LARGE, 1, 2)]
)
def test_a_refit_fits_every_node_of_a_mesh(monkeypatch, count, leaf_size, threads):
    monkeypatch.setattr(wp.config, "num_threads", threads)
    points, indices = strewn(count)
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(indices), bvh_leaf_size=leaf_size)
    require_fitted(mesh._tree, *boxes_of_faces(points, indices))
    require_blocks(mesh, points, indices)
    moved = points + np.random.default_rng(1).normal(size=points.shape).astype(np.float32)
    moved[indices[-1], 1] = np.nan
    moved[indices[:3]] = moved[indices[0]]  # a face of no size
    mesh.points.assign(moved)
    mesh.refit()
    require_fitted(mesh._tree, *boxes_of_faces(moved, indices))
    require_blocks(mesh, moved, indices)


@pytest.mark.parametrize(
    ("count", "leaf_size", "constructor"),
    [(0, 8, "sah"), (1, 8, "sah"), (9, 1, "lbvh"), (700, 11, "median"), (LARGE, 1, "sah")],
)
def test_a_refit_fits_every_node_of_a_tree_over_boxes(count, leaf_size, constructor):
    rng = np.random.default_rng(2)
    low = rng.normal(size=(count, 3)).astype(np.float32)
    boxes = [wp.array(x, dtype=wp.vec3) for x in (low, low + rng.random((count, 3), dtype=np.float32))]
    bvh = wp.Bvh(*boxes, constructor=constructor, leaf_size=leaf_size)
    moved = rng.normal(size=(count, 3)).astype(np.float32)
    moved[1::50, 1] = np.nan
    high = moved + rng.random((count, 3), dtype=np.float32)
    boxes[0].assign(moved)
    boxes[1].assign(high)
    bvh.refit()
    require_fitted(bvh._tree, moved, high)


@pytest.mark.skipif(not IS_SUPPORTED, reason="pages can't be protected")
@pytest.mark.parametrize("edge", ["begin", "end"])
def test_a_refit_stays_within_its_arrays(edge):
    points, indices = strewn(50, 3)
    with guarded(edge):
        mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(indices))
        bvh = wp.Bvh(*(wp.array(x, dtype=wp.vec3) for x in boxes_of_faces(points, indices)))
        mesh.refit()
        bvh.refit()
        require_fitted(bvh._tree, *boxes_of_faces(points, indices))
        require_blocks(mesh, points, indices)


def thin_faces(count=400):
    """Return the corners of triangles with hardly any area: about a millionth of the square of their longest edge."""
    rng = np.random.default_rng(4)
    corners = rng.normal(size=(count, 3, 3))
    edge = corners[:, 1] - corners[:, 0]
    side = np.cross(edge, rng.normal(size=edge.shape))
    side *= np.linalg.norm(edge, axis=1, keepdims=True) / np.linalg.norm(side, axis=1, keepdims=True)
    corners[:, 2] = corners[:, 0] + rng.random((count, 1)) * edge + rng.uniform(0.5e-6, 1.5e-6, (count, 1)) * side
    corners -= corners[:, :1]  # so that rounding keeps their areas
    return corners.astype(np.float32)


def without_area(corners):
    """Return which faces count as degenerate, in float32 as the native code has it."""
    p, q, r = corners.swapaxes(0, 1)
    edges = np.stack([q - p, r - p, r - q])
    edges = np.ldexp(edges, 1 - np.frexp(np.abs(edges[:2]).max((0, 2)))[1][:, None])
    (ex, ey, ez), (fx, fy, fz), _ = edges.swapaxes(1, 2)
    x, y, z = edges.transpose(2, 0, 1) ** 2
    longest = (x + y + z).max(0)
    x, y, z = ey * fz - ez * fy, ez * fx - ex * fz, ex * fy - ey * fx
    return ~(x * x + y * y + z * z > np.float32(1.0e-12) * longest * longest)


def test_which_faces_are_degenerate_does_not_depend_on_their_size():
    corners = thin_faces()
    expected = without_area(corners)
    assert 100 < expected.sum() < 300
    for sizes in (0, -20, -15, -60, 29, 31, 60, np.arange(len(corners)) % 120 - 60):
        scaled = np.ldexp(corners, np.broadcast_to(sizes, len(corners))[:, None, None])
        mesh = wp.Mesh(
            wp.array(scaled.reshape(-1, 3), dtype=wp.vec3), wp.array(np.arange(3 * len(scaled), dtype=np.int32))
        )
        numbers = mesh._faces.blocks.numpy().reshape(-1, 10, 8)[:, 9].view(np.int32)
        marked = np.isin(np.arange(len(scaled)), ~numbers[numbers != np.iinfo(np.int32).min])
        np.testing.assert_array_equal(marked, expected, str(sizes))
