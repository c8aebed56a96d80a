"""Dead code: liveness through control flow, carried values one by one, the stack."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, branch, count, expect, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Type, float32, int32
from warp_like.passes.dce import dce

X = Array(float32, 1)


def push(b: Emitter, slot: int, v: Value) -> None:
    b.insert(ops.Push(slot, v))


def pop(b: Emitter, slot: int, t: Type = float32) -> Value:
    return b.insert(ops.Pop(slot), t).result


def test_unused_values_and_loads_go() -> None:
    f, b = start(x=X)
    (x,) = f.params
    i = tid(b)
    b.mul(b.load(x, [i]), 2.0)
    b.atomic("add", x, [i], b.constant(1, float32))
    b.yield_()
    expect(
        dce(f),
        """
        kernel k(%x: array1d[float32]) {
          %0 = tid 0 of 1 : int32
          %1 = constant 1.0 : float32
          %2 = atomic_add %x[%0], %1 : float32
          yield
        }
        """,
    )


def test_results_and_carried_values_live_one_by_one() -> None:
    f, b = start("f", "func", (float32,), x=float32, n=int32)
    x, n = f.params
    with loop(b, 0, n, init=[x, x, x]) as body:
        live, dead, feeds_live = body.carried
        used, _ = branch(b, b.lt(body.i, 2), lambda: (b.add(live, 1.0), b.mul(dead, 2.0)), lambda: (feeds_live, dead))
        body.next = (used, b.neg(dead), b.mul(feeds_live, 3.0))
    b.yield_(body.results[0])
    expect(
        dce(f),
        """
        func f(%x: float32, %n: int32) -> (float32) {
          %0 = constant 0 : int32
          %1 = constant 1 : int32
          %2, %3 = for %i in %0, %n, %1 (%4 = %x, %5 = %x) : float32, float32 {
            %6 = constant 2 : int32
            %7 = lt %i, %6 : bool
            %8 = if %7 : float32 {
              %9 = constant 1.0 : float32
              %10 = add %4, %9 : float32
              yield %10
            } else {
              yield %5
            }
            %11 = constant 3.0 : float32
            %12 = mul %5, %11 : float32
            yield %8, %12
          }
          yield %2
        }
        """,
    )


def test_while_keeps_what_its_condition_needs() -> None:
    f, b = start("f", "func", (float32,), x=float32)
    (x,) = f.params
    init = [b.index(0), x, x]
    results = while_(
        b,
        init,
        lambda n, v, w: b.lt(n, 4),
        lambda n, v, w: (b.add(n, 1), b.add(v, v), b.mul(w, v)),
    )
    b.yield_(results[1])
    dce(f)
    (found,) = [o for o in f.body.walk() if isinstance(o, ops.While)]
    assert len(found.init) == len(found.results) == len(found.cond.params) == len(found.body.params) == 2
    assert count(f, ops.Apply) == 3


def test_counted_loops_without_effects_go() -> None:
    f, b = start(x=X, n=int32)
    x, n = f.params
    with loop(b, 0, n, init=[b.constant(0, float32)]) as body:
        branch(b, b.lt(body.i, 3), lambda: (b.load(x, [body.i]),), lambda: (body.carried[0],))
        body.next = (b.add(body.carried[0], b.load(x, [body.i])),)
    b.yield_()
    dce(f)
    assert [type(o) for o in f.body.ops] == [ops.Yield]


@pytest.mark.parametrize("role", ["kernel", "func", "tangent", "adjoint"])
def test_a_while_loop_may_not_end_and_stays(role: str) -> None:
    """What an adjoint computes again has ended in the primal."""
    f, b = start("k", role, n=int32)
    (n,) = f.params
    branch(
        b,
        b.gt(n, 0),
        lambda: while_(b, [n, n], lambda v, w: b.gt(v, 0), lambda v, w: (b.mul(v, 1), w))[:1],
        lambda: (n,),
    )
    b.yield_()
    dce(f)
    assert count(f, ops.While) == (role != "adjoint")
    assert all(len(o.results) == 1 for o in f.body.walk() if isinstance(o, ops.While))


def test_an_effect_keeps_the_control_flow_around_it() -> None:
    f, b = start(x=X, n=int32)
    x, n = f.params

    def then() -> tuple[Value, ...]:
        with loop(b, 0, n) as inner:
            b.store(x, [inner.i], b.constant(1, float32))
        return ()

    branch(b, b.lt(n, 3), then)
    b.yield_()
    before = clone_function(f)
    dce(f)
    assert count(f, ops.If, ops.For, ops.Store) == 3
    assert_same(before, f, [np.zeros(4, np.float32), 2], (1,))


def _saved(used: bool) -> Function:
    """A loop that pushes two values, and one that pops both and uses the second, if that."""
    f, b = start(x=X, n=int32)
    x, n = f.params
    with loop(b, 0, n, init=[b.constant(1, float32)]) as body:
        push(b, 0, body.carried[0])
        push(b, 1, b.load(x, [body.i]))
        body.next = (b.mul(body.carried[0], 2.0),)
    with loop(b, 0, n) as back:
        got = pop(b, 1)
        pop(b, 0)
        if used:
            b.store(x, [back.i], b.add(got, 1.0))
    b.yield_()
    return f


def test_pushes_of_a_slot_go_with_its_unused_pops() -> None:
    f = _saved(used=True)
    before = clone_function(f)
    expect(
        dce(f),
        """
        kernel k(%x: array1d[float32], %n: int32) {
          %0 = constant 0 : int32
          %1 = constant 1 : int32
          for %i in %0, %n, %1 {
            %2 = load %x[%i] : float32
            push 1 %2
            yield
          }
          %3 = constant 0 : int32
          %4 = constant 1 : int32
          for %i.1 in %3, %n, %4 {
            %5 = pop 1 : float32
            %6 = constant 1.0 : float32
            %7 = add %5, %6 : float32
            store %x[%i.1], %7
            yield
          }
          yield
        }
        """,
    )
    assert_same(before, f, [np.arange(3, dtype=np.float32), 3], (1,))


def test_a_stack_that_nobody_reads_goes_with_its_loops() -> None:
    assert [type(o) for o in dce(_saved(used=False)).body.ops] == [ops.Yield]


def test_one_used_pop_keeps_all_of_its_slot() -> None:
    f, b = start("f", "func", (float32,), x=float32)
    (x,) = f.params
    push(b, 0, b.neg(x))
    push(b, 0, x)
    pop(b, 0)
    b.yield_(pop(b, 0))
    dce(f)
    assert count(f, ops.Push) == count(f, ops.Pop) == 2


def test_pushes_of_values_that_only_dead_pops_feed() -> None:
    f, b = start("f", "func", (float32,), x=float32)
    (x,) = f.params
    push(b, 0, x)
    push(b, 1, pop(b, 0))
    pop(b, 1)
    b.yield_(x)
    dce(f)
    assert [type(o) for o in f.body.ops] == [ops.Yield]
