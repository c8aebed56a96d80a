"""Ops that have no form for lanes: each lane runs them on its own, the first one first.

Their operands lie in stack memory meanwhile, so that a loop over the lanes of the mask can pick it; results are
put together there. Checks alone are tested for all lanes at once, since they do nothing while they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_like.backend.llvm.lanes import Spilled, any_lane, for_each_lane, mask_bits
from warp_like.backend.llvm.native_calls import search_lanes
from warp_like.backend.llvm.runtime_calls import leave
from warp_like.backend.llvm.shuffle import splat
from warp_like.backend.llvm.values import LaneScalar, constant, leaves, one_lane, register_type
from warp_like.ir import ops
from warp_like.ir.core import Op, Value
from warp_like.ir.types import Lanes, lane_type

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering


def lower_lane_by_lane(lowering: Lowering, o: Op, mask: Value) -> None:
    """Append ``o`` for the lanes of ``mask`` and bind its results."""
    if isinstance(o, ops.Check):
        _check(lowering, o, mask)
        return
    if isinstance(o, ops.Search) and search_lanes(lowering, o, mask):
        return
    w = lowering.w
    given: dict[Value, list[Spilled]] = {}
    for v in o.operands():
        if isinstance(v.type, Lanes) and v is not mask:
            given[v] = [Spilled(w, s, x) for (s, _), x in zip(leaves(v.type), lowering.scalars(v), strict=True)]
    made = [[Spilled(w, s, constant(0, s)) for s, _ in leaves(r.type)] for r in o.results]
    single = {v: Value(lane_type(v.type), v.hint) for v in given}
    one = _of_one_lane(o, single)

    def run(lane: str) -> None:
        with lowering.in_lane(lane):
            for v, slots in given.items():
                lowering.bind(single[v], tuple(slot.lane(lane) for slot in slots))
            lowering.op(one)
            for r, slots in zip(one.results, made, strict=True):
                for slot, x in zip(slots, lowering.scalars(r), strict=True):
                    slot.set_lane(lane, x)

    for_each_lane(w, _width(mask), lowering.scalar(mask), run)
    for r, slots in zip(o.results, made, strict=True):
        lowering.bind(r, tuple(slot.whole() for slot in slots))


def _width(mask: Value) -> int:
    assert isinstance(mask.type, Lanes)
    return mask.type.width


def _of_one_lane(o: Op, single: dict[Value, Value]) -> Op:
    """``o`` on values of one lane, with results of one lane and no mask."""
    one = object.__new__(type(o))
    one.__dict__.update(o.__dict__, mask=())
    one.map_operands(lambda v: single.get(v, v))
    one.results = tuple(Value(lane_type(r.type), r.hint, one) for r in o.results)
    return one


def _check(lowering: Lowering, o: ops.Check, mask: Value) -> None:
    """Leave the kernel, with the numbers of the first lane for which the check does not hold."""
    w, width = lowering.w, _width(mask)
    ok = lowering.scalar(o.ok)
    if not isinstance(o.ok.type, Lanes):
        ok = splat(w, LaneScalar("bool", 8, width), ok)
    fine = w.op(f"xor <{width} x i1> {ok}, {constant(True, LaneScalar('bool', 8, width))}")
    failed = w.op(f"and <{width} x i1> {lowering.scalar(mask)}, {fine}")
    good, bad = w.label("good"), w.label("bad")
    w.branch(w.op(f"xor i1 {any_lane(w, width, failed)}, true"), good, bad, likely=True)
    w.start(bad)
    i = f"i{width}"
    first = w.intrinsic(f"llvm.cttz.{i}", i, [i, "i1"], [mask_bits(w, width, failed), "true"])
    lane = w.op(f"zext {i} {first} to i64") if width < 64 else first
    values = []
    for v in o.values:
        ((t, _),) = leaves(v.type)
        x = lowering.scalar(v)
        if isinstance(t, LaneScalar):
            x = w.op(f"extractelement {register_type(t)} {x}, i64 {lane}")
        values.append((one_lane(t), x))
    with lowering.in_lane(lane):
        leave(w, o.kind, o.text, values, lowering.thread())
    w.start(good)
