"""Where the elements of large values are read, and how often: what ``fuse`` and ``read_in_place`` ask."""

from __future__ import annotations

from collections.abc import Iterable

from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import extents
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import is_large
from warp_like.passes.tabulations import Resolve, Tabulation, no_change
from warp_like.passes.unroll import trip_count

# fmt: off
CHEAP = frozenset((
    "add", "sub", "mul", "neg", "where", "min", "max", "abs", "lt", "le", "gt", "ge", "eq", "ne",
    "bit_and", "bit_or", "bit_xor", "unot", "lshift", "rshift",
))
# fmt: on
"""Builtins that cost no more than the load of a number."""
SIMD_LANES = 16
"""About how many iterations of a loop that goes in lanes run side by side."""
UNKNOWN_TRIPS = 16
"""Iterations of a loop whose number is unknown."""


class Reads:
    """Where large values are used in a function, and what loops are around that.

    Attributes:
        users: The ops that take a large value, in order.
    """

    def __init__(self, f: Function) -> None:
        self.ranges = find_ranges(f)
        self.users: dict[Value, list[Op]] = {}
        self.block_of: dict[Op, Block] = {}
        self.owner: dict[Block, Op] = {}
        self.note(f.body, f.body.ops)

    def note(self, b: Block, sequence: Iterable[Op]) -> None:
        """Take ``sequence``, new ops of ``b``, into account."""
        for o in sequence:
            self.block_of[o] = b
            for v in o.operands():
                if is_large(v.type):
                    self.users.setdefault(v, []).append(o)
            for r in o.regions():
                self.owner[r] = o
                self.note(r, r.ops)

    def elements(self, v: Value) -> list[ops.Extract] | None:
        """The ops that read elements of ``v``, if all ops that take it do so, surely in range; else None."""
        found: list[ops.Extract] = []
        for o in self.users.get(v, ()):
            if not (isinstance(o, ops.Extract) and o.x is v and self._is_inside(o, v)):
                return None
            found.append(o)
        return found

    def _is_inside(self, o: ops.Extract, v: Value) -> bool:
        shape = extents(v.type)
        if len(o.indices) != len(shape):
            return False
        found = [self.ranges.of(i) for i in o.indices]
        return all(low >= 0 and high < n for (low, high), n in zip(found, shape, strict=True))

    def loops(self, o: Op, outside: Block) -> list[Op]:
        """The loops around ``o`` up to the block ``outside``, the innermost first."""
        found: list[Op] = []
        while (b := self.block_of[o]) is not outside:
            o = self.owner[b]
            if isinstance(o, (ops.For, ops.While)):
                found.append(o)
        return found

    def top(self, o: Op, b: Block) -> Op:
        """The op of block ``b`` that ``o`` is, or is inside of."""
        while self.block_of[o] is not b:
            o = self.owner[self.block_of[o]]
        return o

    def times(self, found: Iterable[ops.Extract], made_in: Block) -> int:
        """About how many elements these ops read each time that the block ``made_in`` is entered."""
        total = 0
        for o in found:
            times = 1
            for loop in self.loops(o, made_in):
                together = SIMD_LANES if goes_in_lanes(loop) and not self.depends(o, loop) else 1
                times *= -(-self.trips(loop) // together)
            total += times
        return total

    def depends(self, o: ops.Extract, loop: Op) -> bool:
        """Whether an index of ``o`` depends on the counter of ``loop``."""
        assert isinstance(loop, ops.For)
        return any(depends(i, loop.body.params[0]) for i in o.indices)

    def trips(self, loop: Op) -> int:
        if not isinstance(loop, ops.For):
            return UNKNOWN_TRIPS
        known = trip_count(loop)
        if known is None:
            known = self.ranges.of(loop.hi)[1] - self.ranges.of(loop.lo)[0]
        return known if 0 <= known < 1 << 24 else UNKNOWN_TRIPS

    def replace(self, o: ops.Extract, t: Tabulation, resolve: Resolve = no_change) -> Value:
        """Put what makes an element of ``t`` in the place of ``o``, which reads it; returns the element."""
        block, made = self.block_of[o], Emitter(Block())
        with at(o.loc):
            got = t.element_at(made, tuple(map(resolve, o.indices)))
        k = block.ops.index(o)
        block.ops[k : k + 1] = made.block.ops
        self.users[o.x].remove(o)
        if not self.users[o.x]:
            del self.users[o.x]
        self.note(block, made.block.ops)
        return got


def goes_in_lanes(loop: Op) -> bool:
    """Return whether iterations of ``loop`` run side by side."""
    return isinstance(loop, ops.For) and loop.simd


def depends(v: Value, on: Value) -> bool:
    """Return whether ``v`` is ``on``, or computed from it by ops that are no loops and branches."""
    return v is on or (v.op is not None and any(depends(x, on) for x in v.op.operands()))


def is_cheap(o: Op) -> bool:
    """Return whether ``o`` costs about as little as the load of a number."""
    return o.fn in CHEAP if isinstance(o, ops.Apply) else not o.regions()


__all__ = ["Reads", "depends", "goes_in_lanes", "is_cheap"]
