"""Running the LLVM IR that is made for CUDA on the CPU: what a launch computes, without a GPU.

The text that becomes PTX is compiled for this machine instead, with the address spaces taken out and the special
registers read from memory. So the loop over the grid, the arena of the adjoint's stack, the fault record and all
arithmetic are those of the device; what is not shown is what NVPTX makes of the text.

Threads run one after the other, each to its end and alone in its warp. ``CudaKernel.in_warps`` runs the 32 lanes of a
warp as threads of this process that wait for each other wherever the code exchanges values between lanes; there all
lanes have to come by.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import re
import struct
import threading
from collections.abc import Callable, Sequence
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
LANES = 32
_REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid")
_HELPERS = """
define internal { i32, i1 } @wl_match_pair(i32 %mask, i64 %x) {
  %same = call i32 @wl_match(i64 %x)
  %p = icmp ne i32 %same, 0
  %first = insertvalue { i32, i1 } poison, i32 %mask, 0
  %both = insertvalue { i32, i1 } %first, i1 %p, 1
  ret { i32, i1 } %both
}
declare i32 @wl_match(i64)
"""
_CALLS = {
    "activemask": "wl_activemask",
    "shfl.sync.bfly.i32": "wl_shuffle",
    "match.all.sync.i64p": "wl_match_pair",
    **{f"redux.sync.{k}": f"wl_redux_{k}" for k in ("add", "min", "max", "umin", "umax", "and", "or", "xor")},
}


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
        name = entry_name(f)
        code = compile_object(lowered._replace(text=_for_the_host(lowered.text, name)), host_target())
        self._warp: _Warp | None = None
        self._callbacks = self._make_callbacks()
        symbols = {symbol: ctypes.cast(call, P).value or 0 for symbol, call in self._callbacks.items()}
        self._loaded = load(code, (name,), symbols)
        self._run = ctypes.CFUNCTYPE(None, P, P, I64, I64, P, P, I64, P)(self._loaded.address(name))

    def __call__(
        self,
        args: Sequence[Any],
        dims: tuple[int, ...],
        context: Context | None = None,
        blocks: int = 2,
        threads: int = 3,
    ) -> None:
        """Launch ``blocks`` blocks of ``threads`` threads for the grid ``dims``."""
        thread = self._thread(args, dims, context, blocks, threads)
        for b in range(blocks):
            for t in range(threads):
                thread(b, t)
        if context is not None:
            context.require_guard()

    def in_warps(self, args: Sequence[Any], dims: tuple[int, ...], blocks: int = 1, warps: int = 1) -> None:
        """Launch ``blocks`` blocks of ``warps`` warps for the grid ``dims``, whose lanes come by the same exchanges."""
        thread = self._thread(args, dims, None, blocks, warps * LANES)
        for b in range(blocks):
            for w in range(warps):
                self._warp = _Warp()
                lanes = [threading.Thread(target=thread, args=(b, w * LANES + k)) for k in range(LANES)]
                for lane in lanes:
                    lane.start()
                for lane in lanes:
                    lane.join()
                self._warp = None

    def _thread(
        self, args: Sequence[Any], dims: tuple[int, ...], context: Context | None, blocks: int, threads: int
    ) -> Callable[[int, int], None]:
        """What runs one thread of a launch, given the numbers of its block and in there."""
        block = pack(self.function, args)
        extents = struct.pack(f"={MAX_DIMS}q", *dims, *[1] * (MAX_DIMS - len(dims)))
        total = math.prod(dims)
        where = None if context is None else ctypes.addressof(context.memory)
        stack = None if context is None else ctypes.addressof(context.arena)
        capacity = 0 if context is None else context.capacity

        def run(b: int, t: int) -> None:
            registers = struct.pack("=5i", t, threads, b, blocks, t % LANES)
            if self._warp is not None:
                self._warp.lane.number = t % LANES
            self._run(block, extents, 0, total, where, stack, capacity, registers)

        return run

    def _make_callbacks(self) -> dict[str, Any]:
        form = ctypes.CFUNCTYPE

        def exchanged(make: Callable[[list[int], int], int]) -> Callable[..., int]:
            def call(*given: int) -> int:
                assert self._warp is not None
                return self._warp.exchange(given, make)

            return call

        made: dict[str, Any] = {
            # The text of prints is another's matter (`tests/backend/test_ptx.py`).
            "vprintf": form(I32, P, P)(lambda *_: 0),
            "wl_activemask": form(I32)(lambda: 1 if self._warp is None else self._warp.exchange((0,), lambda *_: -1)),
            "wl_match": form(I32, I64)(exchanged(lambda all_, _: int(len({x for (x,) in all_}) == 1))),
            "wl_shuffle": form(I32, I32, I32, I32, I32)(exchanged(lambda all_, me: all_[me ^ all_[me][2]][1])),
        }
        for name, of in _REDUCTIONS.items():
            made[f"wl_redux_{name}"] = form(I32, I32, I32)(
                exchanged(lambda all_, _, of=of: of([x for x, _ in all_]))  # type: ignore[misc]
            )
        return made

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


_BITS = 1 << 32
_REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add": lambda xs: ctypes.c_int32(sum(xs)).value,
    "min": min,
    "max": max,
    "umin": lambda xs: ctypes.c_int32(min(x % _BITS for x in xs)).value,
    "umax": lambda xs: ctypes.c_int32(max(x % _BITS for x in xs)).value,
    "and": lambda xs: functools.reduce(operator.and_, xs),
    "or": lambda xs: functools.reduce(operator.or_, xs),
    "xor": lambda xs: functools.reduce(operator.xor, xs),
}


class _Warp:
    """32 threads of this process that exchange values."""

    def __init__(self) -> None:
        self.lane = threading.local()
        self._barrier = threading.Barrier(LANES, timeout=30)
        self._given: list[Any] = [None] * LANES

    def exchange(self, given: Sequence[int], make: Callable[[list[Any], int], int]) -> int:
        """Give the lane's values, and get what is made of those of all lanes and the lane's number."""
        me = self.lane.number
        self._given[me] = given
        self._barrier.wait()
        got = make(self._given, me)
        self._barrier.wait()
        return got


def _for_the_host(text: str, entry: str) -> str:
    text = re.sub(r'^target triple = ".*"$', f'target triple = "{host_target().triple}"', text, flags=re.MULTILINE)
    text = re.sub(r"addrspacecast \(ptr addrspace\(4\) (@[\w.]+) to ptr\)", r"\1", text)
    text = re.sub(r" addrspace\(\d\)", "", text).replace("= addrspacecast ptr", "= bitcast ptr")
    text = text.replace("define ptx_kernel void", "define void")
    text = text.replace("ptr %ctx) #", "ptr %ctx, ptr %stack, i64 %capacity) #")
    text = text.replace("i64 %capacity) #", "i64 %capacity, ptr %registers) #")
    text = re.sub(r"ptr byval\(\[\d+ x i8\]\)|ptr byval\(\[\d+ x i64\]\)", "ptr", text)
    text = re.sub(r"^declare .*@llvm\.nvvm\.(read\.ptx\.sreg|match).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(\)", r"call i32 @read.\1(ptr %registers)", text)
    for name, ours in _CALLS.items():
        text = text.replace(f"@llvm.nvvm.{name}(", f"@{ours}(")
    read = (
        f"define internal i32 @read.{name}(ptr %r) {{\n"
        f"  %p = getelementptr i32, ptr %r, i64 {k}\n  %x = load i32, ptr %p\n  ret i32 %x\n}}\n"
        for k, name in enumerate(_REGISTERS)
    )
    return text.replace("@__nv_", "@") + "".join(read) + _HELPERS
