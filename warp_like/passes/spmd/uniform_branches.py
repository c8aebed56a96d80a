"""Uniform versions of branches on the thread's index, which diverge in few vectors: at the edges of a grid.

``0 < j and j < n - 1`` or ``i < n`` holds for all lanes of nearly every vector, or for none. So such a branch is
versioned: where its condition is uniform, one side runs with the mask that the branch was reached with, so that whole
vectors are loaded and stored as such. Only where it diverges do both sides run under masks.

The test compares the first and the last lane alone, in scalars: a difference that changes evenly from lane to lane
has the same sign in all lanes if it has at both ends. Integers wrap, so it changes evenly only where neither side
wraps between these two lanes. Where this is not proven of a side (``analysis.ranges``), the code tests it.
"""

from __future__ import annotations

from warp_like.analysis.intervals import type_range
from warp_like.builtins.emit import scalar_type
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import int64
from warp_like.passes.spmd.values import LaneBuilder

LARGEST = 48
"""The most ops of both sides together: each side is there twice."""

_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


def is_worth_versioning(o: ops.If) -> bool:
    """Return whether a version for uniform conditions is worth its size: where it reaches memory."""
    inside = [inner for r in o.regions() for inner in r.walk()]
    if len(inside) > LARGEST or any(isinstance(inner, (ops.Push, ops.Pop)) for inner in inside):
        return False  # rows that are saved and taken back have an order of their own
    return any(isinstance(inner, (ops.Load, ops.Store)) for inner in inside)


class UniformBranches(LaneBuilder):
    """Tests whether conditions are uniform."""

    def uniform_test(self, cond: Value, truth: bool) -> Value | None:
        """A scalar that is true only if ``cond`` has the value ``truth`` in all lanes; None if nothing is known."""
        if self.strides[cond] == 0:
            return self.scalar(cond) if truth else self.b.apply("unot", self.scalar(cond))
        match cond.op:
            case ops.Apply(fn="unot", args=(x,)):
                return self.uniform_test(x, not truth)
            case ops.Apply(fn="bit_and" | "bit_or" as fn, args=(x, y)):
                found = [v for v in (self.uniform_test(x, truth), self.uniform_test(y, truth)) if v is not None]
                if (fn == "bit_and") == truth:  # both are needed, else either will do
                    return self.b.apply("bit_and", *found) if len(found) == 2 else None
                return self.b.apply("bit_or", *found) if len(found) == 2 else found[0] if found else None
            case ops.Apply(fn=fn, args=(x, y)) if fn in _OPPOSITE:
                return self.uniform_comparison(fn if truth else _OPPOSITE[fn], x, y)
        return None

    def uniform_comparison(self, fn: str, x: Value, y: Value) -> Value | None:
        a, b = self.strides[x], self.strides[y]
        if a is None or b is None or fn == "eq":
            return None
        one, other = self.ends(x), self.ends(y)
        if one is None or other is None:
            return None
        (first, last, exact), (first_other, last_other, other_exact) = one, other
        grows = a > b
        if fn == "ne":
            below = self.b.lt(last if grows else first, last_other if grows else first_other)
            above = self.b.gt(first if grows else last, first_other if grows else last_other)
            whole: Value = self.b.bit_or(below, above)
        elif grows == (fn in ("lt", "le")):
            whole = self.b.apply(fn, last, last_other)
        else:
            whole = self.b.apply(fn, first, first_other)
        for needed in (exact, other_exact):
            whole = whole if needed is None else self.b.bit_and(needed, whole)
        return whole

    def ends(self, v: Value) -> tuple[Value, Value, Value | None] | None:
        """What the first and the last lane of integer ``v`` have, and whether it does not wrap between them.

        None in place of that where it is known; None at all where lanes are too far apart to tell. In types of less
        than 64 bits the ends are wider: the last lane may have no thread, and then is not known not to wrap.
        """
        t, stride = scalar_type(v), self.strides[v]
        assert stride is not None
        reach = stride * (self.width - 1)
        least, greatest = type_range(t)
        if abs(reach) > greatest // 2:
            return None
        first = self.scalar(v)
        if t.bits == 64:
            if not reach:
                return first, first, None
            last: Value = self.b.add(first, reach % (1 << 64) if not t.is_signed else reach)
            return first, last, self.b.gt(last, first) if reach > 0 else self.b.lt(last, first)
        first = self.b.cast(first, int64)
        if not reach:
            return first, first, None
        last = self.b.add(first, reach)
        if self.has_exact_stride(v):
            return first, last, None
        return first, last, self.b.le(last, greatest) if reach > 0 else self.b.ge(last, least)
