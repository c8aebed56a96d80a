"""Sums of which only neighbouring threads share elements: neither copies nor atomics, with any number of OS threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import seeds
from tests.passes import random_halos

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


@wp.kernel
def late_work(x: wp.array(dtype=wp.int32), out: wp.array(dtype=wp.int32)):
    i = wp.tid()
    s = x[i]
    for k in range(x[i]):
        s = 3 * s + k
    out[i] += s
    out[i + 225] += s


def test_what_is_left_may_be_shorter_than_two_halos() -> None:
    """The first 4,352 threads run alone; only the last of these take long, so that the 448 after them are shared."""
    x = np.zeros(4800, np.int32)
    x[1500:] = 1000
    worked = 1000
    for k in range(1000):
        worked = (3 * worked + k) % 2**32
    each = np.where(x > 0, worked, 0).astype(np.uint32).astype(np.int32)
    expected = np.zeros(5025, np.int32)
    expected[:4800] += each
    expected[225:] += each
    wp.config.vector_width, wp.config.num_threads = 16, 2
    try:
        for _ in range(3):
            out = np.zeros_like(expected)
            wp.launch(late_work, dim=len(x), inputs=[x, out])
            np.testing.assert_array_equal(out, expected)
    finally:
        del wp.config.vector_width
        wp.config.num_threads = 0


# --- rows: the first indices are the thread's own, the others anything ------------------------------------------------


@wp.kernel
def into_rows(x: wp.array2d(dtype=wp.int64), out: wp.array2d(dtype=wp.int64), total: wp.array(dtype=wp.int64)):
    i, j = wp.tid()
    v = x[i, j]
    out[i, int(v % wp.int64(out.shape[1]))] += v
    if j % 3 == 0:
        wp.atomic_sub(out, i + 2, (7 * j + 1) % out.shape[1], wp.int64(j))
    total[i] += v


@pytest.mark.parametrize("shape", [(1, 1), (1, 9000), (5000, 1), (3000, 37), (24, 5000), (2, 70_001)])
def test_rows_that_threads_share(threads: int, shape: tuple[int, int]) -> None:
    x = RNG.integers(0, 2**40, shape)
    out, total = np.zeros((shape[0] + 2, 61), np.int64), np.zeros(shape[0], np.int64)
    for _ in range(3):
        wp.launch(into_rows, dim=shape, inputs=[x, out, total])
    expected = np.zeros_like(out)
    i, j = np.indices(shape)
    np.add.at(expected, (i, x % 61), x)
    j = j[:, ::3]
    np.subtract.at(expected, (i[:, ::3] + 2, (7 * j + 1) % 61), j)
    np.testing.assert_array_equal(out, 3 * expected)
    np.testing.assert_array_equal(total, 3 * x.sum(1))


@wp.kernel
def into_parts(
    x: wp.array3d(dtype=wp.int32),
    planes: wp.array2d(dtype=wp.int32),
    rows: wp.array3d(dtype=wp.int32),
    lines: wp.array2d(dtype=wp.int32),
):
    i, j, k = wp.tid()
    v = x[i, j, k]
    planes[i, (j + 5 * k) % planes.shape[1]] += v
    rows[i + 1, j, v % rows.shape[2]] += 1
    rows[i, j + 1, 0] -= v
    lines[i, j] += v


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (4000, 1, 1), (1, 4000, 1), (1, 1, 4000), (300, 1, 40), (40, 300, 1), (1, 90, 90), (90, 17, 23)],
)
def test_extents_of_one_at_any_place(threads: int, shape: tuple[int, int, int]) -> None:
    n, m, _ = shape
    x = RNG.integers(0, 99, shape).astype(np.int32)
    planes, lines = np.zeros((n, 9000 // n + 7), np.int32), np.zeros((n, m), np.int32)
    rows = np.zeros((n + 1, m + 1, 13), np.int32)
    for _ in range(3):
        wp.launch(into_parts, dim=shape, inputs=[x, planes, rows, lines])
    of_planes, of_rows = np.zeros_like(planes), np.zeros_like(rows)
    i, j, k = np.indices(shape)
    np.add.at(of_planes, (i, (j + 5 * k) % planes.shape[1]), x)
    np.add.at(of_rows, (i + 1, j, x % 13), 1)
    of_rows[:n, 1:, 0] -= x.sum(2)
    for got, wanted in ((planes, of_planes), (rows, of_rows), (lines, x.sum(2))):
        np.testing.assert_array_equal(got, 3 * wanted)


def test_rows_in_a_grid_of_more_dimensions(threads: int) -> None:
    x = RNG.integers(0, 99, (700, 31))
    out, total = np.zeros((702, 61), np.int64), np.zeros(700, np.int64)
    wp.launch(into_rows, dim=(700, 31, 5), inputs=[x, out, total])
    expected = np.zeros_like(out)
    i, j = np.indices(x.shape)
    np.add.at(expected, (i, x % 61), x)
    np.subtract.at(expected, (i[:, ::3] + 2, (7 * j[:, ::3] + 1) % 61), j[:, ::3])
    np.testing.assert_array_equal(out, 5 * expected)
    np.testing.assert_array_equal(total, 5 * x.sum(1))


@wp.kernel
def looked_up(x: wp.array2d(dtype=wp.float64), at: wp.array(dtype=int), out: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    v = x[i, at[j]]
    out[i, j] = v * v * x[i, 0]


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_gradient_of_a_lookup_in_rows(threads: int, deterministic: bool) -> None:
    x, at, seed = RNG.normal(size=(900, 33)), RNG.integers(0, 33, 70).astype(np.int32), RNG.normal(size=(900, 70))
    expected = np.zeros_like(x)
    np.add.at(expected, (slice(None), at), 2 * x[:, at] * x[:, :1] * seed)
    expected[:, 0] += (x[:, at] ** 2 * seed).sum(1)
    a = wp.array(x, dtype=wp.float64, requires_grad=True)
    out = wp.zeros(seed.shape, dtype=wp.float64, requires_grad=True)
    found = []
    wp.config.deterministic = deterministic
    try:
        for _ in range(3):
            with wp.Tape() as tape:
                wp.launch(looked_up, dim=seed.shape, inputs=[a, wp.array(at), out])
            tape.backward(grads={out: wp.array(seed, dtype=wp.float64)})
            found.append(a.grad.numpy().copy())
            tape.zero()
    finally:
        del wp.config.deterministic
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-12)
    if deterministic:
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("seed", seeds(200, few=4))
def test_random_sums(seed: int) -> None:
    random_halos.check(seed)


def test_rows_take_no_copies_where_these_are_large() -> None:
    x, small = RNG.integers(0, 99, (3000, 37)), RNG.integers(0, 99, (30, 3700))
    try:
        wp.config.num_threads = 64
        for given, fits in ((x, True), (small, False)):  # rows of the latter are longer than what a thread gets
            out, total = np.zeros((len(given) + 2, 1000), np.int64), np.zeros(len(given), np.int64)
            wp.launch(into_rows, dim=given.shape, inputs=[given, out, total])
            assert into_rows.fast.required_variant(given.shape, [given, out, total]) == (True, False, fits)
    finally:
        wp.config.num_threads = 0
