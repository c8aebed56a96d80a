"""Surface nets: the surface of a field on a grid as quads with one vertex inside of each cube that it crosses.

The polygons of marching cubes (``cube_cases``) divide a cube's crossed edges into groups, one for each sheet of the
surface that passes through the cube. A group becomes a vertex: the mean of the places where its edges are crossed. A
crossed edge with four cubes around it becomes a quad of their vertices. So the quads are the dual of the polygons,
which are a closed surface without cracks, and each edge of a quad crosses a face of a cube where polygons have a side.

One thing can go wrong: where the corners of a face alternate, two sides lie in it, and if both belong to one polygon in
either cube, then one edge has four quads. Of the 256 cases, 36 have such a face, and each has only one. If both cubes
of a face have it as theirs, both take the groups of the opposite case, in which the sides are of two polygons.

Vertices are numbered word by word (``node_bits``), within a word cube by cube. Bit planes say which cubes have more
than n vertices, so the number of a cube's first vertex is the word's first number plus bit counts.

Methods: S. Gibson, "Constrained elastic surface nets", MICCAI 1998; a vertex for each sheet as in G. Nielson, "Dual
marching cubes", IEEE Visualization 2004; the rule for the 36 cases as in R. Wenger, "Isosurfaces", 2013, and OpenVDB.
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

TOPOLOGIES = {"triangle": 6, "quad": 4}
"""How many indices a crossed edge gives."""

EDGE_BITS = 4
COUNT_AT = 48
FACE_AT = 52


def _packed_groups(case: int) -> int:
    """Return 4 bits for each edge: its group, from 1 on; then the number of groups, and 1 + the face of the rule."""
    polygons, packed = cube_cases.polygons(case), 0
    for group, polygon in enumerate(polygons):
        for edge in polygon:
            packed |= (group + 1) << EDGE_BITS * edge
        face = cube_cases.twice_crossed_face(polygon)
        if face is not None:
            packed |= (face + 1) << FACE_AT
    return packed | len(polygons) << COUNT_AT


_GROUPS = np.array([_packed_groups(case) for case in range(256)], np.uint64)
_EDGES = np.array(cube_cases.EDGE_PLACES, np.int32)

_AROUND = ((1, 1), (0, 1), (0, 0), (1, 0))
"""How far back the four cubes around an edge begin, along the two next axes; counter-clockwise as its end sees them."""


def _edge_of(axis: int, back: tuple[int, int]) -> int:
    place = [0, 0, 0]
    place[(axis + 1) % 3], place[(axis + 2) % 3] = back
    return cube_cases.EDGE_PLACES.index((*place, axis))


_LOCAL_EDGES = np.array([[_edge_of(axis, back) for back in _AROUND] for axis in range(3)], np.int32)
"""Which edge of each of these cubes it is."""


@wp.func
def _digit(packed: wp.uint64, at: int) -> int:
    return int((packed >> wp.uint64(at)) & wp.uint64(15))


@wp.func
def _settled_case(
    outside: wp.array3d[wp.uint32], nz: int, groups: wp.array[wp.uint64], i: int, j: int, word: int, bit: wp.uint32
) -> int:
    """Return the case that gives a cube's groups."""
    case = case_of(outside, i, j, word, bit)
    face = _digit(groups[case], FACE_AT) - 1
    if face < 0:
        return case
    other = wp.vec3i(i, j, word * WORD + int(bit))
    other[2 - face // 2] += 2 * (face % 2) - 1  # the faces of z come first, and the lower one of each axis
    last = wp.vec3i(outside.shape[0] - 1, outside.shape[1] - 1, nz - 1)
    for axis in range(3):
        if other[axis] < 0 or other[axis] >= last[axis]:
            return case
    word_of_other = other[2] // WORD
    bit_of_other = wp.uint32(other[2] - word_of_other * WORD)
    neighbor = case_of(outside, other[0], other[1], word_of_other, bit_of_other)
    if _digit(groups[neighbor], FACE_AT) - 1 == (face ^ 1):
        return 255 - case
    return case


@wp.func
def _kept(packed: wp.uint64, edges: wp.array[wp.vec4i], cube: wp.vec3i, last: wp.vec3i) -> wp.uint32:
    """Return the bits of the groups of a cube that have an edge with four cubes around it."""
    count = _digit(packed, COUNT_AT)
    inner = True
    for axis in range(3):
        inner = inner and cube[axis] > 0 and cube[axis] + 1 < last[axis]
    if inner:
        return (wp.uint32(1) << wp.uint32(count)) - wp.uint32(1)
    kept = wp.uint32(0)
    for e in range(12):
        group = _digit(packed, EDGE_BITS * e)
        if group > 0:
            place = edges[e]
            b, c = (place[3] + 1) % 3, (place[3] + 2) % 3
            x, y = cube[b] + place[b], cube[c] + place[c]
            if x > 0 and x < last[b] and y > 0 and y < last[c]:
                kept |= wp.uint32(1) << wp.uint32(group - 1)
    return kept


@wp.func
def _surrounded_edges(outside: wp.array3d[wp.uint32], nz: int, i: int, j: int, word: int) -> wp.vec3ui:
    """Return the crossed edges along each axis that begin at the nodes of a word and have four cubes around them."""
    nx, ny = outside.shape[0], outside.shape[1]
    bits = outside[i, j, word]
    follow = with_next(word, nz)
    inner = wp.where(word == 0, follow & ~wp.uint32(1), follow)
    edges = wp.vec3ui()
    if i + 1 < nx and j > 0 and j + 1 < ny:
        edges[0] = (bits ^ outside[i + 1, j, word]) & inner
    if j + 1 < ny and i > 0 and i + 1 < nx:
        edges[1] = (bits ^ outside[i, j + 1, word]) & inner
    if i > 0 and i + 1 < nx and j > 0 and j + 1 < ny:
        edges[2] = (bits ^ shifted(outside, i, j, word)) & follow
    return edges


@wp.kernel(enable_backward=False)
def _count(
    outside: wp.array3d[wp.uint32],
    nz: int,
    groups: wp.array[wp.uint64],
    edges: wp.array[wp.vec4i],
    planes: wp.array3d[wp.vec4ui],
    vertices: wp.array3d[wp.int64],
    quads: wp.array3d[wp.int64],
) -> None:
    """Count the vertices of the cubes of a word, and the quads around the edges of its nodes."""
    i, j, word = wp.tid()
    last = wp.vec3i(outside.shape[0] - 1, outside.shape[1] - 1, nz - 1)
    more = wp.vec4ui()
    total = 0
    cubes = mixed_cubes(outside, i, j, word, nz)
    while cubes != wp.uint32(0):
        bit = lowest(cubes)
        case = _settled_case(outside, nz, groups, i, j, word, bit)
        count = wp.bit_count(_kept(groups[case], edges, wp.vec3i(i, j, word * WORD + int(bit)), last))
        for n in range(4):
            more[n] |= wp.where(count > n, wp.uint32(1) << bit, wp.uint32(0))
        total += count
        cubes &= cubes - wp.uint32(1)
    planes[i, j, word] = more
    vertices[i, j, word] = wp.int64(total)
    crossed = _surrounded_edges(outside, nz, i, j, word)
    quads[i, j, word] = wp.int64(wp.bit_count(crossed[0]) + wp.bit_count(crossed[1]) + wp.bit_count(crossed[2]))


@wp.kernel(enable_backward=False)
def _list_vertices(
    outside: wp.array3d[wp.uint32],
    nz: int,
    groups: wp.array[wp.uint64],
    edges: wp.array[wp.vec4i],
    planes: wp.array3d[wp.vec4ui],
    starts: wp.array3d[wp.int64],
    cells: wp.array[wp.vec3i],
    sheets: wp.array[wp.vec2i],
) -> None:
    i, j, word = wp.tid()
    last = wp.vec3i(outside.shape[0] - 1, outside.shape[1] - 1, nz - 1)
    vertex = int(starts[i, j, word])
    some = planes[i, j, word]
    cubes = some[0]
    while cubes != wp.uint32(0):
        bit = lowest(cubes)
        cube = wp.vec3i(i, j, word * WORD + int(bit))
        case = _settled_case(outside, nz, groups, i, j, word, bit)
        kept = _kept(groups[case], edges, cube, last)
        while kept != wp.uint32(0):
            cells[vertex] = cube
            sheets[vertex] = wp.vec2i(case, int(lowest(kept)) + 1)
            vertex += 1
            kept &= kept - wp.uint32(1)
        cubes &= cubes - wp.uint32(1)


@wp.func
def _vertex_of(
    outside: wp.array3d[wp.uint32],
    nz: int,
    groups: wp.array[wp.uint64],
    edges: wp.array[wp.vec4i],
    planes: wp.array3d[wp.vec4ui],
    starts: wp.array3d[wp.int64],
    cube: wp.vec3i,
    edge: int,
) -> int:
    """Return the number of a cube's vertex to which an edge belongs."""
    i, j, word = cube[0], cube[1], cube[2] // WORD
    bit = wp.uint32(cube[2] - word * WORD)
    below = (wp.uint32(1) << bit) - wp.uint32(1)
    more = planes[i, j, word]
    vertex = int(starts[i, j, word])
    for n in range(4):
        vertex += wp.bit_count(more[n] & below)
    if (more[1] >> bit) & wp.uint32(1) != wp.uint32(0):  # the cube has several
        packed = groups[_settled_case(outside, nz, groups, i, j, word, bit)]
        last = wp.vec3i(outside.shape[0] - 1, outside.shape[1] - 1, nz - 1)
        group = _digit(packed, EDGE_BITS * edge)
        before = (wp.uint32(1) << wp.uint32(group - 1)) - wp.uint32(1)
        vertex += wp.bit_count(_kept(packed, edges, cube, last) & before)
    return vertex


@wp.kernel(enable_backward=False)
def _write_faces(
    outside: wp.array3d[wp.uint32],
    nz: int,
    groups: wp.array[wp.uint64],
    edges: wp.array[wp.vec4i],
    planes: wp.array3d[wp.vec4ui],
    vertex_starts: wp.array3d[wp.int64],
    quad_starts: wp.array3d[wp.int64],
    around: wp.array[wp.vec2i],
    local_edges: wp.array2d[int],
    size: int,
    indices: wp.array[int],
) -> None:
    i, j, word = wp.tid()
    crossed = _surrounded_edges(outside, nz, i, j, word)
    at = size * int(quad_starts[i, j, word])
    for axis in range(3):
        bits = crossed[axis]
        while bits != wp.uint32(0):
            bit = lowest(bits)
            quad = wp.vec4i()
            for n in range(4):
                cube = wp.vec3i(i, j, word * WORD + int(bit))
                cube[(axis + 1) % 3] -= around[n][0]
                cube[(axis + 2) % 3] -= around[n][1]
                quad[n] = _vertex_of(outside, nz, groups, edges, planes, vertex_starts, cube, local_edges[axis, n])
            if (outside[i, j, word] >> bit) & wp.uint32(1) != wp.uint32(0):  # the edge leads inside
                quad = wp.vec4i(quad[3], quad[2], quad[1], quad[0])
            for n in range(3):
                indices[at + n] = quad[n]
            if size == 4:
                indices[at + 3] = quad[3]
            else:
                indices[at + 3] = quad[0]
                indices[at + 4] = quad[2]
                indices[at + 5] = quad[3]
            at += size
            bits &= bits - wp.uint32(1)


@wp.kernel
def _place_vertices(
    field: wp.array3d[float],
    threshold: float,
    lower: wp.vec3,
    spacing: wp.vec3,
    groups: wp.array[wp.uint64],
    edges: wp.array[wp.vec4i],
    cells: wp.array[wp.vec3i],
    sheets: wp.array[wp.vec2i],
    verts: wp.array[wp.vec3],
) -> None:
    vertex = wp.tid()
    cell = cells[vertex]
    packed = groups[sheets[vertex][0]]
    total = wp.vec3()
    count = 0.0
    for e in range(12):
        if _digit(packed, EDGE_BITS * e) == sheets[vertex][1]:
            edge = edges[e]
            end = wp.vec3i(edge[0], edge[1], edge[2])
            node = cell + end
            end[edge[3]] += 1
            end += cell
            t = fraction(field[node[0], node[1], node[2]], field[end[0], end[1], end[2]], threshold)
            place = wp.vec3(float(edge[0]), float(edge[1]), float(edge[2]))
            place[edge[3]] += t
            total += place
            count += 1.0
    corner = wp.vec3(float(cell[0]), float(cell[1]), float(cell[2]))
    verts[vertex] = lower + wp.cw_mul(corner + total / count, spacing)


def _topology(field: Any, threshold: float, size: int) -> tuple[Any, ...]:
    """Return the tables of groups and edges, the cube and the group of each vertex, and the indices of the faces."""
    device, nz = field.device, field.shape[2]
    groups = wp.array(_GROUPS, dtype=wp.uint64, device=device)
    edges = wp.array(_EDGES, dtype=wp.vec4i, device=device)
    outside = outside_bits(field, threshold)
    shape = outside.shape
    planes = wp.empty(shape, dtype=wp.vec4ui, device=device)
    vertices, quads = (wp.empty(shape, dtype=wp.int64, device=device) for _ in range(2))
    grid = [outside, nz, groups, edges, planes]
    wp.launch(_count, dim=shape, inputs=[*grid, vertices, quads], device=device)
    vertex_starts, vertex_count = scan(vertices, "vertices")
    quad_starts, quad_count = scan(quads, "quads", size)
    cells = wp.empty(vertex_count, dtype=wp.vec3i, device=device)
    sheets = wp.empty(vertex_count, dtype=wp.vec2i, device=device)
    indices = wp.empty(size * quad_count, dtype=int, device=device)
    if quad_count:
        wp.launch(_list_vertices, dim=shape, inputs=[*grid, vertex_starts, cells, sheets], device=device)
        around = wp.array(_AROUND, dtype=wp.vec2i, device=device)
        local_edges = wp.array(_LOCAL_EDGES, dtype=int, device=device)
        inputs = [*grid, vertex_starts, quad_starts, around, local_edges, size, indices]
        wp.launch(_write_faces, dim=shape, inputs=inputs, device=device)
    return groups, edges, cells, sheets, indices


def _require_topology(function: str, topology: Any) -> int:
    """Return how many indices a quad of this topology has."""
    if not isinstance(topology, str) or topology not in TOPOLOGIES:
        raise ValueError(f"{function}: `topology` is 'triangle' or 'quad', got {topology!r}")
    return TOPOLOGIES[topology]


class IsoSurfaceNets(IsoSurfaceBase):
    """Extracts the surface where a field takes a given value, as triangles or quads, by surface nets.

    Each cube that the surface crosses has a vertex inside of it, at the mean of the places where the surface crosses
    the cube's edges; where several sheets of the surface pass through the cube, each has one. The faces are more
    regular than those of marching cubes, and slivers are rare; corners of the surface are rounded a little. The surface
    is closed and every edge has two faces where it stays inside of the grid. Elsewhere it is open and ends up to one
    cube before the grid does, because a face needs four cubes around an edge.

    NaN counts as a value above the threshold; next to a value that is not finite, an edge is crossed at the finite one.

    Args:
        nx: Number of nodes of the grid along x, the first dimension of fields.
        ny: Number of nodes along y.
        nz: Number of nodes along z.
        lower: Where node ``(0, 0, 0)`` lies; None for the origin.
        upper: Where node ``(nx - 1, ny - 1, nz - 1)`` lies; None for these numbers.
        topology: ``"triangle"`` or ``"quad"``.

    Attributes:
        topology (str): As given.
        verts (array of vec3, or None): The vertices, once ``surface`` has been called.
        indices (array of int32, or None): Three vertices for each triangle or four for each quad, counter-clockwise as
            seen from the side of the larger values. The quad ``(a, b, c, d)`` is the triangles ``(a, b, c)`` and
            ``(a, c, d)``.

    Raises:
        TypeError: A number of nodes is not an integer.
        ValueError: ``topology`` is something else.

    Example:
        >>> import numpy as np
        >>> import warp_like.geometry
        >>> x = np.linspace(-1, 1, 33, dtype=np.float32)
        >>> distance = np.sqrt(x[:, None, None] ** 2 + x[:, None] ** 2 + x**2) - 0.5
        >>> nets = wp.geometry.IsoSurfaceNets(33, 33, 33, lower=(-1, -1, -1), upper=(1, 1, 1), topology="quad")
        >>> nets.surface(wp.array(distance, dtype=float), 0.0)
        >>> quads = nets.indices.numpy().reshape(-1, 4)
        >>> len(nets.verts) - 2 * len(quads) + len(quads)  # Euler's formula: a quad has four half edges
        2
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        *,
        lower: Bound = None,
        upper: Bound = None,
        topology: str = "triangle",
    ) -> None:
        _require_topology("IsoSurfaceNets()", topology)
        super().__init__(nx, ny, nz, lower=lower, upper=upper)
        self.topology = topology

    def surface(self, field: Any, threshold: float) -> None:
        """Extract the surface of a field to ``verts`` and ``indices``.

        Args:
            field: An array of float32 of shape ``(nx, ny, nz)``.
            threshold: The value on the surface.

        Raises:
            ValueError: As ``extract`` raises it; or the field has another shape.
            TypeError: As ``extract`` raises it.
        """
        require_field("IsoSurfaceNets.surface()", field)
        self._require_shape("IsoSurfaceNets.surface()", field)
        bounds = {"lower": self.lower, "upper": self.upper}
        self.verts, self.indices = self.extract(field, threshold, topology=self.topology, **bounds)

    @classmethod
    def extract(
        cls,
        field: Any,
        threshold: float = 0.0,
        *,
        lower: Bound = None,
        upper: Bound = None,
        topology: str = "triangle",
    ) -> tuple[Any, Any]:
        """Return the vertices and the indices of the surface of a field.

        A tape differentiates the vertices with respect to the field. Which edges the surface crosses is held.

        Args:
            field: An array of float32 with three dimensions and at least two nodes along each.
            threshold: The value on the surface.
            lower: Where the first node lies; None for the origin.
            upper: Where the last node lies; None for nodes that are one apart.
            topology: ``"triangle"`` or ``"quad"``.

        Returns:
            An array of ``wp.vec3``, and one of int32 with three numbers for each triangle or four for each quad.

        Raises:
            ValueError: The field has another number of dimensions or fewer than two nodes along one; the threshold is
                NaN; a bound is not finite; ``topology`` is unknown; or the surface has more than ``2**31 - 1`` indices.
            TypeError: The field is no array of float32, or the threshold or a bound are no numbers.
            RuntimeError: The thread captures a graph: the size of the result has to be known.
        """
        function = "IsoSurfaceNets.extract()"
        require_field(function, field)
        threshold = require_threshold(function, threshold)
        size = _require_topology(function, topology)
        begin, spacing = place_domain(function, field.shape, lower, upper)
        refuse_capture(function)
        with paused():
            groups, edges, cells, sheets, indices = _topology(field, threshold, size)
        verts = wp.empty(cells.size, dtype=wp.vec3, device=field.device, requires_grad=field.requires_grad)
        inputs = [field, threshold, begin, spacing, groups, edges, cells, sheets]
        wp.launch(_place_vertices, dim=cells.size, inputs=inputs, outputs=[verts], device=field.device)
        return verts, indices
