"""Which allocator the memory of a device's new arrays comes from: a built-in one, or the user's.

Arrays keep the one that made their memory. On the CPU the native extension asks ``_memory_of`` while an allocator of
the user's is set; on CUDA ``runtime/cuda/memory.py`` looks at ``device.allocator``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import Any

from warp_like import _native
from warp_like.runtime.memory.allocators import Allocator, memory_from, require_allocator
from warp_like.runtime.memory.device import Device, DeviceLike, get_cuda_devices, get_device


def _memory_of(allocator: Allocator) -> Callable[[int, bool], Any]:
    """What the native extension calls for the memory of new arrays on the CPU."""

    def make(nbytes: int, zero: bool) -> _native.Buffer:
        owner = memory_from(allocator, nbytes)
        if zero:
            ctypes.memset(owner.ptr, 0, nbytes)
        return owner

    return make


def _set(device: Device, allocator: Allocator | None) -> None:
    if device.is_cpu:
        _native.set_allocator(None if allocator is None else _memory_of(allocator))
    device.allocator = allocator


def set_device_allocator(device: DeviceLike, allocator: Allocator | None) -> None:
    """Let new arrays on a device come from ``allocator``; None for the built-in one.

    Args:
        device: The device.
        allocator: An object with ``allocate(size_in_bytes) -> int`` and ``deallocate(ptr, size_in_bytes)``. Arrays that
            it made keep it.

    Raises:
        TypeError: ``allocator`` is none.

    Example:
        >>> class Counting:
        ...     def __init__(self, device):
        ...         self.inner, self.allocated = device.default_allocator, 0
        ...     def allocate(self, size_in_bytes):
        ...         self.allocated += size_in_bytes
        ...         return self.inner.allocate(size_in_bytes)
        ...     def deallocate(self, ptr, size_in_bytes):
        ...         self.inner.deallocate(ptr, size_in_bytes)
        >>> counting = Counting(wp.get_device("cpu"))
        >>> wp.set_device_allocator("cpu", counting)
        >>> a = wp.zeros(100)
        >>> wp.set_device_allocator("cpu", None)
        >>> counting.allocated
        400
    """
    require_allocator(allocator)
    _set(get_device(device), allocator)


def get_device_allocator(device: DeviceLike) -> Allocator:
    """Return what the memory of new arrays on a device comes from, the user's allocator or a built-in one."""
    found: Allocator = get_device(device).get_allocator()
    return found


def set_cuda_allocator(allocator: Allocator | None) -> None:
    """Let new arrays on all CUDA devices come from ``allocator``; None for the built-in one.

    Raises:
        TypeError: ``allocator`` is none.
    """
    for device in get_cuda_devices():
        set_device_allocator(device, allocator)


class ScopedAllocator:
    """Lets new arrays on a device come from an allocator, or with None from the built-in one, in a ``with`` block."""

    def __init__(self, device: DeviceLike, allocator: Allocator | None) -> None:
        require_allocator(allocator)
        self.device = get_device(device)
        self.allocator = allocator
        self._saved: list[Allocator | None] = []

    def __enter__(self) -> Allocator | None:
        self._saved.append(self.device.allocator)
        _set(self.device, self.allocator)
        return self.allocator

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _set(self.device, self._saved.pop())
