"""Where values are used for the last time, in structured code: what a pass asks that puts values into memory.

An op that holds blocks uses what these use. A loop uses it in every iteration, so a value from outside of a loop does
not die in it. A branch is taken or not: what it uses last, it may overwrite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import blocks, count_uses
from warp_like.ir.types import Type, element_count, scalar_of
from warp_like.passes.unroll import trip_count

UNKNOWN_TRIPS = 16
"""Iterations of a loop whose number is unknown."""


class Lifetimes:
    """The last uses of the values of the types that are ``wanted``.

    A use by the op that ends a block counts as the block's last one.
    """

    def __init__(self, f: Function, wanted: Callable[[Type], bool]) -> None:
        self._wanted = wanted
        self._place: dict[Op, tuple[Block, int]] = {}
        self._owner: dict[Block, Op] = {}
        self._home: dict[Value, Block] = {}
        self._last: dict[Block, dict[Value, int]] = {}
        self._writes: set[Op] = set()
        self._users = count_uses(f.body)
        self._block(f.body)

    def _block(self, b: Block) -> None:
        last = self._last[b] = {}
        self._home.update((p, b) for p in b.params)
        for k, o in enumerate(b.ops):
            self._place[o] = b, k
            self._home.update((r, b) for r in o.results)
            last.update((v, k) for v in o.operands() if self._wanted(v.type))
            for r in o.regions():
                self._owner[r] = o
                self._block(r)
                last.update((v, k) for v in self._last[r] if self._home[v] is not r)
                if any(inner in self._writes for inner in r.ops):
                    self._writes.add(o)
            if _writes_memory(o):
                self._writes.add(o)

    def is_made_in(self, v: Value, b: Block) -> bool:
        """Return whether ``b`` itself makes ``v``."""
        return self._home[v] is b

    def uses(self, o: Op, v: Value) -> bool:
        """Return whether a block of ``o`` uses ``v``."""
        return any(v in self._last[r] for r in o.regions())

    def dies_at(self, v: Value, o: Op) -> bool:
        """Return whether no op behind ``o``, which runs once for each time that ``v`` is made, uses ``v``."""
        home = self._home[v]
        while True:
            b, k = self._place[o]
            if self._last[b].get(v, -1) > k:
                return False
            if b is home:
                return True
            o = self._owner[b]
            if not isinstance(o, ops.If):
                return False

    def dead_after(self, o: Op) -> list[Value]:
        """Return the values of the block of ``o`` that are used by ``o`` for the last time."""
        b, k = self._place[o]
        unused = [r for r in o.results if self._wanted(r.type) and r not in self._last[b]]
        return [v for v, last in self._last[b].items() if last == k and self._home[v] is b] + unused

    def replaced_components(self, o: ops.Store | ops.Atomic) -> list[ops.Insert]:
        """Return what replaces numbers in the element that ``o`` writes, in order, if ``o`` changes nothing else."""
        found: list[ops.Insert] = []
        made = o.value
        while isinstance(made.op, ops.Insert) and self._users[made] == 1 and not self._wanted(made.op.value.type):
            found.insert(0, made.op)
            made = made.op.x
        if isinstance(o, ops.Atomic):
            alone = not self._users[o.result] and _is_identity(made, o.kind) and _are_apart(found)
            return found if alone else []
        return found if self._is_in_place(made, o) else []

    def _is_in_place(self, v: Value, o: ops.Store) -> bool:
        """Whether ``v`` is the element that ``o`` writes, as it still is there."""
        if not isinstance(v.op, ops.Load) or (v.op.array, v.op.indices) != (o.array, o.indices):
            return False
        (b, k), (home, first) = self._place[o], self._place[v.op]
        return home is b and self._writes.isdisjoint(b.ops[first + 1 : k])

    def is_unwritten(self, load: ops.Load) -> bool:
        """Return whether nothing writes to memory before the result of ``load`` is dead."""
        b, k = self._place[load]
        last = self._last[b].get(load.result, k)
        return self._writes.isdisjoint(b.ops[k + 1 : last + 1])


def reads(b: Block) -> Counter[Value]:
    """About how many components of each value are read each time that it is made, or ``b`` is entered."""
    found: Counter[Value] = Counter()
    for o in b.ops:
        if isinstance(o, ops.Extract):
            found[o.x] += element_count(o.result.type)
        times = 1
        if isinstance(o, (ops.For, ops.While)):
            trips = trip_count(o) if isinstance(o, ops.For) else None
            times = UNKNOWN_TRIPS if trips is None else trips
        for r in o.regions():
            made = {v for inner in blocks(r) for v in (*inner.params, *(x for op in inner.ops for x in op.results))}
            for v, n in reads(r).items():
                found[v] += n if v in made else n * times
    return found


def _are_apart(inserts: list[ops.Insert]) -> bool:
    """Whether no insert replaces what another one has put there: an atomic update would update by both."""
    if len(inserts) == 1:
        return True
    places = [tuple(ops.constant_value(i) for i in o.indices) for o in inserts]
    if any(None in place for place in places):
        return False
    return all(any(i != j for i, j in zip(x, y, strict=False)) for k, x in enumerate(places) for y in places[k + 1 :])


def _is_identity(v: Value, kind: str) -> bool:
    """Whether an atomic update by ``v`` changes nothing."""
    identity, scalar = KINDS[kind].identity, scalar_of(v.type)
    if identity is None or scalar is None or not isinstance(v.op, ops.Constant):
        return False
    return {repr(x) for x in v.op.value} == {repr(type(v.op.value[0])(identity(scalar)))}


def _writes_memory(o: Op) -> bool:
    return isinstance(o, (ops.Store, ops.Atomic, ops.AtomicCas, ops.Native, ops.Barrier, ops.Call))
