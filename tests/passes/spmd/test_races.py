"""Kernels whose threads touch each other's elements: a thread keeps its own order, and reads old or new values."""

import numpy as np
import pytest

import warp_like as wp

WIDTHS = [0, 1, 8]


@pytest.fixture(params=WIDTHS)
def width(request):
    wp.config.vector_width = request.param
    yield request.param
    wp.config.vector_width = 0


@wp.kernel
def look_at_the_next(
    a: wp.array(dtype=float), x: wp.array(dtype=float), own: wp.array(dtype=float), next: wp.array(dtype=float)
):
    i = wp.tid()
    a[i] = x[i]
    next[i] = a[(i + 1) % a.shape[0]]
    own[i] = a[i]


@pytest.mark.parametrize("n", [1, 16, 100, 4097])
def test_a_read_of_an_element_that_another_thread_writes(width, n):
    rng = np.random.default_rng(n)
    before, x = rng.uniform(1, 2, n).astype(np.float32), rng.uniform(3, 4, n).astype(np.float32)
    a, own, seen = before.copy(), np.zeros(n, np.float32), np.zeros(n, np.float32)
    wp.launch(look_at_the_next, n, [a, x, own, seen])
    np.testing.assert_array_equal(own, x)
    old, new = np.roll(before, -1), np.roll(x, -1)
    assert ((seen == old) | (seen == new)).all()
    if n == 1:
        assert seen[0] == x[0]  # its own


@wp.kernel
def exchange(a: wp.array(dtype=float), left: wp.array(dtype=int), right: wp.array(dtype=int)):
    i = wp.tid()
    t = a[left[i]]
    a[left[i]] = a[right[i]]
    a[right[i]] = t


@wp.kernel
def exchange_neighbours(a: wp.array(dtype=float)):
    i = wp.tid()
    t = a[2 * i]
    a[2 * i] = a[2 * i + 1]
    a[2 * i + 1] = t


@wp.kernel
def reverse(a: wp.array(dtype=float), n: int):
    i = wp.tid()
    t = a[i]
    a[i] = a[n - 1 - i]
    a[n - 1 - i] = t


@pytest.mark.parametrize("n", [2, 30, 64, 1002])
def test_swaps(width, n):
    rng = np.random.default_rng(n)
    x = rng.uniform(size=n).astype(np.float32)
    order = rng.permutation(n).astype(np.int32)
    left, right = order[: n // 2].copy(), order[n // 2 :].copy()
    a, wanted = x.copy(), x.copy()
    wanted[left], wanted[right] = x[right], x[left]
    wp.launch(exchange, n // 2, [a, left, right])
    np.testing.assert_array_equal(a, wanted)
    a = x.copy()
    wp.launch(exchange_neighbours, n // 2, [a])
    np.testing.assert_array_equal(a, x.reshape(-1, 2)[:, ::-1].reshape(-1))
    a = x.copy()
    wp.launch(reverse, n // 2, [a, n])
    np.testing.assert_array_equal(a, x[::-1])


@wp.kernel
def one_for_all(a: wp.array(dtype=int), seen: wp.array(dtype=int)):
    i = wp.tid()
    a[0] = i
    seen[i] = a[0]


def test_stores_of_all_threads_to_one_element(width):
    n = 100
    a, seen = np.full(1, -1, np.int32), np.full(n, -1, np.int32)
    wp.launch(one_for_all, n, [a, seen])
    assert 0 <= a[0] < n
    assert ((seen >= 0) & (seen < n)).all()  # never what was there before


@wp.kernel
def read_back(a: wp.array(dtype=int), at: wp.array(dtype=int), k: int, seen: wp.array2d(dtype=int)):
    i = wp.tid()
    a[i] = 10 * i
    seen[i, 0] = a[at[i]]
    a[at[i]] = 10 * i + 1
    seen[i, 1] = a[i]
    if i == k:
        a[k] = 7
        seen[i, 2] = a[i]
        a[i] = 8
        seen[i, 3] = a[k]


@pytest.mark.parametrize("n", [1, 7, 16, 50, 129])
def test_a_thread_sees_what_it_wrote_by_another_index(width, n):
    k = n // 2
    a, seen = np.zeros(n, np.int32), np.zeros((n, 4), np.int32)
    wp.launch(read_back, n, [a, np.arange(n, dtype=np.int32), k, seen])
    i = np.arange(n)
    np.testing.assert_array_equal(seen[:, 0], 10 * i)
    np.testing.assert_array_equal(seen[:, 1], 10 * i + 1)
    assert seen[k, 2:].tolist() == [7, 8]
    wanted = 10 * i + 1
    wanted[k] = 8
    np.testing.assert_array_equal(a, wanted)
