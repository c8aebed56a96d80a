"""Running the LLVM IR that is made for GPUs on the CPU: what a launch computes, without a GPU.

The text that becomes PTX is compiled for this machine instead, with the address spaces taken out and the special
registers read from memory. So the loop over the grid, the arena of the adjoint's stack, the fault record and all
arithmetic are those of the device; what is not shown is what NVPTX makes of the text.

Threads run one after the other, each to its end and alone in its warp. ``CudaKernel.in_blocks`` runs the threads of a
block as threads of this process, which take turns and wait for each other wherever the code does, at barriers and where
lanes exchange values; as on the device, nobody waits for threads that have ended. A test fails if all wait for ever.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import operator
import os
import re
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests import matrix_unit_emulation as matrix_units
from tests.amd_emulation import as_for_cuda
from tests.backend.running import pack
from warp_like.backend.compile import entry_name
from warp_like.backend.cpu import compile_object, load
from warp_like.backend.llvm.entry import Lowered, covers, lower_entry
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.target import Options, amd_target, cuda_target, host_target
from warp_like.base.contract import CUDA_CONTEXT, CUDA_GRID, MAX_DIMS, MAX_NARROW
from warp_like.base.faults import explain
from warp_like.ir.core import Function

P, I32, I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
LANES = 32
_REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid")
_NARROWING = """
define bfloat @__truncsfbf2(float %x) {  ; what old compilers' runtime libraries lack: to the nearest, ties to even
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %moved = add i32 %bits, %half
  %is_nan = fcmp uno float %x, 0.0
  %quiet = or i32 %bits, 4194304
  %kept = select i1 %is_nan, i32 %quiet, i32 %moved
  %word = lshr i32 %kept, 16
  %short = trunc i32 %word to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
"""
_HELPERS = """
define internal { i32, i1 } @wl_shuffle_pair(i32 %how, i32 %x, i32 %by, i32 %last) {
  %got = call i64 @wl_shuffle(i32 %how, i32 %x, i32 %by, i32 %last)
  %word = trunc i64 %got to i32
  %there = icmp slt i64 %got, 0
  %first = insertvalue { i32, i1 } poison, i32 %word, 0
  %both = insertvalue { i32, i1 } %first, i1 %there, 1
  ret { i32, i1 } %both
}
define internal i32 @helper.shuffle_word(i32 %how, i32 %x, i32 %by, i32 %last) {
  %got = call i64 @wl_shuffle(i32 %how, i32 %x, i32 %by, i32 %last)
  %word = trunc i64 %got to i32
  ret i32 %word
}
define internal i32 @helper.votes(i1 %x) {
  %bit = zext i1 %x to i32
  %bits = call i32 @wl_ballot(i32 0, i32 %bit)
  ret i32 %bits
}
define internal i1 @wl_vote(i32 %all, i1 %x) {
  %bit = zext i1 %x to i32
  %bits = call i32 @wl_ballot(i32 %all, i32 %bit)
  %some = icmp ne i32 %bits, 0
  ret i1 %some
}
declare i64 @wl_shuffle(i32, i32, i32, i32)
declare i32 @wl_ballot(i32, i32)
define internal { i32, i1 } @wl_match_pair(i32 %mask, i64 %x) {
  %same = call i32 @wl_match(i64 %x)
  %p = icmp ne i32 %same, 0
  %first = insertvalue { i32, i1 } poison, i32 %mask, 0
  %both = insertvalue { i32, i1 } %first, i1 %p, 1
  ret { i32, i1 } %both
}
declare i32 @wl_match(i64)
define internal void @helper.copy16(ptr %to, ptr %from) {
  call void @wl_copy_later(ptr %to, ptr %from, i32 16, i32 16)
  ret void
}
define internal void @helper.copy8(ptr %to, ptr %from, i32 %count) {
  call void @wl_copy_later(ptr %to, ptr %from, i32 8, i32 %count)
  ret void
}
define internal void @helper.copy4(ptr %to, ptr %from, i32 %count) {
  call void @wl_copy_later(ptr %to, ptr %from, i32 4, i32 %count)
  ret void
}
declare void @wl_copy_later(ptr, ptr, i32, i32)
declare void @wl_await()
define internal float @helper.rsqrt(float %x) {  ; as far off as the hardware may be: 2 units in the last place
  %wide = fpext float %x to double
  %root = call double @llvm.sqrt.f64(double %wide)
  %inverse = fdiv double 1.0, %root
  %off = fmul double %inverse, 0x3FEFFFFFC0000000
  %y = fptrunc double %off to float
  ret float %y
}
declare double @llvm.sqrt.f64(double)
define internal void @helper.warp_barrier(i32 %lanes) {  ; who comes by is known without
  ret void
}
"""
_SHUFFLES = ("idx", "up", "down", "bfly")
_CALLS = {
    "activemask": "wl_activemask",
    "bar.warp.sync": "helper.warp_barrier",
    "rsqrt.approx.f": "helper.rsqrt",
    "rsqrt.approx.ftz.f": "helper.rsqrt",
    "barrier.sync": "wl_barrier",
    "match.all.sync.i64p": "wl_match_pair",
    **{  # which give 0 for NaN where the hardware does not: code that relies on that has to say so
        f"{f}2{u}{i}.rz": f"llvm.fpto{'u' if u else 's'}i.sat.i{bits}.f{32 if f == 'f' else 64}"
        for f in "fd"
        for u in ("", "u")
        for i, bits in (("i", 32), ("ll", 64))
    },
    "cp.async.cg.shared.global.16": "helper.copy16",
    "cp.async.ca.shared.global.8.s": "helper.copy8",
    "cp.async.ca.shared.global.4.s": "helper.copy4",
    "cp.async.wait.all": "wl_await",
    **matrix_units.CALLS,
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
        self.memory = ctypes.create_string_buffer(CUDA_CONTEXT.size)
        # Filled with what no test pushes, and guarded: a write behind the arena shows.
        self.arena = ctypes.create_string_buffer(b"\xcd" * (self.capacity * self.threads + 64))

    def get(self, name: str, form: str = "q") -> int:
        """A field."""
        (x,) = struct.unpack_from(f"={form}", self.memory, CUDA_CONTEXT.offsets[name])
        return int(x)

    def require_guard(self) -> None:
        """Check that nothing was written behind the arena."""
        assert self.arena.raw[self.capacity * self.threads :][:64] == b"\xcd" * 64


@functools.lru_cache(maxsize=512)
def host_object(text: str, entry: str, straight: bool = False) -> bytes:
    """The object for this machine of what is made for CUDA; tests launch one kernel in many shapes.

    LLVM leaves its loops as they are, as it does for lanes: a thread's code is neither unrolled nor made of vectors.
    """
    return compile_object(Lowered(_for_the_host(text, entry), straight=straight, in_lanes=True), host_target())


def packed_grid(dims: tuple[int, ...]) -> bytes:
    """The ``CudaGrid`` of a launch."""
    shifts = [(d - 1).bit_length() if 0 < d <= MAX_NARROW else 0 for d in dims]
    multipliers = [-(-(1 << (31 + s)) // d) if 0 < d <= MAX_NARROW else 0 for s, d in zip(shifts, dims, strict=True)]
    return CUDA_GRID.pack(*dims, *multipliers, *shifts)


class CudaKernel:
    """A kernel as it is compiled for CUDA, or for an AMD architecture such as ``gfx942``."""

    lanes = LANES
    _conflicts_of_matrices = 0
    _touched: dict[tuple[int, int, int], list[tuple[int, int]]]

    def __init__(
        self,
        f: Function,
        options: Options = Options(),  # noqa: B008 (frozen)
        arch: str = "sm_80",
        *,
        counting: bool = False,
    ) -> None:
        self.function = f
        self.covers = covers(options, f)
        target = amd_target(arch) if arch.startswith("gfx") else cuda_target(arch)
        self.lanes = simt_of(target).warp
        lowered = lower_entry(f, target, options)
        self.faults = lowered.faults
        name = entry_name(f)
        text = as_for_cuda(lowered.text) if target.is_amd else lowered.text
        code = host_object(_noting_loads(text) if counting else text, name, lowered.straight)
        self._team: _Team | None = None
        self._callbacks = self._make_callbacks()
        symbols = {symbol: ctypes.cast(call, P).value or 0 for symbol, call in self._callbacks.items()}
        self._loaded = load(code, (name,), symbols)
        self._run = ctypes.CFUNCTYPE(None, P, P, I64, P, P, I64, P)(self._loaded.address(name))

    def __call__(
        self,
        args: Sequence[Any],
        dims: tuple[int, ...],
        context: Context | None = None,
        blocks: int = 2,
        threads: int = 3,
    ) -> None:
        """Launch ``blocks`` blocks of ``threads`` threads for the grid ``dims``; more where they have to cover it."""
        blocks = self._enough(blocks, threads, dims)
        thread = self._thread(args, dims, context, blocks, threads)
        for b in range(blocks):
            for t in range(threads):
                thread(b, t)
        if context is not None:
            context.require_guard()

    def in_blocks(
        self, args: Sequence[Any], dims: tuple[int, ...], blocks: int = 1, threads: int = LANES, *, whole: bool = False
    ) -> None:
        """Launch ``blocks`` blocks of ``threads`` threads for the grid ``dims``, those of a block side by side.

        ``whole`` says that all lanes of each warp come by wherever the code asks which ones do; else it finds each lane
        alone there.
        """
        blocks = self._enough(blocks, threads, dims)
        self.run_blocks(self._thread(args, dims, None, blocks, threads), blocks, threads, whole=whole)

    def run_blocks(self, thread: Callable[[int, int], None], blocks: int, threads: int, *, whole: bool = False) -> None:
        """Run ``thread(block, number)`` for the threads of one block after the other."""
        for b in range(blocks):
            team = self._team = _Team(threads, whole, self.lanes)
            running = [threading.Thread(target=team.run, args=(thread, b, t)) for t in range(threads)]
            with on_one_processor():
                for one in running:
                    one.start()
                team.give_turn()
                for one in running:
                    one.join()
            self._team = None
            if team.errors:
                raise team.errors[0]

    def _enough(self, blocks: int, threads: int, dims: tuple[int, ...]) -> int:
        places = 1 if self.function.team > 1 else threads
        return max(blocks, -(-math.prod(dims) // places)) if self.covers else blocks

    def _thread(
        self, args: Sequence[Any], dims: tuple[int, ...], context: Context | None, blocks: int, threads: int
    ) -> Callable[[int, int], None]:
        """What runs one thread of a launch, given the numbers of its block and in there."""
        block = pack(self.function, args)
        extents = packed_grid((*dims, *[1] * (MAX_DIMS - len(dims))))
        total = math.prod(dims)
        where = None if context is None else ctypes.addressof(context.memory)
        stack = None if context is None else ctypes.addressof(context.arena)
        capacity = 0 if context is None else context.capacity

        def run(b: int, t: int) -> None:
            # Behind CUDA's registers stand AMD's implicit arguments.
            registers = struct.pack("=5i3i3H", t, threads, b, blocks, t % self.lanes, blocks, 1, 1, threads, 1, 1)
            self._run(block, extents, total, where, stack, capacity, registers)

        return run

    def _make_callbacks(self) -> dict[str, Any]:
        form = ctypes.CFUNCTYPE

        def exchanged(make: Callable[[dict[int, Any], int], int]) -> Callable[..., int]:
            def call(*given: int) -> int:
                assert self._team is not None, "threads that exchange values run together: in_blocks()"
                return self._team.noting(self._team.exchange, given, make) or 0

            return call

        def barrier(_: int) -> None:
            assert self._team is not None, "threads with a barrier run together: in_blocks()"
            self._team.noting(self._team.wait, self._team.block)

        self._copies: dict[int, list[tuple[int, int, int, int]]] = {}
        self._touched, self._times = {}, Counter[tuple[int, int]]()
        made: dict[str, Any] = {
            # The text of prints is another's matter (`tests/backend/test_ptx.py`).
            "vprintf": form(I32, P, P)(lambda *_: 0),
            "wl_activemask": form(I32)(lambda: 1 if self._team is None else self._team.active()),
            "wl_active_of_all": form(I64)(lambda: 1 if self._team is None else self._team.active()),
            "wl_ballot_of_all": form(I64, I32)(exchanged(_all_that_vote)),
            "wl_first": form(I64, I64)(exchanged(lambda given, _: given[min(given)][0])),
            "wl_barrier": form(None, I32)(barrier),
            "wl_match": form(I32, I64)(exchanged(lambda given, _: int(len({x for (x,) in given.values()}) == 1))),
            "wl_shuffle": form(I64, I32, I32, I32, I32)(exchanged(_shuffled)),
            "wl_ballot": form(I32, I32, I32)(exchanged(_voted)),
            "wl_mma": form(None, I32, P)(self._multiply_add),
            "wl_ldmatrix": form(None, I32, I32, P, P)(self._load_matrices),
            "wl_touch": form(None, I32, P, I32)(self._touch),
            "wl_copy_later": form(None, P, P, I32, I32)(self._copy),
            "wl_await": form(None)(self._await),
        }
        for name, of in _REDUCTIONS.items():
            made[f"wl_redux_{name}"] = form(I32, I32, I32)(
                exchanged(lambda given, _, of=of: of([x for x, _ in given.values()]))  # type: ignore[misc]
            )
        return made

    def _multiply_add(self, kind: int, memory: int) -> None:
        """A step of a matrix unit: the lane's parts are in ``memory``, at whose end its sums are."""
        parts = ctypes.string_at(memory, matrix_units.part_bytes(kind))
        made = self._in_warp(parts, lambda given: matrix_units.multiply_add(kind, given))
        if made:
            matrix_units.copied(memory + len(parts) - len(made), made)

    def _load_matrices(self, count: int, turned: int, row: int, memory: int) -> None:
        def load(rows: list[int]) -> list[bytes]:
            self._conflicts_of_matrices += matrix_units.conflicts_of_rows(count, rows)
            return matrix_units.load_matrices(count, bool(turned), rows)

        matrix_units.copied(memory, self._in_warp(row, load))

    def _copy(self, to: int, source: int, size: int, count: int) -> None:
        """Note a copy of ``count`` bytes, with zeros up to ``size``: done when its thread waits."""
        assert self._team is not None
        assert to % size == 0, "copies are aligned"
        assert not count or source % size == 0, "copies are aligned"
        self._copies.setdefault(self._team.number, []).append((to, source, size, count))

    def _await(self) -> None:
        assert self._team is not None
        for to, source, size, count in self._copies.pop(self._team.number, []):
            matrix_units.copied(to, (ctypes.string_at(source, count) if count else b"").ljust(size, b"\0"))

    def _touch(self, load: int, address: int, size: int) -> None:
        """Note what a load touches: the lanes of a warp run it together, the first time, the second and so on."""
        assert self._team is not None
        me = self._team.number, load
        self._times[me] += 1
        self._touched.setdefault((me[0] // self.lanes, load, self._times[me]), []).append((address, size))

    @property
    def bank_conflicts(self) -> int:
        """How often lanes have waited for a bank of shared memory where they loaded, if that was counted."""
        return self._conflicts_of_matrices + sum(map(matrix_units.conflicts, self._touched.values()))

    def _in_warp(self, mine: Any, make: Callable[[list[Any]], list[bytes]]) -> bytes:
        """The lane's part of what is made of what all lanes give, which the first lane that comes by makes."""
        team = self._team
        assert team is not None, "threads with matrix units run together: in_blocks()"

        def part(given: dict[Any, Any], lane: int) -> bytes:
            if "made" not in given:
                given["made"] = make([given[k] for k in sorted(given)])
            return given["made"][lane]

        return team.noting(team.exchange, mine, part) or b""

    def fault(self, context: Context, subject: str = "kernel `k`") -> Exception | None:
        """The exception that the host makes of the record, if a thread has failed."""
        code = context.get("code", "i")
        if not code:
            return None
        at = CUDA_CONTEXT.offsets["values"]
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


def _shuffled(given: dict[int, Any], me: int) -> int:
    """The word of another lane, with the sign bit where there is one; PTX ISA, ``shfl.sync``."""
    how, word, by, last = given[me]
    lane = {"idx": by, "up": me - by, "down": me + by, "bfly": me ^ by}[_SHUFFLES[how]]
    there = lane >= last if _SHUFFLES[how] == "up" else lane <= last
    if there:
        assert lane in given, f"lane {me} reads lane {lane}, which does not come by"
        word = given[lane][1]
    return ctypes.c_int64((word % _BITS) | (int(there) << 63)).value


def _voted(given: dict[int, Any], me: int) -> int:
    """The lanes that vote yes as bits; of a vote of all, none unless all do."""
    every, _ = given[me]
    bits = sum(1 << lane for lane, (_, vote) in given.items() if vote)
    return ctypes.c_int32(0 if every == 1 and not all(vote for _, vote in given.values()) else bits).value


def _all_that_vote(given: dict[int, Any], me: int) -> int:
    """The lanes that vote yes, as bits."""
    return ctypes.c_int64(sum(1 << lane for lane, (vote,) in given.items() if vote)).value


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep the calling thread, and those that it starts, on one processor: waking another one takes 20 times as long.

    For threads of which only one runs at a time.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class _Barrier:
    """Where some threads of a block wait for each other, until the last one that has not ended comes by.

    Attributes:
        first: The number of the first thread.
        left: How many of the threads have not ended.
        given: The values of those that wait, by their place among the threads.
        rounds: How often all came by.
    """

    def __init__(self, first: int, count: int) -> None:
        self.first, self.left = first, count
        self.given: dict[int, Any] = {}
        self.rounds = 0


class _Team:
    """The threads of a block: one of them runs at a time, until it waits for others or ends.

    They take turns by their numbers, and after every other barrier in the opposite order. So a thread that reads what
    another one has yet to write, or writes what another one has yet to read, gives a wrong result each time.
    """

    def __init__(self, threads: int, whole: bool, lanes: int) -> None:
        self._lanes = lanes
        self.errors: list[BaseException] = []
        self.block = _Barrier(0, threads)
        self._warps = [_Barrier(first, min(lanes, threads - first)) for first in range(0, threads, lanes)]
        self._whole = whole
        self._me = threading.local()
        self._ready = deque(range(threads))
        self._running = threads
        self._deadlock = False
        self._turns = [threading.Lock() for _ in range(threads)]
        for turn in self._turns:
            turn.acquire()

    def run(self, thread: Callable[[int, int], None], block: int, number: int) -> None:
        """Run one thread to its end, in a thread of this process."""
        self._me.number = number
        self._turns[number].acquire()
        self.noting(thread, block, number)
        self._running -= 1
        for barrier in (self.block, self._warps[number // self._lanes]):
            barrier.left -= 1
            self._release(barrier)
        self.give_turn()

    def give_turn(self) -> None:
        """Let the next thread run; where all wait, nobody ever comes, which is an error for each of them."""
        if self._deadlock:
            return  # all run on, to their ends
        if self._ready:
            self._turns[self._ready.popleft()].release()
        elif self._running:
            self._deadlock = True
            for barrier in (self.block, *self._warps):
                for place in barrier.given:
                    self._turns[barrier.first + place].release()

    @property
    def number(self) -> int:
        """The number of the thread that runs."""
        return int(self._me.number)

    def noting(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call on behalf of compiled code, which no exception can pass."""
        try:
            return call(*args)
        except BaseException as e:
            self.errors.append(e)
            return None

    def active(self) -> int:
        """The lanes that come by here, as far as this one sees."""
        bits = ctypes.c_int32 if self._lanes == LANES else ctypes.c_int64
        return -1 if self._whole else bits(1 << self._me.number % self._lanes).value

    def wait(self, barrier: _Barrier, value: Any = None) -> dict[int, Any]:
        """Wait for the others at a barrier, and return what each of them gave."""
        me, given = self._me.number, barrier.given
        given[me - barrier.first] = value
        self._release(barrier)
        if not self._deadlock:
            self.give_turn()
            self._turns[me].acquire()
        if self._deadlock:
            raise RuntimeError("threads wait for others that never come by")
        return given

    def _release(self, barrier: _Barrier) -> None:
        """Make the threads at a barrier ready if all are there."""
        if barrier.given and len(barrier.given) == barrier.left:
            numbers = sorted(barrier.first + place for place in barrier.given)
            self._ready.extend(numbers[::-1] if barrier.rounds % 2 else numbers)
            barrier.given = {}
            barrier.rounds += 1

    def exchange(self, value: Sequence[int], make: Callable[[dict[int, Any], int], int]) -> int:
        """Give the lane's values, and get what is made of those of all lanes and the lane's number."""
        warp, lane = divmod(self._me.number, self._lanes)
        return make(self.wait(self._warps[warp], value), lane)


def _for_the_host(text: str, entry: str) -> str:
    text = re.sub(r'^target triple = ".*"$', f'target triple = "{host_target().triple}"', text, flags=re.MULTILINE)
    text = re.sub(r"addrspacecast \(ptr addrspace\(\d\) (@[\w.]+) to ptr\)", r"\1", text)
    text = re.sub(r" addrspace\(\d\)", "", text).replace("= addrspacecast ptr", "= bitcast ptr")
    text = text.replace("define ptx_kernel void", "define void")
    text = text.replace("ptr %ctx) #", "ptr %ctx, ptr %stack, i64 %capacity) #")
    text = text.replace("i64 %capacity) #", "i64 %capacity, ptr %registers) #")
    text = re.sub(r"ptr byval\(\[\d+ x i8\]\)|ptr byval\(\[\d+ x i64\]\)", "ptr", text)
    text = re.sub(
        r"^declare .*@llvm\.nvvm\.(read\.ptx\.sreg|match|shfl|vote|rsqrt|bar\.warp|mma|ldmatrix|cp\.async).*$",
        "",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(\)", r"call i32 @read.\1(ptr %registers)", text)
    for k, how in enumerate(_SHUFFLES):  # the lanes that come by are known here, so the mask's place tells how
        text = re.sub(rf"@llvm\.nvvm\.shfl\.sync\.{how}\.i32\(i32 [^,]+,", f"@helper.shuffle_word(i32 {k},", text)
        text = re.sub(rf"@llvm\.nvvm\.shfl\.sync\.{how}\.i32p\(i32 [^,]+,", f"@wl_shuffle_pair(i32 {k},", text)
    for k, kind in enumerate(("any", "all")):
        text = re.sub(rf"@llvm\.nvvm\.vote\.{kind}\.sync\(i32 [^,]+,", f"@wl_vote(i32 {k},", text)
    text = re.sub(r"@llvm\.nvvm\.vote\.ballot\.sync\(i32 [^,]+, i1 ([^)]+)\)", r"@helper.votes(i1 \1)", text)
    for name, ours in _CALLS.items():
        text = text.replace(f"@llvm.nvvm.{name}(", f"@{ours}(")
    read = "".join(
        f"define internal i32 @read.{name}(ptr %r) {{\n"
        f"  %p = getelementptr i32, ptr %r, i64 {k}\n  %x = load i32, ptr %p\n  ret i32 %x\n}}\n"
        for k, name in enumerate(_REGISTERS)
    )
    narrowing = _NARROWING if "bfloat" in text else ""
    return text.replace("@__nv_", "@") + narrowing + _called(text, read + _HELPERS + matrix_units.FUNCTIONS)


def _noting_loads(text: str) -> str:
    """``text`` with a call beside each load from shared memory that says what it touches."""
    sizes = {"float": 4, "double": 8, "half": 2, "i16": 2, "i32": 4, "i64": 8}
    numbers = itertools.count()

    def noted(m: re.Match[str]) -> str:
        return f"  call void @wl_touch(i32 {next(numbers)}, ptr {m[2]}, i32 {sizes[m[1]]})\n{m[0]}"

    load = r"^ *%\S+ = load (\w+), ptr addrspace\(3\) (%[\w.]+),"
    return re.sub(load, noted, text, flags=re.MULTILINE) + "declare void @wl_touch(i32, ptr, i32)\n"


def _called(text: str, functions: str) -> str:
    """Those of ``functions`` that ``text`` calls, and all that they declare."""
    parts = re.finditer(r"^define internal [^@]*@([\w.]+)\(.*?^}\n|^declare.*?\n", functions, re.MULTILINE | re.DOTALL)
    declared = text.split("define", 1)[0]
    return "".join(p[0] for p in parts if (p[0] not in declared if p[1] is None else f"@{p[1]}(" in text))
