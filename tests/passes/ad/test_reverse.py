"""The reverse-mode transform alone: what it saves, what it asks of memory, and what it can't recompute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.interpreter import run
from tests.ir_builder import branch, count, loop, start, tid
from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, float32, int32
from warp_like.ir.verify import verify
from warp_like.passes.ad.adjoint import differentiate, plan_adjoint
from warp_like.passes.ad.functions import lower_replayed
from warp_like.passes.ad.markers import Replayed, first_not_recomputable, require_recomputable
from warp_like.passes.ad.plan import Refuse
from warp_like.passes.pipeline import optimise

X = Array(float32, 1)
Build = Callable[[Emitter, Value, Value, Value, Value], None]


def _kernel(build: Build) -> Function:
    f, b = start(x=X, y=X, n=int32)
    build(b, tid(b), *f.params)
    b.yield_()
    return f


def _gradient(f: Function, n: int = 3) -> np.ndarray:
    """The gradient of the sum of ``y`` by ``x``, and ``x``."""
    g = optimise(differentiate(f, [0, 1]))
    verify(g)
    require_recomputable(g)
    x = np.array([0.5, 1.5, 2.5], np.float32)
    y, adj_x, adj_y = np.zeros(3, np.float32), np.zeros(3, np.float32), np.ones(3, np.float32)
    run(f, [x, y, n], (3,))
    run(g, [x, y, n, adj_x, adj_y], (3,))
    return adj_x


def _power(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
    with loop(b, 0, n, init=[b.load(x, [i])]) as body:
        body.next = (b.mul(body.carried[0], body.carried[0]),)
    b.store(y, [i], body.results[0])


def _sum(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
    with loop(b, 0, n, init=[b.zero(float32)]) as body:
        body.next = (b.add(body.carried[0], b.load(x, [body.i])),)
    b.store(y, [i], body.results[0])


def _piecewise(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
    v = b.load(x, [i])
    (r,) = branch(b, b.lt(v, 1.0), lambda: (b.mul(v, 3.0),), lambda: (b.mul(v, v),))
    b.store(y, [i], r)


def _overwritten(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
    b.store(y, [i], b.load(x, [i]))
    b.store(y, [i], b.mul(b.load(x, [i]), 5.0))  # the first store has no influence


def test_a_loop_saves_what_its_reverse_needs() -> None:
    f = _kernel(_power)
    g = optimise(differentiate(f, [0, 1]))
    assert count(g, ops.Push) == count(g, ops.Pop) == 1
    x = np.array([0.5, 1.5, 2.5])
    np.testing.assert_allclose(_gradient(f, 2), 4 * x**3, rtol=1e-6)


def test_a_sum_saves_nothing_once_dead_code_is_gone() -> None:
    f = _kernel(_sum)
    plain = differentiate(f, [0, 1])
    assert count(plain, ops.Push) == 1
    assert count(optimise(plain), ops.Push, ops.Pop) == 0
    np.testing.assert_array_equal(_gradient(f, 2), [3, 3, 0])


def test_branches_are_taken_again() -> None:
    np.testing.assert_allclose(_gradient(_kernel(_piecewise)), [3, 3, 5])


def test_a_store_takes_the_adjoint_and_leaves_zero() -> None:
    np.testing.assert_array_equal(_gradient(_kernel(_overwritten)), [5, 5, 5])


def test_elements_that_threads_share_are_taken_in_one_step() -> None:
    own = differentiate(_kernel(_overwritten), [0, 1])
    shared = differentiate(_kernel(lambda b, i, x, y, n: b.store(y, [b.index(0)], b.load(x, [i]))), [0, 1])
    kinds = [[o.kind for o in g.body.walk() if isinstance(o, ops.Atomic)] for g in (own, shared)]
    assert "take" not in kinds[0]
    assert kinds[1].count("take") == 1


def test_integers_and_arrays_without_a_gradient_cost_nothing() -> None:
    g = optimise(differentiate(_kernel(lambda b, i, x, y, n: b.store(y, [i], b.load(x, [n]))), [0]))
    assert [o for o in g.body.ops if not isinstance(o, ops.Yield)] == []


def _reads_what_it_wrote(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
    b.store(x, [i], b.sin(b.load(x, [i])))


def _sums_what_it_wrote(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
    b.store(x, [i], b.mul(b.load(x, [i]), 2.0))


@pytest.mark.parametrize(("build", "available"), [(_reads_what_it_wrote, False), (_sums_what_it_wrote, True)])
def test_what_is_overwritten_is_missed_only_where_its_value_is_needed(build: Build, available: bool) -> None:
    f = _kernel(build)
    plan = plan_adjoint(f, [0])
    assert plan.saves == (not available)
    plain = differentiate(f, [0])
    assert (first_not_recomputable(plain) is None) == plan.saves  # what is not needed goes with the dead code
    require_recomputable(optimise(plain))


def test_what_threads_update_and_the_reverse_needs_is_refused() -> None:
    def build(b: Emitter, i: Value, x: Value, y: Value, n: Value) -> None:
        b.atomic("add", y, [n], b.load(x, [i]))
        b.store(x, [i], b.mul(b.load(x, [i]), b.load(y, [i])))

    f = _kernel(build)
    assert any(isinstance(d, Refuse) for d in plan_adjoint(f, [0]).decisions.values())
    with pytest.raises(WarpCodegenError, match="the gradient needs this element of `y`"):
        differentiate(f, [0])


@pytest.mark.parametrize("made", [ops.Barrier(), ops.LocalArray((2,), shared=True)], ids=["barrier", "shared array"])
def test_memory_that_threads_share_is_refused(made: ops.Barrier | ops.LocalArray) -> None:
    f = _kernel(lambda b, *_: b.insert(made, *([X] if made.NAME == "local" else [])))
    with pytest.raises(WarpCodegenError, match="has no gradient"):
        differentiate(f, [0])


def _calling(gradient: bool, replay: bool) -> Function:
    def function(name: str) -> Function:
        f, b = start(name, "func", (float32,), v=float32)
        b.yield_(b.neg(f.params[0]))
        return f

    callee = function("callee")
    callee.gradient, callee.replay = function("gradient") if gradient else None, function("again") if replay else None
    f, b = start(x=X)
    i = tid(b)
    b.store(f.params[0], [i], b.insert(ops.Call(callee, (b.load(f.params[0], [i]),)), float32).result)
    b.yield_()
    return f


@pytest.mark.parametrize(("gradient", "replay"), [(True, False), (True, True), (False, True)])
def test_only_functions_with_a_replay_alone_are_lowered(gradient: bool, replay: bool) -> None:
    f = lower_replayed(_calling(gradient, replay))
    called = [o.callee.name for o in f.body.walk() if isinstance(o, ops.Call)]
    assert called == (["callee"] if gradient else ["again"])
    assert count(f, Replayed) == (0 if gradient else 1)
