"""Devices: where memory lies and kernels run.

There is exactly one ``Device`` object for each device, so that a launch tells devices apart by identity.
Launches on the CPU are synchronous; waiting for it returns at once. Devices of other kinds are looked for when a
program first asks for one: nothing of CUDA is imported before that. ``device.backend`` does what differs between kinds.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

from warp_like import _native
from warp_like.runtime.memory.registry import Unavailable, backend_of, kinds

if TYPE_CHECKING:
    from warp_like.runtime.memory.backend import Backend

CPU_DLPACK_TYPE, CUDA_DLPACK_TYPE = 1, 2
OTHER_DLPACK_TYPE = 12
"""DLPack's type of devices that it has no other number for, and that no library shares."""


class Device:
    """A device; ``str(device)`` is its alias, which also compares equal to it.

    Example:
        >>> cpu = wp.get_device("cpu")
        >>> cpu.is_cpu, str(cpu), cpu == "cpu"
        (True, 'cpu', True)
    """

    kind = "cpu"
    """The name of its kind, under which its ``backend`` is registered."""

    def __init__(self, alias: str, name: str | None, ordinal: int, dlpack_type: int) -> None:
        self.alias = alias
        self._name = name
        self.ordinal = ordinal
        self.dlpack_type = dlpack_type

    @property
    def name(self) -> str:
        """What the hardware calls itself."""
        if self._name is None:
            import platform  # asks another program, so only when somebody wants to know

            self._name = platform.processor() or "CPU"
        return self._name

    @property
    def is_cpu(self) -> bool:
        """Whether kernels for this device run on the CPU."""
        return self.kind == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether this is a CUDA device."""
        return self.kind == "cuda"

    @property
    def place(self) -> int:
        """What native code calls it: -1 is the CPU, numbers from 0 on are CUDA's, and smaller ones all others."""
        return -1 if self.is_cpu else -2 - self.ordinal

    @functools.cached_property
    def backend(self) -> Backend:
        """What allocates, copies, loads and launches on devices of its kind."""
        return backend_of(self.kind)

    @property
    def total_memory(self) -> int:
        """Bytes of memory in all."""
        return _native.host_memory()[0]

    @property
    def free_memory(self) -> int:
        """Bytes of memory that are free."""
        return _native.host_memory()[1]

    capture: Any = None
    """The CUDA graph that is being captured."""

    # ---- where the memory of arrays comes from

    allocator: Any = None
    """The user's allocator, in place of a built-in one."""

    @functools.cached_property
    def default_allocator(self) -> Any:
        """The built-in allocator without a pool; ``allocate(size_in_bytes)`` and ``deallocate(ptr, size_in_bytes)``.

        On CUDA, ``deallocate`` waits for the device.
        """
        return self.backend.builtin_allocator(self, pooled=False)

    @functools.cached_property
    def pinned_allocator(self) -> Any:
        """The allocator of page-locked memory of the host."""
        from warp_like.runtime.memory.allocators import BuiltinAllocator

        return BuiltinAllocator(lambda nbytes: self.backend.allocate_pinned(self, nbytes, False))

    @functools.cached_property
    def mempool_allocator(self) -> Any:
        """The allocator that takes memory from the device's pool; None if it has none, such as the CPU."""
        return self.backend.builtin_allocator(self, pooled=True)

    def get_allocator(self, pinned: bool = False) -> Any:
        """Return what the memory of new arrays comes from: the user's allocator, else a built-in one.

        Args:
            pinned: That of page-locked memory of the host.
        """
        if pinned:
            return self.pinned_allocator
        if self.allocator is not None:
            return self.allocator
        return self.mempool_allocator if self.is_mempool_enabled else self.default_allocator

    # ---- what only CUDA devices have

    @property
    def has_context(self) -> bool:
        """Whether there is a context, made at the first use: without one, nothing has to be waited for."""
        return False

    @property
    def is_uva(self) -> bool:
        """Whether host and device share one space of addresses."""
        return False

    @property
    def is_mempool_supported(self) -> bool:
        """Whether allocations can be ordered by streams."""
        return False

    @property
    def is_mempool_enabled(self) -> bool:
        """Whether allocations come from a memory pool."""
        return False

    @property
    def is_managed_memory_supported(self) -> bool:
        """Whether host and device can share memory that moves between them."""
        return False

    @property
    def is_concurrent_managed_access_supported(self) -> bool:
        """Whether host and device can use such memory at one time."""
        return False

    @property
    def is_cpu_memory_access_from_gpu_supported(self) -> bool:
        """Whether kernels can use all of the host's memory."""
        return False

    @property
    def is_gpu_memory_access_from_cpu_supported(self) -> bool:
        """Whether the host can use the device's memory."""
        return False

    @property
    def is_cpu_gpu_atomic_supported(self) -> bool:
        """Whether atomic operations of host and device on one address are atomic to each other."""
        return False

    @property
    def is_ipc_supported(self) -> bool:
        """Whether other processes can open its memory."""
        return False

    is_primary: bool = False
    """Whether its context is the one that all libraries share."""

    @property
    def arch(self) -> int:
        """90 for compute capability 9.0; 0 on the CPU."""
        return 0

    @property
    def sm_count(self) -> int:
        """The number of multiprocessors."""
        return 0

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that one block can be given."""
        return 0

    @property
    def uuid(self) -> str | None:
        """What names the device or its part, as nvidia-smi prints it."""
        return None

    @property
    def pci_bus_id(self) -> str | None:
        """Where it is plugged in."""
        return None

    @property
    def is_capturing(self) -> bool:
        """Whether a capture runs: on the CPU, in this thread."""
        from warp_like.runtime.memory.recorder import recorder

        return recorder.graph is not None

    def can_access(self, other: Device) -> bool:
        """Return whether kernels on this device can use the memory of ``other``."""
        return self is other

    def synchronize(self) -> None:
        """Wait until all work handed to the device is done; on the CPU it always is."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self.alias)

    def __hash__(self) -> int:
        return hash(self.alias)

    def __str__(self) -> str:
        return self.alias

    def __repr__(self) -> str:
        return f"'{self.alias}'"

    def __reduce__(self) -> tuple[Any, ...]:
        return get_device, (self.alias,)


DeviceLike = Device | str | None
"""What names a device: a ``Device``, an alias such as ``"cpu"``, or None for the current one."""

_CPU = Device("cpu", None, -1, CPU_DLPACK_TYPE)
_found: dict[str, dict[str, Device]] = {}  # by kind, devices by alias; without kinds that were not looked for yet
_why_none: dict[str, str] = {}  # why a kind has no devices


def devices_of(kind: str) -> dict[str, Device]:
    """Return the devices of a kind by alias; looks for them at the first call."""
    if kind not in _found:
        try:
            _found[kind] = backend_of(kind).discover()
        except Unavailable as e:
            _found[kind], _why_none[kind] = {}, str(e)
    return _found[kind]


def forget_devices(kind: str) -> None:
    """Look for the devices of a kind anew at the next call that asks for them."""
    _found.pop(kind, None)
    _why_none.pop(kind, None)
    if _current().kind == kind:
        set_device(_CPU)


def rename(device: Device, alias: str) -> None:
    """Give a device another name.

    Raises:
        ValueError: Another device has it.
    """
    known = devices_of(device.kind)
    if known.get(alias, device) is not device or alias == "cpu":
        raise ValueError(f"there is a device {alias!r} already")
    known.pop(device.alias, None)
    device.alias = alias
    known[alias] = device


def _current() -> Device:
    return cast(Device, _native.current_device() or _CPU)


def get_device(ident: DeviceLike = None) -> Device:
    """Return the device that ``ident`` names; the current one for None.

    Raises:
        ValueError: ``ident`` is no device name.
        RuntimeError: It names a CUDA device and there is none.

    Example:
        >>> wp.get_device("cpu")
        'cpu'
    """
    if ident is None:
        return _current()
    if isinstance(ident, Device):
        return ident
    name = ident if isinstance(ident, str) else _foreign_name(ident)
    if name == "cpu":
        return _CPU
    named, _, number = name.partition(":")
    known = kinds()
    for kind in (named, *known) if named in known else known:  # any may have an alias that a user has chosen
        found = devices_of(kind).get(name)
        if found is None and kind == name:
            found = _default_device(kind)
        if found is not None:
            return found
    here = ", ".join(alias for kind in known for alias in devices_of(kind))
    if named in known and (number.isdigit() or name == named):
        why = f" ({_why_none[named]})" if named in _why_none else ""
        raise RuntimeError(f"device {name!r} is not available here; the devices are: {here}{why}")
    raise ValueError(f"{name!r} is not the name of a device; the devices are: {here}")


def _default_device(kind: str) -> Device | None:
    """What the name of a kind means: the current device if it is one, else what another library has made current."""
    known = devices_of(kind)
    if not known or _current().kind == kind:
        return _current() if known else None
    return backend_of(kind).current_device() or next(iter(known.values()))


def _foreign_name(ident: Any) -> str:
    """The name of a framework's device object, e.g. ``torch.device('cpu')``."""
    kind = getattr(ident, "type", None)
    if not isinstance(kind, str):
        raise TypeError(f"a device is named by a string such as 'cpu' or a Device, got {type(ident).__name__}")
    index = getattr(ident, "index", None)
    return kind if kind == "cpu" or index is None else f"{kind}:{index}"


def set_device(ident: DeviceLike) -> None:
    """Make the device that ``ident`` names the current one of this thread, and of threads that have set none.

    Example:
        >>> wp.set_device("cpu")
        >>> wp.get_device()
        'cpu'
    """
    device = get_device(ident)
    _native.set_current_device(None if device is _CPU else device)


def get_devices() -> list[Device]:
    """Return all devices.

    Example:
        >>> wp.get_devices()[0]
        'cpu'
    """
    return [device for kind in kinds() for device in devices_of(kind).values()]


def get_preferred_device() -> Device:
    """Return the first CUDA device, or the CPU where there is none."""
    cuda = get_cuda_devices()
    return cuda[0] if cuda else _CPU


def is_cpu_available() -> bool:
    """Return whether kernels can run on the CPU, which is always so."""
    return True


def get_cuda_devices() -> list[Device]:
    """Return the CUDA devices."""
    return list(devices_of("cuda").values())


def get_cuda_device(ordinal: int | None = None) -> Device:
    """Return the CUDA device with this number; what ``"cuda"`` means when left out.

    Raises:
        RuntimeError: There is no such device.
    """
    return get_device("cuda" if ordinal is None else f"cuda:{ordinal}")


def get_cuda_device_count() -> int:
    """Return the number of CUDA devices."""
    return len(get_cuda_devices())


def is_cuda_available() -> bool:
    """Return whether there is a CUDA device."""
    return get_cuda_device_count() > 0


def is_device_available(device: DeviceLike) -> bool:
    """Return whether ``device`` names a device that is here.

    Example:
        >>> wp.is_device_available("cpu"), wp.is_device_available("cuda:99")
        (True, False)
    """
    try:
        get_device(device)
    except (ValueError, RuntimeError):
        return False
    return True


class ScopedDevice:
    """Makes a device the current one of this thread inside a ``with`` block. Other threads keep theirs.

    Example:
        >>> with wp.ScopedDevice("cpu") as device:
        ...     a = wp.zeros(3)
        >>> a.device is device
        True
    """

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)
        self._saved: list[Device | None] = []

    def __enter__(self) -> Device:
        self._saved.append(_native.exchange_thread_device(self.device))
        return self.device

    def __exit__(self, *exc: object) -> None:
        _native.exchange_thread_device(self._saved.pop())


def synchronize() -> None:
    """Wait until all devices have done all work handed to them. The CPU has always done it.

    CUDA devices that were never used have nothing to wait for.
    """
    for device in [device for known in _found.values() for device in known.values()]:
        if device.has_context:
            device.synchronize()


def synchronize_device(device: DeviceLike = None) -> None:
    """Wait until ``device`` has done all work handed to it. The CPU has always done it."""
    get_device(device).synchronize()
