"""Devices: where memory lies and kernels run.

There is exactly one ``Device`` object for each device, so that a launch tells devices apart by identity.
Launches on the CPU are synchronous; waiting for it returns at once.
"""

from __future__ import annotations

import os
from typing import Any

CPU_DLPACK_TYPE = 1


class Device:
    """A device; ``str(device)`` is its alias, which also compares equal to it."""

    __slots__ = ("_name", "alias", "dlpack_type", "ordinal")

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
        return self.dlpack_type == CPU_DLPACK_TYPE

    @property
    def is_cuda(self) -> bool:
        """Whether this is a CUDA device."""
        return not self.is_cpu

    @property
    def total_memory(self) -> int:
        """Bytes of memory in all."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """Bytes of memory that are free."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

    def can_access(self, other: Device) -> bool:
        """Return whether kernels on this device can use the memory of ``other``."""
        return self is other

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
_devices: dict[str, Device] = {"cpu": _CPU}
_current = _CPU


def get_device(ident: DeviceLike = None) -> Device:
    """Return the device that ``ident`` names; the current one for None.

    Raises:
        ValueError: ``ident`` is no device name.
        RuntimeError: It names a CUDA device and there is none.
    """
    if ident is None:
        return _current
    if isinstance(ident, Device):
        return ident
    name = ident if isinstance(ident, str) else _foreign_name(ident)
    found = _devices.get(name)
    if found is not None:
        return found
    if name == "cuda" or (name.startswith("cuda:") and name[5:].isdigit()):
        raise RuntimeError(f"device {name!r} is not available here; the devices are: {', '.join(_devices)}")
    raise ValueError(f"{name!r} is not the name of a device; the devices are: {', '.join(_devices)}")


def _foreign_name(ident: Any) -> str:
    """The name of a framework's device object, e.g. ``torch.device('cpu')``."""
    kind = getattr(ident, "type", None)
    if not isinstance(kind, str):
        raise TypeError(f"a device is named by a string such as 'cpu' or a Device, got {type(ident).__name__}")
    index = getattr(ident, "index", None)
    return kind if kind == "cpu" or index is None else f"{kind}:{index}"


def set_device(ident: DeviceLike) -> None:
    """Make the device that ``ident`` names the current one."""
    global _current
    _current = get_device(ident)


def get_devices() -> list[Device]:
    """Return all devices."""
    return list(_devices.values())


def get_preferred_device() -> Device:
    """Return the first CUDA device, or the CPU where there is none."""
    cuda = get_cuda_devices()
    return cuda[0] if cuda else _CPU


def is_cpu_available() -> bool:
    """Return whether kernels can run on the CPU, which is always so."""
    return True


def get_cuda_devices() -> list[Device]:
    """Return the CUDA devices."""
    return [d for d in _devices.values() if d.is_cuda]


def get_cuda_device_count() -> int:
    """Return the number of CUDA devices."""
    return len(get_cuda_devices())


def is_cuda_available() -> bool:
    """Return whether there is a CUDA device."""
    return get_cuda_device_count() > 0


def is_device_available(ident: DeviceLike) -> bool:
    """Return whether ``ident`` names a device that is here."""
    try:
        get_device(ident)
    except (ValueError, RuntimeError):
        return False
    return True


class ScopedDevice:
    """Makes a device the current one inside a ``with`` block."""

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)
        self._saved: list[Device] = []

    def __enter__(self) -> Device:
        self._saved.append(_current)
        set_device(self.device)
        return self.device

    def __exit__(self, *exc: object) -> None:
        set_device(self._saved.pop())


def synchronize() -> None:
    """Wait until all devices have done all work handed to them. The CPU has always done it."""


def synchronize_device(device: DeviceLike = None) -> None:
    """Wait until ``device`` has done all work handed to it. The CPU has always done it."""
    get_device(device)
