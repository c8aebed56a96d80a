"""Colours of a graph's nodes, for work on the nodes of one colour at a time: ``wp.utils.graph_coloring_assign``.

The graph is undirected, given by its edges. All of it happens on the host (``native/coloring.cpp``).
"""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.device import DeviceLike


class GraphColoringAlgorithm(IntEnum):
    """In which order nodes get their colours, each the lowest that no neighbour has."""

    MCS = 0
    """That of maximum cardinality search: next comes the node with the most coloured neighbours."""
    GREEDY = 1
    """Nodes with many neighbours first."""


def graph_coloring_assign(
    edges: Any, node_colors: Any, algorithm: GraphColoringAlgorithm = GraphColoringAlgorithm.MCS
) -> int:
    """Give each node of a graph a colour, other than those of its neighbours, and return how many there are.

    Args:
        edges: An array of int32 of shape ``(edge_count, 2)`` on the CPU: the two nodes of each edge. An edge with the
            same node twice counts for nothing.
        node_colors: An array of int32 with an element for each node, on the CPU, that gets the colours.
        algorithm: In which order nodes are coloured.

    Raises:
        TypeError: An array is none of int32.
        ValueError: An array has another shape or lies on another device, there is no node, or an edge names one that is
            not there.

    Example:
        >>> edges = wp.array([[0, 1], [1, 2], [2, 3]], dtype=int, ndim=2)
        >>> colors = wp.zeros(4, dtype=int)
        >>> wp.utils.graph_coloring_assign(edges, colors), colors.list()
        (2, [0, 1, 0, 1])
    """
    pairs, colors = _graph("graph_coloring_assign", edges, node_colors)
    by_degree = GraphColoringAlgorithm(algorithm) is GraphColoringAlgorithm.GREEDY
    found = colors.contiguous()
    count = _native.color_graph(pairs, found, by_degree)
    _write_back(colors, found)
    return count


def graph_coloring_balance(
    edges: Any, node_colors: Any, color_count: int, target_max_min_ratio: float, *, max_iterations: int | None = None
) -> float:
    """Recolour nodes until colours are about equally frequent, and return the ratio of the most and the least frequent.

    Args:
        edges: As for ``graph_coloring_assign``.
        node_colors: What that has given; changed in place.
        color_count: How many colours there are.
        target_max_min_ratio: The ratio at which to stop.
        max_iterations: The most nodes to recolour, with a warning where that ends it; as many as there are nodes when
            left out.

    Raises:
        TypeError: An array is none of int32.
        ValueError: As for ``graph_coloring_assign``; or a colour is not below ``color_count``.
    """
    name = "graph_coloring_balance"
    pairs, colors = _graph(name, edges, node_colors)
    if max_iterations is not None and (isinstance(max_iterations, bool) or not hasattr(max_iterations, "__index__")):
        raise TypeError(f"{name}(): `max_iterations` is an integer, got {max_iterations!r}")
    if color_count < 1 or (max_iterations is not None and not 0 <= max_iterations < 2**31):
        raise ValueError(f"{name}(): `color_count` is at least 1, `max_iterations` from 0 to {2**31 - 1}")
    most = colors.size if max_iterations is None else int(max_iterations)
    found = colors.contiguous()
    ratio, cut_short = _native.balance_colors(pairs, found, int(color_count), float(target_max_min_ratio), most)
    _write_back(colors, found)
    if cut_short:
        warnings.warn(f"{name}() stopped after {most} changes, at a ratio of {ratio:.3g}", stacklevel=2)
    return ratio


def graph_coloring_get_groups(
    node_colors: Any, color_count: int, return_wp_array: bool = True, device: DeviceLike = "cpu"
) -> tuple[Any, ...]:
    """Return for each colour an array of int32 with the numbers of its nodes, in rising order.

    Args:
        node_colors: The colours of the nodes.
        color_count: How many colours there are.
        return_wp_array: Whether they are arrays on ``device``; NumPy's otherwise.
        device: Where they lie.

    Raises:
        TypeError: ``node_colors`` is no array of int32.
        ValueError: It has several dimensions or lies on another device; or ``color_count`` is negative.
    """
    if color_count < 0:
        raise ValueError(f"graph_coloring_get_groups(): `color_count` is not negative, got {color_count}")
    colors = _integers("graph_coloring_get_groups", "node_colors", node_colors, 1).numpy()
    groups = (np.flatnonzero(colors == color).astype(np.int32) for color in range(color_count))
    return tuple(array(g, dtype=ir.int32, device=device) if return_wp_array else g for g in groups)


def _integers(name: str, key: str, given: Any, ndim: int) -> array[Any]:
    a: array[Any] = given if isinstance(given, array) else interop_hooks.as_array(given)
    if a.element.type != ir.int32:
        raise TypeError(f"{name}(): `{key}` is an array of int32, got {a!r}")
    if a.ndim != ndim or not a.device.is_cpu:
        raise ValueError(f"{name}(): `{key}` has {ndim} dimension{'s' * (ndim > 1)} and lies on the CPU, got {a!r}")
    return a


def _graph(name: str, edges: Any, node_colors: Any) -> tuple[array[Any], array[Any]]:
    pairs, colors = _integers(name, "edges", edges, 2), _integers(name, "node_colors", node_colors, 1)
    if pairs.shape[1] != 2:
        raise ValueError(f"{name}(): `edges` has the shape (edge_count, 2), got {pairs!r}")
    if not colors.size:
        raise ValueError(f"{name}(): a graph without nodes has no colours")
    colors._require_writable()
    return pairs.contiguous(), colors


def _write_back(colors: array[Any], found: array[Any]) -> None:
    if found is not colors:
        colors.assign(found)
