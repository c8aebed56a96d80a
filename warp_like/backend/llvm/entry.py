"""Entry points: parameters out of the argument block, and the loop over the grid around the kernel's body.

The kernel sees the grid as ``ndim`` dimensional, the largest number that one of its ``Tid`` ops asks for; the
extents that a launch has beyond these fold into the last one, and extents that it lacks are 1.

CPU: ``void entry(args, dims, begin, end, ctx)`` as in ``warp_like.ir.layout``. ``dims`` has ``MAX_DIMS``
extents, unused ones 1. One dimension is one loop; more are a loop over rows around a loop over the last
dimension. The inner loop says that its iterations' memory accesses are independent, as threads have no order, where
``analysis/interleaving.py`` allows it.

CUDA: ``.entry entry(args, dims, end, ctx)``: the argument block and a ``CudaGrid`` by value, then an int64 and the
context's address; for functions with a stack also its address and the bytes of each thread. The threads of a
one-dimensional launch of any size stride over ``0 <= t < end``; where a team runs a thread (``Function.team``), the
blocks do. Where the options say ``narrow``, they count in unsigned 32 bits: ``end`` is at most
``contract.MAX_NARROW``, no block is launched that has no thread, and where ``covers`` says so there is no loop, as the
launch has a thread for each place of the grid, or for each group of neighbouring ``Options.places``.

AMD: ``amdgpu_kernel entry(args, dims, end, ctx)`` with the parameters of CUDA, the first two by reference. How many
blocks there are, and their threads, is in the implicit arguments of code object version 5.

OpenCL: ``spir_kernel entry(args, dims, end, ctx)``: the argument block and ``MAX_DIMS`` extents by value, then an int64
and the address of a ``CudaContext``. The work items stride over ``0 <= t < end``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from warp_like.analysis.interleaving import keeps_order
from warp_like.analysis.memory import analyse
from warp_like.analysis.ranges import Ranges, find_ranges
from warp_like.analysis.streams import WIDEST
from warp_like.backend.llvm import lane_partials
from warp_like.backend.llvm.accumulators import Accumulators
from warp_like.backend.llvm.block import Team, barrier, works_in_blocks
from warp_like.backend.llvm.cuda import CONTEXT, Stack
from warp_like.backend.llvm.grid_sums import GridSums
from warp_like.backend.llvm.lanes import full_mask
from warp_like.backend.llvm.lower import Lowering
from warp_like.backend.llvm.memory import invariant, load_value, parameter_note, sum_scope
from warp_like.backend.llvm.polls import Fuel, Polls
from warp_like.backend.llvm.shuffle import iota, splat
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.llvm.straight import is_straight
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, Rep, leaves, register_type
from warp_like.backend.llvm.writer import PURE_CALL, Writer, aligned
from warp_like.backend.target import Options, Target
from warp_like.base.contract import CUDA_GRID, MAX_DIMS
from warp_like.base.loc import Loc, at
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.layout import align_of, param_offsets, vector_align
from warp_like.ir.rewrite import grid_ndim
from warp_like.ir.types import Array, Type, is_large

LARGEST_TWICE = 600
"""The most ops of a function in lanes that is compiled twice, without a mask and with one."""


def entry_name(f: Function) -> str:
    """Return the name of the symbol under which ``f`` is compiled."""
    return "wl_" + re.sub(r"\W", "_", f.name, flags=re.ASCII)


class Lowered(NamedTuple):
    """A module in LLVM IR.

    Attributes:
        text: The module.
        faults: For CUDA, the errors that its code reports by number.
        straight: Whether LLVM's optimiser has nothing to do.
        in_lanes: Whether its loops work on vectors already.
        places: For CUDA, the places in the source that columns of line information stand for.
        tiled: Whether it works on tiles, with loops over their elements.
        has_lines: Whether it says which lines of the source it comes from.
        also_alone: Whether code in lanes stands beside the code of one thread.
        loops_in_lanes: Whether loops of one thread work on vectors already.
    """

    text: str
    faults: tuple[str, ...] = ()
    straight: bool = False
    in_lanes: bool = False
    places: tuple[Loc, ...] = ()
    tiled: bool = False
    has_lines: bool = False
    also_alone: bool = False
    loops_in_lanes: bool = False


def lower_entry(f: Function, target: Target, options: Options) -> Lowered:
    """Return the module with the entry point of kernel ``f``."""
    w = Writer(target, options)
    w.run = "block" if f.is_joined else "thread"
    name = entry_name(f)
    if options.lineinfo and f.loc is not None and not target.is_opencl:
        w.add_line_info(f.name, name, f.loc)
    if target.is_cuda and options.fast_math:
        w.flag(4, "nvvm-reflect-ftz", 1)  # libdevice's functions flush, too
    ndim = grid_ndim(f)
    offsets, size = param_offsets([p.type for p in f.params])
    with at(f.loc):
        if target.is_amd:
            for block in ("args", "dims"):
                w.do(f"%{block} = addrspacecast ptr addrspace(4) %{block}.given to ptr")
        params: list[Rep] = []
        arrays = [i for i, p in enumerate(f.params) if isinstance(p.type, Array)] if options.places > 1 else []
        for i, (p, offset) in enumerate(zip(f.params, offsets, strict=True)):
            params.append(_parameter(w, p.type, offset, i, arrays))
        straight = not (target.is_device or options.fast_math) and is_straight(f)
        fuel = None if target.is_device or straight else Fuel(w)

        @functools.cache
        def ranges(g: Function) -> Ranges:
            return find_ranges(g, options.narrow)

        partials = {} if _is_large(f) else lane_partials.ask_for_all(w, f, params)

        def run(g: Function, active: str = "", partial: bool = False, whole: bool = False) -> None:
            find = functools.partial(ranges, g)
            polls = None if fuel is None else Polls(w, fuel, g.schedule.lanes, find)
            lowering = Lowering(
                w, find, ndim, grid.index, grid.extent, lambda: grid.thread, active, partial, grid.stack,
                grid.accumulators, grid.team, polls,
            )  # fmt: skip
            for i, (p, rep) in enumerate(zip(g.params, params, strict=True)):
                if whole and i in partials and isinstance(rep, ArrayRef):
                    rep = rep.replace(partials=partials[i])
                lowering.bind(p, rep)
            lowering.body(g)
            if polls is not None:
                polls.thread(g.body)

        grid = _kind_of_grid(target, f)(w, ndim, f, run)
        for ref in partials.values():
            found = w.op(f"icmp ne ptr {ref.data}, null")
            grid.whole_vectors = w.op(f"and i1 {grid.whole_vectors}, {found}") if grid.whole_vectors else found
        grid.write()
    text = w.module(name, _signature(w, name, max(size, 8), uses_stack(f)))
    schedule = f.schedule
    lanes, alone = schedule.lanes > 1, schedule.alone is not None
    loops = not lanes and any(isinstance(o, ops.ActiveMask) for o in f.body.walk())
    return Lowered(text, w.faults, straight, lanes, w.places, f.is_tiled, options.lineinfo, alone, loops)


def _kind_of_grid(target: Target, f: Function) -> type[_Grid]:
    if target.is_device:
        return _GpuGrid if target.is_gpu else _OpenClGrid
    return _CpuGrid if f.schedule.lanes == 1 else _LaneGrid


def _signature(w: Writer, name: str, size: int, stack: bool) -> str:
    if w.target.is_opencl:
        # Not an array of bytes: to OpenCL, an array by value is an address.
        blocks = (
            f"ptr byval({{ [{n} x i64] }}) align 8 %{x}" for x, n in (("args", -(-size // 8)), ("dims", MAX_DIMS))
        )
        return (
            f"define spir_kernel void @{name}({', '.join(blocks)}, i64 %end, {CONTEXT} %ctx) {w.attributes('nounwind')}"
        )
    if w.target.is_cuda:
        dims = f"ptr byval([{CUDA_GRID.size} x i8]) align 8 %dims"
        params = f"ptr byval([{size} x i8]) align 8 %args, {dims}, i64 %end, {CONTEXT} %ctx"
        if stack:
            params += f", {CONTEXT} %stack, i64 %capacity"
        attributes = w.attributes("nounwind" + _bounds(w) + _flushed(w))
        return f"define ptx_kernel void @{name}({params}) {attributes}"
    if w.target.is_amd:
        return _amd_signature(w, name, size, stack)
    block = "noalias readonly align 8"
    params = f"ptr {block} %args, ptr {block} %dims, i64 %begin, i64 %end, ptr noalias %ctx"
    vectors = f'"prefer-vector-width"="{w.target.vector_bits}"'
    frames = ' "frame-pointer"="all"' if w.options.lineinfo else ""  # by which profilers find the callers
    # LLVM's estimates give NaN for the roots and inverses of 0 and infinity; `inverse_roots.py` has those that do not
    estimates = ' "reciprocal-estimates"="none"' if w.options.fast_math else ""
    attributes = f"nounwind{aligned(w.target.vector_bits // 8)} {vectors}{frames}{estimates}"
    return f"define void @{name}({params}) {w.attributes(attributes)}"


def _amd_signature(w: Writer, name: str, size: int, stack: bool) -> str:
    blocks = (("args", size), ("dims", CUDA_GRID.size))
    params = ", ".join(f"ptr addrspace(4) byref([{n} x i8]) align 8 %{x}.given" for x, n in blocks)
    params += f", i64 %end, {CONTEXT} %ctx" + (f", {CONTEXT} %stack, i64 %capacity" if stack else "")
    threads = w.options.launch_bounds[0] if w.options.launch_bounds else 0
    sizes = f' "amdgpu-flat-work-group-size"="1,{threads or 1024}"'
    registers = f' "amdgpu-num-vgpr"="{w.options.max_registers}"' if w.options.max_registers else ""
    w.flag(1, "amdhsa_code_object_version", 500)
    return f"define amdgpu_kernel void @{name}({params}) {w.attributes('nounwind' + sizes + registers + _flushed(w))}"


def uses_stack(f: Function) -> bool:
    """Return whether threads of ``f`` save values on a stack."""
    return any(isinstance(o, ops.Push) for o in f.body.walk())


def covers(options: Options, f: Function) -> bool:
    """Return whether each thread of a launch on CUDA has one place of the grid at most: no thread goes on to another.

    The host launches a block for each part of a narrow grid, but fewer where threads have stacks, or combine what
    they have found.
    """
    return options.narrow and not options.reduced and not uses_stack(f) and (f.team > 1 or not works_in_blocks(f))


def _flushed(w: Writer) -> str:
    return ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"' if w.options.fast_math else ""


def _bounds(w: Writer) -> str:
    threads, blocks = w.options.launch_bounds or (0, 0)
    registers = f' "nvvm.maxnreg"="{w.options.max_registers}"' if w.options.max_registers else ""
    return (
        (f' "nvvm.maxntid"="{threads}"' if threads else "")
        + (f' "nvvm.minctasm"="{blocks}"' if blocks else "")
        + registers
    )


def _parameter(w: Writer, t: Type, offset: int, position: int, apart: list[int]) -> Rep:
    """Load a parameter; ``apart`` are the arrays none of which overlaps another that is written, by position."""
    note, options = invariant(w), w.options

    def field(type: str, at: int, more: str = "") -> str:
        return w.op(f"load {type}, ptr {_byte(w, '%args', at)}, align 8{note}{more}")

    if is_large(t):
        return ArrayRef(Array(t, 0), _byte(w, "%args", offset), (), (), local=True, constant=True)
    if not isinstance(t, Array):
        return load_value(w, leaves(t), _byte(w, "%args", offset), note)
    shape = tuple(field("i64", offset + 8 + 8 * k) for k in range(t.ndim))
    strides = tuple(field("i64", offset + 8 + 8 * (t.ndim + k)) for k in range(t.ndim))
    data = field(w.array_pointer, offset, f", !align {w.metadata('aligned', f'!{{i64 {WIDEST}}}')}" if apart else "")
    wide = options.aligned and options.contiguous and vector_align(t.dtype) > align_of(t.dtype)
    return ArrayRef(
        t,
        data,
        shape,
        () if options.contiguous else strides,
        narrow=options.narrow,
        sum=sum_scope(w, position) if position in options.sums else "",
        thread_private=position in options.thread_private,
        reduced=position in options.reduced,
        constant=position in options.constant,
        align=vector_align(t.dtype) if wide else 0,
        note=parameter_note(w, position, apart) if apart else "",
    )


def _is_large(f: Function) -> bool:
    """Whether ``f`` in lanes is there once, with a mask for all vectors."""
    return sum(1 for _ in f.body.walk()) > LARGEST_TWICE


def _byte(w: Writer, base: str, offset: int) -> str:
    return w.op(f"getelementptr inbounds i8, ptr {base}, i64 {offset}") if offset else base


class _Grid:
    """The common part of both grids: extents and the thread's indices."""

    def __init__(self, w: Writer, ndim: int, f: Function, run: Callable[..., None]) -> None:
        self.w = w
        self.ndim = ndim
        self.f = f
        self.run = run  # writes the body of a function for one thread, or given a mask for lanes
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
        first, *others = (w.op(f"load i64, ptr {_byte(w, '%dims', 8 * k)}, align 8{note}") for k in folded)
        for other in others:
            first = w.op(f"mul nsw i64 {first}, {other}")
        return first

    def _load_extents(self) -> None:
        w = self.w
        note = invariant(w)
        # A kernel runs grids of as many dimensions as it asks indices for, others in a program of their own.
        count = self.ndim if self.ndim == self.f.tid_ndim else MAX_DIMS
        dims = [w.op(f"load i64, ptr {_byte(w, '%dims', 8 * k)}, align 8{note}") for k in range(count)]
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


class _CpuGrid(_Grid):
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
        loop = w.metadata("grid", f"distinct !{{{', '.join(['{self}', *hints])}}}")
        w.do(f"br i1 {stop}, label %{target}, label %thread, !llvm.loop {loop}")


class _LaneGrid(_CpuGrid):
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
        if _is_large(self.f):
            before = w.block
            w.jump("remainder")
            self._remainder(low, before, high, outer, self.f, target, partial=False)
            return
        remainder = self.f.schedule.remainder or self.f
        whole = w.op(f"sub nsw i64 {high}, {lanes}")
        if self.whole_vectors:
            whole = w.select(self.whole_vectors, "i64", whole, "-1", "i1")
        before = w.block
        w.jump("vectors")
        w.start("vectors")
        counter = w.phis(["i64"])
        (t,) = counter.registers
        counter.add([low], before)
        w.branch(w.op(f"icmp sle i64 {t}, {whole}"), "vector", "remainder")
        w.start("vector")
        self._at(t, outer)
        self.run(self.f, full_mask(lanes), whole=True)
        counter.add([w.op(f"add nuw nsw i64 {t}, {lanes}")], w.block)
        counter.finish()
        w.jump("vectors")
        self._remainder(t, "vectors", high, outer, remainder, target, partial=remainder is self.f)

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
        self._at(t, outer)
        number = LaneScalar("int", 32, f.schedule.lanes)
        there = w.op(f"sub nsw i64 {high}, {t}")
        if before != "vectors":  # from where there are fewer than a vector's
            there = w.intrinsic("llvm.smin.i64", "i64", ["i64", "i64"], [there, str(f.schedule.lanes)])
        left = splat(w, number, w.op(f"trunc i64 {there} to i32"))
        self.run(f, w.op(f"icmp slt {register_type(number)} {iota(number)}, {left}"), partial)
        counter.add([w.op(f"add nuw nsw i64 {t}, {f.schedule.lanes}")], w.block)
        counter.finish()
        w.jump("remainder")


class _GpuGrid(_Grid):
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
        at = _byte(self.w, "%dims", CUDA_GRID.offsets[name] + 4 * k)
        return self.w.op(f"load i32, ptr {at}, align 4{invariant(self.w)}")

    def _of(self, x: str) -> str:
        """The i32 register ``x`` as the type that threads are counted in."""
        return x if self._number == "i32" else self.w.op(f"zext nneg i32 {x} to i64")

    def _wide(self, x: str) -> str:
        return x if self._number == "i64" else self.w.op(f"zext nneg i32 {x} to i64")


class _OpenClGrid(_Grid):
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
