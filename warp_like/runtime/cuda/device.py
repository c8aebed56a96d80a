"""CUDA devices: what they can do, and the context that their work runs in.

A device's context is the primary one, which PyTorch, JAX and every other library of the process share. It is made when
something first needs it. Asking for names, attributes or memory of other devices makes none.
"""

from __future__ import annotations

import functools
import threading
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any

from warp_like import _native
from warp_like.runtime.cuda.driver import connect, driver
from warp_like.runtime.memory import device as devices
from warp_like.runtime.memory.device import CUDA_DLPACK_TYPE, Device
from warp_like.runtime.memory.registry import Unavailable
from warp_like.runtime.memory.stream import Stream, StreamDevice

if TYPE_CHECKING:
    from warp_like.runtime.cuda.conditions import Setter
    from warp_like.runtime.cuda.faults import Reports
    from warp_like.runtime.cuda.graph import CudaGraph


class Guard:
    """Makes a context current inside a ``with`` block; what was current before is so again afterwards."""

    __slots__ = ("context", "driver", "pushed")

    def __init__(self, driver: Any, context: int) -> None:
        self.driver = driver
        self.context = context
        self.pushed = threading.local()

    def __enter__(self) -> None:
        other = self.driver.context_current() != self.context
        if other:
            self.driver.context_push(self.context)
        self.pushed.__dict__.setdefault("stack", []).append(other)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pushed.stack.pop():
            self.driver.context_pop()


class CudaDevice(StreamDevice):
    """A CUDA device. Made by ``wp.get_device("cuda:0")`` and the like, once for each.

    Attributes:
        ordinal: The driver's number for it.
        is_primary: Whether its context is the one that all libraries share.
    """

    kind = "cuda"

    @property
    def place(self) -> int:
        """What native code calls it: its number."""
        return self.ordinal

    def __init__(self, alias: str, ordinal: int, context: int | None = None) -> None:
        super().__init__(alias, None, ordinal, CUDA_DLPACK_TYPE)
        self.is_primary = context is None
        self.mempool_wanted = True
        self.takes_machine_code = True  # until its driver has refused some; see `code.py`
        self.capture: CudaGraph | None = None  # the one that is running
        self.peers: set[CudaDevice] = set()  # whose memory kernels here have been let use
        self.reports: Reports | None = None  # what kernels report to the host; made by `faults.py`
        self.condition_setter: Setter | None = None  # made by `conditions.py`
        self._given_context = context
        self.driver = driver()

    # ---- what it is

    @functools.cached_property
    def name(self) -> str:
        """What the hardware calls itself, for example ``NVIDIA H200``."""
        found: str = self.driver.device_name(self.ordinal)
        return found

    @functools.cached_property
    def arch(self) -> int:
        """The compute capability: 10 times the major plus the minor one, for example 90."""
        major, minor = (self.attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        return 10 * major + minor

    @functools.cached_property
    def uuid(self) -> str:
        """The name by which nvidia-smi and CUDA_VISIBLE_DEVICES know it."""
        return f"GPU-{uuid.UUID(bytes=self.driver.device_uuid(self.ordinal))}"

    @functools.cached_property
    def pci_bus_id(self) -> str:
        """Domain, bus and device, in hexadecimal."""
        found: str = self.driver.device_pci_bus_id(self.ordinal)
        return found

    @functools.cached_property
    def sm_count(self) -> int:
        """The number of multiprocessors."""
        return self.attribute("MULTIPROCESSOR_COUNT")

    @functools.cached_property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that one block can be given."""
        return self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")

    @functools.cached_property
    def max_threads_per_multiprocessor(self) -> int:
        """How many threads a multiprocessor runs at once."""
        return self.attribute("MAX_THREADS_PER_MULTIPROCESSOR")

    @functools.cached_property
    def is_uva(self) -> bool:
        """Whether host and device share one space of addresses."""
        return bool(self.attribute("UNIFIED_ADDRESSING"))

    @functools.cached_property
    def is_mempool_supported(self) -> bool:
        """Whether allocations can be ordered by streams."""
        return bool(self.attribute("MEMORY_POOLS_SUPPORTED"))

    @functools.cached_property
    def is_managed_memory_supported(self) -> bool:
        """Whether host and device can share memory that moves between them."""
        return bool(self.attribute("MANAGED_MEMORY"))

    @functools.cached_property
    def is_concurrent_managed_access_supported(self) -> bool:
        """Whether host and device can use managed memory at one time."""
        return bool(self.attribute("CONCURRENT_MANAGED_ACCESS"))

    @functools.cached_property
    def is_cpu_memory_access_from_gpu_supported(self) -> bool:
        """Whether kernels can use all of the host's memory, as ``malloc`` gives it."""
        return bool(self.attribute("PAGEABLE_MEMORY_ACCESS"))

    @functools.cached_property
    def is_gpu_memory_access_from_cpu_supported(self) -> bool:
        """Whether the host can use managed memory where it lies on the device, without moving it."""
        return bool(self.attribute("DIRECT_MANAGED_MEM_ACCESS_FROM_HOST"))

    @functools.cached_property
    def is_cpu_gpu_atomic_supported(self) -> bool:
        """Whether atomic operations of host and device on one address are atomic to each other."""
        return bool(self.attribute("HOST_NATIVE_ATOMIC_SUPPORTED"))

    @functools.cached_property
    def is_ipc_supported(self) -> bool:
        """Whether other processes can open its memory."""
        return bool(self.attribute("IPC_EVENT_SUPPORTED"))

    @property
    def is_mempool_enabled(self) -> bool:
        """Whether allocations come from the memory pool; see ``wp.set_mempool_enabled``."""
        return self.mempool_wanted and self.is_mempool_supported

    def attribute(self, name: str) -> int:
        """Return the driver's attribute ``CU_DEVICE_ATTRIBUTE_`` + ``name``."""
        found: int = self.driver.device_attribute(self.ordinal, name)
        return found

    # ---- memory

    @property
    def total_memory(self) -> int:
        """Bytes of memory in all."""
        found: int = self.driver.device_total_memory(self.ordinal)
        return found

    @property
    def free_memory(self) -> int:
        """Bytes of memory that are free. Makes the context, as the driver tells it inside of one alone."""
        with self.guard:
            free: int = self.driver.memory_info()[0]
        return free

    @functools.cached_property
    def pool(self) -> int:
        """The driver's handle of the memory pool."""
        found: int = self.driver.default_pool(self.ordinal)
        return found

    # ---- the context

    @functools.cached_property
    def native(self) -> Any:
        """The context as native code knows it; made at the first use, with the device's own stream."""
        connect()
        handle = (
            self.driver.primary_context_retain(self.ordinal) if self._given_context is None else self._given_context
        )
        made = _native.DriverContext(handle, self.ordinal)
        made.only = len(cuda_devices()) == 1
        self.__dict__["native"] = made  # for the stream, which asks for it
        made.stream = Stream(self)
        return made

    @property
    def has_context(self) -> bool:
        """Whether the context has been made by us."""
        return "native" in self.__dict__

    @property
    def context(self) -> int:
        """The driver's handle of the context."""
        handle: int = self.native.handle
        return handle

    @functools.cached_property
    def guard(self) -> Guard:
        """Makes the device's context current in a ``with`` block."""
        return Guard(self.driver, self.context)

    @property
    def context_guard(self) -> Guard:
        """The same as ``guard``."""
        return self.guard

    def make_current(self) -> None:
        """Make the device's context the calling thread's current one, and leave it so."""
        if self.driver.context_current() != self.context:
            self.driver.context_push(self.context)

    # ---- streams

    @property
    def stream(self) -> Stream:
        """The current stream: where work goes unless a launch names another."""
        found: Stream = self.native.stream
        return found

    @property
    def has_stream(self) -> bool:
        """Whether the current stream exists already."""
        return self.has_context

    @functools.cached_property
    def null_stream(self) -> Stream:
        """The legacy default stream, which waits for all blocking streams and they for it."""
        return Stream(self, cuda_stream=0)

    def set_stream(self, stream: Stream, sync: bool = True) -> None:
        """Make ``stream`` the current one; with ``sync`` it waits for what the one before holds."""
        if stream.device is not self:
            raise ValueError(f"stream {stream!r} is one of {stream.device}, not of {self}")
        if sync and stream is not self.stream:
            stream.wait_stream(self.stream)
        self.native.stream = stream
        self.native.stream_chosen = True

    @property
    def is_capturing(self) -> bool:
        """Whether a capture runs on it."""
        return self.capture is not None

    def can_access(self, other: Device) -> bool:
        """Return whether kernels here can use the memory of ``other``."""
        if other is self:
            return True
        return isinstance(other, CudaDevice) and bool(self.driver.can_access_peer(self.ordinal, other.ordinal))

    def synchronize(self) -> None:
        """Wait until the device has done all work."""
        if self.capture is not None:
            raise RuntimeError(f"a capture is running on {self}, which can't be waited for; end it first")
        with self.guard:
            self.driver.context_synchronize()
        self.raise_faults()

    # ---- faults

    def raise_faults(self) -> None:
        """Raise the error that a kernel has reported, if one has; called when something was waited for."""
        if self.reports is not None:
            self.reports.check()


def discover() -> dict[str, CudaDevice]:
    """Return the CUDA devices by alias.

    Raises:
        Unavailable: CUDA can't be used here, or there is no device; the message says what is missing.
    """
    count = driver().device_count()
    if not count:
        raise Unavailable("the NVIDIA driver sees no device")
    return {f"cuda:{i}": CudaDevice(f"cuda:{i}", i) for i in range(count)}


def cuda_devices() -> dict[str, CudaDevice]:
    """Return the CUDA devices by alias; empty where CUDA can't be used."""
    return devices.devices_of("cuda")  # type: ignore[return-value]  # `discover` has made them


def current_device() -> CudaDevice | None:
    """Return the device of the thread's current context, which another library may have chosen; None without one."""
    if not driver().context_current():
        return None
    found = devices.get_device(f"cuda:{driver().context_device()}")
    return found if isinstance(found, CudaDevice) else None


def device_of(address: int) -> CudaDevice:
    """Return the device in whose memory an address lies; of address 0, which no memory has, the one that "cuda" means.

    Raises:
        CudaError: The driver knows of no such memory.
    """
    found = devices.get_device(f"cuda:{driver().pointer_device(address)}" if address else "cuda")
    assert isinstance(found, CudaDevice)
    return found


def device_of_context(context: int) -> CudaDevice:
    """Return the device whose context has this handle.

    Raises:
        RuntimeError: No device of ours has it.
    """
    with Guard(driver(), context):
        ordinal = driver().context_device()
    found = next((d for d in cuda_devices().values() if d.ordinal == ordinal and d.context == context), None)
    if found is None:
        raise RuntimeError(f"context {context:#x} of device {ordinal} is none of ours: use wp.map_cuda_device")
    return found


def map_cuda_device(alias: str, context: Any = None) -> CudaDevice:
    """Return the device for a context that another library has made, under a name of one's own.

    Args:
        alias: The name.
        context: The driver's handle, an int or a ``ctypes.c_void_p``; the calling thread's current context when left
            out.

    Raises:
        ValueError: The name is taken by another device.
        RuntimeError: There is no context, or CUDA can't be used here.
    """
    handle = getattr(context, "value", context)
    if handle is None:
        handle = driver().context_current()
        if not handle:
            raise RuntimeError(f"map_cuda_device({alias!r}): the thread has no current CUDA context; pass `context`")
    known = cuda_devices()
    for device in known.values():
        if device.has_context and device.context == handle:
            devices.rename(device, alias)
            return device
    if alias in known or alias == "cpu":
        raise ValueError(f"there is a device {alias!r} already")
    with Guard(driver(), handle):
        ordinal = driver().context_device()
    primary = known.get(f"cuda:{ordinal}")
    if primary is not None and primary.context == handle:
        devices.rename(primary, alias)
        return primary
    made = CudaDevice(alias, ordinal, handle)
    known[alias] = made
    return made


def unmap_cuda_device(alias: str) -> None:
    """Forget a name that ``map_cuda_device`` gave. A device's primary context stays under its own name.

    Raises:
        RuntimeError: There is no such device, or it is the CPU.
    """
    known = cuda_devices()
    if alias not in known:
        raise RuntimeError(f"{alias!r} is not the name of a CUDA device; the devices are: {', '.join(known)}")
    device = known[alias]
    if device.is_primary:
        devices.rename(device, f"cuda:{device.ordinal}")
    else:
        del known[alias]
