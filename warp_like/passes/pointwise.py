"""Loops that make a value element by element of the same elements of another one, as ``t * s`` becomes.

Such a loop may write each element where the old one was, if nobody needs the old value afterwards: what it reads of it
is the element that it is about to write. ``lower_large_values`` asks, so that ``t = t * s`` needs no second buffer and,
in a loop, no copy back.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import element_shape

Index = tuple[Value | int, ...]


def overwritable(o: ops.For, k: int) -> list[Value]:
    """Return the values whose elements loop ``o`` reads right before it writes the same ones of its result ``k``.

    Each has the shape of the result. The loop reads no other element of them, and does nothing else with them.
    """
    loops, place = [o], k
    while True:
        inner = loops[-1]
        carried, made = inner.body.params[1 + place], inner.body.yielded[place]
        if not (isinstance(made.op, ops.For) and made.op in inner.body.ops):
            break
        place = made.op.results.index(made)
        if made.op.init[place] is not carried:
            return []
        loops.append(made.op)
    inserts: list[ops.Insert] = []
    while isinstance(made.op, ops.Insert):
        inserts.insert(0, made.op)
        made = made.op.x
    shape = element_shape(o.results[k].type)
    written = [_place(i.indices, loops, shape) for i in inserts]
    if made is not carried or None in written or not _differ([w for w in written if w is not None]):
        return []
    order = {x: n for n, x in enumerate(loops[-1].body.ops)}
    ends = {w: order[i] for w, i in zip(written, inserts, strict=True) if i in order}
    found: dict[Value, bool] = {}
    for x in o.body.walk():
        for v in x.operands():
            if element_shape(v.type) == shape and v is not carried:
                is_read = isinstance(x, ops.Extract) and x.x is v and x in order
                at = _place(x.indices, loops, shape) if isinstance(x, ops.Extract) else None
                found[v] = found.get(v, True) and is_read and at in ends and order[x] < ends[at]
    return [v for v, ok in found.items() if ok and v not in o.operands()]


def _place(indices: Sequence[Value], loops: Sequence[ops.For], shape: tuple[int, ...]) -> Index | None:
    """The place of an element, which differs in each iteration and is in range; None where that is not sure."""
    if len(indices) != len(shape):
        return None
    place: list[Value | int] = []
    for i, n in zip(indices, shape, strict=True):
        known = ops.constant_value(i)
        counter = next((loop for loop in loops if loop.body.params[0] is i), None)
        if isinstance(known, int) and 0 <= known < n:
            place.append(known)
        elif counter is not None and _is_within(counter, n):
            place.append(i)
        else:
            return None
    return tuple(place) if all(loop.body.params[0] in indices for loop in loops) else None


def _is_within(loop: ops.For, n: int) -> bool:
    low, high, step = (ops.constant_value(v) for v in (loop.lo, loop.hi, loop.step))
    is_known = isinstance(low, int) and isinstance(high, int) and isinstance(step, int)
    return is_known and step > 0 and low >= 0 and high <= n


def _differ(places: Sequence[Index]) -> bool:
    """Whether the places of an iteration are sure to be others: two numbers differ in one dimension."""
    return all(
        any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(p, q, strict=True))
        for n, p in enumerate(places)
        for q in places[:n]
    )


__all__ = ["overwritable"]
