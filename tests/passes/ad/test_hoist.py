"""Which loads go in front of a loop, and under which condition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ir_builder import Loop, assert_same, branch, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, bool_, float32, int32
from warp_like.passes.ad.hoist import hoist_loads

X = Array(float32, 1)
Body = Callable[[Emitter, Function, Value, Loop], Value]


def _loop(body: Body, step: int | None = 1) -> Function:
    """``y[i]`` becomes the sum of what ``body`` gives in each of ``n`` iterations."""
    f, b = start(x=X, y=X, n=int32, by=int32)
    i, (_, y, n, by) = tid(b), f.params
    with loop(
        b, *((0, n) if step is None or step > 0 else (n, 0)), by if step is None else step, [b.zero(float32)]
    ) as made:
        made.next = (b.add(made.carried[0], body(b, f, i, made)),)
    b.store(y, [i], made.results[0])
    b.yield_()
    return f


def _loads_inside(f: Function) -> int:
    loops = [o for o in f.body.walk() if isinstance(o, (ops.For, ops.While))]
    return sum(isinstance(o, ops.Load) for made in loops for r in made.regions() for o in r.walk())


def _args(n: int) -> list[object]:
    return [np.arange(1, 4, dtype=np.float32), np.zeros(3, np.float32), n, 1]


@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_load_that_stays_the_same_moves(step: int) -> None:
    f = _loop(lambda b, f, i, _: b.load(f.params[0], [b.mul(i, 1)]), step)
    before = clone_function(f)
    hoist_loads(f)
    assert _loads_inside(f) == 0
    for n in (0, 1, 5):
        assert_same(before, f, _args(n), (3,))


def test_a_loop_that_does_not_run_loads_nothing() -> None:
    f = hoist_loads(_loop(lambda b, f, i, _: b.load(f.params[0], [b.add(i, 1000)])))
    assert _loads_inside(f) == 0
    assert_same(
        _loop(lambda b, f, *_: b.zero(float32)), f, _args(0), (3,)
    )  # the interpreter refuses an index out of range


def test_a_branch_of_loads_moves_with_what_stands_in_it() -> None:
    def either(b: Emitter, f: Function, i: Value, _: Loop) -> Value:
        x, n = f.params[0], f.params[2]
        return branch(b, b.lt(i, n), lambda: (b.load(x, [i]),), lambda: (b.zero(float32),))[0]

    f = _loop(either)
    before = clone_function(f)
    hoist_loads(f)
    assert _loads_inside(f) == 0
    assert_same(before, f, _args(2), (3,))


def _stored(b: Emitter, f: Function, i: Value, made: Loop) -> Value:
    b.store(f.params[0], [i], made.carried[0])
    return b.load(f.params[0], [i])


def _in_storing_branch(b: Emitter, f: Function, i: Value, made: Loop) -> Value:
    y, n = f.params[1], f.params[2]

    def then() -> tuple[Value, ...]:
        b.store(y, [i], b.zero(float32))
        return (b.load(f.params[0], [i]),)

    return branch(b, b.lt(i, n), then, lambda: (b.zero(float32),))[0]


STAYING: dict[str, tuple[Body, int | None]] = {
    "of a written array": (_stored, 1),
    "at an index of the loop": (lambda b, f, i, made: b.load(f.params[0], [b.bit_and(made.i, 1)]), 1),
    "at a carried index": (lambda b, f, i, made: b.load(f.params[0], [b.cast(b.mul(made.carried[0], 0.0), int32)]), 1),
    "by a step that nobody knows": (lambda b, f, i, _: b.load(f.params[0], [i]), None),
    "in a branch that stores": (_in_storing_branch, 1),
}


@pytest.mark.parametrize(("body", "step"), STAYING.values(), ids=STAYING)
def test_other_loads_stay(body: Body, step: int | None) -> None:
    f = _loop(body, step)
    text = print_function(f)
    assert print_function(hoist_loads(f)) == text


def _while(condition: Callable[[Emitter, Function, Value], Value]) -> Function:
    f, b = start(x=X, y=X, n=int32, by=int32)
    i, (x, y, n, _) = tid(b), f.params

    def body(k: Value, total: Value) -> tuple[Value, ...]:
        return b.add(k, 1), b.add(total, b.load(x, [i]))

    results = while_(b, [b.index(0), b.zero(float32)], lambda k, _: b.bit_and(b.lt(k, n), condition(b, f, i)), body)
    b.store(y, [i], results[1])
    b.yield_()
    return f


def test_a_while_loop_runs_its_condition_in_front() -> None:
    f = _while(lambda b, f, i: b.lt(i, 2))
    before = clone_function(f)
    hoist_loads(f)
    assert _loads_inside(f) == 0
    for n in (0, 3):
        assert_same(before, f, _args(n), (3,))


def test_a_condition_that_looks_at_memory_is_not_run_twice() -> None:
    f = _while(lambda b, f, i: b.lt(b.load(f.params[0], [i]), 3.0))
    text = print_function(f)
    assert print_function(hoist_loads(f)) == text


def test_inner_loops_give_to_outer_ones() -> None:
    f, b = start(x=X, y=X, n=int32, c=bool_)
    i, (x, y, n, _) = tid(b), f.params
    with loop(b, 0, n, init=[b.zero(float32)]) as outer:
        with loop(b, 0, n, init=outer.carried) as inner:
            inner.next = (b.add(inner.carried[0], b.load(x, [i])),)
        outer.next = inner.results
    b.store(y, [i], outer.results[0])
    b.yield_()
    before = clone_function(f)
    hoist_loads(f)
    assert _loads_inside(f) == 0
    for n in (0, 2):
        assert_same(before, f, [*_args(n)[:3], True], (3,))
