"""The results of atomics that a launch keeps: which they are, and that the adjoint's side loads the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid
from warp_like.analysis.memory import analyse
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32, int32
from warp_like.ir.verify import verify
from warp_like.passes.ad.saved_results import count_rows, load_results, savable_results, save_results
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce

X, N = Array(float32, 1), Array(int32, 1)
Build = Callable[[Emitter, Function, Value], None]


def _kernel(build: Build) -> Function:
    f, b = start(n=N, x=X, out=X)
    build(b, f, tid(b))
    b.yield_()
    return f


def _next(b: Emitter, f: Function) -> Value:
    return b.atomic("add", f.params[0], [b.index(0)], b.constant(1, int32))


def _pack(b: Emitter, f: Function, i: Value) -> None:
    _, x, out = f.params
    b.store(out, [_next(b, f)], b.load(x, [i]))


def _pack_some(b: Emitter, f: Function, i: Value) -> None:
    branch(b, b.gt(b.load(f.params[1], [i]), 2.0), lambda: (_pack(b, f, i), ())[1])
    _pack(b, f, i)


def _in_loop(b: Emitter, f: Function, i: Value) -> None:
    with loop(b, 0, i):
        _pack(b, f, i)


def _unused(b: Emitter, f: Function, i: Value) -> None:
    _next(b, f)


def _of_floats(b: Emitter, f: Function, i: Value) -> None:
    b.store(f.params[2], [i], b.atomic("add", f.params[1], [b.index(0)], b.constant(1.0, float32)))


def _own_element(b: Emitter, f: Function, i: Value) -> None:
    b.store(f.params[2], [b.atomic("add", f.params[0], [i], b.constant(1, int32))], b.zero(float32))


@pytest.mark.parametrize(
    ("build", "rows"),
    [(_pack, 1), (_pack_some, 2), (_in_loop, 0), (_unused, 0), (_of_floats, 0), (_own_element, 0)],
)
def test_rows_are_for_integers_that_are_used_and_found_once(build: Build, rows: int) -> None:
    f = _kernel(build)
    assert len(savable_results(analyse(f))) == rows
    assert count_rows(save_results(f)) == rows


@pytest.mark.parametrize("grid", [(3,), (1, 3)])
def test_the_second_run_uses_what_the_first_one_kept(grid: tuple[int, ...]) -> None:
    f = _kernel(_pack_some)
    keeping, loading = save_results(clone_function(f)), load_results(clone_function(f))
    verify(keeping)
    verify(loading)
    x, kept = np.array([1.0, 3.0, 5.0], np.float32), np.zeros((2, 3), np.int64)
    plain, first, second = (np.zeros(5, np.float32) for _ in range(3))
    run(f, [np.zeros(1, np.int32), x, plain], grid)
    run(keeping, [np.zeros(1, np.int32), x, first, kept], grid)
    run(loading, [np.array([40], np.int32), x, second, kept], grid)  # what the counter holds now does not matter
    np.testing.assert_array_equal(first, plain)
    np.testing.assert_array_equal(second, plain)


def test_nothing_of_the_adjoints_side_uses_the_atomics() -> None:
    f = dce(cse(load_results(_kernel(_pack))))
    used = {v for o in f.body.walk() for v in o.operands()}
    assert not [o for o in f.body.walk() if isinstance(o, ops.Atomic) and o.result in used]
