"""Colours of graphs."""

import numpy as np
import pytest

import warp_like as wp

assign = wp.utils.graph_coloring_assign
balance = wp.utils.graph_coloring_balance
groups_of = wp.utils.graph_coloring_get_groups
ALGORITHMS = list(wp.utils.GraphColoringAlgorithm)


def random_edges(nodes, edges, seed):
    pairs = np.random.default_rng(seed).integers(0, nodes, (edges, 2))
    return pairs.astype(np.int32)  # some twice, some from a node to itself


def require_proper(edges, colors):
    a, b = edges[edges[:, 0] != edges[:, 1]].T
    assert (colors[a] != colors[b]).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (5, 3), (100, 300), (1000, 5000)])
def test_neighbours_have_different_colors(nodes, edges, algorithm):
    pairs = random_edges(nodes, edges, nodes)
    colors = np.full(nodes, 7, np.int32)
    count = assign(pairs, colors, algorithm)
    require_proper(pairs, colors)
    assert set(colors.tolist()) == set(range(count))
    degree = np.bincount(pairs[pairs[:, 0] != pairs[:, 1]].ravel(), minlength=nodes)
    assert count <= degree.max(initial=0) + 1
    before = np.bincount(colors, minlength=count)
    ratio = balance(pairs, colors, count, 1.1)
    require_proper(pairs, colors)
    after = np.bincount(colors, minlength=count)
    assert after.sum() == nodes
    assert ratio == after.max() / after.min() <= before.max() / before.min()
    assert nodes < 100 or ratio <= 1.2
    found = groups_of(colors, count)
    assert [len(g) for g in found] == after.tolist()
    for color, members in enumerate(found):
        assert members.list() == np.flatnonzero(colors == color).tolist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_graphs_whose_number_of_colors_is_known(algorithm):
    complete = np.array([(i, j) for i in range(6) for j in range(i)], np.int32)
    ring = np.array([(i, (i + 1) % 7) for i in range(7)], np.int32)
    path = np.array([(i, i + 1) for i in range(9)], np.int32)
    for edges, nodes, expected in ((complete, 6, 6), (ring, 7, 3), (path, 10, 2)):
        colors = wp.zeros(nodes, dtype=int)
        assert assign(edges, colors, algorithm) == expected
        require_proper(edges, colors.numpy())


def test_arrays_with_strides_and_numpy_groups():
    whole = np.zeros(8, np.int32)
    edges = wp.array([[1, 0], [2, 1], [3, 2]], dtype=int).transpose().contiguous().transpose()
    count = assign(edges, whole[::2])
    assert (count, whole[1::2].tolist()) == (2, [0] * 4)
    require_proper(edges.numpy(), whole[::2])
    first, second, none = groups_of(whole[::2], 3, return_wp_array=False)
    assert type(first) is np.ndarray
    assert sorted([*first, *second]) == [0, 1, 2, 3]
    assert len(none) == 0
    assert groups_of(whole[::2], 0) == ()


def test_a_limit_to_the_changes_is_told():
    edges, colors = np.zeros((0, 2), np.int32), np.zeros(10, np.int32)
    with pytest.warns(UserWarning, match="stopped after 3 changes"):
        assert balance(edges, colors, 2, 1.0, max_iterations=3) == 7 / 3
    assert balance(edges, colors, 2, 1.0) == 1.0


def test_what_is_refused():
    colors = np.zeros(3, np.int32)
    edges = np.array([[0, 1]], np.int32)
    with pytest.raises(TypeError, match="`edges` is an array of int32"):
        assign(edges.astype(np.float32), colors)
    with pytest.raises(ValueError, match="`edges` has 2 dimensions"):
        assign(edges[0], colors)
    with pytest.raises(ValueError, match=r"has the shape \(edge_count, 2\)"):
        assign(np.zeros((1, 3), np.int32), colors)
    with pytest.raises(ValueError, match="edge 0 names node 3 of a graph of 3 nodes"):
        assign(edges + 2, colors)
    with pytest.raises(ValueError, match="edge 0 names node -1"):
        assign(edges - 1, colors)
    with pytest.raises(ValueError, match="without nodes"):
        assign(edges, colors[:0])
    with pytest.raises(ValueError, match="node 0 has colour 5 of 2 colours"):
        balance(edges, colors + 5, 2, 1.1)
    with pytest.raises(ValueError, match="at least 1"):
        balance(edges, colors, 0, 1.1)
    with pytest.raises(ValueError, match="not negative"):
        groups_of(colors, -1)
    with pytest.raises(ValueError, match="2 is not a valid GraphColoringAlgorithm"):
        assign(edges, colors, 2)


@pytest.mark.parametrize(
    ("most", "error", "message"),
    [
        (-1, ValueError, "`max_iterations` from 0 to 2147483647"),
        (2**31, ValueError, "`max_iterations` from 0 to 2147483647"),
        (True, TypeError, "`max_iterations` is an integer, got True"),
        (1.5, TypeError, "`max_iterations` is an integer, got 1.5"),
    ],
)
def test_how_often_nodes_may_be_recoloured(most, error, message):
    edges, colors = wp.array([[0, 1]], dtype=int), wp.array([0, 1], dtype=int)
    with pytest.raises(error, match=message):
        wp.utils.graph_coloring_balance(edges, colors, 2, 1.1, max_iterations=most)
