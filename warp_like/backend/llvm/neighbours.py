"""Additions of lanes to neighbouring elements of a sum, made by one load and store.

The gradient of a stencil adds to the elements at ``i - 1``, ``i`` and ``i + 1``. One after the other, each addition
loads vectors that begin within what the one before has stored: the processor can't forward such a store, and waits
until it has reached the cache. So additions of one block whose distances are constants are shifted against each other
in registers and meet memory once: one vector of as many elements as there are lanes, and the few elements in front of
it and behind it.

It may be done since sums (``passes/sums.py``) are only added to, at any time, while nobody looks at them. Indices are
neighbours where ``analysis/ranges.py`` proves that none of them wraps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.lanes import Access, neutral
from warp_like.backend.llvm.shuffle import shuffle
from warp_like.backend.llvm.values import LaneScalar, constant, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Lanes, Scalar

FARTHEST = 4
"""How far the elements of one lane may lie apart: what is beside the vector takes an access of its own."""

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering

_Place = tuple[Value, tuple[Value, ...], Value, tuple[Value, ...]]


class Group:
    """Additions of a block to elements of one array, ``offsets`` from a common one; the last of ``ops`` does them."""

    def __init__(self) -> None:
        self.ops: list[ops.Atomic] = []
        self.offsets: list[int] = []


def find_groups(b: Block, is_sum: Callable[[Value], bool], cannot_wrap: Callable[[Op], bool]) -> dict[Op, Group]:
    """Return the groups of several additions to neighbours in ``b``, by each op of them.

    Args:
        b: The block.
        is_sum: Whether an array is one to which the launch only adds, without atomics.
        cannot_wrap: Whether an op on integers has the same value in more bits.
    """
    groups: dict[_Place, Group] = {}
    for o in b.ops:
        if isinstance(o, ops.Atomic) and o.kind == "add" and _is_vector(o) and is_sum(o.array):
            *outer, last = o.indices
            start, offset = _split(last.op.base, cannot_wrap)  # type: ignore[union-attr]
            group = groups.setdefault((o.array, tuple(outer), start, o.mask), Group())
            group.ops.append(o)
            group.offsets.append(offset)
    return {o: g for g in groups.values() if 0 < max(g.offsets) - min(g.offsets) <= FARTHEST for o in g.ops}


def _is_vector(o: ops.Atomic) -> bool:
    """Whether the lanes of ``o`` add numbers to elements side by side along the last dimension."""
    t = o.value.type
    if not (o.mask and isinstance(t, Lanes) and isinstance(t.of, Scalar)):
        return False
    *outer, last = o.indices
    in_line = isinstance(last.op, ops.Iota) and last.op.stride == 1 and t.width > FARTHEST
    return in_line and not any(isinstance(i.type, Lanes) for i in outer)


def _split(v: Value, cannot_wrap: Callable[[Op], bool]) -> tuple[Value, int]:
    """Return what ``v`` is the sum of: a value and a constant."""
    match v.op:
        case ops.Apply(fn="add" | "sub" as fn, args=(x, k)) as o if cannot_wrap(o):
            number = ops.constant_value(k)
            if isinstance(number, int):
                return x, number if fn == "add" else -number
        case _:
            pass
    return v, 0


def lower_atomic(lowering: Lowering, o: ops.Atomic) -> None:
    """Append an update by lanes; those of a group where its last one is."""
    group = lowering.neighbours.get(o)
    if group is None:
        lowering.bind(o.result, lowering.access(o).atomic(o.kind, lowering.scalars(o.value)))
    elif o is group.ops[-1]:  # nobody reads what the updates of a sum give
        accesses = [lowering.access(x) for x in group.ops]
        values = [lowering.scalars(x.value) for x in group.ops]
        if all(a.is_full and a.is_dense and a.is_packed for a in accesses):
            _add_together(lowering.w, group, accesses, [x for (x,) in values])
            return
        for x, access, value in zip(group.ops, accesses, values, strict=True):
            access.atomic(x.kind, value)


def _add_together(w: Writer, group: Group, accesses: Sequence[Access], values: Sequence[str]) -> None:
    """Add ``values``, vectors of the group's ops, to the elements that ``accesses`` are: all lanes, side by side."""
    first, lowest, highest = accesses[0], min(group.offsets), max(group.offsets)
    ((t, _),) = first.leaves
    assert isinstance(t, LaneScalar)
    middle = 0 if lowest <= 0 <= highest else lowest  # the thread's own elements mostly begin at a register's bytes
    ends = (lowest, middle, middle + t.width, highest + t.width)
    for start, end in itertools.pairwise(ends):
        if start == end:
            continue
        piece = LaneScalar(t.kind, t.bits, end - start)
        parts = [
            _lanes(w, t, x, start - offset, piece.width)
            for offset, x in zip(group.offsets, values, strict=True)
            if offset < end and start < offset + t.width
        ]
        address = memory.component_address(w, first.base, (start - group.offsets[0]) * first.size)
        _add(w, first, address, piece, parts)


def _lanes(w: Writer, t: LaneScalar, x: str, first: int, count: int) -> str:
    """Return the lanes of ``x`` from ``first`` on as a vector of ``count``; what is no lane adds nothing."""
    if first == 0 and count == t.width:
        return x
    nothing = constant(neutral("add", t.one), t)
    picks = [k if 0 <= k < t.width else t.width for k in range(first, first + count)]
    return shuffle(w, register_type(t), x, nothing, picks)


def _add(w: Writer, access: Access, address: str, t: LaneScalar, parts: Sequence[str]) -> None:
    total, *others = parts
    for x in others:
        total = memory.added(w, "add", t, total, x, access.array)
    reg, rest = register_type(t), f"align {t.bits // 8}{access.note}"
    old = w.op(f"load {reg}, ptr {address}, {rest}")
    w.do(f"store {reg} {memory.added(w, 'add', t, old, total, access.array)}, ptr {address}, {rest}")
