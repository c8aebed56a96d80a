"""A kernel with concrete argument types, compiled on demand and bound to the native launch path."""

from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from warp_like import _native, values
from warp_like.base.contract import (
    CUDA_CONTEXT,
    FEWEST_IN_SHORT_ROWS,
    MAX_DIMS,
    MAX_NARROW,
    OBJECT_KIND_BIT,
    SHORT_GRID_ROW,
    ObjectKind,
    ParamFlag,
    ParamKind,
    RunError,
)
from warp_like.base.errors import WarpDeterminismError
from warp_like.base.faults import explain
from warp_like.base.forking import Order, held_by_forks
from warp_like.base.frozen import Frozen
from warp_like.base.settings import Setting, settings
from warp_like.compiler.artifact import Artifact, Effects, GridSchedule
from warp_like.compiler.signals import deferred_signals
from warp_like.compiler.signature import Signature, entry_roles, prefixed
from warp_like.ir.layout import type_code
from warp_like.ir.types import Array, Scalar, Struct, Type, adjoint_type, is_differentiable, leaf_fields
from warp_like.runtime.memory.device import Device, get_device

if TYPE_CHECKING:
    from warp_like.backend.target import Target
    from warp_like.runtime.kernels.kernel import Kernel

Place = tuple[bool, bool, bool]
"""Of a variant in its dispatcher: contiguous, wide, sums."""

COMPILING = held_by_forks(threading.RLock(), Order.PROGRAM)


class DispatcherSpec(Frozen):
    """What native code is told of a compiled kernel (``native/spec.cpp`` reads it).

    Attributes:
        name: The kernel's name.
        params: For each parameter of the entry point its name, ``ParamKind``, type code and dimensions, what it is for
            (``ParamFlag``), the class of values, and of arrays where additions to it go (``Effects.spans`` and
            ``ahead``).
        on_error: What makes an exception of an error that compiled code has recorded.
        device: What it launches on.
        place: The number of that device (``Device.place``).
        cuda: On CUDA, the device's context.
        types: The types of the parameters, which records get.
        declared: The parameters as the user wrote them, where structs are among them: the class of a struct, and how
            many parameters it makes.
        watch: Says whether the Python values that the code was made from have changed, where there are any.
        tid_ndim: How many indices it asks for; the most dimensions of a grid where it does not ask.
        most_narrow: The largest extent of a grid for which ``tid()`` is an int32.
        shares_indices: Whether it takes grids of more dimensions than that, and no others.
        short_rows: Whether it takes grids of short rows (``is_of_short_rows``), and no others.
        leaves_short_rows: Whether there is a program that takes these better.
        order_dependent: Whether what it computes depends on the order in which its threads run, other than by rounding
            sums.
        non_associative: Whether arrays that it only adds to are of floats.
        prints: Whether it prints.
        bounded: Whether what a thread costs does not depend on data, so that a launch may be trusted to be short.
        recordable: Whether a tape needs no more of a launch than its arguments.
        deterministic: Whether launches give the same bits whatever the number of threads.
        no_overlap: Whether an array that it writes may overlap no other one (``Effects.no_overlap``).
        fusible: Whether other launches may run between its threads (``Effects.fusible``).
        self_contained: Whether it reaches memory through its array parameters alone (``Effects.self_contained``).
    """

    name: str
    params: tuple[tuple[Any, ...], ...]
    on_error: Callable[..., Exception]
    device: object
    place: int = -1
    cuda: _native.DriverContext | None = None
    types: tuple[Type, ...] = ()
    declared: tuple[tuple[type | None, int], ...] | None = None
    watch: _native.Watch | None = None
    tid_ndim: int = MAX_DIMS
    most_narrow: int = MAX_NARROW
    shares_indices: bool = False
    short_rows: bool = False
    leaves_short_rows: bool = False
    order_dependent: bool = False
    non_associative: bool = False
    prints: bool = False
    bounded: bool = False
    recordable: bool = False
    deterministic: bool = False
    no_overlap: bool = False
    fusible: bool = False
    self_contained: bool = False


class Program:
    """A kernel, or one adjoint of it, for one choice of argument types.

    ``dispatcher`` is the native object that checks arguments, packs them and runs the code. It exists once a variant
    has been compiled; variants (contiguous or strided arrays, narrow or wide grids) are added when first needed.

    Attributes:
        kernel: The kernel that this is compiled from.
        types: The types of the kernel's parameters.
        wrt: For an adjoint, the positions of the arrays that get gradients; None for the kernel itself.
        same: For an adjoint, pairs of parameters that are one array, later one first.
        tangent: For forward mode, the positions of the parameters that have tangents; else None.
        device: What it is compiled for.
        alone: For an adjoint, whether it is that of a grid of one thread.
        shares_indices: Whether it is for grids of more dimensions than the kernel asks for indices, so that several
            threads have the same.
        again: For forward mode twice, the positions of what has tangents in the second; see ``Signature``.
        extents: How many of the grid's first extents may exceed 1; 0 where all may.
        short_rows: Whether it is for grids of short rows, along which most lanes would have no thread.
        spares_objects: For an adjoint, whether it adds to no gradients of objects (``Signature``).
    """

    def __init__(
        self,
        kernel: Kernel,
        types: tuple[Type, ...],
        wrt: tuple[int, ...] | None = None,
        same: tuple[tuple[int, int], ...] = (),
        tangent: tuple[int, ...] | None = None,
        device: Device | None = None,
        alone: bool = False,
        shares_indices: bool = False,
        again: tuple[int, ...] | None = None,
        extents: int = 0,
        short_rows: bool = False,
        spares_objects: bool = False,
    ) -> None:
        self.kernel = kernel
        self.device = device or get_device("cpu")
        self.types = types
        self.wrt = wrt
        self.same = same
        self.tangent = tangent
        self.alone = alone
        self.shares_indices = shares_indices
        self.again = again
        self.extents = extents
        self.short_rows = short_rows
        self.spares_objects = spares_objects
        self.dispatcher: _native.Dispatcher | None = None
        self.artifacts: dict[Place, Artifact] = {}
        self.loaded: dict[Place, Any] = {}  # with ``max_threads``, where blocks have threads
        self.signatures: dict[Place, Signature] = {}  # what each was compiled for
        self._facts: Artifact | None = None
        self.waits = False  # on CUDA, whether the host waits for each launch, to see what it reports

    @property
    def effects(self) -> Effects:
        """What it does to its arrays, which is the same for all variants."""
        return self.facts.effects

    @property
    def any_artifact(self) -> Artifact:
        """An artifact of some variant."""
        if not self.artifacts:
            self.require(contiguous=True, wide=False, sums=True)
        return next(iter(self.artifacts.values()))

    @property
    def facts(self) -> Artifact:
        """What is known of it before it has code; the dispatcher that goes with it is there then."""
        if self.artifacts or self.target is not None:
            return self.any_artifact
        with COMPILING, deferred_signals():
            if self._facts is None:
                signature = self.signature(contiguous=True, wide=False, sums=True)
                self._facts = self.kernel.facts(signature)
                self.dispatcher = self.dispatcher or self.new_dispatcher(signature, self._facts)
        return self._facts

    @property
    def saves_results(self) -> bool:
        """Whether it has a parameter more than its kernel, for results of atomics (``passes/ad/saved_results.py``)."""
        return len(self.types) > len(self.kernel.parameters)

    @property
    def is_for_few_grids(self) -> bool:
        """Whether grids of another kind are run by another program."""
        return self.shares_indices or self.extents > 0 or self.short_rows

    @property
    def target(self) -> Target | None:
        """What it is compiled for, as the compiler knows it; None for this machine."""
        return self.device.backend.programs.target_of(self.device)

    def in_order(self, dims: tuple[int, ...], same: Sequence[tuple[int, int]] = ()) -> bool:
        """Return whether the adjoint for a grid of these extents is that of one thread, for the order of atomics.

        ``same`` lists pairs of arguments that are one array: one may be read, and the other one updated.
        """
        return math.prod(dims) == 1 and bool(same or self.effects.serial)

    def is_wide(self, dims: tuple[int, ...]) -> bool:
        """Return whether an extent of a grid for which the kernel asks an index exceeds ``most_narrow``."""
        most = self.most_narrow
        if dims[0] > most or max(dims) <= most:
            return dims[0] > most
        return max(dims[: self.tid_ndim]) > most

    @property
    def most_narrow(self) -> int:
        """The largest extent for which ``tid()`` is an int32; a grid of blocks has the indices of their threads."""
        k = self.kernel
        return MAX_NARROW // k.cpu_block_dim if k.cpu_block_axis >= 0 else MAX_NARROW

    @property
    def tid_ndim(self) -> int:
        """How many indices the kernel asks ``wp.tid()`` for; the most, where it does not ask."""
        return self.facts.schedule.tid_ndim

    def over(self, dims: tuple[int, ...]) -> Program:
        """Return the program for a grid: this one, or that for grids in which several threads have the same indices.

        Where the last extents are 1, as those of blocks of one thread are, a program knows that, and that these indices
        are 0: the others then name a thread.
        """
        variant = functools.partial(
            self.kernel.program, self.types, self.wrt, self.same, self.tangent, self.device, self.alone,
            spares_objects=self.spares_objects,
        )  # fmt: skip
        if self.extents or self.short_rows:
            return variant().over(dims)
        has_more = len(dims) > 1 and math.prod(dims) > 1
        if has_more and dims[0] > self.most_narrow and not self.artifacts:
            self.require(contiguous=True, wide=True, sums=True)  # code for narrow grids may be refused
        if extents := self._extents(dims):
            return variant(extents=extents)
        shares = has_more and math.prod(dims[self.tid_ndim :]) > 1
        if not shares and self.is_of_short_rows(dims) and self._has_code_for_short_rows(self.facts.schedule):
            return variant(short_rows=True)
        if shares == self.shares_indices:
            return self
        return variant(shares_indices=shares)

    def _extents(self, dims: tuple[int, ...]) -> int:
        """How many extents of a grid may exceed 1 where the kernel may ask for further indices; 0 where that is open.

        A kernel on tiles may ask for the index in its block of one thread, which is no dimension of the grid.
        """
        if not self._may_know_extents or math.prod(dims) < 2:
            return 0
        last = len(dims)
        while dims[last - 1] == 1:
            last -= 1
        may_ask = last < len(dims) or self._works_on_tiles  # asked first: to know `tid_ndim` takes the passes
        return last if may_ask and last < self.tid_ndim else 0

    @functools.cached_property
    def _may_know_extents(self) -> bool:
        is_primal = self.wrt is None and self.tangent is None and not self.saves_results
        return is_primal and self.device.is_cpu and self.kernel.cpu_block_dim == 1

    @functools.cached_property
    def _works_on_tiles(self) -> bool:
        return self.kernel.works_on_tiles

    def is_of_short_rows(self, dims: tuple[int, ...]) -> bool:
        """Return whether the rows of a grid are short, and many enough to have code of their own."""
        if len(dims) == 1:
            return False
        last = dims[self.tid_ndim - 1] if 1 < self.tid_ndim <= len(dims) else 1
        return 1 < last <= SHORT_GRID_ROW and FEWEST_IN_SHORT_ROWS <= math.prod(dims) <= self.most_narrow

    def _has_code_for_short_rows(self, schedule: GridSchedule) -> bool:
        """Whether grids of short rows have a program of their own, in which lanes go on in the next row.

        What a thread without loops does is little beside finding its indices by a division. Kernels on tiles have lanes
        that go on in the next row without that.
        """
        if schedule.bounded or not 1 < schedule.tid_ndim < MAX_DIMS or self.shares_indices or self.extents:
            return False
        options = self.kernel.compile_options()
        in_lanes = options.vector_width != 1 and not options.debug
        return in_lanes and self._may_know_extents and not self._works_on_tiles and not self.kernel.precompiled

    def require(self, *, contiguous: bool, wide: bool, sums: bool = False) -> _native.Dispatcher:
        """Return the dispatcher with the variant installed.

        Args:
            contiguous: All arrays are contiguous.
            wide: An extent of the grid exceeds ``most_narrow``.
            sums: Additions to arrays that no other argument overlaps need not be atomic.

        Raises:
            WarpCodegenError: The kernel can't be compiled, or not differentiated.
        """
        with COMPILING:
            if (contiguous, wide, sums) not in self.artifacts or self.dispatcher is None:
                with deferred_signals():
                    return self._install(self.signature(contiguous, wide, sums))
            return self.dispatcher

    def _install(self, signature: Signature) -> _native.Dispatcher:
        dispatcher, place, artifact = self.device.backend.programs.install(self, signature)
        self.dispatcher = dispatcher
        self.artifacts[place] = artifact
        self.signatures[place] = signature
        return dispatcher

    def described_by(self, artifact: Artifact) -> Artifact:
        """Return what the dispatcher was made for: ``artifact`` if that is the program's first."""
        return next(iter(self.artifacts.values()), self._facts or artifact)

    def signature(self, contiguous: bool, wide: bool, sums: bool) -> Signature:
        """Return what a variant is compiled for; see ``require``."""
        options = self.kernel.compile_options()
        return Signature(
            self.types, contiguous, wide, self.wrt, self.same, options, self.tangent, sums, self.again, self.alone,
            saves_results=self.saves_results, shares_indices=self.shares_indices, extents=self.extents,
            short_rows=self.short_rows, spares_objects=self.spares_objects,
        )  # fmt: skip

    def new_dispatcher(self, signature: Signature, artifact: Artifact, cuda: Any = None) -> _native.Dispatcher:
        """Return a dispatcher without variants for the parameters of ``artifact``; ``cuda`` is the device's context."""
        effects, schedule, forward = artifact.effects, artifact.schedule, self.wrt is None and self.tangent is None
        declared = forward and self.kernel.takes_structs and not self.saves_results
        nested = effects.nested_reads or effects.nested_writes
        spec = DispatcherSpec(
            name=self.kernel.key,
            params=tuple(self._params(signature, effects)),
            on_error=self.explain_error,
            device=self.device,
            place=self.device.place,
            cuda=cuda,
            types=self.types,
            declared=tuple([_declared(t) for _, t in self.kernel.declared]) if declared else None,
            watch=self.kernel.watch if forward else None,
            tid_ndim=schedule.tid_ndim,
            most_narrow=self.most_narrow,
            shares_indices=self.shares_indices,
            short_rows=self.short_rows,
            leaves_short_rows=not self.short_rows and self._has_code_for_short_rows(schedule),
            order_dependent=effects.order_dependent,
            non_associative=effects.non_associative,
            prints=effects.prints,
            bounded=schedule.bounded,
            recordable=forward
            and not (effects.extremes or effects.rewrites or effects.serial or effects.objects or nested),
            deterministic=bool(self.kernel.option("deterministic")),
            no_overlap=effects.no_overlap,
            fusible=effects.fusible and not self.shares_indices,
            self_contained=effects.self_contained,
        )
        return _native.Dispatcher(spec)

    def _params(self, signature: Signature, effects: Effects) -> Iterator[tuple[Any, ...]]:
        given = [*self.kernel.parameter_names, "saved"]
        for i, (role, of) in enumerate(entry_roles(signature, effects.prelaunch_copies)):
            name = prefixed(role, given[of])
            t = adjoint_type(signature.args[of]) if "adjoint" in role else signature.args[of]
            flags = _flags(effects, i, t)
            if isinstance(t, Array):
                flags |= ParamFlag.OPTIONAL if self._may_be_none(i, of, effects) else 0
                spans, ahead = dict(effects.spans).get(i), dict(effects.ahead).get(i, 0)
                yield name, ParamKind.ARRAY, type_code(t.dtype), t.ndim, flags, None, spans, ahead
            elif isinstance(t, Scalar):
                yield name, ParamKind.SCALAR, type_code(t), 0, flags, None, None
            else:
                yield name, ParamKind.VALUE, type_code(t), 0, flags, values.from_ir(t), None

    def _may_be_none(self, position: int, parameter: int, effects: Effects) -> bool:
        """Whether None may stand for an array: not where all threads access it, nor where its type was inferred."""
        if self.wrt is not None or self.tangent is not None or position in effects.always_accessed:
            return False
        generic = self.kernel.generic
        return generic is None or generic.declared[self.kernel.positions[parameter]][1] is not None

    def explain_error(
        self, code: int, where: int, thread: int, text: str | None = None, values: Sequence[int] = ()
    ) -> Exception:
        """Make the exception for an error that compiled code recorded."""
        device = "" if self.device.is_cpu else f" on {self.device}"
        return launch_error(self.kernel.key, self.wrt is not None, code, where, thread, text, values, device)

    def reported(self, artifact: Artifact, record: bytes) -> Exception:
        """Make the exception for what code on a device wrote to its record, a ``CudaContext``."""
        at = CUDA_CONTEXT.offsets
        code, site = struct.unpack_from("<ii", record, at["code"])
        (thread,) = struct.unpack_from("<q", record, at["thread"])
        text = artifact.code.faults[site]
        count = len(text.partition("\n")[0])  # one letter for each number; see base/faults.py
        values = struct.unpack_from(f"<{count}q", record, at["values"])
        return self.explain_error(code, 0, thread, text, values)


def launch_error(
    key: str,
    is_adjoint: bool,
    code: int,
    where: int,
    thread: int,
    text: str | None = None,
    values: Sequence[int] = (),
    device: str = "",
) -> Exception:
    """Make the exception for an error that compiled code of the kernel ``key``, or of its adjoint, recorded.

    ``device`` says where it ran, as in " on cuda:0"; nothing on the CPU.
    """
    role = "the adjoint of kernel" if is_adjoint else "kernel"
    if code == RunError.STACK_LIMIT:
        return MemoryError(
            f"{role} `{key}`: a thread needs more than {settings.adjoint_stack_limit} bytes to "
            "save the state of its loops for the gradient; declare it with @wp.kernel(checkpoint_loops=True), "
            "which saves less and computes more, or raise wp.config.adjoint_stack_limit"
        )
    if code == RunError.LOCAL_MEMORY:
        return MemoryError(f"{role} `{key}`: there is no memory for the local arrays of its threads")
    if code == RunError.UNORDERED:
        return WarpDeterminismError(
            f"{role} `{key}`: deterministic mode is on, and what it computes{device} depends on the "
            "order of its threads: it adds floats to elements that threads share, uses what an atomic operation "
            "has found in one, or prints. Launch it on the CPU; or let each thread write an element of its own, "
            "which wp.utils.array_sum() and the like add up in a fixed order; or declare it with "
            "@wp.kernel(deterministic=False)"
        )
    if code == RunError.OVERLAP:
        return ValueError(
            f"{role} `{key}`: an array that it writes overlaps another argument. What it reads there "
            "decides whether threads of a block reach block_sync() or the like together, so they might not: give "
            "it a copy of one of the two"
        )
    if code == RunError.TIMEOUT:
        return TimeoutError(
            f"{role} `{key}`: the launch took longer than wp.config.launch_timeout = "
            f"{settings.launch_timeout:g} seconds; its arrays are as its threads have left them"
        )
    if text is not None:
        return explain(f"{role} `{key}`", code, text, values, thread)
    return RuntimeError(f"{role} `{key}`: error {code} in thread {thread}")


def _flags(effects: Effects, position: int, t: Type) -> int:
    """What the dispatcher knows of a parameter beside its type."""
    flags = ParamFlag.GRADIENT if is_differentiable(t) else 0
    if position in effects.sums:
        flags |= ParamFlag.WRITES | ParamFlag.SUMS
    elif position in effects.thread_private or position in effects.reduced:
        flags |= ParamFlag.WRITES | ParamFlag.THREAD_PRIVATE
    elif position in effects.writes:
        flags |= ParamFlag.WRITES
    if position in effects.stores:
        flags |= ParamFlag.STORES
    if position in effects.reads:
        flags |= ParamFlag.READS
    if position in effects.own:
        flags |= ParamFlag.OWN
    if position in effects.apart:
        flags |= ParamFlag.APART
    kinds = [kind for at, kind in effects.objects if at == position]
    flags |= (kinds[0] if len(kinds) == 1 else ObjectKind.ANY if kinds else 0) << OBJECT_KIND_BIT
    return flags | ParamFlag.TAKES if position in effects.takes else flags


def _declared(t: Type | None) -> tuple[type | None, int]:
    """A parameter as the user wrote it: the class of a struct, and how many parameters it makes."""
    return (values.from_ir(t), len(leaf_fields(t))) if isinstance(t, Struct) else (None, 1)


def _apply_settings(setting: Setting | None = None) -> None:
    _native.set_num_threads(settings.num_threads)
    _native.set_deterministic(settings.deterministic)
    _native.set_stack_cap(settings.adjoint_stack_limit)
    _native.set_launch_timeout(settings.launch_timeout)


_apply_settings()
settings.on_change(_apply_settings)
