"""Kernels of one iteration. Each system of a batch has numbers of its own: how far to go, and in which direction.

A system that has reached its tolerance makes steps of length zero, so that it stays as it is while others go on.

Numbers of vectors take two ways: in a batch each asks for its system (less than 0 for none), and without one all read
the numbers of system 0. Lanes would else gather them for each number.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp


@wp.func
def quotient(a: Any, b: Any) -> Any:
    """Return ``a / b``, and 0 where ``b`` is 0."""
    result = a.dtype(0)
    if b != b.dtype(0):
        result = a / b
    return result


@wp.kernel(enable_backward=False)
def renew(new: wp.array[Any], old: wp.array[Any], out: wp.array[Any]) -> None:
    """Write ``new / old``, 0 where ``old`` is 0, and let ``old`` be ``new``."""
    system = wp.tid()
    out[system] = quotient(new[system], old[system])
    old[system] = new[system]


@wp.kernel(enable_backward=False)
def step_length(
    a: wp.array[Any], b: wp.array[Any], residual_sq: wp.array[Any], limit_sq: wp.array[Any], out: wp.array[Any]
) -> None:
    """Write ``a / b``, and 0 where ``b`` is 0 or the system has reached its tolerance."""
    system = wp.tid()
    length = a.dtype(0)
    if not (residual_sq[system] <= limit_sq[system]):
        length = quotient(a[system], b[system])
    out[system] = length


@wp.func
def _advance(
    i: int,
    system: int,
    length: wp.array[Any],
    direction: wp.array[Any],
    change: wp.array[Any],
    x: wp.array[Any],
    r: wp.array[Any],
) -> None:
    alpha = length[system]
    x[i] = x[i] + alpha * direction[i]
    r[i] = r[i] - alpha * change[i]


@wp.kernel(enable_backward=False)
def advance(
    batched: bool,
    systems: wp.array[int],
    length: wp.array[Any],
    direction: wp.array[Any],
    change: wp.array[Any],
    x: wp.array[Any],
    r: wp.array[Any],
) -> None:
    """``x += length * direction`` and ``r -= length * change``."""
    i = wp.tid()
    if not batched:
        _advance(i, 0, length, direction, change, x, r)
    elif systems[i] >= 0:
        _advance(i, systems[i], length, direction, change, x, r)


@wp.kernel(enable_backward=False)
def subtract(
    batched: bool, systems: wp.array[int], length: wp.array[Any], change: wp.array[Any], r: wp.array[Any]
) -> None:
    """``r -= length * change``."""
    i = wp.tid()
    if not batched:
        r[i] = r[i] - length[0] * change[i]
    elif systems[i] >= 0:
        r[i] = r[i] - length[systems[i]] * change[i]


@wp.kernel(enable_backward=False)
def turn(batched: bool, systems: wp.array[int], beta: wp.array[Any], z: wp.array[Any], p: wp.array[Any]) -> None:
    """``p = z + beta * p``."""
    i = wp.tid()
    if not batched:
        p[i] = z[i] + beta[0] * p[i]
    elif systems[i] >= 0:
        p[i] = z[i] + beta[systems[i]] * p[i]


@wp.func
def _follow(
    i: int,
    system: int,
    length: wp.array[Any],
    beta: wp.array[Any],
    z: wp.array[Any],
    p: wp.array[Any],
    x: wp.array[Any],
) -> None:
    direction = p[i]
    x[i] = x[i] + length[system] * direction
    p[i] = z[i] + beta[system] * direction


@wp.kernel(enable_backward=False)
def follow(
    batched: bool,
    systems: wp.array[int],
    length: wp.array[Any],
    beta: wp.array[Any],
    z: wp.array[Any],
    p: wp.array[Any],
    x: wp.array[Any],
) -> None:
    """``x += length * p``, then ``p = z + beta * p``."""
    i = wp.tid()
    if not batched:
        _follow(i, 0, length, beta, z, p, x)
    elif systems[i] >= 0:
        _follow(i, systems[i], length, beta, z, p, x)
