"""Atomics on a thread's own arrays are loads and stores; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, count, start, tid
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, int32
from warp_like.passes.local_arrays import lower_exclusive_atomics, lower_local_atomics

N = Array(int32, 1)


@pytest.mark.parametrize("kind", ["add", "sub", "min", "max", "and", "or", "xor", "exch", "cas"])
@pytest.mark.parametrize("view", [False, True])
def test_each_kind_gives_the_old_value_and_leaves_the_new_one(kind: str, view: bool) -> None:
    f, b = start(x=N, old=N)
    i, (x, old) = tid(b), f.params
    own = b.insert(ops.LocalArray((1, 3) if view else (3,)), Array(int32, 2) if view else N).result
    own = b.view(own, [b.index(0)]) if view else own
    b.store(own, [i], b.constant(6, int32))
    value = b.load(x, [i])
    if kind == "cas":
        found = b.insert(ops.AtomicCas(own, (i,), b.constant(6, int32), value), int32).result
    else:
        found = b.atomic(kind, own, [i], value)
    b.store(old, [i], found)
    b.store(x, [i], b.load(own, [i]))
    b.yield_()
    before = clone_function(f)
    lower_local_atomics(f)
    assert count(f, ops.Atomic, ops.AtomicCas) == 0
    assert_same(before, f, [np.array([3, 6, 9], np.int32), np.zeros(3, np.int32)], (3,))


def test_arrays_that_others_see_keep_their_atomics() -> None:
    f, b = start(x=N)
    i, (x,) = tid(b), f.params
    shared = b.insert(ops.LocalArray((3,), shared=True), N).result
    b.insert(ops.LocalArray((3,)), N)
    for array in (x, shared):
        b.atomic("add", array, [i], b.constant(1, int32))
    b.yield_()
    text = print_function(f)
    assert print_function(lower_local_atomics(f)) == text


def test_the_caller_says_which_arrays_are_the_threads_own() -> None:
    f, b = start(x=N, y=N)
    i, (x, y) = tid(b), f.params
    for array in (x, y):
        b.atomic("max", array, [i], b.constant(1, int32))
    b.yield_()

    def is_x(array: Value) -> bool:
        return array is x

    lower_exclusive_atomics(f, is_x)
    (left,) = [o for o in f.body.walk() if isinstance(o, ops.Atomic)]
    assert left.array is y
