"""Operators of PyTorch and Paddle whose kernels run in blocks of several threads on the CPU."""

import numpy as np
import pytest

import warp_like as wp
from tests.interop.block_kernels import centred, centred_np, moments, moments_np
from tests.long_tail import crossed
from tests.runtime.launching.test_cpu_blocks import cpu_blocks

torch = pytest.importorskip("torch")


def numbers(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


def made(kernel, **how):
    with cpu_blocks():
        return wp.torch_op(kernel, name=f"blocks::{kernel.key}", **how)


@pytest.mark.parametrize(("threads", "n"), crossed([None, 1, 2, 31], [1, 4, 7, 130], every=2))
def test_each_block_is_centred(threads, n):
    op = made(centred, block_dim=threads)
    x = torch.tensor(numbers(n), requires_grad=True)
    np.testing.assert_allclose(op(x).detach(), centred_np(numbers(n), threads or 1), atol=1e-12)
    weights = numbers(n, 1)
    (op(x) * torch.tensor(weights)).sum().backward()
    # centring is symmetric: its gradient centres the weights
    np.testing.assert_allclose(x.grad, centred_np(weights, threads or 1), atol=1e-12)


def test_all_derivatives_see_the_same_blocks():
    op = made(moments, block_dim=4, shapes={"out": 3}, dim=lambda x: 10)
    x = torch.tensor(numbers(10), requires_grad=True)
    np.testing.assert_allclose(op(x).detach(), moments_np(numbers(10), 4))
    assert torch.autograd.gradcheck(op, x)
    assert torch.autograd.gradgradcheck(op, x)
    one = torch.tensor(numbers(10, 3))
    _, tangent = torch.func.jvp(op, (x.detach(),), (one,))
    (gradient,) = torch.autograd.grad(op(x).sum(), x)
    np.testing.assert_allclose(tangent.sum(), gradient @ one)


def test_batches_and_compiled_functions():
    op = made(centred, block_dim=4)
    many = numbers((3, 10))
    expected = [centred_np(row, 4) for row in many]
    np.testing.assert_allclose(torch.vmap(op)(torch.tensor(many)), expected, atol=1e-12)
    gradient = torch.func.vmap(torch.func.grad(lambda x: op(x)[0]))(torch.tensor(many))
    np.testing.assert_allclose(gradient, np.tile(centred_np(np.eye(10)[0], 4), (3, 1)), atol=1e-12)
    compiled = torch.compile(lambda x: op(x) * 2.0, fullgraph=True, backend="aot_eager")
    np.testing.assert_allclose(compiled(torch.tensor(many[0])), 2.0 * expected[0], atol=1e-12)


def test_blocks_are_those_of_the_setting_when_the_operator_was_made():
    alone = wp.torch_op(centred, block_dim=4, name="blocks::alone")
    together = made(centred, block_dim=4)
    x = torch.tensor(numbers(6))
    for enabled in (False, True):
        with cpu_blocks(enabled):
            np.testing.assert_array_equal(alone(x), np.zeros(6))
            np.testing.assert_allclose(together(x), centred_np(numbers(6), 4), atol=1e-12)


def test_generic_kernels_and_what_only_asks():
    @wp.kernel
    def sizes(x: wp.array(dtype=wp.Any), y: wp.array(dtype=wp.Any)):
        i = wp.tid()
        y[i] = x[i] * x.dtype(wp.block_dim())

    op = made(sizes, block_dim=8)
    for dtype in (torch.float32, torch.float64):
        x = torch.ones(3, dtype=dtype, requires_grad=True)
        op(x).sum().backward()
        assert op(x).tolist() == x.grad.tolist() == [8.0] * 3


def test_refusals():
    with pytest.raises(ValueError, match=r"torch_op\(centred\): a block has 1 to 1024 threads, got block_dim=2000"):
        wp.torch_op(centred, block_dim=2000)
    with pytest.raises(TypeError, match=r"torch_op\(centred\): block_dim takes an int, got str '4'"):
        wp.torch_op(centred, block_dim="4")

    def several(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.copy(y, x)

    with pytest.raises(ValueError, match=r"torch_op\(several\): a function gives block_dim to the launches"):
        wp.torch_op(several, outputs="y", block_dim=4)


def test_paddle():
    paddle = pytest.importorskip("paddle")
    with cpu_blocks():
        op = wp.paddle_op(centred, block_dim=4)
    x = paddle.to_tensor(numbers(10))
    x.stop_gradient = False
    y = op(x)
    np.testing.assert_allclose(y.numpy(), centred_np(numbers(10), 4), atol=1e-12)
    (y * paddle.to_tensor(numbers(10, 1))).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), centred_np(numbers(10, 1), 4), atol=1e-12)
