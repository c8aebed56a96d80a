"""Launching: the one place where kernels run.

What users call is native (``native/launch.cpp``): it offers the arguments to the kernel's dispatcher, which takes
well-formed ones and runs at once. Everything else comes to the functions here: checking, converting, compiling what is
missing, recording.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from warp_like import _native
from warp_like.base import log
from warp_like.base.settings import settings
from warp_like.compiler.signature import entry_roles
from warp_like.frontend.parameters import leaf_parameters
from warp_like.ir import types as ir
from warp_like.runtime.arrays import nested, objects
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Capture, Record, activities
from warp_like.runtime.kernels.arguments import (
    Site,
    convert,
    grid_dims,
    require_aligned,
    require_given,
    require_writable,
    same_arguments,
)
from warp_like.runtime.kernels.generics import concrete, known_instance, require_arguments
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import Place, Program
from warp_like.runtime.kernels.structs import split_argument, split_arguments
from warp_like.runtime.launching.blocks import (
    USUAL,
    Blocks,
    checked_blocks,
    in_blocks,
    over_blocks,
    place_of_launch,
    require_fitting,
)
from warp_like.runtime.launching.derivative_hooks import RecordingTape, adjoint_launches
from warp_like.runtime.launching.suspicious import warn_of_leaves, warn_of_shared_elements
from warp_like.runtime.memory.device import Device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import Composite, from_ir
from warp_like.values.struct import StructInstance

if TYPE_CHECKING:
    from warp_like.values.ctype import array_t

F = TypeVar("F", bound=Callable[..., Any])


def _native_first(checked: F) -> F:
    """Return the native function that calls ``checked`` where a launch is unusual, wrong, or intercepted."""
    return cast(F, functools.update_wrapper(_native.launcher(checked), checked))


@_native_first
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Device | str | None = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> Launch | None:
    """Run ``kernel`` once for each thread of a grid.

    Arguments are given in the order of the kernel's parameters, ``inputs`` first and then ``outputs``; which of the
    two lists an argument stands in changes nothing else. Arrays may be of this framework, NumPy, PyTorch, JAX, Paddle
    or anything that speaks DLPack; none is copied. On the CPU the launch has finished when this returns; on CUDA
    it has only been handed to a stream.

    Args:
        kernel: A function decorated with ``wp.kernel``.
        dim: Number of threads, or 1 to 8 extents of a grid. Where one is 0 no thread runs, but the kernel is compiled.
        inputs: Arguments for the first parameters.
        outputs: Arguments for the remaining parameters.
        adj_inputs: With ``adjoint``, an array of adjoints (or None) for each of ``inputs``.
        adj_outputs: With ``adjoint``, an array of adjoints (or None) for each of ``outputs``; they are only read.
        device: Where to run; the current device when left out.
        stream: On CUDA, where the launch goes, and so its device; by the rules for streams when left out.
        adjoint: Run the reverse sweep: adds to the adjoints of what the kernel reads. An array for which no adjoint
            is given uses its own ``grad``. The adjoint of a number or vector is an array of one element of its type.
        record_tape: Whether an active ``Tape`` records this launch. Gradients pass as if others were not there.
        record_cmd: Do not run; return a ``Launch`` that runs with these arguments, and adjoints, as often as wanted.
        max_blocks: On CUDA, the most blocks, whose threads then go over the grid in strides; 0 for no limit.
        block_dim: The threads of a block, 1 to 1024. Left out or not positive, on CUDA the kernel's option, its
            module's, or that of ``wp.config``, which is 256; or as many as the kernel allows. On the CPU it is 1
            unless ``wp.config.enable_cpu_blocks`` is set.
        options: Options for this launch, before those of the kernel and its module: ``{"mode": "debug"}``.

    Raises:
        TypeError: An argument has the wrong type, dtype, number of dimensions or device.
        ValueError: The number of arguments is wrong, a number does not fit, ``dim`` is negative, or the kernel would
            write a read-only array; there is no such option, or it can't have that value.
        WarpCodegenError: The kernel can't be compiled, or not differentiated.

    Example:
        >>> wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> y.list()
        [0.0, 1.0, 4.0, 9.0]
    """
    if not isinstance(kernel, Kernel):
        raise _not_a_kernel(kernel)
    other = kernel.with_options(options) if options else known_instance(kernel, inputs, outputs)
    if other is not None:
        given = (dim, inputs, outputs, adj_inputs, adj_outputs, device, stream, adjoint, record_tape, record_cmd)
        return launch(other, *given, max_blocks, block_dim)
    where = place_of_launch(kernel.key, device, stream)
    blocks = checked_blocks(kernel.key, stream, max_blocks, block_dim)
    dims = grid_dims(kernel.key, dim)
    kernel, blocks, dims = in_blocks(concrete(kernel, inputs, outputs), where, blocks, dims)
    types, args = bind_arguments(kernel, inputs, outputs, where)
    program = kernel.program(types, device=where).over(dims)
    if adjoint:
        record, first, last = Record(kernel, dims, types, args), (inputs, adj_inputs), (outputs, adj_outputs)
        record.block_dim = blocks.threads or 0
        if record_cmd:
            return adjoint_launches.get().command(program, record, first, last, blocks)
        adjoint_launches.get().run_given(record, first, last, blocks)
    elif record_cmd:
        return Launch._recorded(kernel, dims, program, args, record_tape, blocks, (*inputs, *outputs))
    elif isinstance(_run_or_record(program, kernel, dims, args, record_tape, blocks), Capture):
        return None
    else:
        warn_of_leaves(program, [*inputs, *outputs])
    _remember(kernel, program)
    return None


def _not_a_kernel(given: Any) -> TypeError:
    from warp_like.runtime.kernels.argument_advice import not_a_kernel  # for messages alone

    return not_a_kernel("launch()", given)


def _run_or_record(
    program: Program, kernel: Kernel, dims: tuple[int, ...], args: list[Any], record_tape: bool, blocks: Blocks
) -> Any:
    """Run a launch, or give it to the capture or the tape that is active, which is returned."""
    active: Capture | RecordingTape | None = recorder.active
    if isinstance(active, Capture):
        captured = Record(kernel, dims, program.types, args)
        captured.block_dim = blocks.threads or 0
        active.take_launch(captured)
    elif active is None or not record_tape:
        if active is not None:
            active.history.before_unrecorded(program.effects, args)
        run(program, dims, args, blocks)
        if active is not None and recorder.graph is None:
            assert program.dispatcher is not None
            program.dispatcher.unrecorded -= 1  # the tape has seen it
        return None
    else:
        queried = None
        if program.effects.objects:
            queried = objects.recorded(kernel.key, program.effects, args)
            for copied in objects.copies(program.effects, args):
                active.record_copy(copied, earlier=True)
        active.run_launch(program, Record(kernel, dims, program.types, args, same_arguments(args)), blocks)
        if queried is not None:
            active.record_func(*queried)
    return active


def _remember(kernel: Kernel, program: Program) -> None:
    """Let further launches of a kernel with one choice of types begin at its dispatcher."""
    if not program.device.is_cpu or program.is_for_few_grids or kernel.others is not None:
        # Launches may go from device to device, and to grids of other dimensions: each has its dispatcher.
        found = [d for d in (kernel.fast, *(kernel.others or ())) if d is not None and d is not program.dispatcher]
        here = program.device, program.shares_indices, program.tid_ndim, program.short_rows
        kernel.others = [d for d in found if (d.device, d.shares_indices, d.tid_ndim, d.short_rows) != here]
    if settings.enable_cpu_blocks and kernel.asks_about_blocks:
        return  # each launch may have other blocks
    effects = program.effects
    reaches_more = effects.nested_reads or effects.objects
    if effects.nested_writes or (reaches_more and program.device.backend.streams is not None):
        kernel.fast = None  # there is more to tell of than the arguments: see `nested` and `objects`
        return
    kernel.fast = program.dispatcher
    first = kernel if kernel.first is None else kernel.first
    first.latest = None if kernel is first else kernel
    if kernel.generic is not None and _fits_alone(kernel, kernel.generic):
        kernel.generic.latest = kernel


def _fits_alone(instance: Kernel, generic: Kernel) -> bool:
    """Whether what the dispatcher of an instance takes is what inference would choose it for.

    That is so for arrays of scalars. A number may become several types, and a foreign array that of vectors or not.
    """
    pairs = zip(generic.declared, instance.declared, strict=True)
    chosen = [t for (_, declared), (_, t) in pairs if declared is None]
    return all(isinstance(t, ir.Array) and isinstance(t.dtype, ir.Scalar) for t in chosen)


def bind_arguments(
    kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any], device: Device
) -> tuple[tuple[ir.Type, ...], list[Any]]:
    """Return the types of a launch's parameters and the arguments as the dispatcher takes them.

    ``kernel`` leaves no types open.
    """
    given = split_arguments(kernel, require_arguments(kernel, inputs, outputs))
    types, args = [], []
    for i, ((name, t), value) in enumerate(zip(kernel.parameters, given, strict=True)):
        assert t is not None  # `concrete` has seen to that
        types.append(t)
        args.append(convert(Site(kernel.key, kernel.positions[i], name, t, device, kernel), value))
    return tuple(types), args


def run(program: Program, dims: tuple[int, ...], args: list[Any], blocks: Blocks = USUAL) -> None:
    """Run a program on checked arguments, compiling the variant that they need."""
    dispatcher = program.dispatcher
    if dispatcher is None:
        contiguous = all(a.is_contiguous for a in args if isinstance(a, array))
        dispatcher = program.require(contiguous=contiguous, wide=program.is_wide(dims), sums=contiguous)
    key, names, positions = program.kernel.key, program.kernel.parameter_names, program.kernel.positions
    for i in program.effects.writes:
        if i < len(names):  # what lies beyond are adjoints, checked where they were made
            require_writable(Site(key, positions[i], names[i], program.types[i]), args[i])
    warn_of_shared_elements(program, args)
    for i in program.effects.always_accessed if math.prod(dims) else ():
        if i < len(names):
            require_given(Site(key, positions[i], names[i], program.types[i]), args[i])
    _require_objects(program, args)
    objects.before_launch(program.effects, program.device, args, blocks.stream)
    if nested.used_by(program.effects):
        nested.before_launch(program.effects, program.device, args, blocks.stream)
    if settings.print_launches:
        adjoint = " (adjoint)" if program.wrt is not None else ""
        log.show(f"kernel: {key}{adjoint} dim: {dims} device: {program.device}")
    variant = dispatcher.required_variant(dims, args, blocks.most)
    if variant is None:
        for i, a in enumerate(args):
            if isinstance(a, array) and i < len(names):
                require_aligned(Site(key, positions[i], names[i], program.types[i]), a)
    else:
        contiguous, wide, sums = variant
        program.require(contiguous=contiguous, wide=wide, sums=sums)
        _require_extents(program, variant, dims, args)
    if recorder.graph is not None:
        recorder.graph.add_launch(program, dims, args)
        return
    if variant is not None and variant in program.loaded:
        require_fitting(program, program.loaded[variant], blocks)
    if activities.noted is not None and activities.wanted:
        done = _timed(program, dims, args, blocks)
    else:
        done = dispatcher.try_run(dims, args, *blocks)
    if not done:
        raise RuntimeError(f"kernel `{key}`: the native launch path refused checked arguments; this is a bug")


def _require_objects(program: Program, args: list[Any]) -> None:
    """Refuse ids that refer to nothing, or to another kind of object.

    Raises:
        ValueError: An argument that the kernel uses as an id is none of a live object on the launch's device.
    """
    found = objects.unknown(program.effects, program.device, args)
    if found is not None:
        i, kind = found
        names, positions = program.kernel.parameter_names, program.kernel.positions
        site = Site(program.kernel.key, positions[i], names[i], program.types[i], program.device, program.kernel)
        raise ValueError(f"{site.text}: {objects.refusal(kind, program.device, int(args[i]))}")


def _require_extents(program: Program, variant: Place, dims: tuple[int, ...], args: list[Any]) -> None:
    """Refuse a launch that would surely access an array out of range.

    Raises:
        IndexError: An array is too small for the grid.
    """
    reaches = program.artifacts[variant].effects.reaches
    if all(r.fits(dims, args[r.param].shape[r.axis]) for r in reaches) or not math.prod(dims):
        return
    from warp_like.runtime.kernels.extents import require_extents

    roles = entry_roles(program.signatures[variant], program.artifacts[variant].effects.prelaunch_copies)
    require_extents(program.kernel, reaches, dims, roles, [a.shape if isinstance(a, array) else None for a in args])


def _timed(program: Program, dims: tuple[int, ...], args: list[Any], blocks: Blocks) -> bool:
    """Run a launch and note what it takes."""
    assert program.dispatcher is not None
    assert activities.noted is not None
    key = program.kernel.key
    name = f"{key} (adjoint)" if program.wrt is not None else key
    clock = program.device.backend.programs.clock(program.device, name, 1, blocks.stream, args)
    with clock:
        done = program.dispatcher.try_run(dims, args, *blocks)
    activities.noted.append(clock)
    return done


def _zero(t: ir.Type) -> Any:
    """Return the argument of type ``t`` whose bytes are zero; None for an array."""
    if isinstance(t, ir.Array):
        return None
    cls = from_ir(t)
    return cls._from_bytes(bytes(cls._nbytes_)) if issubclass(cls, Composite) else cls()


class Launch(_native.Command):
    """A launch with its arguments bound, made by ``wp.launch(..., record_cmd=True)``.

    One that is made by hand, ``wp.Launch(kernel, device)``, has a grid of no threads, zeros for numbers and None for
    arrays, until these are set.

    ``launch()`` runs it; ``set_dim``, ``set_param_at_index``, ``set_param_by_name`` and ``set_params`` change it.
    Numbers are taken as they are when they are bound; arrays, structs, vectors and matrices are bound by reference: a
    launch sees what has been written to them. The options of kernel and module, and the values of constants that the
    kernel names, are those that hold when it runs.

    Several threads may launch one object at a time: each launch takes the arguments as they are when it begins. A
    thread that sets several of them while others launch should make a launch of its own, since the others may see the
    first of the new ones only.

    Attributes:
        kernel: The kernel.

    Example:
        >>> command = wp.launch(square, dim=n, inputs=[x], outputs=[y], record_cmd=True)
        >>> command.set_param_by_name("x", wp.full(n, 3.0))
        >>> command.launch()
        >>> y.list()
        [9.0, 9.0, 9.0, 9.0]
    """

    def __init__(
        self,
        kernel: Kernel,
        device: Device | str | None = None,
        *,
        max_blocks: int = 0,
        block_dim: int | None = None,
    ) -> None:
        where = place_of_launch(kernel.key, device, None)
        if kernel.is_generic:
            raise TypeError(
                f"Launch() takes a kernel with concrete types; kernel `{kernel.key}` is generic, overload it"
            )
        given = [_zero(t) for _, t in kernel.declared if t is not None]
        types, args = bind_arguments(kernel, given, (), where)
        blocks = checked_blocks(kernel.key, None, max_blocks, block_dim)
        kernel, blocks, dims = in_blocks(kernel, where, blocks, (0,))
        self._bind(kernel, dims, kernel.program(types, device=where), args, True, blocks, given)

    @classmethod
    def _recorded(cls, *bound: Any) -> Launch:
        """The launch that ``_bind`` describes."""
        self = cls.__new__(cls)
        self._bind(*bound)
        return self

    def _bind(
        self,
        kernel: Kernel,
        dims: tuple[int, ...],
        program: Program,
        params: list[Any],
        record_tape: bool,
        blocks: Blocks = USUAL,
        given: Sequence[Any] = (),
    ) -> None:
        self.kernel = kernel
        self.blocks = blocks
        self.program = program
        self._dims = dims
        self._params = params
        self._record_tape = record_tape
        # With structs, the arguments as they were given: each launch reads the structs anew.
        self._given = list(given) if any(isinstance(x, StructInstance) for x in given) else None

    @property
    def dims(self) -> tuple[int, ...]:
        """The grid."""
        if self.kernel.cpu_block_axis < 0:
            return self._dims
        missing = -self.kernel.cpu_block_rest % self.kernel.cpu_block_dim
        return (*self._dims[:-1], self._dims[-1] * self.kernel.cpu_block_dim - missing)

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.program.device

    @property
    def block_dim(self) -> int:
        """The threads of a block."""
        if self.kernel.cpu_block_axis >= 0:
            return self.kernel.cpu_block_dim
        return self.blocks.threads or (1 if self.device.is_cpu else int(self.kernel.option("block_dim")))

    def _launch_checked(self, stream: Any = None) -> None:
        """Run it where the native ``launch`` can't: first, after a change, or when launches are watched or recorded."""
        blocks = self.blocks
        if stream is not None:
            place_of_launch(self.kernel.key, self.program.device, stream)
            blocks = blocks._replace(stream=stream)
        if self._given is not None:
            launch(
                self.kernel,
                self._dims,
                self._given,
                device=self.device,
                stream=blocks.stream,
                record_tape=self._record_tape,
                max_blocks=blocks.most,
                block_dim=blocks.threads,
            )
            return
        changes = self._changes
        # Options, and values that the kernel names, may have changed since: then there is another program.
        kernel = self.kernel.current()
        self.program = kernel.program(self.program.types, device=self.program.device).over(self._dims)
        args = list(self._params)  # set_params changes these
        if _run_or_record(self.program, kernel, self._dims, args, self._record_tape, blocks) is not None:
            return
        assert self.program.dispatcher is not None
        effects = self.program.effects
        if nested.used_by(effects) or (effects.objects and not self.device.is_cpu):
            return
        self._keep(_native.bind_launch(self.program.dispatcher, self._dims, self._params, *self.blocks), changes)

    def set_dim(self, dim: int | Sequence[int]) -> None:
        """Set the grid."""
        dims = grid_dims(self.kernel.key, dim)
        if self.kernel.cpu_block_axis >= 0:
            self.kernel, dims = over_blocks(self.kernel, self.kernel.cpu_block_dim, dims)
        self._dims = dims
        self._changed()

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set one argument by position; ``adjoint`` sets its adjoint, in a launch recorded with ``adjoint=True``.

        Raises:
            IndexError: There is no such parameter.
            ValueError: The launch has no adjoints.
        """
        if adjoint:
            raise ValueError(
                f"kernel `{self.kernel.key}`: this launch has no adjoints; record it with adjoint=True to set them"
            )
        self._require_parameter(index)
        first = len(leaf_parameters(self.kernel.declared[:index]))
        given = split_argument(self.kernel, index, value)
        for i, x in enumerate(given, first):
            name = self.kernel.parameter_names[i]
            site = Site(self.kernel.key, index, name, self.program.types[i], self.program.device)
            self._params[i] = convert(site, x)
        if self._given is not None:
            self._given[index] = value
        self._changed()

    def _require_parameter(self, index: int) -> None:
        count = len(self.kernel.declared)
        if not 0 <= index < count:
            raise IndexError(f"kernel `{self.kernel.key}` has {count} parameters, got index {index}")

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Set one argument by name; ``adjoint`` as in ``set_param_at_index``.

        Raises:
            KeyError: There is no such parameter.
            ValueError: The launch has no adjoints.
        """
        self.set_param_at_index(self._index_of(name), value, adjoint)

    def _index_of(self, name: str) -> int:
        names = [declared for declared, _ in self.kernel.declared]
        if name not in names:
            raise KeyError(f"kernel `{self.kernel.key}` has no parameter `{name}`")
        return names.index(name)

    def set_params(self, values: Sequence[Any]) -> None:
        """Set the first ``len(values)`` arguments."""
        for i, value in enumerate(values):
            self.set_param_at_index(i, value)

    def set_param_at_index_from_ctype(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set one argument by position to what C is given: ``array.__ctype__()``, a structure, a number.

        The memory that an array's description names has to outlive the launches.

        Raises:
            IndexError: There is no such parameter.
        """
        from warp_like.values.ctype import from_ctype

        self._require_parameter(index)
        t = self.kernel.declared[index][1]
        assert t is not None
        self.set_param_at_index(index, from_ctype(value, t, self._array_at), adjoint)

    def _array_at(self, at: array_t, t: ir.Array) -> array[Any]:
        n = at.ndim
        return array(
            ptr=at.data, dtype=t.dtype, shape=tuple(at.shape[:n]), strides=tuple(at.strides[:n]), device=self.device
        )

    def set_param_by_name_from_ctype(self, name: str, value: Any) -> None:
        """Set one argument by name, as ``set_param_at_index_from_ctype``.

        Raises:
            KeyError: There is no such parameter.
        """
        self.set_param_at_index_from_ctype(self._index_of(name), value)

    def set_params_from_ctypes(self, values: Sequence[Any]) -> None:
        """Set the first ``len(values)`` arguments, as ``set_param_at_index_from_ctype``."""
        for i, value in enumerate(values):
            self.set_param_at_index_from_ctype(i, value)


__all__ = ["Launch", "launch"]
