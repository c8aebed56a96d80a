"""Forward mode: against reverse mode (``<c, J t> = <J' c, t>``), central differences, and itself over reverse mode."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warp_like as wp
from tests.ad.gradients import _bind as bind
from tests.ad.test_gradients import CASES, branches, nested, stateful, vector_state
from tests.builtins.calls import Case, cases, empty, smooth
from tests.builtins.calls import kernel as call_kernel
from tests.interpreter import run
from tests.ir_builder import branch, count, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Vec, bool_, float64, int32, is_differentiable
from warp_like.ir.verify import verify
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.forward import forward_mode, tangent
from warp_like.passes.pipeline import Options, prepare

f64 = wp.float64
CHECKED = Options(verify=True)
ATOMIC_WINNERS = {"atomic max"}  # forward mode refuses them


def random_like(a: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=np.shape(a))


# --- every builtin ------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("case", table(), ids=str)
def test_builtin(case: Case) -> None:
    compare_modes(case, smooth(case, 12))


@pytest.mark.parametrize("case", table(), ids=str)
def test_builtin_at_edges(case: Case) -> None:
    """At zeros, ones and ties both modes make the same choice."""
    args = []
    for t in case.types:
        a = empty(t, 6)
        values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0]).astype(a.dtype)
        args.append(np.ascontiguousarray(np.broadcast_to(values.reshape(6, *[1] * (a.ndim - 1)), a.shape)))
    compare_modes(case, args)


# --- compiled kernels ---------------------------------------------------------------------------------------------


def outputs_like(shape: Any) -> wp.array:
    return wp.zeros(shape, dtype=f64, requires_grad=True)


def tangents_for(inputs: list[Any]) -> list[Any]:
    return [random_like(a, 5 + k) if is_float(a) else None for k, a in enumerate(inputs)]


def is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == np.float64


@pytest.mark.parametrize("name", [n for n in CASES if n not in ATOMIC_WINNERS])
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


@pytest.mark.parametrize("name", CASES)
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
