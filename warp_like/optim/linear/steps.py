"""Kernels of one iteration. Each system of a batch has numbers of its own: how far to go, and in which direction.

A system that has reached its tolerance makes steps of length zero, so that it stays as it is while others go on.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp


@wp.func
def system_of(batched: bool, systems: wp.array[int], i: int) -> int:
    """Return the system of a batch that number ``i`` of a vector belongs to; less than 0 for none."""
    system = 0
    if batched:
        system = systems[i]
    return system


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
    system = system_of(batched, systems, i)
    if system >= 0:
        alpha = length[system]
        x[i] = x[i] + alpha * direction[i]
        r[i] = r[i] - alpha * change[i]


@wp.kernel(enable_backward=False)
def subtract(
    batched: bool, systems: wp.array[int], length: wp.array[Any], change: wp.array[Any], r: wp.array[Any]
) -> None:
    """``r -= length * change``."""
    i = wp.tid()
    system = system_of(batched, systems, i)
    if system >= 0:
        r[i] = r[i] - length[system] * change[i]


@wp.kernel(enable_backward=False)
def turn(batched: bool, systems: wp.array[int], beta: wp.array[Any], z: wp.array[Any], p: wp.array[Any]) -> None:
    """``p = z + beta * p``."""
    i = wp.tid()
    system = system_of(batched, systems, i)
    if system >= 0:
        p[i] = z[i] + beta[system] * p[i]


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
    system = system_of(batched, systems, i)
    if system >= 0:
        direction = p[i]
        x[i] = x[i] + length[system] * direction
        p[i] = z[i] + beta[system] * direction
