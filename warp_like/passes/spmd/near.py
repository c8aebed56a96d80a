"""Indices that grow by one from lane to lane but at few places: neighbours across the edge of a grid.

``where(j > 0, j - 1, n - 1)``, ``max(j - 1, 0)`` and ``(j + 1) % n`` have no known step, yet nearly every vector of
threads has consecutive ones. Such a value has a guess, what its first lane is if they are consecutive, and an access
with it as the last index asks whether the guess holds for all lanes: then it is no gather.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.analysis.intervals import type_range
from warp_like.builtins.emit import scalar_type
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Scalar
from warp_like.passes.spmd.values import LaneBuilder

_ACCESSES = (ops.Load, ops.Store)


class NearIndices(LaneBuilder):
    """Guesses first lanes; ``first`` has the guess of a value of the old function, a scalar of the new one."""

    def guess(self, o: Op) -> None:
        """Note what the result of ``o`` may be near to, now that it has been widened."""
        if len(o.results) != 1 or not _is_index(o.result) or self.steps[o.result] is not None:
            return
        match o:
            case ops.Apply(fn="where", args=(_, a, b)):
                self.guess_one_of(o.result, a, b)
            case ops.Apply(fn="min" | "max", args=(a, b)):
                self.guess_one_of(o.result, a, b)
            case ops.Apply(fn="add" | "sub", args=(a, b)) if self.steps[b] == 0 and (first := self.near(a)) is not None:
                self.first[o.result] = self.b.apply(o.fn, first, self.scalar(b))
            case ops.Apply(fn="add", args=(a, b)) if self.steps[a] == 0 and (first := self.near(b)) is not None:
                self.first[o.result] = self.b.add(self.scalar(a), first)
            case ops.Cast(x=x) if _is_index(x) and (first := self.near(x)) is not None:
                self.first[o.result] = self.b.cast(first, o.result.type)

    def guess_one_of(self, result: Value, *choices: Value) -> None:
        """Note that ``result`` is near to the first of ``choices`` that has neighbours in neighbouring lanes."""
        for v in choices:
            first = self.near(v)
            if first is not None and v.type == result.type:
                self.first[result] = first
                return

    def near(self, v: Value) -> Value | None:
        """The first lane of ``v`` if lanes are consecutive, where that is to be expected."""
        return self.scalar(v) if self.steps[v] == 1 else self.first.get(v)

    def remainder(self, o: ops.Apply) -> bool:
        """Widen a remainder of consecutive integers: they are divided one by one only where they pass a multiple."""
        a, n = o.args
        if not (_is_index(o.result) and self.steps[a] == 1 and self.steps[n] == 0):
            return False
        divisor = ops.constant_value(n)
        if divisor is not None and divisor < self.width:
            return False  # every vector passes a multiple
        first = self.b.apply("mod", self.scalar(a), self.scalar(n))
        top = self.width - 1
        fits = self.b.lt(first, self.b.sub(self.scalar(n), top))
        fits = self.b.bit_and(self.b.gt(self.scalar(n), top), fits)  # else the difference may overflow
        low, high = self.ranges.of(a)
        if low < 0:
            fits = self.b.bit_and(self.b.ge(self.scalar(a), 0), fits)  # negative ones have remainders up to 0
        if high + top > type_range(scalar_type(a))[1]:
            fits = self.b.bit_and(self.b.ge(self.b.add(self.scalar(a), top), 0), fits)  # and so have those that wrap
        t = self.wide(o.result.type)
        with self.b.into(Block()) as consecutive:
            self.b.yield_(self.b.insert(ops.Ramp(first, 1), t).result)
        with self.b.into(Block()) as passing:
            self.b.yield_(self.b.insert(ops.Apply("mod", (self.lanes(a), self.lanes(n))), t).result)
        (self.map[o.result],) = self.b.if_(fits, consecutive, passing)
        self.first[o.result] = first
        return True

    def guessed(
        self, indices: Sequence[Value], access: Callable[[tuple[Value, ...]], tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        """What ``access`` gives at ``indices`` of the old function, the last of them consecutive where that holds."""
        *outer, last = indices
        given = tuple(map(self.index, indices))
        first = self.first.get(last)
        if first is None or any(self.steps[i] != 0 for i in outer):
            return access(given)
        ramp = self.b.insert(ops.Ramp(first, 1), self.wide(last.type)).result
        apart = self.any(self.apply("bit_and", self.mask, self.apply("ne", given[-1], ramp)))
        blocks = []
        for at in (given[-1], ramp):
            with self.b.into(Block()) as block:
                self.b.yield_(*access((*given[:-1], at)))
            blocks.append(block)
        return self.b.if_(apart, *blocks)


def expected_side(o: ops.If) -> Block | None:
    """The side of ``o`` that nearly always runs, where it asks whether indices are consecutive; else None."""
    if len(o.results) == 1:
        (then,), (orelse,) = (r.yielded for r in o.regions())
        if isinstance(then.op, ops.Ramp) and isinstance(orelse.op, ops.Apply) and orelse.op.fn == "mod":
            return o.then
    far, near = (r.ops[0] for r in o.regions())
    if isinstance(o.cond.op, ops.Across) and isinstance(far, _ACCESSES) and isinstance(near, _ACCESSES):
        return o.orelse if isinstance(near.indices[-1].op, ops.Ramp) else None
    return None


def _is_index(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int and v.type.is_signed and v.type.bits >= 32
