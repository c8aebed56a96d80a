"""Memory of CUDA devices, and page-locked memory of the host.

Memory comes from the device's pool in the order of its current stream, is used by whatever stream the work runs on,
and goes back in the order of the stream that used it last: no allocation and no release waits for the device. Where the
pool is switched off or missing, the driver's plain allocation is used, whose release waits.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from warp_like import _native
from warp_like.base.contract import MemoryOwner
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.driver import driver
from warp_like.runtime.cuda.errors import CudaOutOfMemoryError, out_of_memory
from warp_like.runtime.memory.allocation import MemoryKind
from warp_like.runtime.memory.allocators import BuiltinAllocator, memory_from
from warp_like.runtime.memory.stream import Stream

_LEGACY_STREAM = 0


class CudaManagedAllocator:
    """Allocates managed memory, which host and device share and which moves to where it is used.

    Example:
        >>> with wp.ScopedAllocator("cuda:0", wp.CudaManagedAllocator()):
        ...     a = wp.zeros(1000, device="cuda:0")
    """

    memory_kind = "managed"

    def allocate(self, size_in_bytes: int) -> int:
        """Return the address of managed memory."""
        address: int = driver().mem_alloc_managed(size_in_bytes)
        return address

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Free it; waits for the device."""
        driver().mem_free(ptr)


def allocate(device: CudaDevice, nbytes: int, zero: bool, stream: Stream | None = None) -> _native.Buffer:
    """Return the owner of fresh memory of ``device``, for use on ``stream``, or on the current one.

    Raises:
        CudaOutOfMemoryError: There is no room for it.
    """
    context = device.native
    stream = stream or device.stream
    if nbytes == 0:
        return _native.cuda_memory(context, 0, 0, MemoryOwner.OTHER, stream)
    owner = None
    filled = stream
    with device.guard:
        captured = stream.is_capturing
        if captured:
            stream = Stream(device)  # memory of the graph's own would be there only while it runs
        if device.allocator is not None:
            owner = memory_from(device.allocator, nbytes, device.guard)
            address, kind = owner.ptr, MemoryOwner.OTHER
        elif device.is_mempool_enabled:
            kind = MemoryOwner.POOL
            address = _retried(device, "cuMemAllocAsync", nbytes, lambda: _pooled(device, nbytes, stream))
        else:
            kind = MemoryOwner.PLAIN
            address = _retried(device, "cuMemAlloc", nbytes, lambda: device.driver.mem_alloc(nbytes))
        made = _native.cuda_memory(context, address, nbytes, kind, stream, owner)
        if zero:
            device.driver.fill(address, 0, 1, nbytes, filled.cuda_stream)
        if captured:
            device.native.captured.append(made)
            stream.synchronize()
    return made


def _pooled(device: CudaDevice, nbytes: int, stream: Stream) -> int:
    address: int = device.driver.mem_alloc_async(nbytes, stream.cuda_stream)
    return address


def _retried(device: CudaDevice, call: str, nbytes: int, attempt: Callable[[], int]) -> int:
    """Allocate; where there is no room, once more when all is done and what nobody uses has been given back."""
    try:
        return attempt()
    except CudaOutOfMemoryError:
        gc.collect()
        if not device.is_capturing:  # which nothing may wait for
            device.driver.context_synchronize()
        if device.is_mempool_supported:
            device.driver.pool_trim(device.pool, 0)
    try:
        return attempt()
    except CudaOutOfMemoryError:
        free, total = device.driver.memory_info()
        raise out_of_memory(call, str(device), nbytes, free, total) from None


def builtin_memory(device: CudaDevice, nbytes: int, pooled: bool) -> _native.Buffer:
    """Return the owner of memory of the driver's, or of the device's pool, for allocators of the user's to hand on.

    It goes back when all work on streams of ours that has been handed over by then is done.
    """
    with device.guard:
        if pooled:
            stream = device.stream
            address = _retried(device, "cuMemAllocAsync", nbytes, lambda: _pooled(device, nbytes, stream))
            stream.synchronize()  # whoever gets it may use it on any stream
        else:
            address = _retried(device, "cuMemAlloc", nbytes, lambda: device.driver.mem_alloc(nbytes))

    def give_back(ptr: int) -> None:
        with device.guard:
            if pooled:
                device.driver.mem_free_async(ptr, _LEGACY_STREAM)  # which waits for all streams of ours
            else:
                device.driver.mem_free(ptr)

    return _native.Buffer.wrap(address, nbytes, give_back)


def builtin_allocator(device: CudaDevice, pooled: bool) -> BuiltinAllocator | None:
    """Return what hands out the driver's memory, or that of the device's pool; None if it has no pool."""
    if pooled and not device.is_mempool_supported:
        return None
    return BuiltinAllocator(lambda nbytes: builtin_memory(device, nbytes, pooled))


def allocate_pinned(device: CudaDevice, nbytes: int, zero: bool) -> _native.Buffer:
    """Return the owner of fresh page-locked memory of the host, which copies to and from devices need not wait for.

    Raises:
        CudaOutOfMemoryError: The host has no room for it.
    """
    with device.guard:
        try:
            address = device.driver.mem_alloc_host(max(nbytes, 1))
        except CudaOutOfMemoryError as e:
            raise MemoryError(f"the host has no room for {nbytes} bytes of page-locked memory") from e
    made = _native.cuda_memory(device.native, address, nbytes, MemoryOwner.PINNED, device.stream)
    if zero:
        _native.clear_memory(made)
    return made


def memory_kind(a: Any) -> MemoryKind:
    """Return what memory an array has, as the driver tells it; ``UNKNOWN`` for none at all."""
    if not a.ptr:
        return MemoryKind.UNKNOWN
    kinds = {"managed": MemoryKind.CUDA_MANAGED, "pool": MemoryKind.CUDA_MEMPOOL}
    with a.device.guard:
        return kinds.get(a.device.driver.pointer_kind(a.ptr), MemoryKind.CUDA_DEVICE)
