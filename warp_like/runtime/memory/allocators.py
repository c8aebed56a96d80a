"""Allocators: the built-in ones of a device, and how memory is taken from those of users.

An allocator is any object with ``allocate(size_in_bytes) -> int`` and ``deallocate(ptr, size_in_bytes)``. Which one a
device uses is set in ``runtime/memory/device_allocators.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from warp_like import _native


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
