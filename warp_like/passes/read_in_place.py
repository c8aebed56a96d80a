"""Large values that loops load from arrays are read where they are, as long as nothing can write to memory.

A sum of a row needs no copy of the row. A tile that may reach beyond its array is padded, so there are two versions of
the code that reads it: one for a tile that lies inside of its array, and one that makes the padded copy first. Code
that does not depend on such tiles stays as it is, in front of the versions or behind them.

Relies on ``fuse``, so that most loads are read by the loops that compute with them. Code between a load and its last
read has no effects at all, so that its order can't be seen.

Before::

    kernel k(%x: array1d[float32], %n: int32, %y: array1d[float32]) {
      %0 = constant 0.0 : float32
      %1 = fill %0 : tile[100] of float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = for %i in %2, %n, %3 (%5 = %1) : tile[100] of float32 {
        %6 = load %x[%i] : float32
        %7 = insert %5[%i], %6 : tile[100] of float32
        yield %7
      }
      %8 = constant 0 : int32
      %9 = extract %4[%8] : float32
      %10 = constant 1 : int32
      %11 = constant 100 : int32
      %12 = constant 1 : int32
      %13 = for %15 in %10, %11, %12 (%14 = %9) : float32 {
        %16 = extract %4[%15] : float32
        %17 = add %14, %16 : float32
        yield %17
      }
      %18 = tid 0 of 1 : int32
      store %y[%18], %13
      yield
    }

After::

    kernel k(%x: array1d[float32], %n: int32, %y: array1d[float32]) {
      %0 = constant 0.0 : float32
      %1 = fill %0 : tile[100] of float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = constant 0 : int32
      %5 = constant 1 : int32
      %6 = constant 100 : int32
      %7 = constant 1 : int32
      %8 = constant True : bool
      %9 = constant 0 : int32
      %10 = eq %2, %9 : bool
      %11 = constant 100 : int32
      %12 = eq %n, %11 : bool
      %13 = bit_and %10, %12 : bool
      %14 = bit_and %8, %13 : bool
      %15 = if %14 : float32 {
        %16 = load %x[%4] : float32
        %17 = for %19 in %5, %6, %7 (%18 = %16) : float32 {
          %20 = load %x[%19] : float32
          %21 = add %18, %20 : float32
          yield %21
        }
        yield %17
      } else {
        %22 = fill %0 : tile[100] of float32
        %23 = for %i in %2, %n, %3 (%24 = %22) : tile[100] of float32 {
          %25 = load %x[%i] : float32
          %26 = insert %24[%i], %25 : tile[100] of float32
          yield %26
        }
        %27 = extract %23[%4] : float32
        %28 = for %30 in %5, %6, %7 (%29 = %27) : float32 {
          %31 = extract %23[%30] : float32
          %32 = add %29, %31 : float32
          yield %32
        }
        yield %28
      }
      %33 = tid 0 of 1 : int32
      store %y[%33], %15
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warp_like.base.frozen import Frozen
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, has_effects, substitute
from warp_like.ir.types import Array, element_count, is_large
from warp_like.passes.element_reads import Reads, depends, goes_in_lanes, is_cheap
from warp_like.passes.tabulations import Tabulation, tabulation

MOST_LOADS = 4
"""How often a number may be loaded from its array, whose rows may lie apart, in place of one copy and its reads."""
FEWEST = 64
"""The fewest numbers of a value that is read in place: few are soon copied, in loops that may be unrolled."""
MOST_OPS = 32
"""The most ops that load a number: its address, and views on the way."""
MOST_VERSIONED = 400
"""The most ops of code that there may be two versions of."""


def read_in_place(f: Function) -> Function:
    """Read what ``f`` loads where it is, in place."""
    reader = _Reader(f)
    for b in reversed([f.body, *reader.reads.owner]):  # the inner ones first
        reader.block(b)
    return f


class _Load(Frozen):
    """A value that is loaded, the ops that read it, and the places of its loop and its last read in their block."""

    made: Tabulation
    found: tuple[ops.Extract, ...]
    first: int
    last: int


class _Reader:
    def __init__(self, f: Function) -> None:
        self.reads = Reads(f)

    def block(self, b: Block) -> None:
        """Read what loops of ``b`` load in place."""
        loads = self.loads(b)
        whole = [load for load in loads if load.made.is_whole]
        for load in whole:
            self.read(load)
        if 0 < len(whole) < len(loads):
            loads = self.loads(b)  # ops have other places now, and elements that were read may read the other loads
        padded = [load for load in loads if not load.made.is_whole]
        for group in reversed(list(_overlapping(padded))):  # the last one first, so that places stay
            self.version(b, group)

    def read(self, load: _Load) -> None:
        """Load each element where it is read; nothing that looks at the code later finds what was there."""
        blocks = dict.fromkeys(self.reads.block_of[o] for o in load.found)
        mapping = {o.result: self.reads.replace(o, load.made) for o in load.found}
        for b in blocks:
            substitute(b, mapping)

    def loads(self, b: Block) -> list[_Load]:
        """What loops of ``b`` load, and nothing can overwrite before the last read."""
        order = {o: k for k, o in enumerate(b.ops)}
        loads: list[_Load] = []
        for first, o in enumerate(b.ops):
            if not isinstance(o, ops.For):
                continue
            made = [m for k, r in enumerate(o.results) if is_large(r.type) and (m := self.load(o, k, b, order, first))]
            if len(made) == sum(r in self.reads.users for r in o.results):
                loads += made
        return loads

    def load(self, o: ops.For, k: int, b: Block, order: dict[Op, int], first: int) -> _Load | None:
        """Result ``k`` of ``o``, if it is read in place."""
        found = self.reads.elements(o.results[k])
        made = tabulation(o, k) if found else None
        if made is None or not found or not self.pays(made, found, b):
            return None
        last = max(order[self.reads.top(e, b)] for e in found)
        return None if any(map(has_effects, b.ops[first : last + 1])) else _Load(made, tuple(found), first, last)

    def pays(self, made: Tabulation, found: Sequence[ops.Extract], b: Block) -> bool:
        """Whether to load each element where it is read."""
        if element_count(made.value.type) < FEWEST:
            return False
        is_load = made.loads and all(map(is_cheap, made.walk())) and len(made.body) <= MOST_OPS
        few = is_load and self.reads.times(found, b) <= MOST_LOADS * element_count(made.value.type)
        return few and all(self.goes_along_rows(o, b) for o in found)

    def goes_along_rows(self, o: ops.Extract, b: Block) -> bool:
        """Whether reads by ``o`` that follow each other are of neighbours."""
        around = sorted(self.reads.loops(o, b), key=goes_in_lanes, reverse=True)  # lanes go side by side
        if not around or not isinstance(around[0], ops.For):
            return True
        counter = around[0].body.params[0]
        *outer, last = (depends(i, counter) for i in o.indices)
        return last or not any(outer)

    # --- versions ---

    def version(self, b: Block, group: Sequence[_Load]) -> None:
        """Read ``group`` in place if all of it lies inside of its arrays, else from padded copies."""
        part = _Part(self.reads, b, group)
        outputs = part.outputs()
        if part.size() > MOST_VERSIONED or any(isinstance(v.type, Array) for v in outputs):
            return
        with at(group[0].made.loop.loc):
            made = Emitter(Block())
            inside = _inside(made, part.loads)
            sides = [self.in_place(part, outputs), self.of_copies(part, outputs)]
            results = made.if_(inside, *sides)
        behind = [*part.after, *b.ops[part.end :]]
        b.ops[part.start :] = [*part.before, *made.block.ops, *behind]
        self.reads.owner.update(dict.fromkeys(sides, made.block.ops[-1]))
        self.reads.note(b, made.block.ops[:-1])
        self.reads.block_of[made.block.ops[-1]] = b
        self.rename(dict(zip(outputs, results, strict=True)), behind)
        for load in part.loads:
            self.read(load)

    def in_place(self, part: _Part, outputs: Sequence[Value]) -> Block:
        """The code that reads loads where they are; the reads in it are still to be replaced."""
        side = Block()
        side.ops = [o for o in part.ops if o in part.core]
        self.reads.block_of.update(dict.fromkeys(side.ops, side))
        self.end(side, outputs)
        return side

    def of_copies(self, part: _Part, outputs: Sequence[Value]) -> Block:
        """The code as it was."""
        side, cloner = Block(), Cloner()
        for o in part.ops:
            if o in part.copies:
                fills = Cloner()
                side.ops += [fills.op(v.op) for v in o.operands() if isinstance(v.op, ops.Fill)]  # for this side alone
                o.map_operands(fills.value)
                side.ops.append(o)
                self.reads.block_of.update(dict.fromkeys(side.ops, side))
            elif o in part.core:
                side.ops.append(cloner.op(o))
                self.reads.note(side, side.ops[-1:])
        self.end(side, [cloner.value(v) for v in outputs])
        return side

    def end(self, side: Block, outputs: Sequence[Value]) -> None:
        with Emitter(side).into(side):
            Emitter(side).yield_(*outputs)
        self.reads.note(side, side.ops[-1:])

    def rename(self, names: dict[Value, Value], behind: Sequence[Op]) -> None:
        """Let the ops ``behind`` use the results of the versions."""
        for o in behind:
            for x in _walk(o):
                for v in x.operands():
                    if v in names and is_large(v.type):
                        self.reads.users.setdefault(names[v], []).append(x)
                x.map_operands(lambda v: names.get(v, v))


class _Part:
    """The ops of a block from the first of some loads to the last read, by what they depend on.

    Attributes:
        loads: Those of the loads whose place does not depend on what others load.
        ops: All ops, from place ``start`` up to ``end``.
        copies: The loops that load.
        before: The ops that depend on none of the loads.
        core: The ops that read loads, and those between.
        after: The ops that depend on loads, and that ``core`` does not need.
    """

    def __init__(self, reads: Reads, b: Block, group: Sequence[_Load]) -> None:
        self.block = b
        self.start, self.end = min(load.first for load in group), max(load.last for load in group) + 1
        self.ops = b.ops[self.start : self.end]
        self._used = {o: {v for x in _walk(o) for v in x.operands()} for o in self.ops}
        self.loads, late = list(group), set(group)
        while late:
            self.copies = {load.made.loop for load in self.loads}
            dependent = self._dependent()
            late = {load for load in self.loads if load.made.loop in dependent}
            self.loads = [load for load in self.loads if load not in late]
        self.core = self._needed_for({reads.top(e, b) for load in self.loads for e in load.found}, dependent)
        self.before = [o for o in self.ops if o not in dependent and o not in self.copies]
        self.after = [o for o in self.ops if o in dependent and o not in self.core]

    def _dependent(self) -> set[Op]:
        """The ops that depend on loads."""
        found: set[Op] = set()
        values: set[Value] = set()
        for o in self.ops:
            if not values.isdisjoint(self._used[o]):
                found.add(o)
            if o in found or o in self.copies:
                values.update(o.results)
        return found

    def _needed_for(self, reading: set[Op], among: set[Op]) -> set[Op]:
        found: set[Op] = set()
        values: set[Value] = set()
        for o in reversed(self.ops):
            if o in reading or (o in among and not values.isdisjoint(o.results)):
                found.add(o)
                values |= self._used[o]
        return found

    def outputs(self) -> list[Value]:
        """The values that ``core`` makes for others."""
        used = {v for o in (*self.after, *self.block.ops[self.end :]) for x in _walk(o) for v in x.operands()}
        return [r for o in self.ops if o in self.core for r in o.results if r in used]

    def size(self) -> int:
        """The number of ops of which there would be two versions."""
        return sum(1 for o in self.core for _ in _walk(o))


def _overlapping(loads: Sequence[_Load]) -> list[list[_Load]]:
    """``loads``, in order, together where one begins before the last read of another."""
    groups: list[list[_Load]] = []
    end = -1
    for load in loads:
        if load.first > end:
            groups.append([])
        groups[-1].append(load)
        end = max(end, load.last)
    return groups


def _inside(b: Emitter, loads: Sequence[_Load]) -> Value:
    """Whether the loops of ``loads`` make all elements."""
    inside = b.true()
    for load in loads:
        for loop, n in zip(load.made.loops, load.made.shape, strict=True):
            inside = b.bit_and(inside, b.bit_and(b.eq(loop.lo, 0), b.eq(loop.hi, n)))
    return inside


def _walk(o: Op) -> Iterator[Op]:
    yield o
    for r in o.regions():
        yield from r.walk()


__all__ = ["read_in_place"]
