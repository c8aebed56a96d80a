"""JAX calls whose kernels run in blocks of several threads on the CPU."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.block_kernels import centred, centred_np, moments, moments_np  # noqa: E402
from tests.runtime.launching.test_cpu_blocks import cpu_blocks  # noqa: E402
from warp_like.interop.jaxffi import jax_callable, jax_kernel  # noqa: E402

f64 = wp.float64


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def numbers(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


def test_the_setting_counts_when_a_call_is_traced():
    f = jax_kernel(centred, block_dim=4)
    for enabled in (False, True, False):
        with cpu_blocks(enabled):
            for n in (1, 4, 10):
                expected = centred_np(numbers(n), 4 if enabled else 1)
                np.testing.assert_allclose(f(numbers(n))[0], expected, atol=1e-12)
    with cpu_blocks():
        np.testing.assert_array_equal(jax_kernel(centred)(numbers(5))[0], np.zeros(5))
        np.testing.assert_allclose(f(numbers(6), launch_dims=4)[0], centred_np(numbers(6)[:4], 4), atol=1e-12)


def test_derivatives_and_batches():
    f = jax_kernel(moments, block_dim=4, launch_dims=10, output_dims=3, enable_backward=True)
    x, v = numbers(10), numbers(10, 1)
    with cpu_blocks():
        np.testing.assert_allclose(f(x)[0], moments_np(x, 4))
        _, tangent = jax.jvp(lambda x: f(x)[0], (x,), (v,))
        gradient = jax.jit(jax.grad(lambda x: f(x)[0].sum()))(x)
        second = jax.jvp(jax.grad(lambda x: f(x)[0].sum()), (x,), (v,))[1]
        rows = jax.vmap(lambda x: f(x)[0])(np.stack([x, v]))
    cubes = np.repeat([np.sum(p**3) for p in np.split(x, [4, 8])], [4, 4, 2])
    expected = np.cos(cubes) * 3 * x * x
    np.testing.assert_allclose(gradient, expected)
    np.testing.assert_allclose(tangent.sum(), expected @ v)
    np.testing.assert_allclose(rows, [moments_np(x, 4), moments_np(v, 4)])
    steps = np.repeat([np.sum(part) for part in np.split(3 * x * x * v, [4, 8])], [4, 4, 2])
    np.testing.assert_allclose(second, np.cos(cubes) * 6 * x * v - np.sin(cubes) * steps * 3 * x * x)


def test_launches_of_a_function():
    def centre(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        wp.launch(centred, x.shape, [x], [y], block_dim=4)

    f = jax_callable(centre)
    for enabled in (False, True):
        with cpu_blocks(enabled):
            expected = centred_np(numbers(10), 4 if enabled else 1)
            np.testing.assert_allclose(f(numbers(10))[0], expected, atol=1e-12)
            gradient = jax.grad(lambda x: f(x)[0][0])(numbers(10))
            np.testing.assert_allclose(gradient, centred_np(np.eye(10)[0], 4 if enabled else 1), atol=1e-12)
