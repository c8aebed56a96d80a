"""The data that compiled code and the host share on GPUs: reports of faults, the adjoint's stack, printing.

``ctx`` is the address of a ``CudaContext`` (``base/contract.py``) in memory that the device can write. Before a launch
the host zeroes it; the code writes it. Entries of functions that save values on the stack have two more parameters,
``stack`` and ``capacity``.

**Faults.** The first thread that fails a check claims the record, fills it in, writes ``code`` last, and ends; threads
that fail later end without a trace, and all others run on. ``site`` is the number of the fault's text in
``KernelCode.faults``, from which ``base/faults.py`` makes the exception that the CPU raises. The host reads the record
when it next waits for the launch.

**The stack.** Push and Pop of an adjoint work on a column of the arena for each thread of the launch, whatever the size
of the grid: thread ``s`` of the ``n`` that are launched has the 4-byte words at ``stack + 4 * (w * n + s)``, for ``w``
below ``capacity / 4``, so that the neighbours of a warp touch neighbouring words. A value takes a word, or two if
it has 64 bits. The arena has ``n * capacity`` bytes, so the host launches no more blocks than the device keeps
resident.

A push for which there is no room writes nothing, but is counted; the pop that would have to read it ends the thread,
after it has raised ``stack_needed`` to the thread's depth. Nothing wrong is computed that way, but the launch is not
whole: other threads have added to gradients already. Where ``StackUse.bound`` tells the host beforehand how much
a thread needs at most, it makes the arena as large as that and need not wait; ``stack_needed`` stays 0. Elsewhere it

1. copies all arrays that the entry writes (``Effects.writes``) before the launch,
2. waits for the launch and reads ``stack_needed``, and is done if that is 0,
3. else copies the arrays back, and launches again with a capacity of at least ``stack_needed`` and of twice the old
   one, or, beyond ``adjoint_stack_limit``, raises what the CPU raises.

``stack_needed`` counts to the end of the sweep that ran out, so that the second launch is nearly always the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.exchange import from_words, to_words
from warp_like.backend.llvm.values import leaves
from warp_like.backend.llvm.writer import Writer
from warp_like.base.contract import CUDA_CONTEXT
from warp_like.ir.types import Scalar, Type, float64, int64, uint64

_AT = CUDA_CONTEXT.offsets
CONTEXT = "ptr addrspace(1)"
"""The LLVM type of the context's address."""


def _field(w: Writer, name: str, extra: int = 0) -> str:
    return w.op(f"getelementptr inbounds i8, {CONTEXT} %ctx, i64 {_AT[name] + extra}")


# --- faults ---


def fail(w: Writer, code: int, encoded: str, values: Sequence[tuple[Scalar, str]], thread: str) -> None:
    """Report a fault unless one is reported already, and end the thread; ends the block."""
    first, done = w.label("first"), w.label("failed")
    pair = w.op(f"cmpxchg {CONTEXT} {_field(w, 'claimed')}, i32 0, i32 1 monotonic monotonic, align 4")
    w.branch(w.op(f"extractvalue {{ i32, i1 }} {pair}, 1"), first, done)
    w.start(first)
    w.do(f"store i32 {w.fault(encoded)}, {CONTEXT} {_field(w, 'site')}, align 4")
    w.do(f"store i64 {thread}, {CONTEXT} {_field(w, 'thread')}, align 8")
    for i, (t, x) in enumerate(values):
        at = _field(w, "values", 8 * i)
        if t.is_float:
            w.do(f"store double {cast(w, x, t, float64)}, {CONTEXT} {at}, align 8")
        else:
            w.do(f"store i64 {cast(w, x, t, int64 if t.is_signed else uint64)}, {CONTEXT} {at}, align 8")
    w.do(f"store atomic i32 {code}, {CONTEXT} {_field(w, 'code')} release, align 4")
    w.jump(done)
    w.start(done)
    w.do("ret void")


# --- the stack ---


class Stack:
    """The stack of one thread: set up once in the entry block, emptied where a thread of the grid begins.

    Args:
        w: Where the text goes.
        slot: The i64 register of the number of this thread among those that are launched.
        count: The i64 register of how many those are.
    """

    def __init__(self, w: Writer, slot: str, count: str) -> None:
        self._w = w
        self._count = count
        self._column = w.op(f"getelementptr inbounds i32, {CONTEXT} %stack, i64 {slot}")
        self._capacity = "%capacity"
        self._top = w.alloca("i64", 8)  # the bytes in use

    def clear(self) -> None:
        """Empty the stack."""
        self._w.do(f"store i64 0, ptr {self._top}, align 8")

    def push(self, t: Type, value: tuple[str, ...]) -> None:
        """Save a value."""
        w = self._w
        top = w.op(f"load i64, ptr {self._top}, align 8")
        end = w.op(f"add nuw nsw i64 {top}, {stack_size(t)}")
        w.do(f"store i64 {end}, ptr {self._top}, align 8")
        save, saved = w.label("save"), w.label("saved")
        w.branch(w.op(f"icmp sle i64 {end}, {self._capacity}"), save, saved, likely=True)
        w.start(save)
        words = [word for (s, _), x in zip(leaves(t), value, strict=True) for word in to_words(w, s, x)]
        for at, word in zip(self._places(top, len(words)), words, strict=True):
            w.do(f"store i32 {word}, {CONTEXT} {at}, align 4")
        w.jump(saved)
        w.start(saved)

    def pop(self, t: Type) -> tuple[str, ...]:
        """Take back the value saved last, or end the thread if there was no room for it."""
        w = self._w
        top = w.op(f"load i64, ptr {self._top}, align 8")
        lost, kept = w.label("lost"), w.label("kept")
        w.branch(w.op(f"icmp sle i64 {top}, {self._capacity}"), kept, lost, likely=True)
        w.start(lost)
        w.op(f"atomicrmw max {CONTEXT} {_field(w, 'stack_needed')}, i64 {top} monotonic, align 8")
        w.do("ret void")
        w.start(kept)
        start = w.op(f"sub nuw nsw i64 {top}, {stack_size(t)}")
        w.do(f"store i64 {start}, ptr {self._top}, align 8")
        places = iter(self._places(start, stack_size(t) // 4))
        out = []
        for s, _ in leaves(t):
            words = [w.op(f"load i32, {CONTEXT} {next(places)}, align 4") for _ in range(_words(s))]
            out.append(from_words(w, s, words))
        return tuple(out)

    def _places(self, start: str, count: int) -> list[str]:
        """The addresses of ``count`` words from ``start`` bytes above the bottom."""
        w = self._w
        offset = w.op(f"mul nuw nsw i64 {start}, {self._count}")
        places = [w.op(f"getelementptr inbounds i8, {CONTEXT} {self._column}, i64 {offset}")]
        for _ in range(count - 1):
            places.append(w.op(f"getelementptr inbounds i32, {CONTEXT} {places[-1]}, i64 {self._count}"))
        return places


def stack_size(t: Type) -> int:
    """Return the bytes that a value takes on the stack."""
    return 4 * sum(_words(s) for s, _ in leaves(t))


def _words(s: Scalar) -> int:
    return 2 if s.bits == 64 else 1
