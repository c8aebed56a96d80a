"""Arrays and grids of up to eight dimensions: kernels, gradients, views, copies, and other libraries' arrays."""

import numpy as np
import pytest

import warp_like as wp

SHAPE = (2, 3, 1, 2, 3, 2, 1, 5)


@wp.kernel
def square5(x: wp.array(dtype=float, ndim=5), y: wp.array(dtype=float, ndim=5)):
    i, j, k, m, n = wp.tid()
    y[i, j, k, m, n] = x[i, j, k, m, n] * x[i, j, k, m, n] + 10.0 * float(i) + float(n)


@wp.kernel
def square6(x: wp.array(dtype=float, ndim=6), y: wp.array(dtype=float, ndim=6)):
    i, j, k, m, n, o = wp.tid()
    y[i, j, k, m, n, o] = x[i, j, k, m, n, o] * x[i, j, k, m, n, o] + 10.0 * float(i) + float(o)


@wp.kernel
def square7(x: wp.array(dtype=float, ndim=7), y: wp.array(dtype=float, ndim=7)):
    i, j, k, m, n, o, p = wp.tid()
    y[i, j, k, m, n, o, p] = x[i, j, k, m, n, o, p] * x[i, j, k, m, n, o, p] + 10.0 * float(i) + float(p)


@wp.kernel
def square8(x: wp.array(dtype=float, ndim=8), y: wp.array(dtype=float, ndim=8)):
    i, j, k, m, n, o, p, q = wp.tid()
    y[i, j, k, m, n, o, p, q] = x[i, j, k, m, n, o, p, q] * x[i, j, k, m, n, o, p, q] + 10.0 * float(i) + float(q)


SQUARES = {5: square5, 6: square6, 7: square7, 8: square8}


@wp.kernel
def rows(x: wp.array(dtype=wp.float64, ndim=6), total: wp.array(dtype=wp.float64)):
    i, j, k, m, n, o = wp.tid()
    row = x[i, j]
    part = x[i, :, k, m, n, 0:2]
    wp.atomic_add(total, 0, row[k, m, n, o] * part[j, o] * wp.float64(x.shape[4]))


@wp.kernel(mode="debug")
def beyond(x: wp.array(dtype=float, ndim=6)):
    x[0, 0, 0, 0, wp.tid(), 0] = 1.0


def numbers(ndim, dtype=np.float32):
    return np.random.default_rng(ndim).normal(size=SHAPE[:ndim]).astype(dtype)


def squares(x):
    places = np.indices(x.shape)
    return x * x + 10 * places[0] + places[-1]


@pytest.mark.parametrize("ndim", SQUARES)
def test_kernels(ndim):
    x = numbers(ndim)
    for given in (x, x.T.copy().T, x[::-1], wp.array(x, dtype=float), wp.array(x.T, dtype=float).transpose()):
        y = np.zeros(x.shape, np.float32)
        wp.launch(SQUARES[ndim], dim=x.shape, inputs=[given], outputs=[y])
        expected = squares(given.numpy() if isinstance(given, wp.array) else given)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_gradients_through_views_and_slices():
    x = wp.array(numbers(6, np.float64), dtype=wp.float64, requires_grad=True)
    total = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rows, dim=x.shape, inputs=[x], outputs=[total])
    tape.backward(loss=total)
    values = x.numpy()
    np.testing.assert_allclose(total.numpy()[0], 3.0 * (values**2).sum())
    np.testing.assert_allclose(x.grad.numpy(), 6.0 * values)


def test_debug_mode_checks_every_dimension():
    x = wp.zeros(SHAPE[:6], dtype=float)
    with pytest.raises(IndexError, match="is out of range"):
        wp.launch(beyond, dim=4, inputs=[x])


@pytest.mark.parametrize("ndim", SQUARES)
def test_the_host(ndim):
    x = numbers(ndim)
    a = wp.array(x, dtype=float)
    assert (a.shape, a.ndim, a.strides) == (x.shape, ndim, x.strides)
    np.testing.assert_array_equal(a.transpose().numpy(), x.T)
    np.testing.assert_array_equal(a[1, ..., 0].numpy(), x[1, ..., 0])
    assert a[(0,) * ndim] == x[(0,) * ndim]
    b = wp.zeros(x.shape, dtype=float)
    b.fill_(2.0)
    b[1].fill_(3.0)
    b[:, 1:].assign(a[:, 1:])
    expected = np.full(x.shape, 2.0, np.float32)
    expected[1] = 3.0
    expected[:, 1:] = x[:, 1:]
    np.testing.assert_array_equal(b.numpy(), expected)
    np.testing.assert_allclose((a + b).numpy(), x + expected)
    np.testing.assert_array_equal(wp.clone(a.transpose()).numpy(), x.T)
    assert a.reshape(-1).shape == (x.size,)


@pytest.mark.parametrize("ndim", SQUARES)
def test_sums_and_casts_on_a_tape(ndim):
    x = wp.array(numbers(ndim), dtype=float, requires_grad=True).transpose()
    y = wp.zeros(x.shape, dtype=wp.float64, requires_grad=True)
    total = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.utils.array_cast(x, y)
        wp.utils.array_inner(y, y, out=total)
    tape.backward(loss=total)
    np.testing.assert_allclose(y.numpy(), x.numpy().astype(float))
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * x.numpy(), rtol=1e-6)


@pytest.mark.parametrize("ndim", SQUARES)
def test_pytorch(ndim):
    torch = pytest.importorskip("torch")
    op = wp.torch_op(SQUARES[ndim])
    x = torch.tensor(numbers(ndim), requires_grad=True)
    y = op(x)
    np.testing.assert_allclose(y.detach(), squares(x.detach().numpy()), rtol=1e-6)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2.0 * x.detach())
    shared = torch.utils.dlpack.from_dlpack(wp.array(numbers(ndim), dtype=float))
    np.testing.assert_array_equal(shared, numbers(ndim))
    assert wp.from_torch(x.detach().permute(*reversed(range(ndim)))).shape == x.shape[::-1]


@pytest.mark.parametrize("ndim", SQUARES)
def test_jax(ndim):
    jax = pytest.importorskip("jax")
    f = wp.jax_kernel(SQUARES[ndim], enable_backward=True)
    x = numbers(ndim)
    np.testing.assert_allclose(jax.jit(lambda x: f(x)[0])(x), squares(x), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: f(x)[0].sum())(x), 2.0 * x, rtol=1e-6)
    batch = np.stack([x, 2.0 * x])
    np.testing.assert_allclose(jax.vmap(lambda x: f(x)[0])(batch), [squares(x) for x in batch], rtol=1e-6)

    def doubled(x: wp.array(dtype=float, ndim=ndim), y: wp.array(dtype=float, ndim=ndim)):
        wp.copy(y, x)
        y[1:] = 2.0

    (y,) = wp.jax_callable(doubled)(x)
    np.testing.assert_array_equal(y[0], x[0])
    assert (np.asarray(y[1:]) == 2.0).all()
