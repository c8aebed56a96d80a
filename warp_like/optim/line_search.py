"""A line search for the strong Wolfe conditions.

Source: J. Nocedal, S. Wright, "Numerical Optimization", 2nd edition, algorithms 3.5 and 3.6, with the cubic
interpolation of equation 3.59.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

DECREASE, CURVATURE = 1e-4, 0.9
"""The constants of the conditions: how much of the expected decrease, and of the slope, may stay."""


class Point(NamedTuple):
    """A step length along the line, and the loss and its slope there."""

    t: float
    loss: float
    slope: float


def search(at: Callable[[float], Point], start: Point, t: float, smallest: float, most: int) -> Point:
    """Return a point that fulfils the strong Wolfe conditions, or the best that was found.

    Args:
        at: Evaluates the loss at a step length.
        start: The beginning of the line, where the slope is negative.
        t: The first step length to try.
        smallest: Intervals of step lengths that are shorter are not searched.
        most: How often ``at`` is called at most; at least once.
    """
    previous = start
    for tried in range(1, most + 1):
        now = at(t)
        if not _decreases(now, start) or (tried > 1 and now.loss >= previous.loss):
            return _zoom(at, start, previous, now, smallest, most - tried)
        if abs(now.slope) <= -CURVATURE * start.slope:
            return now
        if now.slope >= 0.0:
            return _zoom(at, start, now, previous, smallest, most - tried)
        t = _clamped(_minimum(previous, now), now.t + 0.01 * (now.t - previous.t), 10.0 * now.t)
        previous = now
    return previous


def _zoom(at: Callable[[float], Point], start: Point, low: Point, high: Point, smallest: float, most: int) -> Point:
    """Search between ``low``, the best point so far, and ``high``; a point between them fulfils the conditions."""
    for _ in range(most):
        width = abs(high.t - low.t)
        if not width > smallest:
            break
        near, far = min(low.t, high.t), max(low.t, high.t)
        now = at(_clamped(_minimum(low, high), near + 0.1 * width, far - 0.1 * width))
        if not _decreases(now, start) or now.loss >= low.loss:
            high = now
            continue
        if abs(now.slope) <= -CURVATURE * start.slope:
            return now
        if now.slope * (high.t - low.t) >= 0.0:
            high = low
        low = now
    return low


def _decreases(point: Point, start: Point) -> bool:
    """Whether a point is as low as the slope promises; one that is no number is not."""
    return math.isfinite(point.slope) and point.loss <= start.loss + DECREASE * point.t * start.slope


def _minimum(a: Point, b: Point) -> float:
    """The minimum of the cubic through two points with their slopes, or NaN."""
    values = a.loss, a.slope, b.loss, b.slope
    if a.t == b.t or not all(map(math.isfinite, values)):
        return math.nan
    d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t)
    root = d1 * d1 - a.slope * b.slope
    if root < 0.0:
        return math.nan
    d2 = math.copysign(math.sqrt(root), b.t - a.t)
    below = b.slope - a.slope + 2.0 * d2
    return b.t - (b.t - a.t) * (b.slope + d2 - d1) / below if below else math.nan


def _clamped(t: float, low: float, high: float) -> float:
    """Return ``t`` between the limits; their middle if it is no number."""
    return min(max(t, low), high) if math.isfinite(t) else 0.5 * (low + high)
