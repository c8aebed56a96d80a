"""Sums to which lanes add at one element: as vectors of partial sums, one for each lane, for as long as a launch runs.

The gradient of a network's weights adds, in a loop, numbers of all threads to each weight. To sum the lanes of each
vector takes shuffles; to add the vector to one in memory takes a load and a store. So an OS thread has memory with a
vector for each number of such an array, which it asks of the runtime for each call of the entry (``wl_lane_partials``),
and whose lanes the runtime sums at the end of the launch.

The runtime gives the memory only where that pays: where the launch takes long beside zeroing and summing all of it.
Else the entry leaves all threads to the code for those that fill no whole vector, which sums over the lanes. So nothing
is compiled twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.lanes import full_mask, masked
from warp_like.backend.llvm.shuffle import split
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, Rep, leaves, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import count_uses
from warp_like.ir.types import Array, Lanes, element_count, scalar_of

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering

FEWEST = 4
"""How many such additions a thread makes at least to an array that is worth the memory, if none is in a loop."""


def find_additions(f: Function) -> list[ops.Atomic]:
    """Return the additions in ``f`` to float parameters, each of which adds a sum over lanes that nobody else uses."""
    uses = count_uses(f.body)

    def adds(o: Op) -> TypeGuard[ops.Atomic]:
        if not isinstance(o, ops.Atomic) or o.mask or not KINDS[o.kind].sign or o.array not in f.params:
            return False
        made = o.value.op
        return _is_sum(made) and uses[o.value] == 1 and _is_float(o.array)

    return [o for o in f.body.walk() if adds(o)]


def _is_sum(o: Op | None) -> bool:
    return isinstance(o, ops.LaneReduce) and o.kind in KINDS and KINDS[o.kind].sign == 1


def _is_float(array: Value) -> bool:
    scalar = scalar_of(array.type.dtype) if isinstance(array.type, Array) else None
    return scalar is not None and scalar.is_float and scalar.bits >= 32


def arrays_with_partials(f: Function, sums: Sequence[int]) -> list[int]:
    """Return which of the parameters ``sums``, to which ``f`` only adds, are worth the memory."""
    additions = find_additions(f)
    loops = [o for o in f.body.walk() if isinstance(o, (ops.For, ops.While))]
    inside = {o for loop in loops for r in loop.regions() for o in r.walk()}

    def is_worth(array: Value) -> bool:
        found = [o for o in additions if o.array is array]
        return len(found) >= FEWEST or not inside.isdisjoint(found)

    return [i for i in sums if is_worth(f.params[i])]


def ask_for_all(w: Writer, f: Function, params: Sequence[Rep]) -> dict[int, ArrayRef]:
    """Ask for the partial sums to which code for whole vectors of ``f`` adds; return them by the parameter's position.

    None are given where their address is null.
    """
    schedule = f.schedule
    if not w.options.sums or schedule.lanes == 1:
        return {}
    width = min(schedule.lanes, schedule.coarsened.schedule.lanes if schedule.coarsened else schedule.lanes)
    found = {}
    for i in arrays_with_partials(f, w.options.sums):
        array = params[i]
        assert isinstance(array, ArrayRef)
        found[i] = _ask(w, array, width)
    return found


def _ask(w: Writer, array: ArrayRef, width: int) -> ArrayRef:
    """The partial sums of a contiguous array to which ``width`` lanes add."""
    scalar = scalar_of(array.type.dtype)
    assert scalar is not None
    lanes = min(width, max(w.target.vector_bits // scalar.bits, 1))  # of one register
    count = str(element_count(array.type.dtype))
    for extent in array.shape:
        count = w.op(f"mul nsw i64 {count}, {extent}")
    w.declare("wl_lane_partials", "ptr @wl_lane_partials(ptr, ptr, i64, i32, i32)")
    given = f"ptr %ctx, ptr {array.data}, i64 {count}, i32 {scalar.bits}, i32 {lanes}"
    address = w.op(f"call ptr @wl_lane_partials({given}) {w.attributes('nounwind')}")
    return array.replace(data=address, lanes=lanes)


def add_vector(lowering: Lowering, o: ops.Atomic) -> None:
    """Add the lanes whose sum ``o`` adds, each to its partial sum."""
    w, array, made = lowering.w, lowering.array(o.array), o.value.op
    assert isinstance(made, ops.LaneReduce)
    assert isinstance(made.x.type, Lanes)
    assert array.partials is not None
    place = memory.element_address(w, array.partials, lowering.indices(o.array, array.partials, o.indices))
    mask = lowering.scalar(made.mask[0]) if made.mask else full_mask(made.x.type.width)
    fuses = made.x in lowering.summed_products and mask == full_mask(made.x.type.width)
    registers = lowering.factors(made.x) if fuses else [lowering.scalars(made.x)]
    for (one, offset), (t, _), *xs in zip(leaves(array.type.dtype), leaves(made.x.type), *registers, strict=True):
        assert isinstance(t, LaneScalar)
        narrow = LaneScalar(one.kind, one.bits, array.partials.lanes)
        pieces = [split(w, t, masked(w, "add", t, x, mask), narrow.width) for x in xs]
        at = memory.component_address(w, place, offset * narrow.width)
        total = _sum_of_products(w, narrow, *pieces) if fuses else _folded(w, narrow, *pieces)
        _add(w, o.kind, narrow, at, total, array)


def _sum_of_products(w: Writer, t: LaneScalar, a: Sequence[str], b: Sequence[str]) -> str:
    total = w.op(f"fmul {w.fp}{register_type(t)} {a[0]}, {b[0]}")
    for x, y in zip(a[1:], b[1:], strict=True):
        from warp_like.backend.llvm.summed_products import multiply_add

        total = multiply_add(w, t, x, y, total)
    return total


def _folded(w: Writer, t: LaneScalar, pieces: Sequence[str]) -> str:
    total, *others = pieces
    for x in others:
        total = w.op(f"fadd {w.fp}{register_type(t)} {total}, {x}")
    return total


def _add(w: Writer, kind: str, t: LaneScalar, at: str, x: str, array: ArrayRef) -> None:
    reg, rest = register_type(t), f"align {t.width * t.bits // 8}{memory.note_of(w, array)}"
    old = w.op(f"load {reg}, ptr {at}, {rest}")
    w.do(f"store {reg} {memory.added(w, kind, t, old, x, array)}, ptr {at}, {rest}")
