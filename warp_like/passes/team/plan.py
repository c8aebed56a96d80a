"""How the threads of a team run each op: all of them the same, one alone, or each a part of it.

Outside of loops that are shared out, all threads hold the same values, so they take the same branches and come to
barriers together. This rests on the following. Pure ops give the same in all threads. What one thread alone computes
the others get through shared memory; that holds for each value that is read where others may write at the time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.passes.team.accesses import READ, WRITE, Access, Accesses, Root, is_own
from warp_like.passes.team.sharing import Nest, Sharing, defined_in, everything
from warp_like.passes.uniform import cooperative


class How(enum.Enum):
    """How a team runs an op."""

    ALL = "all threads do the same"
    ONE = "one thread does it, and tells the others its results"
    SHARED = "each thread does a part of the iterations"
    INSIDE = "all threads go into it; the ops in it have ways of their own"
    MEETING = "the threads meet"
    PRODUCT = "each warp does a part of a product, by its matrix unit"


class Touch(NamedTuple):
    """What threads of the team do to a root.

    ``who`` is ``one`` (the first thread), ``all`` or ``any``, or a width: thread ``e % team`` touches the elements from
    ``width * e`` to before ``width * (e + 1)``. Other words name a product: of its elements each thread touches those
    that its lane gets.
    """

    root: Root
    kind: str
    who: str | int

    def conflicts(self, other: Touch) -> bool:
        """Return whether threads have to meet between the two, in this order."""
        a, b = self.root, other.root
        is_same = a is b or (None in (a, b) and not is_own(a) and not is_own(b))
        if not is_same or (self.kind == other.kind and self.kind != WRITE):
            return False
        return self.who != other.who or self.who in ("all", "any")


class Plan:
    """How a team of ``team`` threads runs ``f``.

    Attributes:
        how: The way of each op that is in no shared loop, and in nothing that one or all threads run as it is.
        nests: The nests of the loops that are shared out.
        touches: What each of these ops does to memory.
        is_sound: Whether threads that compute their part of a sum write nowhere: they would write to one place.
    """

    def __init__(self, f: Function, accesses: Accesses, sharing: Sharing, team: int) -> None:
        self.accesses, self.sharing, self.team = accesses, sharing, team
        self.how: dict[Op, How] = {}
        self.nests: dict[Op, Nest] = {}
        self.touches: dict[Op, list[Touch]] = {}
        self._of_thread: set[Value] = set()
        self.is_sound = True
        self._block(f.body)

    def is_used(self, v: Value) -> bool:
        """Return whether an op has ``v`` as an operand."""
        return self.accesses.uses(v) > 0

    def _block(self, b: Block) -> None:
        for o in b.ops:
            self._visit(o)

    def _visit(self, o: Op) -> None:
        if isinstance(o, ops.For) and (nest := self.sharing.nest(o)) is not None and self._pays(nest):
            self.nests[o] = nest
            self._set(o, How.SHARED)
            return
        for r in o.regions():
            self._block(r)
        self._set(o, self._way(o))

    def _pays(self, nest: Nest) -> bool:
        """Whether a nest has work for most threads, or none in it has more."""
        if nest.size >= self.team:
            return True
        inner = [o for o in everything(nest.levels[-1].loop) if isinstance(o, ops.For)][1:]
        found = (self.sharing.nest(o) for o in inner)
        return all(n is None or n.size <= nest.size for n in found)

    def _way(self, o: Op) -> How:
        lower = cooperative(o)
        if isinstance(o, ops.ContractInMemory):
            return How.PRODUCT
        if isinstance(o, ops.Barrier) or (lower is not None and lower.meets):
            return How.MEETING
        inside = list(everything(o))[1:]
        ways = {self.how[x] for x in inside if x in self.how}
        if ways & {How.SHARED, How.MEETING, How.PRODUCT} or any(isinstance(x, (ops.Push, ops.Pop)) for x in inside):
            return How.INSIDE
        if self._differs(o):
            self._of_thread.update(o.results)
            self.is_sound = self.is_sound and not self._writes(o)
            return How.ALL
        if not o.regions():
            return self._way_of_simple(o)
        if How.ONE not in ways:
            return How.ALL
        return How.INSIDE if any(isinstance(x, ops.Check) for x in inside) else How.ONE

    def _differs(self, o: Op) -> bool:
        """Whether threads compute something else by ``o``: their part of a sum."""
        if isinstance(o, ops.Apply) and o.fn == "block_thread":
            return True
        return any(v in self._of_thread for x in everything(o) for v in x.operands())

    def _writes(self, o: Op) -> bool:
        inside = defined_in(o)
        return any(a.kind != READ and (a.root is None or a.root not in inside) for a in self.accesses.of(o))

    def _way_of_simple(self, o: Op) -> How:
        if isinstance(o, ops.Load):
            is_same = is_own(self.accesses.root(o.array)) or self.accesses.is_constant(o.array)
            return How.ALL if is_same else How.ONE
        effects = (ops.Store, ops.Atomic, ops.AtomicCas, ops.Native, ops.Print, ops.Breakpoint)
        return How.ONE if isinstance(o, effects) else How.ALL

    def _set(self, o: Op, how: How) -> None:
        self.how[o] = how
        self.touches[o] = list(dict.fromkeys(self._touches(o, how)))

    def _touches(self, o: Op, how: How) -> Iterator[Touch]:
        if how is How.INSIDE:
            for r in o.regions():
                for x in r.ops:
                    yield from self.touches[x]
            return
        if isinstance(o, ops.ContractInMemory):
            yield from (Touch(self.accesses.root(v), READ, "any") for v in (o.x, o.y))
            yield self.of_sums(o)
            return
        inside = defined_in(o)
        found = [a for a in self.accesses.of(o) if a.root is None or a.root not in inside]
        if how is How.SHARED:
            yield from self._of_nest(self.nests[o], found)
        else:
            who = "one" if how is How.ONE else "all"
            yield from (Touch(a.root, a.kind, who) for a in found)

    def of_sums(self, o: ops.ContractInMemory) -> Touch:
        """Return what threads do to the tile that holds the sums of a product."""
        rows, _, columns = o.extents
        return Touch(self.accesses.root(o.out), WRITE, f"{o.unit} {rows} x {columns}")

    def _of_nest(self, nest: Nest, found: list[Access]) -> Iterator[Touch]:
        for root in {a.root for a in found}:
            of_root = [a for a in found if a.root is root]
            who: str | int = (self.sharing.width(nest, of_root) if is_own(root) else 0) or "any"
            yield from (Touch(root, a.kind, who) for a in of_root)


__all__ = ["How", "Plan", "Touch"]
