"""Loops in segments run as often as before and carry the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, count, loop, start, tid, while_
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32, int32
from warp_like.passes.ad.checkpoint import SEGMENT, split_loops

X = Array(float32, 1)


def _counted(lo: int, step: int) -> Function:
    f, b = start(x=X, n=int32)
    i, (x, n) = tid(b), f.params
    with loop(b, lo, n, step, [b.load(x, [i])]) as body:
        body.next = (b.add(b.mul(body.carried[0], 0.5), b.cast(body.i, float32)),)
    b.store(x, [i], body.results[0])
    b.yield_()
    return f


@pytest.mark.parametrize(
    ("lo", "step", "limits"), [(0, 1, (-2, 0, 1, 2, 17)), (3, 4, (3, 4, 20)), (9, -2, (9, 8, -20))]
)
def test_counted_loops(lo: int, step: int, limits: tuple[int, ...]) -> None:
    f = _counted(lo, step)
    g = split_loops(clone_function(f))
    assert count(g, ops.For) == 2
    for n in limits:
        assert_same(f, g, [np.arange(3, dtype=np.float32), n], (3,))


def test_an_index_near_the_largest_does_not_wrap() -> None:
    f = _counted(2**31 - 20, 7)
    assert_same(f, split_loops(clone_function(f)), [np.ones(1, np.float32), 2**31 - 1], (1,))


def test_nested_loops_are_split_at_each_level() -> None:
    f, b = start(x=X, n=int32)
    i, (x, n) = tid(b), f.params
    with loop(b, 0, n, init=[b.load(x, [i])]) as outer:
        with loop(b, 0, outer.i, init=outer.carried) as inner:
            inner.next = (b.add(inner.carried[0], 1.0),)
        outer.next = inner.results
    b.store(x, [i], outer.results[0])
    b.yield_()
    g = split_loops(clone_function(f))
    assert count(g, ops.For) == 4
    assert_same(f, g, [np.zeros(2, np.float32), 6], (2,))


@pytest.mark.parametrize("trips", [0, 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT + 5])
def test_loops_on_a_condition(trips: int) -> None:
    f, b = start(x=X, n=int32)
    i, (x, n) = tid(b), f.params

    def body(k: Value, total: Value) -> tuple[Value, ...]:
        return b.add(k, 1), b.add(total, b.cast(k, float32))

    results = while_(b, [b.index(0), b.zero(float32)], lambda k, _: b.lt(k, n), body)
    b.store(x, [i], results[1])
    b.yield_()
    g = split_loops(clone_function(f))
    assert count(g, ops.While) == 2
    assert_same(f, g, [np.zeros(1, np.float32), trips], (1,))


def test_a_loop_that_carries_nothing_stays() -> None:
    f, b = start(x=X, n=int32)
    x, n = f.params
    with loop(b, 0, n) as body:
        b.store(x, [body.i], b.constant(1.0, float32))
    b.yield_()
    text = print_function(f)
    assert print_function(split_loops(f)) == text
