"""Marching cubes: the surface of a field on a grid as triangles that share their vertices.

The field is read once, to one bit for each node: whether it lies outside. All counting is done on words of 32 such
bits, neighbours along z. An edge is crossed where its nodes' bits differ, so the crossed edges of a word are an
exclusive-or, and their number is a bit count. Vertices are numbered word by word; within a word first those on edges
along x, then along y, then along z. So the number of an edge's vertex is the word's first number plus a bit count, and
no array of the size of the grid holds numbers.

Vertices are then placed by a kernel with one thread for each, the only launch that a tape records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import warp_like as wp
from warp_like.geometry import cube_cases
from warp_like.geometry.iso_surface import Bound, IsoSurfaceBase, place_domain, require_field, require_threshold
from warp_like.geometry.node_bits import (
    WORD,
    case_of,
    fraction,
    lowest,
    mixed_cubes,
    outside_bits,
    scan,
    shifted,
    with_next,
)
from warp_like.runtime.memory.recorder import paused, refuse_capture

_RANGES = np.array(cube_cases.CASE_TO_TRI_RANGE, np.int32)
_LOCAL = np.array(cube_cases.TRI_LOCAL_INDICES, np.int32)
_EDGES = np.array(cube_cases.EDGE_PLACES, np.int32)


@wp.kernel(enable_backward=False)
def _count(
    outside: wp.array3d[wp.uint32],
    nz: int,
    ranges: wp.array[int],
    crossed: wp.array3d[wp.vec3ui],
    vertices: wp.array3d[wp.int64],
    corners: wp.array3d[wp.int64],
) -> None:
    """Find the crossed edges that begin at the nodes of a word; count them, and the corners of triangles."""
    i, j, word = wp.tid()
    bits = outside[i, j, word]
    along = wp.vec3ui()
    if i + 1 < outside.shape[0]:
        along[0] = bits ^ outside[i + 1, j, word]
    if j + 1 < outside.shape[1]:
        along[1] = bits ^ outside[i, j + 1, word]
    along[2] = (bits ^ shifted(outside, i, j, word)) & with_next(word, nz)
    crossed[i, j, word] = along
    vertices[i, j, word] = wp.int64(wp.bit_count(along[0]) + wp.bit_count(along[1]) + wp.bit_count(along[2]))
    total = 0
    cubes = mixed_cubes(outside, i, j, word, nz)
    while cubes != wp.uint32(0):
        case = case_of(outside, i, j, word, lowest(cubes))
        total += ranges[case + 1] - ranges[case]
        cubes &= cubes - wp.uint32(1)
    corners[i, j, word] = wp.int64(total)


@wp.kernel(enable_backward=False)
def _list_edges(crossed: wp.array3d[wp.vec3ui], starts: wp.array3d[wp.int64], edges: wp.array[wp.vec4i]) -> None:
    i, j, word = wp.tid()
    along = crossed[i, j, word]
    vertex = int(starts[i, j, word])
    for axis in range(3):
        bits = along[axis]
        while bits != wp.uint32(0):
            edges[vertex] = wp.vec4i(i, j, word * WORD + int(lowest(bits)), axis)
            vertex += 1
            bits &= bits - wp.uint32(1)


@wp.func
def _vertex_of(crossed: wp.array3d[wp.vec3ui], starts: wp.array3d[wp.int64], i: int, j: int, k: int, axis: int) -> int:
    """Return the number of the vertex on an edge, which is crossed."""
    word = k // WORD
    along = crossed[i, j, word]
    before = (wp.uint32(1) << wp.uint32(k - word * WORD)) - wp.uint32(1)
    vertex = int(starts[i, j, word])
    if axis == 0:
        return vertex + wp.bit_count(along[0] & before)
    vertex += wp.bit_count(along[0])
    if axis == 1:
        return vertex + wp.bit_count(along[1] & before)
    return vertex + wp.bit_count(along[1]) + wp.bit_count(along[2] & before)


@wp.kernel(enable_backward=False)
def _write_triangles(
    outside: wp.array3d[wp.uint32],
    nz: int,
    ranges: wp.array[int],
    local: wp.array[int],
    places: wp.array[wp.vec4i],
    crossed: wp.array3d[wp.vec3ui],
    vertex_starts: wp.array3d[wp.int64],
    corner_starts: wp.array3d[wp.int64],
    indices: wp.array[int],
) -> None:
    i, j, word = wp.tid()
    cubes = mixed_cubes(outside, i, j, word, nz)
    corner = int(corner_starts[i, j, word])
    while cubes != wp.uint32(0):
        bit = lowest(cubes)
        k = word * WORD + int(bit)
        case = case_of(outside, i, j, word, bit)
        for n in range(ranges[case], ranges[case + 1]):
            place = places[local[n]]
            indices[corner] = _vertex_of(crossed, vertex_starts, i + place[0], j + place[1], k + place[2], place[3])
            corner += 1
        cubes &= cubes - wp.uint32(1)


@wp.kernel
def _place_vertices(
    field: wp.array3d[float],
    threshold: float,
    lower: wp.vec3,
    spacing: wp.vec3,
    edges: wp.array[wp.vec4i],
    verts: wp.array[wp.vec3],
) -> None:
    vertex = wp.tid()
    edge = edges[vertex]
    i, j, k, axis = edge[0], edge[1], edge[2], edge[3]
    end = wp.vec3i(i, j, k)
    end[axis] += 1
    t = fraction(field[i, j, k], field[end[0], end[1], end[2]], threshold)
    node = wp.vec3(float(i), float(j), float(k))
    node[axis] += t
    verts[vertex] = lower + wp.cw_mul(node, spacing)


def _topology(field: Any, threshold: float) -> tuple[Any, Any]:
    """Return the edges that the surface crosses, one for each vertex, and the indices of the triangles."""
    device, nz = field.device, field.shape[2]
    ranges = wp.array(_RANGES, dtype=int, device=device)
    local = wp.array(_LOCAL, dtype=int, device=device)
    places = wp.array(_EDGES, dtype=wp.vec4i, device=device)
    outside = outside_bits(field, threshold)
    shape = outside.shape
    crossed = wp.empty(shape, dtype=wp.vec3ui, device=device)
    vertices, corners = (wp.empty(shape, dtype=wp.int64, device=device) for _ in range(2))
    wp.launch(_count, dim=shape, inputs=[outside, nz, ranges, crossed, vertices, corners], device=device)
    vertex_starts, vertex_count = scan(vertices, "vertices")
    corner_starts, corner_count = scan(corners, "indices")
    edges = wp.empty(vertex_count, dtype=wp.vec4i, device=device)
    indices = wp.empty(corner_count, dtype=int, device=device)
    if vertex_count:
        wp.launch(_list_edges, dim=shape, inputs=[crossed, vertex_starts, edges], device=device)
    if corner_count:
        grids = [crossed, vertex_starts, corner_starts]
        inputs = [outside, nz, ranges, local, places, *grids, indices]
        wp.launch(_write_triangles, dim=shape, inputs=inputs, device=device)
    return edges, indices


def _either(lower: Bound, upper: Bound, older_lower: Bound, older_upper: Bound) -> tuple[Bound, Bound]:
    """Return the bounds, which may be given under the names that they had in Warp before 1.18."""
    for name, new, old in (("lower", lower, older_lower), ("upper", upper, older_upper)):
        if new is not None and old is not None:
            raise TypeError(f"Cannot specify both `{name}` and `domain_bounds_{name}_corner`")
    return (older_lower if lower is None else lower), (older_upper if upper is None else upper)


class IsoSurfaceMarchingCubes(IsoSurfaceBase):
    """Extracts the surface where a field takes a given value, as triangles, by marching cubes.

    Triangles share their vertices, and the surface is closed except where it leaves the grid. Where the corners of a
    cube's face alternate, the corners with the larger values are separated from each other. NaN counts as a value
    above the threshold; next to a value that is not finite, the vertex lies at the finite one.

    ``wp.MarchingCubes`` is this class, too.

    Args:
        nx: Number of nodes of the grid along x, the first dimension of fields.
        ny: Number of nodes along y.
        nz: Number of nodes along z.
        lower: Where node ``(0, 0, 0)`` lies; None for the origin.
        upper: Where node ``(nx - 1, ny - 1, nz - 1)`` lies; None for these numbers.
        domain_bounds_lower_corner: Another name of ``lower``.
        domain_bounds_upper_corner: Another name of ``upper``.

    Attributes:
        verts (array of vec3, or None): The vertices, once ``surface`` has been called.
        indices (array of int32, or None): Three vertices for each triangle, counter-clockwise as seen from the side
            of the larger values.
        CUBE_CORNER_OFFSETS (tuple): Offsets of the 8 corners of a cube. Bit ``i`` of a case is set where corner ``i``
            is not below the threshold.
        EDGE_TO_CORNERS (tuple): The two corners of each of the 12 edges.
        CASE_TO_TRI_RANGE (tuple): Where each case begins in ``TRI_LOCAL_INDICES``; 257 numbers.
        TRI_LOCAL_INDICES (tuple): Three edges for each triangle of each case.

    Raises:
        TypeError: A number of nodes is not an integer, or a bound is given by both of its names.

    Example:
        >>> import numpy as np
        >>> import warp_like.geometry
        >>> x = np.linspace(-1, 1, 33, dtype=np.float32)
        >>> distance = np.sqrt(x[:, None, None] ** 2 + x[:, None] ** 2 + x**2) - 0.5
        >>> cubes = wp.geometry.IsoSurfaceMarchingCubes(33, 33, 33, lower=(-1, -1, -1), upper=(1, 1, 1))
        >>> cubes.surface(wp.array(distance, dtype=float), 0.0)
        >>> bool(np.allclose(np.linalg.norm(cubes.verts.numpy(), axis=1), 0.5, atol=2e-3))
        True
    """

    CUBE_CORNER_OFFSETS = cube_cases.CORNERS
    EDGE_TO_CORNERS = cube_cases.EDGES
    CASE_TO_TRI_RANGE = cube_cases.CASE_TO_TRI_RANGE
    TRI_LOCAL_INDICES = cube_cases.TRI_LOCAL_INDICES

    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        lower: Bound = None,
        upper: Bound = None,
        *,
        domain_bounds_lower_corner: Bound = None,
        domain_bounds_upper_corner: Bound = None,
    ) -> None:
        lower, upper = _either(lower, upper, domain_bounds_lower_corner, domain_bounds_upper_corner)
        super().__init__(nx, ny, nz, lower=lower, upper=upper)

    @property
    def domain_bounds_lower_corner(self) -> Bound:
        """Another name of ``lower``."""
        return self.lower

    @domain_bounds_lower_corner.setter
    def domain_bounds_lower_corner(self, corner: Bound) -> None:
        self.lower = corner

    @property
    def domain_bounds_upper_corner(self) -> Bound:
        """Another name of ``upper``."""
        return self.upper

    @domain_bounds_upper_corner.setter
    def domain_bounds_upper_corner(self, corner: Bound) -> None:
        self.upper = corner

    def surface(self, field: Any, threshold: float) -> None:
        """Extract the surface of a field to ``verts`` and ``indices``.

        Args:
            field: An array of float32 of shape ``(nx, ny, nz)``.
            threshold: The value on the surface.

        Raises:
            ValueError: As ``extract`` raises it; or the field has another shape.
            TypeError: As ``extract`` raises it.
        """
        require_field("IsoSurfaceMarchingCubes.surface()", field)
        self._require_shape("IsoSurfaceMarchingCubes.surface()", field)
        self.verts, self.indices = self.extract(field, threshold, lower=self.lower, upper=self.upper)

    @classmethod
    def extract(
        cls, field: Any, threshold: float = 0.0, *, lower: Bound = None, upper: Bound = None
    ) -> tuple[Any, Any]:
        """Return the vertices and the indices of the surface of a field.

        A tape differentiates the vertices with respect to the field. Which edges the surface crosses is held.

        Args:
            field: An array of float32 with three dimensions and at least two nodes along each.
            threshold: The value on the surface.
            lower: Where the first node lies; None for the origin.
            upper: Where the last node lies; None for nodes that are one apart.

        Returns:
            An array of ``wp.vec3``, and one of int32 with three numbers for each triangle.

        Raises:
            ValueError: The field has another number of dimensions or fewer than two nodes along one; the threshold is
                NaN; a bound is not finite; or the surface has more than ``2**31 - 1`` indices.
            TypeError: The field is no array of float32, or the threshold or a bound are no numbers.
            RuntimeError: The thread captures a graph: the size of the result has to be known.
        """
        function = "IsoSurfaceMarchingCubes.extract()"
        require_field(function, field)
        threshold = require_threshold(function, threshold)
        begin, spacing = place_domain(function, field.shape, lower, upper)
        refuse_capture(function)
        with paused():
            edges, indices = _topology(field, threshold)
        verts = wp.empty(edges.size, dtype=wp.vec3, device=field.device, requires_grad=field.requires_grad)
        inputs = [field, threshold, begin, spacing, edges]
        wp.launch(_place_vertices, dim=edges.size, inputs=inputs, outputs=[verts], device=field.device)
        return verts, indices

    @staticmethod
    def extract_surface_marching_cubes(
        field: Any,
        threshold: float = 0.0,
        domain_bounds_lower_corner: Bound = None,
        domain_bounds_upper_corner: Bound = None,
    ) -> tuple[Any, Any]:
        """Do as ``extract``, which replaces this name in Warp from 1.18 on.

        Args:
            field: As in ``extract``.
            threshold: As in ``extract``.
            domain_bounds_lower_corner: ``lower`` of ``extract``.
            domain_bounds_upper_corner: ``upper`` of ``extract``.
        """
        return IsoSurfaceMarchingCubes.extract(
            field, threshold, lower=domain_bounds_lower_corner, upper=domain_bounds_upper_corner
        )
