"""OpenCL devices: what they have, their memory, and one queue each, whose work has finished when a call returns."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable
from typing import Any

from warp_like import _native
from warp_like.backend.target import Target, opencl_target
from warp_like.runtime.memory.device import OTHER_DLPACK_TYPE, Device
from warp_like.runtime.memory.registry import Unavailable
from warp_like.runtime.opencl.driver import OpenCl, libraries

ALIGNMENT = 64
_EXTENSIONS = {"fp64": "cl_khr_fp64", "fp16": "cl_khr_fp16", "int64_atomics": "cl_khr_int64_base_atomics"}


class OpenClDevice(Device):
    """An OpenCL device that takes SPIR-V. Made by ``wp.get_device("opencl:0")`` and the like, once for each.

    Attributes:
        api: OpenCL's functions.
        handle: OpenCL's handle of the device.
        target: What the compiler makes code for.
    """

    kind = "opencl"

    def __init__(self, api: OpenCl, handle: int, ordinal: int) -> None:
        # Not DLPack's number for OpenCL: that one means handles of buffers, not addresses.
        super().__init__(f"{self.kind}:{ordinal}", api.name(handle), ordinal, OTHER_DLPACK_TYPE)
        self.api, self.handle = api, handle
        self._process = os.getpid()
        has = api.extensions(handle)
        self.target: Target = opencl_target(name for name, extension in _EXTENSIONS.items() if extension in has)
        self._lock = threading.RLock()
        self._live: dict[int, int] = {}
        self._given_up: list[int] = []  # by threads that must not wait; a launch may still use it

    @property
    def is_inherited(self) -> bool:
        """Whether the process that found the device has forked this one, which has none of the driver's threads."""
        return self._process != os.getpid()

    def _require_own(self) -> None:
        if self.is_inherited:
            raise RuntimeError(
                f"{self.alias} can't be used in a process that was forked after OpenCL had started: start workers by "
                "multiprocessing.set_start_method('spawn')"
            )

    @functools.cached_property
    def context(self) -> int:
        """OpenCL's context, made at the first use."""
        self._require_own()
        return self.api.context(self.handle)

    @functools.cached_property
    def queue(self) -> int:
        """The queue of all work."""
        return self.api.queue(self.context, self.handle)

    @property
    def has_context(self) -> bool:
        """Return False: there is never anything to wait for."""
        return False

    @property
    def total_memory(self) -> int:
        """Bytes of memory in all."""
        return self.api.memory(self.handle)

    @property
    def free_memory(self) -> int:
        """Bytes that arrays have not taken; OpenCL does not tell of those that others have."""
        return self.total_memory - sum(self._live.values())

    # ---- memory

    def allocate(self, nbytes: int, zero: bool) -> Any:
        """Return the owner of fresh memory.

        Raises:
            MemoryError: There is no room for it.
            RuntimeError: This process was forked after OpenCL had started.
        """
        self._require_own()
        size = max(nbytes, 1)
        with self._lock:
            self._free_given_up()
            address = self.api.allocate(self.context, size, ALIGNMENT)
            if not address:
                raise MemoryError(f"{self.alias} has no room for {nbytes} bytes")
            self._live[address] = size
            if zero:
                self.api.clear(self.queue, address, size)
        return _native.Buffer.wrap(address, nbytes, self._given_up.append)

    def _free_given_up(self) -> None:
        while self._given_up:
            address = self._given_up.pop()
            del self._live[address]
            self.api.free(self.context, address)

    @property
    def live_bytes(self) -> int:
        """The bytes of memory that something holds."""
        self._require_own()
        with self._lock:
            self._free_given_up()
            return sum(self._live.values())

    def copy(self, pieces: Iterable[tuple[int, int, int]]) -> None:
        """Copy pieces of memory, of this device or the host: to where, from where, how many bytes."""
        self._require_own()
        with self._lock:
            self.api.copy(self.queue, pieces)

    def clear(self, address: int, nbytes: int) -> None:
        """Set bytes of this device's memory to zero."""
        self._require_own()
        with self._lock:
            self.api.clear(self.queue, address, nbytes)

    # ---- launches

    def launch(self, kernel: int, values: Iterable[bytes], context: int, items: int) -> None:
        """Run a kernel, which may reach all memory of the device by address; see ``OpenCl.launch``."""
        self._require_own()
        with self._lock:
            self.api.launch(self.queue, kernel, values, context, self._live, items)
            self._free_given_up()


def discover() -> dict[str, Device]:
    """Return the devices that take SPIR-V, by alias.

    Raises:
        Unavailable: There are none.
    """
    reasons = []
    for library in libraries():
        try:
            api = OpenCl(library)
        except Unavailable as e:
            reasons.append(str(e))
            continue
        handles = api.devices()
        found: list[Device] = [OpenClDevice(api, h, i) for i, h in enumerate(filter(api.takes_spirv, handles))]
        if found:
            return {device.alias: device for device in found}
        names = ", ".join(map(api.name, handles)) or "no device"
        reasons.append(f"{library} has {names}: none that takes SPIR-V and shares addresses")
    raise Unavailable("; ".join(reasons))
