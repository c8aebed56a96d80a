"""Sums of earlier backward passes in gradients: a pass adds to them, and does not start from them.

The reverse sweep consumes the adjoint of what a launch overwrites. Other gradients stay in their arrays: those of
inputs, of arrays that launches add to or update in place, and of arrays that are read before they are overwritten. If
launches write to such an array, the next sweep would take its gradient for the adjoint of what they wrote. So it is put
aside meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warp_like import _native
from warp_like.runtime.arrays import nested
from warp_like.runtime.arrays.adding import add_elements
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import clone
from warp_like.runtime.arrays.recording import Record, UserFunction, Write, program_of
from warp_like.runtime.autodiff.history import share_memory
from warp_like.runtime.memory.recorder import recorder

Start = tuple[array, array | float]


class HeldGradients:
    """The gradients that arrays of a tape hold when a backward pass starts."""

    def __init__(self) -> None:
        self._held: list[tuple[array, array]] = []

    def put_aside(self, launches: Sequence[Record | Write | UserFunction], starts: Sequence[Start]) -> list[Start]:
        """Let nothing but ``starts`` be an adjoint to start from; return them with adjoints that this has not changed.

        Args:
            launches: What the tape has recorded.
            starts: Arrays with the adjoints that they are about to get.
        """
        gradients = [g for a in updated(launches) if (g := a.grad) is not None and g.size]
        own = [g for a, _ in starts if (g := a.grad) is not None]
        given = [(a, unchanged(seed, [*gradients, *own])) for a, seed in starts]
        for g in own:
            g.zero_()
        for g in gradients:
            if not _is_zero(g):
                self._held.append((g, clone(g, requires_grad=False)))
                g.zero_()
        return given

    def put_back(self) -> None:
        """Add what was put aside."""
        for g, sums in self._held:
            add_elements(g, sums)
        self._held = []


def updated(launches: Sequence[Record | Write | UserFunction]) -> Iterator[array]:
    """Iterate over the arrays that are written to and keep a gradient: they are read by the same launch or before."""
    read = _native.IntervalMap()
    for r in launches:
        if isinstance(r, UserFunction):
            reads, writes = list(r.arrays), []
        elif isinstance(r, Write):
            reads, writes = [r.source] if r.source is not None else [], [r.dest]
        else:
            effects = program_of(r).effects
            reads = [*(r.args[i] for i in effects.reads), *_inside(r, effects.nested_reads)]
            writes = [*(r.args[i] for i in effects.writes), *_inside(r, effects.nested_writes)]
        for a in reads:
            if isinstance(a, array) and a.size:
                read.add(a, None)
        yield from (a for a in writes if isinstance(a, array) and a.grad is not None and read.overlapping(a))


def _inside(r: Record, places: Sequence[tuple[int, str]]) -> Iterator[array]:
    """Iterate over the arrays that elements of arguments of ``r`` hold in these fields."""
    return (a for i, path in places for a in nested.arrays_at(r.args[i], path))


def unchanged(seed: array | float, gradients: Sequence[array]) -> array | float:
    """Return an adjoint to start from, as it is now, where ``gradients`` are about to change."""
    if isinstance(seed, array) and any(share_memory(seed, g) for g in gradients):
        return clone(seed, requires_grad=False)
    return seed


def _is_zero(gradient: array) -> bool:
    """Whether a gradient is known to be zero now, and when what is captured runs."""
    if recorder.graph is not None or not gradient.device.is_cpu or gradient.element.is_struct:
        return False
    return not gradient.numpy().any()
