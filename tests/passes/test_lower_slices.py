"""Accesses of slices go to the array that was sliced."""

from __future__ import annotations

import numpy as np

from tests.ir_builder import assert_same, count, start, tid
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Struct, float32, int64
from warp_like.ir.verify import verify
from warp_like.passes.dce import dce
from warp_like.passes.lower_slices import lower_slices
from warp_like.passes.stages import NO_SLICES

X, X2 = Array(float32, 1), Array(float32, 2)
POINT = Struct("Point", (("a", float32), ("b", float32)))


def _slice(b: Emitter, array: Value, *spans: tuple[int, int, int] | int) -> Value:
    """``array`` from each start, so many elements, by a step; an int drops its dimension."""
    kept = tuple(axis for axis, span in enumerate(spans) if not isinstance(span, int))
    whole = [span if isinstance(span, tuple) else (span, 0, 0) for span in spans]
    starts, counts, steps = ([b.constant(span[k], int64) for span in whole] for k in range(3))
    return b.slice(array, starts, [counts[k] for k in kept], [steps[k] for k in kept], kept)


def _lowered(f: Function) -> tuple[Function, Function]:
    before = clone_function(f)
    lower_slices(f)
    verify(f, [NO_SLICES])
    return before, f


def test_without_slices_nothing_changes() -> None:
    f, b = start(m=X2)
    i = tid(b)
    b.store(b.view(f.params[0], [i]), [i], b.constant(1.0, float32))
    b.yield_()
    text, inside = print_function(f), f.body.ops
    lower_slices(f)
    assert print_function(f) == text
    assert f.body.ops is inside


def test_whole_dimensions_cost_no_arithmetic() -> None:
    f, b = start(m=X2)
    i = tid(b)
    column = _slice(b, f.params[0], (0, 3, 1), 2)
    b.store(column, [i], b.constant(7.0, float32))
    b.yield_()
    before, after = _lowered(f)
    assert count(dce(after), ops.Apply, ops.Cast, ops.Slice) == 0
    assert_same(before, after, [np.zeros((3, 4), np.float32)], (3,))


def test_slices_of_slices_and_of_views() -> None:
    f, b = start(x=Array(float32, 3))
    i = tid(b)
    page = b.view(f.params[0], [b.index(1)])
    inner = _slice(b, _slice(b, page, (1, 4, 1), (5, 3, -2)), (1, 3, 1), (0, 2, 2))
    b.store(b.view(inner, [i]), [b.index(1)], b.add(b.load(inner, [i, b.index(0)]), 100.0))
    b.atomic("add", inner, [i, b.index(0)], b.constant(1.0, float32))
    b.yield_()
    before, after = _lowered(f)
    assert all(
        o.array is after.params[0] for o in after.body.walk() if isinstance(o, (ops.Load, ops.Store, ops.Atomic))
    )
    assert_same(before, after, [np.arange(60, dtype=np.float32).reshape(2, 5, 6)], (3,))


def test_views_by_a_field_stay() -> None:
    f, b = start(p=Array(POINT, 1))
    i = tid(b)
    field = b.field_view(f.params[0], 1)
    b.store(_slice(b, field, (1, 2, 1)), [i], b.constant(3.0, float32))
    b.yield_()
    _, after = _lowered(f)
    (store,) = [o for o in after.body.walk() if isinstance(o, ops.Store)]
    assert store.array is field


def test_extents_are_those_of_the_slice() -> None:
    f, b = start(x=X)
    part = _slice(b, f.params[0], (1, 2, 2))
    b.store(part, [b.index(1)], b.cast(b.dim(part, 0), float32))
    b.yield_()
    before, after = _lowered(f)
    assert_same(before, after, [np.zeros(5, np.float32)], (1,))
