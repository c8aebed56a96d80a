"""The whole route from source to artifact, on one page."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from warp_like.analysis.extents import reaches
from warp_like.analysis.memory import Memory, analyse
from warp_like.analysis.streams import places_a_thread
from warp_like.backend import compile as backend
from warp_like.backend.target import Options as LoweringOptions
from warp_like.backend.target import Target
from warp_like.base import log
from warp_like.base.contract import MAX_DIMS, STACK_STEP
from warp_like.base.errors import WarpCodegenError
from warp_like.base.settings import settings
from warp_like.compiler.artifact import Artifact, Effects, GridSchedule, KernelCode, StackUse
from warp_like.compiler.signature import Signature, with_prelaunch_copies
from warp_like.frontend.build import at_any_depth, build_kernel
from warp_like.frontend.source import Source
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import has_op
from warp_like.ir.types import Type
from warp_like.passes import pipeline as passes
from warp_like.passes.ad.order import roots_in_order, serial_arrays
from warp_like.passes.ad.primal import rewritten_arrays
from warp_like.passes.ad.saved_results import count_rows, load_results, savable_results, save_results
from warp_like.passes.blocks import relies_on_no_overlap
from warp_like.passes.effects import (
    always_accessed,
    array_uses,
    constant_arrays,
    counters,
    is_self_contained,
    nested_uses,
    own_arrays,
    queried_objects,
    taken_arrays,
)
from warp_like.passes.runner import Runner
from warp_like.passes.spmd.choice import FILTERED_BITS, Choice, choose
from warp_like.passes.sums import (
    depends_on_order,
    greatest_offsets,
    plain_additions,
    reduced_arrays,
    spans,
    sums_are_non_associative,
)

if TYPE_CHECKING:
    from warp_like.backend.nvptx import Assembled

_Made = TypeVar("_Made")

STAGES = ("ir", "optimised", "lanes", "llvm", "asm", "ptx", "sass")
"""What can be shown of a kernel on its way: the frontend's IR, that of one thread when all passes have run, that of the
lanes (the same where there are none), LLVM IR, machine code."""


class Draft:
    """A variant that has gone through the passes for one thread, and has no code yet.

    Attributes:
        function: What the backend gets.
        signature: What the options and the facts are for.
        facts: Its artifact without code.
    """

    def __init__(self, source: Source, signature: Signature, target: Target) -> None:
        self.clock = _Stopwatch()
        self.function = optimised(
            source,
            signature,
            self.clock,
            _team(signature, target),
            units=_units(signature, target),
            async_copies=target.has_async_copies,
            native=target.has_native_searches,
            sums_pairs=target.sums_pairs,
        )
        self.memory = analyse(self.function)
        self.prepare(signature, target)

    def prepare(self, signature: Signature, target: Target) -> None:
        """Find the options and the facts for ``signature``: the one of the passes, or one that differs in few things.

        Passes for the CPU do not ask for ``sums`` and ``short_rows``, so all have the same function.
        """
        self.signature = signature
        self.options = _lowering(signature, self.memory, target)
        self.facts = _facts(self.function, self.memory, signature, self.options, target)


def draft(source: Source, signature: Signature, target: Target) -> Draft:
    """Run the passes on one variant.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    return _blaming_a_pass(source, lambda: Draft(source, signature, target))


def build(source: Source, signature: Signature, target: Target, drafted: Draft | None = None) -> Artifact:
    """Compile one variant, without the cache; go on from ``drafted`` where that is there.

    ``drafted`` may be for another choice of ``sums`` and ``short_rows``, on the CPU.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    if drafted is not None and drafted.signature != signature:
        drafted.prepare(signature, target)
    return _blaming_a_pass(source, lambda: _build(drafted or Draft(source, signature, target), signature, target))


def _blaming_a_pass(source: Source, compile_it: Callable[[], _Made]) -> _Made:
    """Return what ``compile_it`` does. If the end of a stage is too late to say which pass fails, do it once more.

    The passes may also stumble over what an earlier one of the stage has left, before the end comes.
    """
    try:
        return at_any_depth(source, compile_it)
    except WarpCodegenError:
        raise
    except Exception:
        if settings.verify != "stages":
            raise
        settings.verify = True
        try:
            at_any_depth(source, compile_it)
        finally:
            settings.verify = "stages"
        raise


def _build(drafted: Draft, signature: Signature, target: Target) -> Artifact:
    f, options, clock = drafted.function, drafted.options, drafted.clock
    with clock.stage("lanes"):
        lanes = _in_lanes(f, signature, target, options)
    for stage in ("llvm", "asm"):
        if log.dumps(stage):
            log.dump(stage, f.name, _backend_text(lanes.function, target, options, stage))
    with clock.stage("backend"):
        code, faults = _code(lanes.function, target, options)
    log.info(f"compiled {f.role} `{f.name}` in {1e3 * sum(clock.seconds.values()):.1f} ms")
    return drafted.facts.replace(
        code=KernelCode(backend.entry_name(f), code, faults),
        schedule=_schedule(f, lanes).replace(combines=target.is_gpu and bool(options.reduced), places=options.places),
        seconds=tuple(clock.seconds.items()),
    )


def _facts(f: Function, memory: Memory, signature: Signature, options: LoweringOptions, target: Target) -> Artifact:
    """Return what is known of ``f`` before it has code."""
    return Artifact(
        KernelCode(backend.entry_name(f), b""),
        _effects(memory, signature, options, target),
        _schedule(f),
        StackUse(backend.uses_stack(f), _stack_bound(f, target)),
    )


def _schedule(f: Function, lanes: Choice | None = None) -> GridSchedule:
    """How ``lanes``, chosen for the thread's code ``f``, run the threads of a grid; a thread alone until then."""
    coarsened = None if lanes is None else lanes.function.schedule.coarsened
    return GridSchedule(
        tid_ndim=f.tid_ndim or MAX_DIMS,
        lanes=1 if lanes is None else lanes.width,
        reason="" if lanes is None else lanes.reason,
        rows=1 if coarsened is None else coarsened.schedule.rows,
        bounded=not has_op(f, ops.For, ops.While, ops.Native, ops.Search, ops.Call),
        team=f.team,
    )


def _effects(memory: Memory, signature: Signature, options: LoweringOptions, target: Target) -> Effects:
    f = memory.function
    accesses, nested = array_uses(memory), nested_uses(memory)
    summed, private = plain_additions(memory) if f.team == 1 else ((), ())  # a team shares a thread's elements
    ordered, non_associative = depends_on_order(memory, summed), sums_are_non_associative(f, summed)
    self_contained = is_self_contained(memory)
    sums_or_fails = summed or taken_arrays(memory) or options.debug or backend.uses_stack(f)
    return Effects(
        reads=tuple(i for i, a in accesses.items() if a.read),
        writes=tuple(i for i, a in accesses.items() if a.written),
        stores=tuple(i for i, a in accesses.items() if a.stored),
        takes=taken_arrays(memory) if target.is_device else (*taken_arrays(memory), *counters(memory)),
        sums=summed,
        spans=spans(memory, summed),
        ahead=greatest_offsets(memory, summed),
        thread_private=private,
        extremes=tuple(i for i, a in accesses.items() if a.extreme),
        rewrites=tuple(rewritten_arrays(memory, roots_in_order(memory))) if f.role == "kernel" else (),
        serial=serial_arrays(memory) if f.role == "kernel" else (),
        saved_results=_saved_results(memory, signature),
        always_accessed=always_accessed(memory),
        prelaunch_copies=f.prelaunch_copies,
        order_dependent=ordered,
        non_associative=non_associative,
        prints=has_op(f, ops.Print),
        reduced=options.reduced if signature.sums or target.is_device else _reduced_on_cpu(memory, options),
        apart=options.apart if signature.sums else _written_after_looking_ahead(memory, signature, target),
        nested_reads=tuple(place for place, a in nested.items() if a.read),
        nested_writes=tuple(place for place, a in nested.items() if a.written),
        no_overlap=target.is_gpu and relies_on_no_overlap(f),
        objects=queried_objects(f),
        own=own_arrays(memory),
        fusible=self_contained and not (ordered or sums_or_fails),
        self_contained=self_contained,
        reaches=() if options.debug else reaches(memory),
    )


def _saved_results(memory: Memory, signature: Signature) -> int:
    if memory.function.role != "kernel":
        return 0
    return count_rows(memory.function) if signature.saves_results else len(savable_results(memory))


def _stack_bound(f: Function, target: Target) -> bytes:
    if not target.is_gpu or not backend.uses_stack(f):
        return b""
    from warp_like.passes.ad.stack_bound import stack_bound

    return b"".join(STACK_STEP.pack(*step) for step in stack_bound(f, backend.stack_size))


def _team(signature: Signature, target: Target) -> int:
    """How many threads of the target run a thread of the grid together: on GPUs, those of a block that was joined."""
    return signature.options.cpu_block_dim if target.is_gpu and signature.options.cpu_block_axis >= 0 else 1


def _units(signature: Signature, target: Target) -> tuple[str, ...]:
    """The matrix units of the target that code may use: that of float64 fuses products and sums."""
    return tuple(u for u in target.matrix_units if signature.options.fuse_fp or u != "float64")


def optimised(
    source: Source,
    signature: Signature,
    clock: _Stopwatch | None = None,
    team: int = 1,
    *,
    units: tuple[str, ...] = (),
    async_copies: bool = False,
    native: bool = False,
    sums_pairs: bool = False,
) -> Function:
    """Return the IR that the backend gets.

    ``team`` threads run each thread of the grid together, and have these matrix ``units`` and ``async_copies``. With
    ``native``, the extension's functions search objects; ``sums_pairs`` is for products of bfloat16.
    """
    clock = clock or _Stopwatch()
    options = _pass_options(signature, team).replace(
        native_searches=native, units=units, async_copies=async_copies, sums_pairs=sums_pairs
    )
    with clock.stage("frontend"):
        args = signature.args[:-1] if signature.saves_results else signature.args
        f = _built(source, args, signature)
    if log.dumps("ir"):
        from warp_like.ir.printer import print_function

        log.dump("ir", f.name, print_function(f))
    with clock.stage("passes"):
        customs = signature.wrt is not None or signature.tangent is not None
        keep = customs or signature.saves_results
        f = passes.prepare(_with_gradients(f, options), options, keep_customs=keep, owned=True)
        if signature.saves_results:
            run = Runner("saved_results", f, options)
            if not customs:
                run("save_results", functools.partial(save_results, block_dim=options.block_dim))
            else:
                run("load_results", functools.partial(load_results, block_dim=options.block_dim))
            f = run.end() if customs else passes.prepare(run.end(), options, owned=True)
    if signature.wrt is not None:
        from warp_like.passes.ad.adjoint import adjoint  # most kernels are never differentiated

        with clock.stage("adjoint"):
            f = adjoint(
                f, signature.wrt, options, signature.same, signature.alone, objects=not signature.spares_objects
            )
    if signature.tangent is not None:
        from warp_like.passes.ad.forward import forward_mode

        with clock.stage("tangent"):
            wrt = with_prelaunch_copies(
                signature.tangent, len(signature.args), len(signature.wrt or ()), f.prelaunch_copies
            )
            f = forward_mode(f, wrt, options)
            if signature.again is not None:
                f = forward_mode(f, signature.again, options)
    with clock.stage("passes"):
        f = passes.finish(passes.optimise(f, options, owned=True), options, owned=True)
    if log.dumps("optimised"):
        from warp_like.ir.printer import print_function

        log.dump("optimised", f.name, print_function(f))
    return f


def _with_gradients(f: Function, options: passes.Options) -> Function:
    """Return ``f``, in which the gradients have bodies that ``wp.grad`` asks for."""
    if has_op(f, ops.Call):
        from warp_like.passes.ad.value_gradients import lower_gradients

        return lower_gradients(f, options)
    return f


def _built(source: Source, args: Sequence[Type], signature: Signature) -> Function:
    """Return the frontend's IR."""
    together = signature.options.cpu_block_dim if signature.options.cpu_block_axis >= 0 else 1
    shares, extents = signature.shares_indices, signature.extents
    return build_kernel(source, args, wide=signature.wide, shares_indices=shares, extents=extents, block_dim=together)


def _pass_options(signature: Signature, team: int = 1) -> passes.Options:
    return passes.Options(
        max_unroll=signature.options.max_unroll,
        checkpoint_loops=signature.options.checkpoint_loops,
        debug=signature.options.debug,
        verify_fp=signature.options.verify_fp,
        block_dim=signature.options.cpu_block_dim,
        block_axis=signature.options.cpu_block_axis,
        block_rest=signature.options.cpu_block_rest,
        team=team,
        apart=signature.sums,
        contiguous=signature.contiguous,
        verify=settings.verify,
        dump=_dump_pass if log.dumps_a_pass() else None,
    )


def stage_text(source: Source, signature: Signature, target: Target, stage: str) -> str:
    """Return the text of one of ``STAGES``.

    Raises:
        ValueError: There is no such stage, or the target does not have it.
    """
    if stage not in STAGES:
        raise ValueError(f"there is no stage {stage!r}; stages are {', '.join(STAGES)}")
    if stage in ("ptx", "sass") and not target.is_cuda:
        raise ValueError(f'{stage.upper()} needs a CUDA target, e.g. target="sm_80"')
    return _blaming_a_pass(source, lambda: _stage_text(source, signature, target, stage))


def _stage_text(source: Source, signature: Signature, target: Target, stage: str) -> str:
    if stage == "ir":
        from warp_like.ir.printer import print_function

        return print_function(_built(source, signature.args, signature))
    f = optimised(
        source,
        signature,
        team=_team(signature, target),
        units=_units(signature, target),
        async_copies=target.has_async_copies,
        native=target.has_native_searches,
        sums_pairs=target.sums_pairs,
    )
    if stage == "optimised":
        from warp_like.ir.printer import print_function

        return print_function(f)
    options = _lowering(signature, analyse(f), target)
    wide = _in_lanes(f, signature, target, options).function
    if stage == "lanes":
        from warp_like.ir.printer import print_function

        return "\n".join(print_function(g) for g in (wide, wide.schedule.coarsened) if g is not None)
    return _backend_text(wide, target, options, stage)


def assembled(source: Source, signature: Signature, target: Target) -> tuple[Assembled, str]:
    """Return the machine code of a variant for a CUDA target, and its text as the disassembler shows it.

    Raises:
        WarpCodegenError: The kernel can't be compiled.
        RuntimeError: The assembler or the disassembler is missing.
    """
    from warp_like.backend import nvptx

    made = nvptx.assembled(stage_text(source, signature, target, "ptx"), target)
    return made, nvptx.disassemble(made.cubin)


def _in_lanes(f: Function, signature: Signature, target: Target, options: LoweringOptions) -> Choice:
    """Return ``f`` as the target runs it: the threads of a GPU are lanes already, and checks are for one thread."""
    if not target.is_gpu:
        f = passes.alone(f, _pass_options(signature))
    if target.is_device or signature.options.debug:
        return Choice(f, 1, "debug mode" if signature.options.debug else "the device runs threads in lanes itself")
    width = signature.options.vector_width
    return choose(
        f,
        target.vector_bits,
        target.vector_registers,
        width,
        options.reduced,
        _pass_options(signature),
        gathers=target.has_fast_gathers,
        apart=(*options.sums, *options.reduced, *options.apart),  # thread-private ones may be given again
        private=options.thread_private,
        short_rows=signature.short_rows,
        whole=options.lineinfo,  # a line is said to be one of the entry's
    )


def _code(f: Function, target: Target, options: LoweringOptions) -> tuple[bytes, tuple[str, ...]]:
    make = {"cuda": backend.to_cuda, "amd": backend.to_amd, "opencl": backend.to_spirv}.get(target.kind)
    return (backend.to_object(f, target, options), ()) if make is None else make(f, target, options)


def _backend_text(f: Function, target: Target, options: LoweringOptions, stage: str) -> str:
    if stage == "llvm":
        return backend.lower_to_llvm(f, target, options)
    if stage == "sass":
        return backend.to_sass(f, target, options)
    return backend.to_ptx(f, target, options) if target.is_cuda else backend.to_asm(f, target, options)


def _lowering(signature: Signature, memory: Memory, target: Target) -> LoweringOptions:
    o = signature.options
    summed, private = plain_additions(memory) if signature.sums and memory.function.team == 1 else ((), ())
    f, apart = memory.function, signature.sums and target.is_gpu
    made = LoweringOptions(
        contiguous=signature.contiguous,
        fast_math=o.fast_math,
        fuse_fp=o.fuse_fp,
        debug=o.debug,
        launch_bounds=(f.team, 0) if f.is_tiled or f.had_tiles else o.launch_bounds,
        max_registers=o.max_registers,
        lineinfo=o.lineinfo,
        sums=() if target.is_device else summed,  # the threads of a GPU have no copies of their own
        thread_private=private,
        reduced=_reduced(memory, target) if signature.sums and not o.debug else (),
        counters=() if target.is_device else counters(memory),
        apart=_written_after_looking_ahead(memory, signature, target) if signature.sums else (),
        constant=constant_arrays(memory) if apart else (),
        aligned=apart,
        narrow=apart and not signature.wide,
    )
    plain = made.contiguous and not o.debug and backend.covers(made, f)
    return made.replace(places=places_a_thread(memory, private)) if plain else made


def _reduced(memory: Memory, target: Target) -> tuple[int, ...]:
    if not target.is_device:
        return reduced_arrays(memory)
    f = memory.function
    if not target.is_gpu or f.team > 1 or backend.works_in_blocks(f):
        return ()
    return reduced_arrays(memory, sums=True, most=backend.MOST_COMBINED)


def _reduced_on_cpu(memory: Memory, options: LoweringOptions) -> tuple[int, ...]:
    """What plain code reduces in registers: launches compare it whichever variant came first."""
    return () if options.debug else reduced_arrays(memory)


def _written_after_looking_ahead(memory: Memory, signature: Signature, target: Target) -> tuple[int, ...]:
    if target.is_device or signature.options.debug or target.vector_bits < FILTERED_BITS:
        return ()
    if not has_op(memory.function, ops.For):
        return ()
    from warp_like.passes.spmd.filters import written_after_looking_ahead

    return written_after_looking_ahead(memory)


def _dump_pass(moment: str, f: Function) -> None:
    if log.dumps_pass(moment):
        from warp_like.ir.printer import print_function

        log.dump(moment, f.name, print_function(f))


class _Stopwatch:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
