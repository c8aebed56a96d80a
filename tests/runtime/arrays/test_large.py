"""Arrays of more than 2^31 elements."""

import os

import numpy as np
import pytest

import warp_like as wp

N = 2**31 + 5
NEEDED = 5 * 2**30


@wp.kernel
def add_one(x: wp.array(dtype=wp.uint8)):
    i = wp.tid()
    x[i] = x[i] + wp.uint8(1)


def free_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


@pytest.mark.long
@pytest.mark.skipif(free_memory() < NEEDED, reason="needs 5 GiB of free memory")
def test_more_than_two_to_the_31_elements() -> None:
    a = wp.zeros(N, dtype=wp.uint8)
    a.fill_(3)
    wp.launch(add_one, dim=N, inputs=[a])
    a[N - 1] = 9
    assert (a[0], a[2**31 - 1], a[2**31], a[-2], a[-1]) == (4, 4, 4, 4, 9)
    assert wp.utils.array_sum(a) == 4 * N + 5
    tail = a[2**31 :]
    assert tail.list() == [4, 4, 4, 4, 9]
    tail.fill_(1)
    assert wp.utils.array_sum(a) == 4 * 2**31 + 5
    assert a.reshape(-1, 1).shape == (N, 1)
    assert a[:: 2**30].list() == [4, 4, 1]
    back = wp.empty(N, dtype=wp.uint8)
    wp.copy(back, a)
    assert np.array_equal(back.numpy()[-10:], [4] * 5 + [1] * 5)
    wp.utils.array_scan(a, back)
    assert back[-1] == (4 * 2**31 + 5) % 256
    assert back.numpy()[2**31 - 2 : 2**31 + 2].tolist() == [252, 0, 1, 2]
    assert wp.utils.array_inner(a, a) == 16 * 2**31 + 5
