"""Threads in the order of an object's items do what they did, each once; ``tests/runtime/geometry`` launches them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter import run
from tests.ir_builder import start, tid
from tests.passes.examples import _of_points
from warp_like.base.contract import ObjectKind
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.objects import DESCRIPTORS, mark_of
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Vec, float32, uint64
from warp_like.ir.verify import verify
from warp_like.passes.object_order import in_object_order, ordering

N = 5


def descriptor(ids: np.ndarray) -> np.ndarray:
    """The words of a hash grid with these points; their memory must outlive its use."""
    words = dict.fromkeys(DESCRIPTORS[ObjectKind.HASH_GRID], 0)
    words |= {"mark": mark_of(ObjectKind.HASH_GRID), "ids": ids.ctypes.data, "count": len(ids)}
    return np.array([*words.values()], np.uint64)


def in_order() -> tuple[Function, Function]:
    f = _of_points()
    grid = ordering(f)
    assert grid is f.params[0]
    g = clone_function(f)
    in_object_order(g, g.params[0])
    verify(g)
    return f, g


@pytest.mark.parametrize("count", [N, N - 1, N + 3])
def test_every_thread_runs_once(count: int) -> None:
    """In the order of the points where there are as many as threads, else in their own."""
    ids = np.random.default_rng(1).permutation(count).astype(np.int32)
    words = descriptor(ids)
    x = np.arange(3.0 * N, dtype=np.float32).reshape(N, 3)
    for f in in_order():
        out = np.full(N, np.nan, np.float32)
        run(f, [words.ctypes.data, x, out], (N,))
        np.testing.assert_array_equal(out, x[:, 0] * count)


def test_the_order_is_that_of_the_points() -> None:
    """A list that names one point twice shows it: the other one's thread never runs."""
    ids = np.array([1, 1, 2, 3, 4], np.int32)
    words, x = descriptor(ids), np.ones((N, 3), np.float32)
    out = np.zeros(N, np.float32)
    run(in_order()[1], [words.ctypes.data, x, out], (N,))
    np.testing.assert_array_equal(out, [0, N, N, N, N])


def test_a_kernel_that_asks_no_object_has_no_order() -> None:
    f, b = start(grid=uint64, x=Array(Vec(3, float32), 1), out=Array(float32, 1))
    (_, x, out), i = f.params, tid(b)
    b.store(out, [i], b.extract(b.load(x, [i]), b.index(0)))
    b.yield_()
    f.tid_ndim = 1
    assert ordering(f) is None


@pytest.mark.parametrize("how", ["elsewhere", "neighbour", "by_sums"])
def test_threads_that_others_may_see_stay_in_order(how: str) -> None:
    f = _of_points()
    (store,) = [o for o in f.body.ops if isinstance(o, ops.Store)]
    place = f.body.ops.index(store)
    _, b = start()
    i = store.indices[0]
    with b.into(f.body):
        f.body.ops[place:] = []
        if how == "elsewhere":
            b.store(store.array, [b.constant(0, i.type)], store.value)
        elif how == "neighbour":
            b.store(store.array, [i], b.add(store.value, b.load(store.array, [b.add(i, 1)])))
        else:
            b.insert(ops.Atomic("add", store.array, (b.constant(0, i.type),), store.value), float32)
        b.yield_()
    assert ordering(f) is None
