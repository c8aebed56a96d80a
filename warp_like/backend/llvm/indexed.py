"""Vectors and matrices that a loop reads or changes at dynamic indices: in stack memory, where a change is one store.

In registers, an access at a dynamic index is a choice among all components, and the loop carries them all. So a carried
value stays in memory for the whole loop where nobody can tell: where each of its versions is only read, component by
component, before the next one is made. Then all versions share one memory::

    %a = for %i in 0, 16, 1 (%b = %zeros) {         zeros to memory
      %c = insert %b[%i], %x                        a store
      yield %c
    }                                               loads

Lanes have a vector for each component, so the indices must be the same for all lanes. This is for the CPU: on a GPU,
stack memory is far away, and its compilers unroll such loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from warp_like.backend.llvm.components import InMemory
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Lanes, Mat, Scalar, Type, Vec, element_count, lane_type

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering

FEWEST = 5
"""The fewest components of what is put into memory: among fewer, a choice takes no longer."""


class Slots:
    """The values of a function that are in stack memory, and the memory that is free again."""

    def __init__(self) -> None:
        self._places: dict[Value, InMemory] = {}
        self._spare: dict[Type, list[InMemory]] = {}

    def of(self, v: Value) -> InMemory | None:
        """Return where ``v`` is; None for what is in registers."""
        return self._places.get(v)

    def put(self, v: Value, place: InMemory) -> None:
        """Note that ``v`` is in memory."""
        self._places[v] = place

    def take(self, lowering: Lowering, v: Value) -> InMemory:
        """Return memory that holds ``v``, a value in registers."""
        spare = self._spare.setdefault(v.type, [])
        place = spare.pop() if spare else InMemory(lowering.w, v.type)
        place.fill(lowering.scalars(v))
        return place

    def leave(self, lowering: Lowering, v: Value, place: InMemory) -> None:
        """Put ``v``, which is in ``place``, into registers; others may use the memory."""
        lowering.bind(v, place.all())
        self._spare[v.type].append(place)


def carried_in_memory(o: ops.For) -> list[int]:
    """Return the positions of the carried values of ``o`` that may stay in memory, and gain by it."""
    return [k for k, v in enumerate(o.init) if _is_indexable(v.type) and _gains(_accesses(o, k))]


def _is_indexable(t: Type) -> bool:
    return isinstance(lane_type(t), (Vec, Mat)) and element_count(lane_type(t)) >= FEWEST


def _gains(accesses: Sequence[ops.Extract | ops.Insert] | None) -> bool:
    return accesses is not None and any(ops.constant_value(i) is None for o in accesses for i in o.indices)


def _accesses(o: ops.For, k: int) -> list[ops.Extract | ops.Insert] | None:
    """Return what reads or changes the versions of a carried value; None where these can't share memory."""
    found: list[ops.Extract | ops.Insert] = []
    if not _stays(o, k, found) or any(isinstance(i.type, Lanes) for x in found for i in x.indices):
        return None
    return found


def _stays(o: ops.For, k: int, accesses: list[ops.Extract | ops.Insert]) -> bool:
    """Whether the versions of the value that ``o`` carries at position ``k`` can share memory."""
    last = _last_version(o.body, o.body.params[1 + k], accesses)
    return last is not None and _yields_at(o.body, last) == [k]


def _yields_at(b: Block, v: Value) -> list[int]:
    return [k for k, x in enumerate(b.yielded) if x is v]


def _last_version(b: Block, v: Value, accesses: list[ops.Extract | ops.Insert]) -> Value | None:
    """Return the version of ``v`` that is in its memory when ``b`` ends; None if an older one is wanted then."""
    past: set[Value] = set()
    for o in b.ops:
        users = [x for x in _with_inner(o) if any(y is v or y in past for y in x.operands())]
        if any(y in past for x in users for y in x.operands()):
            return None
        reads = [x for x in users if isinstance(x, ops.Extract) and x.x is v]
        if len(reads) == len(users):  # there may be none
            accesses += reads
        elif o is not b.ops[-1]:
            following = _next_version(o, v, users, accesses)
            if following is None:
                return None
            past.add(v)
            v = following
    return v


def _with_inner(o: Op) -> Iterator[Op]:
    yield o
    for r in o.regions():
        yield from r.walk()


def _next_version(o: Op, v: Value, users: Sequence[Op], accesses: list[ops.Extract | ops.Insert]) -> Value | None:
    """Return what ``o`` makes of ``v`` in its memory; None if it does anything else with it."""
    match o:
        case ops.Insert() if o.x is v and o.value is not v:
            accesses.append(o)
            return o.result
        case ops.For() if len(users) == 1 and [x is v for x in o.operands()].count(True) == 1:
            k = next(k for k, x in enumerate(o.init) if x is v)
            return o.results[k] if _stays(o, k, accesses) else None
        case ops.If():
            ends = [(r, _last_version(r, v, accesses)) for r in o.regions()]
            places = [_yields_at(r, end) for r, end in ends if end is not None]
            if len(places) == 2 and places[0] == places[1] and len(places[0]) == 1:
                return o.results[places[0][0]]
    return None


def enter_loop(lowering: Lowering, o: ops.For) -> dict[int, InMemory]:
    """Put carried values of ``o`` into memory where they gain by it, or are there already; return where they are."""
    if lowering.w.target.is_device:
        return {}
    slots, places = lowering.slots, dict[int, InMemory]()
    wanted = carried_in_memory(o)
    for k, v in enumerate(o.init):
        place = slots.of(v) or (slots.take(lowering, v) if k in wanted else None)
        if place is not None:
            places[k] = place
            slots.put(o.body.params[1 + k], place)
    return places


def leave_loop(lowering: Lowering, o: ops.For, places: dict[int, InMemory]) -> None:
    """Bind those results of ``o`` that are in memory: values of an outer loop stay there."""
    for k, place in places.items():
        if lowering.slots.of(o.init[k]) is not None:
            lowering.slots.put(o.results[k], place)
        else:
            lowering.slots.leave(lowering, o.results[k], place)


def leave_branch(lowering: Lowering, o: ops.If) -> None:
    """Note which results of ``o`` are in memory."""
    for r, v in zip(o.results, o.then.yielded, strict=True):
        if (place := lowering.slots.of(v)) is not None:
            lowering.slots.put(r, place)


def known_inside(lowering: Lowering, o: ops.Extract | ops.Insert) -> list[bool]:
    """Return for each index of ``o`` whether it is known to be in range."""
    shape = lane_type(o.x.type)
    assert isinstance(shape, (Vec, Mat))
    dims = (shape.rows, shape.cols) if isinstance(shape, Mat) else (shape.length,)
    found = []
    for i, n in zip(o.indices, dims, strict=False):
        assert isinstance(i.type, Scalar)
        low, high = lowering.ranges.of(i)
        found.append(low >= 0 and high < n)
    return found
