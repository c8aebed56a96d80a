"""The tape: records launches and runs their adjoints in reverse order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from warp_like.ir.types import Array, is_differentiable
from warp_like.runtime.array import array
from warp_like.runtime.launch import adjoint_program, run_adjoint
from warp_like.runtime.recording import Record, recorder


class _Function:
    """A user's own adjoint, recorded between launches."""

    def __init__(self, backward: Callable[[], None], arrays: Sequence[array]) -> None:
        self.backward = backward
        self.arrays = list(arrays)


class Tape:
    """Records the launches made inside its ``with`` block, for gradients by reverse mode.

    The adjoint of a launch computes again what it needs from the arrays as they are at the time of ``backward``, so a
    tape serves every step of a training loop that changes its arrays in place. Gradients add up in ``array.grad`` until
    ``zero()``.

    Example:
        >>> with wp.Tape() as tape:
        ...     wp.launch(loss_kernel, dim=n, inputs=[x], outputs=[loss])
        >>> tape.backward(loss=loss)
        >>> x.grad
    """

    def __init__(self) -> None:
        self.launches: list[Record | _Function] = []
        self.loss: array | None = None
        self._outer: Tape | None = None

    def __enter__(self) -> Tape:
        if recorder.active is self:
            raise RuntimeError("this tape is recording already")
        self._outer = recorder.active
        recorder.active = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder.active = self._outer
        self._outer = None

    def backward(self, loss: array | None = None, grads: Mapping[array, Any] | None = None) -> None:
        """Run the adjoints of all recorded launches, last one first.

        Args:
            loss: An array of one element with ``requires_grad``; its gradient is set to 1.
            grads: For each output array, the adjoint to start from: an array of its shape, copied into its ``grad``.

        Raises:
            TypeError: ``loss`` is no array.
            ValueError: ``loss`` has more than one element, or an array to start from does not require a gradient.
            RuntimeError: There is neither ``loss`` nor ``grads``, or the tape is recording.
            WarpCodegenError: A kernel on the tape can't be differentiated; no gradient has been changed then.
        """
        if recorder.active is self:
            raise RuntimeError("backward() runs after the tape's `with` block, not inside it")
        loss = loss if loss is not None else self.loss
        if loss is None and not grads:
            raise RuntimeError("backward() needs a loss or grads to start from")
        starts = self._starts(loss, grads or {})
        self._attach_gradients(a for a, _ in starts)
        work = [r if isinstance(r, _Function) else (r, _gradients(r)) for r in reversed(self.launches)]
        for item in work:
            if isinstance(item, tuple):
                adjoint_program(*item)  # a refusal comes before any gradient changes
        for a, seed in starts:
            a.grad.assign(seed) if isinstance(seed, array) else a.grad.fill_(seed)
        for item in work:
            if isinstance(item, tuple):
                run_adjoint(*item)
            else:
                item.backward()

    def _starts(self, loss: array | None, grads: Mapping[array, Any]) -> list[tuple[array, Any]]:
        starts: list[tuple[array, Any]] = []
        if loss is not None:
            if not isinstance(loss, array):
                raise TypeError(f"backward() takes a wp.array as loss, got {type(loss).__name__}")
            if loss.size != 1:
                raise ValueError(f"backward() takes a loss of one element, got shape {loss.shape}; use grads=")
            starts.append((loss, 1.0))
        starts += list(grads.items())
        for a, seed in starts:
            if a.grad is None:
                raise ValueError("backward() starts from arrays with requires_grad=True, and one has it False")
            if isinstance(seed, array) and seed.shape != a.shape:
                raise ValueError(f"an adjoint of shape {seed.shape} was given for an array of shape {a.shape}")
        return starts

    def _attach_gradients(self, more: Iterable[array]) -> None:
        for a in [*self._arrays(), *more]:
            a._attach_grad()

    def _arrays(self) -> list[array]:
        """All recorded arrays with a gradient, each once."""
        found: dict[int, array] = {}
        for r in self.launches:
            for a in r.arrays if isinstance(r, _Function) else r.args:
                if isinstance(a, array) and a.requires_grad:
                    found.setdefault(id(a), a)
        return list(found.values())

    @property
    def gradients(self) -> dict[array, array]:
        """The gradient of each recorded array that has one."""
        return {a: a.grad for a in self._arrays()}

    def zero(self) -> None:
        """Set the gradients of all recorded arrays to zero."""
        for a in self._arrays():
            a._attach_grad()
            a.grad.zero_()

    def reset(self) -> None:
        """Forget all launches, and set their arrays' gradients to zero."""
        self.zero()
        self.launches = []
        self.loss = None

    def record_func(self, backward: Callable[[], None], arrays: Sequence[array]) -> None:
        """Record a function that ``backward`` calls at this place.

        Args:
            backward: Adds to the gradients of its inputs from those of its outputs.
            arrays: All arrays with gradients that it uses, so that ``zero`` finds them.
        """
        self.launches.append(_Function(backward, arrays))


def _gradients(record: Record) -> dict[int, array]:
    """The gradient of each array argument that has one, by position."""
    found = {}
    for i, (t, a) in enumerate(zip(record.types, record.args, strict=True)):
        if isinstance(t, Array) and is_differentiable(t) and a.requires_grad:
            found[i] = a.grad
    return found


__all__ = ["Tape"]
