"""Where the memory of new arrays comes from: the built-in allocators of a device, and the user's own.

An allocator is any object with ``allocate(size_in_bytes) -> int`` and ``deallocate(ptr, size_in_bytes)``. Arrays keep
the one that made their memory. On the CPU the native extension asks ``_memory_of`` while an allocator of the user's is
set; on CUDA ``runtime/cuda/memory.py`` looks at ``device.allocator``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from warp_like import _native
from warp_like.runtime.memory.device import Device, DeviceLike, get_cuda_devices, get_device


@runtime_checkable
class Allocator(Protocol):
    """What ``wp.set_device_allocator`` takes: any object with these two methods.

    On a CUDA device its context is current in both.
    """

    def allocate(self, size_in_bytes: int) -> int:
        """Return the address of so many bytes that kernels of the device can use."""

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Take back what ``allocate`` gave; on CUDA, kernels that use it may still run."""


class BuiltinAllocator:
    """One of a device's own allocators, for allocators that build on it: ``device.default_allocator`` and the like.

    Args:
        make: Returns the owner of so many bytes, whose memory goes back when it is dropped.
    """

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._live: dict[int, Any] = {}

    def allocate(self, size_in_bytes: int) -> int:
        """Return the address of so many bytes, aligned to 64 on the CPU and to 256 on CUDA devices.

        Raises:
            MemoryError: There is no room for them.
        """
        owner = self._make(max(size_in_bytes, 1))
        self._live[owner.ptr] = owner
        address: int = owner.ptr
        return address

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Take back what ``allocate`` gave.

        Raises:
            ValueError: It gave no memory at ``ptr``, or has it back already.
        """
        if self._live.pop(ptr, None) is None:
            raise ValueError(f"this allocator has given out no memory at address {ptr:#x}, or has taken it back")


def require_allocator(allocator: Any) -> None:
    """Refuse what is no allocator.

    Raises:
        TypeError: ``allocator`` is neither None nor an object with ``allocate`` and ``deallocate``.
    """
    if allocator is not None and not isinstance(allocator, Allocator):
        raise TypeError(
            f"an allocator has the methods allocate(size_in_bytes) and deallocate(ptr, size_in_bytes), got "
            f"{type(allocator).__name__}"
        )


def memory_from(allocator: Allocator, nbytes: int, guard: Any = None) -> _native.Buffer:
    """Return the owner of memory of a user's allocator, which runs inside of ``guard``.

    Raises:
        TypeError: ``allocate`` returns something other than an address.
    """
    address = allocator.allocate(nbytes)
    if not isinstance(address, int) or address == 0:
        raise TypeError(f"{type(allocator).__name__}.allocate({nbytes}) has to return an address, got {address!r}")

    def give_back(ptr: int) -> None:
        if guard is None:
            allocator.deallocate(ptr, nbytes)
            return
        with guard:
            allocator.deallocate(ptr, nbytes)

    return _native.Buffer.wrap(address, nbytes, give_back)


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
