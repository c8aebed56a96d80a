"""Merging of equal ops: scopes, memory, order of arguments."""

from __future__ import annotations

import numpy as np

from tests.ir_builder import assert_same, branch, count, loop, start, tid
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Mat, bool_, float32, int32
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce

X = Array(float32, 1)


def merged(f: Function) -> Function:
    return dce(cse(f))


def test_equal_ops_merge_and_constants_by_type_and_sign() -> None:
    f, b = start("f", "func", (float32, float32, int32, float32), x=float32)
    (x,) = f.params
    one, other = b.constant(0.0, float32), b.constant(-0.0, float32)
    b.yield_(
        b.sub(b.mul(x, x), b.mul(x, x)),
        b.add(one, other),
        b.add(b.cast(x, int32), b.cast(x, int32)),
        b.constant(0.0, float32),
    )
    merged(f)
    assert [o.fn for o in f.body.ops if isinstance(o, ops.Apply)] == ["mul", "sub", "add", "add"]
    assert count(f, ops.Constant) == 2
    assert count(f, ops.Cast) == 1


def test_order_of_arguments() -> None:
    mat = Mat(2, 2, float32)
    f, b = start("f", "func", (float32, float32, mat, bool_), x=float32, y=float32, m=mat, n=mat)
    x, y, m, n = f.params
    b.yield_(
        b.div(b.add(x, y), b.add(y, x)),
        b.sub(b.sub(x, y), b.sub(y, x)),
        b.add(b.mul(m, n), b.mul(n, m)),
        b.eq(b.eq(x, y), b.eq(y, x)),
    )
    merged(f)
    names = [o.fn for o in f.body.ops if isinstance(o, ops.Apply)]
    assert names == ["add", "div", "sub", "sub", "sub", "mul", "mul", "add", "eq", "eq"]


def test_a_branch_sees_what_is_before_it_and_hides_what_is_inside() -> None:
    f, b = start("f", "func", (float32, float32), c=bool_, x=float32)
    c, x = f.params
    square = b.mul(x, x)
    (r,) = branch(b, c, lambda: (b.add(b.mul(x, x), b.neg(x)),), lambda: (b.neg(x),))
    b.yield_(r, b.add(square, b.neg(x)))
    merged(f)
    names = [o.fn for o in f.body.walk() if isinstance(o, ops.Apply)]
    assert names == ["mul", "neg", "add", "neg", "neg", "add"]


def test_loads_merge_until_something_is_stored() -> None:
    f, b = start(x=X, y=X)
    x, y = f.params
    i = tid(b)
    total = b.add(b.load(x, [i]), b.load(x, [i]))
    b.store(y, [i], total)  # x and y may be one array
    b.store(y, [i], b.add(b.load(x, [i]), b.load(x, [i])))
    b.yield_()
    before = clone_function(f)
    merged(f)
    assert count(f, ops.Load) == 2
    a = np.arange(3, dtype=np.float32)
    assert_same(before, f, [a, a], (3,))


def test_loads_in_and_after_a_loop_that_stores() -> None:
    f, b = start(x=X, n=int32)
    x, n = f.params
    i = b.index(0)
    first = b.load(x, [i])
    with loop(b, 0, n):
        b.store(x, [i], b.add(b.load(x, [i]), b.load(x, [i])))
    b.store(x, [b.index(2)], b.add(b.load(x, [i]), first))
    b.yield_()
    before = clone_function(f)
    merged(f)
    assert count(f, ops.Load) == 3
    assert_same(before, f, [np.float32([3, 0, 0]), 3], (1,))


def test_loads_after_and_in_branches() -> None:
    f, b = start(x=X, c=bool_)
    x, c = f.params
    i = b.index(0)
    first = b.load(x, [i])

    def store() -> tuple[Value, ...]:
        b.store(x, [i], b.add(first, 1.0))
        return ()

    def load() -> tuple[Value, ...]:
        b.atomic("add", x, [b.index(1)], b.load(x, [i]))
        return ()

    branch(b, c, store, load)  # the second branch does not see the first one's store
    b.store(x, [b.index(2)], b.load(x, [i]))
    b.yield_()
    before = clone_function(f)
    merged(f)
    assert count(f, ops.Load) == 2
    for c_ in (True, False):
        assert_same(before, f, [np.float32([3, 0, 0]), c_], (1,))


def test_load_after_a_branch_that_stores() -> None:
    f, b = start(x=X, c=bool_)
    x, c = f.params
    i = b.index(0)
    first = b.load(x, [i])

    def store() -> tuple[Value, ...]:
        b.store(x, [i], b.add(first, 1.0))
        return ()

    branch(b, c, store)
    b.store(x, [b.index(1)], b.load(x, [i]))
    b.yield_()
    before = clone_function(f)
    merged(f)
    assert count(f, ops.Load) == 2
    assert_same(before, f, [np.float32([3, 0]), True], (1,))


def test_loops_without_stores_keep_loads() -> None:
    f, b = start("f", "func", (float32,), x=X, n=int32)
    x, n = f.params
    outside = b.load(x, [n])
    with loop(b, 0, n, init=[outside]) as body:
        body.next = (b.add(body.carried[0], b.load(x, [n])),)
    b.yield_(b.add(body.results[0], b.load(x, [n])))
    merged(f)
    assert count(f, ops.Load) == 1
