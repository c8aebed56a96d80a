"""Where the threads of a block have to meet, and what is left where a block is one thread."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter import run
from tests.ir_builder import branch, count, loop, start, tid
from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Array, float32, int32
from warp_like.passes.blocks import (
    MAX_SHARED_BYTES,
    in_single_threads,
    relies_on_no_overlap,
    require_together,
    works_together,
)

X = Array(float32, 1)


def _start() -> tuple[Function, Emitter]:
    return start(x=X, n=int32)


def test_threads_alone_need_nothing() -> None:
    f, b = _start()
    b.store(f.params[0], [tid(b)], b.constant(1.0, float32))
    b.yield_()
    inside = f.body.ops
    assert not works_together(f)
    require_together(f)
    assert in_single_threads(f).body.ops is inside


def test_a_barrier_where_all_come_by_is_right() -> None:
    f, b = _start()
    with loop(b, 0, f.params[1]):
        b.insert(ops.Barrier())
    branch(b, b.lt(f.params[1], 3), lambda: (b.insert(ops.Barrier()), ())[1])
    b.yield_()
    assert works_together(f)
    require_together(f)


def test_a_barrier_in_a_branch_of_some_threads_is_refused() -> None:
    f, b = _start()
    branch(b, b.lt(tid(b), f.params[1]), lambda: (b.insert(ops.Barrier()), ())[1])
    b.yield_()
    with pytest.raises(WarpCodegenError, match=r"have to reach block_sync\(\) together, but the condition"):
        require_together(f)


def test_a_sum_in_a_loop_that_ends_earlier_for_some_is_refused() -> None:
    f, b = _start()
    i, x = tid(b), f.params[0]
    with loop(b, 0, i):
        b.store(x, [i], b.block_sum(b.load(x, [i])))
    b.yield_()
    with pytest.raises(WarpCodegenError, match="the loop may end earlier"):
        require_together(f)


def test_a_bound_that_another_argument_might_overlap_is_for_the_launch_to_check() -> None:
    for bound, relies in (("element", True), ("number", False)):
        f, b = start(x=X, rounds=Array(int32, 1), n=int32)
        x, rounds, n = f.params
        with loop(b, 0, b.load(rounds, [b.index(0)]) if bound == "element" else n):
            b.insert(ops.Barrier())
        b.store(x, [tid(b)], b.constant(1.0, float32))
        b.yield_()
        require_together(f)
        assert relies_on_no_overlap(f) is relies
    f, b = _start()
    b.yield_()
    assert not relies_on_no_overlap(f)


def test_shared_arrays_have_a_most() -> None:
    f, b = _start()
    b.insert(ops.LocalArray((MAX_SHARED_BYTES // 4 + 4,), shared=True), X)
    b.yield_()
    with pytest.raises(WarpCodegenError, match="bytes here"):
        require_together(f)


def test_one_thread_has_no_barriers_and_sums_to_itself() -> None:
    f, b = _start()
    i, x = tid(b), f.params[0]
    common = b.insert(ops.LocalArray((2,), shared=True), X).result
    b.store(common, [b.index(0)], b.load(x, [i]))
    b.insert(ops.Barrier())
    b.store(x, [i], b.add(b.block_sum(b.load(common, [b.index(0)])), 1.0))
    b.yield_()
    in_single_threads(f)
    assert not works_together(f)
    assert count(f, ops.Barrier) == 0
    got = np.arange(3, dtype=np.float32)
    run(f, [got, 0], (3,))
    np.testing.assert_array_equal(got, [1, 2, 3])
