"""Unroll loops over constant ranges, innermost first.

Loops with at most one iteration always go; others where both their trip count and the size of the result are
small. A loop whose bounds become constant only when the loop around it is unrolled is found by the next run.

Relies on ``fold``, which makes bounds constant. Leaves the constants of the old bounds, and calls for another ``fold``.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = constant 0 : int32
      %1 = constant 2 : int32
      %2 = constant 1 : int32
      for %i in %0, %1, %2 {
        %3 = constant 1.0 : float32
        store %x[%i], %3
        yield
      }
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = constant 0 : int32
      %1 = constant 2 : int32
      %2 = constant 1 : int32
      %3 = constant 0 : int32
      %4 = constant 1.0 : float32
      store %x[%3], %4
      %5 = constant 1 : int32
      %6 = constant 1.0 : float32
      store %x[%5], %6
      yield
    }
"""

from __future__ import annotations

from warp_like.base.loc import at
from warp_like.builtins.trips import constant_trips
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, has_op
from warp_like.ir.types import element_count, is_large
from warp_like.passes.rewriter import Rewriter, rewrite

SHORT_ROW = 8
"""The most elements of rows that are unrolled. Longer ones stay loops, which ``fuse`` and ``read_in_place`` know."""
OPS_OF_A_LOOP = 16
"""The ops whose code takes LLVM as much time as a loop over components."""


def unroll(f: Function, max_trips: int = 16, max_ops: int = 512, *, team: bool = False) -> bool:
    """Unroll in place; returns whether anything changed.

    Args:
        f: The function.
        max_trips: Iterations that a loop may have.
        max_ops: Ops that the unrolled loop may have.
        team: Leave the loops over a block's threads and over tiles, whose iterations a team shares out.
    """
    if not has_op(f, ops.For):
        return False
    unroller = _Unroller(max_trips, max_ops, team)
    rewrite(f, unroller)
    return unroller.changed


def trip_count(loop: ops.For) -> int | None:
    """Return how often ``loop`` runs, or None when that is not a constant."""
    bounds = [ops.constant_value(v) for v in (loop.lo, loop.hi, loop.step)]
    return None if any(n is None for n in bounds) else constant_trips(*bounds)


def size(b: Block) -> int:
    """Return the number of ops in ``b`` and below that do something; one that makes a large value is a loop."""
    made = (o for o in b.walk() if not isinstance(o, (ops.Constant, ops.Yield)))
    return sum(OPS_OF_A_LOOP if any(is_large(r.type) for r in o.results) else 1 for o in made)


class _Unroller(Rewriter):
    def __init__(self, max_trips: int, max_ops: int, team: bool) -> None:
        super().__init__()
        self.team = team
        self.max_trips = max_trips
        self.max_ops = max_ops
        self.changed = False

    def visit(self, o: Op) -> None:
        for r in o.regions():
            self.block(r)
        trips = trip_count(o) if isinstance(o, ops.For) else None
        if trips is None or not self.worth(o, trips):
            self.keep(o)
        else:
            assert isinstance(o, ops.For)
            self.expand(o, trips)

    def worth(self, o: Op, trips: int) -> bool:
        if trips <= 1:
            return True
        if isinstance(o, ops.For) and (_makes_row(o, trips) or (self.team and (o.together or o.threads))):
            return False
        return trips <= self.max_trips and trips * size(o.regions()[0]) <= self.max_ops

    def expand(self, o: ops.For, trips: int) -> None:
        self.changed = True
        carried: tuple[Value, ...] = o.init
        lo, step = ops.constant_value(o.lo), ops.constant_value(o.step)
        for k in range(trips):
            with at(o.loc):
                i = self.b.constant(lo + k * step, o.lo.type)
            cloner = Cloner(dict(zip(o.body.params, (i, *carried), strict=True)))
            self.b.block.ops.extend(cloner.op(inner) for inner in o.body.ops[:-1])
            carried = tuple(cloner.value(v) for v in o.body.yielded)
        self.replace(o, carried)


def _makes_row(o: ops.For, trips: int) -> bool:
    """Whether ``o`` does nothing but make a row, one of several and not short, of a large value element by element."""
    if len(o.init) != 1 or not is_large(o.init[0].type) or any(x.regions() for x in o.body.ops):
        return False
    counter, carried = o.body.params
    put = o.body.yielded[0].op
    if not isinstance(put, ops.Insert) or put.x is not carried or not SHORT_ROW < trips < element_count(carried.type):
        return False
    reads = sum(v is carried for x in o.body.ops for v in x.operands())
    return put.indices[-1] is counter and reads == 1
