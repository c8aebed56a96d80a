"""Arrays that a kernel only adds to: summed without atomics where they are private, with atomics where not."""

import platform

import numpy as np
import pytest

import warp_like as wp

RNG = np.random.default_rng(5)


@wp.kernel
def histogram(x: wp.array(dtype=int), bins: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(bins, x[i], 1)


@wp.kernel
def total(x: wp.array(dtype=wp.float64), even: wp.array(dtype=wp.float64), odd: wp.array(dtype=wp.float64)):
    i = wp.tid()
    if i % 2 == 0:
        wp.atomic_add(even, 0, x[i])
    else:
        wp.atomic_sub(odd, 0, x[i])


@wp.kernel
def scatter(p: wp.array(dtype=wp.vec3), at: wp.array(dtype=int), out: wp.array2d(dtype=wp.vec3)):
    i = wp.tid()
    row = out[at[i] % 2]
    wp.atomic_add(row, at[i], p[i])
    wp.atomic_add(out, 0, 0, wp.vec3(1.0, 0.0, -1.0))


@wp.kernel
def numbered(slots: wp.array(dtype=int), n: wp.array(dtype=int)):
    slot = wp.atomic_add(n, 0, 1)
    slots[slot] = 1


def variant(kernel, dim, args):
    """Which code a launch of ``dim`` threads takes: (contiguous, wide, sums)."""
    wp.launch(kernel, dim=dim, inputs=args)
    return kernel.fast.required_variant(dim, list(args))


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    wp.config.num_threads = request.param
    yield request.param
    wp.config.num_threads = 0


def test_histogram(threads):
    n = 300_000
    x = RNG.integers(0, 50, n).astype(np.int32)
    bins = np.arange(50, dtype=np.int32)
    wp.launch(histogram, dim=n, inputs=[x, bins])
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=50) + np.arange(50))


def test_one_address(threads):
    x = RNG.normal(size=500_001)
    even, odd = np.array([3.0]), np.array([4.0])
    assert variant(total, len(x), [x, even, odd]) == (True, False, True)
    np.testing.assert_allclose(even, 3 + x[::2].sum(), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(odd, 4 - x[1::2].sum(), rtol=1e-12, atol=1e-9)


def test_vectors_through_views(threads):
    n = 200_000
    p = RNG.integers(-9, 9, (n, 3)).astype(np.float32)
    at = RNG.integers(0, 7, n).astype(np.int32)
    out = np.zeros((2, 7, 3), dtype=np.float32)
    wp.launch(scatter, dim=n, inputs=[p, at, out])
    expected = np.zeros((2, 7, 3))
    np.add.at(expected, (at % 2, at), p)
    expected[0, 0] += [n, 0, -n]
    np.testing.assert_array_equal(out, expected)


def test_arrays_that_overlap_are_summed_with_atomics(threads):
    n = 200_000
    x, sums = np.ones(n), np.zeros(3)
    assert variant(total, n, [x, sums[:2], sums[:1]]) == (True, False, False)
    assert sums[0] == 0
    assert variant(total, n, [x, sums[:1], x[:1]]) == (True, False, False)


def test_a_table_that_is_large_for_the_grid_is_summed_with_atomics():
    wp.config.num_threads = 2
    try:
        bins = np.zeros(1_000_000, dtype=np.int32)
        x = RNG.integers(0, len(bins), 1000).astype(np.int32)
        assert variant(histogram, len(x), [x, bins]) == (True, False, False)
        np.testing.assert_array_equal(bins, np.bincount(x, minlength=len(bins)))
        x = RNG.integers(0, len(bins), 1_000_000).astype(np.int32)
        assert variant(histogram, len(x), [x, bins]) == (True, False, True)
    finally:
        wp.config.num_threads = 0


@wp.kernel
def rows_of_own(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float), flat: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(out.shape[1]):
        wp.atomic_add(out, i, k, x[i, k])
    for k in range(4):
        wp.atomic_sub(flat, 4 * i + k, x[i, k])


@wp.kernel
def pairs_share(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float), flat: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(out.shape[1]):
        wp.atomic_add(out, i // 2, k, x[i, k])
    for k in range(5):
        wp.atomic_sub(flat, 4 * i + k, x[i, k % 4])


def test_rows_that_belong_to_threads_need_no_copies(threads):
    """However large they are for the grid: two megabytes here, more than copies may take."""
    n = 100_003
    x = RNG.integers(-9, 9, (n, 6)).astype(np.float32)
    out, flat = np.ones((n, 6), np.float32), np.ones(4 * n, np.float32)
    assert variant(rows_of_own, n, [x, out, flat]) == (True, False, True)
    np.testing.assert_array_equal(out, 1 + x)
    np.testing.assert_array_equal(flat.reshape(n, 4), 1 - x[:, :4])


def test_rows_that_threads_share_are_summed(threads):
    n = 100_002
    x = RNG.integers(-9, 9, (n, 6)).astype(np.float32)
    out, flat = np.ones((n // 2, 6), np.float32), np.ones(4 * n + 1, np.float32)
    wp.launch(pairs_share, dim=n, inputs=[x, out, flat])
    np.testing.assert_array_equal(out, 1 + x[::2] + x[1::2])
    expected = np.ones(4 * n + 1)
    for k in range(5):
        np.subtract.at(expected, 4 * np.arange(n) + k, x[:, k % 4])
    np.testing.assert_array_equal(flat, expected)


def test_strided_sums_are_atomic(threads):
    n = 100_000
    x = RNG.integers(0, 50, n).astype(np.int32)
    bins = np.zeros(100, dtype=np.int32)
    assert variant(histogram, n, [x, bins[::2]]) == (False, False, False)
    np.testing.assert_array_equal(bins[::2], np.bincount(x, minlength=50))


def test_old_values_that_are_used_stay_atomic(threads):
    n = 100_000
    slots, count = np.zeros(n, dtype=np.int32), np.zeros(1, dtype=np.int32)
    assert variant(numbered, n, [slots, count]) == (True, False, False)
    assert slots.all()
    assert count[0] == n


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions")
def test_sums_need_no_locked_instruction():
    assert "lock" not in total.inspect("asm")
    assert "lock" in numbered.inspect("asm")
