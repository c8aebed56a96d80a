"""What native code calls of the recording driver (``fake_driver.py``): its functions under the driver's names.

The addresses that native code gets are those of callbacks that stay for good; the call goes to the fake made last.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warp_like.base.contract import CUDA_GRID, MAX_DIMS
from warp_like.runtime.cuda.driver import NATIVE_CALLS

Node = Callable[[], None]
"""A piece of a stream's work."""


@dataclass
class Launch:
    """A recorded ``cuLaunchKernel``."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    args: bytes  # the argument block, its first ``FakeDriver.args_size`` bytes
    dims: tuple[int, ...]
    divisors: tuple[int, ...]  # a multiplier for each extent, then a shift for each
    count: int
    context: int
    arena: tuple[int, int] = (0, 0)  # of the stacks, and the bytes of each thread


class NativeCalls:
    """The part of ``FakeDriver`` that is reached through addresses; each call ends in one of its other methods."""

    def native_addresses(self) -> dict[str, int]:
        serving.append(self)
        return {name: ctypes.cast(_CALLBACKS[name], ctypes.c_void_p).value or 0 for name in NATIVE_CALLS}

    def native_cuCtxGetCurrent(self, out: Any) -> None:
        out[0] = self.context_current()

    def native_cuCtxPushCurrent(self, context: int) -> None:
        self.context_push(context)

    def native_cuCtxPopCurrent(self, out: Any) -> None:
        out[0] = self.context_current()
        self.context_pop()

    def native_cuMemFreeAsync(self, address: int, stream: int | None) -> None:
        self.mem_free_async(address, stream or 0)

    def native_cuMemFree(self, address: int) -> None:
        self.mem_free(address)

    def native_cuMemFreeHost(self, address: int) -> None:
        self.mem_free_host(address)

    def native_cuStreamSynchronize(self, stream: int | None) -> None:
        self.stream_synchronize(stream or 0)

    def native_cuEventCreate(self, out: Any, flags: int) -> None:
        out[0] = self.event_create(flags)

    def native_cuEventRecord(self, event: int, stream: int | None) -> None:
        self.event_record(event, stream or 0)

    def native_cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        self.stream_wait_event(stream or 0, event)

    def native_cuStreamGetCtx(self, stream: int | None, out: Any) -> None:
        self._note("cuStreamGetCtx", stream or 0)
        device, _ = self.streams.get(stream or 0, (0, 0))
        out[0] = self.devices[device].context

    def native_cuMemsetD8Async(self, address: int, value: int, count: int, stream: int | None) -> None:
        self.fill(address, value, 1, count, stream or 0)

    def native_cuMemcpyDtoDAsync(self, to: int, source: int, nbytes: int, stream: int | None) -> None:
        self.copy_on_device(to, source, nbytes, stream or 0)

    def native_cuMemcpyDtoHAsync(self, to: int, source: int, nbytes: int, stream: int | None) -> None:
        self.copy_to_host(to, source, nbytes, stream or 0)

    def native_cuStreamIsCapturing(self, stream: int | None, out: Any) -> None:
        out[0] = int(self.stream_is_capturing(stream or 0))

    def native_cuGraphLaunch(self, executable: int, stream: int | None) -> None:
        self._in_context("cuGraphLaunch", stream or 0)
        self._note("cuGraphLaunch", executable, stream or 0)
        for node in self.executables[executable]:
            self._do(stream or 0, node)

    def native_cuLaunchKernel(self, function: int, *rest: Any) -> None:
        grid, block, (shared, stream, params, _) = rest[:3], rest[3:6], rest[6:]
        self._in_context("cuLaunchKernel", stream or 0)
        self._note("cuLaunchKernel", self.functions[function], grid, block, stream or 0)
        read = [
            ctypes.string_at(params[i], n) for i, n in enumerate((self._args_bytes(function), CUDA_GRID.size, 8, 8))
        ]
        (end,), (context,) = (struct.unpack("<q", r) for r in read[2:])
        numbers = struct.unpack(CUDA_GRID.format, read[1])
        dims, divisors = numbers[:MAX_DIMS], numbers[MAX_DIMS:]
        arena = (0, 0)
        if self._has_stack(function):
            arena = struct.unpack("<2q", b"".join(ctypes.string_at(params[i], 8) for i in (4, 5)))
        launch = Launch(
            self.functions[function], grid, block, shared, stream or 0, read[0], dims, divisors, end, context, arena
        )
        run = self._kernel(function, grid[0], block[0], read, context, arena)

        def happen() -> None:
            self.launches.append(launch)
            run()
            if self.on_launch is not None:
                self.on_launch(launch)

        self._do(stream or 0, happen)

    def _args_bytes(self, function: int) -> int:
        return self.args_size

    def _has_stack(self, function: int) -> bool:
        return self.functions[function] in self.stacks

    def _kernel(
        self, function: int, blocks: int, threads: int, params: list[bytes], context: int, arena: tuple[int, int]
    ) -> Node:
        """What a launch does besides being recorded."""
        return lambda: None


serving: list[NativeCalls] = []
"""The fake that native code's calls go to: the last one. The functions below stay at their addresses for good."""

_OUT, _PTR = ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
_UINT = ctypes.c_uint
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuCtxGetCurrent": (_OUT,),
    "cuCtxPushCurrent": (_PTR,),
    "cuCtxPopCurrent": (_OUT,),
    "cuLaunchKernel": (_PTR, *(_UINT,) * 7, _PTR, ctypes.POINTER(_PTR), _PTR),
    "cuMemFreeAsync": (ctypes.c_uint64, _PTR),
    "cuMemFree": (ctypes.c_uint64,),
    "cuMemFreeHost": (_PTR,),
    "cuStreamSynchronize": (_PTR,),
    "cuEventCreate": (_OUT, _UINT),
    "cuEventRecord": (_PTR, _PTR),
    "cuStreamWaitEvent": (_PTR, _PTR, _UINT),
    "cuStreamGetCtx": (_PTR, _OUT),
    "cuMemsetD8Async": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, _PTR),
    "cuMemcpyDtoDAsync": (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, _PTR),
    "cuMemcpyDtoHAsync": (_PTR, ctypes.c_uint64, ctypes.c_size_t, _PTR),
    "cuStreamIsCapturing": (_PTR, ctypes.POINTER(ctypes.c_int)),
    "cuGraphLaunch": (_PTR, _PTR),
}


def _callback(name: str) -> Any:
    def call(*args: Any) -> int:
        if not serving:
            return 4  # CUDA_ERROR_DEINITIALIZED
        try:
            getattr(serving[-1], f"native_{name}")(*args)
        except Exception as e:
            return int(getattr(e, "code", 999))
        return 0

    return ctypes.CFUNCTYPE(ctypes.c_int, *_SIGNATURES[name])(call)


_CALLBACKS = {name: _callback(name) for name in NATIVE_CALLS}
