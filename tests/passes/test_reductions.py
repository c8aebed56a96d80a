"""Minima, maxima and operations on bits over all threads: combined in registers, against NumPy."""

import numpy as np
import pytest

import warp_like as wp
from tests.passes.test_sums import variant
from warp_like.analysis.memory import analyse
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.sums import reduced_arrays

RNG = np.random.default_rng(11)
SIZES = [0, 1, 17, 64, 100_001]


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    wp.config.num_threads = request.param
    yield request.param
    wp.config.num_threads = 0


@wp.kernel
def bounds(p: wp.array(dtype=wp.vec3), lo: wp.array(dtype=wp.vec3), hi: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    wp.atomic_min(lo, 0, p[i])
    wp.atomic_max(hi, 0, p[i])


@pytest.mark.parametrize("n", SIZES)
def test_bounding_box(threads, n):
    p = RNG.normal(size=(n, 3)).astype(np.float32)
    p[1::7] = np.nan
    lo, hi = np.full((1, 3), 0.25, np.float32), np.full((1, 3), np.nan, np.float32)
    wp.launch(bounds, n, [p, lo, hi])
    np.testing.assert_array_equal(lo[0], np.fmin.reduce(p, initial=np.float32(0.25)))
    np.testing.assert_array_equal(hi[0], np.fmax.reduce(p, initial=np.nan))
    assert bounds.fast.required_variant(n, [p, lo, hi]) == (True, False, True)


def make_bits(t):
    @wp.kernel
    def bits(x: wp.array(dtype=t), k: int, some: wp.array(dtype=t), every: wp.array2d(dtype=t), odd: wp.array(dtype=t)):
        i, j = wp.tid()
        v = x[4 * i + j]
        if v % t(3) != t(0):
            wp.atomic_or(some, k, v)
        for n in range(j):
            wp.atomic_and(every, 1, k, v + t(n))
        wp.atomic_xor(odd, 0, v)

    return bits


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_bits(threads, dtype, n):
    x = RNG.integers(0, 2**31 - 4, 4 * n).astype(dtype)
    some, every, odd = np.zeros(3, dtype), np.full((2, 3), -1).astype(dtype), np.full(1, 5, dtype)
    before = every.copy()
    wp.launch(make_bits(getattr(wp, dtype)), (n, 4), [x, 2, some, every, odd])
    assert some.tolist() == [0, 0, np.bitwise_or.reduce(x[x % 3 != 0], initial=0)]
    shifted = [(x[j::4] + k).astype(dtype) for j in range(4) for k in range(j)]
    before[1, 2] = np.bitwise_and.reduce(np.concatenate(shifted), initial=before[1, 2])
    np.testing.assert_array_equal(every, before)
    assert odd[0] == np.bitwise_xor.reduce(x, initial=5)


@wp.kernel
def both_ends(x: wp.array(dtype=int), ends: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_min(ends, 0, x[i])
    wp.atomic_max(ends, 1, x[i])


@pytest.mark.parametrize("n", SIZES)
def test_two_kinds_at_two_places(threads, n):
    x = RNG.integers(-(2**31), 2**31, n).astype(np.int32)
    ends = np.array([7, 7], np.int32)
    wp.launch(both_ends, n, [x, ends])
    assert ends.tolist() == [np.min(x, initial=7), np.max(x, initial=7)]


@wp.kernel
def rare(x: wp.array(dtype=float), out: wp.array(dtype=float), at: int):
    i = wp.tid()
    if x[i] > 100.0:
        wp.atomic_max(out, at, x[i])


def test_an_element_that_no_thread_reaches_need_not_exist(threads):
    out = np.array([1.0], np.float32)
    wp.launch(rare, 1000, [RNG.normal(size=1000).astype(np.float32), out, 10**9])
    assert out.tolist() == [1.0]


def test_what_overlaps_is_updated_atomically(threads):
    x = RNG.integers(0, 100, 1000).astype(np.int32)
    expected = [min(x), max(max(x), x[1])]
    assert not variant(both_ends, 1000, [x, x])[2]
    assert x[:2].tolist() == expected


@wp.kernel
def greatest(x: wp.array(dtype=int), top: wp.array(dtype=int), total: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_max(top, 0, x[i])
    wp.atomic_add(total, x[i] % 2, 1)


def test_what_overlaps_is_updated_atomically_whichever_variant_came_first():
    """Launches compare what the first variant says: that of arrays with gaps, which has no registers to reduce in."""
    x, total = np.arange(200, dtype=np.int32), np.zeros(2, np.int32)
    assert variant(greatest, 100, [x[::2], np.zeros(1, np.int32), total]) == (False, False, False)
    assert variant(greatest, 100, [x[:100], np.zeros(1, np.int32), total]) == (True, False, True)
    assert variant(greatest, 100, [x[:100], x[:1], total]) == (True, False, False)


@wp.kernel
def clamped(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_min(out, 0, x[i])
    wp.atomic_max(out, 0, x[i])


@wp.kernel
def at_own_place(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_max(out, x[i] % 4, x[i])


@wp.kernel
def seen(x: wp.array(dtype=int), out: wp.array(dtype=int), old: wp.array(dtype=int)):
    i = wp.tid()
    old[i] = wp.atomic_max(out, 0, x[i])


@wp.kernel
def looked_at(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    if out[0] < x[i]:
        wp.atomic_max(out, 0, x[i])


@wp.kernel
def short_floats(x: wp.array(dtype=wp.float16), out: wp.array(dtype=wp.float16)):
    wp.atomic_max(out, 0, x[wp.tid()])


def test_which_arrays_are_reduced():
    def found(kernel):
        return reduced_arrays(analyse(optimised(kernel.source, Signature(kernel.types))))

    assert found(bounds) == (1, 2)
    assert found(make_bits(wp.int32)) == (2, 3, 4)
    assert found(both_ends) == (1,)
    for kernel in (clamped, at_own_place, seen, looked_at, short_floats):
        assert found(kernel) == ()


@wp.kernel
def farthest(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    d = wp.float64(0.0)
    for j in range(y.shape[0]):
        d = wp.max(d, wp.abs(x[i] - y[j]))
    if i % 3 == 1:
        wp.atomic_max(out, 0, d)


@pytest.mark.parametrize("n", [1, 37, 5000])
def test_after_a_loop_under_a_condition(threads, n):
    x, y, out = RNG.normal(size=n), RNG.normal(size=9), np.zeros(1)
    wp.launch(farthest, n, [x, y, out])
    assert out[0] == np.abs(x[1::3, None] - y).max(initial=0.0)


def test_one_thread_at_a_time():
    wp.config.vector_width = 1
    try:
        x = RNG.normal(size=(1000, 3)).astype(np.float32)
        lo, hi = np.ones((1, 3), np.float32), np.ones((1, 3), np.float32)
        wp.launch(bounds, 1000, [x, lo, hi])
    finally:
        wp.config.vector_width = 0
    np.testing.assert_array_equal(lo[0], np.minimum(x.min(0), 1))
    np.testing.assert_array_equal(hi[0], np.maximum(x.max(0), 1))
