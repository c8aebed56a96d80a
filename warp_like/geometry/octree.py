"""The cells of a grid near to a surface, found by an octree, and marching cubes on them.

Where values change by at most L for each unit of length, the surface can only pass through a box if the value at the
box's center differs from the threshold by at most L times half of the box's diagonal. Other boxes are dropped with all
that they hold; the rest are divided into eight. So the work grows with the surface, not with the grid.

Boxes are counted in cells of the grid: a box of level ``l`` begins at a multiple of ``2 ** l`` along each axis. Those
at the far sides are cut off where the grid ends, and have their center in the part that is left.

Methods: J. Hart, "Sphere tracing", The Visual Computer 12, 1996, for the bound; the octree as in S. Frisken et al.,
"Adaptively sampled distance fields", SIGGRAPH 2000, and in ``lipschitz_octree`` of libigl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp_like as wp
from warp_like.geometry.iso_surface import Bound, place_domain, require_corner, require_threshold
from warp_like.geometry.node_bits import scan
from warp_like.geometry.sparse_cubes import (
    MOST_NODES,
    extract,
    nothing,
    number_corners,
    require_count,
    require_positive,
)
from warp_like.runtime.memory.recorder import paused, refuse_capture

Field = Callable[[Any], Any]
"""Takes an array of vec3 and returns an array of float32, the values there."""

MOST_LEVELS = 30

SLACK = 2.0**-20
"""How much larger than exact boxes count, so that rounding in float32 drops none that the surface meets."""


@wp.func
def _end(first: wp.vec3i, level: int, counts: wp.vec3i) -> wp.vec3i:
    """Return where a box ends, which is at most where the grid does."""
    return wp.min(first + wp.vec3i(1 << level), counts)


@wp.kernel(enable_backward=False)
def _place_centers(
    boxes: wp.array[wp.vec3i],
    level: int,
    counts: wp.vec3i,
    begin: wp.vec3,
    spacing: wp.vec3,
    centers: wp.array[wp.vec3],
) -> None:
    first = boxes[wp.tid()]
    both = first + _end(first, level, counts)
    centers[wp.tid()] = begin + 0.5 * wp.cw_mul(spacing, wp.vec3(float(both[0]), float(both[1]), float(both[2])))


@wp.kernel(enable_backward=False)
def _count_parts(
    boxes: wp.array[wp.vec3i],
    level: int,
    counts: wp.vec3i,
    begin: wp.vec3,
    spacing: wp.vec3,
    centers: wp.array[wp.vec3],
    values: wp.array[float],
    threshold: float,
    bound: float,
    parts: wp.array[wp.int64],
) -> None:
    """Count the boxes of the next level in each box that the surface may meet, and the box itself on the last one."""
    i = wp.tid()
    first = boxes[i]
    end = _end(first, level, counts)
    size = end - first
    reach = 0.5 * bound * wp.length(wp.cw_mul(spacing, wp.vec3(float(size[0]), float(size[1]), float(size[2]))))
    far = wp.length(begin) + wp.length(centers[i])  # a center is rounded as its distance from the corner is
    rounding = SLACK * (bound * far + wp.abs(values[i]) + wp.abs(threshold) + reach)
    count = 1
    if level > 0:
        half = 1 << (level - 1)
        for axis in range(3):
            count *= wp.where(size[axis] > half, 2, 1)
    apart = wp.abs(values[i] - threshold) > reach + rounding  # false for NaN, which says nothing about the box
    if wp.isinf(values[i]):
        apart = True
    parts[i] = wp.int64(wp.where(apart, 0, count))


@wp.kernel(enable_backward=False)
def _write_parts(
    boxes: wp.array[wp.vec3i],
    level: int,
    counts: wp.vec3i,
    parts: wp.array[wp.int64],
    starts: wp.array[wp.int64],
    smaller: wp.array[wp.vec3i],
) -> None:
    i = wp.tid()
    if parts[i] == wp.int64(0):
        return
    at = int(starts[i])
    if level == 0:
        smaller[at] = boxes[i]
        return
    half = 1 << (level - 1)
    for part in range(8):
        first = boxes[i] + half * wp.vec3i(part & 1, (part >> 1) & 1, part >> 2)
        if first[0] < counts[0] and first[1] < counts[1] and first[2] < counts[2]:
            smaller[at] = first
            at += 1


def _require_field(function: str, field: Any) -> None:
    if not callable(field) or isinstance(field, (wp.Function, wp.Kernel)):
        raise TypeError(
            f"{function}: `field` is a Python function that takes an array of vec3 and returns an array of float32, "
            f"got {field!r}"
        )


def _evaluate(function: str, field: Field, points: Any) -> Any:
    """Return the values of a field at points, once checked."""
    values = field(points)
    if not isinstance(values, wp.array) or values.dtype != wp.float32:
        raise TypeError(f"{function}: `field` returns an array of float32, got {values!r}")
    if values.shape != points.shape:
        raise ValueError(f"{function}: `field` returns a value for each of {points.size} points, got {values.shape}")
    if values.device != points.device:
        raise ValueError(f"{function}: `field` returns an array on {points.device}, got one on {values.device}")
    return values


class _Search:
    """A search for the cells of a grid near to a surface.

    Attributes:
        evaluations (int): How many values were asked for.
    """

    def __init__(self, function: str, field: Field, threshold: float, bound: float, device: Any) -> None:
        self.function = function
        self.field = field
        self.threshold = threshold
        self.bound = bound
        self.device = device
        self.evaluations = 0

    def cells(self, counts: tuple[int, ...], begin: Any, spacing: Any, depth: int) -> Any:
        """Return the first corners of the cells that the surface may meet, an array of vec3i."""
        boxes = wp.zeros(1, dtype=wp.vec3i, device=self.device)
        for level in range(depth, -1, -1):
            boxes = self._parts(boxes, level, wp.vec3i(*counts), begin, spacing)
            if not boxes.size:
                break
        return boxes

    def _parts(self, boxes: Any, level: int, counts: Any, begin: Any, spacing: Any) -> Any:
        """Return the boxes of the next level in those that the surface may meet; on the last level these."""
        device, dim = self.device, boxes.size
        centers = wp.empty(dim, dtype=wp.vec3, device=device)
        wp.launch(_place_centers, dim=dim, inputs=[boxes, level, counts, begin, spacing, centers], device=device)
        values = self.evaluate(centers)
        parts = wp.empty(dim, dtype=wp.int64, device=device)
        inputs = [boxes, level, counts, begin, spacing, centers, values, self.threshold, self.bound, parts]
        wp.launch(_count_parts, dim=dim, inputs=inputs, device=device)
        starts, total = scan(parts, "cells")
        made = wp.empty(total, dtype=wp.vec3i, device=device)
        wp.launch(_write_parts, dim=dim, inputs=[boxes, level, counts, parts, starts, made], device=device)
        return made

    def evaluate(self, points: Any) -> Any:
        """Return the field's values at points."""
        self.evaluations += points.size
        return _evaluate(self.function, self.field, points)


def _require_bound(function: str, bound: Any) -> float:
    return 0.0 if bound == 0 else require_positive(function, "lipschitz_bound", bound)


def lipschitz_octree(
    field: Field,
    origin: Any,
    root_width: float,
    max_depth: int,
    threshold: float = 0.0,
    lipschitz_bound: float = 1.0,
    device: Any = None,
) -> tuple[Any, float]:
    """Return the smallest cells of an octree that the surface of a function may pass through.

    These are all cells of width ``h`` at whose center the value differs from the threshold by at most
    ``lipschitz_bound * sqrt(3) / 2 * h``, and a few more for rounding. If the values change by at most
    ``lipschitz_bound`` for each unit of length, the surface meets no other cell. A value that is infinite says that the
    surface is far; NaN says nothing.

    There is no gradient: cells are found in steps. ``field`` is called with nothing recorded.

    Args:
        field: Takes an array of ``wp.vec3``, and returns an array of float32 with the value at each of these points,
            on the same device.
        origin: The corner of the cube to search with the least coordinates, three numbers.
        root_width: The length of the cube's edge.
        max_depth: How often the cube is divided, from 0 to 30: there are ``2 ** max_depth`` cells along an axis.
        threshold: The value on the surface.
        lipschitz_bound: By how much values change at most for each unit of length: 1 for a distance.
        device: Where to work; None for the current device.

    Returns:
        The subscripts of the cells' first corners, an array of vec3i, and the length of a cell's edge.

    Raises:
        ValueError: A number is out of range, or ``field`` returns another shape.
        TypeError: ``field`` is no Python function of arrays, or returns another type.
        RuntimeError: The thread captures a graph: the number of cells has to be known.

    Example:
        >>> import warp_like.geometry
        >>> @wp.func
        ... def distance(x: wp.vec3) -> float:
        ...     return wp.length(x) - 0.75
        >>> cells, width = wp.geometry.lipschitz_octree(lambda x: wp.map(distance, x), (-1, -1, -1), 2.0, 5)
        >>> width, cells.size < 32**3 / 8
        (0.0625, True)
    """
    function = "lipschitz_octree()"
    _require_field(function, field)
    begin = require_corner(function, "origin", origin)
    width = require_positive(function, "root_width", root_width)
    depth = require_count(function, "max_depth", max_depth, 0, MOST_LEVELS)
    threshold = require_threshold(function, threshold)
    bound = _require_bound(function, lipschitz_bound)
    refuse_capture(function)
    cell_width = width / 2**depth
    with paused():
        search = _Search(function, field, threshold, bound, wp.get_device(device))
        cells = search.cells((2**depth,) * 3, begin, wp.vec3(cell_width), depth)
    return cells, cell_width


@wp.kernel(enable_backward=False)
def _place_nodes(nodes: wp.array[wp.vec3i], begin: wp.vec3, spacing: wp.vec3, points: wp.array[wp.vec3]) -> None:
    at = nodes[wp.tid()]
    points[wp.tid()] = begin + wp.cw_mul(wp.vec3(float(at[0]), float(at[1]), float(at[2])), spacing)


@wp.kernel
def _gather(values: wp.array[float], numbers: wp.array2d[int], corner_values: wp.array2d[float]) -> None:
    cell, corner = wp.tid()
    corner_values[cell, corner] = values[numbers[cell, corner]]


def _surface(search: _Search, cells: Any, bits: int, begin: Any, spacing: Any) -> tuple[tuple[Any, Any], int]:
    """Return the vertices and the indices of the surface in cells, and how many corners the cells have."""
    device, least = search.device, wp.vec3i()
    with paused():
        numbers, nodes = number_corners(cells, least, bits)
        points = wp.empty(nodes.size, dtype=wp.vec3, device=device)
        wp.launch(_place_nodes, dim=nodes.size, inputs=[nodes, begin, spacing, points], device=device)
    values = search.evaluate(points)
    corner_values = wp.empty((cells.size, 8), dtype=float, device=device, requires_grad=values.requires_grad)
    wp.launch(_gather, dim=(cells.size, 8), inputs=[values, numbers], outputs=[corner_values], device=device)
    made = extract(cells, least, numbers, nodes.size, corner_values, search.threshold, begin, spacing)
    return made, nodes.size


def sparse_marching_cubes(
    field: Field,
    nx: int,
    ny: int,
    nz: int,
    *,
    lower: Bound = None,
    upper: Bound = None,
    threshold: float = 0.0,
    lipschitz_bound: float = 1.0,
    device: Any = None,
    return_stats: bool = False,
) -> Any:
    """Return the vertices and the indices of the surface of a function, by marching cubes near to the surface alone.

    The surface is that of ``IsoSurfaceMarchingCubes.extract`` for a grid of the same nodes. ``field`` is asked for
    values near to the surface, in arrays of points: first at the centers of boxes as in ``lipschitz_octree``, then at
    the corners of the cells that are left. Time and memory grow with the area of the surface.

    A tape differentiates the vertices with respect to the values at the nodes, if the array that ``field`` returns
    requires a gradient; the launches of ``field`` lead on from there. Which cells and edges the surface meets is held.

    Args:
        field: Takes an array of ``wp.vec3``, and returns an array of float32 with the value at each of these points,
            on the same device.
        nx: Number of nodes of the grid along x, from 2 to 1048577.
        ny: Number of nodes along y.
        nz: Number of nodes along z.
        lower: Where node ``(0, 0, 0)`` lies; None for the origin. What is outside of the grid is not visited.
        upper: Where node ``(nx - 1, ny - 1, nz - 1)`` lies; None for these numbers.
        threshold: The value on the surface.
        lipschitz_bound: By how much values change at most for each unit of length: 1 for a distance. If values change
            faster, parts of the surface may be missing.
        device: Where to work; None for the current device.
        return_stats: Whether to return a dictionary, too.

    Returns:
        An array of ``wp.vec3``, one of int32 with three numbers for each triangle, and, if asked for, a dictionary:
        ``resolution``, the cells along an axis of the smallest octree that has the grid; ``leaf_cells``, the cells near
        to the surface; ``unique_corners``, the corners that they have; ``field_evaluations``, the points for which
        ``field`` was asked; and ``culled_cells``, which is 0 as no cell outside of the grid is made.

    Raises:
        ValueError: A number is out of range, a bound is not finite, or ``field`` returns another shape.
        TypeError: ``field`` is no Python function of arrays, or returns another type.
        RuntimeError: The thread captures a graph: the size of the result has to be known.

    Example:
        >>> import warp_like.geometry
        >>> @wp.func
        ... def distance(x: wp.vec3) -> float:
        ...     return wp.length(x) - 0.75
        >>> verts, indices, stats = wp.geometry.sparse_marching_cubes(
        ...     lambda x: wp.map(distance, x), 65, 65, 65, lower=(-1, -1, -1), upper=(1, 1, 1), return_stats=True
        ... )
        >>> stats["field_evaluations"] < 65**3 / 4
        True
    """
    function = "sparse_marching_cubes()"
    _require_field(function, field)
    most = MOST_NODES // 2 + 1
    shape = tuple(require_count(function, name, n, 2, most) for name, n in (("nx", nx), ("ny", ny), ("nz", nz)))
    threshold = require_threshold(function, threshold)
    bound = _require_bound(function, lipschitz_bound)
    begin, spacing = place_domain(function, shape, lower, upper)
    refuse_capture(function)
    where = wp.get_device(device)
    counts = tuple(n - 1 for n in shape)
    depth = (max(counts) - 1).bit_length()
    search = _Search(function, field, threshold, bound, where)
    with paused():
        cells = search.cells(counts, begin, spacing, depth)
    if not cells.size:
        made, corner_count = nothing(where), 0
    else:
        made, corner_count = _surface(search, cells, max(counts).bit_length(), begin, spacing)
    if not return_stats:
        return made
    asked = {"unique_corners": corner_count, "field_evaluations": search.evaluations}
    return (*made, {"resolution": 2**depth, "leaf_cells": cells.size, "culled_cells": 0, **asked})
