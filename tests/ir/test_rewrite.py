"""Copying and querying IR."""

from __future__ import annotations

from tests.ir_builder import branch, count, loop, start, tid, while_
from warp_like.ir import ops
from warp_like.ir.core import Op, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import (
    Cloner,
    blocks,
    clone_function,
    count_uses,
    free_values,
    has_effects,
    substitute,
)
from warp_like.ir.types import Array, float32, int32
from warp_like.ir.verify import verify

X = Array(float32, 1)


def _nested():
    f, b = start(x=X, n=int32)
    x, n = f.params
    outside = b.constant(2, float32)
    with loop(b, 0, n, init=[outside]) as outer:
        (r,) = branch(b, b.lt(outer.i, 3), lambda: (b.load(x, [outer.i]),), lambda: (outside,))
        outer.next = (b.add(r, outer.carried[0]),)
    b.store(x, [n], outer.results[0])
    b.yield_()
    return f, outside


def test_a_clone_is_equal_and_shares_nothing() -> None:
    f, _ = _nested()
    g = clone_function(f)
    verify(g)
    assert print_function(g) == print_function(f)
    mine = {v for o in f.body.walk() for v in o.results} | {p for b in blocks(f.body) for p in b.params}
    theirs = {v for o in g.body.walk() for v in (*o.results, *o.operands())}
    assert mine.isdisjoint(theirs)
    before = print_function(f)
    g.body.ops.clear()
    assert print_function(f) == before


def test_a_cloned_loop_keeps_what_comes_from_outside() -> None:
    f, outside = _nested()
    found = next(o for o in f.body.ops if isinstance(o, ops.For))
    copy = Cloner().block(found.body)
    assert free_values(copy) == free_values(found.body)
    assert free_values(found.body) == [f.params[0], outside]


def test_uses_and_substitution() -> None:
    f, outside = _nested()
    assert count_uses(f.body)[outside] == 2
    x = Value(float32, "x")
    y = Value(float32, "y")
    substitute(f.body, {outside: x, x: y})
    uses = count_uses(f.body)
    assert (uses[outside], uses[x], uses[y]) == (0, 0, 2)


def test_effects() -> None:
    f, b = start(x=X, n=int32)
    x, n = f.params
    made: dict[str, Op] = {}
    b.load(x, [n])
    made["load"] = b.block.ops[-1]
    b.store(x, [n], b.constant(1, float32))
    made["store"] = b.block.ops[-1]
    with loop(b, 0, n) as body:
        b.load(x, [body.i])
    made["for"] = b.block.ops[-1]
    with loop(b, 0, n):
        branch(b, b.lt(n, 3), lambda: (b.atomic("add", x, [n], b.constant(1, float32)),)[1:])
    made["for that adds"] = b.block.ops[-1]
    while_(b, [n], lambda v: b.lt(v, 3), lambda v: (v,))
    made["while"] = b.block.ops[-1]
    tid(b)
    made["tid"] = b.block.ops[-1]
    b.insert(ops.Call(f, (x, n)))
    made["call"] = b.block.ops[-1]
    b.yield_()
    assert count(f, ops.Store) == 1
    assert {k for k, o in made.items() if has_effects(o)} == {"store", "for that adds", "while", "call"}
