"""OpenCL without a driver: its calls on the host's memory, and kernels compiled for this processor.

A kernel's LLVM IR, which becomes SPIR-V elsewhere, is taken as the program. The address spaces are taken out, each work
item gets its number as a parameter, and OpenCL's functions are those of the C library. So the entry, the loop over the
grid, atomics, records of errors and the whole runtime are as on a device; what is not shown is what LLVM makes of the
text in SPIR-V.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from typing import Any

from warp_like.backend.compile import DeviceCode, lower_entry
from warp_like.backend.cpu import compile_object, load
from warp_like.backend.device_limits import require_supported
from warp_like.backend.llvm.entry import Lowered
from warp_like.backend.target import host_target

ITEMS = 5
"""How many work items really run: fewer than a grid has places, so that they go on to others."""

P, I64 = ctypes.c_void_p, ctypes.c_int64


def to_text(function: Any, target: Any, options: Any) -> DeviceCode:
    """What ``to_spirv`` does, with LLVM IR as the code."""
    require_supported(function, target)
    lowered = lower_entry(function, target, options)
    return DeviceCode(lowered.text.encode(), lowered.faults)


def _for_the_host(text: str) -> str:
    text = re.sub(r"^declare spir_func i64 .*\n", "", text, flags=re.MULTILINE)
    for name, parameter in (("_Z13get_global_idj", "%id"), ("_Z15get_global_sizej", "%size")):
        text = re.sub(rf"call spir_func i64 @{name}\(i32 0\)( #\d+)?", f"add i64 {parameter}, 0", text)
    text = re.sub(r"@_Z(\d+)(\w+)\(", lambda m: f"@{_libm(int(m[1]), m[2])}(", text)
    text = re.sub(r"ptr byval\(\{[^}]*\}\) align 8", "ptr", text).replace("%ctx)", "%ctx, i64 %id, i64 %size)", 1)
    for gone in (" addrspace(1)", "spir_kernel ", "spir_func ", ' syncscope("device")'):
        text = text.replace(gone, "")
    return text.replace("spirv64-unknown-unknown", host_target().triple)


def _libm(length: int, mangled: str) -> str:
    return mangled[:length] + ("f" if mangled[length] == "f" else "")


class StandIn:
    """The methods of ``OpenCl``, one device called 7."""

    def __init__(self) -> None:
        self._memory: dict[int, Any] = {}
        self._programs: dict[int, Any] = {}
        self.names: dict[int, str] = {7: "a stand-in"}

    def devices(self) -> list[int]:
        return list(self.names)

    def name(self, device: int) -> str:
        return self.names[device]

    def extensions(self, device: int) -> frozenset[str]:
        return frozenset(("cl_khr_fp64", "cl_khr_fp16", "cl_khr_int64_base_atomics"))

    def takes_spirv(self, device: int) -> bool:
        return device == 7

    def memory(self, device: int) -> int:
        return 1 << 30

    def parameter_bytes(self, device: int) -> int:
        return 1024

    def context(self, device: int) -> int:
        return 70

    def queue(self, context: int, device: int) -> int:
        return 71

    def program(self, context: int, device: int, code: bytes) -> int:
        number = 1 + len(self._programs)
        self._programs[number] = code.decode()
        return number

    def kernel(self, program: int, name: str) -> int:
        text = _for_the_host(self._programs[program])
        loaded = load(compile_object(Lowered(text, in_lanes=True), host_target()), (name,), {})
        call = ctypes.CFUNCTYPE(None, P, P, I64, P, I64, I64)(loaded.address(name))
        self._programs[program] = loaded, call
        return program

    def release(self, kernel: int, program: int) -> None:
        del self._programs[program]
        self._programs[program + (1 << 20)] = None  # so that no number comes again

    def launch(
        self, queue: int, kernel: int, values: Iterable[bytes], context: int, reached: Iterable[int], items: int
    ) -> None:
        args, dims, end = values
        reached = list(reached)
        assert not context or context in reached
        assert reached == list(self._memory)
        _, call = self._programs[kernel]
        for i in range(min(items, ITEMS)):
            call(args, dims, int.from_bytes(end, "little"), context or None, i, min(items, ITEMS))

    def allocate(self, context: int, nbytes: int, align: int) -> int:
        if nbytes > 1 << 30:
            return 0
        room = ctypes.create_string_buffer(b"\x5a" * (nbytes + align))
        address = -(-ctypes.addressof(room) // align) * align
        self._memory[address] = room
        return address

    def free(self, context: int, address: int) -> None:
        del self._memory[address]

    def copy(self, queue: int, pieces: Iterable[tuple[int, int, int]]) -> None:
        for to, source, nbytes in pieces:
            assert nbytes
            assert to + nbytes <= source or source + nbytes <= to, "OpenCL refuses copies that overlap"
            ctypes.memmove(to, source, nbytes)

    def clear(self, queue: int, address: int, nbytes: int) -> None:
        ctypes.memset(address, 0, nbytes)
