"""What the runtime asks of OpenCL devices."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warp_like.runtime.memory.allocation import MemoryKind
    from warp_like.runtime.memory.allocators import BuiltinAllocator
    from warp_like.runtime.memory.backend import Algorithms, Programs
    from warp_like.runtime.memory.device import Device
    from warp_like.runtime.opencl.device import OpenClDevice


class OpenClBackend:
    """OpenCL devices; see ``Backend`` for what the methods do."""

    kind = "opencl"
    shares_host_memory = False
    streams = None

    def discover(self) -> dict[str, Device]:
        """Return the devices that take SPIR-V."""
        from warp_like.runtime.opencl import device

        return device.discover()

    def current_device(self) -> Device | None:
        """Return None: no library makes one of them current."""
        return None

    # ---- memory

    def allocate(self, device: OpenClDevice, nbytes: int, zero: bool) -> Any:
        """Return the owner of memory that kernels reach by address."""
        return device.allocate(nbytes, zero)

    def allocate_pinned(self, device: OpenClDevice, nbytes: int, zero: bool) -> Any:
        """Refuse: copies have finished when they return, from and to any memory of the host.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"pinned memory serves copies to and from a CUDA device, not {device}")

    def builtin_allocator(self, device: OpenClDevice, pooled: bool) -> BuiltinAllocator | None:
        """Return what hands out the device's memory; there is no pool."""
        from warp_like.runtime.memory.allocators import BuiltinAllocator

        return None if pooled else BuiltinAllocator(lambda nbytes: device.allocate(nbytes, zero=False))

    def memory_kind(self, a: Any) -> MemoryKind:
        """Return that OpenCL does not tell."""
        from warp_like.runtime.memory.allocation import MemoryKind

        return MemoryKind.UNKNOWN

    def memory_handle(self, a: Any) -> bytes:
        """Refuse: other processes can't open this memory.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"{a!r} lies on {a.device}, and only CUDA memory has IPC handles")

    def can_access(self, device: Device, a: Any) -> bool:
        """Return False: devices reach their own memory alone."""
        return False

    # ---- copies

    def write(self, dest: Any, values: Any, stream: Any) -> None:
        """Copy by OpenCL, and wait."""
        from warp_like.runtime.opencl import transfer

        transfer.write(dest, values, stream)

    def read(self, a: Any) -> Any:
        """Return a copy in the host's memory."""
        from warp_like.runtime.opencl import transfer

        return transfer.read(a)

    # ---- launches

    @functools.cached_property
    def programs(self) -> Programs:
        """How kernels are compiled, loaded and timed."""
        from warp_like.runtime.opencl import load

        return load

    @functools.cached_property
    def algorithms(self) -> Algorithms:
        """Sums, sorts and so on, on the host."""
        from warp_like.runtime.opencl import algorithms

        return algorithms

    def begin_capture(self, device: Device, stream: Any, external: bool, mode: str) -> None:
        """Take launches and writes of this thread into a graph."""
        from warp_like.runtime.launching.graph import Graph, set_capture

        set_capture(Graph(device))

    def takes_conditions(self) -> bool:
        """Return True: the host looks at them when the graph runs."""
        return True
