"""The fake driver with kernels that run: what is compiled for CUDA runs on the CPU, thread after thread.

A module is the LLVM IR that would become PTX (``emulated_code`` has the compiler hand that out), and a launch runs it
for each thread of each block, on the memory of the fake. So whole programs run, through the runtime's every step but
the driver and NVPTX. See ``tests/cuda_emulation.py`` for what is shown by that and what is not.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.cuda_emulation import CudaKernel, host_object
from tests.runtime.cuda.fake_driver import FakeDriver, Node
from warp_like.backend import compile as backend
from warp_like.backend import conditions
from warp_like.backend.cpu import load
from warp_like.base.settings import settings

P, I64 = ctypes.c_void_p, ctypes.c_int64


@contextmanager
def emulated_code() -> Iterator[None]:
    """Let the compiler give out LLVM IR in place of PTX, and keep none of it."""

    def to_cuda(function: Any, target: Any, options: Any) -> backend.DeviceCode:
        lowered = backend.lower_entry(function, target, options)
        return backend.DeviceCode(lowered.text.encode(), lowered.faults)

    before = settings.cache_kernels
    settings.cache_kernels = False
    try:
        with (
            mock.patch.object(backend, "to_cuda", to_cuda),
            mock.patch("warp_like.runtime.cuda.conditions.setter_code", lambda t: conditions.setter_llvm(t).encode()),
        ):
            yield
    finally:
        settings.cache_kernels = before


@functools.lru_cache(maxsize=512)
def compiled(text: str, name: str) -> Compiled:
    """The entry of a text, which many tests load."""
    return Compiled(text, name)


class Compiled(CudaKernel):
    """One entry, from its LLVM IR."""

    def __init__(self, text: str, name: str) -> None:
        self._team = None
        self.in_team = bool(re.search(r"barrier\.sync|mma\.|cp\.async|vote\.|shfl\.sync\.(idx|up|down)", text))
        self._callbacks = self._make_callbacks()
        declared = re.search(r"byval\(\[(\d+) x i8\]\)", text)
        self.args_bytes = int(declared[1]) if declared else 0
        bound = re.search(r'"nvvm.maxntid"="(\d+)"', text)
        self.most_threads = int(bound[1]) if bound else 1024
        symbols = {symbol: ctypes.cast(call, P).value or 0 for symbol, call in self._callbacks.items()}
        code = host_object(text, name)
        self._loaded = load(code, (name,), symbols)
        self.has_stack = "i64 %capacity)" in text
        self._run = ctypes.CFUNCTYPE(None, P, P, I64, P, P, I64, P)(self._loaded.address(name))

    def launch(self, blocks: int, threads: int, *params: int) -> None:
        """Run all threads, those of a block side by side where they work together."""

        def thread(b: int, t: int) -> None:
            self._run(*params, struct.pack("=5i", t, threads, b, blocks, t % 32))

        if self.in_team:
            self.run_blocks(thread, blocks, threads)
            return
        for b in range(blocks):
            for t in range(threads):
                thread(b, t)


class EmulatedDriver(FakeDriver):
    """A driver whose launches run."""

    tag = 0

    def __init__(self, devices: int = 2) -> None:
        super().__init__(devices)
        self.compiled: dict[int, Compiled] = {}
        self.setters: dict[int, Any] = {}
        for device in self.devices:
            device.attributes["MULTIPROCESSOR_COUNT"] = 2

    def module_function(self, module: int, name: str) -> int:
        function = super().module_function(module, name)
        if name == conditions.ENTRY:
            self.setters[function] = self._setter(self.images[module].rstrip(b"\0").decode())
            return function
        self.compiled[function] = compiled(self.images[module].rstrip(b"\0").decode(), name)
        return function

    def function_attribute(self, function: int, name: str) -> int:
        most = self.compiled[function].most_threads
        return most if name == "MAX_THREADS_PER_BLOCK" else super().function_attribute(function, name)

    def _args_bytes(self, function: int) -> int:
        return self.compiled[function].args_bytes

    def _has_stack(self, function: int) -> bool:
        return self.compiled[function].has_stack

    def _kernel(
        self, function: int, blocks: int, threads: int, params: list[bytes], context: int, arena: tuple[int, int]
    ) -> Node:
        args, dims = (ctypes.create_string_buffer(p, len(p)) for p in params[:2])
        end = int.from_bytes(params[2], "little", signed=True)
        code = self.compiled[function]

        def run() -> None:
            places = ctypes.addressof(args), ctypes.addressof(dims)
            code.launch(blocks, threads, *places, end, context, *arena)

        return run

    def _setter(self, text: str) -> Any:
        """The kernel that sets conditions, which calls back for what the driver's function would do."""
        symbol = ctypes.CFUNCTYPE(None, I64, ctypes.c_int32)(
            lambda handle, x: self.conditions.update({handle: bool(x)})
        )
        code = host_object(text, conditions.ENTRY)
        address = ctypes.cast(symbol, P).value or 0
        loaded = load(code, (conditions.ENTRY,), {"cudaGraphSetConditional": address})
        call = ctypes.CFUNCTYPE(None, P, I64, I64, I64)(loaded.address(conditions.ENTRY))
        return call, loaded, symbol

    def _thread(self, function: int, *args: int) -> None:
        self.setters[function][0](*args)
