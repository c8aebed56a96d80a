"""Calls whose additions need not be atomic: each of XLA's threads adds into a copy of its own."""

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.jaxffi.kernels import matmul, scale, total  # noqa: E402
from tests.runtime.launching.test_deterministic import rows_of_own  # noqa: E402
from warp_like.interop.jaxffi import jax_callable, jax_kernel  # noqa: E402

jnp = jax.numpy
random = np.random.default_rng(8)


def summed_plainly(f, *args):
    """Return how many arrays of the calls of a program are only added to, by copies."""
    text = jax.jit(f).lower(*args).as_text()
    words = [
        np.array(re.findall(r"-?\d+", m), int) for m in re.findall(r"binds = (?:dense|array)<(?:i64: )?([^>]*)>", text)
    ]
    assert words
    return sum(int(np.count_nonzero(w.reshape(-1, 9)[:, 8])) for w in words)


@wp.kernel
def histogram(x: wp.array(dtype=int), counts: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(counts, x[i], 1)


@wp.kernel
def add_own(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    wp.atomic_add(y, i, x[i])


@wp.kernel
def add_ends(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, y.shape[0] - 1, x[i])
    wp.atomic_sub(y, 0, x[i])


@wp.kernel
def add_products(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(w.shape[0]):
        wp.atomic_add(y, k, x[i] * w[k])


@pytest.mark.parametrize("n", [5, 200_003])
def test_sums_of_lanes_in_a_loop(n):
    f = jax_kernel(add_products, output_dims=9)
    x, w = random.integers(-3, 4, n).astype(np.float32), np.arange(9, dtype=np.float32)
    for given in (x, -x, x):
        got = f(given, w, launch_dims=n)[0]  # whole numbers, whose sums are exact
        assert np.array_equal(got, given.astype(float).sum() * w)
    batch = jax.vmap(lambda x: f(x, w, launch_dims=n // 5)[0])(x[: n // 5 * 5].reshape(5, -1))
    assert np.array_equal(batch, np.outer(x[: n // 5 * 5].reshape(5, -1).sum(axis=1), w))


def test_a_sum_over_many_threads():
    f = jax_kernel(total, output_dims=1)
    x = random.random(3_000_001, dtype=np.float32)
    assert summed_plainly(f, x) == 1
    for _ in range(3):
        assert np.allclose(f(x)[0], np.square(x, dtype=np.float64).sum(), rtol=1e-4)


def test_a_histogram():
    f = jax_kernel(histogram, output_dims=1000)
    x = random.integers(0, 1000, 2_000_000).astype(np.int32)
    assert summed_plainly(f, x) == 1
    for _ in range(3):
        assert np.array_equal(f(x)[0], np.bincount(x, minlength=1000))


def test_what_is_large_is_added_to_atomically():
    f = jax_kernel(histogram, output_dims=3_000_000)
    x = random.integers(0, 3_000_000, 1000).astype(np.int32)
    if wp._native.num_threads() > 1:
        assert summed_plainly(f, x) == 0
    assert np.array_equal(f(x)[0], np.bincount(x, minlength=3_000_000))


def test_what_was_there_before_counts_once():
    f = jax_kernel(add_ends, in_out_argnames=["y"])
    x, y = random.random(2_000_000, dtype=np.float32), random.random(5, dtype=np.float32)
    expected = y.astype(np.float64)
    expected[-1] += x.sum(dtype=np.float64)
    expected[0] -= x.sum(dtype=np.float64)
    assert summed_plainly(f, x, y) == 1
    assert np.allclose(f(x, y)[0], expected, rtol=1e-4)


def test_own_elements():
    f = jax_kernel(add_own, in_out_argnames=["y"])
    x, y = random.random((400_000, 3), dtype=np.float32), random.random((400_000, 3), dtype=np.float32)
    assert np.allclose(f(x, y)[0], x + y)


@wp.kernel
def ends(x: wp.array(dtype=float), low: wp.array(dtype=float), high: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_min(low, 0, x[i])
    wp.atomic_max(high, 0, x[i])


def test_least_and_greatest():
    """What all threads reduce into is held in registers by each of XLA's threads."""
    f = jax_kernel(ends, num_outputs=2, in_out_argnames=["low", "high"])
    x = random.normal(size=(3, 500_001)).astype(np.float32)
    zero = np.zeros((3, 1), np.float32)
    low, high = jax.jit(jax.vmap(f))(x, zero, zero + 9)
    assert np.array_equal(low[:, 0], x.min(1))
    assert np.array_equal(high[:, 0], zero[:, 0] + 9)
    assert np.array_equal(f(x[0], zero[0], zero[0])[1], [x[0].max()])


@pytest.mark.parametrize("shape", [(3, 700_000), (5000, 200), (200_000, 3), (2, 3, 100_000)])
def test_batches(shape):
    f = jax_kernel(add_ends, in_out_argnames=["y"])
    x, y = random.random(shape, dtype=np.float32), random.random((*shape[:-1], 2), dtype=np.float32)
    g = lambda x, y: f(x, y)[0]  # noqa: E731
    for _ in shape[:-1]:
        g = jax.vmap(g)
    expected = y.astype(np.float64) + x.sum(-1, dtype=np.float64)[..., None] * np.array([-1, 1])
    for _ in range(3):
        assert np.allclose(jax.jit(g)(x, y), expected, rtol=1e-3)
    one = jax.jit(jax.vmap(lambda x: f(x, y.reshape(-1, 2)[0])[0]))(x.reshape(-1, shape[-1]))
    assert np.allclose(one[-1], y.reshape(-1, 2)[0] + x.reshape(-1, shape[-1])[-1].sum() * np.array([-1, 1]), rtol=1e-3)


def test_gradients():
    f = jax_kernel(matmul, launch_dims=(300, 200), enable_backward=True)
    a, b = random.random((300, 150), dtype=np.float32), random.random((150, 200), dtype=np.float32)
    loss = jax.grad(lambda a, b: f(a, b)[0].sum(), (0, 1))
    assert summed_plainly(loss, a, b) == 2
    ga, gb = loss(a, b)
    assert np.allclose(ga, np.tile(b.sum(1), (300, 1)), rtol=1e-4)
    assert np.allclose(gb, np.tile(a.sum(0)[:, None], (1, 200)), rtol=1e-4)
    s = jax_kernel(scale, enable_backward=True)
    x = random.random(1_000_000, dtype=np.float32)
    g = jax.grad(lambda k: s(x, k)[0].sum())(2.0)
    assert np.isclose(g, x.sum(dtype=np.float64), rtol=1e-4)


def test_arrays_that_another_argument_sees_are_added_to_atomically():
    def both(x: wp.array(dtype=float)):
        wp.launch(add_ends, dim=x.shape, inputs=[x], outputs=[x])

    def apart(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.launch(add_ends, dim=x.shape, inputs=[x], outputs=[y])

    x = jnp.zeros(10)
    assert summed_plainly(jax_callable(both, in_out_argnames=["x"]), x) == 0
    assert summed_plainly(jax_callable(apart, output_dims=2), x) == 1


@wp.kernel
def spread_out(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, (i * 7) % y.shape[0], wp.sin(x[i]) * 1.0e3)


@wp.kernel
def spread_numbered(x: wp.array(dtype=float), y: wp.array(dtype=float), at: wp.array(dtype=float)):
    i = wp.tid()
    at[i] = wp.atomic_add(y, i % y.shape[0], x[i])


def bits(f, *args):
    return tuple(np.asarray(r).tobytes() for r in f(*args))


@pytest.mark.parametrize("n, m", [(1, 3), (1000, 3), (400_003, 1), (400_003, 1000), (30_000, 20_000)])
def test_deterministic_sums_have_the_same_bits_whatever_the_threads(n, m):
    """Of few elements in copies that are added up in order; of many on one thread."""
    x = random.random(n, dtype=np.float32)
    wp.config.deterministic = True
    try:
        f = jax.jit(jax_kernel(spread_out, output_dims=m))
        found = set()
        for wp.config.num_threads in (1, 2, 2, 2, 2):
            found.add(bits(f, x))
        wanted = np.zeros(m)
        np.add.at(wanted, np.arange(n) * 7 % m, np.sin(x, dtype=np.float64) * 1.0e3)
        assert len(found) == 1
        assert np.allclose(np.frombuffer(found.pop()[0], np.float32), wanted, rtol=1e-3)
        g = jax.jit(jax_kernel(spread_numbered, num_outputs=2, output_dims={"y": 3, "at": n}))
        assert len({bits(g, x) for _ in range(3)}) == 1  # what was there before each addition shows its order
    finally:
        del wp.config.deterministic, wp.config.num_threads


def test_deterministic_sums_of_a_batch():
    x = random.random((5, 50_000), dtype=np.float32)
    wp.config.deterministic = True
    try:
        f = jax.jit(jax.vmap(jax_kernel(spread_out, output_dims=7)))
        assert len({bits(f, x) for _ in range(4)}) == 1
    finally:
        del wp.config.deterministic


@pytest.mark.parametrize("columns", [False, True])
def test_deterministic_sums_to_rows_that_views_share(columns):
    """No two threads touch one element by one array, but two arrays are views of the same rows."""
    n = 1 << 15

    def shifted(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
        a, b = y[:n], y[n // 2 :]
        wp.launch(rows_of_own, n, [x, a[:, :2], b[:, :2]] if columns else [x, a, b])

    x = (1e3 * random.standard_normal(n)).astype(np.float32)
    y = np.full((n + n // 2, 3), 0.1, np.float32)
    wp.config.deterministic = True
    try:
        f = jax.jit(jax_callable(shifted, in_out_argnames=["y"]))
        found = set()
        for wp.config.num_threads in (1, 2, 2, 3):
            found.add(bits(f, x, y))
        assert len(found) == 1
    finally:
        del wp.config.deterministic, wp.config.num_threads
