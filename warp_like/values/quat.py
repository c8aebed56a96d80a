"""Quaternions on the host, stored as ``x, y, z, w``."""

from __future__ import annotations

from typing import Any

import numpy as np

from warp_like.values.composite import Composite, _quiet, flatten_argument, is_sequence
from warp_like.values.vec import Vec


class Quat(Vec):
    """Base of the quaternion classes, e.g. ``wp.quat``.

    An instance is made from ``x, y, z, w``, from a vector of three and ``w``, from a sequence of four, or from one
    number for all components; without arguments it is zero. ``*`` of two quaternions is their product as rotations: the
    right one is applied first.
    """

    __slots__ = ()

    @classmethod
    def _arrange(cls, args: tuple[Any, ...]) -> list[Any]:
        numbers = [x for a in args for x in flatten_argument(a)]
        if len(numbers) == 1 == len(args) and not is_sequence(args[0]):
            return numbers * 4
        if len(numbers) != 4:
            raise ValueError(f"{cls.__name__} takes 4 numbers, or a vector of 3 and a number, got {len(numbers)}")
        return numbers

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Composite):
            return super().__mul__(other)
        if not self._same(other):
            return NotImplemented
        return self._from_ndarray(_quiet(multiply, self, other))

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented

    def __mod__(self, other: Any) -> Any:
        return NotImplemented


def multiply(a: Any, b: Any) -> Any:
    """Return the Hamilton product of two arrays ``x, y, z, w``."""
    u, s, v, t = a[:3], a[3], b[:3], b[3]
    return np.append(s * v + t * u + np.cross(u, v), s * t - np.dot(u, v)).astype(a.dtype)
