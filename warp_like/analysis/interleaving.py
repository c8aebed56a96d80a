"""Whether LLVM's vectoriser may take the threads of a row for iterations whose accesses it need not keep in order.

Threads have no order, so the accesses of one need not wait for those of another. Each thread's own accesses keep
theirs, and the vectoriser, which runs neighbours in lockstep, keeps it too, with one exception: where neighbours'
elements lie apart by a constant (``a[2 * i]``, components of vectors, fields of structs), it makes one wide access of
several. All loads of such a group happen where its first load stands, and all stores where its last one stands. In a
loop that is marked parallel it does not ask what stands in between::

    a[2 * i] = x            # happens after the load, which reads the same element if k == 0
    y = a[2 * (i + k)]
    a[2 * i + 1] = z

So the mark is given only where nothing in between may touch an element of the group. Else LLVM looks for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.analysis.indices import Affine, ThreadIndex, Uniform
from warp_like.analysis.memory import Access, Memory, Root
from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Array, Scalar

MOST_EVENTS = 128
"""The most loads and stores that are compared with each other; LLVM gains nothing where there are more."""


class Event(Frozen):
    """A load or a store; an update that need not be atomic is one after the other."""

    access: Access
    is_store: bool


def keeps_order(memory: Memory) -> bool:
    """Return whether wide accesses in place of several keep the order of each thread's own accesses."""
    by_op: dict[Op, list[Event]] = {}
    for a in memory.accesses:
        if any(root.kind != "local" for root in a.roots):
            by_op.setdefault(a.op, []).extend(Event(a, is_store) for is_store in _parts(a))
    if sum(map(len, by_op.values())) > MOST_EVENTS:
        return False
    events = _in_order(memory.function.body, by_op)
    return not any(_moves_past(events, k) for k, e in enumerate(events) if _is_apart(e.access))


def _in_order(b: Block, by_op: dict[Op, list[Event]]) -> list[Event]:
    """The events of ``b`` as a thread comes by them, those of a loop twice: LLVM may unroll it."""
    found: list[Event] = []
    for o in b.ops:
        inside = by_op.get(o, [])
        for r in o.regions():
            inside = inside + _in_order(r, by_op)
        once = not isinstance(o, (ops.For, ops.While)) or len(inside) > MOST_EVENTS
        found += inside if once else inside + inside
    return found


def _parts(a: Access) -> Sequence[bool]:
    return {"load": (False,), "store": (True,)}.get(a.kind, (False, True))


def _moves_past(events: Sequence[Event], at: int) -> bool:
    """Whether the event at position ``at`` may move, as one of a group, past one that may touch the same element."""
    moved = events[at]
    if moved.is_store:
        between = [k for k in range(at + 1, len(events)) if _meet(moved.access, events[k].access)]
        return any(_may_group(moved, last) for last in events[between[0] + 1 :]) if between else False
    between = [k for k in range(at) if events[k].is_store and _meet(moved.access, events[k].access)]
    return any(_may_group(first, moved) for first in events[: between[-1]]) if between else False


def _may_group(a: Event, b: Event) -> bool:
    """Whether one wide access may stand for both: of one kind, to one array."""
    apart = _is_apart(a.access) and _is_apart(b.access)
    return apart and a.is_store == b.is_store and not a.access.roots.isdisjoint(b.access.roots)


def _is_apart(a: Access) -> bool:
    """Whether the elements that neighbours touch by ``a`` may lie apart by a constant other than their size.

    Where they differ along other dimensions than the last, they lie apart by extents, which are no constants.
    """
    assert isinstance(a.array.type, Array)
    if not isinstance(a.array.type.dtype, Scalar) or _field(a.array) or a.indices is None:
        return True
    match a.indices[-1]:
        case ThreadIndex() | Uniform():
            return False
        case Affine(terms):
            return any(abs(c) != 1 for _, _, c in terms) or len(terms) > 1
    return True


def _meet(a: Access, b: Access) -> bool:
    """Whether a thread may touch one element by both of ``a`` and ``b``, whose arrays may overlap."""
    if a.roots != b.roots or len(a.roots) != 1 or next(iter(a.roots)).kind not in ("parameter", "shared"):
        return any(_overlap(r, s) for r in a.roots for s in b.roots)
    if a.indices is None or b.indices is None:
        return True
    if any(_differ(i, j) for i, j in zip(a.indices, b.indices, strict=True)):
        return False
    same = all(i == j and _is_exact(i) for i, j in zip(a.indices, b.indices, strict=True))
    fields = tuple(zip(_field(a.array), _field(b.array), strict=False))  # up to where one is a part of the other
    return not (same and any(i != j for i, j in fields))


def _overlap(r: Root, s: Root) -> bool:
    """Whether two arrays may share memory: those that a thread makes for itself overlap none."""
    return r == s or "local" not in (r.kind, s.kind)


def _differ(i: object, j: object) -> bool:
    """Whether two indices of a thread are never equal: they differ by a constant."""
    match i, j:
        case ThreadIndex(axis, ndim, a), ThreadIndex(other, dims, b):
            return (axis, ndim) == (other, dims) and a != b
        case Affine(terms, int(a)), Affine(others, int(b)):
            return terms == others and a != b
        case Uniform(int(a)), Uniform(int(b)):
            return a != b
    return False


def _is_exact(i: object) -> bool:
    """Whether equal classes are equal indices."""
    match i:
        case ThreadIndex():
            return True
        case Affine(_, int()) | Uniform(int()):
            return True
    return False


def _field(array: Value) -> tuple[int, ...]:
    """The fields that views choose on the way to ``array``."""
    path: tuple[int, ...] = ()
    while isinstance(array.op, ops.PARTS):
        if isinstance(array.op, ops.View) and array.op.field is not None:
            path = (array.op.field, *path)
        array = array.op.array
    return path
