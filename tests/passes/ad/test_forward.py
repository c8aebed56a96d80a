"""Forward mode: against reverse mode (``<c, J t> = <J' c, t>``), central differences, and itself over reverse
mode."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.builtins.calls import Case, cases, empty, smooth
from tests.builtins.calls import kernel as call_kernel
from tests.gradients import _bind as bind
from tests.interpreter import run
from tests.ir_builder import count, loop, start, tid
from tests.long_tail import crossed, examples, more
from tests.passes.ad.test_kernel_gradients import CASES
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Array, float64, int32, is_differentiable
from warp_like.ir.verify import verify
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.forward import forward_mode, tangent
from warp_like.passes.pipeline import Options, prepare

f64 = wp.float64
CHECKED = Options(verify=True)
ATOMIC_WINNERS = {"atomic max"}  # forward mode refuses them


def random_like(a: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=np.shape(a))


# --- every builtin ------------------------------------------------------------------------------------------


def table() -> list[Case]:
    return [c for c in cases(float64) if is_differentiable(c.result) and not c.row.name.startswith("_")]


@functools.cache
def both_modes(case: Case) -> tuple[Function, Function, list[int]]:
    f = prepare(call_kernel(case))
    wrt = [i for i, p in enumerate(f.params) if is_differentiable(p.type)]
    return forward_mode(f, wrt, CHECKED), adjoint(f, wrt, CHECKED), wrt


def compare_modes(case: Case, args: list[np.ndarray]) -> None:
    forward, reverse, wrt = both_modes(case)
    n = len(args[0])
    primals = [*args, empty(case.result, n)]
    changes = [random_like(primals[i], i) for i in wrt]
    changes[-1][...] = 0
    given = [t.copy() for t in changes]
    run(forward, [*primals, *changes], (n,))

    c = random_like(primals[-1], 99)
    adjoints = [np.zeros_like(primals[i]) for i in wrt[:-1]]
    run(reverse, [*primals, *adjoints, c.copy()], (n,))
    pairs = zip(given[:-1], adjoints, strict=True)
    backwards = sum(((t * a).reshape(n, -1).sum(axis=1) for t, a in pairs), np.zeros(n))
    np.testing.assert_allclose((c * changes[-1]).reshape(n, -1).sum(axis=1), backwards, rtol=1e-10, atol=1e-10)


@more
@pytest.mark.parametrize("case", table(), ids=str)
def test_builtin(case: Case) -> None:
    compare_modes(case, smooth(case, examples(12, few=6)))


@pytest.mark.parametrize("case", table(), ids=str)
def test_builtin_at_edges(case: Case) -> None:
    """At zeros, ones and ties both modes make the same choice."""
    args = []
    for t in case.types:
        a = empty(t, 6)
        values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0]).astype(a.dtype)
        values = np.abs(values) if a.dtype.kind == "i" else values  # axes are in range
        args.append(np.ascontiguousarray(np.broadcast_to(values.reshape(6, *[1] * (a.ndim - 1)), a.shape)))
    compare_modes(case, args)


# --- compiled kernels ---------------------------------------------------------------------------------------


def outputs_like(shape: Any) -> wp.array:
    return wp.zeros(shape, dtype=f64, requires_grad=True)


def tangents_for(inputs: list[Any]) -> list[Any]:
    return [random_like(a, 5 + k) if is_float(a) else None for k, a in enumerate(inputs)]


def is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == np.float64


@pytest.mark.parametrize("name", crossed([n for n in CASES if n not in ATOMIC_WINNERS], every=2))
def test_jvp_agrees_with_reverse_mode(name: str) -> None:
    kernel, dim, inputs, shape = CASES[name]
    tangents = tangents_for(inputs)
    bound = [bind(a, kernel, i) for i, a in enumerate(inputs)]
    plain, out = outputs_like(shape), outputs_like(shape)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=bound, outputs=[plain])
    c = random_like(np.empty(shape), 77)
    tape.backward(grads={plain: wp.array(c, dtype=f64)})

    (dy,) = wp.autograd.jvp(kernel, dim, bound, [out], tangents)
    np.testing.assert_allclose(out.numpy(), plain.numpy(), rtol=1e-14, atol=1e-14)
    forwards = np.sum(c * dy.numpy())
    pairs = [(a.grad.numpy(), t) for a, t in zip(bound, tangents, strict=True) if t is not None]
    backwards = sum(np.sum(g * t) for g, t in pairs)
    assert forwards == pytest.approx(backwards, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ATOMIC_WINNERS])
def test_jvp_agrees_with_central_differences(name: str) -> None:
    kernel, dim, inputs, shape = CASES[name]
    tangents = tangents_for(inputs)
    moved = []
    for h in (1e-6, -1e-6):
        out = np.zeros(shape)
        shifted = [a if t is None else a + h * t for a, t in zip(inputs, tangents, strict=True)]
        wp.launch(kernel, dim=dim, inputs=shifted, outputs=[out])
        moved.append(out)
    expected = (moved[0] - moved[1]) / 2e-6
    copies = [a.copy() if is_float(a) else a for a in inputs]
    (got,) = wp.autograd.jvp(kernel, dim, copies, [np.zeros(shape)], tangents)
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6, atol=2e-6 * scale)


def hessian_times(kernel: Any, dim: Any, inputs: list[Any], shape: Any, tangents: list[Any]) -> list[Any]:
    """Central differences of the gradient of the weighted sum of the outputs."""
    weights = wp.array(random_like(np.empty(shape), 77), dtype=f64)
    moved = []
    for h in (1e-6, -1e-6):
        shifted = [a if t is None else a + h * t for a, t in zip(inputs, tangents, strict=True)]
        bound, out = [bind(a, kernel, i) for i, a in enumerate(shifted)], outputs_like(shape)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=dim, inputs=bound, outputs=[out])
        tape.backward(grads={out: weights})
        moved.append([a.grad.numpy().copy() if is_float(x) else None for a, x in zip(bound, inputs, strict=True)])
    return [None if a is None else (a - b) / 2e-6 for a, b in zip(*moved, strict=True)]


@pytest.mark.parametrize("name", crossed(CASES, every=2))
def test_hvp_agrees_with_differences_of_gradients(name: str) -> None:
    kernel, dim, inputs, shape = CASES[name]
    tangents = tangents_for(inputs)
    expected = hessian_times(kernel, dim, inputs, shape, tangents)
    bound = [bind(a, kernel, i) for i, a in enumerate(inputs)]
    weights = random_like(np.empty(shape), 77)
    out = wp.zeros(shape, dtype=f64)
    got = wp.autograd.hvp(kernel, dim, bound, [out], tangents, [weights])
    for h, e in zip(got, expected, strict=True):
        assert (h is None) == (e is None)
        if e is not None:
            np.testing.assert_allclose(h.numpy(), e, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(e).max(initial=0))))


@wp.kernel
def in_place(y: wp.array(dtype=f64), x: wp.array(dtype=f64), n: int):
    i = wp.tid()
    for j in range(n):
        y[i] = wp.sin(y[i]) * x[j % 3] + y[i] * y[i] * 0.1
    y[i] += x[i]


def test_tangents_of_what_a_kernel_overwrites_are_updated_with_it() -> None:
    y0, x0, ty, tx = (random_like(np.empty(3), k) for k in range(4))

    def after(h: float) -> np.ndarray:
        y = y0 + h * ty
        wp.launch(in_place, dim=3, inputs=[y, x0 + h * tx, 4])
        return y

    y, change = y0.copy(), ty.copy()
    assert wp.autograd.jvp(in_place, 3, [y, x0, 4], [], [change, tx]) == []
    np.testing.assert_array_equal(y, after(0.0))
    np.testing.assert_allclose(change, (after(1e-6) - after(-1e-6)) / 2e-6, rtol=1e-7)


@wp.kernel
def overwriting(start: wp.array(dtype=f64), x: wp.array(dtype=f64), n: int, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = start[i]
    for j in range(n):
        y[i] = wp.sin(y[i]) * x[j % 3] + y[i] * y[i] * 0.1
    y[i] = y[i] + x[i]


def test_hvp_of_a_kernel_that_overwrites_what_it_reads() -> None:
    inputs = [random_like(np.empty(3), 0), random_like(np.empty(3), 1), 4]
    tangents = tangents_for(inputs)
    expected = hessian_times(overwriting, 3, inputs, 3, tangents)
    weights = random_like(np.empty(3), 77)
    got = wp.autograd.hvp(overwriting, 3, inputs, [np.zeros(3)], tangents, [weights])
    for h, e in zip(got[:2], expected[:2], strict=True):
        np.testing.assert_allclose(h.numpy(), e, rtol=1e-6, atol=1e-6)
    assert got[2] is None


# --- arguments ----------------------------------------------------------------------------------------------


@wp.kernel
def scaled(x: wp.array(dtype=f64), a: f64, shift: wp.vec3d, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.exp(a * x[i]) * wp.dot(shift, shift)


def test_numbers_and_vectors_have_tangents() -> None:
    x, v, dv = np.array([0.5, -1.0]), wp.vec3d(1.0, 2.0, 3.0), wp.vec3d(0.0, 1.0, -1.0)
    (dy,) = wp.autograd.jvp(scaled, 2, [x, 0.5, v], [np.zeros(2)], [None, 2.0, dv])
    np.testing.assert_allclose(dy.numpy(), np.exp(0.5 * x) * (2.0 * x * 14.0 + 2.0 * (2.0 - 3.0)), rtol=1e-14)


def test_the_tangents_given_for_outputs_are_filled() -> None:
    @wp.kernel
    def accumulate(x: wp.array(dtype=f64), y: wp.array(dtype=f64), n: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_add(y, 0, x[i] * x[i])
        wp.atomic_sub(y, 1, x[i])
        n[i] = i

    dy = np.array([100.0, 200.0])
    x = np.array([1.0, 2.0, 3.0])
    outputs = [np.zeros(2), np.zeros(3, np.int32)]
    got = wp.autograd.jvp(accumulate, 3, [x], outputs, [np.ones(3)], [dy])
    np.testing.assert_array_equal(dy, [112.0, 197.0])
    assert got[1] is None
    np.testing.assert_array_equal(got[0].numpy(), dy)


def test_an_array_given_twice_has_one_tangent() -> None:
    @wp.kernel
    def shifted(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[i] * y[i]

    x = wp.array([2.0, 3.0], dtype=f64)
    t = wp.array([1.0, 10.0], dtype=f64)
    wp.autograd.jvp(shifted, 2, [x, x], tangents=[None, t])
    np.testing.assert_array_equal(t.numpy(), [4.0, 60.0])
    with pytest.raises(ValueError, match="`x` and `y` are the same array and were given different tangents"):
        wp.autograd.jvp(shifted, 2, [x, x], tangents=[t, wp.zeros(2, dtype=f64)])


def test_arrays_that_overlap_need_tangents_that_do() -> None:
    @wp.kernel
    def follow(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        y[0] = x[0] * x[1]

    a, t = wp.array([2.0, 3.0, 5.0], dtype=f64), wp.array([1.0, 1.0, 1.0], dtype=f64)
    wp.autograd.jvp(follow, 1, [a[:2], a[1:]], tangents=[t[:2], t[1:]])
    np.testing.assert_array_equal(t.numpy(), [1.0, 5.0, 1.0])
    with pytest.raises(RuntimeError, match="share a part of their memory"):
        wp.autograd.jvp(follow, 1, [a[:2], a[1:]], tangents=[t[:2]])


def test_arguments_are_checked() -> None:
    kernel, dim, (x, n), shape = CASES["stateful"]
    out = np.zeros(shape)

    def call(tangents: list[Any], mode: Any = wp.autograd.jvp) -> None:
        mode(kernel, dim, [x, n], [out], tangents)

    with pytest.raises(ValueError, match=r"`tangent of x`: shape \(2,\) for an array of shape \(4,\)"):
        call([np.zeros(2)])
    with pytest.raises(TypeError, match="`tangent of n`: int32 is not made of floats and has no tangent"):
        call([None, 1])
    with pytest.raises(ValueError, match="tangents has 3 entries for 2 arguments"):
        call([None, None, None])
    with pytest.raises(ValueError, match="needs adj_outputs unless there is one output of one element"):
        call([x], wp.autograd.hvp)
    with wp.Tape(), pytest.raises(RuntimeError, match="a tape does not record forward mode"):
        call([x])


def test_a_loss_needs_no_weights_and_tangents_stay_as_they_are() -> None:
    @wp.kernel
    def rosenbrock(x: wp.array(dtype=f64), f: wp.array(dtype=f64)):
        i = wp.tid()
        a = x[i + 1] - x[i] * x[i]
        b = 1.0 - x[i]
        wp.atomic_add(f, 0, 100.0 * a * a + b * b)

    x, v, f = np.array([1.2, 1.2]), np.array([1.0, -2.0]), np.zeros(1)
    (hv,) = wp.autograd.hvp(rosenbrock, 1, [x], [f], [v])
    hessian = np.array([[1200 * 1.2**2 - 400 * 1.2 + 2, -400 * 1.2], [-400 * 1.2, 200.0]])
    np.testing.assert_allclose(hv.numpy(), hessian @ v, rtol=1e-13)
    np.testing.assert_allclose(f, [100 * (1.2 - 1.44) ** 2 + 0.04])
    np.testing.assert_array_equal(v, [1.0, -2.0])


# --- refusals -----------------------------------------------------------------------------------------------


def refusal(kernel: Any, dim: int, *sizes: int) -> str:
    arrays = [np.ones(n) for n in sizes]
    with pytest.raises(wp.WarpCodegenError) as caught:
        wp.autograd.jvp(kernel, dim, arrays, tangents=[np.ones(n) for n in sizes])
    return str(caught.value)


def test_atomics_that_depend_on_the_order_are_refused() -> None:
    @wp.kernel
    def exchange(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        wp.atomic_exch(y, 0, x[wp.tid()])

    @wp.kernel
    def also_stored(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        y[1] = x[0]
        wp.atomic_max(y, 0, x[wp.tid()])

    @wp.kernel
    def looks_first(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        if x[wp.tid()] < y[0]:
            wp.atomic_min(y, 0, x[wp.tid()])

    @wp.kernel
    def knows_the_old_value(x: wp.array(dtype=f64), y: wp.array(dtype=f64), index: wp.array(dtype=int)):
        i = wp.tid()
        if wp.atomic_min(y, 0, x[i]) > x[i]:
            index[0] = i

    assert refusal(exchange, 2, 2, 1).startswith(
        "atomic_exch() on `y` has no tangent: which thread's value stays depends on their order\n  --> "
    )
    assert refusal(exchange, 2, 2, 1).endswith("help: use atomic_add, atomic_min or atomic_max")
    message = refusal(also_stored, 2, 2, 2)
    assert message.startswith(
        "atomic_max() on `y` has no tangent here: the same kernel changes `y` in another way too, which hides whose "
        "value has won\n  --> "
    )
    for kernel in (looks_first, knows_the_old_value):
        rest = [np.zeros(1, np.int32)] if kernel is knows_the_old_value else []
        with pytest.raises(wp.WarpCodegenError) as caught:
            wp.autograd.jvp(kernel, 2, [np.ones(2), np.ones(1), *rest], tangents=[np.ones(2)])
        assert str(caught.value).startswith(
            "atomic_min() on `y` has no tangent here: the same kernel also reads `y`, and what it sees depends on the "
            "order of the threads\n  --> "
        )
        assert str(caught.value).endswith("help: read the array in a second kernel")


# --- minima and maxima ----------------------------------------------------------------------------------------


@wp.kernel
def extremes(
    x: wp.array(dtype=f64),
    p: wp.array(dtype=wp.vec3d),
    low: wp.array(dtype=f64),
    high: wp.array(dtype=wp.vec3d),
    total: wp.array(dtype=f64),
):
    i = wp.tid()
    for k in range(i % 3 + 1):
        wp.atomic_min(low, (i + k) % 4, wp.sin(x[i]) * x[i] + f64(k))
    if x[i] > 0.0:
        wp.atomic_max(high, 0, p[i] * x[i])
    wp.atomic_add(total, 0, x[i] * x[i])
    x[i] = 2.0 * x[i] * x[i]


def extremes_in_numpy(x: np.ndarray, p: np.ndarray, low: np.ndarray, high: np.ndarray, total: np.ndarray) -> Any:
    low, high = low.copy(), high.copy()
    for i, v in enumerate(x):
        for k in range(i % 3 + 1):
            low[(i + k) % 4] = min(low[(i + k) % 4], np.sin(v) * v + k)
        if v > 0:
            high[0] = np.maximum(high[0], p[i] * v)
    return [2 * x * x, p, low, high, total + np.sum(x * x)]


@pytest.mark.parametrize("n", [0, 1, 3, 100])
def test_the_tangent_of_a_minimum_is_that_of_the_winner(n: int) -> None:
    rng = np.random.default_rng(n)
    arrays = [rng.normal(size=s) for s in (n, (n, 3), 4, (1, 3), 1)]
    arrays[2][:2] = -9.0  # wins against every thread
    tangents = [rng.normal(size=a.shape) for a in arrays]
    after = [a.copy() for a in arrays]
    moved = [t.copy() for t in tangents]
    wp.autograd.jvp(extremes, n, after[:2], after[2:], moved[:2], moved[2:])
    for got, wanted in zip(after, extremes_in_numpy(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    ends = [extremes_in_numpy(*(a + h * t for a, t in zip(arrays, tangents, strict=True))) for h in (1e-6, -1e-6)]
    for got, plus, minus in zip(moved, *ends, strict=True):
        np.testing.assert_allclose(got, (plus - minus) / 2e-6, rtol=1e-7, atol=1e-7)


def test_reverse_mode_of_minima_is_the_transpose() -> None:
    """With ties as well: each of the winners adds its tangent, and each of them gets the gradient."""
    rng = np.random.default_rng(5)
    x, p = np.round(rng.normal(size=30), 1), np.round(rng.normal(size=(30, 3)), 1)
    shapes = [4, (1, 3), 1]
    inputs = [wp.array(x, dtype=f64, requires_grad=True), wp.array(p, dtype=wp.vec3d, requires_grad=True)]
    starts = [np.full(shapes[0], 9.0), np.full(shapes[1], -9.0), np.zeros(1)]
    dtypes = [f64, wp.vec3d, f64]
    outputs = [wp.array(s, dtype=t, requires_grad=True) for s, t in zip(starts, dtypes, strict=True)]
    weights = [rng.normal(size=s) for s in shapes]
    tangents = [rng.normal(size=x.shape), rng.normal(size=p.shape)]
    with wp.Tape() as tape:
        wp.launch(extremes, dim=30, inputs=inputs, outputs=outputs)
    tape.backward(grads={o: wp.array(w, dtype=o.dtype) for o, w in zip(outputs, weights, strict=True)})
    backwards = sum(np.sum(a.grad.numpy() * t) for a, t in zip(inputs, tangents, strict=True))
    arguments = [x.copy(), p], [s.copy() for s in starts]
    out_tangents = [np.zeros(s) for s in shapes]
    wp.autograd.jvp(extremes, 30, *arguments, [t.copy() for t in tangents], out_tangents)
    forwards = sum(np.sum(w * t) for w, t in zip(weights, out_tangents, strict=True))
    assert forwards == pytest.approx(backwards, rel=1e-13)


def test_hessian_of_a_minimum() -> None:
    @wp.kernel
    def lowest_cube(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        wp.atomic_min(y, 0, x[i] * x[i] * x[i])

    (product,) = wp.autograd.hvp(
        lowest_cube, 3, [np.array([3.0, 2.0, 5.0])], [np.array([99.0])], [np.array([1.0, 10.0, 100.0])]
    )
    assert product.list() == [0.0, 120.0, 0.0]


def test_minima_of_memory_that_is_shared_are_refused() -> None:
    x = wp.array([3.0, 1.0, 2.0], dtype=f64)

    @wp.kernel
    def lowest_of_two(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        wp.atomic_min(y, 0, x[wp.tid()])

    for y in (x, x[2:]):
        t = wp.zeros(3, dtype=f64)
        with pytest.raises(RuntimeError, match="`lowest_of_two`: `[xy]` and `[xy]` share memory, which atomic_min"):
            wp.autograd.jvp(lowest_of_two, 2, [x, y], tangents=[t, t if y is x else t[2:]])
    assert x.list() == [3.0, 1.0, 2.0]


def test_the_old_value_of_an_atomic_is_refused_only_where_the_tangent_needs_it() -> None:
    @wp.kernel
    def uses_it(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        x[i] = wp.atomic_add(y, 0, x[i])

    @wp.kernel
    def compares_it(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        if wp.atomic_add(y, 0, x[i]) > 1.5:
            x[i] = 2.0 * x[i]

    message = refusal(uses_it, 2, 2, 1)
    assert (
        "the old value that an atomic returns has no tangent: it depends on the order of the threads on `y`" in message
    )
    x, t = np.array([1.0]), np.array([3.0])
    wp.autograd.jvp(compares_it, 1, [x, np.array([2.0])], tangents=[t])
    np.testing.assert_array_equal(t, [6.0])


# --- IR -----------------------------------------------------------------------------------------------------


def test_golden() -> None:
    f, b = start("k", x=Array(float64, 1), n=Array(int32, 1), y=Array(float64, 1))
    x, n, y = f.params
    i = tid(b)
    v = b.load(x, [i])
    with loop(b, 0, 4, init=[v, b.constant(1.0, float64)]) as body:
        s, k = body.carried
        body.next = (b.mul(s, k), b.mul(k, 2.0))
    b.store(y, [b.load(n, [i])], b.sin(body.results[0]))
    b.yield_()
    g = forward_mode(prepare(f, Options(max_unroll=1)), [0, 2], CHECKED)
    (only,) = [o for o in g.body.ops if isinstance(o, ops.For)]
    assert len(only.init) == 3  # the factor does not depend on x: nothing but the product carries a tangent
    assert count(g, ops.Load) == 3
    assert count(g, ops.Store) == 2
    assert [p.hint for p in g.params] == ["x", "n", "y", "tan_x", "tan_y"]


def test_what_is_saved_has_its_tangent_saved() -> None:
    f, b = start("k", x=Array(float64, 1), y=Array(float64, 1))
    x, y = f.params
    n = b.index(5)
    with loop(b, 0, n, init=[b.load(x, [b.index(0)])]) as there:
        (v,) = there.carried
        b.insert(ops.Push(0, v))
        b.insert(ops.Push(1, there.i))
        there.next = (b.mul(v, b.cos(v)),)
    with loop(b, 0, n, init=[there.results[0]]) as back:
        at = b.insert(ops.Pop(1), int32).result
        old = b.insert(ops.Pop(0), float64).result
        back.next = (b.add(b.mul(back.carried[0], old), b.cast(at, float64)),)
    b.store(y, [b.index(0)], back.results[0])
    b.yield_()
    g = tangent(f, [0, 1])
    verify(g)
    assert (count(g, ops.Push), count(g, ops.Pop)) == (3, 3)  # the index has no tangent

    def value(h: float) -> float:
        out = np.zeros(1)
        run(f, [np.array([0.7 + h]), out], (1,))
        return float(out[0])

    dy = np.zeros(1)
    run(g, [np.array([0.7]), np.zeros(1), np.ones(1), dy], (1,))
    assert dy[0] == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-8)


def test_the_tangent_of_a_tangent_is_the_second_derivative() -> None:
    f, b = start("k", x=Array(float64, 1), y=Array(float64, 1))
    v = b.load(f.params[0], [b.index(0)])
    b.insert(ops.Push(0, b.mul(v, v)))
    b.store(f.params[1], [b.index(0)], b.mul(v, b.sin(b.insert(ops.Pop(0), float64).result)))
    b.yield_()
    second = tangent(tangent(f, [0, 1]), [0, 1, 2, 3])
    verify(second)
    a = 0.9
    arrays = [np.array([q]) for q in (a, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0)]
    run(second, arrays, (1,))
    exact = 6 * a * np.cos(a * a) - 4 * a**3 * np.sin(a * a)  # of x sin(x^2)
    assert arrays[-1][0] == pytest.approx(exact, rel=1e-13)


# --- structs ------------------------------------------------------------------------------------------------------


@wp.struct
class Body:
    place: wp.vec3d
    mass: f64
    kind: int
    pull: wp.array(dtype=f64)


@wp.struct
class Point:
    place: wp.vec3d
    mass: f64
    kind: int


@wp.kernel
def pulled(body: Body, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = body.mass * wp.length(body.place) * body.pull[i] * body.pull[i]


@wp.kernel
def weigh(points: wp.array(dtype=Point), y: wp.array(dtype=f64)):
    i = wp.tid()
    p = points[i]
    p.mass = p.mass * p.mass
    wp.atomic_add(y, 0, p.mass * wp.length(p.place))


def body(place: Any, mass: float, pull: Any) -> Any:
    made = Body()
    made.place, made.mass, made.kind, made.pull = wp.vec3d(*place), mass, 1, wp.array(pull, dtype=f64)
    return made


def test_a_struct_has_a_struct_as_tangent() -> None:
    b, t = body([1, 2, 2], 3.0, [1.0, 2.0]), body([1, 0, 0], 5.0, [1.0, 0.0])
    (dy,) = wp.autograd.jvp(pulled, 2, [b], [np.zeros(2)], [t])
    np.testing.assert_allclose(dy.numpy(), [5 * 3 + 3 / 3 + 3 * 3 * 2, (5 * 3 + 3 / 3) * 4])
    (hv,) = wp.autograd.hvp(pulled, 2, [b], [np.zeros(2)], [t], [np.ones(2)])
    assert hv[:3] == [None, None, None]
    np.testing.assert_allclose(hv[3].numpy(), [2 * (5 * 3 + 3 / 3) + 2 * 3 * 3, 4 * (5 * 3 + 3 / 3)])


def test_arrays_of_structs_have_tangents() -> None:
    values, change = Point(), Point()
    values.place, values.mass = wp.vec3d(1.0, 2.0, 2.0), 3.0
    change.place, change.mass = wp.vec3d(1.0, 0.0, 0.0), 1.0
    points, changes = wp.zeros(2, dtype=Point), wp.zeros(2, dtype=Point)
    points[0] = points[1] = values
    changes[0] = change
    (dy,) = wp.autograd.jvp(weigh, 2, [points], [np.zeros(1)], [changes])
    assert dy.numpy()[0] == pytest.approx(2 * 3 * 3 + 9 / 3)
    (hv,) = wp.autograd.hvp(weigh, 2, [points], [np.zeros(1)], [changes])
    assert hv.numpy()[0]["mass"] == pytest.approx(2 * 3 + 2 * 3 * 1 / 3)
    assert hv.numpy()[1]["mass"] == 0


# --- gradients of the user's own ----------------------------------------------------------------------------


@wp.func
def biased(x: f64, v: wp.vec2d):
    """Its gradient is not that of what it computes, so that one sees which is used."""
    return x * v, wp.dot(v, v) * x


@wp.func_grad(biased)
def adj_biased(x: f64, v: wp.vec2d, adj_w: wp.vec2d, adj_s: f64):
    if x > f64(0.0):
        wp.adjoint[x] += f64(3.0) * wp.dot(adj_w, v) + f64(5.0) * adj_s * v[0]
        return
    wp.adjoint[v] += f64(7.0) * x * adj_w + adj_s * v


@wp.func
def looked_up(table: wp.array(dtype=f64), i: int, x: f64):
    return table[i] * x


@wp.func_grad(looked_up)
def adj_looked_up(table: wp.array(dtype=f64), i: int, x: f64, g: f64):
    wp.adjoint[table][i] += g * x
    wp.adjoint[x] += f64(2.0) * g * table[i]


@wp.kernel
def through_biased(
    x: wp.array(dtype=f64), v: wp.array(dtype=wp.vec2d), n: int, w: wp.array(dtype=wp.vec2d), s: wp.array(dtype=f64)
):
    i = wp.tid()
    y = x[i]
    for _ in range(n):
        a, b = biased(y, v[i] * y)
        y = b + wp.sin(y)
        w[i] = a
    s[i] = y


@wp.kernel
def through_looked_up(table: wp.array(dtype=f64), x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = looked_up(table, i, x[i] * x[i])


def test_gradient_functions_serve_forward_mode():
    """<c, J t> = <J' c, t>, where J is what the user says."""
    n, rng = 5, np.random.default_rng(3)
    x = wp.array(rng.normal(size=n), dtype=f64, requires_grad=True)
    v = wp.array(rng.normal(size=(n, 2)), dtype=wp.vec2d, requires_grad=True)
    w, s = wp.zeros(n, dtype=wp.vec2d, requires_grad=True), wp.zeros(n, dtype=f64, requires_grad=True)
    tx, tv, cw, cs = rng.normal(size=n), rng.normal(size=(n, 2)), rng.normal(size=(n, 2)), rng.normal(size=n)
    for steps in (1, 3):
        tw, ts = wp.autograd.jvp(through_biased, n, [x, v, steps], [w, s], tangents=[tx, tv])
        with wp.Tape() as tape:
            wp.launch(through_biased, n, [x, v, steps], [w, s])
        tape.backward(grads={w: wp.array(cw, dtype=wp.vec2d), s: wp.array(cs, dtype=f64)})
        forward = (tw.numpy() * cw).sum() + (ts.numpy() * cs).sum()
        reverse = (x.grad.numpy() * tx).sum() + (v.grad.numpy() * tv).sum()
        assert forward == pytest.approx(reverse, rel=1e-12)
        tape.zero()
    first = wp.autograd.jvp(through_biased, n, [x, v, 1], [w, s], tangents=[tx, np.zeros((n, 2))])[0].numpy()
    y, u = x.numpy(), v.numpy()
    positive = 3 * u * (y * tx)[:, None]  # of w = y * (v y), which the gradient function says is 3 dy (v y)
    np.testing.assert_allclose(first[y > 0], positive[y > 0], rtol=1e-12)


def test_a_gradient_function_of_an_array():
    table, x, out = np.array([2.0, 3.0]), np.array([1.0, 5.0]), np.zeros(2)
    (t,) = wp.autograd.jvp(through_looked_up, 2, [table, x], [out], tangents=[None, np.ones(2)])
    np.testing.assert_allclose(t.numpy(), 2.0 * table * 2.0 * x)
    with pytest.raises(wp.WarpCodegenError) as error:
        wp.autograd.jvp(through_looked_up, 2, [table, x], [out], tangents=[np.ones(2), None])
    text = str(error.value)
    assert "`looked_up` has a gradient function, which gives the gradient of the array `table` as additions" in text
    assert "out[i] = looked_up(table, i, x[i] * x[i])" in text
    assert "help: use reverse mode, or give the function the elements that it needs as arguments" in text


def test_a_gradient_function_in_a_hessian_vector_product():
    """The gradient function is what forward mode goes over: its own derivative, not that of the function."""

    @wp.func
    def half(x: f64):
        return x * x * x

    @wp.func_grad(half)
    def adj_half(x: f64, g: f64):
        wp.adjoint[x] += wp.exp(x) * g

    @wp.kernel
    def loss_of(x: wp.array(dtype=f64), loss: wp.array(dtype=f64)):
        wp.atomic_add(loss, 0, half(x[wp.tid()]))

    x = np.array([0.3, -0.2])
    (product,) = wp.autograd.hvp(loss_of, 2, [x], [np.zeros(1)], tangents=[np.array([1.0, 2.0])])
    np.testing.assert_allclose(product.numpy(), np.exp(x) * [1.0, 2.0], rtol=1e-12)
