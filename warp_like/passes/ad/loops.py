"""Reversing loops: save the carried values on the way forward, take them back on the way back.

A carried value that the number of the iteration tells is not saved but computed again: one that never changes, and an
integer that each iteration changes by the same amount. Others are saved also where they could be had otherwise: to
save and take back four bytes takes a thread 0.1 ns in lanes, which is what a multiplication takes that would run a
random number generator's state backwards; and floats have no exact inverse (``t + dt - dt`` need not be ``t``).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from warp_like.analysis.intervals import type_range, within
from warp_like.analysis.ranges import Ranges
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.trips import counter_type, trip_count
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Array, Scalar, int64
from warp_like.passes.ad.adjoints import sum_of, wide_type

if TYPE_CHECKING:
    from warp_like.passes.ad.reverse import Reversal


class LoopReversal:
    """One loop at one place of the forward sweep, and later its reverse."""

    def __init__(self, reversal: Reversal, loop: ops.For | ops.While) -> None:
        self.r = reversal
        self.loop = loop
        self.trips = Value(int64, "trips")  # of a while loop stands for the number of iterations
        self.steps = self._find_steps()
        self.slots = [reversal.new_slot() for _ in self.saved()]

    @property
    def carried(self) -> list[Value]:
        """The loop's carried values as its body sees them."""
        return self.loop.body.params[1:] if isinstance(self.loop, ops.For) else self.loop.body.params

    def _find_steps(self) -> dict[int, tuple[str, Value] | None]:
        """Return, by position, what each iteration adds or subtracts of the carried values that need no saving.

        None stands for a value that stays the same.
        """
        outside: set[Value] = set()
        found: dict[int, tuple[str, Value] | None] = {}
        for k, (c, y) in enumerate(zip(self.carried, self.loop.body.yielded, strict=True)):
            if y is c:
                found[k] = None
            elif isinstance(c.type, Scalar) and c.type.is_int and isinstance(y.op, ops.Apply):
                outside = outside or set(self.r.free_values(self.loop.body))
                args = y.op.args
                for at, step in ((0, args[-1]), (1, args[0])):
                    known = step in outside or isinstance(step.op, ops.Constant)
                    if len(args) == 2 and args[at] is c and known and y.op.fn in ("add", "sub")[: 2 - at]:
                        found[k] = (y.op.fn, step)
        return found

    def saved(self) -> list[Value]:
        """The carried values that each iteration saves."""
        return [c for k, c in enumerate(self.carried) if k not in self.steps]

    def forward(self) -> None:
        """Emit the loop with a push of each carried value at the start of each iteration."""
        if isinstance(self.loop, ops.For):
            self._forward_for(self.loop)
        else:
            self._forward_while(self.loop)

    def _forward_for(self, loop: ops.For) -> None:
        r = self.r
        body = self._saving_body(loop.body, None)
        init = [r.value(v) for v in loop.init]
        results = r.b.for_(r.value(loop.lo), r.value(loop.hi), r.value(loop.step), init, body)
        r.cloner.mapping.update(zip(loop.results, results, strict=True))

    def _forward_while(self, loop: ops.While) -> None:
        r = self.r
        cond = r.condition(loop.cond)
        cond.params.append(Value(int64, "trips"))
        body = self._saving_body(loop.body, Value(int64, "trips"))
        init = [*(r.value(v) for v in loop.init), r.b.zero(int64)]
        results = r.b.while_(init, cond, body)
        r.cloner.mapping.update(zip([*loop.results, self.trips], results, strict=True))

    def _saving_body(self, body: Block, trips: Value | None) -> Block:
        r = self.r
        block = Block([Value(p.type, p.hint) for p in body.params])
        r.cloner.mapping.update(zip(body.params, block.params, strict=True))
        with r.b.into(block):
            self.fill_iteration(body)
            values = [r.value(v) for v in body.yielded]
            if trips is not None:
                block.params.append(trips)
                values.append(r.b.add(trips, 1))
            r.b.yield_(*values)
        return block

    def fill_iteration(self, body: Block) -> None:
        """Emit one iteration of the forward sweep."""
        r = self.r
        for slot, v in zip(self.slots, self.saved(), strict=True):
            r.b.insert(ops.Push(slot, r.value(v)))
        for o in body.ops[:-1]:
            r.recompute(o)

    def reverse(self) -> None:
        """Emit the loop that runs the iterations backwards."""
        r, loop = self.r, self.loop
        final = r.adjoints.take_all(loop.results)
        if all(g is None for g in final) and not r.writes_adjoints(loop):
            return  # the pushes have no pops and go with the dead code
        active = [k for k, c in enumerate(self.carried) if c in r.varied]
        outer = [v for v in r.free_values(loop.body) if v in r.varied and not isinstance(v.type, Array)]
        lo, hi, step = self._reversed_range(r.b)
        init = [r.or_zero(final[k], self.carried[k]) for k in active]
        init += [r.b.zero(wide_type(v.type)) for v in outer]
        i = Value(lo.type, loop.body.params[0].hint if isinstance(loop, ops.For) else "")
        params = [Value(v.type, f"adj_{v.hint}" if v.hint else "") for v in init]
        body = self._reversed_body(i, params, active, outer)
        results = r.b.for_(lo, hi, step, init, body)
        for k, g in zip(active, results, strict=False):
            r.send(loop.init[k], g)
        for v, g in zip(outer, results[len(active) :], strict=True):
            r.send(v, r.b.cast(g, v.type))

    def _reversed_body(self, i: Value, params: list[Value], active: list[int], outer: list[Value]) -> Block:
        r, source = self.r, self.loop.body
        with r.scope([i, *params]) as (block, local):
            if isinstance(self.loop, ops.For):
                r.cloner.mapping[source.params[0]] = self._index(r.b, i)
            self._compute_carried(i)
            self.enter_iteration()
            for k, g in zip(active, params, strict=False):
                r.send(source.yielded[k], g)
            r.reverse(source.ops[:-1])
            values = []
            for k in active:
                values.append(r.or_zero(local.take(self.carried[k]), self.carried[k]))
            for v, acc in zip(outer, params[len(active) :], strict=True):
                more = local.take(v)
                values.append(acc if more is None else sum_of(r.b, acc, more))
            r.b.yield_(*values)
        return block

    def _compute_carried(self, i: Value) -> None:
        """Make known what needs no saving, at index ``i`` of the reversed range."""
        r, number = self.r, None
        for k, change in self.steps.items():
            c, start = self.carried[k], r.value(self.loop.init[k])
            if change is None:
                r.cloner.mapping[c] = start
                continue
            number = number or self._number(r.b, i)
            name, step = change
            constant = ops.constant_value(step)
            by = r.value(step) if constant is None else r.b.constant(constant, c.type)
            total = r.b.mul(r.b.cast(number, c.type), by)
            r.cloner.mapping[c] = r.b.add(start, total) if name == "add" else r.b.sub(start, total)

    def _number(self, b: Emitter, i: Value) -> Value:
        """The number of the iteration at index ``i`` of the reversed range, the first being 0; unsigned for a range."""
        if isinstance(self.loop, ops.While):  # whose reversed range counts up
            return b.sub(b.sub(self.r.value(self.trips), 1), i)
        if not self.counts_down:
            return b.sub(b.sub(self.trips, 1), i)
        t = counter_type(scalar_type(self.loop.lo))
        lo, step = self.r.value(self.loop.lo), self.r.value(self.loop.step)
        past = b.sub(b.cast(self.r.value(self.loop.body.params[0]), t), b.cast(lo, t))
        rising = ops.constant_value(step) > 0
        return b.div(past if rising else b.neg(past), b.cast(step if rising else b.neg(step), t))

    def enter_iteration(self) -> None:
        """Make the values of one iteration known at the start of its reverse."""
        r = self.r
        for slot, c in reversed(list(zip(self.slots, self.saved(), strict=True))):
            r.cloner.mapping[c] = r.b.insert(ops.Pop(slot), c.type, hint=c.hint).result
        r.enter(self.loop.body)

    @functools.cached_property
    def counts_down(self) -> bool:
        """Whether the reversed loop counts by the index itself: its end, a step before ``lo``, does not wrap then.

        Any other reversed loop over a range counts its iterations, from 0 on.
        """
        loop = self.loop
        step = ops.constant_value(loop.step) if isinstance(loop, ops.For) else None
        if not isinstance(loop, ops.For) or not step:
            return False
        (low, high), ends = Ranges().of(self.r.value(loop.lo)), type_range(scalar_type(loop.lo))
        return within((low - step, high - step), ends) and within((-step, -step), ends)

    def _reversed_range(self, b: Emitter) -> tuple[Value, Value, Value]:
        """The bounds that give the same indices in reverse order, or as many numbers."""
        if isinstance(self.loop, ops.While):
            return b.zero(int64), self.r.value(self.trips), b.constant(1, int64)
        lo, hi, step = (self.r.value(v) for v in (self.loop.lo, self.loop.hi, self.loop.step))
        if not self.counts_down:
            self.trips = trip_count(b, lo, hi, step)
            return b.zero(self.trips.type), self.trips, b.constant(1, self.trips.type)
        if ops.is_scalar_constant(step, 1):
            last = b.sub(hi if Ranges().of(hi)[0] > type_range(scalar_type(hi))[0] else b.max(lo, hi), 1)
        else:
            last = b.add(lo, b.mul(b.cast(b.sub(trip_count(b, lo, hi, step), 1), lo.type), step))
        return last, b.sub(lo, step), b.neg(step)

    def _index(self, b: Emitter, i: Value) -> Value:
        """The index of the iteration at index ``i`` of the reversed range."""
        assert isinstance(self.loop, ops.For)
        if self.counts_down:
            return i
        lo, step = self.r.value(self.loop.lo), self.r.value(self.loop.step)
        return b.add(lo, b.mul(b.cast(self._number(b, i), lo.type), step))
