"""Which arrays a function reads and writes."""

from __future__ import annotations

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.analysis.memory import analyse
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Array, bool_, float32, int32
from warp_like.passes.effects import Use, array_uses

X, XX = Array(float32, 1), Array(float32, 2)


def test_loads_stores_and_atomics() -> None:
    f, b = start(a=X, s=float32, c=X, d=X, e=Array(int32, 1), unused=X)
    a, s, c, d, e, _ = f.params
    i = tid(b)
    b.store(c, [i], b.add(b.load(a, [i]), s))
    b.atomic("add", d, [i], s)
    b.insert(ops.AtomicCas(e, (i,), i, i), int32)
    b.dim(a, 0)
    b.yield_()
    assert array_uses(analyse(f)) == {
        0: Use(read=True, loaded=True),
        2: Use(written=True, stored=True),
        3: Use(read=True, written=True, atomic=True),
        4: Use(read=True, written=True, atomic=True),
        5: Use(),
    }


def test_views_calls_and_nesting() -> None:
    callee, b = start("callee", "func", (X,), m=XX, i=int32)
    row = b.view(callee.params[0], [callee.params[1]])
    b.load(row, [callee.params[1]])
    b.yield_(row)
    f, b = start(a=XX, c=X, n=int32)
    a, c, n = f.params
    with loop(b, 0, n) as body:
        (row,) = b.insert(ops.Call(callee, (a, body.i)), X).results
        b.store(row, [n], b.load(c, [n]))
    b.yield_()
    both = Use(read=True, written=True, stored=True, loaded=True)
    assert array_uses(analyse(f)) == {0: both, 1: Use(read=True, loaded=True)}


def test_arrays_chosen_by_branches_and_carried_by_loops() -> None:
    f, b = start(a=X, c=X, d=X, e=X, g=X, cond=bool_, n=int32)
    a, c, d, e, g, cond, n = f.params
    (either,) = branch(b, cond, lambda: (a,), lambda: (c,))
    with loop(b, 0, n, init=[either, d]) as body:
        b.store(body.carried[0], [n], b.constant(1, float32))
        body.next = (body.carried[1], body.carried[0])  # they take turns

    def swap(v: Value, w: Value) -> tuple[Value, ...]:
        b.store(w, [n], b.constant(1, float32))
        return w, v

    last, _ = while_(b, [e, g], lambda v, w: b.lt(b.load(v, [n]), 1.0), swap)
    b.atomic("add", last, [n], b.constant(1, float32))
    b.yield_()
    written = Use(written=True, stored=True)
    everything = Use(read=True, written=True, atomic=True, stored=True, loaded=True)
    assert array_uses(analyse(f)) == {0: written, 1: written, 2: written, 3: everything, 4: everything}
