"""Which triangles of a mesh share an edge.

Half edge ``3 * t + j`` is the side of triangle ``t`` opposite its corner ``j``. Half edges are sorted by the two
vertices that they join, and the sort is stable; so those of one edge lie side by side in the order of their numbers,
and pair up in this order. The result does not depend on the order of threads, and a vertex of many triangles takes no
more time than many vertices. Vertices are keys alone here, so no index addresses memory.
"""

from __future__ import annotations

import operator
from typing import Any

import warp_like as wp
from warp_like.runtime.memory.recorder import refuse_capture

MOST_TRIANGLES = (2**31 - 1) // 3
"""Half edges are numbered with 32 bits."""


@wp.func
def find_triangle_neighbor_edge_index(triangle_neighbors: wp.array2d[int], triangle: int, neighbor: int) -> int:
    """Return the edge of a triangle that a neighbor shares with it, a function for kernels.

    Args:
        triangle_neighbors: The neighbors that ``tri_tri_adjacency`` returns, of shape ``(triangles, 3)``.
        triangle: A triangle's number.
        neighbor: Another one's.

    Returns:
        The first ``j`` with ``triangle_neighbors[triangle, j] == neighbor``; -1 where there is none.
    """
    for j in range(3):
        if triangle_neighbors[triangle, j] == neighbor:
            return j
    return -1


@wp.kernel(enable_backward=False)
def _bound(indices: wp.array2d[int], least: wp.array[int], most: wp.array[int]) -> None:
    t = wp.tid()
    a, b, c = indices[t, 0], indices[t, 1], indices[t, 2]
    wp.atomic_min(least, 0, wp.min(a, wp.min(b, c)))
    wp.atomic_max(most, 0, wp.max(a, wp.max(b, c)))


@wp.kernel(enable_backward=False)
def _name_edges(
    indices: wp.array2d[int], bits: wp.uint64, edges: wp.array[wp.uint64], half_edges: wp.array[int]
) -> None:
    h = wp.tid()
    t, j = h // 3, h % 3
    a, b = indices[t, (j + 1) % 3], indices[t, (j + 2) % 3]
    edges[h] = (wp.uint64(wp.uint32(wp.min(a, b))) << bits) | wp.uint64(wp.uint32(wp.max(a, b)))
    half_edges[h] = h


@wp.kernel(enable_backward=False)
def _pair(edges: wp.array[wp.uint64], half_edges: wp.array[int], twins: wp.array[int]) -> None:
    i = wp.tid()
    edge = edges[i]
    if i > 0 and edges[wp.max(i - 1, 0)] == edge:
        return  # the thread of the edge's first half goes through all of them
    while i + 1 < edges.shape[0] and edges[i + 1] == edge:
        first, second = half_edges[i], half_edges[i + 1]
        twins[first] = second
        twins[second] = first
        i += 2
        if i >= edges.shape[0] or edges[i] != edge:
            return
    twins[half_edges[i]] = -1


@wp.kernel(enable_backward=False)
def _split(twins: wp.array[int], neighbors: wp.array[int], neighbor_edges: wp.array[int]) -> None:
    h = wp.tid()
    twin = twins[h]
    neighbors[h] = wp.where(twin < 0, -1, twin // 3)
    if neighbor_edges:
        neighbor_edges[h] = wp.where(twin < 0, -1, twin % 3)


def require_triangles(function: str, indices: Any) -> None:
    """Raise unless ``indices`` is an array of int32 with three columns."""
    if not isinstance(indices, wp.array):
        raise TypeError(f"{function}: `indices` is an array of int32, got {indices!r}")
    if indices.ndim != 2 or indices.shape[1] != 3:
        raise ValueError(f"{function}: `indices` has the shape (triangles, 3), got {indices.shape}")
    if indices.dtype != wp.int32:
        raise TypeError(f"{function}: `indices` is an array of int32, got {indices.dtype.__name__}")
    if indices.shape[0] > MOST_TRIANGLES:
        raise ValueError(f"{function}: `indices` has at most {MOST_TRIANGLES} triangles, got {indices.shape[0]}")


def require_vertices(function: str, indices: Any, count: int | None) -> int:
    """Return how many bits vertices have, 32 in a capture.

    Raises:
        ValueError: A vertex is not from 0 to below ``count``; in a capture, this is not known.
    """
    if indices.device.is_capturing or not indices.shape[0]:
        return 32
    least = wp.full(1, 2**31 - 1, dtype=int, device=indices.device)
    most = wp.full(1, -(2**31), dtype=int, device=indices.device)
    wp.launch(_bound, dim=indices.shape[0], inputs=[indices, least, most], device=indices.device)
    low, high = int(least.numpy()[0]), int(most.numpy()[0])
    if low < 0 or (count is not None and high >= count):
        limit = "0 on" if count is None else f"0 to {count - 1}" if count else "none, as there are no vertices"
        raise ValueError(f"{function}: `indices` of vertices are from {limit}, got {low if low < 0 else high}")
    return max(high.bit_length(), 1)


def pair_half_edges(indices: Any, bits: int) -> Any:
    """Return for each half edge the one on the other side of its edge, or -1; there is at least one triangle.

    Vertices have so many bits.
    """
    count, device = 3 * indices.shape[0], indices.device
    edges = wp.empty(count, dtype=wp.uint64, device=device)
    half_edges, twins = (wp.empty(count, dtype=int, device=device) for _ in range(2))
    wp.launch(_name_edges, dim=count, inputs=[indices, bits, edges, half_edges], device=device)
    wp.utils.radix_sort_pairs(edges, half_edges, end_bit=2 * bits)
    wp.launch(_pair, dim=count, inputs=[edges, half_edges, twins], device=device)
    return twins


def _require_vertex_count(function: str, vertex_count: Any) -> int:
    try:
        count = operator.index(vertex_count)
    except TypeError:
        raise TypeError(f"{function}: `vertex_count` is an integer or None, got {vertex_count!r}") from None
    if count < 0:
        raise ValueError(f"{function}: `vertex_count` is not negative, got {count}")
    return count


def tri_tri_adjacency(indices: Any, vertex_count: int | None = None, return_neighbor_edge_indices: bool = True) -> Any:
    """Find the neighbors of each triangle of a mesh.

    Edge ``j`` of a triangle lies opposite its corner ``j``: it joins the corners ``(j + 1) % 3`` and ``(j + 2) % 3``.
    The direction of triangles does not matter. An edge of more than two triangles joins the first two, the next two and
    so on, in the order of triangles, then of edges; of an odd number, the last has no neighbor. A triangle that has a
    vertex twice is its own neighbor where no other one comes between.

    Args:
        indices: An array of int32 of shape ``(triangles, 3)``, the vertices of each triangle.
        vertex_count: The number of vertices, to check ``indices``. Captures need it; they can't check.
        return_neighbor_edge_indices: Whether to return the second array.

    Returns:
        Two arrays of int32 of shape ``(triangles, 3)``, or the first one alone: the neighbor across each edge, and
        which edge of the neighbor it is. Both are -1 where an edge has no other triangle.

    Raises:
        ValueError: ``indices`` has another shape, more than 715827882 triangles, or a vertex that is negative or not
            below ``vertex_count``; or ``vertex_count`` is negative.
        TypeError: ``indices`` is no array of int32, or ``vertex_count`` no integer.
        RuntimeError: The thread captures a graph, and ``vertex_count`` is None.

    Example:
        >>> import warp_like.geometry
        >>> square = wp.array([[0, 1, 2], [0, 2, 3]], dtype=int)
        >>> neighbors, edges = wp.geometry.tri_tri_adjacency(square, vertex_count=4)
        >>> neighbors.list(), edges.list()
        ([-1, 1, -1, -1, -1, 0], [-1, 2, -1, -1, -1, 1])
    """
    function = "tri_tri_adjacency()"
    require_triangles(function, indices)
    if vertex_count is None:
        refuse_capture(f"{function} without `vertex_count`")
    count = None if vertex_count is None else _require_vertex_count(function, vertex_count)
    bits = require_vertices(function, indices, count)
    shape, device = indices.shape, indices.device
    neighbors = wp.empty(shape, dtype=int, device=device)
    neighbor_edges = wp.empty(shape, dtype=int, device=device) if return_neighbor_edge_indices else None
    if shape[0]:
        outputs = [neighbors.flatten(), None if neighbor_edges is None else neighbor_edges.flatten()]
        wp.launch(_split, dim=neighbors.size, inputs=[pair_half_edges(indices, bits)], outputs=outputs, device=device)
    return neighbors if neighbor_edges is None else (neighbors, neighbor_edges)
