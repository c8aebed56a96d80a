"""Arrays and grids of up to eight dimensions on a CUDA device."""

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def square6(x: wp.array(dtype=float, ndim=6), y: wp.array(dtype=float, ndim=6)):
    i, j, k, m, n, o = wp.tid()
    y[i, j, k, m, n, o] = x[i, j, k, m, n, o] * x[i, j, k, m, n, o] + 10.0 * float(i) + float(o)


@wp.kernel
def square8(x: wp.array(dtype=float, ndim=8), y: wp.array(dtype=float, ndim=8)):
    i, j, k, m, n, o, p, q = wp.tid()
    y[i, j, k, m, n, o, p, q] = x[i, j, k, m, n, o, p, q] * x[i, j, k, m, n, o, p, q] + 10.0 * float(i) + float(q)


@pytest.mark.parametrize("kernel", [square6, square8])
def test_kernels_copies_and_gradients(kernel, device):
    shape = (2, 3, 1, 2, 3, 2, 1, 5)[: int(kernel.key[-1])]
    numbers = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x = wp.array(numbers, dtype=float, device=device, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=shape, inputs=[x], outputs=[y], device=device)
    places = np.indices(shape)
    np.testing.assert_allclose(y.numpy(), numbers * numbers + 10 * places[0] + places[-1], rtol=1e-6)
    tape.backward(grads={y: wp.ones(shape, dtype=float, device=device)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * numbers, rtol=1e-6)
    turned = wp.zeros(shape, dtype=float, device=device)
    wp.copy(turned[1], x[1])
    np.testing.assert_array_equal(turned.numpy()[1], numbers[1])
    assert not turned.numpy()[0].any()
    wp.copy(turned.transpose(), x.transpose())
    np.testing.assert_array_equal(turned.numpy(), numbers)
