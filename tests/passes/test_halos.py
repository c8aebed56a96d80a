"""Sums of which only neighbouring threads share elements: neither copies nor atomics, with any number of OS threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import warp_like as wp

RNG = np.random.default_rng(8)


@wp.kernel
def spread(x: wp.array(dtype=wp.int64), out: wp.array(dtype=wp.int64), work: int):
    i = wp.tid()
    v = x[i]
    for _ in range(work):
        v = v * wp.int64(6364136223846793005) + wp.int64(1442695040888963407)
    out[i] += v
    out[i + 3] += x[i]
    wp.atomic_sub(out, 1 + i, v)


@wp.kernel
def spread2(x: wp.array2d(dtype=wp.int32), out: wp.array2d(dtype=wp.vec2i), total: wp.array(dtype=wp.int32)):
    i, j = wp.tid()
    v = x[i, j]
    out[i, j] += wp.vec2i(v, 1)
    out[i + 2, j] += wp.vec2i(1, v)
    if v > 0:
        out[i + 1, j + 1] -= wp.vec2i(v, v)
    total[0] += v


@wp.kernel
def difference(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    d = x[i + 1] - x[i] * x[i] + x[i + 2]
    out[i] = d * d


@pytest.fixture(params=[1, 2, 5, 16])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    wp.config.num_threads = request.param
    yield request.param
    wp.config.num_threads = 0


@pytest.mark.parametrize(("n", "work"), [(1, 0), (2000, 500), (300_001, 0), (60_000, 40)])
def test_offsets_along_a_line(threads: int, n: int, work: int) -> None:
    x = RNG.integers(-(2**40), 2**40, n)
    out = np.arange(n + 3)
    for _ in range(3):
        wp.launch(spread, dim=n, inputs=[x, out, work])
    v = x.astype(np.uint64)
    for _ in range(work):
        v = v * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    v = v.astype(np.int64)
    expected = np.arange(n + 3)
    for offset, values in ((0, v), (3, x), (1, -v)):
        expected[offset : offset + n] += 3 * values
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shape", [(1, 1), (700, 31), (40, 1003), (5, 100_000)])
def test_offsets_in_a_plane(threads: int, shape: tuple[int, int]) -> None:
    x = RNG.integers(-5, 9, shape).astype(np.int32)
    out = np.zeros((shape[0] + 2, shape[1] + 1, 2), np.int32)
    total = np.zeros(1, np.int32)
    for _ in range(3):
        wp.launch(spread2, dim=shape, inputs=[x, out, total])
    n, m = shape
    expected = np.zeros_like(out)
    expected[:n, :m] += np.stack([x, np.ones_like(x)], -1)
    expected[2:, :m] += np.stack([np.ones_like(x), x], -1)
    expected[1:-1, 1:] -= np.maximum(x, 0)[..., None]
    np.testing.assert_array_equal(out, 3 * expected)
    assert total[0] == 3 * x.sum()


def test_the_gradient_of_a_stencil(threads: int) -> None:
    n = 400_000
    x, seed = RNG.normal(size=n + 2), RNG.normal(size=n)
    a = wp.array(x, dtype=wp.float64, requires_grad=True)
    out = wp.zeros(n, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(difference, dim=n, inputs=[a, out])
    d = 2 * (x[1:-1] - x[:-2] ** 2 + x[2:]) * seed
    expected = np.zeros(n + 2)
    expected[:-2] -= 2 * x[:-2] * d
    expected[1:-1] += d
    expected[2:] += d
    for _ in range(5):
        tape.zero()
        tape.backward(grads={out: wp.array(seed, dtype=wp.float64)})
        np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_no_copies_and_no_atomics_however_many_os_threads() -> None:
    x, out = RNG.integers(-9, 9, 120_000), np.zeros(120_003, np.int64)
    try:
        wp.config.num_threads = 64
        wp.launch(spread, dim=len(x), inputs=[x, out, 0])
        assert spread.fast.required_variant(len(x), [x, out, 0]) == (True, False, True)
        wp.config.num_threads = 1024  # too many for their halos, and so for copies
        assert spread.fast.required_variant(len(x), [x, out, 0]) == (True, False, False)
    finally:
        wp.config.num_threads = 0


def test_a_grid_of_more_dimensions_than_the_kernel_has() -> None:
    wp.config.num_threads = 3
    try:
        x, out = RNG.integers(-9, 9, 300), np.zeros(303, np.int64)
        wp.launch(spread, dim=(300, 4, 100), inputs=[x, out, 0])
        expected = np.zeros_like(out)
        for offset, values in ((0, x), (3, x), (1, -x)):
            expected[offset : offset + len(x)] += 400 * values
        np.testing.assert_array_equal(out, expected)
    finally:
        wp.config.num_threads = 0
