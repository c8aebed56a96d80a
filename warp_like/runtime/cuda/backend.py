"""What the runtime asks of CUDA devices, and which module here answers; each is loaded when it is first asked."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warp_like.runtime.cuda.device import CudaDevice
    from warp_like.runtime.memory.allocation import MemoryKind
    from warp_like.runtime.memory.allocators import BuiltinAllocator
    from warp_like.runtime.memory.backend import Algorithms, Programs, Streams
    from warp_like.runtime.memory.device import Device


class CudaBackend:
    """CUDA devices; see ``Backend`` for what the methods do."""

    kind = "cuda"
    shares_host_memory = False

    def discover(self) -> dict[str, Device]:
        """Return the devices that the driver knows."""
        from warp_like.runtime.cuda import device

        return {**device.discover()}

    def current_device(self) -> Device | None:
        """Return the device of the thread's current context."""
        from warp_like.runtime.cuda import device

        return device.current_device()

    # ---- memory

    def allocate(self, device: CudaDevice, nbytes: int, zero: bool) -> Any:
        """Return the owner of memory of the device's pool, or as the user has said."""
        from warp_like.runtime.cuda import memory

        return memory.allocate(device, nbytes, zero)

    def allocate_pinned(self, device: CudaDevice, nbytes: int, zero: bool) -> Any:
        """Return the owner of page-locked memory of the host."""
        from warp_like.runtime.cuda import memory

        return memory.allocate_pinned(device, nbytes, zero)

    def builtin_allocator(self, device: CudaDevice, pooled: bool) -> BuiltinAllocator | None:
        """Return what hands out the driver's memory, or that of the device's pool."""
        from warp_like.runtime.cuda import memory

        return memory.builtin_allocator(device, pooled)

    def memory_kind(self, a: Any) -> MemoryKind:
        """Return what the driver tells of the memory."""
        from warp_like.runtime.cuda import memory

        return memory.memory_kind(a)

    def memory_handle(self, a: Any) -> bytes:
        """Return the driver's handle of the memory."""
        from warp_like.runtime.cuda import sharing

        return sharing.memory_handle(a)

    def can_access(self, device: Device, a: Any) -> bool:
        """Return whether the memory is managed, page-locked, or opened to ``device``."""
        from warp_like.runtime.cuda import pools

        return pools.can_access(device, a)

    # ---- copies, and the order of work

    def write(self, dest: Any, values: Any, stream: Any) -> None:
        """Copy by the driver, or a kernel."""
        from warp_like.runtime.cuda import transfer

        transfer.write(dest, values, stream)

    def read(self, a: Any) -> Any:
        """Return a copy in the host's memory."""
        from warp_like.runtime.cuda import transfer

        return transfer.read(a)

    @functools.cached_property
    def streams(self) -> Streams:
        """Which stream waits for which."""
        from warp_like.runtime.cuda import transfer

        return transfer

    # ---- launches

    @functools.cached_property
    def programs(self) -> Programs:
        """How kernels are compiled, loaded and timed."""
        from warp_like.runtime.cuda import load

        return load

    @functools.cached_property
    def algorithms(self) -> Algorithms:
        """Sums, sorts and so on, as kernels."""
        from warp_like.runtime.cuda import algorithms

        return algorithms

    def begin_capture(self, device: CudaDevice, stream: Any, external: bool, mode: str) -> None:
        """Have the driver capture a stream."""
        from warp_like.runtime.cuda.graph import CudaGraph

        CudaGraph(device.stream if stream is None else stream, external, mode).begin()

    def takes_conditions(self) -> bool:
        """Return whether the driver has conditional nodes."""
        from warp_like.runtime.cuda import conditions

        return conditions.is_supported()
