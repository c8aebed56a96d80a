"""Operators of PyTorch and Paddle whose tensors do not fit together: refused, as the libraries' own operators do."""

from __future__ import annotations

import pytest

import warp_like as wp
from tests.interop.operator_kernels import f64, square_here, weighted


@wp.kernel
def product(x: wp.array(dtype=f64), w: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * w[i]


WORDS = "argument 2 `w`: index 2 is out of range for an array of shape"


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("grad", [False, True])
def test_torch(torch, grad):
    op = wp.torch_op(product)
    x, w = torch.ones(3, dtype=torch.float64, requires_grad=grad), torch.ones(2, dtype=torch.float64)
    for _ in range(2):
        with pytest.raises(IndexError, match=WORDS):
            op(x, w)
        assert op(x, torch.full_like(x, 2.0)).tolist() == [2.0, 2.0, 2.0]


def test_torch_batches(torch):
    op = wp.torch_op(product)
    x, w = torch.ones(5, 3, dtype=torch.float64), torch.ones(5, 2, dtype=torch.float64)
    for _ in range(2):
        with pytest.raises(IndexError, match=WORDS):
            torch.vmap(op)(x, w)
        assert torch.vmap(op)(x, x).sum() == 15.0
    for _ in range(2):
        with pytest.raises(IndexError, match=WORDS):
            torch.vmap(op, (0, None))(x, w[0])


def test_torch_gradients_of_batches(torch):
    op = wp.torch_op(weighted, shapes={"total": 1})
    x, w = torch.ones(4, 2, 3, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    for _ in range(2):
        with pytest.raises(IndexError, match=r"argument 2 `w`: index 2 is out of range for an array of shape \(2,\)"):
            torch.func.vmap(torch.func.grad(lambda x, w: op(x, w).sum()), (0, None))(x, w)
        x_grad = torch.func.vmap(torch.func.grad(lambda x, w: op(x, w).sum()), (0, None))(x, torch.ones(3).double())
        assert (x_grad == 1.0).all()


def test_torch_empty_tensors(torch):
    op = wp.torch_op(square_here, in_out=["x"])
    assert op(torch.ones(0, dtype=torch.float64)).shape == (0,)


def test_paddle():
    paddle = pytest.importorskip("paddle")
    op = wp.paddle_op(product)
    x, w = paddle.ones([3], "float64"), paddle.ones([2], "float64")
    for _ in range(2):
        with pytest.raises(IndexError, match=WORDS):
            op(x, w)
        assert op(x, x).tolist() == [1.0, 1.0, 1.0]
