"""Trees as CUDA devices build them, by the same kernels on the CPU."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like.runtime.geometry.device_tree import DeviceTree


def require_sound(tree, low, high):
    """Every item is in one leaf, subtrees end at their skips, boxes are the least; return the items of each node."""
    nodes = tree.nodes.numpy()[: 8 * tree.node_count].reshape(-1, 8)
    boxes, order = nodes[:, :6].copy().view(np.float32), tree.order.numpy()[: tree.count]
    np.testing.assert_array_equal(np.sort(order), np.arange(tree.count))
    below, deepest = [None] * len(nodes), 0

    def visit(i, depth):
        nonlocal deepest
        deepest = max(deepest, depth)
        if nodes[i, 7] >= 0:
            assert nodes[i, 6] == 1
            below[i] = order[nodes[i, 7] : nodes[i, 7] + 1]
            return i + 1
        end = visit(visit(i + 1, depth + 1), depth + 1)
        assert end == nodes[i, 6]
        right = i + 2 if nodes[i + 1, 7] >= 0 else nodes[i + 1, 6]
        below[i] = np.concatenate([below[i + 1], below[right]])
        return end

    assert visit(0, 0) == len(nodes)
    assert deepest <= tree._most_deep + 1
    for box, items in zip(boxes, below, strict=True):
        np.testing.assert_array_equal(box, [*low[items].min(0), *high[items].max(0)])
    np.testing.assert_array_equal(tree.boxes.numpy().reshape(-1, 6), np.concatenate([low, high], 1)[order])
    return below


@pytest.mark.parametrize(
    ("kind", "n"), crossed(["anywhere", "one place", "a line", "far apart"], [1, 2, 3, 600], every=2)
)
def test_trees_are_sound(n, kind):
    rng = np.random.default_rng(n)
    low = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    if kind == "one place":
        low[:] = low[0]
    elif kind == "a line":
        low[:, 1:] = 0
    elif kind == "far apart":
        low *= (10.0 ** rng.integers(-30, 30, (n, 1))).astype(np.float32)
    high = (low + rng.uniform(0, 0.1, (n, 3))).astype(np.float32)
    groups = rng.integers(-3, 3, n).astype(np.int32) * 1000
    arrays = [wp.array(a, dtype=wp.vec3) for a in (low, high)]
    tree = DeviceTree(n, wp.get_device("cpu"))
    for given in (None, wp.array(groups, dtype=int)):
        tree.build(*arrays, given, None)
        below = require_sound(tree, low, high)
        if given is None:
            continue
        names, roots = tree.groups.numpy().reshape(2, -1)
        np.testing.assert_array_equal(names, np.unique(groups))
        for name, root in zip(names, roots, strict=True):
            np.testing.assert_array_equal(np.sort(below[root]), np.nonzero(groups == name)[0])
    moved = [wp.array(a * np.float32(3), dtype=wp.vec3) for a in (low, high)]
    tree.refit(*moved)
    require_sound(tree, low * np.float32(3), high * np.float32(3))


def test_a_captured_build_and_refit_follow_the_boxes():
    rng = np.random.default_rng(5)
    low, moved = (rng.uniform(-1, 1, (100, 3)).astype(np.float32) for _ in range(2))
    lowers, uppers = wp.array(low, dtype=wp.vec3), wp.array(low + 0.125, dtype=wp.vec3)
    tree = DeviceTree(100, wp.get_device("cpu"))
    with wp.ScopedCapture("cpu") as building:
        tree.build(lowers, uppers, None, None)
    with wp.ScopedCapture("cpu") as refitting:
        tree.refit(lowers, uppers)
    with wp.ScopedCapture("cpu"), pytest.raises(RuntimeError, match="groups"):
        tree.build(lowers, uppers, wp.zeros(100, dtype=int), None)
    for boxes in (low, moved):
        lowers.assign(boxes)
        uppers.assign(boxes + np.float32(0.125))
        wp.capture_launch(building.graph)
        require_sound(tree, boxes, boxes + np.float32(0.125))
    order = tree.order.numpy()[:100].copy()
    lowers.assign(low)
    uppers.assign(low + np.float32(0.5))
    wp.capture_launch(refitting.graph)
    require_sound(tree, low, low + np.float32(0.5))
    np.testing.assert_array_equal(tree.order.numpy()[:100], order)
