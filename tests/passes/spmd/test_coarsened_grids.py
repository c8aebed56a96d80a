"""Coarsened kernels, on grids that groups of rows do not fill; against NumPy."""

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import Kernel
from warp_like.backend.target import Options, host_target
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.spmd.choice import choose


@wp.kernel
def product(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    out[i, j] += total


@wp.kernel
def product_of_batches(
    a: wp.array3d(dtype=wp.float64), b: wp.array3d(dtype=wp.float64), out: wp.array3d(dtype=wp.float64)
):
    n, i, j = wp.tid()
    total = wp.float64(0.0)
    k = 0
    while k < a.shape[2]:
        total += a[n, i, k] * b[n, k, j]
        k += 1
    out[n, i, j] += total


@wp.kernel
def product_in_bounds(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), at: int, out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = 0.0
    for k in range(a.shape[1]):
        if k >= at:
            total += a[i, k] * b[k, j]
    if i < out.shape[0] - 1:
        out[i, j] = total
    wp.atomic_max(out, out.shape[0] - 1, 0, wp.abs(total))


@wp.kernel
def column_sums(x: wp.array2d(dtype=float), out: wp.array(dtype=float), counts: wp.array(dtype=int)):
    i, j = wp.tid()
    wp.atomic_add(out, j, x[i, j])
    wp.atomic_sub(counts, j, 2)


def random(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def chosen(kernel):
    target = host_target()
    f = optimised(kernel.source, Signature(kernel.types))
    return choose(f, target.vector_bits, target.vector_registers, 0).function


def test_all_kernels_here_are_coarsened():
    assert all(
        chosen(k).schedule.coarsened is not None for k in (product, product_of_batches, product_in_bounds, column_sums)
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "n, m, k", [(0, 5, 3), (1, 1, 1), (4, 64, 0), (3, 200, 9), (7, 65, 3), (130, 129, 40), (41, 1, 7)]
)
def test_products(threads, n, m, k):
    a, b, out = random(n, k), random(k, m), random(n, m)
    wanted = out + a.astype(np.float64) @ b
    wp.config.num_threads = threads
    try:
        wp.launch(product, (n, m), [a, b, out])
    finally:
        del wp.config.num_threads
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n, rows, columns", [(3, 5, 40), (5, 4, 16), (2, 9, 77), (7, 3, 33)])
def test_rows_of_different_planes_stay_apart(n, rows, columns):
    a, b = random(n, rows, 6, dtype=np.float64), random(n, 6, columns, dtype=np.float64)
    out = np.zeros((n, rows, columns))
    wp.launch(product_of_batches, out.shape, [a, b, out])
    np.testing.assert_allclose(out, a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n, m", [(1, 40), (5, 1), (8, 64), (1003, 77), (9, 5000)])
def test_sums_over_rows(threads, n, m):
    x, out, counts = random(n, m), np.zeros(m, np.float32), np.full(m, 7, np.int32)
    wp.config.num_threads = threads
    try:
        wp.launch(column_sums, (n, m), [x, out, counts])
    finally:
        del wp.config.num_threads
    np.testing.assert_allclose(out, x.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-3)
    assert (counts == 7 - 2 * n).all()


def test_views_with_strides():
    a, b, out = random(20, 30)[::2, ::3], random(40, 70)[::4, 1::2], random(35, 10).T
    wanted = out + a.astype(np.float64) @ b
    wp.launch(product, out.shape, [a, b, out])
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("at", [0, 3, 9])
def test_branches_of_all_rows_and_of_one(at):
    a, b, out = random(11, 9), random(9, 70), np.zeros((11, 70), np.float32)
    whole = a[:, at:].astype(np.float64) @ b[at:]
    wp.launch(product_in_bounds, out.shape, [a, b, at, out])
    np.testing.assert_allclose(out[:-1], whole[:-1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[-1, 0], np.abs(whole).max(), rtol=1e-5)


def test_every_thread_runs_once_wherever_the_grid_is_cut():
    f = chosen(product)
    coarsened = f.schedule.coarsened
    assert coarsened is not None
    run = Kernel(f, Options(contiguous=True))
    n, m = 13, 2 * coarsened.schedule.lanes + 5
    a, b = random(n, 3), random(3, m)
    rng = np.random.default_rng(0)
    for _ in range(60):
        out = np.zeros((n, m), np.float32)
        run([a, b, out], (n, m), splits=sorted(rng.integers(0, n * m, rng.integers(0, 6)).tolist()))
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


def test_gradients():
    n, m, k = 21, 70, 13
    a, b = (wp.array(random(*shape), dtype=float, requires_grad=True) for shape in ((n, k), (k, m)))
    out, weights = wp.zeros((n, m), dtype=float, requires_grad=True), random(n, m)
    with wp.Tape() as tape:
        wp.launch(product, (n, m), [a, b, out])
    tape.backward(grads={out: wp.array(weights, dtype=float)})
    np.testing.assert_allclose(a.grad.numpy(), weights @ b.numpy().T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(b.grad.numpy(), a.numpy().T @ weights, rtol=1e-4, atol=1e-4)


def test_explained():
    wp.launch(product, (2, 2), [random(2, 2)] * 2 + [random(2, 2)])
    assert "rows at once" in str(product.explain())
