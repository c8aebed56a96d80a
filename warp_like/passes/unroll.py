"""Unroll loops over constant ranges, innermost first.

Loops with at most one iteration always go; others where both their trip count and the size of the result are
small. Those whose counter indexes a vector, a matrix or an array of the thread's own may have more iterations, and what
the counter tells does not count: the components become registers, where the loop would keep them in memory or choose
among them, and branches on tables go. A loop whose bounds become constant only when the loop around it is unrolled is
found by the next run.

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

from typing import TypeGuard

from warp_like.base.loc import at
from warp_like.builtins.trips import constant_trips
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, has_op
from warp_like.ir.types import Mat, Vec, element_count, is_large
from warp_like.passes.rewriter import Rewriter, rewrite

SHORT_ROW = 8
"""The most elements of rows that are unrolled. Longer ones stay loops, which ``fuse`` and ``read_in_place`` know."""
OPS_OF_A_LOOP = 16
"""The ops whose code takes LLVM as much time as a loop over components."""
INDEXED = 4
"""How many times as many iterations loops may have whose counter indexes components. Where these are constant, branches
and products on them often go, so the code may be twice as long."""
MOST_OPS = 2048
"""The ops of a function beyond which no such loop is unrolled."""


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
    unroller = _Unroller(max_trips, max_ops, team, MOST_OPS - size(f.body))
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
    def __init__(self, max_trips: int, max_ops: int, team: bool, room: int) -> None:
        super().__init__()
        self.room = room
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
        if trips <= self.max_trips and trips * size(o.regions()[0]) <= self.max_ops:
            return True
        return isinstance(o, ops.For) and trips <= INDEXED * self.max_trips and self.indexes(o, trips)

    def indexes(self, o: ops.For, trips: int) -> bool:
        """Whether the counter of ``o`` indexes components, and the code stays small without what it tells.

        A loop over a block's threads stays, since it runs in lanes.
        """
        if o.threads or o.together or o.simd:
            return False
        iteration = _Iteration(o.body)
        added = trips * iteration.size
        most = 2 * self.max_ops if iteration.reads_table else self.max_ops
        if not iteration.indexes or iteration.goes_along_row or added > min(most, self.room):
            return False
        self.room -= added
        return True

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


class _Iteration:
    """One iteration of a loop, whose counter is known: what is left of its ops, and whether it indexes by the counter.

    Attributes:
        size: How many ops are left; of a branch on what is known, its longer side.
        indexes: Whether an index that is known by the counter chooses among components.
        reads_table: Whether it does so among the components of a constant, so that more is known.
        goes_along_row: Whether it goes along a row of an array. ``load_consecutively`` makes more of the loop.
    """

    def __init__(self, body: Block) -> None:
        self.known: set[Value] = {body.params[0]}  # by the counter and constants alone
        self.moved: set[Value] = {body.params[0]}  # by the counter
        self.indexes = self.reads_table = self.goes_along_row = False
        self.size = self.left(body)

    def left(self, b: Block) -> int:
        return sum(self.left_of(o) for o in b.ops if not isinstance(o, (ops.Constant, ops.Yield)))

    def left_of(self, o: Op) -> int:
        if isinstance(o, ops.If):
            sides = [self.left(r) for r in o.regions()]
            return max(sides) if self.is_known(o.cond) else 1 + sum(sides)
        if o.regions():
            return 1 + sum(self.left(r) for r in o.regions())
        if any(v in self.moved for v in o.operands()):
            self.moved.update(o.results)
        if isinstance(o, (ops.Load, ops.Store)) and not isinstance(o.array.op, ops.LocalArray):
            self.goes_along_row |= o.indices[-1] in self.moved and not all(map(self.is_known, o.indices))
        if _is_component(o) and any(v in self.known for v in o.indices):
            self.indexes = True
            self.reads_table |= isinstance(o, ops.Extract) and isinstance(o.x.op, ops.Constant)
        if o.PURE and all(self.is_known(v) for v in o.operands()):
            self.known.update(o.results)
            return 0
        if isinstance(o, (ops.Extract, ops.Insert)) and all(self.is_known(v) for v in o.indices):
            return 0  # the name of a register
        return OPS_OF_A_LOOP if any(is_large(r.type) for r in o.results) else 1

    def is_known(self, v: Value) -> bool:
        return v in self.known or isinstance(v.op, ops.Constant)


def _is_component(o: Op) -> TypeGuard[ops.Extract | ops.Insert | ops.Load | ops.Store]:
    """Whether ``o`` reads or writes a part of a small vector or matrix, or of an array of the thread's own."""
    match o:
        case ops.Extract(x=x) | ops.Insert(x=x):
            return isinstance(x.type, (Vec, Mat)) and not is_large(x.type)
        case ops.Load(array=array) | ops.Store(array=array):
            return isinstance(array.op, ops.LocalArray) and not array.op.shared
    return False


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
