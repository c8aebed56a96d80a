"""What the runtime asks of the CPU. Modules that only some programs need are loaded when they are first used."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import _native

if TYPE_CHECKING:
    from warp_like.runtime.memory.allocation import MemoryKind
    from warp_like.runtime.memory.allocators import BuiltinAllocator
    from warp_like.runtime.memory.backend import Algorithms, Programs
    from warp_like.runtime.memory.device import Device


class CpuBackend:
    """The CPU; see ``Backend`` for what the methods do."""

    kind = "cpu"
    shares_host_memory = True
    streams = None

    def discover(self) -> dict[str, Device]:
        """Return the CPU, which is always there."""
        from warp_like.runtime.memory.device import get_device

        return {"cpu": get_device("cpu")}

    def current_device(self) -> Device | None:
        """Return None: no library chooses among CPUs."""
        return None

    # ---- memory

    def allocate(self, device: Device, nbytes: int, zero: bool) -> Any:
        """Return the owner of fresh memory."""
        return _native.alloc(nbytes, zero)

    def allocate_pinned(self, device: Device, nbytes: int, zero: bool) -> Any:
        """Return the owner of page-locked memory, which a CUDA device has the driver allocate."""
        from warp_like.runtime.memory.device import get_device

        try:
            served = get_device("cuda")
        except RuntimeError as e:
            raise RuntimeError(f"pinned memory serves copies to and from a CUDA device: {e}") from None
        return served.backend.allocate_pinned(served, nbytes, zero)

    def builtin_allocator(self, device: Device, pooled: bool) -> BuiltinAllocator | None:
        """Return what hands out the native allocator's memory; there is no pool."""
        from warp_like.runtime.memory.allocators import BuiltinAllocator

        return None if pooled else BuiltinAllocator(lambda nbytes: _native.alloc(nbytes, False, True))

    def memory_kind(self, a: Any) -> MemoryKind:
        """Return whether the memory is page-locked."""
        from warp_like.runtime.memory.allocation import MemoryKind

        return MemoryKind.PINNED if a.pinned else MemoryKind.HOST

    def memory_handle(self, a: Any) -> bytes:
        """Refuse: other processes can't open memory of the host by a handle.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            f"{a!r} lies on {a.device}, and only CUDA memory has IPC handles; share host memory by "
            "multiprocessing.shared_memory and wp.array(ptr=...)"
        )

    def can_access(self, device: Device, a: Any) -> bool:
        """Return False: the two are different objects for a CPU, of which one stands for something else."""
        return False

    # ---- copies

    def write(self, dest: Any, values: Any, stream: Any) -> None:
        """Copy with NumPy."""
        target: Any = dest.numpy()
        source: Any = values if not isinstance(values, _native.Array) else values.numpy()  # type: ignore[attr-defined]
        # NumPy (2.4) overwrites what it has yet to copy where strides of one dimension differ: x[::2] = x[:3].
        overlaps = isinstance(source, np.ndarray) and np.may_share_memory(target, source)
        np.copyto(target, source.copy() if overlaps else source)

    def read(self, a: Any) -> np.ndarray[Any, Any]:
        """Return a view of the memory."""
        shown: np.ndarray[Any, Any] = a._show()
        return shown

    # ---- launches

    @functools.cached_property
    def programs(self) -> Programs:
        """How kernels are compiled, loaded and timed."""
        from warp_like.runtime.cpu import programs

        return programs

    @functools.cached_property
    def algorithms(self) -> Algorithms:
        """Sums, sorts and so on, in native code on all threads."""
        from warp_like.runtime.cpu import algorithms

        return algorithms

    def begin_capture(self, device: Device, stream: Any, external: bool, mode: str) -> None:
        """Take launches and writes of this thread into a graph."""
        from warp_like.runtime.launching.graph import Graph, set_capture

        set_capture(Graph(device))

    def takes_conditions(self) -> bool:
        """Return True: the host looks at them when the graph runs."""
        return True
