"""Distances between simple shapes, and whether they intersect."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from typing import Any

import numpy as np

from warp_like.builtins.device import geometry as device
from warp_like.builtins.patterns import V3, F
from warp_like.builtins.spec import Inline, NoGradient, builtin
from warp_like.ir.types import bool_, int32

GROUP = "Geometry"
YES_OR_NO = NoGradient("yes or no carries no gradient")


def _closest_on_edges(p1: Any, q1: Any, p2: Any, q2: Any, epsilon: Any) -> Any:
    """The closest points by the conditions for a minimum: inside of both edges, or on one of the four ends."""
    d1, d2 = q1 - p1, q2 - p2
    epsilon = max(epsilon, 0.0)

    def at(s: float, t: float) -> Any:
        return s, t, np.linalg.norm(p1 + d1 * s - p2 - d2 * t)

    def along(point: Any, start: Any, d: Any) -> float:
        size = np.dot(d, d)
        return float(np.clip(np.dot(point - start, d) / size, 0.0, 1.0)) if size > epsilon else 0.0

    found = [at(s, along(p1 + d1 * s, p2, d2)) for s in (0.0, 1.0)]
    found += [at(along(p2 + d2 * t, p1, d1), t) for t in (0.0, 1.0)]
    system = np.array([[d1 @ d1, -d1 @ d2], [-d1 @ d2, d2 @ d2]])
    if min(d1 @ d1, d2 @ d2) > epsilon and np.linalg.det(system) > 0.0:
        inside = np.linalg.solve(system, [d1 @ (p2 - p1), d2 @ (p1 - p2)])
        if np.all((inside >= 0.0) & (inside <= 1.0)):
            found.append(at(*inside))
    return np.array(min(found, key=lambda x: x[2]))


@builtin(group=GROUP, lower=Inline(device.closest_on_edges), ref=_closest_on_edges)
def closest_point_edge_edge(p1: V3, q1: V3, p2: V3, q2: V3, epsilon: F) -> V3:
    """Return where two edges, from ``p1`` to ``q1`` and from ``p2`` to ``q2``, are closest, and how far apart.

    The result is ``(s, t, distance)``: the points are ``p1 + s * (q1 - p1)`` and ``p2 + t * (q2 - p2)``. An edge whose
    squared length is at most ``epsilon`` counts as the point at its start.
    """


def _lie_apart(axis: Any, a1: Any, a2: Any, b0: Any, b1: Any, b2: Any) -> Any:
    a, b = np.array([0.0, np.dot(axis, a1), np.dot(axis, a2)]), np.array([b0, b1, b2]) @ axis
    return bool(a.max() < b.min() or b.max() < a.min())


@builtin(group=GROUP, lower=Inline(device.lie_apart), ref=_lie_apart, adjoint=YES_OR_NO)
def _apart(axis: V3, a1: V3, a2: V3, b0: V3, b1: V3, b2: V3) -> bool_:
    """Return whether the triangles ``0, a1, a2`` and ``b0, b1, b2``, seen along ``axis``, lie apart."""


def _meets(start: Any, end: Any, corners: Any) -> bool:
    """Whether an edge that is not parallel to a triangle meets it."""
    o, p, q = corners
    system = np.array([p - o, q - o, start - end]).T
    if abs(np.linalg.det(system)) < 1e-12:
        return False
    u, v, t = np.linalg.solve(system, start - o)
    return bool(min(u, v, t) >= 0.0 and u + v <= 1.0 and t <= 1.0)


def _holds(corners: Any, point: Any) -> bool:
    """Whether a point of a triangle's plane lies in it."""
    o, p, q = corners
    sides = np.array([p - o, q - o]).T
    (u, v), *_ = np.linalg.lstsq(sides, point - o)
    return bool(min(u, v) >= 0.0 and u + v <= 1.0 and np.allclose(sides @ [u, v], point - o, atol=1e-12))


def _intersect(*corners: Any) -> int:
    """Triangles intersect where an edge of one meets the other or an edge of it, or where one holds the other."""
    a, b = np.array(corners[:3], np.float64), np.array(corners[3:], np.float64)
    ours, theirs = ([(t[k - 1], t[k]) for k in range(3)] for t in (a, b))
    crossing = any(_closest_on_edges(*e, *f, 0.0)[2] < 1e-12 for e in ours for f in theirs)
    piercing = any(_meets(*e, b) for e in ours) or any(_meets(*e, a) for e in theirs)
    return int(crossing or piercing or _holds(a, b[0]) or _holds(b, a[0]))


@builtin(group=GROUP, lower=Inline(device.triangles_intersect), ref=_intersect, adjoint=YES_OR_NO)
def intersect_tri_tri(v0: V3, v1: V3, v2: V3, u0: V3, u1: V3, u2: V3) -> int32:
    """Return 1 if the triangles ``v0, v1, v2`` and ``u0, u1, u2`` have a point in common, else 0.

    They may lie in one plane. Triangles that touch in one point or along an edge count as intersecting, up to rounding.
    """
