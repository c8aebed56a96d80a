"""Marching cubes on a list of cells: the part of a grid near to a surface, and no array of the grid's size.

The corners of all cells are sorted by a code with some bits for each axis, so that equal corners get one number. An
edge is named by its first corner and its axis. Of the cells that see an edge crossed, the first one owns it: its values
place the vertex. So vertices, their order and their gradients do not depend on the order of threads.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.geometry import cube_cases
from warp_like.geometry.iso_surface import require_corner, require_threshold
from warp_like.geometry.node_bits import fraction, scan
from warp_like.runtime.memory.recorder import paused, refuse_capture

MOST_NODES = 2**21
"""Corners along an axis, so that the code of one has 63 bits at most."""

NOBODY = 2**31 - 1
"""The owner of an edge that is not crossed."""

MOST_CELLS = NOBODY // 12
"""The owner of an edge is a cell times 12 plus the edge's number in the cell."""

_CORNERS = np.array(cube_cases.CORNERS, np.int32)
_ENDS = np.array(cube_cases.EDGES, np.int32)
_PLACES = np.array(cube_cases.EDGE_PLACES, np.int32)
_RANGES = np.array(cube_cases.CASE_TO_TRI_RANGE, np.int32)
_LOCAL = np.array(cube_cases.TRI_LOCAL_INDICES, np.int32)


@wp.kernel(enable_backward=False)
def _bound(cells: wp.array[wp.vec3i], least: wp.array[wp.vec3i], most: wp.array[wp.vec3i]) -> None:
    cell = cells[wp.tid()]
    wp.atomic_min(least, 0, cell)
    wp.atomic_max(most, 0, cell)


@wp.kernel(enable_backward=False)
def _name_corners(
    cells: wp.array[wp.vec3i],
    least: wp.vec3i,
    corners: wp.array[wp.vec3i],
    bits: wp.int64,
    codes: wp.array[wp.int64],
    slots: wp.array[int],
) -> None:
    slot = wp.tid()
    at = cells[slot // 8] - least + corners[slot % 8]
    codes[slot] = (((wp.int64(at[0]) << bits) | wp.int64(at[1])) << bits) | wp.int64(at[2])
    slots[slot] = slot


@wp.kernel(enable_backward=False)
def _mark_first(codes: wp.array[wp.int64], first: wp.array[wp.int64]) -> None:
    i = wp.tid()
    first[i] = wp.where(i == 0 or codes[wp.max(i - 1, 0)] != codes[i], wp.int64(1), wp.int64(0))


@wp.kernel(enable_backward=False)
def _number_corners(
    codes: wp.array[wp.int64],
    slots: wp.array[int],
    before: wp.array[wp.int64],
    first: wp.array[wp.int64],
    bits: wp.int64,
    numbers: wp.array2d[int],
    nodes: wp.array[wp.vec3i],
) -> None:
    i = wp.tid()
    number = int(before[i] + first[i]) - 1
    numbers[slots[i] // 8, slots[i] % 8] = number
    if first[i] == wp.int64(1):
        code, mask = codes[i], (wp.int64(1) << bits) - wp.int64(1)
        nodes[number] = wp.vec3i(int(code >> (bits + bits)), int((code >> bits) & mask), int(code & mask))


@wp.func
def _case_of(values: wp.array2d[float], cell: int, threshold: float) -> int:
    case = 0
    for corner in range(8):
        case |= wp.where(values[cell, corner] < threshold, 0, 1 << corner)
    return case


@wp.kernel(enable_backward=False)
def _claim_edges(
    values: wp.array2d[float],
    threshold: float,
    numbers: wp.array2d[int],
    ends: wp.array[wp.vec2i],
    places: wp.array[wp.vec4i],
    ranges: wp.array[int],
    owners: wp.array[int],
    corner_counts: wp.array[wp.int64],
) -> None:
    cell = wp.tid()
    case = _case_of(values, cell, threshold)
    corner_counts[cell] = wp.int64(ranges[case + 1] - ranges[case])
    for edge in range(12):
        a, b = ends[edge][0], ends[edge][1]
        if ((case >> a) ^ (case >> b)) & 1 == 1:
            wp.atomic_min(owners, 3 * numbers[cell, a] + places[edge][3], 12 * cell + edge)


@wp.kernel(enable_backward=False)
def _mark_owned(owners: wp.array[int], owned: wp.array[wp.int64]) -> None:
    edge = wp.tid()
    owned[edge] = wp.where(owners[edge] == NOBODY, wp.int64(0), wp.int64(1))


@wp.kernel(enable_backward=False)
def _list_owners(owners: wp.array[int], starts: wp.array[wp.int64], vertex_owners: wp.array[int]) -> None:
    edge = wp.tid()
    if owners[edge] != NOBODY:
        vertex_owners[int(starts[edge])] = owners[edge]


@wp.kernel(enable_backward=False)
def _write_triangles(
    values: wp.array2d[float],
    threshold: float,
    numbers: wp.array2d[int],
    ends: wp.array[wp.vec2i],
    places: wp.array[wp.vec4i],
    ranges: wp.array[int],
    local: wp.array[int],
    vertex_starts: wp.array[wp.int64],
    corner_starts: wp.array[wp.int64],
    indices: wp.array[int],
) -> None:
    cell = wp.tid()
    case = _case_of(values, cell, threshold)
    at = int(corner_starts[cell])
    for n in range(ranges[case], ranges[case + 1]):
        edge = local[n]
        indices[at] = int(vertex_starts[3 * numbers[cell, ends[edge][0]] + places[edge][3]])
        at += 1


@wp.kernel
def _place_vertices(
    values: wp.array2d[float],
    threshold: float,
    begin: wp.vec3,
    spacing: wp.vec3,
    cells: wp.array[wp.vec3i],
    least: wp.vec3i,
    ends: wp.array[wp.vec2i],
    places: wp.array[wp.vec4i],
    owners: wp.array[int],
    verts: wp.array[wp.vec3],
) -> None:
    vertex = wp.tid()
    cell = owners[vertex] // 12
    edge = owners[vertex] % 12
    t = fraction(values[cell, ends[edge][0]], values[cell, ends[edge][1]], threshold)
    at, place = cells[cell] - least, places[edge]
    node = wp.vec3(float(at[0] + place[0]), float(at[1] + place[1]), float(at[2] + place[2]))
    node[place[3]] += t
    verts[vertex] = begin + wp.cw_mul(node, spacing)


def number_corners(cells: Any, least: Any, bits: int) -> tuple[Any, Any]:
    """Return the numbers of the cells' corners, and the corners.

    Args:
        cells: An array of vec3i, the subscripts of the cells' first corners.
        least: A vec3i, which is subtracted from subscripts.
        bits: How many bits the differences have, along each axis.

    Returns:
        An array of int32 and shape ``(n, 8)``, and one of vec3i, the corners' subscripts less ``least``.
    """
    device, count = cells.device, 8 * cells.size
    if cells.size > MOST_CELLS:
        raise ValueError(f"the surface has {cells.size} cells, and the most are {MOST_CELLS}")
    codes = wp.empty(count, dtype=wp.int64, device=device)
    slots = wp.empty(count, dtype=int, device=device)
    corners = wp.array(_CORNERS, dtype=wp.vec3i, device=device)
    wp.launch(_name_corners, dim=count, inputs=[cells, least, corners, bits, codes, slots], device=device)
    wp.utils.radix_sort_pairs(codes, slots, end_bit=3 * bits)
    first = wp.empty(count, dtype=wp.int64, device=device)
    wp.launch(_mark_first, dim=count, inputs=[codes, first], device=device)
    before, total = scan(first, "corners", 3)  # edges, too, have numbers of 32 bits
    numbers = wp.empty((cells.size, 8), dtype=int, device=device)
    nodes = wp.empty(total, dtype=wp.vec3i, device=device)
    inputs = [codes, slots, before, first, bits, numbers, nodes]
    wp.launch(_number_corners, dim=count, inputs=inputs, device=device)
    return numbers, nodes


def _topology(values: Any, threshold: float, numbers: Any, node_count: int) -> tuple[Any, Any]:
    """Return the owners of the crossed edges, one for each vertex, and the indices of the triangles."""
    device, count = values.device, values.shape[0]
    ends, places = (wp.array(a, dtype=t, device=device) for a, t in ((_ENDS, wp.vec2i), (_PLACES, wp.vec4i)))
    ranges, local = (wp.array(a, dtype=int, device=device) for a in (_RANGES, _LOCAL))
    owners = wp.full(3 * node_count, NOBODY, dtype=int, device=device)
    corner_counts = wp.empty(count, dtype=wp.int64, device=device)
    inputs = [values, threshold, numbers, ends, places, ranges]
    wp.launch(_claim_edges, dim=count, inputs=[*inputs, owners, corner_counts], device=device)
    owned = wp.empty(owners.size, dtype=wp.int64, device=device)
    wp.launch(_mark_owned, dim=owners.size, inputs=[owners, owned], device=device)
    vertex_starts, vertex_count = scan(owned, "vertices")
    corner_starts, corner_count = scan(corner_counts, "indices")
    vertex_owners = wp.empty(vertex_count, dtype=int, device=device)
    indices = wp.empty(corner_count, dtype=int, device=device)
    wp.launch(_list_owners, dim=owners.size, inputs=[owners, vertex_starts, vertex_owners], device=device)
    inputs += [local, vertex_starts, corner_starts, indices]
    wp.launch(_write_triangles, dim=count, inputs=inputs, device=device)
    return vertex_owners, indices


def extract(
    cells: Any, least: Any, numbers: Any, node_count: int, values: Any, threshold: float, begin: Any, spacing: Any
) -> tuple[Any, Any]:
    """Return vertices and indices of the surface in cells with given corners.

    Args:
        cells: An array of vec3i, the subscripts of the cells' first corners.
        least: Subscripts at ``begin``, a vec3i.
        numbers: The numbers of the cells' corners, of shape ``(n, 8)``.
        node_count: How many corners there are.
        values: The values at the cells' corners, of shape ``(n, 8)``; its gradient gets that of the vertices.
        threshold: The value on the surface.
        begin: A vec3.
        spacing: The size of a cell, a vec3.
    """
    device = values.device
    with paused():
        owners, indices = _topology(values, threshold, numbers, node_count)
        ends, places = (wp.array(a, dtype=t, device=device) for a, t in ((_ENDS, wp.vec2i), (_PLACES, wp.vec4i)))
    verts = wp.empty(owners.size, dtype=wp.vec3, device=device, requires_grad=values.requires_grad)
    inputs = [values, threshold, begin, spacing, cells, least, ends, places, owners]
    wp.launch(_place_vertices, dim=owners.size, inputs=inputs, outputs=[verts], device=device)
    return verts, indices


def nothing(device: Any, requires_grad: bool = False) -> tuple[Any, Any]:
    """Return the vertices and the indices of no surface."""
    verts = wp.empty(0, dtype=wp.vec3, device=device, requires_grad=requires_grad)
    return verts, wp.empty(0, dtype=int, device=device)


# --- cells that the caller gives ---


def _require_cells(function: str, cells: Any, device: Any) -> Any:
    """Return cells as an array of vec3i on a device."""
    if isinstance(cells, wp.array):
        if cells.dtype == wp.vec3i and cells.ndim == 1:
            flat = cells
        elif cells.dtype == wp.int32 and cells.ndim == 2 and cells.shape[1] == 3:
            flat = cells.contiguous().view(wp.vec3i).flatten()
        else:
            raise ValueError(f"{function}: `cells` is an array of vec3i, or of int32 and shape (n, 3), got {cells!r}")
        return flat if flat.device == device else flat.to(device)
    host = np.asarray(cells)
    if host.size == 0:
        host = host.reshape(0, 3).astype(np.int32)
    if host.ndim != 2 or host.shape[1] != 3:
        raise ValueError(f"{function}: `cells` has the shape (n, 3), got {host.shape}")
    if host.dtype.kind not in "iu":
        raise TypeError(f"{function}: `cells` are integers, got {host.dtype}")
    if not np.array_equal(host, host.astype(np.int32)):
        raise ValueError(f"{function}: `cells` are integers of 32 bits, got {host.min()} to {host.max()}")
    return wp.array(host.astype(np.int32), dtype=wp.vec3i, device=device)


def _require_corner_values(function: str, values: Any, count: int, device: Any) -> Any:
    """Return the values at the corners as an array of float32 of shape ``(count, 8)``."""
    if not isinstance(values, wp.array):
        values = wp.array(np.asarray(values, np.float32), dtype=float, device=device)
    if values.dtype != wp.float32:
        raise TypeError(f"{function}: `corner_values` is an array of float32, got {values.dtype.__name__}")
    if values.shape not in ((count, 8), (8 * count,)):
        raise ValueError(f"{function}: `corner_values` has the shape ({count}, 8), got {values.shape}")
    if values.device != device:
        raise ValueError(f"{function}: `corner_values` is on {values.device}, and the surface is made on {device}")
    if values.ndim == 2:
        return values
    return values.contiguous().reshape((count, 8))


def _place_of(device: Any, *arrays: Any) -> Any:
    """Return the device of a call: the one given, else that of the first array, else the current one."""
    if device is None:
        device = next((a.device for a in arrays if isinstance(a, wp.array)), None)
    return wp.get_device(device)


def _range_of(function: str, cells: Any) -> tuple[list[int], int]:
    """Return the least subscripts, and how many bits the corners' distances from them have."""
    least = wp.full(1, wp.vec3i(2**31 - 1), dtype=wp.vec3i, device=cells.device)
    most = wp.full(1, wp.vec3i(-(2**31)), dtype=wp.vec3i, device=cells.device)
    wp.launch(_bound, dim=cells.size, inputs=[cells, least, most], device=cells.device)
    low, high = (a.numpy()[0].astype(np.int64) for a in (least, most))
    last = int((high - low).max()) + 1
    if last >= MOST_NODES:
        spans = f"{low.tolist()} to {high.tolist()}"
        raise ValueError(f"{function}: `cells` span at most {MOST_NODES - 1} cells along each axis, got {spans}")
    return low.tolist(), last.bit_length()


def sparse_marching_cubes_from_cells(
    cells: Any,
    corner_values: Any,
    origin: Any = (0.0, 0.0, 0.0),
    cell_width: float = 1.0,
    threshold: float = 0.0,
    device: Any = None,
) -> tuple[Any, Any]:
    """Return the vertices and the indices of a surface in given cells of a grid, by marching cubes.

    Cells next to each other share vertices, so the surface is closed where the cells have all of it. Give each cell
    once. The values at a corner that several cells share should be equal; the first of the cells that see an edge
    crossed places the vertex on it.

    A tape differentiates the vertices with respect to ``corner_values``. Of a shared corner's values, the one that
    placed the vertex gets the gradient.

    Args:
        cells: The subscripts of the cells' first corners, positive or not: an array of vec3i, or of int32 and shape
            ``(n, 3)``, or what NumPy makes such an array of.
        corner_values: The values at the corners, float32 of shape ``(n, 8)`` or ``(8 n,)``, in the order of
            ``IsoSurfaceMarchingCubes.CUBE_CORNER_OFFSETS``; an array, or what NumPy makes one of.
        origin: Where the corner ``(0, 0, 0)`` lies, three numbers.
        cell_width: The length of a cell's edge.
        threshold: The value on the surface.
        device: Where to work; None for the device of the arrays, or the current one.

    Returns:
        An array of ``wp.vec3``, and one of int32 with three numbers for each triangle.

    Raises:
        ValueError: Shapes or devices do not fit; ``cell_width`` is not positive; or the cells span 2097151 cells or
            more along an axis.
        TypeError: ``cells`` are no integers, or ``corner_values`` an array of another dtype.
        RuntimeError: The thread captures a graph: the size of the result has to be known.

    Example:
        >>> import warp_like.geometry
        >>> outside = [[-1, 1, 1, 1, 1, 1, 1, 1]]  # all corners but the first one
        >>> verts, indices = wp.geometry.sparse_marching_cubes_from_cells([[0, 0, 0]], outside)
        >>> sorted(verts.numpy().tolist()), indices.size
        ([[0.0, 0.0, 0.5], [0.0, 0.5, 0.0], [0.5, 0.0, 0.0]], 3)
    """
    function = "sparse_marching_cubes_from_cells()"
    threshold = require_threshold(function, threshold)
    require_corner(function, "origin", origin)
    width = require_positive(function, "cell_width", cell_width)
    refuse_capture(function)
    where = _place_of(device, corner_values, cells)
    with paused():
        cells = _require_cells(function, cells, where)
    values = _require_corner_values(function, corner_values, cells.size, where)
    if not cells.size:
        return nothing(where, values.requires_grad)
    with paused():
        low, bits = _range_of(function, cells)
        least = wp.vec3i(*low)
        numbers, nodes = number_corners(cells, least, bits)
    begin = wp.vec3(*(float(x) + width * i for x, i in zip(origin, low, strict=True)))  # computed in float64
    return extract(cells, least, numbers, nodes.size, values, threshold, begin, wp.vec3(width))


def require_positive(function: str, name: str, value: Any) -> float:
    """Return a positive number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{function}: `{name}` is a number, got {value!r}") from None
    if not 0 < number < math.inf:
        raise ValueError(f"{function}: `{name}` is positive, got {value!r}")
    return number


def require_count(function: str, name: str, value: Any, least: int, most: int) -> int:
    """Return an integer in a range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{function}: `{name}` is an integer, got {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{function}: `{name}` is from {least} to {most}, got {number}")
    return number
