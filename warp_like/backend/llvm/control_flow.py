"""Branches and loops: blocks of LLVM, and phis for the values that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.indexed import enter_loop, leave_branch, leave_loop
from warp_like.backend.llvm.loops import CountedLoop
from warp_like.backend.llvm.polls import Strips
from warp_like.backend.llvm.values import ArrayRef, Rep, flatten, leaves, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.builtins.trips import trip_count
from warp_like.ir import ops
from warp_like.ir.core import Block
from warp_like.ir.types import Scalar, Type, int32, int64

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering


def lower_if(lowering: Lowering, o: ops.If) -> None:
    """Lower a branch."""
    w = lowering.w
    then, orelse, end = w.label("then"), w.label("else"), w.label("endif")
    w.branch(lowering.scalar(o.cond), then, orelse)
    sources = []
    for label, b in ((then, o.then), (orelse, o.orelse)):
        w.start(label)
        got = lowering.block(b, [])
        if lowering.polls is not None:
            lowering.polls.branch(b)
        sources.append((flatten(got), w.block))
        w.jump(end)
    w.start(end)
    example = [lowering.rep(v) for v in o.then.yielded]
    phis = w.phis(_types(w, [r.type for r in o.results], example))
    for values, block in sources:
        phis.add(values, block)
    phis.finish()
    lowering.bind_all(o.results, example, phis.registers)
    leave_branch(lowering, o)


def lower_for(lowering: Lowering, o: ops.For) -> None:
    """Lower a counted loop."""
    w, t = lowering.w, o.lo.type
    assert isinstance(t, Scalar)
    places = enter_loop(lowering, o)
    init = [() if k in places else lowering.rep(v) for k, v in enumerate(o.init)]
    narrow = w.target.is_gpu and t == int32
    lo, hi, step = (lowering.scalar(v) if narrow else lowering.index(v) for v in (o.lo, o.hi, o.step))
    strips = (
        Strips(lowering.polls, o, lo, hi, step)
        if lowering.polls is not None and lowering.polls.strip(o, step)
        else None
    )
    if strips is None:
        _, carried = _count(lowering, o, (lo, hi, step), init, flatten(init))
    else:
        with strips:
            phis = w.phis(_types(w, [v.type for v in o.init], init))
            phis.add(flatten(init), strips.before)
            strips.enter()
            index, carried = _count(lowering, o, (strips.lo, strips.hi, step), init, phis.registers, in_strips=True)
            strips.leave(index)
            phis.add(carried, w.block)
            phis.finish()
    lowering.bind_all(o.results, init, carried)
    leave_loop(lowering, o, places)


def _count(
    lowering: Lowering,
    o: ops.For,
    bounds: tuple[str, str, str],
    init: Sequence[Rep],
    first: Sequence[str],
    *,
    in_strips: bool = False,
) -> tuple[str, Sequence[str]]:
    """Lower a loop that carries values of the form ``init``, ``first`` at first.

    Returns the registers of the counter and of the carried values behind it.
    """
    w, t = lowering.w, o.lo.type
    assert isinstance(t, Scalar)
    narrow = w.target.is_gpu and t == int32
    trips = "" if CountedLoop.counts_by_index(t, bounds[2], narrow=narrow) else _trip_count(lowering, o, narrow)
    with CountedLoop(w, t, *bounds, trips, narrow=narrow) as loop:
        phis = w.phis(_types(w, [v.type for v in o.init], init))
        phis.add(first, loop.before)
        loop.enter()
        i, *carried = o.body.params
        lowering.bind_all(carried, init, phis.registers)
        index, number = loop.index, loop.index
        if narrow:
            index = w.op(f"sext i32 {number} to i64")
        elif t.bits < 64:
            number = w.op(f"trunc i64 {index} to i{t.bits}")
        lowering.wide.append({i: index})
        out = lowering.block(o.body, [(i, (number,))])
        lowering.wide.pop()
        if lowering.polls is not None and not in_strips:
            lowering.polls.iteration(o)
        phis.add(flatten(out), w.block)
        phis.finish()
    return loop.index, phis.registers


def _trip_count(lowering: Lowering, o: ops.For, narrow: bool) -> str:
    """Return how often ``o`` runs, in the type that the loop counts in."""
    b = Emitter(Block())
    with at(o.loc):
        trips = trip_count(b, o.lo, o.hi, o.step)
    for made in b.block.ops:
        lowering.op(made)
    t = trips.type
    assert isinstance(t, Scalar)
    return lowering.scalar(trips) if narrow else cast(lowering.w, lowering.scalar(trips), t, int64)


def lower_while(lowering: Lowering, o: ops.While) -> None:
    """Lower a loop with a condition."""
    w = lowering.w
    init = [lowering.rep(v) for v in o.init]
    before, head, body, end = w.block, w.label("while"), w.label("do"), w.label("endwhile")
    w.jump(head)
    w.start(head)
    phis = w.phis(_types(w, [v.type for v in o.init], init))
    phis.add(flatten(init), before)
    for params in (o.cond.params, o.body.params, o.results):
        lowering.bind_all(params, init, phis.registers)
    (go,) = flatten(lowering.block(o.cond, []))
    w.branch(go, body, end)
    w.start(body)
    out = lowering.block(o.body, [])
    if lowering.polls is not None:
        lowering.polls.iteration(o)
    phis.add(flatten(out), w.block)
    phis.finish()
    w.jump(head)
    w.start(end)


def _types(w: Writer, types: Sequence[Type], reps: Sequence[Rep]) -> list[str]:
    """Return the LLVM types of the registers of values of ``types``."""
    out: list[str] = []
    for t, rep in zip(types, reps, strict=True):
        if isinstance(rep, ArrayRef):
            out += [memory.pointer(w, rep), *["i64"] * (len(rep.parts) - 1)]
        elif rep:  # else it is in memory
            out += [register_type(s) for s, _ in leaves(t)]
    return out
