"""Gradients and tangents of what threads of a block do together: run as CUDA's code, against NumPy's own arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.llvm.test_block import finished, groups, read_from
from tests.cuda_emulation import CudaKernel
from warp_like.backend.target import Options

N, THREADS = 77, 48
RNG = np.random.default_rng(0)


def adjoint(kernel: Any, x: np.ndarray, g: np.ndarray, *more: Any) -> np.ndarray:
    """What the adjoint adds to that of ``x``, for the adjoint ``g`` of what the kernel writes from it."""
    adj_x = np.zeros_like(x)
    f = finished(kernel, wrt=(0, 1))
    CudaKernel(f, Options(contiguous=True)).in_blocks([x, np.zeros_like(g), *more, adj_x, g.copy()], (N,), 1, THREADS)
    return adj_x


def tangent(kernel: Any, x: np.ndarray, t: np.ndarray, *more: Any) -> np.ndarray:
    """The tangent of what the kernel writes, for the tangent ``t`` of ``x``."""
    tan_y = np.zeros_like(x)
    f = finished(kernel, tangent=(0, 1))
    CudaKernel(f, Options(contiguous=True)).in_blocks([x, np.zeros_like(x), *more, t, tan_y], (N,), 1, THREADS)
    return tan_y


@wp.kernel
def shares(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i] / (wp.block_sum(x[i]) + wp.warp_sum(x[i] * x[i]))


def jacobian_of_shares(x: np.ndarray) -> np.ndarray:
    """The matrix of derivatives of ``shares``, element by element."""
    found = np.zeros((N, N))
    blocks = {int(i): g for g in groups(N, THREADS) for i in g}
    warps = {int(i): g for g in groups(N, THREADS, warps=True) for i in g}
    for i in range(N):
        total = x[blocks[i]].sum() + (x[warps[i]] ** 2).sum()
        found[i, blocks[i]] -= x[i] ** 2 / total**2
        found[i, warps[i]] -= x[i] ** 2 / total**2 * 2 * x[warps[i]]
        found[i, i] += 2 * x[i] / total
    return found


def test_sums() -> None:
    x, g, t = RNG.uniform(0.5, 1.5, N), RNG.standard_normal(N), RNG.standard_normal(N)
    jacobian = jacobian_of_shares(x)
    np.testing.assert_allclose(adjoint(shares, x, g), g @ jacobian, rtol=1e-10)
    np.testing.assert_allclose(tangent(shares, x, t), jacobian @ t, rtol=1e-10)


@wp.kernel
def extremes(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.block_max(x[i]) * wp.warp_min(x[i])


def test_extremes() -> None:
    """The first thread that has the extreme gets the gradient."""
    x, g, t = RNG.integers(1, 4, N).astype(np.float64), RNG.standard_normal(N), RNG.standard_normal(N)
    jacobian = np.zeros((N, N))
    blocks = {int(i): b for b in groups(N, THREADS) for i in b}
    warps = {int(i): w for w in groups(N, THREADS, warps=True) for i in w}
    for i in range(N):
        most, least = blocks[i][np.argmax(x[blocks[i]])], warps[i][np.argmin(x[warps[i]])]
        jacobian[i, most] += x[least]
        jacobian[i, least] += x[most]
    np.testing.assert_allclose(adjoint(extremes, x, g), g @ jacobian, rtol=1e-12)
    np.testing.assert_allclose(tangent(extremes, x, t), jacobian @ t, rtol=1e-12)


@wp.kernel
def moved_by_constants(
    x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64), lane: wp.array(dtype=int), by: int
):
    i = wp.tid()
    up, down = wp.warp_shuffle_up(x[i], 3), wp.warp_shuffle_down(x[i], 5)
    y[i] = up + 10.0 * down + 100.0 * wp.warp_shuffle_xor(x[i], 9)


@wp.kernel
def moved(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64), lane: wp.array(dtype=int), by: int):
    i = wp.tid()
    up, down = wp.warp_shuffle_up(x[i], by), wp.warp_shuffle_down(x[i], by + 2)
    y[i] = up + 10.0 * down + 100.0 * wp.warp_shuffle_xor(x[i], by * 3) + 1000.0 * wp.warp_shuffle(x[i], lane[i])


@pytest.mark.parametrize("kernel", [moved_by_constants, moved], ids=lambda k: k.key)
def test_exchanges(kernel: Any) -> None:
    x, g, t = (RNG.standard_normal(N) for _ in range(3))
    lane = RNG.integers(-2, 35, N).astype(np.int32)
    jacobian = np.zeros((N, N))
    for w in groups(N, THREADS, warps=True):
        k = np.arange(len(w))
        for factor, source in ((1, k - 3), (10, k + 5), (100, k ^ 9), (1000 * (kernel is moved), lane[w])):
            np.add.at(jacobian, (w, w[read_from(k, source)]), factor)
    np.testing.assert_allclose(adjoint(kernel, x, g, lane, 3), g @ jacobian, rtol=1e-12)
    np.testing.assert_allclose(tangent(kernel, x, t, lane, 3), jacobian @ t, rtol=1e-12)


@wp.kernel
def staged(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = wp.shared_array(shape=64, dtype=float)
    s[wp.block_thread()] = x[i]
    wp.block_sync()
    y[i] = s[wp.block_size() - 1 - wp.block_thread()]


def test_memory_that_a_block_shares_has_tangents_and_no_gradient() -> None:
    x, t = RNG.standard_normal(N).astype(np.float32), RNG.standard_normal(N).astype(np.float32)
    got = tangent(staged, x, t)
    for g in groups(N, THREADS):
        np.testing.assert_array_equal(got[g], t[g][::-1])
    a, y = wp.ones(4, requires_grad=True), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(staged, 4, [a], [y])
    with pytest.raises(wp.WarpCodegenError) as e:
        tape.backward(grads={y: wp.ones(4)})
    assert str(e.value).splitlines()[0] == (
        "shared_array() has no gradient: reverse mode does not go through memory that threads share"
    )
    assert "s = wp.shared_array(shape=64, dtype=float)" in str(e.value)
