"""The loops over the grid on GPUs and on OpenCL's devices, whose threads stride over it; see ``entry.py``."""

from __future__ import annotations

from warp_like.backend.llvm.block import Team, barrier, works_in_blocks
from warp_like.backend.llvm.cuda import Stack
from warp_like.backend.llvm.grid_sums import GridSums
from warp_like.backend.llvm.grids import Grid, byte_at, covers, uses_stack
from warp_like.backend.llvm.memory import invariant
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.llvm.writer import PURE_CALL
from warp_like.base.contract import CUDA_GRID


class GpuGrid(Grid):
    """The threads of CUDA and AMD, in warps and blocks."""

    def write(self) -> None:
        w = self.w
        thread, size, block, blocks = simt_of(w.target).places(w)
        t = self._number = "i32" if w.options.narrow else "i64"
        self.team = Team(thread, size)
        self.accumulators = GridSums(w, thread, size)
        self._is_team = self.f.team > 1
        self._together = works_in_blocks(self.f) or self._is_team
        self._end = w.op("trunc nuw i64 %end to i32") if t == "i32" else "%end"
        self._own = self._of(thread)
        offset = w.op(f"mul nuw {t} {self._of(block)}, {self._of(size)}")
        slot = w.op(f"add nuw {t} {offset}, {self._own}")
        strides = not covers(w.options, self.f)
        stride = w.op(f"mul nuw {t} {self._of(blocks)}, {self._of(size)}") if strides else ""
        if uses_stack(self.f):
            self.stack = Stack(w, self._wide(slot), self._wide(stride))
        if self.ndim > 1:
            self._load_extents()
        if self._is_team:  # a block is at one place of the grid
            offset, stride = self._of(block), self._of(blocks)
        first = offset if self._together else slot
        if w.options.places > 1:
            self._several(slot, w.options.places)
        elif strides:
            self._stride_over_grid(first, stride)
        else:
            self._threads(first)
            w.jump("done")
        w.start("done")
        self.accumulators.finish()
        w.do("ret void")

    def _several(self, slot: str, places: int) -> None:
        """Write what a thread does at several neighbouring places; one by one if the grid ends among them.

        The host may launch more threads than have a place, so their places are not computed before that is known.
        """
        w, log = self.w, places.bit_length() - 1
        count = w.op(f"lshr i32 {w.op(f'add nuw i32 {self._end}, {places - 1}')}, {log}")
        w.branch(w.op(f"icmp ult i32 {slot}, {count}"), "places", "done")
        w.start("places")
        base = w.op(f"shl nuw i32 {slot}, {log}")
        left = w.op(f"sub nuw i32 {self._end}, {base}")
        w.branch(w.op(f"icmp uge i32 {left}, {places}"), "together", "remainder", likely=True)
        w.start("together")
        wide = self._wide(base)
        for k in range(places):
            self._place(w.op(f"add nuw nsw i64 {wide}, {k}") if k else wide)
        w.jump("done")
        w.start("remainder")
        w.jump("one")
        w.start("one")
        counter = w.phis(["i32"])
        (at,) = counter.registers
        counter.add([base], "remainder")
        self._place(self._wide(at))
        following = w.op(f"add nuw i32 {at}, 1")
        counter.add([following], w.block)
        counter.finish()
        stays = w.metadata("not unrolled", '!{!"llvm.loop.unroll.disable"}')
        loop = w.metadata("loop over places", f"distinct !{{{{self}}, {stays}}}")
        more = w.op(f"icmp ult i32 {following}, {self._end}")
        w.do(f"br i1 {more}, label %one, label %done, !llvm.loop {loop}")

    def _place(self, at: str) -> None:
        """Write what is done at the place with the i64 number ``at`` of a grid of one dimension."""
        self.thread = at
        self._indices = [at]
        self.run(self.f)

    def _stride_over_grid(self, first: str, stride: str) -> None:
        w, t = self.w, self._number
        before = w.block
        w.jump("grid")
        w.start("grid")
        counter = w.phis([t])
        counter.add([first], before)
        self._threads(counter.registers[0])
        if self._is_team:
            barrier(w)  # others may still read what is shared
        counter.add([w.op(f"add nuw {t} {counter.registers[0]}, {stride}")], w.block)
        counter.finish()
        w.jump("grid")

    def _threads(self, at: str) -> None:
        """Write what is done at ``at``: the thread's index; that of its block's first thread where they work together.

        There a block goes on to its next part together, and a thread beyond the grid's end ends, so that nobody waits
        for it: no part comes after that one.
        """
        w, t = self.w, self._number
        w.branch(w.op(f"icmp {'u' if t == 'i32' else 's'}lt {t} {at}, {self._end}"), "thread", "done")
        w.start("thread")
        assert self.team is not None
        if self._is_team:
            self.team.begin(w, str(self.f.team))
        elif self._together:
            left = w.op(f"sub nuw {t} {self._end}, {at}")
            w.branch(w.op(f"icmp ult {t} {self._own}, {left}"), "there", "done", likely=True)
            w.start("there")
            self.team.begin(w, self._wide(left))
            at = w.op(f"add nuw {t} {at}, {self._own}")
        self.thread = self._wide(at)
        self._indices = [self._wide(i) for i in self._split(at, self.ndim)]
        if self.stack is not None:
            self.stack.clear()
        self.run(self.f)

    def _split(self, flat: str, axes: int) -> list[str]:
        """Return the indices of ``flat``: by multiplications where the host knows the divisors (``CudaGrid``).

        Granlund and Montgomery, "Division by invariant integers using multiplication", 1994; the numbers are below
        2**31, so that a multiplier of 32 bits is always enough.
        """
        if self._number != "i32" or self.ndim != self.f.tid_ndim:
            return super()._split(flat, axes)
        w, out = self.w, []
        for k in range(axes - 1, 0, -1):
            twice = w.op(f"zext i32 {w.op(f'shl nuw i32 {flat}, 1')} to i64")
            multiplier = w.op(f"zext i32 {self._number_of('multipliers', k)} to i64")
            high = w.op(f"lshr i64 {w.op(f'mul nuw i64 {twice}, {multiplier}')}, 32")
            quotient = w.op(f"lshr i32 {w.op(f'trunc nuw i64 {high} to i32')}, {self._number_of('shifts', k)}")
            out.append(w.op(f"sub nuw i32 {flat}, {w.op(f'mul nuw i32 {quotient}, {self._divisors[k]}')}"))
            flat = quotient
        return [flat, *reversed(out)]

    def _number_of(self, name: str, k: int) -> str:
        at = byte_at(self.w, "%dims", CUDA_GRID.offsets[name] + 4 * k)
        return self.w.op(f"load i32, ptr {at}, align 4{invariant(self.w)}")

    def _of(self, x: str) -> str:
        """The i32 register ``x`` as the type that threads are counted in."""
        return x if self._number == "i32" else self.w.op(f"zext nneg i32 {x} to i64")

    def _wide(self, x: str) -> str:
        return x if self._number == "i64" else self.w.op(f"zext nneg i32 {x} to i64")


class OpenClGrid(Grid):
    """The work items of OpenCL."""

    def write(self) -> None:
        w = self.w
        first, stride = (self._asked(name) for name in ("_Z13get_global_idj", "_Z15get_global_sizej"))
        if self.ndim > 1:
            self._load_extents()
        before = w.block
        w.jump("grid")
        w.start("grid")
        counter = w.phis(["i64"])
        (at,) = counter.registers
        counter.add([first], before)
        w.branch(w.op(f"icmp slt i64 {at}, %end"), "thread", "done")
        w.start("thread")
        self.thread = at
        self._indices = self._split(at, self.ndim)
        self.run(self.f)
        counter.add([w.op(f"add nuw nsw i64 {at}, {stride}")], w.block)
        counter.finish()
        w.jump("grid")
        w.start("done")
        w.do("ret void")

    def _asked(self, name: str) -> str:
        """What OpenCL's function ``name`` gives for the first dimension."""
        self.w.declare(name, f"spir_func i64 @{name}(i32)")
        return self.w.op(f"call spir_func i64 @{name}(i32 0) {self.w.attributes(PURE_CALL)}")
