"""How values change from lane to lane, and which loops take back what others saved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, float32, int8, int32, int64, uint8
from warp_like.passes.spmd.stacks import find_stacks
from warp_like.passes.spmd.strides import find_strides

N = Array(int32, 1)
Build = Callable[[Emitter, Value, Value, Value], Value]
"""A value made of the thread's index, a parameter, and an array."""


def _of_branch(same: bool) -> Build:
    def build(b: Emitter, i: Value, n: Value, _: Value) -> Value:
        cond = b.lt(n, 3) if same else b.lt(i, 3)
        return branch(b, cond, lambda: (b.add(i, 1),), lambda: (b.add(i, 5),))[0]

    return build


def _after_loop(b: Emitter, i: Value, n: Value, bound: Value) -> Value:
    with loop(b, 0, bound, init=[i]) as body:
        body.next = (b.add(body.carried[0], 1),)
    return body.results[0]


STRIDES: dict[str, tuple[Build, int | None]] = {
    "a sum": (lambda b, i, n, x: b.add(i, n), 1),
    "a difference": (lambda b, i, n, x: b.sub(n, i), -1),
    "a multiple": (lambda b, i, n, x: b.mul(b.neg(i), 3), -3),
    "a multiple by a parameter": (lambda b, i, n, x: b.mul(i, n), None),
    "a product of what is uniform": (lambda b, i, n, x: b.mul(n, n), 0),
    "a quotient": (lambda b, i, n, x: b.div(i, 2), None),
    "a load at a uniform index": (lambda b, i, n, x: b.load(x, [n]), 0),
    "a load at the thread's index": (lambda b, i, n, x: b.load(x, [i]), None),
    "an old value at a uniform index": (lambda b, i, n, x: b.atomic("add", x, [n], n), None),
    "a choice by a uniform condition": (lambda b, i, n, x: b.select(b.lt(n, 0), i, b.add(i, 2)), 1),
    "a choice by the thread": (lambda b, i, n, x: b.select(b.lt(i, n), i, b.add(i, 2)), None),
    "a uniform branch": (_of_branch(same=True), 1),
    "a branch of some threads": (_of_branch(same=False), None),
    "a loop of as many rounds for all": (lambda b, i, n, x: _after_loop(b, i, n, n), 1),
    "a loop that lanes leave at different times": (lambda b, i, n, x: _after_loop(b, i, n, i), None),
    "a multiple that wraps": (lambda b, i, n, x: b.cast(b.mul(i, 255), uint8), -1),
    "a wider cast of what may wrap": (lambda b, i, n, x: b.cast(b.cast(i, int8), int64), None),
    "a wider cast of the index": (lambda b, i, n, x: b.cast(i, int64), 1),
    "a float of the index": (lambda b, i, n, x: b.cast(i, float32), None),
}


@pytest.mark.parametrize(("build", "stride"), STRIDES.values(), ids=STRIDES)
def test_strides(build: Build, stride: int | None) -> None:
    f, b = start(x=N, n=int32)
    value = build(b, tid(b), f.params[1], f.params[0])
    b.yield_()
    assert find_strides(f)[value] == stride


def test_along_another_axis_the_other_index_changes() -> None:
    f, b = start(x=N)
    i, j = tid(b, 0, 2), tid(b, 1, 2)
    b.yield_()
    assert [find_strides(f)[v] for v in (i, j)] == [0, 1]
    assert [find_strides(f, axis=-2)[v] for v in (i, j)] == [1, 0]


def test_what_is_taken_back_has_the_stride_of_what_was_saved() -> None:
    f, b = start(n=int32)
    i, n = tid(b), f.params[0]
    for slot, v in enumerate((i, n)):
        b.insert(ops.Push(slot, v))
    b.insert(ops.Push(2, i))
    b.insert(ops.Push(2, n))
    popped = [b.insert(ops.Pop(slot), int32).result for slot in (2, 2, 1, 0)]
    b.yield_()
    strides = find_strides(f)
    assert [strides[v] for v in popped] == [None, None, 0, 1]


def _saving(mirrored: bool) -> Function:
    f, b = start(x=N, n=int32)
    i, n = tid(b), f.params[1]
    with loop(b, 0, i):
        b.insert(ops.Push(0, n))
    if mirrored:
        with loop(b, 0, i):
            b.insert(ops.Pop(0), int32)
    else:
        while_(b, [i], lambda k: b.gt(k, 0), lambda k: (b.sub(k, b.insert(ops.Pop(0), int32).result),))
    b.yield_()
    return f


def test_a_loop_that_takes_back_is_reverse_aligned() -> None:
    f = _saving(mirrored=True)
    first, second = [o for o in f.body.ops if isinstance(o, ops.For)]
    stacks = find_stacks(f)
    assert stacks.reverse_aligned == {second}
    assert stacks.mirrored
    assert first not in stacks.reverse_aligned


def test_a_loop_of_another_kind_does_not_mirror() -> None:
    assert not find_stacks(_saving(mirrored=False)).mirrored


def test_without_a_stack_nothing_is_reverse_aligned() -> None:
    f, b = start(n=int32)
    with loop(b, 0, f.params[0]):
        pass
    b.yield_()
    stacks = find_stacks(f)
    assert stacks.reverse_aligned == frozenset()
    assert stacks.mirrored
