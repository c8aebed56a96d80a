"""How trees are built on the CPU (``native/bvh.cpp``): on any number of threads the same, and by the least cost."""

import numpy as np
import pytest

import warp_like as wp
from tests.runtime.geometry.test_refit import boxes_of_faces, require_blocks, require_fitted, strewn

LARGE = 20_011
"""So many items that all threads split the top of their tree, in pieces."""


def boxes(count):
    """Return the corners of boxes: most of one size, some far away, in one place, infinite, or NaN."""
    rng = np.random.default_rng(count)
    low = rng.normal(size=(count, 3)).astype(np.float32)
    high = low + rng.random((count, 3), dtype=np.float32) / 8
    low[::100] *= 1.0e4
    high[::100] = low[::100] + 1
    low[7::50], high[7::50] = low[7], high[7]
    low[1], high[1] = -np.inf, np.inf
    low[2, 1], high[3] = np.nan, np.nan
    return low, high


def bits(tree):
    """Return a tree's arrays."""
    used = tree.nodes.numpy()[: 8 * tree.node_count], tree.order.numpy(), tree.boxes.numpy()
    return [a.view(np.int32).copy() for a in used] + ([] if tree.groups is None else [tree.groups.numpy().copy()])


@pytest.mark.parametrize("method", ["sah", "median", "lbvh"])
@pytest.mark.parametrize("groups", [1, 5])
def test_trees_over_boxes_do_not_depend_on_the_number_of_threads(monkeypatch, method, groups):
    low, high = boxes(LARGE)
    of = None if groups == 1 else wp.array(np.random.default_rng(1).integers(0, groups, LARGE) ** 3, dtype=int)
    built = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(wp.config, "num_threads", threads)
        bvh = wp.Bvh(*(wp.array(x, dtype=wp.vec3) for x in (low, high)), constructor=method, groups=of, leaf_size=3)
        built.append(bits(bvh._tree))
    for other in built[1:]:
        for a, b in zip(built[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.sort(bvh._tree.order.numpy()), np.arange(LARGE))
    require_fitted(bvh._tree, low, high)


def test_trees_of_meshes_do_not_depend_on_the_number_of_threads(monkeypatch):
    points, indices = strewn(LARGE)
    built = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(wp.config, "num_threads", threads)
        mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(indices), bvh_leaf_size=2)
        faces = mesh._faces
        built.append(
            bits(mesh._tree)
            + [a.numpy().view(np.int32) for a in (faces.wide, faces.blocks, faces.starts, faces.places)]
        )
    for other in built[1:]:
        for a, b in zip(built[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    require_fitted(mesh._tree, *boxes_of_faces(points, indices))
    require_blocks(mesh, points, indices)


def area(low, high):
    size = high.max(0) - low.min(0)
    return size[0] * size[1] + size[1] * size[2] + size[2] * size[0]


def cheapest(low, high):
    """Return the least cost of a cut between two of 16 bins along an axis."""
    center = (low + high) / 2
    first, size = center.min(0), np.ptp(center, axis=0)
    place = np.minimum((center - first) / size * 16, 15).astype(int)
    costs = []
    for axis in range(3):
        for b in range(15):
            left = place[:, axis] <= b
            if 0 < left.sum() < len(low):
                costs.append(sum(area(low[s], high[s]) * s.sum() for s in (left, ~left)))
    return min(costs)


@pytest.mark.parametrize("threads", [1, 2])
def test_splits_have_the_least_cost(monkeypatch, threads):
    monkeypatch.setattr(wp.config, "num_threads", threads)
    points, indices = strewn(LARGE)
    low, high = boxes_of_faces(points, indices)
    tree = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3), leaf_size=2)._tree
    nodes = tree.nodes.numpy()[: 8 * tree.node_count].reshape(-1, 8)
    skip, first = nodes[:, 6:].view(np.int32).T
    leaves = np.flatnonzero(first >= 0)
    low, high = (x.astype(np.float64)[tree.order.numpy()] for x in (low, high))
    ends = np.append(first[leaves], LARGE)

    def items_of(node):
        end = skip[node] if first[node] < 0 else node + 1
        return slice(*ends[np.searchsorted(leaves, [node, end])])

    seen, waiting = 0, [0]
    while waiting and seen < 60:
        node = waiting.pop(0)
        s = items_of(node)
        if s.stop - s.start < 16:
            continue
        right = node + 2 if first[node + 1] >= 0 else skip[node + 1]
        sides = [items_of(node + 1), items_of(right)]
        cost = sum(area(low[side], high[side]) * (side.stop - side.start) for side in sides)
        assert cost <= cheapest(low[s], high[s]) * 1.001
        waiting += [node + 1, right]
        seen += 1
    assert seen == 60
