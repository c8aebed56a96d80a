"""Running the LLVM IR that is made for CUDA on the CPU: what a launch computes, without a GPU.

The text that becomes PTX is compiled for this machine instead, with the address spaces taken out, the special registers
read from memory, and one GPU thread run after the other, each to its end. So the loop over the grid, the arena of the
adjoint's stack, the fault record and all arithmetic are those of the device; what is not shown is what NVPTX makes of
the text, and anything between threads that run at the same time: a warp has one lane here.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.backend.running import pack
from warp_like import _native
from warp_like.backend.compile import entry_name
from warp_like.backend.cpu import compile_object, load
from warp_like.backend.llvm.entry import lower_entry
from warp_like.backend.target import Options, cuda_target, host_target
from warp_like.base.faults import explain
from warp_like.ir.core import Function
from warp_like.ir.layout import MAX_DIMS

P, I32, I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x")
_RUN = """
define void @emulate(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %ctx, i32 %blocks, i32 %threads) {{
  store i32 %threads, ptr @ntid.x
  store i32 %blocks, ptr @nctaid.x
  br label %block
block:
  %b = phi i32 [ 0, %0 ], [ %b1, %next ]
  store i32 %b, ptr @ctaid.x
  br label %thread
thread:
  %t = phi i32 [ 0, %block ], [ %t1, %thread ]
  store i32 %t, ptr @tid.x
  call void @{entry}(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %ctx)
  %t1 = add i32 %t, 1
  %more = icmp slt i32 %t1, %threads
  br i1 %more, label %thread, label %next
next:
  %b1 = add i32 %b, 1
  %again = icmp slt i32 %b1, %blocks
  br i1 %again, label %block, label %done
done:
  ret void
}}
"""


@dataclass
class Context:
    """A ``CudaContext``, and the arena that it names."""

    capacity: int = 0
    threads: int = 0
    memory: Any = field(init=False)
    arena: Any = field(init=False)

    def __post_init__(self) -> None:
        self.memory = ctypes.create_string_buffer(_native.CUDA_CONTEXT_OFFSETS["size"])
        # Filled with what no test pushes, and guarded: a write behind the arena shows.
        self.arena = ctypes.create_string_buffer(b"\xcd" * (self.capacity * self.threads + 64))
        self._put("stack", ctypes.addressof(self.arena))
        self._put("stack_capacity", self.capacity)

    def _put(self, name: str, value: int) -> None:
        struct.pack_into("=q", self.memory, _native.CUDA_CONTEXT_OFFSETS[name], value)

    def get(self, name: str, form: str = "q") -> int:
        """A field."""
        (x,) = struct.unpack_from(f"={form}", self.memory, _native.CUDA_CONTEXT_OFFSETS[name])
        return int(x)

    def require_guard(self) -> None:
        """Check that nothing was written behind the arena."""
        assert self.arena.raw[self.capacity * self.threads :][:64] == b"\xcd" * 64


class CudaKernel:
    """A kernel as it is compiled for CUDA."""

    def __init__(self, f: Function, options: Options = Options(), arch: str = "sm_80") -> None:  # noqa: B008 (frozen)
        self.function = f
        lowered = lower_entry(f, cuda_target(arch), options)
        self.faults = lowered.faults
        code = compile_object(_for_the_host(lowered.text, entry_name(f)), host_target())
        # The text of prints is another's matter (`tests/backend/test_ptx.py`).
        self._vprintf = ctypes.CFUNCTYPE(I32, P, P)(lambda *_: 0)
        self._loaded = load(code, ("emulate",), {"vprintf": ctypes.cast(self._vprintf, P).value or 0})
        self._run = ctypes.CFUNCTYPE(None, P, P, I64, I64, P, I32, I32)(self._loaded.address("emulate"))

    def __call__(
        self,
        args: Sequence[Any],
        dims: tuple[int, ...],
        context: Context | None = None,
        blocks: int = 2,
        threads: int = 3,
    ) -> None:
        """Launch ``blocks`` blocks of ``threads`` threads for the grid ``dims``."""
        block = pack(self.function, args)
        extents = struct.pack(f"={MAX_DIMS}q", *dims, *[1] * (MAX_DIMS - len(dims)))
        total = 1
        for n in dims:
            total *= n
        where = None if context is None else ctypes.addressof(context.memory)
        self._run(block, extents, 0, total, where, blocks, threads)
        if context is not None:
            context.require_guard()

    def fault(self, context: Context, subject: str = "kernel `k`") -> Exception | None:
        """The exception that the host makes of the record, if a thread has failed."""
        code = context.get("code", "i")
        if not code:
            return None
        at = _native.CUDA_CONTEXT_OFFSETS["values"]
        values = struct.unpack_from("=16q", context.memory, at)
        encoded = self.faults[context.get("site", "i")]
        kinds = encoded.split("\n", 1)[0]
        return explain(subject, code, encoded, values[: len(kinds)], context.get("thread"))


def _for_the_host(text: str, entry: str) -> str:
    text = re.sub(r'^target triple = ".*"$', f'target triple = "{host_target().triple}"', text, flags=re.MULTILINE)
    text = re.sub(r"addrspacecast \(ptr addrspace\(4\) (@[\w.]+) to ptr\)", r"\1", text)
    text = re.sub(r" addrspace\(\d\)", "", text).replace("= addrspacecast ptr", "= bitcast ptr")
    text = text.replace("define ptx_kernel void", "define internal void")
    text = re.sub(r"ptr byval\(\[\d+ x i8\]\)|ptr byval\(\[\d+ x i64\]\)", "ptr", text)
    text = re.sub(r"^declare i32 @llvm\.nvvm\.read\.ptx\.sreg\..*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.(\w+\.x)\(\)", r"load i32, ptr @\1", text)
    text = text.replace("@__nv_", "@")
    registers = "".join(f"@{name} = internal global i32 0\n" for name in _REGISTERS)
    return text + registers + _RUN.format(entry=entry)
