"""Speculated contiguity: indices that are consecutive in nearly all vectors, as neighbours across a grid's edge.

``where(j > 0, j - 1, n - 1)``, ``max(j - 1, 0)`` and ``(j + 1) % n`` have no known stride, yet they are consecutive in
nearly every vector of threads. The builder speculates on this: it notes what the first lane would be, and an access
with such a value as its last index checks all lanes. Where they are consecutive, it loads or stores a whole vector;
else it gathers.
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


class SpeculatedIndices(LaneBuilder):
    """Speculates on first lanes: ``first`` has that of a value of the old function, a scalar of the new one."""

    def speculate(self, o: Op) -> None:
        """Note whether the result of ``o`` may be consecutive, now that it has been widened."""
        if len(o.results) != 1 or not _is_index(o.result) or self.strides[o.result] is not None:
            return
        match o:
            case ops.Apply(fn="where", args=(Value(op=ops.Apply(fn="lt", args=(x, zero))), a, b)) if (
                x is b and ops.is_scalar_constant(zero, 0)
            ):
                self.speculate_one_of(o.result, b, a)  # an index that counts from the end where it is negative
                if self.strides[b] == 1:
                    self.elsewhere[o.result] = o.args[0]
            case ops.Apply(fn="where", args=(_, a, b)):
                self.speculate_one_of(o.result, a, b)
            case ops.Apply(fn="min" | "max", args=(a, b)):
                self.speculate_one_of(o.result, a, b)
            case ops.Apply(fn="add" | "sub", args=(a, b)) if (
                self.strides[b] == 0 and (first := self.speculated_first(a)) is not None
            ):
                self.first[o.result] = self.b.apply(o.fn, first, self.scalar(b))
            case ops.Apply(fn="add", args=(a, b)) if (
                self.strides[a] == 0 and (first := self.speculated_first(b)) is not None
            ):
                self.first[o.result] = self.b.add(self.scalar(a), first)
            case ops.Cast(x=x) if _is_index(x) and (first := self.speculated_first(x)) is not None:
                self.first[o.result] = self.b.cast(first, o.result.type)

    def speculate_one_of(self, result: Value, *choices: Value) -> None:
        """Speculate that ``result`` is the first of ``choices`` that may be consecutive."""
        for v in choices:
            first = self.speculated_first(v)
            if first is not None and v.type == result.type:
                self.first[result] = first
                return

    def speculated_first(self, v: Value) -> Value | None:
        """The first lane of ``v`` if its lanes are consecutive, or speculated to be; else None."""
        return self.scalar(v) if self.strides[v] == 1 else self.first.get(v)

    def remainder(self, o: ops.Apply) -> bool:
        """Widen a remainder of consecutive integers: they are divided one by one only where they pass a multiple."""
        a, n = o.args
        if not (_is_index(o.result) and self.strides[a] == 1 and self.strides[n] == 0):
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
            self.b.yield_(self.b.insert(ops.Iota(first, 1), t).result)
        with self.b.into(Block()) as passing:
            self.b.yield_(self.b.insert(ops.Apply("mod", (self.lanes(a), self.lanes(n))), t).result)
        (self.map[o.result],) = self.b.if_(fits, consecutive, passing)
        self.first[o.result] = first
        return True

    def speculated_access(
        self, indices: Sequence[Value], access: Callable[[tuple[Value, ...]], tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        """What ``access`` gives at ``indices`` of the old function, the last of them consecutive where that holds."""
        *outer, last = indices
        given = tuple(map(self.index, indices))
        first = self.first.get(last)
        if first is None or any(self.strides[i] != 0 for i in outer):
            return access(given)
        sequence = self.b.insert(ops.Iota(first, 1), self.wide(last.type)).result
        other = self.elsewhere.get(last)  # where this holds, they are others: most accesses of a kernel share the test
        differ = self.apply("ne", given[-1], sequence) if other is None else self.lanes(other)
        apart = self.any(self.apply("bit_and", self.mask, differ))
        blocks = []
        for at in (given[-1], sequence):
            with self.b.into(Block()) as block:
                self.b.yield_(*access((*given[:-1], at)))
            blocks.append(block)
        return self.b.if_(apart, *blocks)


def speculated_side(o: ops.If) -> Block | None:
    """The side of ``o`` that is speculated to run, where it tests whether indices are consecutive; else None."""
    if len(o.results) == 1:
        (then,), (orelse,) = (r.yielded for r in o.regions())
        if isinstance(then.op, ops.Iota) and isinstance(orelse.op, ops.Apply) and orelse.op.fn == "mod":
            return o.then
    general, contiguous = (r.ops[0] for r in o.regions())
    if isinstance(o.cond.op, ops.LaneReduce) and isinstance(general, _ACCESSES) and isinstance(contiguous, _ACCESSES):
        return o.orelse if isinstance(contiguous.indices[-1].op, ops.Iota) else None
    return None


def _is_index(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int and v.type.is_signed and v.type.bits >= 32
