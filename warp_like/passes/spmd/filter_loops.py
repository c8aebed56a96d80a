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
        %17 = constant 4 : int32
        %18 = for %20 in %16, %15, %17 (%19 = %16) : int32 {
          %21 = cast %15 : int64
          %22 = cast %20 : int64
          %23 = sub %21, %22 : int64
          %24 = constant 4 : int64
          %25 = lt %23, %24 : bool
          %26 = constant 4 : int64
          %27 = where %25, %23, %26 : int64
          %28 = cast %27 : int32
          %29 = constant 0 : int32
          %30 = iota 1 %29 : int32 x 4
          %31 = broadcast %28 : int32 x 4
          %32 = lt %30, %31 : bool x 4
          %33 = active_mask : bool x 4
          %34 = add %i, %20 : int32
          %35 = iota 1 %34 : int32 x 4
          %36 = iota 1 %34 : int32 x 4
          %37 = load %x[%36] if %32 : float32 x 4
          %38 = load %x[%0] : float32
          %39 = broadcast %38 : float32 x 4
          %40 = sub %37, %39 : float32 x 4
          %41 = mul %40, %40 : float32 x 4
          %42 = mul %40, %41 : float32 x 4
          %43 = add %41, %42 : float32 x 4
          %44 = mul %41, %43 : float32 x 4
          %45 = add %41, %44 : float32 x 4
          %46 = constant 0.5 : float32
          %47 = broadcast %46 : float32 x 4
          %48 = lt %45, %47 : bool x 4
          %49 = bit_and %48, %32 : bool x 4
          %50 = compress %35, %49 : int32 x 4
          %51 = iota 1 %19 : int32 x 4
          %52 = active_mask : bool x 4
          store %4[%51], %50 if %52
          %53 = lane_reduce bits %49 : uint64
          %54 = bit_count %53 : int32
          %55 = add %19, %54 : int32
          yield %55
        }
        %56 = constant 0 : int32
        %57 = constant 1 : int32
        %58 = for %60 in %56, %18, %57 (%59 = %7) : float32 {
          %61 = load %4[%60] : int32
          %62 = load %x[%61] : float32
          %63 = load %x[%0] : float32
          %64 = sub %62, %63 : float32
          %65 = mul %64, %64 : float32
          %66 = mul %64, %65 : float32
          %67 = add %65, %66 : float32
          %68 = mul %65, %67 : float32
          %69 = add %65, %68 : float32
          %70 = constant 0.5 : float32
          %71 = lt %69, %70 : bool
          %72 = if %71 : float32 {
            %73 = add %59, %64 : float32
            yield %73
          } else {
            yield %59
          }
          yield %72
        }
        yield %58
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
from warp_like.ir.types import Array, Lanes, bool_, int32, int64, uint64
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.spmd.filter_conditions import Condition, bits_of, condition_in_line
from warp_like.passes.spmd.filters import Filter, Rows, find_filters, find_rows
from warp_like.passes.spmd.values import NotWidenable

LISTED = 512
"""How many iterations, or items of rows, are listed before they run."""

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
        self.filters: dict[Op, Filter] = {x.loop: x for x in find_filters(f, apart)}
        self.rows: dict[Op, Rows] = {x.outer: x for x in find_rows(f, list(self.filters.values()))}

    def visit(self, o: Op) -> None:
        rows, found = self.rows.get(o), self.filters.get(o)
        if rows is None and found is None:
            super().visit(o)
            return
        item = None if rows is None else rows.item
        of = found if rows is None else rows.found
        assert of is not None
        try:
            condition = Condition(of, self.vector_bits // bits_of(of), item, gathers=self.gathers)
        except NotWidenable:
            super().visit(o)
            return
        in_line = None if item is None else condition_in_line(of, self.vector_bits, item)
        with at(o.loc):
            listed = self.b.insert(ops.LocalArray((LISTED,), zeroed=False), Array(int32, 1)).result
            one = _Filtering(self.b, self.mapping, condition, listed, self.vector_bits // 16, in_line)
            self.replace(o, one.loop(of.loop) if rows is None else one.loop_over_rows(rows))


class _Filtering:
    """Builds the code of one loop; ``listed`` is the memory of a list of iterations, or of items.

    Vectors of ``width`` items are listed: two registers full, so that most rows of a grid's cells take one.
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
        self.b, self.mapping, self.condition, self.listed = b, mapping, condition, listed
        self.width, self.in_line = width, in_line

    def value(self, v: Value) -> Value:
        return self.mapping.get(v, v)

    # --- loops ---

    def loop(self, o: ops.For) -> list[Value]:
        """Run a loop in parts that the list has room for."""
        b = self.b
        first, *carried = (Value(p.type, p.hint) for p in o.body.params)
        with b.into(Block([first, *carried])) as block:
            count = self.sift(self.limited(o.hi, first, LISTED), first)
            b.yield_(*self.iterations(count, carried, o.body.params[0]))
        return list(b.for_(o.lo, o.hi, b.constant(LISTED, o.lo.type), o.init, block))

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
            b.yield_(*then, *self.iterations(count, own, rows.item.result))
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
        return [*then, self.sift(count, None)]

    def walk(self, rows: Rows, state: Sequence[Value], take: Callable[[Value, Value, Value], Value]) -> list[Value]:
        """Walk through some rows, while the list has room; return the state after them, and how many are in the list.

        ``take`` is given a place, how many items from there on are next, and how many are in the list, and lists them.
        """
        b = self.b
        none = b.constant(0, int32)
        cond, block = (Block([Value(v.type, v.hint) for v in (*state, none)]) for _ in range(2))
        with b.into(cond):
            *counters, _, count = cond.params
            b.yield_(b.bit_and(self.goes_on(rows, counters), b.le(count, LISTED - self.width)))
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

    def sift(self, size: Value, first: Value | None) -> Value:
        """Leave those that do something in the list; return how many.

        There are ``size`` iterations from ``first`` on, or items in the list.
        """
        b, none = self.b, self.b.constant(0, int32)
        k, count = Value(int32), Value(int32)
        with b.into(Block([k, count])) as block:
            found = self.sift_one if self.condition.width == 1 else self.sift_vector
            b.yield_(b.add(count, found(size, first, k, count)))
        return b.for_(none, size, b.constant(self.condition.width, int32), [none], block)[0]

    def sift_one(self, _: Value, first: Value | None, k: Value, count: Value) -> Value:
        """Write the one at ``k`` behind ``count`` others; return 1 if it stays there. No branch has to be guessed."""
        b = self.b
        given = b.load(self.listed, [k]) if first is None else b.add(first, k)
        held = self.condition.emit(b, self.value, given)
        b.store(self.listed, [count], given)
        return b.cast(held, int32)

    def sift_vector(self, size: Value, first: Value | None, k: Value, count: Value) -> Value:
        """Write those of a vector from ``k`` on that do something behind ``count`` others; return how many."""
        b, width = self.b, self.condition.width
        mask, everywhere = self.first_lanes(self.limited(size, k, width), width), self.everywhere(width)
        if first is None:  # lanes without an item take the first one, so that loads need no mask
            listed = self.load(self.listed, k, everywhere)
            one = b.insert(ops.Broadcast(b.load(self.listed, [k])), listed.type).result
            given = lanes = b.insert(ops.Apply("where", (mask, listed, one)), listed.type).result
            held = self.condition.emit(b, self.value, given, everywhere)
        else:
            given = b.add(first, k)
            lanes = b.insert(ops.Iota(given, 1), Lanes(int32, width)).result
            held = self.condition.emit(b, self.value, given, mask)
        return self.write(count, lanes, held, mask)

    def write(self, count: Value, lanes: Value, held: Value, mask: Value) -> Value:
        """Write those of ``lanes`` for which ``held`` and ``mask`` hold behind ``count`` others; return how many."""
        b = self.b
        held = b.insert(ops.Apply("bit_and", (held, mask)), held.type).result
        self.store(count, b.insert(ops.Compress(lanes, held), lanes.type).result)
        return b.bit_count(b.insert(ops.LaneReduce("bits", held), uint64).result)

    def iterations(self, count: Value, carried: Sequence[Value], listed: Value) -> list[Value]:
        """Run the iterations of the list, in order; ``listed`` is the value that the list has."""
        b, body = self.b, self.condition.found.loop.body
        k, *params = (Value(v.type, v.hint) for v in (count, *carried))
        with b.into(Block([k, *params])) as block:
            cloner = Cloner({**self.mapping, **dict(zip(body.params[1:], params, strict=True))})
            cloner.mapping[listed] = b.load(self.listed, [k])
            b.block.ops += [cloner.op(x) for x in body.ops[:-1] if x is not self.condition.item]
            b.yield_(*map(cloner.value, body.yielded))
        return list(b.for_(b.constant(0, int32), count, b.constant(1, int32), carried, block))

    # --- vectors ---

    def limited(self, end: Value, begin: Value, most: int) -> Value:
        """``end - begin``, but ``most`` at most."""
        b = self.b
        left = b.sub(b.cast(end, int64), b.cast(begin, int64))
        return b.cast(b.select(b.lt(left, most), left, b.constant(most, int64)), int32)

    def first_lanes(self, count: Value, width: int) -> Value:
        """The mask of the first ``count`` of ``width`` lanes."""
        b, t = self.b, Lanes(int32, width)
        number = b.insert(ops.Iota(b.constant(0, int32), 1), t).result
        end = b.insert(ops.Broadcast(count), t).result
        return b.insert(ops.Apply("lt", (number, end)), Lanes(bool_, width)).result

    def load(self, array: Value, first: Value, mask: Value) -> Value:
        assert isinstance(mask.type, Lanes)
        t = Lanes(int32, mask.type.width)
        return self.b.insert(ops.Load(array, (self.b.insert(ops.Iota(first, 1), t).result,), (mask,)), t).result

    def store(self, first: Value, lanes: Value) -> None:
        """Write a vector to the list, whose last lanes nobody reads."""
        b = self.b
        assert isinstance(lanes.type, Lanes)
        place = b.insert(ops.Iota(first, 1), lanes.type).result
        b.insert(ops.Store(self.listed, (place,), lanes, (self.everywhere(lanes.type.width),)))

    def everywhere(self, width: int) -> Value:
        """The mask of all of ``width`` lanes."""
        return self.b.insert(ops.ActiveMask(), Lanes(bool_, width)).result


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

    def __init__(self, whole: _Filtering, condition: Condition, rows: Rows) -> None:
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
