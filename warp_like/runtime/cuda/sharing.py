"""Memory and events that several processes share."""

from __future__ import annotations

import math
from typing import Any

from warp_like import _native
from warp_like.runtime.arrays.array import array, bind_foreign
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.errors import CudaError
from warp_like.runtime.memory.allocation import contiguous_strides, element_type, normalize_shape
from warp_like.runtime.memory.device import DeviceLike, get_device
from warp_like.runtime.memory.stream import Event


def memory_handle(a: array) -> bytes:
    """Return the handle of the memory of ``a``; see ``array.ipc_handle``."""
    device = a.device
    assert isinstance(device, CudaDevice)
    try:
        with device.guard:
            base, _ = device.driver.allocation_range(a.ptr)
            handle: bytes = device.driver.memory_handle(a.ptr)
    except CudaError as e:
        raise RuntimeError(
            f"{a!r} can't be shared: memory of a pool, managed memory and other libraries' memory may have no handles; "
            f"allocate it inside of wp.ScopedMempool('{device}', False)"
        ) from e
    if base != a.ptr:
        raise RuntimeError(
            f"{a!r} can't be shared: it begins {a.ptr - base} bytes into its memory, and a handle stands for all of "
            "that; share the array that it is a view of"
        )
    return handle


def from_ipc_handle(
    handle: bytes,
    dtype: Any,
    shape: Any,
    strides: tuple[int, ...] | None = None,
    device: DeviceLike = None,
) -> array:
    """Return an array over memory that another process has shared.

    The other process has to keep the memory until this array is gone; what either writes is for the two to order.

    Args:
        handle: What ``array.ipc_handle()`` gave there.
        dtype: The element type.
        shape: The extents.
        strides: In bytes; of a contiguous array when left out.
        device: The device that has the memory; the current one when left out.

    Raises:
        RuntimeError: The device is the CPU, or does not open the handle: a process can't open its own.
        ValueError: The handle has not 64 bytes.
    """
    place = _cuda(device)
    element = element_type(dtype)
    dims = normalize_shape(shape)
    steps = contiguous_strides(dims, element.itemsize) if strides is None else strides
    with place.guard:
        address = place.driver.open_memory(handle)

    def close(ptr: int) -> None:
        place.synchronize()  # kernels may still use it
        with place.guard:
            place.driver.close_memory(ptr)

    owner = _native.Buffer.wrap(address, math.prod(dims) * element.itemsize, close)
    return bind_foreign(element, address, dims, steps, False, place, owner)


def event_from_ipc_handle(handle: bytes, device: DeviceLike = None) -> Event:
    """Return the event that another process has shared; made there with ``interprocess=True``.

    Raises:
        RuntimeError: The device is the CPU, or does not open the handle: a process can't open its own.
        ValueError: The handle has not 64 bytes.
    """
    place = _cuda(device)
    with place.guard:
        opened = Event(place, cuda_event=place.driver.open_event(handle))
    opened.owned = True
    return opened


def _cuda(device: DeviceLike) -> CudaDevice:
    place = get_device(device)
    if not isinstance(place, CudaDevice):
        raise RuntimeError(f"device '{place}' shares nothing by handles, only CUDA devices do; pass device='cuda:0'")
    return place
