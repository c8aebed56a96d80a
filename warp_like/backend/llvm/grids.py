"""The loops over the grid that kernels run in: what all have in common, and those of the CPU; see ``entry.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.analysis.interleaving import keeps_order
from warp_like.analysis.memory import analyse
from warp_like.backend.llvm.accumulators import Accumulators
from warp_like.backend.llvm.block import Team, works_in_blocks
from warp_like.backend.llvm.cuda import Stack
from warp_like.backend.llvm.lanes import full_mask
from warp_like.backend.llvm.memory import invariant
from warp_like.backend.llvm.shuffle import iota, splat
from warp_like.backend.llvm.values import LaneScalar, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.backend.target import Options
from warp_like.base.contract import MAX_DIMS
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import count_ops, has_op

LARGEST_TWICE = 600
"""The most ops of a function in lanes that is compiled twice, without a mask and with one."""


def uses_stack(f: Function) -> bool:
    """Return whether threads of ``f`` save values on a stack."""
    return has_op(f, ops.Push)


def covers(options: Options, f: Function) -> bool:
    """Return whether each thread of a launch on CUDA has one place of the grid at most: no thread goes on to another.

    The host launches a block for each part of a narrow grid, but fewer where threads have stacks, or combine what
    they have found.
    """
    return options.narrow and not options.reduced and not uses_stack(f) and (f.team > 1 or not works_in_blocks(f))


def has_large_body(f: Function) -> bool:
    """Whether ``f`` in lanes is there once, with a mask for all vectors."""
    return count_ops(f.body) > LARGEST_TWICE


def byte_at(w: Writer, base: str, offset: int) -> str:
    """Append the address of a byte after ``base``."""
    return w.op(f"getelementptr inbounds i8, ptr {base}, i64 {offset}") if offset else base


class Grid:
    """The common part of both grids: extents and the thread's indices."""

    def __init__(self, w: Writer, ndim: int, f: Function, run: Callable[..., None]) -> None:
        self.w = w
        self.ndim = ndim
        self.f = f
        self.run = run  # writes the body of a function for one thread, or given a mask for lanes
        self.straight = False  # the body is one block, and LLVM's optimiser does not see it
        self.whole_vectors = ""  # whether the code for whole vectors may run; always if empty
        self.thread = ""
        self.stack: Stack | None = None  # a GPU's
        self.accumulators = Accumulators(w)
        self.team: Team | None = None  # a GPU's
        self._number = "i64"  # what threads are counted in
        self._indices: list[str] = []
        self._extents: list[str] = []
        self._divisors: list[str] = []

    def write(self) -> None:
        """Write the loop over the grid."""
        raise NotImplementedError

    def index(self, axis: int, ndim: int) -> str:
        """Return the thread's index along ``axis`` of the grid seen as ``ndim`` dimensional."""
        if axis < ndim - 1 or ndim == self.ndim:
            return self._indices[axis]
        folded = self._indices[axis]
        for k in range(axis + 1, self.ndim):
            scaled = self.w.op(f"mul nsw i64 {folded}, {self._extents[k]}")
            folded = self.w.op(f"add nsw i64 {scaled}, {self._indices[k]}")
        return folded

    def extent(self, axis: int, ndim: int) -> str:
        """Return the extent along ``axis`` of the grid seen as ``ndim`` dimensional."""
        w, note = self.w, invariant(self.w)
        folded = range(axis, axis + 1 if axis < ndim - 1 else MAX_DIMS)
        first, *others = (w.op(f"load i64, ptr {byte_at(w, '%dims', 8 * k)}, align 8{note}") for k in folded)
        for other in others:
            first = w.op(f"mul nsw i64 {first}, {other}")
        return first

    def _load_extents(self) -> None:
        w = self.w
        note = invariant(w)
        # A kernel runs grids of as many dimensions as it asks indices for, others in a program of their own.
        count = self.ndim if self.ndim == self.f.tid_ndim else MAX_DIMS
        dims = [w.op(f"load i64, ptr {byte_at(w, '%dims', 8 * k)}, align 8{note}") for k in range(count)]
        last = dims[self.ndim - 1]
        for extra in dims[self.ndim :]:
            last = w.op(f"mul nsw i64 {last}, {extra}")
        self._extents = [*dims[: self.ndim - 1], last]
        narrow = self._number == "i32"
        self._divisors = [w.op(f"trunc nuw i64 {n} to i32") for n in self._extents] if narrow else self._extents

    def _split(self, flat: str, axes: int) -> list[str]:
        """Return the indices of ``flat`` along the first ``axes`` dimensions."""
        w, out = self.w, []
        for k in range(axes - 1, 0, -1):
            out.append(w.op(f"urem {self._number} {flat}, {self._divisors[k]}"))
            flat = w.op(f"udiv {self._number} {flat}, {self._divisors[k]}")
        return [flat, *reversed(out)]


class CpuGrid(Grid):
    """Threads one by one, along rows of the last dimension."""

    def write(self) -> None:
        w = self.w
        w.branch(w.op("icmp slt i64 %begin, %end"), "run", "done")
        w.start("run")
        if self.ndim == 1:
            self._threads("%begin", "%end", [], "done")
        else:
            self._rows()
        w.start("done")
        self.accumulators.finish()
        w.do("ret void")

    def _rows(self) -> None:
        """Write the loop over rows: what the chunk has of each along the last dimension."""
        w = self.w
        self._load_extents()
        inner = self._extents[-1]
        first = w.op(f"udiv i64 %begin, {inner}")
        last = w.op(f"udiv i64 {w.op('sub nsw i64 %end, 1')}, {inner}")
        before = w.block
        w.jump("row")
        w.start("row")
        rows = w.phis(["i64"])
        (row,) = rows.registers
        rows.add([first], before)
        self._start = w.op(f"mul nsw i64 {row}, {inner}")
        low = w.op(f"sub nsw i64 %begin, {self._start}")
        high = w.op(f"sub nsw i64 %end, {self._start}")
        low = w.intrinsic("llvm.smax.i64", "i64", ["i64", "i64"], [low, "0"])
        high = w.intrinsic("llvm.smin.i64", "i64", ["i64", "i64"], [high, inner])
        following = self._row(row, low, high)
        rows.add([following], w.block)
        rows.finish()
        w.branch(w.op(f"icmp sle i64 {following}, {last}"), "row", "done")

    def _row(self, row: str, low: str, high: str) -> str:
        """Write what is done of ``row``, from ``low`` to ``high``; return the row after it."""
        self._threads(low, high, self._split(row, self.ndim - 1), "row_end")
        self.w.start("row_end")
        return self.w.op(f"add nuw nsw i64 {row}, 1")

    def _at(self, index: str, outer: list[str]) -> None:
        """Go to the thread at ``index`` of the last dimension."""
        self._indices = [*outer, index]
        self.thread = index if self.ndim == 1 else self.w.op(f"add nsw i64 {self._start}, {index}")

    def _threads(self, low: str, high: str, outer: list[str], target: str) -> None:
        """Write the loop over the last dimension, which is not empty, and go on at ``target``."""
        w = self.w
        before = w.block
        w.jump("thread")
        w.start("thread")
        counter = w.phis(["i64"])
        (t,) = counter.registers
        counter.add([low], before)
        self._at(t, outer)
        self.run(self.f)
        following = w.op(f"add nuw nsw i64 {t}, 1")
        counter.add([following], w.block)
        counter.finish()
        stop = w.op(f"icmp eq i64 {following}, {high}")
        hints = []
        if keeps_order(analyse(self.f)):
            group = w.metadata("access", "distinct !{}")
            hints.append(w.metadata("parallel", f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
        if w.calls_vector_math:
            # A call clobbers every vector register: iterations run side by side would only spill each other.
            hints.append(w.metadata("one", '!{!"llvm.loop.interleave.count", i32 1}'))
        if self.f.schedule.scalar:
            hints.append(w.metadata("scalar", '!{!"llvm.loop.vectorize.width", i32 1}'))
        loop = w.metadata("grid", f"distinct !{{{', '.join(['{self}', *hints])}}}")
        w.do(f"br i1 {stop}, label %{target}, label %thread, !llvm.loop {loop}")


class LaneGrid(CpuGrid):
    """Vectors of threads along the last dimension, then smaller ones, the last with a mask.

    A large body is there once, with a mask for all vectors: that costs it little, and to compile it twice takes long.
    """

    def _rows(self) -> None:
        """Let threads run one by one where the rows of the grid are too short for lanes."""
        schedule, w = self.f.schedule, self.w
        if schedule.alone is None:
            super()._rows()
            return
        self._load_extents()
        before = w.block
        w.branch(w.op(f"icmp slt i64 {self._extents[-1]}, {schedule.fewest}"), "alone", "rows")
        w.start("alone")
        counter = w.phis(["i64"])
        (t,) = counter.registers
        counter.add(["%begin"], before)
        self._indices, self.thread = self._split(t, self.ndim), t
        self.run(schedule.alone)
        following = w.op(f"add nuw nsw i64 {t}, 1")
        counter.add([following], w.block)
        counter.finish()
        w.branch(w.op(f"icmp slt i64 {following}, %end"), "alone", "done")
        w.start("rows")
        super()._rows()

    def _threads(self, low: str, high: str, outer: list[str], target: str) -> None:
        w, lanes = self.w, self.f.schedule.lanes
        if has_large_body(self.f):
            before = w.block
            w.jump("remainder")
            self._remainder(low, before, high, outer, self.f, target, partial=False)
            return
        remainder = self.f.schedule.remainder or self.f
        whole = w.op(f"sub nsw i64 {high}, {lanes}")
        if self.whole_vectors:
            whole = w.select(self.whole_vectors, "i64", whole, "-1", "i1")
        if self.straight and not self.whole_vectors:
            t = self._rotated(low, whole, outer)
            if remainder is self.f:  # then fewer threads are left than a vector has
                w.branch(w.op(f"icmp slt i64 {t}, {high}"), "masked", target)
                w.start("masked")
                self._under_mask(t, high, outer, remainder, partial=True)
                w.jump(target)
                return
            before = w.block
            w.jump("remainder")
        else:
            first, before = w.block, "vectors"
            w.jump("vectors")
            w.start("vectors")
            counter = w.phis(["i64"])
            (t,) = counter.registers
            counter.add([low], first)
            w.branch(w.op(f"icmp sle i64 {t}, {whole}"), "vector", "remainder")
            w.start("vector")
            self._at(t, outer)
            self.run(self.f, full_mask(lanes), whole=True)
            counter.add([w.op(f"add nuw nsw i64 {t}, {lanes}")], w.block)
            counter.finish()
            w.jump("vectors")
        self._remainder(t, before, high, outer, remainder, target, partial=remainder is self.f)

    def _rotated(self, low: str, whole: str, outer: list[str]) -> str:
        """Write the loop over whole vectors in the form that the code generator wants; return where the rest begins."""
        w, lanes, before = self.w, self.f.schedule.lanes, self.w.block
        w.branch(w.op(f"icmp sle i64 {low}, {whole}"), "vector", "rest")
        w.start("vector")
        counter = w.phis(["i64"])
        (t,) = counter.registers
        counter.add([low], before)
        self._at(t, outer)
        self.run(self.f, full_mask(lanes), whole=True)
        following, end = w.op(f"add nuw nsw i64 {t}, {lanes}"), w.block
        counter.add([following], end)
        counter.finish()
        w.branch(w.op(f"icmp sle i64 {following}, {whole}"), "vector", "rest")
        w.start("rest")
        rest = w.phis(["i64"])
        rest.add([low], before)
        rest.add([following], end)
        rest.finish()
        return rest.registers[0]

    def _row(self, row: str, low: str, high: str) -> str:
        """Let several rows go together where the function is coarsened and the chunk has them whole."""
        coarsened = self.f.schedule.coarsened
        if coarsened is None:
            return super()._row(row, low, high)
        w, inner = self.w, self._extents[-1]
        outer = self._split(row, self.ndim - 1)
        following = w.op(f"add nsw i64 {row}, 1")
        below = w.op(f"add nsw i64 {row}, {coarsened.schedule.rows}")
        stop = w.op(f"mul nsw i64 {below}, {inner}")
        side = w.op(f"add nsw i64 {outer[-1]}, {coarsened.schedule.rows}")
        conditions = (f"eq i64 {low}, 0", f"sle i64 {stop}, %end", f"sle i64 {side}, {self._extents[-2]}")
        inside, ends, together = (w.op(f"icmp {c}") for c in conditions)
        whole = w.op(f"and i1 {w.op(f'and i1 {inside}, {ends}')}, {together}")
        if self.whole_vectors:
            whole = w.op(f"and i1 {whole}, {self.whole_vectors}")
        before = w.block
        w.branch(whole, "groups", "strip")
        w.start("groups")
        counter = w.phis(["i64"])
        (t,) = counter.registers
        counter.add(["0"], before)
        reached = w.op(f"add nuw nsw i64 {t}, {coarsened.schedule.lanes}")
        w.branch(w.op(f"icmp sle i64 {reached}, {inner}"), "coarsened", "strip")
        w.start("coarsened")
        self._at(t, outer)
        self.run(coarsened, full_mask(coarsened.schedule.lanes), whole=True)
        counter.add([reached], w.block)
        counter.finish()
        w.jump("groups")
        return self._strip(row, (low, high, following), before, (t, inner, below))

    def _strip(self, row: str, alone: Sequence[str], before: str, several: Sequence[str]) -> str:
        """Write the loop over the rows from ``row`` on, of which there are one or, after "groups", several.

        ``alone``, coming from block ``before``, and ``several`` are the first and the last column of each row, and the
        row after the last; returns that row.
        """
        w = self.w
        w.start("strip")
        strip = w.phis(["i64"] * 4)
        at, low, high, stop = strip.registers
        strip.add([row, *alone], before)
        strip.add([row, *several], "groups")
        self._start = w.op(f"mul nsw i64 {at}, {self._extents[-1]}")
        self._threads(low, high, self._split(at, self.ndim - 1), "strip_end")
        w.start("strip_end")
        following = w.op(f"add nuw nsw i64 {at}, 1")
        strip.add([following, low, high, stop], w.block)
        strip.finish()
        w.branch(w.op(f"icmp slt i64 {following}, {stop}"), "strip", "row_end")
        w.start("row_end")
        return following

    def _remainder(
        self, low: str, before: str, high: str, outer: list[str], f: Function, target: str, *, partial: bool
    ) -> None:
        """Write the loop from ``low`` on, which block ``before`` comes with, in the lanes of ``f`` under a mask."""
        w = self.w
        w.start("remainder")
        counter = w.phis(["i64"])
        (t,) = counter.registers
        counter.add([low], before)
        w.branch(w.op(f"icmp slt i64 {t}, {high}"), "masked", target)
        w.start("masked")
        self._under_mask(t, high, outer, f, partial=partial)
        counter.add([w.op(f"add nuw nsw i64 {t}, {f.schedule.lanes}")], w.block)
        counter.finish()
        w.jump("remainder")

    def _under_mask(self, t: str, high: str, outer: list[str], f: Function, *, partial: bool) -> None:
        """Write what is done from ``t`` on, in the lanes of ``f`` that are before ``high``."""
        w = self.w
        self._at(t, outer)
        number = LaneScalar("int", 32, f.schedule.lanes)
        there = w.op(f"sub nsw i64 {high}, {t}")
        if has_large_body(self.f):  # else fewer than a vector's are left
            there = w.intrinsic("llvm.smin.i64", "i64", ["i64", "i64"], [there, str(f.schedule.lanes)])
        left = splat(w, number, w.op(f"trunc i64 {there} to i32"))
        self.run(f, w.op(f"icmp slt {register_type(number)} {iota(number)}, {left}"), partial)
