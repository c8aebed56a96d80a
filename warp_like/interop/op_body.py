"""What an operator made of a kernel or a function computes: its outputs and its gradients.

Nothing here registers anything. A body gets tensors and numbers and returns fresh tensors: it never writes to
what it was given, never records on a tape and never looks at ``requires_grad``. Nor does it add to gradients of objects
that a kernel queries, of which the library knows nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from warp_like import _native
from warp_like.base.contract import MAX_DIMS
from warp_like.interop import view
from warp_like.interop.op_calls import Grid, Start, adjoint_call, forward_call
from warp_like.interop.op_signature import Absent, OpSignature
from warp_like.ir import types as ir
from warp_like.runtime.arrays import objects
from warp_like.runtime.arrays.recording import Record, program_of
from warp_like.runtime.autodiff.differentiation import adjoint_arguments, adjoint_program
from warp_like.runtime.autodiff.tape import Tape
from warp_like.runtime.kernels.arguments import convert, grid_dims
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.launching.blocks import over_blocks
from warp_like.runtime.launching.launch import launch, run
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import get_device
from warp_like.runtime.memory.recorder import recorder, refuse_capture, stream_captures


class Answers(NamedTuple):
    """What a backward pass needs of the forward.

    Attributes:
        reads_outputs: Whether it needs the results.
        unread: Positions of array arguments of which it needs shape and dtype alone; it takes an ``Absent`` for them.
        places: Where these stand among the arguments.
    """

    reads_outputs: bool
    unread: frozenset[int]
    places: frozenset[int]


class Body(Protocol):
    """What an operator runs."""

    signature: OpSignature

    def try_forward(self, args: tuple[Any, ...]) -> list[Any] | None:
        """Return the results where the arguments are plainly right; else None, and nothing has run."""

    def forward(self, args: Sequence[Any], results: list[Any] | None = None) -> list[Any]:
        """Return the results for checked arguments, made in ``results`` where these are given.

        They are as ``signature.new_outputs`` would make them.
        """

    def answers(self) -> Answers:
        """Return what ``backward`` needs."""

    def backward(
        self, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """Return gradients for those of ``signature.wrt`` that ``needs`` marks.

        Args:
            grads: The gradients of the differentiable results.
            args: What ``forward`` got.
            results: What it returned, if ``answers().reads_outputs``.
            needs: For each of ``signature.wrt``, whether its gradient is wanted.
        """


class KernelBody:
    """One launch; its gradient is one launch of the kernel's adjoint.

    ``kernel`` is the edition for the values that names had when the operator was made. PyTorch may run forward and
    backward as parts of a graph, which tell nothing of each other, so an operator refuses other values. For the same
    reason it keeps the threads of its blocks, ``block_dim``; None for one.

    All that follows from the kernel's code is found once, until the code is forgotten: a call on small tensors takes as
    long as a few questions.
    """

    def __init__(self, kernel: Kernel, signature: OpSignature, dim: Any, block_dim: int | None = None) -> None:
        self.kernel = kernel
        self.signature = signature
        self.dim = dim
        self.block_dim = block_dim
        self._device = get_device("cpu")
        self._blocks: dict[str, Any] = {} if block_dim is None else {"block_dim": block_dim}
        self._first = signature.inputs.index(signature.arrays[0]) if signature.arrays else None
        self._known = Known(kernel, signature)
        self._starts: dict[tuple[bool, ...], Start] = {}

    def try_forward(self, args: tuple[Any, ...]) -> list[Any] | None:
        """Run the kernel in one native call, once it has run in the general way."""
        call = self.known.forward_call
        made = None if call is None or stream_captures else call.run(args)
        return None if made is None else list(made[: len(self.signature.outputs)])

    def forward(self, args: Sequence[Any], results: list[Any] | None = None) -> list[Any]:
        """Run the kernel."""
        self.require_current()
        sig = self.signature
        given = sig.parameters(args)
        results = sig.new_outputs(args) if results is None else results
        for i, result in zip(sig.outputs, results, strict=True):
            given[i] = result
        kernel, dims = self.placed(args, results)
        with not_recorded():
            launch(kernel, dims, given, device=self._device, record_tape=False, **self._blocks)
        known = self.known
        if known.forward_call is None and self._is_regular:
            program = known.forward.over(self._grid or ())
            known.forward_call = forward_call(sig, program, self._grid) if program.dispatcher is not None else None
        return results

    @property
    def _is_regular(self) -> bool:
        """Whether the grid follows from the operator, or from the shape of its first array."""
        return self.block_dim is None and not callable(self.dim)

    @functools.cached_property
    def _grid(self) -> Grid:
        return None if self.dim is None else grid_dims(self.kernel.key, self.dim)

    def require_current(self) -> None:
        """Refuse to run once a value has changed that the kernel names.

        Raises:
            RuntimeError: One has.
        """
        now = self.kernel.current()
        if now is not self.kernel:
            raise RuntimeError(
                f"operator `{self.signature.name}`: {self.kernel.captured.changed(now.captured)} has changed since the "
                "operator was made, whose gradient is that of the values of then; make it again, or pass what changes "
                "as an argument"
            )

    def placed(self, args: Sequence[Any], results: Sequence[Any]) -> tuple[Kernel, Any]:
        """Return the kernel for the blocks of a call, and the ``dim`` of its launch."""
        dims = self._dims(args, results)
        if self.block_dim is None:
            return self.kernel, dims
        return over_blocks(self.kernel, self.block_dim, grid_dims(self.kernel.key, dims))

    def _dims(self, args: Sequence[Any], results: Sequence[Any]) -> Any:
        if self.dim is not None:
            return self.dim(*args) if callable(self.dim) else self.dim
        first = results[0] if self._first is None else args[self._first]
        return self.known.forward.facts.schedule.default_grid(first.shape)

    @property
    def known(self) -> Known:
        """What follows from the kernel's code as it is compiled now."""
        if self._known.generation != self.kernel.generation:
            self._known = Known(self.kernel, self.signature)
        return self._known

    def answers(self) -> Answers:
        """Ask the compiled adjoint. What the user's rules for shapes look at is not known."""
        known = self.known
        if known.answers is None:
            reads, unread = self._ask()
            if callable(self.dim) or any(map(callable, self.signature.shapes.values())):
                unread = frozenset()
            known.answers = Answers(reads, unread, frozenset(map(self.signature.inputs.index, unread)))
        return known.answers

    def _ask(self) -> tuple[bool, frozenset[int]]:
        sig, grids = self.signature, self._grids()
        if self.block_dim is not None and self.kernel.asks_about_blocks:
            return True, frozenset()  # each grid may have a program of its own
        forward = self.known.forward
        if any(forward.over(dims).effects.serial for dims in grids):
            return True, frozenset()  # one thread and several have different adjoints, of which one may be refused
        reads: set[int] = set()
        copies: set[int] = set()
        for dims in grids:
            program = self.adjoint(Record(self.kernel, dims, sig.types, []), self._differentiable)
            if program is not None:
                reads.update(program.effects.reads)
                copies.update(program.effects.prelaunch_copies)
        read = (reads - {*sig.outputs}) | copies
        return any(i in reads for i in sig.outputs), frozenset(i for i in sig.arrays if i not in read)

    def _grids(self) -> list[tuple[int, ...]]:
        """A grid for each of the programs that launches may run."""
        if self.dim is None:
            return [()]
        if not callable(self.dim):
            return [grid_dims(self.kernel.key, self.dim)]
        asked = self.known.forward.tid_ndim
        return [()] if asked == MAX_DIMS else [(), (*[1] * asked, 2)]

    @functools.cached_property
    def _differentiable(self) -> dict[int, Any]:
        return dict.fromkeys({*self.signature.wrt, *self.signature.from_outputs})

    def record(self, given: list[Any], args: Sequence[Any]) -> Record:
        """Return the launch that the operator makes for ``args``; ``given`` are the arguments of the kernel."""
        kernel, dims = self.placed(args, [given[i] for i in self.signature.outputs])
        return Record(kernel, grid_dims(kernel.key, dims), self.signature.types, given)

    def backward(
        self, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """Run the adjoint."""
        start = self._start(needs)
        call = self.known.adjoint_calls.get((start.order, bool(results)))
        made = None if call is None or stream_captures else call.run((*grads, *args, *results))
        if made is None:
            return self._backward(start, grads, args, results)
        return start.gradients(made, args)

    def _backward(self, start: Start, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Run the adjoint in the general way."""
        sig, tensors = self.signature, self.signature.tensors
        adjoints = start.adjoints(sig, grads, args)
        originals = sig.parameters(args)
        given = list(originals)
        for k, i in enumerate(sig.outputs):
            if results:
                given[i] = results[k]
            elif given[i] is None:  # the adjoint does not read it
                given[i] = adjoints[i] if i in adjoints else tensors.empty(sig.output_shapes(args)[k], sig.dtypes[i])
        given = [tensors.empty(x.shape, x.dtype) if type(x) is Absent else x for x in given]
        with not_recorded():
            self._run_adjoint(self.record(given, args), originals, adjoints)
        self._keep_adjoint_call(start, bool(results))
        return start.gradients([adjoints[i] for i in start.order], args)

    def _keep_adjoint_call(self, start: Start, has_results: bool) -> None:
        known, key = self.known, (start.order, has_results)
        program = known.serving.get(start.order)
        if key not in known.adjoint_calls and program is not None and program.dispatcher is not None:
            call = adjoint_call(self.signature, start, program, self._grid, has_results, self.answers().unread)
            known.adjoint_calls[key] = call

    def _start(self, needs: Sequence[bool]) -> Start:
        key = tuple(needs)
        found = self._starts.get(key)
        if found is None:
            found = self._starts[key] = Start.of(self.signature, key)
        return found

    def _run_adjoint(self, record: Record, originals: list[Any], adjoints: dict[int, Any]) -> None:
        sig, given = self.signature, record.args
        program = self.adjoint(record, adjoints)
        if program is None:
            return
        for i in program.effects.prelaunch_copies:
            before = originals[i]
            if before is None:
                before = sig.tensors.zeros(given[i].shape, given[i].dtype)
            record.prelaunch_copies[i] = sig.as_array(i, before)
        arguments = adjoint_arguments(record, program, adjoints)
        dispatcher = program.dispatcher
        objects.warn_of_gradients(program.effects, record.args, f"operator `{sig.name}`")
        if dispatcher is None or not dispatcher.try_launch(record.dims, arguments, (), None):
            record.args = [convert(sig.site(i), a) for i, a in enumerate(given)]
            adjoints = {i: sig.as_array(i, a) for i, a in adjoints.items()}
            run(program, record.dims, adjoint_arguments(record, program, adjoints))

    def adjoint(self, record: Record, adjoints: dict[int, Any]) -> Program | None:
        """Return the kernel's adjoint; looked up once, until the kernel is compiled anew."""
        wrt = tuple(sorted(adjoints))
        forward = record.kernel.program(self.signature.types).over(record.dims)
        key = forward, wrt, forward.in_order(record.dims)
        known = self.known
        if key not in known.adjoints:
            with objects.gradients_hidden():
                program = adjoint_program(record, adjoints)
            known.adjoints[key] = program
            if program is not None and self._serves_all(forward, program):
                known.serving[wrt] = program
        return known.adjoints[key]

    def _serves_all(self, forward: Program, program: Program) -> bool:
        """Whether all calls run one adjoint, and it takes their arguments and adjoints alone."""
        effects = program.effects
        return self._is_regular and not (forward.effects.serial or effects.prelaunch_copies or effects.objects)


class Known:
    """What follows from the code of an operator's kernel.

    Attributes:
        generation: That of the kernel, whose code it is.
        answers: What adjoints read; None until somebody asks.
        adjoints: The adjoints of the programs of the kernel, by which arrays have gradients and whether its threads run
            in order; None where there is none.
        serving: Of them those that serve all calls, by which arrays have gradients.
        forward_call: How plain arguments are launched; None where there is no such call, or not yet.
        adjoint_calls: The same of adjoints, by which arrays have gradients and whether results are given.
    """

    def __init__(self, kernel: Kernel, signature: OpSignature) -> None:
        self.generation = kernel.generation
        self._kernel = kernel
        self._types = signature.types
        self.answers: Answers | None = None
        self.adjoints: dict[tuple[Program, tuple[int, ...], bool], Program | None] = {}
        self.serving: dict[tuple[int, ...], Program] = {}
        self.forward_call: _native.OpCall | None = None
        self.adjoint_calls: dict[tuple[tuple[int, ...], bool], _native.OpCall | None] = {}

    @functools.cached_property
    def forward(self) -> Program:
        """The kernel's program."""
        return self._kernel.program(self._types)


class FunctionBody:
    """A function that launches kernels; its gradient runs it again under a tape."""

    def __init__(self, function: Callable[..., Any], signature: OpSignature) -> None:
        self.function = function
        self.signature = signature

    def try_forward(self, args: tuple[Any, ...]) -> list[Any] | None:
        """None: a function has to be called."""
        return None

    def forward(self, args: Sequence[Any], results: list[Any] | None = None) -> list[Any]:
        """Call the function."""
        results = self.signature.new_outputs(args) if results is None else results
        self._call(self._arrays(args, results))
        return results

    def _arrays(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The arguments of the function: its inputs as arrays that nobody may write."""
        sig = self.signature
        given = sig.parameters(args)
        for i, t in enumerate(sig.types):
            if i in sig.outputs:
                given[i] = sig.as_array(i, results[sig.outputs.index(i)])
            elif isinstance(t, ir.Array):
                memory = replace(view.describe(given[i]), readonly=True)
                given[i] = view.over(memory, element_type(t.dtype))
        return given

    def _call(self, given: Sequence[Any], tape: Tape | None = None) -> None:
        with not_recorded(), contextlib.nullcontext() if tape is None else tape:
            returned = self.function(*given)
        if returned is not None:
            raise TypeError(
                f"operator `{self.signature.name}`: the function writes its results into its output arrays and "
                f"returns nothing, got {type(returned).__name__}"
            )

    def answers(self) -> Answers:
        """Return that it needs the arguments: all else is computed again."""
        return Answers(False, frozenset(), frozenset())

    def backward(
        self, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """Record the function on a tape and run that backward."""
        sig = self.signature
        given = self._arrays(args, sig.new_outputs(args))
        wanted = [i for i, needed in zip(sig.wrt, needs, strict=True) if needed]
        for i in {*wanted, *sig.from_outputs}:
            given[i].requires_grad = True
        tape = Tape()
        self._call(given, tape)
        with not_recorded():
            seeds = {
                given[i]: sig.as_array(i, sig.tensors.plain(g)) for i, g in zip(sig.from_outputs, grads, strict=True)
            }
            for r in tape.launches:
                if isinstance(r, Record):
                    objects.warn_of_gradients(program_of(r).effects, r.args, f"operator `{sig.name}`")
            with objects.gradients_hidden():
                tape.backward(grads=seeds)
        return [sig.tensors.over(given[i].grad) for i in wanted]


class not_recorded:
    """Keep a tape that the caller may have open from recording the launches inside."""

    def __enter__(self) -> None:
        refuse_capture("a PyTorch operator")
        self._saved, recorder.active = recorder.active, None

    def __exit__(self, *_: object) -> None:
        recorder.active = self._saved
