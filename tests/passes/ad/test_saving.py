"""Saving what is overwritten: which arrays get pre-launch copies, and what the adjoint gives by the interpreter."""

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
from warp_like.ir.types import Array, float32, int32
from warp_like.ir.verify import verify
from warp_like.passes.ad.adjoint import differentiate, merge_parameters, plan_adjoint
from warp_like.passes.ad.markers import first_not_recomputable
from warp_like.passes.ad.primal import rewritten_arrays
from warp_like.passes.pipeline import optimise

X = Array(float32, 1)
Update = Callable[[Emitter, Function, Value, Value], None]


def _kernel(build: Callable[[Emitter, Function, Value], None]) -> Function:
    f, b = start(x=X, y=X, n=int32)
    build(b, f, tid(b))
    b.yield_()
    return f


def _square(b: Emitter, x: Value, i: Value) -> None:
    v = b.load(x, [i])
    b.store(x, [i], b.mul(v, v))


def _looped(b: Emitter, f: Function, i: Value) -> None:
    with loop(b, 0, f.params[2]):
        _square(b, f.params[0], i)


def _branched(b: Emitter, f: Function, i: Value) -> None:
    x, _, n = f.params
    branch(b, b.lt(i, n), lambda: (_square(b, x, i), ())[1])
    _square(b, x, i)


def test_arrays_that_are_loaded_and_stored_get_copies() -> None:
    def build(b: Emitter, f: Function, i: Value) -> None:
        _square(b, f.params[0], i)
        b.store(f.params[1], [i], b.zero(float32))

    assert rewritten_arrays(analyse(_kernel(build))) == [0]


@pytest.mark.parametrize("kind", ["load", "store", "atomic", "load and atomic"])
def test_other_arrays_get_none(kind: str) -> None:
    def build(b: Emitter, f: Function, i: Value) -> None:
        x, y, _ = f.params
        if "load" in kind:
            b.store(y, [i], b.load(x, [i]))
        if "store" in kind:
            b.store(x, [i], b.zero(float32))
        if "atomic" in kind:
            b.atomic("add", x, [i], b.constant(1.0, float32))

    assert rewritten_arrays(analyse(_kernel(build))) == []


@pytest.mark.parametrize(
    ("build", "powers"), [(_looped, lambda i, n: 2.0**n), (_branched, lambda i, n: 4.0 if i < n else 2.0)]
)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_each_overwritten_value_is_taken_back(build: Update, powers: Callable[[int, int], float], n: int) -> None:
    f = _kernel(build)
    assert plan_adjoint(f, [0]).saves  # recomputing alone can't do it
    g = differentiate(f, [0])
    verify(g)
    assert g.prelaunch_copies == (0,)
    assert first_not_recomputable(optimise(g)) is None
    start_values = np.array([1.0, 1.25, 0.5], np.float32)
    after, seed, old = start_values.copy(), np.ones(3, np.float32), start_values.copy()
    run(f, [after, np.zeros(3, np.float32), n], (3,))
    run(g, [after, np.zeros(3, np.float32), n, seed, old], (3,))
    p = np.array([powers(i, n) for i in range(3)])
    np.testing.assert_allclose(seed, p * start_values ** (p - 1), rtol=1e-5)


@pytest.mark.parametrize("needed", [False, True])
def test_copies_that_nothing_reads_go(needed: bool) -> None:
    def build(b: Emitter, f: Function, i: Value) -> None:
        x, y, _ = f.params
        v = b.load(y, [i])
        b.atomic("add", x, [i], b.mul(v, v) if needed else b.mul(v, 2.0))
        b.store(y, [i], b.zero(float32))

    f = _kernel(build)
    g = optimise(differentiate(f, [0, 1]))
    verify(g)
    assert g.prelaunch_copies == ((1,) if needed else ())
    assert [p.hint for p in g.params] == ["x", "y", "n", "adj_x", "adj_y", *(["old_y"] if needed else [])]
    old, adjoints = np.array([3.0, 4.0], np.float32), [np.ones(2, np.float32) for _ in "xy"]
    run(g, [np.zeros(2, np.float32), np.zeros(2, np.float32), 0, *adjoints, *([old] if needed else [])], (2,))
    np.testing.assert_array_equal(adjoints[1], [6.0, 8.0] if needed else [2.0, 2.0])


def test_one_array_by_two_names_is_read_by_the_first() -> None:
    f = _kernel(lambda b, f, i: b.store(f.params[1], [i], b.load(f.params[0], [i])))
    assert rewritten_arrays(analyse(f)) == []
    merge_parameters(f, [(1, 0)])
    assert rewritten_arrays(analyse(f)) == [0]
    assert all(o.array is f.params[0] for o in f.body.ops if isinstance(o, (ops.Load, ops.Store)))
