"""A product by the matrix units of a team's warps: what each thread loads, adds up and stores.

All threads of the team run this code together. Where a loop adds products to one tile, the sums stay in registers
from one iteration to the next (``distribute.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Array, Scalar, int32, uint32
from warp_like.passes.team.swizzle import Swizzle
from warp_like.passes.team.units import UNITS, WARP, share_of


class _Matrix(NamedTuple):
    """A factor as it lies in memory: ``columns`` numbers in a row, moved by ``swizzle``."""

    array: Value
    columns: int
    swizzle: Swizzle | None


class Product:
    """The code of the product ``o``, for the thread with the number ``thread`` of a ``team``.

    Args:
        b: Where to write it.
        thread: The number.
        o: The product.
        team: How many threads there are.
        swizzles: How its factors are kept in memory.

    Attributes:
        placed: The loads of factors, whose indices say where elements are kept.
    """

    def __init__(
        self, b: Emitter, thread: Value, o: ops.ContractInMemory, team: int, swizzles: dict[Value, Swizzle]
    ) -> None:
        share = share_of(o.unit, o.extents, team)
        assert share is not None
        self.b, self.o, self.share, self.unit = b, o, share, UNITS[o.unit]
        of_x, of_y = columns_of(o)
        self.x, self.y = _Matrix(o.x, of_x, swizzles.get(o.x)), _Matrix(o.y, of_y, swizzles.get(o.y))
        self.placed = set[Op]()
        self.lane = b.mod(thread, WARP)
        self.group, self.member = b.div(self.lane, 4), b.mod(self.lane, 4)
        warp = b.div(thread, WARP)
        self.top = b.mul(b.div(warp, share.across), share.high * self.unit.rows)
        self.left = b.mul(b.mod(warp, share.across), share.wide * self.unit.columns)

    # --- sums ---

    def zeros(self) -> list[Value]:
        """Return sums of nothing."""
        return [self.b.zero(self._type) for _ in self._places()]

    def load(self) -> list[Value]:
        """Return what the tile of the sums holds."""
        return [self.b.load(self.o.out, [i]) for i in self._places()]

    def store(self, sums: Sequence[Value]) -> None:
        """Put the sums into their tile."""
        for i, x in zip(self._places(), sums, strict=True):
            self.b.store(self.o.out, [i], x)

    @property
    def _type(self) -> Scalar:
        t = self.o.out.type
        assert isinstance(t, Array)
        assert isinstance(t.dtype, Scalar)
        return t.dtype

    @property
    def _has_numbers(self) -> bool:
        """Whether a lane's part of a factor is one number, which it loads as any other."""
        return self.o.unit == "float64"

    def _places(self) -> list[Value]:
        """The elements of the product that the thread has, those of each step one after the other."""
        b, (_, _, n), found = self.b, self.o.extents, list[Value]()
        first = b.add(b.mul(b.add(self.top, self.group), n), b.add(self.left, b.mul(self.member, 2)))
        for p in range(self.share.high):
            for q in range(self.share.wide):
                for half in range(self.unit.rows // 8):
                    more = (p * self.unit.rows + 8 * half) * n + q * self.unit.columns
                    found += [b.add(first, more + c) for c in range(2)]
        return found

    # --- products ---

    def add(self, sums: Sequence[Value]) -> list[Value]:
        """Return ``sums`` with the product added."""
        b, depth = self.b, self.o.extents[1]
        if depth == self.unit.depth:
            return self._step(b.index(0), sums)
        first, carried = Value(int32), [Value(v.type) for v in sums]
        with b.into(Block([first, *carried])) as body:
            b.yield_(*self._step(first, carried))
        return list(b.for_(b.index(0), b.index(depth), b.index(self.unit.depth), sums, body))

    def _step(self, first: Value, sums: Sequence[Value]) -> list[Value]:
        """Add the products of ``depth`` columns of ``x`` and as many rows of ``y``, from ``first`` on."""
        left = [self._of_x(p, first) for p in range(self.share.high)]
        right = self._of_y(first)
        size, made = len(sums) // (len(left) * len(right)), list[Value]()
        for p, x in enumerate(left):
            for q, y in enumerate(right):
                at = (p * len(right) + q) * size
                step = ops.MultiplyAdd(tuple(x), tuple(y), tuple(sums[at : at + size]), self.o.unit)
                made += self.b.insert(step, *[self._type] * size).results
        return made

    def _of_x(self, p: int, first: Value) -> list[Value]:
        """The thread's part of ``x`` for step ``p`` down the product, from column ``first`` of ``x`` on."""
        b, o, down = self.b, self.o, p * self.unit.rows
        if self._has_numbers:
            if o.turned_x:
                column = b.add(self.top, b.add(self.group, down))
                return [self._number(self.x, self.member, first, 0, column)]
            return [self._number(self.x, self.group, self.top, down, b.add(first, self.member))]
        matrix, line = b.div(self.lane, 8), b.mod(self.lane, 8)
        low, right = b.mul(b.mod(matrix, 2), 8), b.mul(b.div(matrix, 2), 8)
        if o.turned_x:  # rows of 8 numbers lie along columns of ``x``
            column = b.add(b.add(self.top, low), down)
            return self._parts(self.x, line, b.add(first, right), 0, column, 4, turned=True)
        return self._parts(self.x, line, b.add(self.top, low), down, b.add(first, right), 4, turned=False)

    def _of_y(self, first: Value) -> list[list[Value]]:
        """The thread's parts of ``y``, from row ``first`` on, for each step along a row of the product."""
        b, o, columns = self.b, self.o, self.unit.columns
        if self._has_numbers:
            if o.turned_y:
                at = b.add(first, self.member)
                return [[self._number(self.y, self.group, self.left, q * columns, at)] for q in range(self.share.wide)]
            places = [b.add(self.left, b.add(self.group, q * columns)) for q in range(self.share.wide)]
            return [[self._number(self.y, self.member, first, 0, at)] for at in places]
        matrix, line = b.div(self.lane, 8), b.mod(self.lane, 8)
        down, found = b.mul(b.mod(matrix, 2), 8), list[list[Value]]()
        for q in range(0, self.share.wide, 2):
            # A load reads the parts of two steps; of one, the lanes that are not asked repeat the others.
            pair = min(2, self.share.wide - q)
            left = self.left if pair == 1 else b.add(self.left, b.mul(b.div(matrix, 2), 8))
            if o.turned_y:
                at = b.add(first, down)
                parts = self._parts(self.y, line, left, q * columns, at, 2 * pair, turned=False)
            else:
                at = b.add(left, q * columns)
                parts = self._parts(self.y, line, b.add(first, down), 0, at, 2 * pair, turned=True)
            found += [parts[k : k + 2] for k in range(0, 2 * pair, 2)]
        return found

    def _parts(
        self, m: _Matrix, line: Value, rows: Value, more: int, column: Value, count: int, *, turned: bool
    ) -> list[Value]:
        load = ops.LoadFragments(m.array, self._index(m, line, rows, more, column), turned)
        return list(self.place(self.b.insert(load, *[uint32] * count)).results)

    def _number(self, m: _Matrix, line: Value, rows: Value, more: int, column: Value) -> Value:
        load = ops.Load(m.array, (self._index(m, line, rows, more, column),))
        return self.place(self.b.insert(load, self._type)).result

    def place(self, load: Op) -> Op:
        """Note a load whose index says where the element is kept."""
        self.placed.add(load)
        return load

    def _index(self, m: _Matrix, line: Value, rows: Value, more: int, column: Value) -> Value:
        """Where the element in row ``line + rows + more`` is kept, of which only ``line`` counts for the swizzle.

        The others are multiples of so many rows that they don't change it. A constant is added last, so that it becomes
        a part of the instruction, and loads of all steps share what comes before.
        """
        b, own = self.b, self.b.mul(line, m.columns)
        if m.swizzle is not None:
            column = b.bit_xor(column, m.swizzle.offset(b, own))
        return b.add(b.add(b.add(own, column), b.mul(rows, m.columns)), more * m.columns)


def columns_of(o: ops.ContractInMemory) -> tuple[int, int]:
    """Return how many numbers the rows of both factors have in memory."""
    rows, depth, columns = o.extents
    return rows if o.turned_x else depth, depth if o.turned_y else columns


def zeros_of(loop: Op) -> tuple[Value | None, int]:
    """Return the array that ``loop`` fills with zeros from its start on, and how many; None if it does otherwise."""
    if not isinstance(loop, ops.For) or len(loop.body.ops) != 2 or loop.results:
        return None, 0
    o, bounds = loop.body.ops[0], [ops.constant_value(v) for v in (loop.lo, loop.hi, loop.step)]
    if not isinstance(o, ops.Store) or o.indices != (loop.body.params[0],) or None in bounds:
        return None, 0
    is_zero = ops.is_scalar_constant(o.value, 0.0) and math.copysign(1.0, ops.constant_value(o.value)) > 0.0
    return (o.array, bounds[1]) if is_zero and bounds[0] == 0 and bounds[2] == 1 else (None, 0)


__all__ = ["Product", "columns_of", "zeros_of"]
