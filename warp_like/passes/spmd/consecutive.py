"""Rows that lanes go along: several iterations of a loop at once, so that each lane loads or stores neighbours.

Where each lane has a row of an array and a loop goes along it, as with the tiles and matrices of blocks in lanes, an
iteration gathers elements that lie apart, one for each lane. A few iterations together take from each lane's row a few
elements that follow on each other: one vector load for each lane, and a transposition in registers.

What must hold for it:

* Every iteration is run by the same lanes, and the last index grows by one from each to the next. Integers wrap, but a
  signed index that did would be negative, and no lane at work has such an index.
* Loads happen earlier than they did, and stores later, so nothing else in the loop may touch the same memory: a loop
  with such loads writes to arrays of the lanes' own alone; one with such a store has one, and reads nothing else.

Relies on ``widen``. Leaves ops on ``Lanes``; below, for four lanes.

Before::

    kernel k(%x: array2d[float32], %out: array1d[float32], %n: int32) {
      %0 = active_mask : bool x 4
      %1 = tid 0 of 1 : int32
      %2 = constant 0.0 : float32
      %3 = constant 0 : int32
      %4 = constant 1 : int32
      %5 = broadcast %2 : float32 x 4
      %6 = for %i in %3, %n, %4 (%7 = %5) : float32 x 4 {
        %8 = iota 1 %1 : int32 x 4
        %9 = load %x[%8, %i] if %0 : float32 x 4
        %10 = add %7, %9 : float32 x 4
        yield %10
      }
      %11 = iota 1 %1 : int32 x 4
      store %out[%11], %6 if %0
      yield
    }

After::

    kernel k(%x: array2d[float32], %out: array1d[float32], %n: int32) {
      %0 = active_mask : bool x 4
      %1 = tid 0 of 1 : int32
      %2 = constant 0.0 : float32
      %3 = constant 0 : int32
      %4 = constant 1 : int32
      %5 = broadcast %2 : float32 x 4
      %6 = constant -4 : int32
      %7 = bit_and %n, %6 : int32
      %8 = lt %3, %n : bool
      %9 = constant 0 : int32
      %10 = where %8, %7, %9 : int32
      %11 = constant 4 : int32
      %12 = for %i in %3, %10, %11 (%13 = %5) : float32 x 4 {
        %14 = iota 1 %1 : int32 x 4
        %15, %16, %17, %18 = load_consecutive %x[%14, %i] if %0 : float32 x 4, float32 x 4, float32 x 4, float32 x 4
        %19 = add %13, %15 : float32 x 4
        %20 = constant 1 : int32
        %21 = add %i, %20 : int32
        %22 = iota 1 %1 : int32 x 4
        %23 = add %19, %16 : float32 x 4
        %24 = constant 2 : int32
        %25 = add %i, %24 : int32
        %26 = iota 1 %1 : int32 x 4
        %27 = add %23, %17 : float32 x 4
        %28 = constant 3 : int32
        %29 = add %i, %28 : int32
        %30 = iota 1 %1 : int32 x 4
        %31 = add %27, %18 : float32 x 4
        yield %31
      }
      %32 = for %i.1 in %10, %n, %4 (%33 = %12) : float32 x 4 {
        %34 = iota 1 %1 : int32 x 4
        %35 = load %x[%34, %i.1] if %0 : float32 x 4
        %36 = add %33, %35 : float32 x 4
        yield %36
      }
      %37 = iota 1 %1 : int32 x 4
      store %out[%37], %32 if %0
      yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.analysis.intervals import type_range
from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Lanes, Scalar, is_private, lane_type
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.spmd.cost import cut_to
from warp_like.passes.unroll import trip_count

BLOCK_BITS = 128
"""The bits of a lane's elements that are loaded at once: vector instructions transpose within as many."""
LARGEST = 40
"""The most ops of a loop."""
LINE_BITS, LARGEST_OF_LINES = 512, 16
"""The bits of a line of the cache, and the most ops of a loop that takes as many at once, if the lanes are as many.
Rows that begin a power of two apart share few places of the first cache: a line that is loaded in pieces is gone before
the next piece is asked for. Factors of 32 x 32 take 0.45 of the time."""


def load_consecutively(f: Function) -> Function:
    """Rewrite the loops of ``f``, which is in lanes, in place."""
    return rewrite(f, _Rewriter(f))


class _Rewriter(Rewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.ranges = find_ranges(f)
        self.width = f.schedule.lanes

    def visit(self, o: Op) -> None:
        found = _Loop(o, self.width) if isinstance(o, ops.For) and len(o.body.ops) <= LARGEST else None
        if found is None or not found.count or self.width % found.count or not self.is_countable(found.loop):
            super().visit(o)
            return
        with at(o.loc):
            self.replace(o, self.in_steps(found, found.count))

    def is_countable(self, o: ops.For) -> bool:
        """Whether the iterations of ``o`` are as many as its type can count."""
        t = o.lo.type
        assert isinstance(t, Scalar)
        return self.ranges.of(o.hi)[1] - self.ranges.of(o.lo)[0] <= type_range(t)[1]

    def in_steps(self, found: _Loop, count: int) -> tuple[Value, ...]:
        """Run ``count`` iterations at once, then the rest."""
        o, b = found.loop, self.b
        known = trip_count(o)
        from_zero = ops.is_scalar_constant(o.lo, 0)
        whole: Value = b.bit_and(o.hi if from_zero else b.sub(o.hi, o.lo), -count)
        if self.ranges.of(o.hi)[0] < self.ranges.of(o.lo)[1]:
            whole = b.select(b.lt(o.lo, o.hi), whole, b.zero(whole.type))
        middle = whole if from_zero else b.add(o.lo, whole)
        made = b.for_(o.lo, middle, b.constant(count, o.lo.type), o.init, self.steps(found, count))
        if known is not None and known % count == 0:
            return tuple(made)
        rest = Cloner(dict(self.mapping)).block(o.body)  # what it uses may have been replaced
        return tuple(b.for_(middle, o.hi, o.step, made, rest))

    def steps(self, found: _Loop, count: int) -> Block:
        i, *params = (Value(p.type, p.hint) for p in found.loop.body.params)
        loaded: dict[Op, Sequence[Value]] = {}
        stored: list[Value] = []
        place: tuple[Value, ...] = ()
        carried: list[Value] = params
        with self.b.into(Block([i, *params])) as block:
            for k in range(count):
                number = self.b.add(i, k) if k else i
                cloner = Cloner({**self.mapping, **dict(zip(found.loop.body.params, (number, *carried), strict=True))})
                for o in found.loop.body.ops[:-1]:
                    if o not in found.accesses:
                        self.b.block.ops.append(cloner.op(o))
                        continue
                    array, indices = cloner.value(o.array), tuple(map(cloner.value, o.indices))
                    if isinstance(o, ops.Load):
                        if not k:
                            made = ops.LoadConsecutive(array, indices, o.mask)
                            loaded[o] = self.b.insert(made, *[o.result.type] * count).results
                        cloner.mapping[o.result] = loaded[o][k]
                        continue
                    place = place or indices
                    stored.append(cloner.value(o.value))
                    if len(stored) == count:
                        self.b.insert(ops.StoreConsecutive(array, place, tuple(stored), o.mask))
                carried = [cloner.value(v) for v in found.loop.body.yielded]
            self.b.yield_(*carried)
        return block


class _Loop:
    """A loop, and the accesses in it that go along a row in each lane.

    Attributes:
        loop: The loop.
        accesses: All of its loads and stores that are of this kind, or none.
        count: How many iterations go together; 0 where there are no such accesses.
    """

    def __init__(self, loop: ops.For, width: int) -> None:
        self.loop = loop
        self.accesses: list[ops.Load | ops.Store] = []
        self.count = 0
        body = loop.body.ops[:-1]
        if not ops.is_scalar_constant(loop.step, 1) or any(o.regions() for o in body):
            return
        self._fixed = self._find_fixed(body)
        touching = [o for o in body if isinstance(o, (ops.Load, ops.Store))]
        found = [o for o in touching if self._goes_along_rows(o)]
        sizes = {bits_of(o) for o in found}
        trips = trip_count(loop)
        count = BLOCK_BITS // max(sizes, default=BLOCK_BITS)
        if len(body) <= LARGEST_OF_LINES and (most := cut_to(loop.hi) if trips is None else trips):
            line = min(width, LINE_BITS // max(sizes, default=LINE_BITS))
            count = line if line > count and most % line == 0 else count
        if len(sizes) == 1 and (trips is None or trips >= count) and all(_may_stay(o, found) for o in body):
            self.accesses, self.count = found, count

    def _find_fixed(self, body: Sequence[Op]) -> set[Value]:
        """The values of the loop that are the same in each iteration, and those that are made by it."""
        self._made = {*self.loop.body.params, *(r for o in body for r in o.results)}
        fixed: set[Value] = set()
        for o in body:
            if o.PURE and all(v in fixed or v not in self._made for v in o.operands()):
                fixed.update(o.results)
        return fixed

    def _is_fixed(self, v: Value) -> bool:
        return v not in self._made or v in self._fixed

    def _goes_along_rows(self, o: ops.Load | ops.Store) -> bool:
        """Whether each lane has a row of its own in ``o``, and the loop goes along it."""
        if not o.mask or isinstance(o.array.type, Lanes) or not bits_of(o):
            return False
        *outer, last = o.indices
        if isinstance(last.op, ops.Iota):
            is_apart, last = last.op.stride != 1, last.op.base
        else:
            is_apart = any(isinstance(i.type, Lanes) for i in outer)
        return is_apart and all(map(self._is_fixed, (o.array, *o.mask, *outer))) and self._grows_by_one(last)

    def _grows_by_one(self, v: Value) -> bool:
        """Whether the integer ``v`` is one more in each iteration."""
        if v is self.loop.body.params[0]:
            return isinstance(v.type, Scalar) and v.type.is_signed
        if v not in self._made or not (isinstance(v.type, Scalar) and v.type.is_signed):
            return False
        match v.op:
            case ops.Cast(x=x) if isinstance(x.type, Scalar) and x.type.is_int and x.type.bits <= v.type.bits:
                return self._grows_by_one(x)
            case ops.Apply(fn="add", args=(x, y)):
                return (self._is_fixed(x) and self._grows_by_one(y)) or (self._is_fixed(y) and self._grows_by_one(x))
            case ops.Apply(fn="sub", args=(x, y)):
                return self._is_fixed(y) and self._grows_by_one(x)
        return False


def bits_of(o: ops.Load | ops.Store) -> int:
    """Return the bits of the number that ``o`` loads or stores; 0 where that is none of 32 or 64 bits."""
    t = lane_type(o.result.type if isinstance(o, ops.Load) else o.value.type)
    return t.bits if isinstance(t, Scalar) and t.bits in (32, 64) else 0


def _may_stay(o: Op, accesses: Sequence[Op]) -> bool:
    """Whether ``o`` may stand between iterations of ``accesses`` that become one."""
    if o.PURE or (isinstance(o, (ops.Load, ops.Store)) and is_private(o.array.type)):
        return True
    stores = sum(isinstance(a, ops.Store) for a in accesses)
    if isinstance(o, ops.Load):
        return not stores
    return o in accesses and stores == 1
