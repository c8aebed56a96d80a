"""Numbers in place of chosen arrays: what is carried, what an access becomes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, branch, count, loop, start, tid, while_
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, bool_, float32, int32, int64
from warp_like.ir.verify import verify
from warp_like.passes.lower_array_selects import lower_array_selects
from warp_like.passes.stages import NO_CHOSEN_ARRAYS

X, X2 = Array(float32, 1), Array(float32, 2)


def _numbers(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def _lowered(f: Function) -> tuple[Function, Function]:
    before = clone_function(f)
    lower_array_selects(f)
    verify(f, [NO_CHOSEN_ARRAYS])
    return before, f


def test_without_choices_nothing_changes() -> None:
    f, b = start(x=X, n=int32)
    with loop(b, 0, f.params[1]) as body:
        b.store(f.params[0], [body.i], b.constant(1.0, float32))
    b.yield_()
    text, inside = print_function(f), f.body.ops
    lower_array_selects(f)
    assert print_function(f) == text
    assert f.body.ops is inside


def test_loops_that_exchange_arrays_carry_numbers() -> None:
    f, b = start(x=X, y=X, n=int32)
    i, (x, y, n) = tid(b), f.params
    with loop(b, 0, n, init=[x, y]) as body:
        source, target = body.carried
        b.store(target, [i], b.add(b.load(source, [i]), 1.0))
        body.next = (target, source)
    b.store(body.results[0], [i], b.mul(b.load(body.results[0], [i]), 10.0))
    b.yield_()
    before, after = _lowered(f)
    (made,) = [o for o in after.body.walk() if isinstance(o, ops.For)]
    assert [r.type for r in made.results] == [int32, int32]
    for n in range(4):
        assert_same(before, after, [_numbers(3), _numbers(3), n], (3,))


def test_views_are_carried_by_their_indices() -> None:
    f, b = start(m=X2, n=int32)
    i, (m, n) = tid(b), f.params
    (row,) = branch(b, b.lt(i, n), lambda: (b.view(m, [b.add(i, 1)]),), lambda: (b.view(m, [b.index(0)]),))
    b.store(row, [i], b.constant(-1.0, float32))
    b.yield_()
    before, after = _lowered(f)
    (chosen,) = [o for o in after.body.walk() if isinstance(o, ops.If)]
    assert [r.type for r in chosen.results] == [
        int64
    ]  # one candidate, the rows of m: no number, no branch at the store
    assert_same(before, after, [_numbers(4, 4), 2], (3,))


def test_one_array_on_both_sides_needs_no_number() -> None:
    f, b = start(c=bool_, x=X)
    c, x = f.params
    (same,) = branch(b, c, lambda: (x,), lambda: (x,))
    b.store(same, [tid(b)], b.constant(1.0, float32))
    b.yield_()
    _, after = _lowered(f)
    (chosen,) = [o for o in after.body.walk() if isinstance(o, ops.If)]
    assert chosen.results == ()


def test_what_is_only_passed_on_is_not_chosen() -> None:
    f, b = start(c=bool_, x=X2, n=int32)
    c, x, n = f.params
    row = b.view(x, [tid(b)])
    with loop(b, 0, n, init=[row]) as body:
        (inner,) = branch(b, c, lambda: (body.carried[0],), lambda: (body.carried[0],))
        kept, _ = while_(b, [inner, body.i], lambda a, m: b.lt(m, 4), lambda a, m: (a, b.add(m, 1)))
        b.store(kept, [body.i], b.constant(2.0, float32))
        body.next = (kept,)
    b.store(body.results[0], [b.index(0)], b.constant(1.0, float32))
    b.yield_()
    before, after = _lowered(f)
    stores = [o for o in after.body.walk() if isinstance(o, ops.Store)]
    assert [o.array for o in stores] == [row, row]
    assert_same(before, after, [True, _numbers(3, 3), 2], (3,))


def test_what_every_side_reads_is_one_array() -> None:
    f, b = start(c=bool_, x=X2, y=X2, n=int32)
    c, x, y, n = f.params

    def row(of: Value) -> tuple[Value, ...]:
        return (b.view(of, [b.cast(b.add(tid(b), 1), int64)]),)

    (here,) = row(x)
    (same,) = branch(b, c, lambda: branch(b, b.lt(n, 2), lambda: row(x), lambda: row(x)), lambda: row(x))
    (other,) = branch(b, c, lambda: row(x), lambda: row(y))
    with loop(b, 0, n, init=[here, other]) as body:
        b.store(body.carried[0], [body.i], b.constant(2.0, float32))
        b.store(body.carried[1], [body.i], b.constant(3.0, float32))
        body.next = (*row(x), body.carried[1])
    b.store(same, [b.index(0)], b.constant(1.0, float32))
    b.yield_()
    before, after = _lowered(f)
    (chosen,) = [o for o in after.body.walk() if isinstance(o, ops.If) and o.results]
    assert [r.type for r in chosen.results] == [int32, int64, int64]
    for c in (False, True):
        for n in range(4):
            assert_same(before, after, [c, _numbers(4, 4), _numbers(4, 4), n], (3,))


def test_arrays_made_on_both_sides_are_two() -> None:
    f, b = start(c=bool_)

    def make() -> tuple[Value, ...]:
        return (b.insert(ops.LocalArray((3,)), X).result,)

    branch(b, f.params[0], make, make)
    b.store(*branch(b, f.params[0], make, make), [tid(b)], b.constant(1.0, float32))
    b.yield_()
    with pytest.raises(WarpCodegenTypeError, match="made inside of a branch or loop"):
        lower_array_selects(f)


def test_three_candidates_and_a_loop_on_a_condition() -> None:
    f, b = start(x=X, y=X, z=X, k=int32)
    i, (x, y, z, k) = tid(b), f.params
    two = branch(b, b.lt(k, 1), lambda: (x,), lambda: (y,))
    three = branch(b, b.lt(k, 2), lambda: two, lambda: (z,))
    array, _ = while_(b, [*three, k], lambda a, m: b.lt(m, 4), lambda a, m: (a, b.add(m, 1)))
    b.atomic("add", array, [i], b.cast(b.dim(array, 0), float32))
    b.yield_()
    before, after = _lowered(f)
    assert count(after, ops.Atomic) == 3
    for k in range(3):
        assert_same(before, after, [_numbers(3), _numbers(4), _numbers(5), k], (3,))


def test_an_array_made_inside_is_refused_after_it() -> None:
    f, b = start(c=bool_, x=X)
    c, x = f.params
    (own,) = branch(b, c, lambda: (b.insert(ops.LocalArray((3,)), X).result,), lambda: (x,))
    b.store(own, [tid(b)], b.constant(1.0, float32))
    b.yield_()
    with pytest.raises(WarpCodegenTypeError, match="made inside of a branch or loop"):
        lower_array_selects(f)
