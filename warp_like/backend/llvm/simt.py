"""What the threads of a GPU ask the hardware: who they are, who else is there, what the other lanes of a warp have.

One class for each maker. AMD's wavefronts are called warps here, and its work groups blocks. NVIDIA's processors are
told which lanes take part in a vote or an exchange. On AMD's the lanes that come by together take part, and no others
can (LLVM, "User Guide for AMDGPU Backend").
"""

from __future__ import annotations

from typing import Protocol

from warp_like.backend.llvm.writer import Writer
from warp_like.backend.target import Target


class Simt(Protocol):
    """The questions. Registers are i32 where nothing else is said.

    Attributes:
        warp: How many lanes a warp has.
    """

    warp: int

    def places(self, w: Writer) -> tuple[str, str, str, str]:
        """Return the thread's number in its block, how many that has, the block's number, how many blocks there are."""

    def lane(self, w: Writer) -> str:
        """Return the thread's number in its warp."""

    def active(self, w: Writer) -> str:
        """Return which lanes come by together, one bit each."""

    def is_whole(self, w: Writer, active: str) -> str:
        """Return the i1 whether these are all lanes of a warp."""

    def lowest(self, w: Writer, active: str) -> str:
        """Return the lowest of these lanes."""

    def same(self, w: Writer, number: str) -> str:
        """Return the i1 whether an i64 is the same in all lanes of a warp that is whole."""

    def exchange(self, w: Writer, how: str, word: str, by: str, last: str, lanes: str, *, ask: bool) -> tuple[str, str]:
        """Return the word of another lane, and if asked the i1 whether there is one; see ``exchange.exchange``."""

    def vote(self, w: Writer, kind: str, lanes: str, x: str) -> str:
        """Return the i1 what ``lanes`` vote of the i1 ``x``, or for a ``ballot`` the lanes that say yes."""

    def barrier(self, w: Writer) -> None:
        """Wait for all threads of the block that have not ended, and see what they have written."""

    def meet(self, w: Writer) -> None:
        """Let lanes that have taken different paths come by together again."""


def simt_of(target: Target) -> Simt:
    """Return the questions for a target."""
    return _AMD if target.is_amd else _NVIDIA


class _Nvidia:
    """By the intrinsics of NVPTX."""

    warp = 32

    def places(self, w: Writer) -> tuple[str, str, str, str]:
        thread, size, block, blocks = (self._register(w, name) for name in ("tid.x", "ntid.x", "ctaid.x", "nctaid.x"))
        return thread, size, block, blocks

    def _register(self, w: Writer, name: str) -> str:
        return w.intrinsic(f"llvm.nvvm.read.ptx.sreg.{name}", "i32", [], [])

    def lane(self, w: Writer) -> str:
        return self._register(w, "laneid")

    def active(self, w: Writer) -> str:
        return w.intrinsic("llvm.nvvm.activemask", "i32", [], [])

    def is_whole(self, w: Writer, active: str) -> str:
        return w.op(f"icmp eq i32 {active}, -1")

    def lowest(self, w: Writer, active: str) -> str:
        return w.intrinsic("llvm.cttz.i32", "i32", ["i32", "i1"], [active, "true"])

    def same(self, w: Writer, number: str) -> str:
        pair = w.intrinsic("llvm.nvvm.match.all.sync.i64p", "{ i32, i1 }", ["i32", "i64"], ["-1", number])
        return w.op(f"extractvalue {{ i32, i1 }} {pair}, 1")

    def exchange(self, w: Writer, how: str, word: str, by: str, last: str, lanes: str, *, ask: bool) -> tuple[str, str]:
        name, given = f"llvm.nvvm.shfl.sync.{how}.i32", (["i32"] * 4, [lanes, word, by, last])
        if not ask:
            return w.intrinsic(name, "i32", *given), ""
        pair = w.intrinsic(f"{name}p", "{ i32, i1 }", *given)
        found, there = (w.op(f"extractvalue {{ i32, i1 }} {pair}, {k}") for k in range(2))
        return found, there

    def vote(self, w: Writer, kind: str, lanes: str, x: str) -> str:
        result = "i32" if kind == "ballot" else "i1"
        return w.intrinsic(f"llvm.nvvm.vote.{kind}.sync", result, ["i32", "i1"], [lanes, x])

    def barrier(self, w: Writer) -> None:
        # PTX's ``barrier.sync``: each thread on its own, those that are left.
        w.declare("llvm.nvvm.barrier.sync", "void @llvm.nvvm.barrier.sync(i32)")
        w.do("call void @llvm.nvvm.barrier.sync(i32 0)")

    def meet(self, w: Writer) -> None:
        w.declare("llvm.nvvm.bar.warp.sync", "void @llvm.nvvm.bar.warp.sync(i32)")
        w.do("call void @llvm.nvvm.bar.warp.sync(i32 -1)")


class _Amd:
    """By the intrinsics of AMDGPU, for wavefronts of 64 lanes."""

    warp = 64
    _THREADS = 12  # where hidden_group_size_x is among the implicit arguments; hidden_block_count_x is the first

    def places(self, w: Writer) -> tuple[str, str, str, str]:
        thread = w.intrinsic("llvm.amdgcn.workitem.id.x", "i32", [], [])
        block = w.intrinsic("llvm.amdgcn.workgroup.id.x", "i32", [], [])
        implicit = w.intrinsic("llvm.amdgcn.implicitarg.ptr", "ptr addrspace(4)", [], [])
        note = f", !invariant.load {w.metadata('empty', '!{}')}"
        blocks = w.op(f"load i32, ptr addrspace(4) {implicit}, align 4{note}")
        at = w.op(f"getelementptr inbounds i8, ptr addrspace(4) {implicit}, i64 {self._THREADS}")
        size = w.op(f"zext i16 {w.op(f'load i16, ptr addrspace(4) {at}, align 4{note}')} to i32")
        return thread, size, block, blocks

    def lane(self, w: Writer) -> str:
        types = ["i32", "i32"]
        low = w.intrinsic("llvm.amdgcn.mbcnt.lo", "i32", types, ["-1", "0"])
        return w.intrinsic("llvm.amdgcn.mbcnt.hi", "i32", types, ["-1", low])

    def _ballot(self, w: Writer, x: str) -> str:
        return w.intrinsic("llvm.amdgcn.ballot.i64", "i64", ["i1"], [x])

    def active(self, w: Writer) -> str:
        return self._ballot(w, "true")

    def is_whole(self, w: Writer, active: str) -> str:
        return w.op(f"icmp eq i64 {active}, -1")

    def lowest(self, w: Writer, active: str) -> str:
        return w.op(f"trunc i64 {w.intrinsic('llvm.cttz.i64', 'i64', ['i64', 'i1'], [active, 'true'])} to i32")

    def same(self, w: Writer, number: str) -> str:
        first = w.intrinsic("llvm.amdgcn.readfirstlane.i64", "i64", ["i64"], [number])
        return w.op(f"icmp eq i64 {self._ballot(w, w.op(f'icmp ne i64 {number}, {first}'))}, 0")

    def exchange(self, w: Writer, how: str, word: str, by: str, last: str, lanes: str, *, ask: bool) -> tuple[str, str]:
        me = self.lane(w)
        change = {"up": "sub", "down": "add", "bfly": "xor"}
        other = w.op(f"{change[how]} i32 {me}, {by}") if how in change else by
        there = w.op(f"icmp {'sge' if how == 'up' else 'sle'} i32 {other}, {last}")
        source = w.op(f"shl i32 {w.select(there, 'i32', other, me)}, 2")  # in bytes
        return w.intrinsic("llvm.amdgcn.ds.bpermute", "i32", ["i32", "i32"], [source, word]), there

    def vote(self, w: Writer, kind: str, lanes: str, x: str) -> str:
        assert kind != "ballot", "its result has 32 bits: device_limits.py refuses it"
        if kind == "any":
            return w.op(f"icmp ne i64 {self._ballot(w, x)}, 0")
        return w.op(f"icmp eq i64 {self._ballot(w, w.op(f'xor i1 {x}, true'))}, 0")

    def barrier(self, w: Writer) -> None:
        w.do('fence syncscope("workgroup") release')
        w.declare("llvm.amdgcn.s.barrier", "void @llvm.amdgcn.s.barrier()")
        w.do("call void @llvm.amdgcn.s.barrier()")
        w.do('fence syncscope("workgroup") acquire')

    def meet(self, w: Writer) -> None:
        # Lanes run in step: they come by together again where their paths meet.
        w.declare("llvm.amdgcn.wave.barrier", "void @llvm.amdgcn.wave.barrier()")
        w.do("call void @llvm.amdgcn.wave.barrier()")


_NVIDIA, _AMD = _Nvidia(), _Amd()
