"""Conditions on the thread's index, which part the lanes of few vectors: those at the edges of a grid.

``0 < j and j < n - 1`` or ``i < n`` holds for all lanes of nearly every vector, or for none. So a branch on it is made
for lanes that stay together first: the code of one side, with the mask that it was reached with, so that whole vectors
are loaded and stored as such. Only where lanes part do both sides run under masks.

That lanes stay together is asked of the first and the last lane alone, in scalars: a difference that changes evenly
from lane to lane has the same sign at all of them if it has at both ends.
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import int64
from warp_like.passes.spmd.values import LaneBuilder

LARGEST = 48
"""The most ops of both sides together: each side is there twice."""

_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


def is_edge_sized(o: ops.If) -> bool:
    """Return whether code of its own for lanes that stay together is worth its size: where it reaches memory."""
    inside = [inner for r in o.regions() for inner in r.walk()]
    if len(inside) > LARGEST or any(isinstance(inner, (ops.Push, ops.Pop)) for inner in inside):
        return False  # rows that are saved and taken back have an order of their own
    return any(isinstance(inner, (ops.Load, ops.Store)) for inner in inside)


class Edges(LaneBuilder):
    """Asks whether lanes stay together."""

    def sure(self, cond: Value, truth: bool) -> Value | None:
        """A scalar that is true only if ``cond`` has the value ``truth`` in all lanes; None if nothing is known."""
        if self.steps[cond] == 0:
            return self.scalar(cond) if truth else self.b.apply("unot", self.scalar(cond))
        match cond.op:
            case ops.Apply(fn="unot", args=(x,)):
                return self.sure(x, not truth)
            case ops.Apply(fn="bit_and" | "bit_or" as fn, args=(x, y)):
                found = [v for v in (self.sure(x, truth), self.sure(y, truth)) if v is not None]
                if (fn == "bit_and") == truth:  # both are needed, else either will do
                    return self.b.apply("bit_and", *found) if len(found) == 2 else None
                return self.b.apply("bit_or", *found) if len(found) == 2 else found[0] if found else None
            case ops.Apply(fn=fn, args=(x, y)) if fn in _OPPOSITE:
                return self.sure_order(fn if truth else _OPPOSITE[fn], x, y)
        return None

    def sure_order(self, fn: str, x: Value, y: Value) -> Value | None:
        a, b = self.steps[x], self.steps[y]
        if a is None or b is None:
            return None
        grows = a > b
        if fn == "ne":
            below = self.b.apply("lt", self.end(x, grows), self.end(y, grows))
            above = self.b.apply("gt", self.end(x, not grows), self.end(y, not grows))
            return self.b.bit_or(below, above)
        if fn == "eq":
            return None
        last = grows == (fn in ("lt", "le"))
        whole: Value = self.b.apply(fn, self.end(x, last), self.end(y, last))
        return whole

    def end(self, v: Value, last: bool) -> Value:
        """The first or the last lane of ``v``, an integer, so wide that going there does not overflow."""
        step = self.steps[v]
        first = self.b.cast(self.scalar(v), int64)
        return self.b.add(first, step * (self.width - 1)) if last and step else first
