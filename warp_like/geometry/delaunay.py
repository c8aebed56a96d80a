"""Edge flips that make a triangulation of the plane Delaunay: no circumcircle has the apex of a neighbor inside.

Each pass claims, for every edge to flip, the two triangles beside it and the two whose links change, by an atomic
maximum of the edge's priority. An edge that holds all its claims is flipped, so flips of one pass touch no common
triangle, and the result does not depend on the order of threads. Priorities are hashes: with numbers that grow
along the mesh, each edge would lose to its neighbor, and a pass would flip one edge of a row.

An edge is flipped only if the in-circle determinant exceeds the bound of its rounding. So each flip truly lowers the
surface over the mesh lifted to the paraboloid, and the passes end, also where four points lie on a circle.

Methods: C. Lawson, "Software for C1 surface interpolation", 1977, for the flips; J. Shewchuk, "Adaptive precision
floating-point arithmetic and fast robust geometric predicates", 1997, for the determinant and its bound; D. Knuth,
"The art of computer programming", volume 3, section 6.4, for the hash.
"""

from __future__ import annotations

import math
from typing import Any

import warp_like as wp
from warp_like.geometry.adjacency import pair_half_edges, require_triangles, require_vertices
from warp_like.geometry.sparse_cubes import require_count

MOST_PASSES = 2**31 - 1

IN_CIRCLE_BOUND = (10 + 96 * 2.0**-53) * 2.0**-53
"""The rounding of the in-circle determinant in float64, as a part of the sum of its terms' sizes."""


@wp.func
def _double_area(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d) -> wp.float64:
    """Return twice the signed area of a triangle, positive if it is counter-clockwise."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@wp.func
def _is_in_circle(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d, d: wp.vec2d) -> bool:
    """Return whether ``d`` is for certain inside of the circumcircle of a counter-clockwise triangle."""
    a -= d
    b -= d
    c -= d
    lift_a, lift_b, lift_c = wp.dot(a, a), wp.dot(b, b), wp.dot(c, c)
    bc, cb = b[0] * c[1], c[0] * b[1]
    ca, ac = c[0] * a[1], a[0] * c[1]
    ab, ba = a[0] * b[1], b[0] * a[1]
    determinant = lift_a * (bc - cb) + lift_b * (ca - ac) + lift_c * (ab - ba)
    size = lift_a * (wp.abs(bc) + wp.abs(cb)) + lift_b * (wp.abs(ca) + wp.abs(ac)) + lift_c * (wp.abs(ab) + wp.abs(ba))
    return determinant > wp.float64(IN_CIRCLE_BOUND) * size


@wp.func
def _at(positions: wp.array[wp.vec2], i: int) -> wp.vec2d:
    return wp.vec2d(positions[i])


@wp.func
def _should_flip(
    positions: wp.array[wp.vec2],
    references: wp.array[wp.vec2],
    area_epsilon: wp.float64,
    ref_area_epsilon: wp.float64,
    vertices: wp.vec4i,
) -> bool:
    """Return whether to flip the edge ``(a, b)`` of the triangles ``(c, a, b)`` and ``(d, b, a)``."""
    for i in range(4):
        if vertices[i] < 0 or vertices[i] >= positions.shape[0]:
            return False  # a captured graph can't check its indices beforehand
    if vertices[2] == vertices[3]:
        return False
    a, b = _at(positions, vertices[0]), _at(positions, vertices[1])
    c, d = _at(positions, vertices[2]), _at(positions, vertices[3])
    half = wp.float64(0.5)
    if not (half * _double_area(c, a, d) > area_epsilon and half * _double_area(c, d, b) > area_epsilon):
        return False
    if not (_double_area(c, a, b) >= wp.float64(0.0) and _double_area(d, b, a) >= wp.float64(0.0)):
        return False
    if not _is_in_circle(c, a, b, d):
        return False
    if references:
        a, b = _at(references, vertices[0]), _at(references, vertices[1])
        c, d = _at(references, vertices[2]), _at(references, vertices[3])
        least = half * wp.min(wp.abs(_double_area(c, a, d)), wp.abs(_double_area(c, d, b)))
        return least > ref_area_epsilon
    return True


@wp.func
def _priority(half_edge: int) -> wp.uint32:
    """Return a number for each half edge, no two the same and none 0: Fibonacci hashing, which spreads any row."""
    return (wp.uint32(half_edge) + wp.uint32(1)) * wp.uint32(0x9E3779B1)


@wp.func
def _next(half_edge: int) -> int:
    """Return the next half edge of the same triangle."""
    return wp.where(half_edge % 3 == 2, half_edge - 2, half_edge + 1)


@wp.func
def _claimed(twins: wp.array[int], h: int) -> wp.vec4i:
    """Return the triangles that a flip changes, -1 for none: two beside the edge, two whose links move."""
    twin = twins[h]
    beside, other = twins[_next(h)], twins[_next(twin)]
    return wp.vec4i(h // 3, twin // 3, wp.where(beside < 0, -1, beside // 3), wp.where(other < 0, -1, other // 3))


@wp.kernel(enable_backward=False)
def _claim(
    indices: wp.array2d[int],
    twins: wp.array[int],
    positions: wp.array[wp.vec2],
    references: wp.array[wp.vec2],
    area_epsilon: wp.float64,
    ref_area_epsilon: wp.float64,
    claims: wp.array[wp.uint32],
) -> None:
    h = wp.tid()
    twin = twins[h]
    if twin <= h:
        return
    triangles = _claimed(twins, h)
    for i in range(4):
        for j in range(i):
            if triangles[i] >= 0 and triangles[i] == triangles[j]:
                return  # two of them share more than an edge, or one meets itself: no triangulation
    t, n = triangles[0], triangles[1]
    a, b = indices[t, (h + 1) % 3], indices[t, (h + 2) % 3]
    vertices = wp.vec4i(a, b, indices[t, h % 3], indices[n, twin % 3])
    if _should_flip(positions, references, area_epsilon, ref_area_epsilon, vertices):
        for i in range(4):
            if triangles[i] >= 0:
                wp.atomic_max(claims, triangles[i], _priority(h))


@wp.func
def _link(twins: wp.array[int], h: int, twin: int) -> None:
    twins[h] = twin
    if twin >= 0:
        twins[twin] = h


@wp.kernel(enable_backward=False)
def _flip(indices: wp.array2d[int], twins: wp.array[int], claims: wp.array[wp.uint32], flips: wp.array[int]) -> None:
    h = wp.tid()
    priority = _priority(h)
    if claims[h // 3] != priority:
        return  # before all else: the links of triangles that others hold change meanwhile
    twin = twins[h]
    if claims[twin // 3] != priority:
        return
    triangles = _claimed(twins, h)
    for i in range(2, 4):
        if triangles[i] >= 0 and claims[triangles[i]] != priority:
            return
    # (c, a, b) becomes (c, a, d), and (d, b, a) becomes (d, b, c)
    c, d = indices[h // 3, h % 3], indices[twin // 3, twin % 3]
    indices[h // 3, (h + 2) % 3] = d
    indices[twin // 3, (twin + 2) % 3] = c
    bc, ad = _next(h), _next(twin)
    beyond_bc, beyond_ad = twins[bc], twins[ad]
    _link(twins, h, beyond_ad)
    _link(twins, twin, beyond_bc)
    _link(twins, bc, ad)
    wp.atomic_add(flips, 0, 1)


@wp.kernel(enable_backward=False)
def _finish_pass(
    most_passes: int, flips: wp.array[int], passes: wp.array[int], total: wp.array[int], going: wp.array[int]
) -> None:
    total[0] += flips[0]
    passes[0] += 1
    going[0] = wp.where(flips[0] > 0 and passes[0] < most_passes, 1, 0)


def _require_points(function: str, name: str, points: Any, indices: Any, count: int | None) -> None:
    if not isinstance(points, wp.array):
        raise TypeError(f"{function}: `{name}` is an array of wp.vec2, got {points!r}")
    if points.dtype != wp.vec2:
        raise TypeError(f"{function}: `{name}` is an array of wp.vec2, got {points.dtype.__name__}")
    if points.ndim != 1:
        raise ValueError(f"{function}: `{name}` has one dimension, got shape {points.shape}")
    if points.device != indices.device:
        raise ValueError(f"{function}: `{name}` is on {indices.device} as `indices` are, got one on {points.device}")
    if count is not None and points.size != count:
        raise ValueError(f"{function}: `{name}` has as many points as `positions`, {count}, got {points.size}")


def _require_epsilon(function: str, name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{function}: `{name}` is a number, got {value!r}") from None
    if not 0 <= number < math.inf:
        raise ValueError(f"{function}: `{name}` is finite and not negative, got {value!r}")
    return number


def delaunay_edge_flip(
    positions: Any,
    indices: Any,
    ref_positions: Any = None,
    max_passes: int = 1000,
    area_epsilon: float = 0.0,
    ref_area_epsilon: float = 1e-10,
) -> Any:
    """Flip the edges of a triangulation of the plane until it is Delaunay, in place.

    Each pass flips many edges at once. Then no triangle has the apex of a neighbor inside of its circumcircle, beyond
    the rounding of float64, except where ``area_epsilon`` or ``ref_positions`` forbid the flip or ``max_passes`` are
    over. Edges at the boundary stay. The triangles have to be counter-clockwise, with at most two at an edge; others
    are left alone where they don't form such a triangulation. Edges with a point that is not finite stay as well.

    Args:
        positions: An array of ``wp.vec2``, the vertices.
        indices: An array of int32 of shape ``(triangles, 3)``, the vertices of each triangle. It is changed.
        ref_positions: Vertices at rest, as many as ``positions``: edges whose flip would make a degenerate triangle
            there stay. None for no such test.
        max_passes: How many passes there may be, at least 1.
        area_epsilon: New triangles are larger than this.
        ref_area_epsilon: New triangles at rest are larger than this, in either direction.

    Returns:
        An array of int32 with one element, the number of flips. In a capture, it is there after a launch of the graph.

    Raises:
        ValueError: A shape, a device or a number is wrong, or ``indices`` has a vertex that ``positions`` has not
            (captures can't check this: there, edges of such a vertex stay).
        TypeError: An array has another dtype, or a number is none.

    Example:
        >>> import warp_like.geometry
        >>> points = wp.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=wp.vec2)
        >>> triangles = wp.array([[0, 1, 2], [1, 0, 3]], dtype=int)
        >>> wp.geometry.delaunay_edge_flip(points, triangles).list()
        [1]
        >>> triangles.numpy().tolist()
        [[0, 3, 2], [1, 2, 3]]
    """
    function = "delaunay_edge_flip()"
    require_triangles(function, indices)
    _require_points(function, "positions", positions, indices, None)
    if ref_positions is not None:
        _require_points(function, "ref_positions", ref_positions, indices, positions.size)
    most_passes = require_count(function, "max_passes", max_passes, 1, MOST_PASSES)
    epsilons = [
        _require_epsilon(function, "area_epsilon", area_epsilon),
        _require_epsilon(function, "ref_area_epsilon", ref_area_epsilon),
    ]
    device, count = indices.device, indices.shape[0]
    total = wp.zeros(1, dtype=int, device=device)
    if not count:
        return total
    twins = pair_half_edges(indices, require_vertices(function, indices, positions.size))
    claims = wp.empty(count, dtype=wp.uint32, device=device)
    flips, passes = wp.empty(1, dtype=int, device=device), wp.zeros(1, dtype=int, device=device)
    going = wp.ones(1, dtype=int, device=device)

    def flip_once() -> None:
        claims.zero_()
        flips.zero_()
        inputs = [indices, twins, positions, ref_positions, *epsilons, claims]
        wp.launch(_claim, dim=3 * count, inputs=inputs, device=device)
        wp.launch(_flip, dim=3 * count, inputs=[indices, twins, claims, flips], device=device)
        wp.launch(_finish_pass, dim=1, inputs=[most_passes, flips, passes, total, going], device=device)

    wp.capture_while(going, flip_once)
    return total
