"""The triangles of marching cubes for each of the 256 cases of a cube, derived from the cube's faces.

A case is a number of 8 bits: bit ``i`` is set where corner ``i`` lies outside, that is, where its value is not below
the threshold. The surface crosses each edge of the cube whose corners differ, once.

On a face of the cube, walk around it counter-clockwise as seen from outside of the cube. Each run of outside corners
gets one segment: from the edge by which the walk leaves the run back to the edge by which it entered. So where the
corners of a face alternate, its two outside corners are separated from each other, and the inside corners are
connected. The rule depends on the face's own four corners alone, so two cubes that share a face have the same segments
on it: the surface has no cracks.

A crossed edge lies on two faces, and their walks take it in opposite directions. It is the start of one segment and the
end of another one, and the segments join to closed polygons. Diagonals divide polygons into triangles. A diagonal
between two edges of one face would lie in that face, where the neighbour may draw the same one; then an edge of the
surface would have four triangles. ``_divide`` finds the division with the fewest such diagonals, which are none for all
cases.

Method: W. Lorensen, H. Cline, "Marching cubes", SIGGRAPH 1987; the rule for faces as in C. Montani, R. Scateni, R.
Scopigno, "A modified look-up table for implicit disambiguation of marching cubes", The Visual Computer 10, 1994.
"""

from __future__ import annotations

import itertools

Triangle = tuple[int, int, int]

CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
"""Offsets of the corners of a cube, along x, y and z."""

EDGES = ((0, 1), (1, 2), (3, 2), (0, 3), (4, 5), (5, 6), (7, 6), (4, 7), (0, 4), (1, 5), (2, 6), (3, 7))
"""The corners of each edge; the first one is nearer to the origin."""

EDGE_PLACES = tuple(
    (*CORNERS[a], next(axis for axis in range(3) if CORNERS[a][axis] != CORNERS[b][axis])) for a, b in EDGES
)
"""Where each edge begins, relative to the cube, and its axis."""

FACES = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (3, 7, 6, 2), (0, 4, 7, 3), (1, 2, 6, 5))
"""The corners of each face, counter-clockwise as seen from outside of the cube."""

_EDGE_OF = {frozenset(corners): edge for edge, corners in enumerate(EDGES)}
_ON_FACE = tuple(frozenset(e for e, corners in enumerate(EDGES) if {*corners} <= {*face}) for face in FACES)


def _segments(case: int) -> dict[int, int]:
    """Return the segments on all faces: from edge to edge, with the inside on the same hand everywhere."""
    follows = {}
    for face in FACES:
        outside = [bool(case >> corner & 1) for corner in face]
        edges = [_EDGE_OF[frozenset((face[i], face[(i + 1) % 4]))] for i in range(4)]  # edge i leaves corner i
        for i in range(4):
            if outside[i] or not outside[(i + 1) % 4]:
                continue
            end = next(j % 4 for j in range(i + 1, i + 5) if outside[j % 4] and not outside[(j + 1) % 4])
            follows[edges[end]] = edges[i]
    return follows


def polygons(case: int) -> list[list[int]]:
    """Return the closed polygons of a case, each a list of the edges that it crosses."""
    follows, found = _segments(case), []
    while follows:
        polygon = [min(follows)]
        while (edge := follows.pop(polygon[-1])) != polygon[0]:
            polygon.append(edge)
        found.append(polygon)
    return found


def twice_crossed_face(polygon: list[int]) -> int | None:
    """Return the face of the cube in which two sides of a polygon lie; None where each has a face of its own."""
    return next((f for f, edges in enumerate(_ON_FACE) if edges <= {*polygon}), None)


def in_one_face(a: int, b: int) -> bool:
    """Whether the segment between two edges lies in a face of the cube."""
    return any({a, b} <= face for face in _ON_FACE)


def _divide(polygon: list[int]) -> tuple[int, list[Triangle]]:
    """Return the division of a polygon that has the fewest diagonals in faces, and how many these are."""
    if len(polygon) < 3:
        return 0, []
    first, last = polygon[0], polygon[-1]
    best: tuple[int, list[Triangle]] | None = None
    for i in range(1, len(polygon) - 1):  # the triangle at the polygon's side from last to first
        (below, left), (above, right) = _divide(polygon[: i + 1]), _divide(polygon[i:])
        cost = below + above + (i > 1 and in_one_face(first, polygon[i]))
        cost += i < len(polygon) - 2 and in_one_face(polygon[i], last)
        if best is None or cost < best[0]:
            best = cost, [*left, (first, polygon[i], last), *right]
    assert best is not None
    return best


def triangles(case: int) -> tuple[Triangle, ...]:
    """Return the triangles of a case, by edges, counter-clockwise as seen from the outside corners."""
    return tuple(t for polygon in polygons(case) for t in _divide(polygon)[1])


_CASES = tuple(triangles(case) for case in range(256))

TRI_LOCAL_INDICES = tuple(itertools.chain.from_iterable(t for case in _CASES for t in case))
"""The edges of all triangles, case after case."""

CASE_TO_TRI_RANGE = tuple(itertools.accumulate((3 * len(case) for case in _CASES), initial=0))
"""Where each case begins in ``TRI_LOCAL_INDICES``, and where the last one ends."""
