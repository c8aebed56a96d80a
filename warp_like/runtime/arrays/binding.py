"""Binding new arrays to memory: fresh, at an address, of host data, or of another library's array."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.base.warn import warn
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks, nested
from warp_like.runtime.arrays.recording import first_write, is_captured, put
from warp_like.runtime.memory.allocation import (
    ElementType,
    allocate,
    contiguous_strides,
    element_type,
    host_elements,
    normalize_shape,
    outer_shape,
)
from warp_like.runtime.memory.device import Device, get_device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import Composite
from warp_like.values.struct import StructInstance

Array: Any = _native.Array
"""The native base of ``wp.array``, by which arrays are recognised here, below the class itself."""


def bind(
    self: Any,
    element: ElementType,
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    readonly: bool,
    device: Device,
    owner: Any,
) -> None:
    """Bind ``self`` to memory that ``owner`` keeps alive; all bindings from Python go this way."""
    self._bind(
        ptr,
        shape,
        strides,
        element.code,
        element.itemsize,
        readonly,
        element.host,
        device,
        owner,
        device.dlpack_type,
        max(device.ordinal, 0),
    )


def bind_new(
    self: Any, element: ElementType, shape: tuple[int, ...], device: Device, zero: bool, pinned: bool = False
) -> None:
    """Bind ``self`` to fresh memory."""
    buffer = allocate(math.prod(shape) * element.itemsize, zero, device, pinned)
    bind(self, element, buffer.ptr, shape, None, False, device, buffer)


def bind_pointer(
    self: Any,
    ptr: int,
    dtype: Any,
    shape: Any,
    strides: Any,
    capacity: int | None,
    device: Device,
    deleter: Callable[[int, int], None] | None,
) -> None:
    """Bind ``self`` to the memory at ``ptr``; the arguments are those of ``wp.array``."""
    element = element_type(dtype)
    if shape is None:
        if capacity is None:
            raise TypeError("an array at `ptr` needs a `shape` or a `capacity`")
        shape = capacity // element.itemsize
    dims = normalize_shape(shape)
    steps = contiguous_strides(dims, element.itemsize) if strides is None else tuple(map(operator.index, strides))
    if len(steps) != len(dims):
        raise ValueError(f"shape {dims} and strides {steps} differ in length")
    # Negative strides reach below `ptr`, so only the extent above it can be compared with the capacity.
    needed = sum((n - 1) * max(s, 0) for n, s in zip(dims, steps, strict=True)) + element.itemsize if all(dims) else 0
    if capacity is not None and needed > capacity:
        raise ValueError(f"an array of shape {dims} needs {needed} bytes at `ptr`, `capacity` is {capacity}")
    if needed and not ptr:
        raise ValueError(f"an array of shape {dims} can't lie at `ptr` 0, where no memory is")
    size = needed if capacity is None else capacity
    release = None if deleter is None else lambda address: deleter(address, size)
    owner = _native.Buffer.wrap(ptr, size, release)
    bind(self, element, ptr, dims, steps, False, device, owner)


def bind_data(
    self: Any,
    data: Any,
    dtype: Any,
    shape: Any,
    ndim: int | None,
    device: Device | None,
    copy: bool,
    pinned: bool = False,
) -> Any:
    """Bind ``self`` to the memory of ``data`` or a copy of it; the arguments are those of ``wp.array``.

    ``device`` None stands for that of ``data``, if it is an array, else for the current one.

    Returns:
        The array whose elements were copied, if there is one.
    """
    if not copy:
        _bind_shared(self, data, dtype, shape, ndim, device)
        return None
    if dtype is Any and isinstance(data, (list, tuple)) and data and isinstance(data[0], StructInstance):
        dtype = type(data[0])
    is_struct = dtype is not Any and element_type(dtype).is_struct
    values = data if is_struct and not isinstance(data, Array) else host_data(data)
    if isinstance(values, Array):
        dtype = values.dtype if dtype is Any else dtype
        element = element_type(dtype)
        scalars, extents = None, values._full_shape
    else:
        raw = host_elements(values, element_type(dtype)) if is_struct else values
        if np.ndim(raw) == 0 and not hasattr(data, "__array__"):
            raise TypeError(f"the data of an array is a sequence or an array, got {type(data).__name__}")
        element = element_type(raw.dtype if dtype is Any else dtype)
        scalars = raw if is_struct else host_elements(raw, element, listed=isinstance(data, (list, tuple)))
        extents = scalars.shape
    outer = outer_shape(extents, element) if shape is None else normalize_shape(shape)
    if math.prod(outer) * ir.element_count(element.type) != math.prod(extents):
        raise ValueError(f"data of shape {extents} does not fill an array of shape {outer} of {element.host.__name__}")
    _check_ndim(normalize_shape(outer), ndim)
    place = device or (values.device if isinstance(values, Array) else get_device())
    bind_new(self, element, outer, place, False, pinned)
    if scalars is None:
        _take_elements(self, values)
        return values
    holding = nested.arrays_of(self, data) if element.holds else ()
    first_write(self, scalars.reshape((*outer, *element.shape)), holding=holding)
    return None


def _bind_shared(self: Any, data: Any, dtype: Any, shape: Any, ndim: int | None, device: Device | None) -> None:
    """Bind ``self`` to the memory of ``data``; the arguments are those of ``bind_data``."""
    source = _shared(data, dtype)
    if shape is not None:
        source = source.reshape(normalize_shape(shape))
    _check_ndim(source.shape, ndim)
    if device is not None and source.device is not device:
        raise ValueError(f"wp.array(copy=False): the data lies on {source.device}, and the array is to lie on {device}")
    bind(
        self,
        element_type(source.dtype),
        source.ptr,
        source.shape,
        source.strides,
        source.readonly,
        source.device,
        source,
    )
    self._grad_links, self.grad_array = source._grad_links, source.grad_array
    if hasattr(source, "_no_elements"):  # one that stands for elements which the host doesn't have
        self.__class__ = type(source)


def _take_elements(self: Any, values: Any) -> None:
    """Copy the elements of an array to ``self``, which is new, in its dtype; under a capture, when that runs."""
    same = values.element == self.element if self.element.is_struct else values.element.scalar == self.element.scalar
    if same and values._full_shape == self._full_shape:
        first_write(self, values, values, values)
    elif recorder.graph is None:
        put(self, _converted(values, self), holding=values)
    else:
        recorder.graph.add_call(f"convert {values!r}", lambda: put(self, _converted(values, self)), [self])


def _converted(values: Any, to: Any) -> Any:
    """The elements of an array as components for ``to``, which has another dtype or shape."""
    element, given = to.element, values.element.scalar
    raw = values._values() if given == ir.bfloat16 != element.scalar else values.numpy()
    if given == ir.uint16 and element.scalar == ir.bfloat16:
        raw = raw.astype(np.int32)  # numbers, not the bits of bfloat16
    if values.element != element if element.is_struct else given != element.scalar:
        raw = host_elements(raw, element)
    return raw.reshape(to._full_shape)


def _check_ndim(shape: tuple[int, ...], wanted: int | None) -> None:
    if wanted not in (None, len(shape)) and 0 not in shape:
        warn(f"the data makes an array of shape {shape}, which does not have ndim={wanted}; the data counts")


def _shared(data: Any, dtype: Any) -> Any:
    """``data`` as an array over the same memory."""
    wanted = None if dtype is Any else dtype
    if isinstance(data, Array):
        return data if wanted is None else data.view(wanted)
    return interop_hooks.as_array(data, wanted)


def host_data(data: Any, gradients: bool = False) -> Any:
    """``data`` as an ``array``, with the gradient of a tensor if ``gradients``, or a NumPy array."""
    if isinstance(data, (Array, np.ndarray)):
        return data
    if isinstance(data, Composite):
        return data.numpy()
    if isinstance(data, (list, tuple)):
        if data and all(isinstance(x, Array) for x in data):
            seen = is_captured() or (recorder.active is not None and any(x.requires_grad for x in data))
            return _stacked(data) if seen else np.stack([x._values() for x in data])
        return _exact(np.array(data), data)
    if isinstance(data, (bool, int, float, np.generic)):
        return np.array(data)
    return interop_hooks.as_array(data, None, gradients)


def _stacked(arrays: Any) -> Any:
    """Return a new array of several arrays of one shape and dtype, whose elements a capture copies, or a tape sees."""
    first = arrays[0]
    made = first._like((len(arrays), *first.shape))
    made.requires_grad = any(a.requires_grad for a in arrays)
    for i, a in enumerate(arrays):
        made[i : i + 1].assign(a.reshape((1, *a.shape)) if a.is_contiguous else a.contiguous().reshape((1, *a.shape)))
    return made


def _exact(made: np.ndarray[Any, Any], data: Any) -> np.ndarray[Any, Any]:
    """``made`` of the numbers ``data``, but integers on both sides of 2**63 as uint64: NumPy rounds them to floats."""
    if made.dtype != np.float64 or not (made >= 2.0**63).any():
        return made
    numbers = np.array(data, dtype=object)
    whole = all(isinstance(x, (int, np.integer)) and 0 <= x < 2**64 for x in numbers.flat)
    return numbers.astype(np.uint64) if whole else made
