"""Settings of optimizers: their ranges, and step lengths that lie in arrays."""

from __future__ import annotations

import math
from typing import Any

import warp_like as wp

AT = 11
"""Where in the coefficients a step length from an array stands."""


def require_in(optimizer: str, name: str, value: float | wp.array, below: float = math.inf) -> None:
    """Refuse a setting that is negative or too large.

    Raises:
        TypeError: It is no number, or an array of more than one.
        ValueError: It is out of range.
    """
    if isinstance(value, wp.array):
        if value.size != 1 or value.element.scalar is None or not value.element.scalar.is_float:
            raise TypeError(f"{optimizer} `{name}` is a number or an array of one float, got {value!r}")
    elif not 0.0 <= value < below:
        limit = f" and below {below:g}" if below < math.inf else ""
        raise ValueError(f"{optimizer} `{name}` is at least 0{limit}, got {value!r}")


@wp.kernel(enable_backward=False)
def _read_rate(lr: wp.array[Any], k: wp.array[wp.float64]) -> None:
    k[AT] = wp.float64(lr[0])


@wp.func
def rate_of(lr: wp.float64, k: wp.array[wp.float64]) -> Any:
    """Return the step length, which is in the coefficients if ``lr`` is negative."""
    return wp.where(lr < wp.float64(0.0), k[AT], lr)


def passed(optimizer: str, lr: float | wp.array, k: wp.array) -> float:
    """Return the step length as kernels take it: a negative number for one that a launch puts in the coefficients."""
    if isinstance(lr, wp.array):
        wp.launch(_read_rate, dim=1, inputs=[lr.flatten(), k], device=k.device, record_tape=False)
        return -1.0
    if not lr >= 0.0:
        require_in(optimizer, "lr", lr)
    return lr
