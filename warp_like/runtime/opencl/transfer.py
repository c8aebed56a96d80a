"""Copies where an OpenCL device takes part: contiguous pieces by OpenCL, all else by way of the host."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.runtime.memory.allocation import contiguous_strides

_Numbers = np.ndarray[Any, Any]


def _layout(a: Any) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    """The shape of an array, its strides and the type of one number; structs are in one piece."""
    if a.element.is_struct:
        return a.shape, a.strides, np.dtype(f"V{a.itemsize}")
    inner, dtype = a.element.shape, np.dtype(a._raw_dtype)
    return (*a.shape, *inner), (*a.strides, *contiguous_strides(inner, dtype.itemsize)), dtype


def read(a: Any) -> _Numbers:
    """Return a copy of the elements in the host's memory, as ``numpy()`` shows them."""
    shape, strides, dtype = _layout(a)
    if not a.size:
        return _shown(a, np.empty(shape, dtype))
    ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = sum(e for e in ends if e < 0)
    extent = np.empty(sum(e for e in ends if e > 0) - low + dtype.itemsize, np.uint8)
    a.device.copy([(extent.ctypes.data, a.ptr + low, extent.nbytes)])
    return _shown(a, np.ndarray(shape, dtype, extent, -low, strides).copy())


def _shown(a: Any, raw: _Numbers) -> _Numbers:
    return raw.view(a.element.numpy) if a.element.is_struct else raw


def write(dest: Any, values: Any, stream: Any) -> None:
    """Copy ``values``, an array or NumPy components that broadcast, to the array ``dest``."""
    if not dest.size:
        return
    if dest.device.kind != "opencl":
        np.copyto(dest.numpy(), read(values))
    elif not _copied_there(dest, values):
        given: Any = values
        _send(dest, given.numpy() if isinstance(values, _native.Array) else given)


def _copied_there(dest: Any, values: Any) -> bool:
    """Copy one contiguous piece on the device itself; False where that is not what is asked."""
    if not isinstance(values, _native.Array) or values.device is not dest.device:
        return False
    source: Any = values
    nbytes = dest.size * dest.itemsize
    whole = dest.is_contiguous and source.is_contiguous and source.size * source.itemsize == nbytes
    if not whole or abs(dest.ptr - source.ptr) < nbytes:
        return False
    dest.device.copy([(dest.ptr, source.ptr, nbytes)])
    return True


def _send(dest: Any, values: Any) -> None:
    shape, strides, dtype = _layout(dest)
    packed = np.empty(shape, dtype)
    np.copyto(_shown(dest, packed), values)
    if dest.is_contiguous:
        dest.device.copy([(dest.ptr, packed.ctypes.data, packed.nbytes)])
        return
    run, outer = dtype.itemsize, len(shape)
    while outer and strides[outer - 1] == run:  # dimensions that lie in one piece
        outer -= 1
        run *= shape[outer]
    starts = (
        sum(i * s for i, s in zip(at, strides, strict=False)) for at in itertools.product(*map(range, shape[:outer]))
    )
    source, count = packed.ctypes.data, math.prod(shape[:outer])
    dest.device.copy((dest.ptr + to, source + k * run, run) for k, to in zip(range(count), starts, strict=True))
