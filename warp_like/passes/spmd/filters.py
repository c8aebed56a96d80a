"""Which loops look for few things among many: see ``filter_loops.py``, which lets lanes find these.

A loop is of this kind where an iteration computes a condition of several operations on floats and a branch on it comes
last, whose other side does nothing: it carries on what it got. Before the branch there are only loads and pure ops, and
nothing behind it writes memory that these loads may read. The condition may consist of branches in each other. No check
ends a thread there, since what it would not have read may be out of range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from warp_like.analysis.memory import Memory, Root, analyse, writes
from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import free_values, has_effects
from warp_like.ir.types import Array, bool_, element_count, int32, lane_type, scalar_of
from warp_like.passes.team.sharing import everything

FEWEST = 6
"""The fewest operations on floats before the branch: a distance takes 8."""

Kept = list[tuple[Value, Value]]
"""Values that are yielded, and those that they have where nothing is done."""


class Level(NamedTuple):
    """A branch at the end of ``block`` of which one ``side``, that for true or for false, may do something."""

    block: Block
    branch: ops.If
    side: bool


class Filter(Frozen):
    """How a loop finds the iterations that do something.

    Attributes:
        loop: The loop.
        levels: The branches that lead there, the outer ones first.
    """

    loop: ops.For
    levels: tuple[Level, ...]


class Rows(NamedTuple):
    """A loop over rows of items that a filter looks through, such as the points in rows of a hash grid's cells.

    Attributes:
        outer: The loop over the rows. Beside the filter's loop it only finds the next row.
        found: The filter; its loop goes over one row, and uses its counter for ``item`` alone.
        item: The load of an item, of memory that no kernel writes.
        carried: Of what ``outer`` carries, the places of the values that the filter's loop carries on, in its order.
        low: Which of the values that say which row it is says where it begins.
        high: Which of them says where it ends.
    """

    outer: ops.While
    found: Filter
    item: ops.Load
    carried: tuple[int, ...]
    low: int
    high: int

    def split(self, values: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Return those of ``values``, which ``outer`` carries, that say which row it is, and the others."""
        return [v for n, v in enumerate(values) if n not in self.carried], [values[n] for n in self.carried]

    def join(self, counters: Sequence[Value], carried: Sequence[Value]) -> list[Value]:
        """Put both in the order of ``outer``."""
        rest, own = iter(counters), dict(zip(self.carried, carried, strict=True))
        return [own[n] if n in own else next(rest) for n in range(len(counters) + len(carried))]


def find_filters(f: Function, apart: Sequence[int] = ()) -> list[Filter]:
    """Return the loops of ``f``, a function of one thread, that are of this kind.

    The arrays at the positions ``apart`` overlap no other argument.
    """
    alone = {Root("parameter", f.params[i]) for i in apart}
    found = _candidates(f)
    memory = analyse(f) if found else None
    return _innermost(x for x in found if memory is not None and _may_look_ahead(x, memory, alone))


def written_after_looking_ahead(memory: Memory, apart: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the positions of the arrays that must overlap no other argument for more loops to be of this kind.

    The arrays at the positions ``apart`` are known to overlap none.
    """
    params = memory.function.params
    alone = {Root("parameter", params[i]) for i in apart}
    needed: dict[Filter, set[Root]] = {}
    for x in _candidates(memory.function):
        inside = set(x.loop.body.walk())
        written = {r for a in memory.accesses if a.op in inside and writes(a) for r in a.roots}
        more = {r for r in written if r.kind == "parameter"}
        if _may_look_ahead(x, memory, alone | more):
            needed[x] = more - alone
    roots = set().union(*(needed[x] for x in _innermost(needed)))
    return tuple(i for i, p in enumerate(params) if Root("parameter", p) in roots)


def _candidates(f: Function) -> list[Filter]:
    """The loops of this kind, but for what they do to memory."""
    return [x for x in map(_filter, (o for o in f.body.walk() if isinstance(o, ops.For))) if x is not None]


def _innermost(found: Iterable[Filter]) -> list[Filter]:
    found = list(found)
    return [x for x in found if not any(y.loop in x.loop.body.walk() for y in found)]


def looks_through_rows(f: Function, apart: Sequence[int]) -> bool:
    """Return whether ``f`` looks through rows of items, such as the points of a hash grid."""
    return bool(find_rows(f, find_filters(f, apart)))


def _filter(o: ops.For) -> Filter | None:
    """``o`` as a loop of this kind, but for what it does to memory."""
    if o.lo.type != int32 or not ops.is_scalar_constant(o.step, 1) or o.simd or o.together or o.threads:
        return None
    levels: list[Level] = []
    block, kept = o.body, list(zip(o.body.yielded, o.body.params[1:], strict=True))
    while (level := _level(block, kept)) is not None:
        levels.append(level)
        branch, side = level.branch, level.side
        if _is_worth_it(found := Filter(o, tuple(levels))):
            return found if _may_run_early(found) else None
        block = branch.then if side else branch.orelse
        inner = dict(zip(branch.results, block.yielded, strict=True))
        kept = [(inner[y], p) for y, p in kept if y in inner]
    return None


def find_rows(f: Function, filters: Sequence[Filter]) -> list[Rows]:
    """Return the loops over rows that ``filters`` look through."""
    by_loop: dict[Op, Filter] = {x.loop: x for x in filters}
    found = []
    for o in f.body.walk() if filters else ():
        inside = [by_loop[x] for x in o.body.ops if x in by_loop] if isinstance(o, ops.While) else []
        if isinstance(o, ops.While) and len(inside) == 1 and (rows := _rows(o, inside[0])) is not None:
            found.append(rows)
    return found


def _rows(outer: ops.While, found: Filter) -> Rows | None:
    """``outer`` as a loop over rows that ``found`` looks through."""
    loop, params, yielded = found.loop, outer.body.params, list(outer.body.yielded)
    others = [o for o in outer.body.ops[:-1] if o is not loop]
    item = _item(loop)
    if item is None or not {loop.lo, loop.hi}.issubset(params) or not {loop.lo, loop.hi}.isdisjoint(loop.init):
        return None
    if any(map(has_effects, (*others, *outer.cond.ops[:-1]))) or any(yielded.count(r) != 1 for r in loop.results):
        return None
    finding = list(_all([*others, *outer.cond.ops]))
    if not all(_is_of_object(o) for o in finding if isinstance(o, ops.Load)):
        return None  # the loop might write there
    carried = tuple(map(yielded.index, loop.results))
    if tuple(params[n] for n in carried) != loop.init:
        return None
    own = {*loop.results, *loop.init, *(outer.cond.params[n] for n in carried)}
    used = {v for o in finding for v in o.operands()}
    used |= {v for n, v in enumerate(yielded) if n not in carried}
    inside = {*params, *(r for o in others for r in o.results)}
    if not own.isdisjoint(used) or not inside.isdisjoint(free_values(loop.body)):
        return None
    counters = [p for n, p in enumerate(params) if n not in carried]
    return Rows(outer, found, item, carried, counters.index(loop.lo), counters.index(loop.hi))


def _item(loop: ops.For) -> ops.Load | None:
    """The load of an int32 from memory that no kernel writes, for which alone ``loop`` uses its counter."""
    i = loop.body.params[0]
    users: list[Op] = [o for o in loop.body.walk() if i in o.operands()]
    o = users[0] if len(users) == 1 else None
    if not isinstance(o, ops.Load) or o not in loop.body.ops or o.indices != (i,) or o.result.type != int32:
        return None
    made = o.array.op
    inside = {r for x in loop.body.ops for r in x.results} | set(loop.body.params)
    return o if _is_of_object(o) and made is not None and inside.isdisjoint(made.operands()) else None


def _is_of_object(o: ops.Load) -> bool:
    """Whether ``o`` reads memory of an object, which no kernel writes."""
    return isinstance(o.array.op, ops.AtAddress) and o.array.op.constant


def _all(given: Sequence[Op]) -> Iterator[Op]:
    for o in given:
        yield from everything(o)


def _level(block: Block, kept: Kept) -> Level | None:
    """The branch that ends ``block``, where its other side does nothing and gives the values that ``kept`` says."""
    branch = block.ops[-2] if len(block.ops) > 1 else None
    if not isinstance(branch, ops.If) or any(map(has_effects, block.ops[:-2])):
        return None
    for side, other in ((True, branch.orelse), (False, branch.then)):
        same = dict(zip(branch.results, other.yielded, strict=True))
        if len(other.ops) == 1 and all(same.get(y, y) is p for y, p in kept):
            return Level(block, branch, side)
    return None


def needed(found: Filter) -> Iterator[Op]:
    """Iterate over the ops of the levels that the condition needs, the last one first."""
    wanted: set[Value] = set()
    for block, branch, _ in reversed(found.levels):
        wanted.add(branch.cond)
        for o in reversed(block.ops[:-2]):
            if not wanted.isdisjoint(o.results):
                wanted.update(o.operands(), *(free_values(r) for r in o.regions()))
                yield o


def _is_worth_it(found: Filter) -> bool:
    """Whether the condition compares floats, of which it takes several operations."""
    calls = [x for o in needed(found) for x in everything(o) if isinstance(x, ops.Apply)]
    compares = any(x.result.type == bool_ and any(map(_is_float, x.args)) for x in calls)
    return compares and sum(element_count(x.result.type) for x in calls if _is_float(x.result)) >= FEWEST


def _may_run_early(found: Filter) -> bool:
    """Whether the condition rests on nothing that iterations carry on, and lanes may compute it."""
    carried = set(found.loop.body.params[1:])
    if not carried.isdisjoint(level.branch.cond for level in found.levels):
        return False
    return all(
        all(map(_is_plain, everything(o))) and carried.isdisjoint(v for x in everything(o) for v in x.operands())
        for o in needed(found)
    )


def _is_plain(o: Op) -> bool:
    """Whether lanes may run ``o`` as the iterations do; they take ``Tid`` for the number of the iteration."""
    return (o.PURE and not isinstance(o, ops.Tid)) or isinstance(o, (ops.Load, ops.AtAddress, ops.If, ops.Yield))


def reads_stay(f: Function, found: Filter, loads: Sequence[ops.Load], apart: Sequence[int]) -> bool:
    """Return whether no iteration changes what ``loads`` read, nor what the conditions of later iterations read.

    The arrays at the positions ``apart`` overlap no other argument.
    """
    return _may_look_ahead(found, analyse(f), {Root("parameter", f.params[i]) for i in apart}, loads)


def _may_look_ahead(found: Filter, memory: Memory, alone: Collection[Root], others: Sequence[ops.Load] = ()) -> bool:
    """Whether no iteration changes what the conditions of later ones read; ``alone`` overlap no other memory.

    Nor what ``others`` read.
    """
    loads = [*others, *(x for o in needed(found) for x in everything(o) if isinstance(x, ops.Load))]
    read = _roots(memory, loads)
    inside = set(found.loop.body.walk())
    if read is None or any(isinstance(o, (ops.Native, ops.Check, ops.Call)) for o in inside):
        return False  # a thread that a check ends reads no more
    writing = [a for a in memory.accesses if a.op in inside and writes(a)]
    written = {r for a in writing for r in a.roots}
    known = all(r.kind in ("parameter", "local", "object") for r in read) and all(a.roots for a in writing)
    apart = known and all(r.kind == "local" or r in alone for r in written) and not read & written
    return apart or all(r.kind == "object" for r in read)


def _roots(memory: Memory, loads: Sequence[ops.Load]) -> set[Root] | None:
    """The memory that ``loads`` read, beside components of values; None where it is not known of one."""
    arrays = [o.array for o in loads if isinstance(ops.base_array(o.array).type, Array)]
    found = [memory.roots(a) for a in arrays]
    return set().union(*found) if all(found) else None


def _is_float(v: Value) -> bool:
    scalar = scalar_of(lane_type(v.type))
    return scalar is not None and scalar.is_float


__all__ = [
    "Filter",
    "Level",
    "Rows",
    "find_filters",
    "find_rows",
    "looks_through_rows",
    "needed",
    "reads_stay",
    "written_after_looking_ahead",
]
