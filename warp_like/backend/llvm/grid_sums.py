"""Reductions over a whole grid on GPUs: in registers for each thread, in shared memory for each block, then one update.

What every thread adds to the same elements, such as a loss or the gradient of a parameter, would be one atomic update
for each warp of the grid, and updates of one address run one after the other. Here a launch has no more threads than
the device runs at once. They stride over the grid, and combine what they find in an accumulator. After its last place a
warp combines its lanes, its first lane leaves the result in shared memory, and the first thread of the block combines
these and updates the element.

Lanes of a warp that is not whole update one by one: so do the last threads of a block whose size is no multiple of it,
and what a fault has left of a warp.
"""

from __future__ import annotations

from typing import NamedTuple

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.accumulators import Accumulators, differs, neutral_of
from warp_like.backend.llvm.block import SHARED, barrier
from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.combining import combined
from warp_like.backend.llvm.exchange import combine_whole
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.llvm.values import constant, leaves, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.atomics import KINDS
from warp_like.ir.types import Scalar, int64

_WARPS = 32
"""The most warps of a block."""


class _Part(NamedTuple):
    """One scalar that is combined: the kind of update, its type, its element's address, and what a thread has of it."""

    kind: str
    type: Scalar
    address: str
    own: str

    @property
    def how(self) -> str:
        return KINDS[self.kind].reduction


class GridSums(Accumulators):
    """The accumulators of one entry for a GPU.

    Args:
        w: Where the text goes.
        thread: The i32 register of the thread's number in its block.
        size: The i32 register of how many threads a block has.
    """

    def __init__(self, w: Writer, thread: str, size: str) -> None:
        super().__init__(w)
        self._thread = thread
        self._size = size
        self._simt = simt_of(w.target)
        self._log_warp = self._simt.warp.bit_length() - 1

    def finish(self) -> None:
        """Combine what the threads of the block have, and update the elements; all of its threads come by."""
        w, parts = self.w, self._parts()
        if not parts:
            return
        self._simt.meet(w)  # lanes come from their last rounds apart
        mask = self._simt.active(w)
        totals = self._of_warp(mask, parts)
        slots = [self._slots(p.type) for p in parts]
        self._leave(mask, parts, totals, slots)
        barrier(w)
        first, done = w.label("first"), w.label("combined")
        w.branch(w.op(f"icmp eq i32 {self._thread}, 0"), first, done)
        w.start(first)
        for part, x in zip(parts, self._of_block(parts, slots), strict=True):
            self._meet(part, x)
        w.jump(done)
        w.start(done)

    def _parts(self) -> list[_Part]:
        found = []
        for a in self.found:
            base = memory.element_address(self.w, a.array, [cast(self.w, x, t, int64) for x, t in a.indices])
            offsets = [offset for _, offset in leaves(a.array.type.dtype)]
            pointer = memory.pointer(self.w, a.array)
            for (t, variable), offset in zip(a.parts, offsets, strict=True):
                own = self.w.op(f"load {register_type(t)}, ptr {variable}, align {t.bits // 8}")
                found.append(_Part(a.kind, t, memory.component_address(self.w, base, offset, pointer), own))
        return found

    def _of_warp(self, mask: str, parts: list[_Part]) -> list[str]:
        """What the warp has of each part, in all of its lanes; nothing where its lanes update one by one."""
        w = self.w
        whole, single, met = (w.label(name) for name in ("whole", "single", "met"))
        w.branch(self._simt.is_whole(w, mask), whole, single)
        w.start(whole)
        totals = [combine_whole(w, p.how, p.type, p.own) for p in parts]
        after = w.block
        w.jump(met)
        w.start(single)
        for p in parts:
            self._meet(p, p.own)
        before = w.block
        w.jump(met)
        w.start(met)
        phi = w.phis([register_type(p.type) for p in parts])
        phi.add(totals, after)
        phi.add([constant(neutral_of(p.kind, p.type), p.type) for p in parts], before)
        phi.finish()
        return list(phi.registers)

    def _slots(self, t: Scalar) -> str:
        return self.w.shared(_WARPS * t.bits // 8)

    def _leave(self, mask: str, parts: list[_Part], totals: list[str], slots: list[str]) -> None:
        """Let the first lane that is there leave what its warp has."""
        w = self.w
        leave, left = w.label("leave"), w.label("left")
        lane = w.op(f"and i32 {self._thread}, {self._simt.warp - 1}")
        w.branch(w.op(f"icmp eq i32 {lane}, {self._simt.lowest(w, mask)}"), leave, left)
        w.start(leave)
        warp = w.op(f"lshr i32 {self._thread}, {self._log_warp}")
        for p, x, slot in zip(parts, totals, slots, strict=True):
            place = self._place(p.type, slot, warp)
            w.do(f"store {register_type(p.type)} {x}, {SHARED} {place}, align {p.type.bits // 8}")
        w.jump(left)
        w.start(left)

    def _place(self, t: Scalar, slot: str, warp: str) -> str:
        return self.w.op(f"getelementptr inbounds {register_type(t)}, {SHARED} {slot}, i32 {warp}")

    def _of_block(self, parts: list[_Part], slots: list[str]) -> list[str]:
        """What the block has of each part: the first warp's, then those of the others one after the other."""
        w, types = self.w, [register_type(p.type) for p in parts]

        def load(warp: str) -> list[str]:
            places = (self._place(p.type, slot, warp) for p, slot in zip(parts, slots, strict=True))
            sizes = (p.type.bits // 8 for p in parts)
            return [w.op(f"load {r}, {SHARED} {at}, align {n}") for r, at, n in zip(types, places, sizes, strict=True)]

        last = w.op(f"add nuw i32 {self._size}, {self._simt.warp - 1}")
        end = w.op(f"lshr i32 {last}, {self._log_warp}")
        own, before = load("0"), w.block
        loop, add, done = w.label("warps"), w.label("warp"), w.label("all")
        w.jump(loop)
        w.start(loop)
        phi = w.phis(["i32", *types])
        phi.add(["1", *own], before)
        k, *sums = phi.registers
        w.branch(w.op(f"icmp ult i32 {k}, {end}"), add, done)
        w.start(add)
        new = [combined(w, p.how, p.type, a, b) for p, a, b in zip(parts, sums, load(k), strict=True)]
        phi.add([w.op(f"add nuw i32 {k}, 1"), *new], w.block)
        phi.finish()
        w.jump(loop)
        w.start(done)
        return sums

    def _meet(self, p: _Part, x: str) -> None:
        """Update the element by ``x`` unless that changes nothing: then there need not be such an element."""
        w = self.w
        update, done = w.label("flush"), w.label("flushed")
        w.branch(differs(w, p.type, x, neutral_of(p.kind, p.type)), update, done)
        w.start(update)
        memory.update_atomically(w, p.kind, p.type, p.address, x)
        w.jump(done)
        w.start(done)
