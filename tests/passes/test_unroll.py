"""Unrolling: which loops, and what comes out."""

from __future__ import annotations

import numpy as np

from tests.interpreter import evaluate
from tests.ir_builder import count, expect, loop, start, tid
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Array, Tile, Vec, float32, int32
from warp_like.passes.pipeline import Options, prepare
from warp_like.passes.unroll import unroll


def _sum(lo: int, hi: int, step: int) -> Function:
    f, b = start("f", "func", (int32,), n=int32)
    with loop(b, lo, hi, step, init=[f.params[0]]) as body:
        body.next = (b.add(b.mul(body.carried[0], 3), body.i),)
    b.yield_(body.results[0])
    return f


def test_iterations_follow_each_other() -> None:
    f = _sum(6, 0, -3)
    assert unroll(f)
    expect(
        f,
        """
        func f(%n: int32) -> (int32) {
          %0 = constant 6 : int32
          %1 = constant 0 : int32
          %2 = constant -3 : int32
          %3 = constant 6 : int32
          %4 = constant 3 : int32
          %5 = mul %n, %4 : int32
          %6 = add %5, %3 : int32
          %7 = constant 3 : int32
          %8 = constant 3 : int32
          %9 = mul %6, %8 : int32
          %10 = add %9, %7 : int32
          yield %10
        }
        """,
    )


def test_results_are_those_of_the_loop() -> None:
    for bounds in ((0, 4, 1), (0, 0, 1), (3, 0, 1), (7, -2, -3), (-5, 5, 4)):
        f = _sum(*bounds)
        wanted = evaluate(f, [2])
        assert unroll(f)
        assert count(f, ops.For) == 0
        assert evaluate(f, [2]) == wanted


def test_limits() -> None:
    assert not unroll(_sum(0, 17, 1))
    assert unroll(_sum(0, 17, 1), max_trips=17)
    assert not unroll(_sum(0, 8, 1), max_ops=15)
    assert unroll(_sum(0, 8, 1), max_ops=16)
    assert unroll(_sum(0, 1, 1), max_trips=0)
    f, b = start("f", "func", (int32,), n=int32)
    with loop(b, 0, f.params[0], init=[f.params[0]]) as body:
        body.next = (b.add(body.carried[0], 1),)
    b.yield_(body.results[0])
    assert not unroll(f)


def _triangle(n: int) -> Function:
    f, b = start("f", "func", (float32,), x=float32)
    with loop(b, 0, n, init=[f.params[0]]) as outer:
        with loop(b, 0, outer.i, init=outer.carried) as inner:
            inner.next = (b.add(b.mul(inner.carried[0], 0.5), b.cast(inner.i, float32)),)
        outer.next = inner.results
    b.yield_(*outer.results)
    return f


def test_inner_bounds_that_become_constant() -> None:
    f = _triangle(4)
    wanted = evaluate(f, [1.0])
    got = prepare(f)
    assert count(got, ops.For) == 0
    assert evaluate(got, [1.0]) == wanted


def test_large_inner_loops_keep_the_outer_one() -> None:
    f, b = start("f", "func", (int32,), n=int32)
    with loop(b, 0, 16, init=[f.params[0]]) as outer:
        with loop(b, 0, 16, init=outer.carried) as inner:
            inner.next = (b.add(b.mul(inner.carried[0], 3), b.mul(inner.i, outer.i)),)
        outer.next = inner.results
    b.yield_(*outer.results)
    wanted = evaluate(f, [1])
    got = prepare(f, Options(max_unrolled_ops=100))
    assert count(got, ops.For) == 1
    assert evaluate(got, [1]) == wanted


def _rows(rows: int, columns: int, *, reads: bool = False) -> Function:
    """A tile made row by row; with ``reads``, each element from the one before."""
    f, b = start("f", "func", (Tile((rows, columns), int32),), n=int32)
    made = b.zero(Tile((rows, columns), int32))
    with loop(b, 0, rows, init=[made]) as outer:
        with loop(b, 0, columns, init=outer.carried) as inner:
            (t,) = inner.carried
            x = b.extract(t, outer.i, b.mul(inner.i, 0)) if reads else f.params[0]
            inner.next = (b.insert_component(t, b.add(x, inner.i), outer.i, inner.i),)
        outer.next = inner.results
    b.yield_(*outer.results)
    return f


def test_rows_of_a_tile_stay_loops() -> None:
    for f, left in ((_rows(16, 16), 2), (_rows(20, 9), 2), (_rows(20, 4), 1), (_rows(20, 9, reads=True), 1)):
        wanted = evaluate(f, [3])
        got = prepare(f)
        assert count(got, ops.For) == left
        np.testing.assert_array_equal(evaluate(got, [3]), wanted)


def _indexed(trips: int, *, ops_more: int = 0, dynamic: bool = False) -> Function:
    """The sum of a vector that a loop fills by its counter; ``dynamic`` indexes by what is known at run time."""
    f, b = start("f", "func", (int32,), n=int32)
    with loop(b, 0, trips, init=[b.zero(Vec(trips, int32))]) as fill:
        at = b.add(fill.i, f.params[0]) if dynamic else b.sub(trips - 1, fill.i)
        value = fill.i
        for _ in range(ops_more):
            value = b.add(value, f.params[0])
        fill.next = (b.insert_component(fill.carried[0], b.add(value, f.params[0]), at),)
    with loop(b, 0, trips, init=[f.params[0]]) as total:
        index = b.add(total.i, f.params[0]) if dynamic else total.i
        total.next = (b.add(b.mul(total.carried[0], 3), b.extract(fill.results[0], index)),)
    b.yield_(*total.results)
    return f


def test_loops_that_index_components_may_be_longer() -> None:
    cases = [
        (_indexed(19), 0),
        (_indexed(64), 0),
        (_indexed(65), 2),  # a large vector, which is in memory
        (_indexed(19, dynamic=True), 2),
        (_indexed(40, ops_more=30), 1),  # too much code
    ]
    for f, left in cases:
        wanted = evaluate(f, [2])
        got = prepare(f)
        assert count(got, ops.For) == left
        assert evaluate(got, [2]) == wanted
    assert count(prepare(_indexed(19), Options(max_unroll=0)), ops.For) == 2


def test_what_the_counter_tells_is_not_counted() -> None:
    """A branch on a table: of each iteration one side is left, and a few ops of it."""
    table = tuple(k % 3 for k in range(19))
    f, b = start("f", "func", (int32,), n=int32)
    with loop(b, 0, 19, init=[f.params[0]]) as body:
        entry = b.extract(b.constant(table, Vec(19, int32)), body.i)
        chosen = b.where(b.eq(entry, 1), b.add(entry, 5), b.mul(entry, body.i))
        value = b.add(body.carried[0], chosen)
        for k in range(40):
            value = b.add(value, b.mul(entry, k))
        body.next = (value,)
    b.yield_(*body.results)
    wanted = evaluate(f, [2])
    got = prepare(f)
    assert count(got, ops.For) == 0
    assert evaluate(got, [2]) == wanted


def test_a_function_has_room_for_so_much_code() -> None:
    f, b = start("f", "func", (int32,), n=int32)
    x = f.params[0]
    for _ in range(8):
        with loop(b, 0, 19, init=[b.zero(Vec(19, int32))]) as fill:
            value = x
            for k in range(30):
                value = b.add(b.mul(value, k), x)
            fill.next = (b.insert_component(fill.carried[0], value, fill.i),)
        x = b.extract(fill.results[0], 7)
    b.yield_(x)
    wanted = evaluate(f, [2])
    got = prepare(f)
    assert count(got, ops.For) > 0
    assert evaluate(got, [2]) == wanted


def test_loops_along_a_row_stay_loops() -> None:
    """Lanes load several elements of a row at once, in a loop."""
    for at_counter, left in (((0, 1), 1), ((1, 0), 0)):
        f, b = start("f", "kernel", x=Array(int32, 2), y=Array(int32, 1))
        i = tid(b)
        with loop(b, 0, 19, init=[b.zero(Vec(19, int32))]) as fill:
            indices = [(i, fill.i)[k] for k in at_counter]
            fill.next = (b.insert_component(fill.carried[0], b.load(f.params[0], indices), fill.i),)
        b.store(f.params[1], [i], b.extract(fill.results[0], 7))
        b.yield_()
        assert count(prepare(f), ops.For) == left


def test_loops_over_the_threads_of_a_block_stay() -> None:
    for kind in ("threads", "together", "simd"):
        f = _indexed(19)
        first = next(o for o in f.body.walk() if isinstance(o, ops.For))
        setattr(first, kind, True)
        assert unroll(f)
        assert [o for o in f.body.walk() if isinstance(o, ops.For)] == [first]
