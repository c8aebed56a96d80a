"""Vectors and matrices that loops index: in stack memory, where nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import warp_like as wp

N = 77  # whole vectors and a part of one
vec9 = wp.types.vector(length=9, dtype=wp.float32)
mat35 = wp.types.matrix(shape=(3, 5), dtype=wp.float64)
bools = wp.types.vector(length=6, dtype=wp.bool)


@wp.kernel
def fills(x: wp.array(dtype=float), n: int, first: int, out: wp.array(dtype=vec9)):
    i = wp.tid()
    a = vec9(0.5)
    for k in range(first, n):
        a[k] = x[i] * float(k) + a[k // 2]
    out[i] = a


def filled(x: np.ndarray, n: int, first: int) -> np.ndarray:
    a = np.full(9, 0.5)
    for k in range(first, n):
        at = k + 9 if k < 0 else k
        half = k // 2 if k >= 0 else -(-k // 2)  # towards zero, as kernels do
        half = half + 9 if half < 0 else half
        value = x * k + a[half if 0 <= half < 9 else 0]
        if 0 <= at < 9:
            a[at] = value
    return a


@wp.kernel
def fills_rows(x: wp.array(dtype=wp.float64), n: int, out: wp.array(dtype=mat35), sums: wp.array(dtype=wp.float64)):
    i = wp.tid()
    m = mat35()
    s = wp.float64(0.0)
    for r in range(n):
        for c in range(r, 5):
            m[r, c] = x[i] + wp.float64(10 * r + c)
            if (r + c) % 2 == 0:
                m[r, c] = -m[r, c]
        row = m[r]
        m[(r + 1) % 3] = row * wp.float64(2.0)
        s += m[r, n % 5]
    out[i] = m
    sums[i] = s


def rows_filled(x: float, n: int) -> tuple[np.ndarray, float]:
    m, s = np.zeros((3, 5)), 0.0
    for r in range(n):
        for c in range(r, 5):
            m[r, c] = (x + 10 * r + c) * (-1 if (r + c) % 2 == 0 else 1)
        m[(r + 1) % 3] = m[r] * 2
        s += m[r, n % 5]
    return m, s


@wp.kernel
def keeps_the_old(x: wp.array(dtype=float), n: int, out: wp.array(dtype=vec9), sums: wp.array(dtype=float)):
    i = wp.tid()
    a, b = vec9(1.0), vec9(2.0)
    s = 0.0
    for k in range(n):
        before = a
        a[k] = x[i]
        s += before[(k + 1) % n] + before[k]  # which is another vector
        if x[i] > 0.0:  # in other lanes it stays
            b[k] = a[k] + float(k)
        a, b = b, a
    out[i] = a
    sums[i] = s


def old_kept(x: float, n: int) -> tuple[np.ndarray, float]:
    a, b, s = np.full(9, 1.0), np.full(9, 2.0), 0.0
    for k in range(n):
        before = a.copy()
        a[k] = x
        s += before[(k + 1) % n] + before[k]
        if x > 0:
            b[k] = a[k] + k
        a, b = b, a
    return a, s


@wp.kernel
def marks(at: wp.array(dtype=int), n: int, out: wp.array(dtype=int)):
    i = wp.tid()
    seen, both = bools(), vec9()
    total = 0
    for k in range(n):
        seen[k] = at[i] % (k + 2) == 0
        both[at[i]] = float(k)  # each lane's own index
        if seen[k // 2]:
            total += 1
    out[i] = total + int(both[at[i]]) * 10


@wp.kernel
def chains(x: wp.array2d(dtype=float), w: wp.array2d(dtype=float), n: int, out: wp.array(dtype=float)):
    """Two layers, whose widths are known at run time alone."""
    i = wp.tid()
    a = vec9()
    for k in range(n):
        s = 0.0
        for j in range(n):
            s += w[k, j] * x[i, j]
        a[k] = s * s
    total = 0.0
    for k in range(n):
        s = 0.0
        for j in range(n):
            s += w[j, k] * a[j]
        total += wp.sin(s)
    out[i] = total


def test_loops_that_change_vectors_at_an_index() -> None:
    x = np.random.default_rng(0).normal(size=N)
    for n, first in ((9, 0), (0, 0), (30, -12), (5, 4)):
        out = wp.zeros(N, dtype=vec9)
        wp.launch(fills, dim=N, inputs=[wp.array(x, dtype=float), n, first], outputs=[out])
        np.testing.assert_allclose(out.numpy(), [filled(v, n, first) for v in x], rtol=1e-5, atol=1e-5)
    for n in (0, 1, 3):
        rows, sums = wp.zeros(N, dtype=mat35), wp.zeros(N, dtype=wp.float64)
        wp.launch(fills_rows, dim=N, inputs=[wp.array(x, dtype=wp.float64), n], outputs=[rows, sums])
        for k, v in enumerate(x):
            expected = rows_filled(v, n)
            np.testing.assert_allclose(rows.numpy()[k], expected[0], rtol=1e-12)
            np.testing.assert_allclose(sums.numpy()[k], expected[1], rtol=1e-12)


def test_values_that_are_wanted_later_stay_as_they_are() -> None:
    x = np.random.default_rng(1).normal(size=N).astype(np.float32)
    for n in (1, 4, 9):
        out, sums = wp.zeros(N, dtype=vec9), wp.zeros(N, dtype=float)
        wp.launch(keeps_the_old, dim=N, inputs=[wp.array(x), n], outputs=[out, sums])
        expected = [old_kept(v, n) for v in x]
        np.testing.assert_allclose(out.numpy(), [a for a, _ in expected], rtol=1e-6)
        np.testing.assert_allclose(sums.numpy(), [s for _, s in expected], rtol=1e-5)
    at = np.arange(N) % 9
    found = wp.zeros(N, dtype=int)
    wp.launch(marks, dim=N, inputs=[wp.array(at, dtype=int), 6], outputs=[found])
    expected = [sum(v % (k // 2 + 2) == 0 for k in range(6)) + 50 for v in at]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_gradients_of_loops_that_fill_a_vector() -> None:
    rng, n = np.random.default_rng(2), 7
    x, w = rng.normal(size=(N, n)), 0.5 * rng.normal(size=(n, n))
    arrays = [wp.array(v, dtype=float, requires_grad=True) for v in (x, w)]
    out = wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(chains, dim=N, inputs=[*arrays, n], outputs=[out])
    s = x @ w.T
    t = (s * s) @ w
    np.testing.assert_allclose(out.numpy(), np.sin(t).sum(axis=1), rtol=1e-3, atol=1e-3)
    tape.backward(grads={out: wp.ones(N, dtype=float)})
    adj_t = np.cos(t)
    adj_s = 2 * s * (adj_t @ w.T)
    np.testing.assert_allclose(arrays[0].grad.numpy(), adj_s @ w, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(arrays[1].grad.numpy(), adj_s.T @ x + (s * s).T @ adj_t, rtol=1e-3, atol=1e-2)


def choices(kernel: Callable[..., Any]) -> int:
    """How many selects among vectors the code of ``kernel`` has."""
    return sum("select" in line and "float" in line for line in kernel.inspect("llvm").splitlines())


def test_no_component_is_chosen_where_memory_can_be_shared() -> None:
    assert "alloca [18 x" in fills.inspect("llvm")
    assert choices(fills) == 0
    assert choices(keeps_the_old) > 0
