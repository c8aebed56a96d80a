"""Reversing loops: which carried values are saved, and how the iterations are numbered on the way back.

A carried value that the number of the iteration tells is not saved but computed again: one that never changes, and an
integer that each iteration changes by the same amount. Others are saved also where they could be had otherwise: to
save and take back four bytes takes a thread 0.1 ns in lanes, which is what a multiplication takes that would run a
random number generator's state backwards; and floats have no exact inverse (``t + dt - dt`` need not be ``t``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from warp_like.analysis.intervals import type_range, within
from warp_like.analysis.ranges import Ranges
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.trips import counter_type, trip_count
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, int64

Loop = ops.For | ops.While
Steps = dict[int, tuple[str, Value] | None]
"""By position, what each iteration adds or subtracts of a carried value; None for a value that stays the same."""


def carried_values(loop: Loop) -> list[Value]:
    """The loop's carried values as its body sees them."""
    return loop.body.params[1:] if isinstance(loop, ops.For) else loop.body.params


def find_strides(loop: Loop, outside: Collection[Value]) -> Steps:
    """Return the carried values that need no saving; ``outside`` are those that the body uses from outside."""
    found: Steps = {}
    for k, (c, y) in enumerate(zip(carried_values(loop), loop.body.yielded, strict=True)):
        if y is c:
            found[k] = None
        elif isinstance(c.type, Scalar) and c.type.is_int and isinstance(y.op, ops.Apply):
            args = y.op.args
            for at, step in ((0, args[-1]), (1, args[0])):
                known = step in outside or isinstance(step.op, ops.Constant)
                if len(args) == 2 and args[at] is c and known and y.op.fn in ("add", "sub")[: 2 - at]:
                    found[k] = (y.op.fn, step)
    return found


class ReversedLoop:
    """A loop whose iterations run backwards, at one place of the adjoint.

    Args:
        loop: The loop of the primal.
        steps: Its carried values that are computed.
        trips: The number of iterations of a ``while`` loop.
        value: What a value of the primal is at this place.
    """

    def __init__(self, loop: Loop, steps: Steps, trips: Value | None, value: Callable[[Value], Value]) -> None:
        self.loop = loop
        self.steps = steps
        self.trips = trips
        self.value = value
        self.counts_down = self._counts_down()

    def _counts_down(self) -> bool:
        """Whether the reversed loop counts by the index itself: its end, a step before ``lo``, does not wrap then.

        Any other reversed loop over a range counts its iterations, from 0 on.
        """
        loop = self.loop
        step = ops.constant_value(loop.step) if isinstance(loop, ops.For) else None
        if not isinstance(loop, ops.For) or not step:
            return False
        (low, high), ends = Ranges().of(self.value(loop.lo)), type_range(scalar_type(loop.lo))
        return within((low - step, high - step), ends) and within((-step, -step), ends)

    def range(self, b: Emitter) -> tuple[Value, Value, Value]:
        """The bounds that give the same indices in reverse order, or as many numbers."""
        if isinstance(self.loop, ops.While):
            assert self.trips is not None
            return b.zero(int64), self.trips, b.constant(1, int64)
        lo, hi, step = (self.value(v) for v in (self.loop.lo, self.loop.hi, self.loop.step))
        if not self.counts_down:
            self.trips = trip_count(b, lo, hi, step)
            return b.zero(self.trips.type), self.trips, b.constant(1, self.trips.type)
        if ops.is_scalar_constant(step, 1):
            last = b.sub(hi if Ranges().of(hi)[0] > type_range(scalar_type(hi))[0] else b.max(lo, hi), 1)
        else:
            last = b.add(lo, b.mul(b.cast(b.sub(trip_count(b, lo, hi, step), 1), lo.type), step))
        return last, b.sub(lo, step), b.neg(step)

    def index(self, b: Emitter, i: Value) -> Value:
        """The index of the iteration at index ``i`` of the reversed range."""
        assert isinstance(self.loop, ops.For)
        if self.counts_down:
            return i
        lo, step = self.value(self.loop.lo), self.value(self.loop.step)
        return b.add(lo, b.mul(b.cast(self._number(b, i), lo.type), step))

    def computed(self, b: Emitter, i: Value) -> dict[Value, Value]:
        """The carried values that need no saving, at index ``i`` of the reversed range."""
        found, number = {}, None
        for k, change in self.steps.items():
            c, start = carried_values(self.loop)[k], self.value(self.loop.init[k])
            if change is None:
                found[c] = start
                continue
            number = number or self._number(b, i)
            name, step = change
            constant = ops.constant_value(step)
            by = self.value(step) if constant is None else b.constant(constant, c.type)
            total = b.mul(b.cast(number, c.type), by)
            found[c] = b.add(start, total) if name == "add" else b.sub(start, total)
        return found

    def _number(self, b: Emitter, i: Value) -> Value:
        """The number of the iteration at index ``i`` of the reversed range, the first being 0; unsigned for a range."""
        if not self.counts_down:
            assert self.trips is not None
            return b.sub(b.sub(self.trips, 1), i)
        assert isinstance(self.loop, ops.For)
        t = counter_type(scalar_type(self.loop.lo))
        lo, step = self.value(self.loop.lo), self.value(self.loop.step)
        past = b.sub(b.cast(self.value(self.loop.body.params[0]), t), b.cast(lo, t))
        rising = ops.constant_value(step) > 0
        return b.div(past if rising else b.neg(past), b.cast(step if rising else b.neg(step), t))
