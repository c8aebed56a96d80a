"""Accesses to neighbours that stand in a row in the code: one access for several elements of each lane.

Lanes that go along an array in steps, by ``x[4 * i]``, ``x[4 * i + 1]`` and so on, gather or scatter elements that lie
apart. Together, such accesses are to elements that follow on each other: in memory without gaps, where the step is as
large as their number, else in a row for each lane (``consecutive.py``). The backend loads vectors and shuffles.

What must hold for it:

* The accesses have the same array and mask, and indices that differ by one, which is a signed integer: one that wrapped
  would be negative, and no lane at work has such an index.
* Loads happen at the place of the first one, and stores at that of the last: between them nothing touches the same
  memory, but for loads between loads. Lanes that store touch different elements.

Relies on ``widen``. Below, for four lanes.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = active_mask : bool x 4
      %1 = tid 0 of 1 : int32
      %2 = constant 2 : int32
      %3 = mul %1, %2 : int32
      %4 = iota 2 %3 : int32 x 4
      %5 = load %x[%4] if %0 : float32 x 4
      %6 = constant 1 : int32
      %7 = add %3, %6 : int32
      %8 = iota 2 %7 : int32 x 4
      %9 = load %x[%8] if %0 : float32 x 4
      %10 = add %5, %9 : float32 x 4
      %11 = iota 1 %1 : int32 x 4
      store %y[%11], %10 if %0
      yield
    }

After::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = active_mask : bool x 4
      %1 = tid 0 of 1 : int32
      %2 = constant 2 : int32
      %3 = mul %1, %2 : int32
      %4 = iota 2 %3 : int32 x 4
      %5, %6 = load_consecutive %x[%4] if %0 : float32 x 4, float32 x 4
      %7 = constant 1 : int32
      %8 = add %3, %7 : int32
      %9 = iota 2 %8 : int32 x 4
      %10 = add %5, %6 : float32 x 4
      %11 = iota 1 %1 : int32 x 4
      store %y[%11], %10 if %0
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import blocks, substitute
from warp_like.ir.types import Lanes, Scalar
from warp_like.passes.spmd.consecutive import BLOCK_BITS, bits_of
from warp_like.passes.team.accesses import Accesses, Root, linear

MOST_SIDE_BY_SIDE = 4
"""The most elements of each lane that lie in memory without gaps."""


class _Place(NamedTuple):
    """What neighbours have in common; ``terms`` is their index but for a constant."""

    stores: bool
    array: Value
    outer: tuple[Value, ...]
    mask: tuple[Value, ...]
    step: int
    terms: frozenset[tuple[Value, int]]
    index_bits: int
    bits: int


class _Row:
    """Accesses to neighbours, in the order of the code and of memory; ``end`` is the constant of the next index."""

    def __init__(self, place: _Place, root: Root, start: int) -> None:
        self.place, self.root, self.end = place, root, start
        self.members: list[ops.Load | ops.Store] = []

    def add(self, o: ops.Load | ops.Store) -> None:
        self.members.append(o)
        self.end += 1

    def groups(self) -> Iterator[list[ops.Load | ops.Store]]:
        """Those that become one access each."""
        step, in_block = self.place.step, BLOCK_BITS // self.place.bits
        in_one_row = not any(isinstance(i.type, Lanes) for i in self.place.outer)
        side_by_side = in_one_row and 2 <= step <= MOST_SIDE_BY_SIDE and len(self.members) >= step
        count = step if side_by_side else in_block
        if not side_by_side and (self._width() % in_block or (self.place.stores and abs(step) < in_block)):
            return
        for k in range(0, len(self.members) - count + 1, count):
            yield self.members[k : k + count]

    def _width(self) -> int:
        t = self.place.mask[0].type
        assert isinstance(t, Lanes)
        return t.width


def join_accesses(f: Function) -> Function:
    """Join accesses of ``f``, which has code in lanes, in place."""
    joiner = _Joiner(f)
    for b in list(blocks(f.body)):
        joiner.block(b)
    substitute(f.body, joiner.mapping)
    return f


class _Joiner:
    def __init__(self, f: Function) -> None:
        self.ranges = find_ranges(f)
        self.accesses = Accesses(f, apart=False, contiguous=False)
        self.mapping: dict[Value, Value] = {}

    def block(self, b: Block) -> None:
        groups = [g for row in self.rows(b) for g in row.groups()]
        if not groups:
            return
        first = {g[0]: g for g in groups if isinstance(g[0], ops.Load)}
        last = {g[-1]: g for g in groups if isinstance(g[0], ops.Store)}
        joined = {o for g in groups for o in g}
        made = Emitter(Block())
        for o in b.ops:
            with at(o.loc):
                if o in first:
                    self.load(made, first[o])
                elif o in last:
                    self.store(made, last[o])
                elif o not in joined:
                    made.block.ops.append(o)
        b.ops = made.block.ops

    def load(self, b: Emitter, group: Sequence[Op]) -> None:
        one = group[0]
        assert isinstance(one, ops.Load)
        wide = b.insert(ops.LoadConsecutive(one.array, one.indices, one.mask), *[one.result.type] * len(group))
        self.mapping.update(zip((o.result for o in group), wide.results, strict=True))

    def store(self, b: Emitter, group: Sequence[Op]) -> None:
        stores = [o for o in group if isinstance(o, ops.Store)]
        one = stores[0]
        b.insert(ops.StoreConsecutive(one.array, one.indices, tuple(o.value for o in stores), one.mask))

    def rows(self, b: Block) -> list[_Row]:
        """The rows of accesses in ``b``."""
        found: list[_Row] = []
        open_: dict[_Place, _Row] = {}

        def close(*roots: Root, but: _Row | None = None, loads: bool = True) -> None:
            """End the rows of stores, and those of loads, too, at what touches memory of ``roots``."""
            for place, row in list(open_.items()):
                if row is not but and row.root in roots and (loads or place.stores):
                    del open_[place]

        for o in b.ops:
            if o.PURE:
                continue
            if not isinstance(o, (ops.Load, ops.Store, ops.LoadConsecutive)):
                open_.clear()
                continue
            root, stores = self.accesses.root(o.array), isinstance(o, ops.Store)
            row = self.row(o, root, open_) if isinstance(o, (ops.Load, ops.Store)) else None
            close(root, but=row, loads=stores)
            if row is not None and isinstance(o, (ops.Load, ops.Store)):
                if not row.members:
                    found.append(row)
                    open_[row.place] = row
                row.add(o)
        return found

    def row(self, o: ops.Load | ops.Store, root: Root, open_: dict[_Place, _Row]) -> _Row | None:
        """The row that ``o`` belongs to, perhaps a new one."""
        bits = bits_of(o)
        if not o.mask or not bits or isinstance(o.array.type, Lanes):
            return None
        *outer, last = o.indices
        if not isinstance(last.op, ops.Iota) or last.op.stride in (0, 1) or not _is_signed(last.op.base):
            return None
        where = linear(last.op.base, self.ranges)
        place = _Place(
            isinstance(o, ops.Store),
            o.array,
            tuple(outer),
            o.mask,
            last.op.stride,
            frozenset(where.terms.items()),
            where.bits,
            bits,
        )
        row = open_.get(place)
        return row if row is not None and row.end == where.constant else _Row(place, root, where.constant)


def _is_signed(v: Value) -> bool:
    """Whether an index, and each integer that it is cast from, is signed."""
    while isinstance(v.type, Scalar) and v.type.is_signed:
        if not isinstance(v.op, ops.Cast):
            return True
        v = v.op.x
    return False


__all__ = ["join_accesses"]
