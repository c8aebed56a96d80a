"""Values that kernels name are those of the moment when JAX traces the call, in derivatives too."""

import types

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402

jnp = jax.numpy
numbers = types.ModuleType("numbers_of_jax_test")
numbers.power = 2.0


@wp.kernel
def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = numbers.power * x[i] * x[i]


def function(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    half = wp.zeros_like(x)
    wp.launch(scaled, dim=x.shape, inputs=[x], outputs=[half])
    wp.launch(scaled, dim=x.shape, inputs=[half], outputs=[y])


X = np.array([1.0, 3.0], np.float32)


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    monkeypatch.setattr(numbers, "power", 2.0)


def test_calls_outside_of_jit_follow_the_value():
    f, g = wp.jax_kernel(scaled, enable_backward=True), wp.jax_callable(function)
    for numbers.power in (2.0, 2.0, 5.0, 2.0):
        p = numbers.power
        np.testing.assert_allclose(f(X)[0], p * X**2)
        np.testing.assert_allclose(g(X)[0], p**3 * X**4)
        np.testing.assert_allclose(jax.grad(lambda x: f(x)[0].sum())(X), 2 * p * X)


def test_a_jitted_function_keeps_the_value_of_its_trace():
    f = jax.jit(lambda x: wp.jax_kernel(scaled)(x)[0])
    np.testing.assert_allclose(f(X), 2.0 * X**2)
    numbers.power = 5.0
    np.testing.assert_allclose(f(X), 2.0 * X**2)
    other = jax.jit(lambda x: wp.jax_kernel(scaled)(x)[0] + 0.0)
    np.testing.assert_allclose(other(X), 5.0 * X**2)


def test_the_gradient_is_that_of_the_value_of_the_call():
    f = wp.jax_kernel(scaled, enable_backward=True)
    y, pull = jax.vjp(lambda x: f(x)[0], X)
    numbers.power = 5.0
    (gradient,) = pull(jnp.ones(2))
    np.testing.assert_allclose(y, 2.0 * X**2)
    np.testing.assert_allclose(gradient, 4.0 * X)


def test_a_kernel_with_other_options_is_a_function_of_its_own():
    quick = scaled.with_options(fast_math=True)
    assert wp.jax_kernel(scaled) is wp.jax_kernel(scaled)
    assert wp.jax_kernel(quick).kernel is quick
