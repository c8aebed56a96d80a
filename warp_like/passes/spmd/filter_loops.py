"""Loops of one thread that look for few things among many: lanes find the iterations that do something.

A thread that asks a hash grid for its neighbours computes a distance for each candidate, and does something for one in
six. Here a vector of iterations computes the condition at once, and those for which it holds run one after the other,
in their order. So sums keep their order, and the processor does not guess a branch for each candidate.

``filters.py`` says which loops these are. Their iterations, or the items of several rows, are listed first, and sifted:
those that do nothing leave the list. Where that takes gathers and these are slow, one lane sifts, without a branch.

Where points lie in the order of a grid's cells, the items of a row follow on each other. Then vectors read what the
condition needs row by row, without gathers. This is found out as rows are listed.

An iteration that was found runs as it stood, with its condition. This is so because LLVM may round a sum of products
in lanes otherwise than in the thread's code, which may rely on the condition (for a root, say). So an iteration counts
where the condition holds rounded either way; with ``fuse_fp`` off, both are one.

Relies on ``finish``. Runs where a function is for one thread at a time, after that has been chosen.

Before::

    kernel k(%x: array1d[float32], %out: array1d[float32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = constant 0.0 : float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = for %i in %2, %n, %3 (%5 = %1) : float32 {
        %6 = load %x[%i] : float32
        %7 = load %x[%0] : float32
        %8 = sub %6, %7 : float32
        %9 = mul %8, %8 : float32
        %10 = mul %8, %9 : float32
        %11 = add %9, %10 : float32
        %12 = mul %9, %11 : float32
        %13 = add %9, %12 : float32
        %14 = constant 0.5 : float32
        %15 = lt %13, %14 : bool
        %16 = if %15 : float32 {
          %17 = add %5, %8 : float32
          yield %17
        } else {
          yield %5
        }
        yield %16
      }
      store %out[%0], %4
      yield
    }

After::

    kernel k(%x: array1d[float32], %out: array1d[float32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = constant 0.0 : float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = local (512,) not zeroed : array1d[int32]
      %5 = constant 512 : int32
      %6 = for %i in %2, %n, %5 (%7 = %1) : float32 {
        %8 = cast %n : int64
        %9 = cast %i : int64
        %10 = sub %8, %9 : int64
        %11 = constant 512 : int64
        %12 = lt %10, %11 : bool
        %13 = constant 512 : int64
        %14 = where %12, %10, %13 : int64
        %15 = cast %14 : int32
        %16 = constant 0 : int32
        %17 = constant 0 : int32
        %18 = constant 4 : int32
        %19 = for %21 in %17, %15, %18 (%20 = %16) : int32 {
          %22 = iota 1 %21 : int32 x 4
          %23 = broadcast %15 : int32 x 4
          %24 = lt %22, %23 : bool x 4
          %25 = active_mask : bool x 4
          %26 = add %i, %21 : int32
          %27 = iota 1 %26 : int32 x 4
          %28 = iota 1 %26 : int32 x 4
          %29 = load %x[%28] if %24 : float32 x 4
          %30 = load %x[%0] : float32
          %31 = broadcast %30 : float32 x 4
          %32 = sub %29, %31 : float32 x 4
          %33 = mul %32, %32 : float32 x 4
          %34 = mul %32, %33 : float32 x 4
          %35 = add %33, %34 : float32 x 4
          %36 = mul %33, %35 : float32 x 4
          %37 = add %33, %36 : float32 x 4
          %38 = constant 0.5 : float32
          %39 = broadcast %38 : float32 x 4
          %40 = lt %37, %39 : bool x 4
          %41 = bit_and %40, %24 : bool x 4
          %42 = compress %27, %41 : int32 x 4
          %43 = iota 1 %20 : int32 x 4
          %44 = active_mask : bool x 4
          store %4[%43], %42 if %44
          %45 = lane_reduce bits %41 : uint64
          %46 = bit_count %45 : int32
          %47 = add %20, %46 : int32
          yield %47
        }
        %48 = constant 0 : int32
        %49 = constant 1 : int32
        %50 = for %52 in %48, %19, %49 (%51 = %7) : float32 {
          %53 = load %4[%52] : int32
          %54 = load %x[%53] : float32
          %55 = load %x[%0] : float32
          %56 = sub %54, %55 : float32
          %57 = mul %56, %56 : float32
          %58 = mul %56, %57 : float32
          %59 = add %57, %58 : float32
          %60 = mul %57, %59 : float32
          %61 = add %57, %60 : float32
          %62 = constant 0.5 : float32
          %63 = lt %61, %62 : bool
          %64 = if %63 : float32 {
            %65 = add %51, %56 : float32
            yield %65
          } else {
            yield %51
          }
          yield %64
        }
        yield %50
      }
      store %out[%0], %6
      yield
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Array, Lanes, bool_, int32, int64
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.spmd import filter_lists
from warp_like.passes.spmd.filter_conditions import Condition, bits_of, condition_in_line
from warp_like.passes.spmd.filter_lists import Filtering
from warp_like.passes.spmd.filter_nests import Nest, NestFiltering, find_nests
from warp_like.passes.spmd.filters import Filter, Rows, find_filters, find_rows
from warp_like.passes.spmd.values import NotWidenable

FEWEST_IN_LINE = 12
"""The fewest items of a row for which the two vectors that go along it take less time than gathers of its items."""


def filter_loops(f: Function, vector_bits: int, apart: Sequence[int] = (), *, gathers: bool = True) -> Function:
    """Let lanes of ``vector_bits`` bits find the iterations of such loops of ``f``, in place.

    The arrays at the positions ``apart`` overlap no other argument. Without ``gathers``, one lane finds iterations
    where elements lie apart.
    """
    return rewrite(f, _LoopFilter(f, vector_bits, apart, gathers=gathers))


class _LoopFilter(Rewriter):
    def __init__(self, f: Function, vector_bits: int, apart: Sequence[int], *, gathers: bool) -> None:
        super().__init__()
        self.vector_bits, self.gathers = vector_bits, gathers
        found = find_filters(f, apart)
        self.filters: dict[Op, Filter] = {x.loop: x for x in found}
        self.rows: dict[Op, Rows] = {x.outer: x for x in find_rows(f, found)}
        others = [x for x in found if all(x is not y.found for y in self.rows.values())]
        self.nests: dict[Op, Nest] = {x.outer: x for x in find_nests(f, others, apart)}

    def visit(self, o: Op) -> None:
        rows, nest, found = self.rows.get(o), self.nests.get(o), self.filters.get(o)
        if rows is not None:
            found = rows.found
        elif nest is not None:
            found = nest.found
        if found is None:
            super().visit(o)
            return
        item = None if rows is None else rows.item
        try:
            condition = Condition(found, self.vector_bits // bits_of(found), item, gathers=self.gathers)
        except NotWidenable:
            super().visit(o)
            return
        with at(o.loc):
            self.replace(o, self.filtered(condition, rows, nest))

    def filtered(self, condition: Condition, rows: Rows | None, nest: Nest | None) -> list[Value]:
        """Write the loop of ``condition``, or the one around it, and return its results."""
        b, found = self.b, condition.found
        listed = b.insert(ops.LocalArray((filter_lists.LISTED,), zeroed=False), Array(int32, 1)).result
        if nest is not None:
            return NestFiltering(b, self.mapping, condition, listed, nest).run()
        if rows is None:
            return Filtering(b, self.mapping, condition, listed).loop(found.loop)
        in_line = condition_in_line(found, self.vector_bits, rows.item)
        width = self.vector_bits // 16
        return _Rows(b, self.mapping, condition, listed, width, in_line).loop_over_rows(rows)


class _Rows(Filtering):
    """Builds the code of a loop over rows.

    Vectors of ``size`` items are listed: two registers full, so that most rows of a grid's cells take one.
    ``in_line`` is the condition for items that follow on each other.
    """

    def __init__(
        self,
        b: Emitter,
        mapping: dict[Value, Value],
        condition: Condition,
        listed: Value,
        width: int,
        in_line: Condition | None,
    ) -> None:
        super().__init__(b, mapping, condition, listed)
        self.width, self.in_line = width, in_line

    def loop_over_rows(self, rows: Rows) -> list[Value]:
        """Run a loop over rows: list items while there is room for a vector of them, sift them, go on."""
        b, outer = self.b, rows.outer
        counters, carried = rows.split(outer.init)
        state = [*counters, counters[rows.low]]  # where in its row the next item is comes last
        in_line = None if self.in_line is None else _InLine(self, self.in_line, rows)
        cond, block = (Block([Value(v.type, v.hint) for v in (*state, *carried)]) for _ in range(2))
        with b.into(cond):
            b.yield_(self.goes_on(rows, cond.params[: len(counters)]))
        with b.into(block):
            now, own = block.params[: len(state)], block.params[len(state) :]
            *then, count = self.list_items(rows, now) if in_line is None else in_line.sift_rows(now)
            b.yield_(*then, *self.iterations(count, own))
        made = b.while_([*state, *carried], cond, block)
        return rows.join(made[: len(counters)], made[len(state) :])

    def goes_on(self, rows: Rows, counters: Sequence[Value]) -> Value:
        """Whether there is another row."""
        cond = rows.outer.cond
        cloner = Cloner({**self.mapping, **dict(zip(rows.split(cond.params)[0], counters, strict=True))})
        self.b.block.ops += [cloner.op(x) for x in cond.ops[:-1]]
        return cloner.value(cond.yielded[0])

    # --- the list ---

    def list_items(self, rows: Rows, state: Sequence[Value]) -> list[Value]:
        """List the items of some rows and sift them; return the state after them, and how many are left."""

        def listed(place: Value, some: Value, count: Value) -> Value:
            self.store(count, self.load(self.array_of(rows, place), place, self.first_lanes(some, self.width)))
            return self.b.add(count, some)

        *then, count = self.walk(rows, state, listed)
        return [*then, self.sift(count, None, self.b.constant(0, int32))]

    def walk(self, rows: Rows, state: Sequence[Value], take: Callable[[Value, Value, Value], Value]) -> list[Value]:
        """Walk through some rows, while the list has room; return the state after them, and how many are in the list.

        ``take`` is given a place, how many items from there on are next, and how many are in the list, and lists them.
        """
        b = self.b
        none = b.constant(0, int32)
        cond, block = (Block([Value(v.type, v.hint) for v in (*state, none)]) for _ in range(2))
        with b.into(cond):
            *counters, _, count = cond.params
            b.yield_(b.bit_and(self.goes_on(rows, counters), b.le(count, filter_lists.LISTED - self.width)))
        with b.into(block):
            *counters, place, count = block.params
            left = b.sub(b.cast(counters[rows.high], int64), b.cast(place, int64))
            then = take(place, self.size_of(rows, block.params[: len(state)]), count)
            with b.into(Block()) as following:
                b.yield_(*self.next_row(rows, counters))
            with b.into(Block()) as same:
                b.yield_(*counters, b.add(place, self.width))
            b.yield_(*b.if_(b.le(left, self.width), following, same), then)
        return list(b.while_([*state, none], cond, block))

    def size_of(self, rows: Rows, state: Sequence[Value]) -> Value:
        """How many items of the row are next: at most a vector, and none of a row that ends before it begins."""
        some = self.limited(state[rows.high], state[-1], self.width)
        return self.b.select(self.b.lt(some, 0), self.b.constant(0, int32), some)

    def array_of(self, rows: Rows, place: Value) -> Value:
        """The array of the items, which the loop may make itself of an address."""
        cloner = Cloner({**self.mapping, rows.found.loop.body.params[0]: place})
        inside = [x for x in rows.found.loop.body.ops if rows.item.array in x.results]
        self.b.block.ops += [cloner.op(x) for x in inside]
        return cloner.value(rows.item.array)

    def next_row(self, rows: Rows, counters: Sequence[Value]) -> list[Value]:
        """The state at the start of the row after this one."""
        body = rows.outer.body
        cloner = Cloner({**self.mapping, **dict(zip(rows.split(body.params)[0], counters, strict=True))})
        self.b.block.ops += [cloner.op(x) for x in body.ops[:-1] if x is not rows.found.loop]
        following = [cloner.value(v) for v in rows.split(body.yielded)[0]]
        return [*following, following[rows.low]]


class _Part(NamedTuple):
    """A vector of items that follow on each other: the first one, all of them, and which of them are the row's."""

    first: Value
    lanes: Value
    mask: Value


class _InLine:
    """Sifts rows whose items follow on each other, a piece of a row after the other, as long as two vectors or shorter.

    Where the first piece is of this kind and long enough, the others probably are, too. Vectors read elements behind
    the end of a piece, so that no load has a mask: they are there, in the arrays. Other pieces are listed as they are,
    since iterations ask for the condition again.
    """

    def __init__(self, whole: _Rows, condition: Condition, rows: Rows) -> None:
        self.whole, self.b, self.condition, self.rows = whole, whole.b, condition, rows
        self.last = self._last()
        self.none = self.b.constant(0, int32)

    def _last(self) -> Value:
        """The last item from which on all arrays have as many elements as a piece may have items."""
        b, end = self.b, self.b.constant((1 << 31) - 1, int32)
        for array, axis in self.condition.reads_in_line() or ():
            extent = b.insert(ops.Dim(self.whole.value(array), axis), int32).result
            end = b.select(b.lt(extent, end), extent, end)
        return b.sub(end, self.whole.width)

    def sift_rows(self, state: Sequence[Value]) -> list[Value]:
        """Sift some rows; return the state after them, and how many are left in the list."""
        b, whole, rows = self.b, self.whole, self.rows
        some = whole.size_of(rows, state)
        with b.into(Block()) as ask:
            b.yield_(self.parts(state[-1], some)[1])
        with b.into(Block()) as short:
            b.yield_(b.constant(False, bool_))
        with b.into(Block()) as in_line:
            b.yield_(*whole.walk(rows, state, self.take))
        with b.into(Block()) as apart:
            b.yield_(*whole.list_items(rows, state))
        return list(b.if_(b.if_(b.ge(some, FEWEST_IN_LINE), ask, short)[0], in_line, apart))

    def take(self, place: Value, some: Value, count: Value) -> Value:
        """List those of a piece that do something; return how many are in the list then."""
        b = self.b
        with b.into(Block()) as piece:
            parts, in_line = self.parts(place, some)
            with b.into(Block()) as then:
                b.yield_(self.sift(parts, count))
            with b.into(Block()) as otherwise:
                b.yield_(self.all_of(place, some, count))
            b.yield_(*b.if_(in_line, then, otherwise))
        with b.into(Block()) as nothing:
            b.yield_(count)
        return b.if_(b.gt(some, 0), piece, nothing)[0]

    def parts(self, place: Value, some: Value) -> tuple[list[_Part], Value]:
        """Return the vectors of a piece that has items, and whether they follow on each other and the arrays go on."""
        b, whole, t = self.b, self.whole, Lanes(int32, self.condition.width)
        array = whole.array_of(self.rows, place)
        first = b.load(array, [place])
        some_, first_, none_ = (b.insert(ops.Broadcast(v), t).result for v in (some, first, self.none))
        parts, others, test = [], none_, Lanes(bool_, t.width)
        for begin in range(0, whole.width, t.width):
            number = b.insert(ops.Iota(b.constant(begin, int32), 1), t).result
            mask = b.insert(ops.Apply("lt", (number, some_)), test).result
            lanes = b.insert(ops.Apply("add", (first_, number)), t).result
            items = whole.load(array, b.add(place, begin), mask)
            differ = b.insert(ops.Apply("bit_xor", (items, lanes)), t).result
            differ = b.insert(ops.Apply("where", (mask, differ, none_)), t).result
            others = b.insert(ops.Apply("bit_or", (others, differ)), t).result
            parts.append(_Part(b.add(first, begin), lanes, mask))
        differ = b.insert(ops.Apply("ne", (others, none_)), test).result
        same = b.unot(b.insert(ops.LaneReduce("any", differ), bool_).result)
        return parts, b.bit_and(same, b.bit_and(b.ge(first, 0), b.le(first, self.last)))

    def sift(self, parts: Sequence[_Part], count: Value) -> Value:
        b, whole = self.b, self.whole
        for first, lanes, mask in parts:
            held = self.condition.emit(b, whole.value, first, whole.everywhere(self.condition.width))
            count = b.add(count, whole.write(count, lanes, held, mask))
        return count

    def all_of(self, place: Value, some: Value, count: Value) -> Value:
        """List a whole piece; return how many are in the list then."""
        b, whole = self.b, self.whole
        items = whole.load(whole.array_of(self.rows, place), place, whole.first_lanes(some, whole.width))
        whole.store(count, items)
        return b.add(count, some)
