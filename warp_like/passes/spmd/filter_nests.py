"""Loops around a loop that looks for few things: what all of its rounds have found is run at the end.

A thread that looks at the cells around its own has loops over these, and in them a loop over the points of a cell, of
which there are a dozen. If what was found ran after each cell, the processor would have to guess how much that is,
while lanes still compute it. So the list goes on from cell to cell (``filter_lists.py``), with a second list beside it:
in which *row*, which round of the loops, an iteration was found. What iterations use of their row is kept in tables, an
element for each row. Where the list or the tables are nearly full, all that has been listed runs.

The order of what was found stays, and rows depend on nothing that iterations do: the loops between compute values of
their own alone, and read memory that no iteration writes; what iterations carry on only passes through them.

Pure ops of the loops between run as far out as they can, also out of the branches that lead to the rows: ``licm``
leaves those where they are, since a branch might never run, and LLVM leaves divisions, which it takes for ones that may
trap. In a grid of cells whose borders are periodic, two of three divisions leave the innermost loop.

A loop over rows::

    %total = for %i in %0, %n, %1 (%a = %zero) : float32 {
      %lo = load %starts[%i] : int32
      %row = for %k in %lo, %hi, %1 (%b = %a) : float32 {
        # few iterations do something, with %k, %b and %lo
      }
      yield %row
    }

It becomes::

    %count, %rows, %a = for %i in %0, %n, %1 (...) : int32, int32, float32 {
      %lo = load %starts[%i] : int32
      # run what is listed if there is no room
      store %table[%rows], %lo
      # list those of the iterations that do something, each with %rows
      ...
    }
    %total = for %j in %0, %count, %1 (%b = %a) : float32 {
      %k = load %listed[%j] : int32
      %r = load %row_of[%j] : int32
      %lo.1 = load %table[%r] : int32
      # the iteration
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, free_values, has_effects
from warp_like.ir.types import Array, Lanes, Struct, int32
from warp_like.passes.licm import may_run_anywhere
from warp_like.passes.spmd import filter_lists
from warp_like.passes.spmd.filter_conditions import Condition
from warp_like.passes.spmd.filter_lists import Filtering
from warp_like.passes.spmd.filters import Filter, reads_stay
from warp_like.passes.team.sharing import everything

ROWS = 64
"""How many rows have room in the tables."""

MOST_KEPT = 12
"""The most values of a row that are kept: each takes a store a row, and a load for each iteration that was found."""

MOST_OPS = 400
"""The most ops of an iteration, which stands twice in the code."""


class Nest(NamedTuple):
    """Loops and branches around the loop of a filter, which only lead there.

    Attributes:
        found: The filter.
        path: For each of them, from outside to inside, the block that leads to the loop.
        levels: They themselves.
        order: Which of the outermost loop's results each result of the filter's loop becomes.
        kept: The values of a row that iterations use.
    """

    found: Filter
    path: tuple[Block, ...]
    levels: tuple[ops.For | ops.If, ...]
    order: tuple[int, ...]
    kept: tuple[Value, ...]

    @property
    def outer(self) -> ops.For:
        """The outermost loop."""
        outer = self.levels[0]
        assert isinstance(outer, ops.For)
        return outer

    def before(self, n: int) -> list[Op]:
        """What stands in the block of level ``n`` before the next level."""
        child = self.found.loop if n + 1 == len(self.levels) else self.levels[n + 1]
        return self.path[n].ops[: self.path[n].ops.index(child)]

    def hoisted(self) -> list[list[Op]]:
        """The ops to run before the outermost loop, then those to run at each level before the next one."""
        made: list[list[Op]] = [[] for _ in range(len(self.levels) + 1)]
        known: dict[Value, int] = {}  # what is made here, and where: at 1 for the outermost loop
        for n, path in enumerate(self.path, start=1):
            known.update(dict.fromkeys(path.params, n))
            for o in self.before(n - 1):
                used = (*o.operands(), *(v for r in o.regions() for v in free_values(r)))
                place = max((known.get(v, 0) for v in used), default=0)
                leaves = any(isinstance(level, ops.For) for level in self.levels[place:n])
                place = place if leaves and all(map(_may_run_early, everything(o))) else n
                known.update(dict.fromkeys(o.results, place))
                made[place].append(o)
        return made


def find_nests(f: Function, filters: Sequence[Filter], apart: Sequence[int] = ()) -> list[Nest]:
    """Return the loops around ``filters`` of this kind; the arrays at the positions ``apart`` overlap no other."""
    if not filters:
        return []
    parents = {o: (parent, block) for parent, block in _blocks(f) for o in block.ops}
    found = []
    for x in filters:
        nest = _nest(x, parents)
        if nest is not None and reads_stay(f, x, _loads(nest), apart):
            found.append(nest)
    return found


def _blocks(f: Function) -> Iterator[tuple[Op | None, Block]]:
    yield None, f.body
    for o in f.body.walk():
        for r in o.regions():
            yield o, r


def _loads(nest: Nest) -> list[ops.Load]:
    """What the rows read, beside the filter's loop."""
    inside = set(everything(nest.found.loop))
    return [o for o in nest.outer.body.walk() if isinstance(o, ops.Load) and o not in inside]


def _nest(found: Filter, parents: dict[Op, tuple[Op | None, Block]]) -> Nest | None:
    """The largest nest around ``found``, but for what it reads."""
    loop = found.loop
    if sum(1 for _ in loop.body.walk()) > MOST_OPS:
        return None
    carried, results = list(loop.init), list(loop.results)
    order = list(range(len(results)))
    path: list[Block] = []
    levels: list[ops.For | ops.If] = []
    passed: set[Value] = set()
    best: Nest | None = None
    child: Op = loop
    while True:
        level, block = parents[child]
        others = [o for o in block.ops[:-1] if o is not child]
        if not isinstance(level, (ops.For, ops.If)) or not all(map(_is_plain, others)):
            return best
        passed |= {*carried, *results}
        through = _through(level, block, carried, results)
        if through is None:
            return best
        carried, results, order = through
        path.insert(0, block)
        levels.insert(0, level)
        if isinstance(level, ops.For):
            kept = _kept(loop, level)
            if kept is None or not _only_passes(level, levels, loop, passed):
                return best
            best = Nest(found, tuple(path), tuple(levels), tuple(order), kept)
        child = level


def _is_plain(o: Op) -> bool:
    """Whether ``o`` only computes values, which stay the same if other code runs later than it did."""
    kinds = (ops.Load, ops.AtAddress, ops.If, ops.For, ops.Yield)
    return not has_effects(o) and all(x.PURE or isinstance(x, kinds) for x in everything(o))


def _through(
    level: ops.For | ops.If, block: Block, carried: Sequence[Value], results: Sequence[Value]
) -> tuple[list[Value], list[Value], list[int]] | None:
    """What goes into ``level`` and comes out of it for what its ``block`` passes to the loop and gets of it.

    None where it does something else with these, or carries more. The last list says which of its results they are.
    """
    if len(level.results) != len(results) or any(block.yielded.count(r) != 1 for r in results):
        return None
    order = [block.yielded.index(r) for r in results]
    if isinstance(level, ops.For):
        if level.simd or level.together or level.threads or [block.params[1 + n] for n in order] != list(carried):
            return None
        return [level.init[n] for n in order], [level.results[n] for n in order], order
    other = level.orelse if block is level.then else level.then
    if len(other.ops) != 1 or [other.yielded[n] for n in order] != list(carried):
        return None
    return list(carried), [level.results[n] for n in order], order


def _only_passes(outer: ops.For, levels: Sequence[Op], loop: ops.For, passed: set[Value]) -> bool:
    """Whether nothing in ``outer`` uses the values that it passes to ``loop``, but to pass them on."""
    for o in outer.body.walk():
        if isinstance(o, ops.For) and (o is loop or o in levels):
            used: Sequence[Value] = (o.lo, o.hi, o.step)
        elif isinstance(o, ops.Yield) and any(o is r.ops[-1] for level in levels for r in level.regions()):
            continue
        else:
            used = o.operands()
        if not passed.isdisjoint(used):
            return False
    return True


def _kept(loop: ops.For, outer: ops.For) -> tuple[Value, ...] | None:
    """The values that ``loop`` uses of those that are made in ``outer``; None where they are too many, or arrays."""
    made = {*outer.body.params, *(v for o in outer.body.walk() for v in (*o.results, *_params(o)))}
    found = [v for v in free_values(loop.body) if v in made and not isinstance(v.op, ops.Constant)]
    if len(found) > MOST_KEPT or any(isinstance(v.type, (Array, Struct, Lanes)) for v in found):
        return None
    return tuple(found)


def _may_run_early(o: Op) -> bool:
    return isinstance(o, (ops.If, ops.Yield)) or may_run_anywhere(o)


def _params(o: Op) -> list[Value]:
    return [p for r in o.regions() for p in r.params]


class NestFiltering(Filtering):
    """Builds the code of a nest."""

    def __init__(
        self, b: Emitter, mapping: dict[Value, Value], condition: Condition, listed: Value, nest: Nest
    ) -> None:
        super().__init__(b, mapping, condition, listed)
        self.nest, self.hoisted = nest, nest.hoisted()
        self.row_of = self._memory(filter_lists.LISTED, int32)
        self.tables = [(v, self._memory(ROWS, v.type)) for v in nest.kept]
        self.row: Value | None = None

    def _memory(self, count: int, t: object) -> Value:
        made: Value = self.b.insert(ops.LocalArray((count,), zeroed=False), Array(t, 1)).result  # type: ignore[arg-type]
        return made

    def run(self) -> list[Value]:
        """Run it; return the results of the outermost loop."""
        self.copy(self.hoisted[0])
        none, outer = self.b.constant(0, int32), self.nest.outer
        given = [self.value(outer.init[n]) for n in self.nest.order]
        count, _, *carried = self.level(0, [none, none, *given])
        made = dict(zip(self.nest.order, self.iterations(count, carried), strict=True))
        return [made[n] for n in range(len(made))]

    def level(self, n: int, state: list[Value]) -> list[Value]:
        """Run the nest from level ``n`` on.

        The state is how many iterations are listed, how many rows, and what iterations carry on, in the loop's order.
        """
        b = self.b
        if n == len(self.nest.levels):
            return self.list_row(state)
        o, path = self.nest.levels[n], self.nest.path[n]
        index = [Value(p.type, p.hint) for p in path.params[:1]]
        inside = [Value(v.type, v.hint) for v in state] if isinstance(o, ops.For) else state
        with b.into(Block([*index, *inside] if index else [])) as block:
            self.mapping.update(zip(path.params, index, strict=False))
            self.copy(self.hoisted[n + 1])
            b.yield_(*self.level(n + 1, inside))
        if isinstance(o, ops.For):
            return list(b.for_(self.value(o.lo), self.value(o.hi), self.value(o.step), state, block))
        with b.into(Block()) as otherwise:
            b.yield_(*state)
        sides = (block, otherwise) if path is o.then else (otherwise, block)
        return list(b.if_(self.value(o.cond), *sides))

    def copy(self, given: Sequence[Op]) -> None:
        """Copy ops of the nest."""
        cloner = Cloner(self.mapping)
        self.b.block.ops += [cloner.op(x) for x in given]

    def list_row(self, state: Sequence[Value]) -> list[Value]:
        """List those iterations of a row that do something; run what is listed first where there is no room."""
        b, loop = self.b, self.nest.found.loop
        part = filter_lists.LISTED // 2
        first, count, row, *carried = (Value(v.type, v.hint) for v in (loop.body.params[0], *state))
        with b.into(Block([first, count, row, *carried])) as block:
            none = b.constant(0, int32)
            with b.into(Block()) as full:
                b.yield_(none, none, *self.iterations(count, carried))
            with b.into(Block()) as room:
                b.yield_(count, row, *carried)
            test = b.bit_or(b.gt(count, filter_lists.LISTED - part), b.ge(row, ROWS))
            count, row, *carried = b.if_(test, full, room)
            for v, table in self.tables:
                b.store(table, [row], self.value(v))
            self.row = row
            size = self.limited(self.value(loop.hi), first, part)
            size = b.select(b.lt(size, 0), b.constant(0, int32), size)  # it is none, but this bounds the loop's length
            count = self.sift(size, first, count)
            b.yield_(count, b.add(row, 1), *carried)
        lo, hi = self.value(loop.lo), self.value(loop.hi)
        return list(b.for_(lo, hi, b.constant(part, int32), state, block))

    def store(self, first: Value, lanes: Value) -> None:
        """Write a vector to the list, and its row beside it."""
        super().store(first, lanes)
        assert self.row is not None
        place = self.b.insert(ops.Iota(first, 1), lanes.type).result
        rows = self.b.insert(ops.Broadcast(self.row), lanes.type).result
        assert isinstance(lanes.type, Lanes)
        self.b.insert(ops.Store(self.row_of, (place,), rows, (self.everywhere(lanes.type.width),)))

    def store_one(self, count: Value, given: Value) -> None:
        super().store_one(count, given)
        assert self.row is not None
        self.b.store(self.row_of, [count], self.row)

    def at_row(self, k: Value) -> dict[Value, Value]:
        """What stands for the values of the row in which the iteration at ``k`` was found."""
        b = self.b
        row = b.load(self.row_of, [k])
        found = {v: b.load(table, [row]) for v, table in self.tables}
        found.update((v, b.insert(o, v.type).result) for v, o in self.constants())
        return found

    def constants(self) -> Iterator[tuple[Value, ops.Constant]]:
        """The constants that iterations use, which stand somewhere in the nest."""
        for v in free_values(self.nest.found.loop.body):
            if isinstance(v.op, ops.Constant):
                yield v, ops.Constant(v.op.value)


__all__ = ["MOST_KEPT", "ROWS", "Nest", "NestFiltering", "find_nests"]
