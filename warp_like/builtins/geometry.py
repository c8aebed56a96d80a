"""Distances between simple shapes."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from typing import Any

import numpy as np

from warp_like.builtins.device import geometry as device
from warp_like.builtins.patterns import V3, F
from warp_like.builtins.spec import Inline, builtin

GROUP = "Geometry"


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
