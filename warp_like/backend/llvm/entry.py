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
from typing import NamedTuple

from warp_like.analysis.ranges import Ranges, find_ranges
from warp_like.analysis.streams import WIDEST
from warp_like.backend.llvm import lane_partials
from warp_like.backend.llvm.cuda import CONTEXT
from warp_like.backend.llvm.grids import CpuGrid, Grid, LaneGrid, byte_at, covers, has_large_body, uses_stack
from warp_like.backend.llvm.lower import Lowering
from warp_like.backend.llvm.memory import invariant, load_value, parameter_note, sum_scope
from warp_like.backend.llvm.pieces import Cutter, is_cut
from warp_like.backend.llvm.polls import Fuel, Polls
from warp_like.backend.llvm.straight import is_straight
from warp_like.backend.llvm.values import ArrayRef, Rep, leaves
from warp_like.backend.llvm.writer import Writer, aligned
from warp_like.backend.target import Options, Target
from warp_like.base.contract import CUDA_GRID, MAX_DIMS
from warp_like.base.loc import Loc, at
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.layout import align_of, param_offsets, vector_align
from warp_like.ir.rewrite import grid_ndim, has_op
from warp_like.ir.types import Array, Type, is_large


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
        straight = not (target.is_device or options.fast_math) and is_straight(
            f, options.thread_private if options.contiguous else ()
        )
        fuel = None if target.is_device or straight else Fuel(w)

        @functools.cache
        def ranges(g: Function) -> Ranges:
            return find_ranges(g, options.narrow)

        partials = {} if has_large_body(f) else lane_partials.ask_for_all(w, f, params)

        def run(g: Function, active: str = "", partial: bool = False, whole: bool = False) -> None:
            find = functools.partial(ranges, g)
            polls = None if fuel is None else Polls(w, fuel, g, find)
            lowering = Lowering(
                w, find, ndim, grid.index, grid.extent, lambda: grid.thread, active, partial, grid.stack,
                grid.accumulators, grid.team, polls,
            )  # fmt: skip
            for i, (p, rep) in enumerate(zip(g.params, params, strict=True)):
                if whole and i in partials and isinstance(rep, ArrayRef):
                    rep = rep.replace(partials=partials[i])
                lowering.bind(p, rep)
            if g.schedule.lanes > 1 and not options.lineinfo and is_cut(g):
                lowering.cutter = Cutter()
            lowering.body(g)
            if polls is not None:
                polls.thread(g.body)

        grid = _kind_of_grid(target, f)(w, ndim, f, run)
        grid.straight = straight
        for ref in partials.values():
            found = w.op(f"icmp ne ptr {ref.data}, null")
            grid.whole_vectors = w.op(f"and i1 {grid.whole_vectors}, {found}") if grid.whole_vectors else found
        grid.write()
    text = w.module(name, _signature(w, name, max(size, 8), uses_stack(f)))
    schedule = f.schedule
    lanes, alone = schedule.lanes > 1, schedule.alone is not None
    loops = not lanes and has_op(f, ops.ActiveMask)
    return Lowered(text, w.faults, straight, lanes, w.places, f.is_tiled, options.lineinfo, alone, loops)


def _kind_of_grid(target: Target, f: Function) -> type[Grid]:
    if target.is_device:
        from warp_like.backend.llvm.gpu_grids import GpuGrid, OpenClGrid

        return GpuGrid if target.is_gpu else OpenClGrid
    return CpuGrid if f.schedule.lanes == 1 else LaneGrid


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
        return w.op(f"load {type}, ptr {byte_at(w, '%args', at)}, align 8{note}{more}")

    if is_large(t):
        return ArrayRef(Array(t, 0), byte_at(w, "%args", offset), (), (), local=True, constant=True)
    if not isinstance(t, Array):
        return load_value(w, leaves(t), byte_at(w, "%args", offset), note)
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
        counter=position in options.counters,
        reduced=position in options.reduced,
        constant=position in options.constant,
        align=vector_align(t.dtype) if wide else 0,
        note=parameter_note(w, position, apart) if apart else "",
    )


__all__ = ["Lowered", "covers", "entry_name", "lower_entry", "uses_stack"]
