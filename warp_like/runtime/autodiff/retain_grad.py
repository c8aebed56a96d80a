"""Keeping the gradients of intermediate arrays: ``retain_grad``.

The reverse sweep consumes the adjoint of what a launch overwrites: it leaves 0, since what stood there before had no
influence. An array with ``retain_grad`` shows the adjoint of what the recorded program left in it all the same. A copy
is taken before the sweep first consumes it and put back at the end, so that no earlier launch takes it for its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import clone
from warp_like.runtime.autodiff.history import share_memory
from warp_like.runtime.memory.recorder import refuse_capture


class Retained:
    """The retained gradients of one tape, by the array's identity."""

    def __init__(self) -> None:
        self.waiting: dict[int, array] = {}  # not yet consumed in this backward pass
        self.earlier: dict[int, array] = {}  # the sums of the passes before
        self.saved: list[tuple[array, array]] = []  # with the adjoint of this backward pass
        self.shown: dict[int, array] = {}  # what the last pass left in `grad`

    def begin(self, arrays: Iterable[array], starts: Iterable[array]) -> None:
        """Start a backward pass: what the last one left to be seen is no adjoint to start from.

        Args:
            arrays: Those with ``retain_grad``.
            starts: Those that the caller gives adjoints for.
        """
        self.waiting = {id(a): a for a in arrays}
        if self.waiting:
            refuse_capture("retain_grad")
        self.saved = []
        given = set(map(id, starts))
        known = {key: shown for key in self.waiting if key not in given and (shown := self.shown.get(key)) is not None}
        self.earlier = {k: x for k, x in known.items() if np.array_equal(x.numpy(), _grad(self.waiting[k]).numpy())}
        for key in self.earlier:  # when all have been compared, as views share gradients
            _grad(self.waiting[key]).zero_()

    def before(self, consumed: list[array]) -> None:
        """Keep the adjoints that are about to be consumed."""
        for key, a in list(self.waiting.items()):
            if any(share_memory(a, c) for c in consumed):
                self.saved.append((a, clone(_grad(a), requires_grad=False)))
                del self.waiting[key]

    def end(self) -> None:
        """Put what was kept back, added to that of earlier passes."""
        self.shown = {}
        for a, adjoint in self.saved:
            earlier = self.earlier.get(id(a))
            _grad(a).assign(adjoint if earlier is None else adjoint._values() + earlier._values())
            self.shown[id(a)] = clone(_grad(a), requires_grad=False)
        for key in self.waiting.keys() & self.earlier.keys():  # nothing has consumed it this time
            a = self.waiting[key]
            _grad(a).assign(_grad(a)._values() + self.earlier[key]._values())
        self.saved = []


def _grad(a: array) -> array:
    assert a.grad is not None
    return a.grad
