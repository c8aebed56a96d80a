"""``jax_callable(on_host=True)``: functions that JAX calls back, which may look at elements."""

import numpy as np
import pytest

import warp_like as wp

jax = pytest.importorskip("jax")
jnp = jax.numpy


@wp.kernel
def multiply(x: wp.array(dtype=wp.vec2), k: wp.array(dtype=int), a: float, y: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    y[i] = a * float(k[0]) * x[i] * x[i][0]


def grow(
    x: wp.array(dtype=wp.vec2), k: wp.array(dtype=int), a: float, y: wp.array(dtype=wp.vec2), n: wp.array(dtype=int)
):
    """Square until an element is large; how often is for the host to see."""
    wp.copy(y, x)
    times = 0
    while y.numpy().max() < 10.0:
        last = wp.clone(y, requires_grad=x.requires_grad)
        wp.launch(multiply, dim=x.shape, inputs=[last, k, a], outputs=[y])
        times += 1
    n.fill_(times)


def reference(x, k, a):
    times = 0
    while x.max() < 10.0:
        x, times = a * k[0] * x * x[:, :1], times + 1
    return x, times


X, K = np.array([[2.0, 1.0], [1.5, 3.0]], np.float32), np.array([2], np.int32)


def test_the_host_decides_how_often():
    f = wp.jax_callable(grow, num_outputs=2, output_dims={"n": 1}, on_host=True)
    assert f is wp.jax_callable(grow, num_outputs=2, output_dims={"n": 1}, on_host=True)
    for a in (1.0, 0.75):
        for call in (f, jax.jit(f, static_argnums=2)):
            y, n = call(X, K, a)
            expected, times = reference(X, K, a)
            np.testing.assert_allclose(y, expected, rtol=1e-6)
            assert n.tolist() == [times]


def test_derivatives():
    f = wp.jax_callable(grow, num_outputs=2, output_dims={"n": 1}, on_host=True)
    weights = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)

    def loss(x, k):
        return (f(x, k, 1.0)[0] * weights).sum()

    def plain(x):
        for _ in range(reference(X, K, 1.0)[1]):
            x = 2.0 * x * x[:, :1]
        return (x * weights).sum()

    expected = jax.grad(plain)(jnp.asarray(X))
    for gradient in (jax.grad(loss), jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(gradient(jnp.asarray(X), K), expected, rtol=1e-5)
    batch = jax.vmap(jax.grad(loss), in_axes=(0, None))(np.stack([X, X]), K)
    np.testing.assert_allclose(batch, np.stack([expected, expected]), rtol=1e-5)


def test_arguments_that_are_returned():
    def halve(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y.assign(0.5 * x.numpy())
        x.assign(x.numpy() + 1.0)

    given = jnp.arange(4.0)
    x, y = wp.jax_callable(halve, num_outputs=2, in_out_argnames=["x"], on_host=True)(given)
    np.testing.assert_array_equal(given, [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(y, [0.0, 0.5, 1.0, 1.5])


def test_refusals():
    with pytest.raises(ValueError, match="on_host=True goes with has_side_effect=False"):
        wp.jax_callable(grow, on_host=True, has_side_effect=True)

    def writes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        x.fill_(1.0)

    with pytest.raises(Exception, match="read-only|readonly"):
        jax.block_until_ready(wp.jax_callable(writes, on_host=True)(jnp.arange(3.0)))


@wp.kernel
def whole_parts(x: wp.array(dtype=float), n: wp.array(dtype=int)):
    i = wp.tid()
    n[i] = int(x[i])


def find_whole_parts(x: wp.array(dtype=float), n: wp.array(dtype=int)):
    wp.launch(whole_parts, x.shape[0], [x, n])


def test_results_without_derivatives_send_zeros():
    found = wp.jax_callable(find_whole_parts, num_outputs=1, on_host=True)
    x = jnp.array([1.5, 2.5, 3.5])
    np.testing.assert_array_equal(jax.grad(lambda x: (x * found(x)[0]).sum())(x), [1.0, 2.0, 3.0])
