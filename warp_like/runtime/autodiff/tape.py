"""The tape: records launches and host writes, and runs their adjoints in reverse order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.base.warn import warn
from warp_like.runtime.arrays import interop_hooks, nested
from warp_like.runtime.arrays.adding import add_elements, move_elements
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.objects import Copied
from warp_like.runtime.arrays.recording import Capture, Record, UserFunction, Write, activities, program_of
from warp_like.runtime.autodiff.adjoint_launch import run_adjoint
from warp_like.runtime.autodiff.differentiation import SwitchedOff, adjoint_arguments, adjoint_program, gradients_of
from warp_like.runtime.autodiff.gradient_breaks import warn_of_aliases, warn_of_cut
from warp_like.runtime.autodiff.held_gradients import HeldGradients, unchanged
from warp_like.runtime.autodiff.history import (
    History,
    extent,
    refuse_unseen,
    require_memory,
    require_one_run,
    share_memory,
    unseen,
)
from warp_like.runtime.autodiff.nested_gradients import refresh_gradients
from warp_like.runtime.autodiff.retain_grad import Retained
from warp_like.runtime.autodiff.saved_results import saving_results
from warp_like.runtime.kernels.arguments import grid_dims, place_of, same_arguments
from warp_like.runtime.kernels.generics import concrete
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.launching.blocks import USUAL, Blocks
from warp_like.runtime.launching.launch import bind_arguments, run
from warp_like.runtime.memory.recorder import recorder
from warp_like.values.struct import StructInstance


class Tape:
    """Records the launches made inside its ``with`` block, for gradients by reverse mode.

    The adjoint of a launch computes again what it needs from the arrays as they are at the time of ``backward``, so a
    tape serves every step of a training loop that changes its inputs and runs the same launches again. They need not
    run again where no gradient reads what they write; ``backward`` refuses numbers of two runs. Gradients add up in
    ``array.grad`` until ``zero()``.

    An array that a later recorded operation overwrites is copied first if an adjoint needs it. Such copies belong to
    the recorded run: ``backward`` refuses to use them after the overwritten arrays have changed once more.

    Example:
        >>> with wp.Tape() as tape:
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> tape.backward(grads={y: wp.ones(n)})
        >>> x.grad.numpy()
        array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(self) -> None:
        self.launches: list[Record | Write | UserFunction] = []
        self.scopes: list[tuple[int, str | None, Any]] = []
        self.loss: array | None = None
        self._retained = Retained()
        self.history = History()
        self._copies: set[Copied] = set()
        self._outer: Tape | None = None
        self._warned = False
        self._started: dict[Any, array] = {}  # by memory, where backward has put adjoints since zero()
        self._zeroed: tuple[int, Any] | None = None  # how many launches it had then, and what recorded them
        self._half_done = False  # since zero(), a backward pass has failed after gradients had changed

    def __enter__(self) -> Tape:
        if recorder.active is self:
            raise RuntimeError("this tape is recording already")
        if isinstance(recorder.active, Capture):
            recorder.active.refuse("tapes record nothing")
        self._outer = recorder.active
        recorder.active = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder.active = self._outer
        self._outer = None
        if self.history.overwritten or self.history.elsewhere:
            self.history.end()
        _native.note_torn(self.launches)

    # --- recording ------------------------------------------------------------------------------------------

    def run_launch(self, program: Program, record: Record, blocks: Blocks = USUAL) -> None:
        """Run a launch and record it; one that fails leaves nothing on the tape."""
        record.block_dim = blocks.threads or 0
        program, record = saving_results(program, record)
        self.history.before_launch(record)
        run(program, record.dims, record.args, blocks)
        record.dispatcher = program.dispatcher
        if recorder.graph is None:
            record.ran()
        self.launches.append(record)

    def record_write(self, write: Write) -> None:
        """Record that the host is about to overwrite an array.

        Raises:
            RuntimeError: The source carries a gradient and is repeated to fill the array.
        """
        self.history.before_write(write.dest)
        source = write.source
        if write.dest.grad is None:
            if source is not None and source.grad is not None:
                self.history.cut.append(write.dest)
            return
        if source is not None and source.grad is not None and source.shape != write.dest.shape:
            raise RuntimeError(
                f"the gradient does not pass from {source!r} to {write.dest!r}, since their shapes differ; "
                "write a kernel, or copy arrays of one shape"
            )
        if source is not None and source.grad is not None:
            self.history.note_result(write.dest)
        else:
            self.history.forget_result(write.dest)
        self.launches.append(write)

    def record_func(self, backward: Callable[[], None], arrays: Sequence[array]) -> None:
        """Record a function that ``backward`` calls at this place.

        Args:
            backward: Adds to the gradients of its inputs from those of its outputs.
            arrays: All arrays with gradients that it uses, so that ``zero`` finds them.
        """
        self.launches.append(UserFunction(backward, arrays))

    def record_copy(self, copied: Copied, *, earlier: bool = False) -> None:
        """Record that an object's memory was made of an array, so that its gradient goes on there.

        Args:
            copied: The copy; one that is recorded already is not recorded again.
            earlier: Whether it was made before this tape began. Then it comes before all that is recorded.
        """
        if copied in self._copies:
            return
        self._copies.add(copied)
        record = UserFunction(copied.pass_on, copied.arrays)
        if earlier:
            self.launches.insert(0, record)
            self.scopes = [(at + 1, name, data) for at, name, data in self.scopes]
        if copied.before is not None:
            self.record_copy(copied.before, earlier=True)
        if not earlier:
            self.launches.append(record)

    def record_launch(
        self,
        kernel: Any,
        dim: Any,
        max_blocks: int = 0,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        device: Any = None,
        block_dim: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a launch without running it: one that runs elsewhere, such as inside of another library's operation.

        The adjoint takes the arrays as they are now for what the launch is about to read, so this comes before they
        are overwritten.

        Args:
            kernel: The kernel.
            dim: The grid, as for ``wp.launch``.
            max_blocks: As for ``wp.launch``, as ``device``; the adjoint does not depend on them.
            inputs: Its arguments, as for ``wp.launch``.
            outputs: The rest of its arguments.
            device: See ``max_blocks``.
            block_dim: As for ``wp.launch``: the adjoint runs in blocks of as many threads.
            metadata: What ``visualize`` shows of it.

        Raises:
            TypeError: The arguments do not fit the kernel.
        """
        op = concrete(kernel, inputs, outputs)
        types, args = bind_arguments(op, inputs, outputs, place_of([*inputs, *outputs]))
        record = Record(op, grid_dims(op.key, dim), types, args, same_arguments(args))
        record.block_dim = block_dim
        self.history.before_launch(record)
        record.dispatcher = program_of(record).dispatcher
        self.history.note_elsewhere(record)
        if metadata:
            self.record_scope_begin(op.key, metadata)
        self.launches.append(record)
        if metadata:
            self.record_scope_end()

    def record_scope_begin(self, scope_name: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Begin a scope: ``visualize`` draws what is recorded until its end as a group.

        Args:
            scope_name: What to call it.
            metadata: What else to show of it.
        """
        self.scopes.append((len(self.launches), scope_name, dict(metadata or {})))

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """End the scope that began last.

        Args:
            remove_scope_if_empty: Forget the scope if nothing was recorded in it.

        Raises:
            RuntimeError: No scope has begun.
        """
        if sum(1 if name is not None else -1 for _, name, _ in self.scopes) <= 0:
            raise RuntimeError("record_scope_end() without record_scope_begin()")
        at, name, _ = self.scopes[-1]
        if remove_scope_if_empty and name is not None and at == len(self.launches):
            self.scopes.pop()
        else:
            self.scopes.append((len(self.launches), None, None))

    # --- the reverse sweep ----------------------------------------------------------------------------------

    def backward(self, loss: Any = None, grads: Mapping[Any, Any] | None = None, zero: bool = False) -> None:
        """Run the adjoints of all recorded launches, last one first.

        With neither ``loss`` nor ``grads`` it starts from the gradients that the arrays hold.

        Args:
            loss: An array or tensor of one element with ``requires_grad``; its gradient is set to 1.
            grads: For each output array or tensor, the adjoint to start from: an array of its shape, copied into its
                ``grad``. An output without one gets it.
            zero: Set the gradients to zero first, as ``zero()`` does. This takes less time than two calls: launches
                set large gradients to zero while they run.

        Raises:
            TypeError: What it shall start from is no array.
            ValueError: There is nothing to start from and ``zero`` is set, ``loss`` has more than one element, or an
                array to start from does not require a gradient.
            RuntimeError: Arrays of which it holds copies have changed since it recorded, or arrays that a gradient
                needs whose kernel has not run again; or an array for which it made no copies has a gradient since, or
                a tensor whose memory it uses has been freed or resized. Or the last pass failed in the middle, and
                gradients have not been set to zero since.
            WarpCodegenError: A kernel on the tape can't be differentiated; no gradient has been changed then.
        """
        if recorder.active is self:
            self._backward_inside(loss, grads, zero)
            return
        if isinstance(recorder.active, Capture):
            recorder.active.refuse("no adjoints run")
        loss = loss if loss is not None else self.loss
        starts = self._starts(loss, grads or {})
        if zero and not starts:
            raise ValueError("backward(zero=True) needs loss= or grads= to start from: all gradients become zero")
        history = self.history
        if history.without:
            history.require_same_gradients()
        if recorder.active is not None and recorder.active.history is not None:
            recorder.active.history.adjoints += self._before_gradients()
        if zero:
            self._retained.shown = {}
        elif self._half_done:
            raise RuntimeError(
                "the last backward() of this tape failed and left parts of sums in gradients; call tape.zero() first, "
                "or backward(..., zero=True)"
            )
        seen = self._retained.shown or history.overwritten or history.cut or history.adjoints or history.has_nested
        plain = not (seen or _watched())
        started = {(a.ptr, a.shape, a.strides): a for a, _ in starts}
        plain = plain and not (zero and self._started.keys() - started.keys())
        self._started.update(started)
        fresh = not starts or self._zeroed == (len(self.launches), recorder.graph)
        self._zeroed = None
        before, left = self._half_done, None
        if plain:
            self._half_done = True
            left = _native.try_backward(self.launches, starts, fresh, zero)
        if left is None:
            self._half_done = before
            self._backward_checked(starts, fresh, zero)
            if zero:
                self._started = started
        elif left:
            with _nothing_recorded():
                self._reverse_first(left)
        self._half_done = False

    def _before_gradients(self) -> list[array]:
        """Tell the tape that is recording, if there is one, that gradients of this one are about to change."""
        if recorder.active is None or recorder.active.history is None:
            return []
        gradients = list(self.gradients.values())
        recorder.active.history.before_writes(gradients)
        return gradients

    def _backward_inside(self, loss: Any, grads: Mapping[Any, Any] | None, zero: bool) -> None:
        """Run backward over what has been recorded so far, and go on recording."""
        self._before_gradients()
        self.history.end()
        recorder.active = self._outer
        try:
            self.backward(loss, grads, zero)
        finally:
            recorder.active = self

    def _backward_checked(self, starts: list[tuple[array, Any]], fresh: bool, zero: bool) -> None:
        """Run backward step by step, compiling what is missing and saying what is wrong.

        With ``fresh``, no gradient holds what another backward pass has left; with ``zero``, all are set to zero.
        """
        arrays = [*self._arrays(), *(a for a, _ in starts)]
        for a in arrays:
            a._attach_grad()
        refresh_gradients(arrays)
        self._require_ready()
        self._warned = (
            self._warned
            or warn_of_cut(self.launches, self.history.cut, self.history.adjoints)
            or warn_of_aliases(self.launches, arrays)
        )
        with _nothing_recorded():
            given = [a for a, _ in starts] or arrays
            self._retained.begin([a for a in arrays if a.retain_grad], given)
            held = HeldGradients()
            self._half_done = True
            try:
                if zero:
                    gradients = [g for a in arrays if (g := a.grad) is not None]
                    starts = [(a, unchanged(seed, gradients)) for a, seed in starts]
                    self._zero_gradients()
                elif not fresh:
                    starts = held.put_aside(self.launches, starts)
                for a, seed in starts:
                    gradient = a.grad
                    assert gradient is not None  # _starts has checked
                    if isinstance(seed, float):
                        gradient.fill_(seed)
                    else:
                        gradient.assign(seed)
                self._reverse_first(len(self.launches))
                self._retained.end()
            finally:
                held.put_back()

    def _reverse_first(self, count: int) -> None:
        """Reverse the first ``count`` launches, the last one first."""
        for r in reversed(self.launches[:count]):
            self._retained.before(_written_by(r))
            _reverse(r)

    def _starts(self, loss: Any, grads: Mapping[Any, Any]) -> list[tuple[array, Any]]:
        starts: list[tuple[array, Any]] = []
        if loss is not None:
            loss = loss if isinstance(loss, array) else self._recorded_as(loss, "loss")
            if loss.size != 1:
                raise ValueError(f"backward() takes a loss of one element, got shape {loss.shape}; use grads=")
            starts.append((loss, 1.0))
        for given, seed in grads.items():
            start = given if isinstance(given, array) else self._recorded_as(given, "grads")
            starts.append((start, seed if isinstance(seed, array) else _seed_of(start, seed)))
        for a, seed in starts:
            if a.grad is None:
                if a is loss or not any(x is a for r in self.launches for x in _arrays_of(r)):
                    raise ValueError("backward() starts from arrays with requires_grad=True, and one has it False")
                a.requires_grad = True
            if isinstance(seed, array) and seed.shape != a.shape:
                raise ValueError(f"an adjoint of shape {seed.shape} was given for an array of shape {a.shape}")
        return starts

    def _recorded_as(self, given: Any, parameter: str) -> array:
        """Return what the tape has recorded for an array or tensor of another library, to start from.

        Raises:
            TypeError: ``given`` can't be used as an array.
        """
        try:
            shared: array = interop_hooks.as_array(given, None, True)
        except (TypeError, ValueError) as error:
            wrapped = "loss=wp.from_torch(y)" if parameter == "loss" else "grads={wp.from_torch(y): g}"
            raise TypeError(
                f"backward() starts from arrays, and {type(given).__name__} in `{parameter}` is none ({error}); wrap "
                f"it, as in tape.backward({wrapped})"
            ) from error
        if shared.requires_grad:
            return shared
        used = (x for r in self.launches for x in _arrays_of(r) if isinstance(x, array))
        return next((x for x in used if extent(x) == extent(shared)), shared)

    def _require_ready(self) -> None:
        """Compile and check everything, so that a refusal comes before any gradient changes."""
        for r in self.launches:
            for a in _arrays_of(r):
                if isinstance(a, array):
                    require_memory(a)
        self.history.require_current()
        self._require_one_run()
        for r in self.launches:
            if isinstance(r, Record) and (_watched() or not r.can_reverse()):
                _require_adjoint(r)

    def _require_one_run(self) -> None:
        """Refuse numbers of two runs; arrays that have changed since the recording count as they are now."""
        changed = [(k, r) for k, r in enumerate(self.launches) if isinstance(r, Record) and r.changed() and unseen(r)]
        for _, r in changed:
            if r.torn:
                refuse_unseen(r)
        if changed:
            first, r = changed[0]
            require_one_run(r, (a for later in self.launches[first:] for a in _made_by(later)), self.history)
        for _, r in changed:
            r.runs_elsewhere()

    # --- gradients ------------------------------------------------------------------------------------------

    def _arrays(self) -> list[array]:
        """All recorded arrays with a gradient, each once."""
        found: dict[int, array] = {}
        for r in self.launches:
            for a in _arrays_of(r):
                if isinstance(a, array) and a.requires_grad:
                    found.setdefault(id(a), a)
                    if a.element.holds:
                        found.update((id(x), x) for x in nested.arrays_in(a) if x.requires_grad)
        return list(found.values())

    def get_adjoint(self, a: Any) -> Any:
        """Return what stands for the adjoint of a kernel's argument, in ``wp.launch(adjoint=True)`` for instance.

        Args:
            a: An argument: of an array it is the gradient, of a struct one with the gradients of its arrays.

        Returns:
            The adjoint; None for numbers, and for arrays that have no gradient.
        """
        return adjoint_of(a)

    @property
    def gradients(self) -> dict[array, array]:
        """The gradient of each recorded array that has one; of a struct it is one with the gradients of its arrays."""
        return Gradients({a: a.grad for a in self._arrays() if a.grad is not None})

    def zero(self) -> None:
        """Set the gradients of all recorded arrays to zero, and those of arrays that ``backward`` started from.

        Where a view of an array was recorded, the gradient's other elements stay: no adjoint has added to them.
        """
        self._retained.shown = {}
        self._before_gradients()
        self._zeroed = (len(self.launches), recorder.graph)
        self._zero_gradients()
        self._half_done = False
        self._started = {}

    def _zero_gradients(self) -> None:
        native = not (_watched() or self.history.has_nested) and _native.try_zero(self.launches)
        with _nothing_recorded():
            for a in [*([] if native else self._arrays()), *self._started.values()]:
                if a.grad is not None:
                    a._attach_grad()
                    a.grad.zero_()

    def reset(self) -> None:
        """Forget all that was recorded, and set the arrays' gradients to zero."""
        self.zero()
        self.launches = []
        self.scopes = []
        self.loss = None
        self._retained = Retained()
        self.history = History()
        self._copies = set()
        self._warned = False

    # --- a picture ------------------------------------------------------------------------------------------

    def visualize(
        self,
        filename: str | os.PathLike[str] | None = None,
        simplify_graph: bool = True,
        hide_readonly_arrays: bool = False,
        array_labels: Mapping[array, str] | None = None,
        choose_longest_node_name: bool = True,
        ignore_graph_scopes: bool = False,
        track_inputs: Sequence[array] | None = None,
        track_outputs: Sequence[array] | None = None,
        track_input_names: Sequence[str] | None = None,
        track_output_names: Sequence[str] | None = None,
        graph_direction: str = "LR",
        format: str | None = None,
    ) -> str:
        """Return a picture of the recorded operations and of the arrays between them, as text.

        Args:
            filename: Also write the text to this file.
            simplify_graph: Fold repetitions of the same operations into one round.
            hide_readonly_arrays: Leave out arrays that no recorded operation writes.
            array_labels: What to call arrays; others are called as the kernels' parameters.
            choose_longest_node_name: Of several such names take the longest, not the first.
            ignore_graph_scopes: Draw no groups for scopes and repetitions.
            track_inputs: Arrays to show as inputs.
            track_outputs: Arrays to show as outputs.
            track_input_names: What to call ``track_inputs``.
            track_output_names: What to call ``track_outputs``.
            graph_direction: From left to right (``LR``), or ``RL``, ``TB`` (from top to bottom), ``BT``.
            format: ``dot`` (Graphviz) or ``mermaid``; by the filename's ending (``.mmd``, ``.mermaid``) when left out.

        Raises:
            ValueError: An unknown direction or format, or another number of names than of arrays.

        Example:
            >>> with wp.Tape() as tape:
            ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
            >>> text = tape.visualize("tape.dot", array_labels={x: "positions"})
        """
        from warp_like.runtime.autodiff import visualize  # most tapes are not drawn

        if graph_direction not in ("LR", "RL", "TB", "BT"):
            raise ValueError(f"graph_direction is LR, RL, TB or BT, got {graph_direction!r}")
        if format is None:
            format = "mermaid" if str(filename or "").endswith((".mmd", ".mermaid")) else "dot"
        if format not in visualize.FORMATS:
            raise ValueError(f'format is "dot" or "mermaid", got {format!r}')
        picture = visualize.draw(
            visualize.scope_tree(self.launches, self.scopes),
            simplify=simplify_graph,
            longest_names=choose_longest_node_name,
            labels=array_labels or {},
            tracked={
                "input": visualize.named("track_inputs", track_inputs, track_input_names),
                "output": visualize.named("track_outputs", track_outputs, track_output_names),
            },
        )
        text = visualize.FORMATS[format](
            picture, direction=graph_direction, hide_readonly=hide_readonly_arrays, scopes=not ignore_graph_scopes
        )
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as f:
                f.write(text)
        return visualize.Drawing(text, format)


class Gradients(dict[array, array]):
    """The gradients of arrays, by array."""

    def __getitem__(self, a: Any) -> Any:
        return adjoint_of(a) if isinstance(a, StructInstance) else super().__getitem__(a)


def adjoint_of(a: Any) -> Any:
    """Return the gradient of an array, a struct with the gradients of the arrays in one, and None for anything else."""
    if isinstance(a, array):
        return a.grad
    if not isinstance(a, StructInstance):
        return None
    fields = {name: getattr(a, name) for name, _ in a._ir_type_.fields}
    held = (array, StructInstance)
    return type(a)(**{name: adjoint_of(x) if isinstance(x, held) else x for name, x in fields.items()})


@contextlib.contextmanager
def _nothing_recorded() -> Iterator[None]:
    """Keep an outer tape from recording what is done to gradients."""
    saved, recorder.active = recorder.active, None
    try:
        yield
    finally:
        recorder.active = saved


def _seed_of(start: array, given: Any) -> Any:
    """An adjoint to start from: tensors as arrays over their memory, all else as it is."""
    is_tensor = hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray)
    return interop_hooks.as_array(given, start.dtype) if is_tensor else given


def _watched() -> bool:
    """Whether launches are intercepted: to become a part of a graph, or to be timed."""
    return recorder.graph is not None or activities.noted is not None


def _arrays_of(r: Record | Write | UserFunction) -> Sequence[Any]:
    if isinstance(r, Write):
        return [r.dest] if r.source is None else [r.dest, r.source]
    return r.arrays if isinstance(r, UserFunction) else r.args


def _made_by(r: Record | Write | UserFunction) -> list[array]:
    """The arrays that ``r`` may have written to."""
    if not isinstance(r, Record):
        return [a for a in _arrays_of(r) if isinstance(a, array)]
    effects = program_of(r).effects
    held = (x for i, path in effects.nested_writes for x in nested.arrays_at(r.args[i], path))
    return [*(r.args[i] for i in effects.writes), *held]


def _written_by(r: Record | Write | UserFunction) -> list[array]:
    """The arrays whose gradients the reverse of ``r`` may consume."""
    if isinstance(r, Record):
        effects = program_of(r).effects
        held = (x for i, path in effects.nested_writes for x in nested.arrays_at(r.args[i], path))
        return [*(r.args[i] for i in effects.stores), *held]
    return [r.dest] if isinstance(r, Write) else []


def _require_adjoint(r: Record) -> None:
    gradients = gradients_of(r)
    try:
        program = adjoint_program(r, gradients)
    except SwitchedOff as off:
        warn(f"{off}; the backward pass leaves the launch out, so that gradients may be incomplete")
        return
    if program is not None:
        adjoint_arguments(r, program, gradients)


def _reverse(r: Record | Write | UserFunction) -> None:
    if isinstance(r, UserFunction):
        r.backward()
    elif isinstance(r, Record):
        if _watched() or not r.try_reverse():
            with contextlib.suppress(SwitchedOff):  # _require_ready has warned
                run_adjoint(r, gradients_of(r))
            r.dispatcher = program_of(r).dispatcher
    elif r.dest.grad is not None:
        source = None if r.source is None else r.source.grad
        if source is None:
            r.dest.grad.zero_()
            refresh_gradients([r.dest])
        elif share_memory(source, r.dest.grad):
            move_elements(source, r.dest.grad)
        else:
            add_elements(source, r.dest.grad)
            r.dest.grad.zero_()


__all__ = ["Tape"]
