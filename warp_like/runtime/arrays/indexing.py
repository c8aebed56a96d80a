"""Basic indexing on the host: integers, slices and an ellipsis, to an offset, a shape and strides."""

from __future__ import annotations

import operator
from typing import Any

from warp_like.base.contract import MAX_DIMS


def resolve(key: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the offset in bytes, the shape and the strides of what ``key`` selects.

    One element has an empty shape.

    Raises:
        TypeError: ``key`` is not made of integers, slices and at most one ellipsis.
        IndexError: An integer outside its dimension, or more indices than dimensions.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    if sum(p is Ellipsis for p in parts) == 1:
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if len(parts) > len(shape):
        raise IndexError(f"{len(parts)} indices into an array of {len(shape)} dimensions")
    offset, new_shape, new_strides = 0, [], []
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        part = parts[axis] if axis < len(parts) else slice(None)
        if isinstance(part, slice):
            start, stop, step = part.indices(n)
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            new_shape.append(count)
            new_strides.append(step * stride)
        else:
            offset += _position(part, n, axis) * stride
    return offset, tuple(new_shape), tuple(new_strides)


def _position(part: Any, n: int, axis: int) -> int:
    if isinstance(part, bool) or not hasattr(type(part), "__index__"):
        raise TypeError(f"an array is indexed by integers and slices, got {type(part).__name__} for dimension {axis}")
    i = operator.index(part)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for dimension {axis} with {n} elements")
    return i % n


def with_all_axes(x: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of an array with as many dimensions as arrays may have, repeated to fill ``shape``."""
    fill = MAX_DIMS - len(shape)
    steps = [0] * len(shape)
    if x.ndim == len(shape):
        steps = [0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
    return x._map(lambda y: y._subview(0, (1,) * fill + shape, (0,) * fill + tuple(steps)))
