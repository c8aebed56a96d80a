"""Where a backward pass starts: arrays, and the tensors that launches were given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp

torch = pytest.importorskip("torch")


@wp.kernel
def sum_of_squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def squares(x: wp.array(dtype=wp.vec2), y: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    y[i] = wp.cw_mul(x[i], x[i])


def record(x: Any, y: Any, kernel: Any = sum_of_squares, n: int = 2) -> wp.Tape:
    with wp.Tape() as tape:
        wp.launch(kernel, dim=n, inputs=[x], outputs=[y])
    return tape


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_tensor_as_loss(shape: tuple[int, ...], requires_grad: bool) -> None:
    for _ in range(2):
        x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.zeros(shape, requires_grad=requires_grad)
        tape = record(x, y)
        if requires_grad:
            tape.backward(loss=y)
        else:
            with pytest.raises(ValueError, match="starts from arrays with requires_grad=True"):
                tape.backward(loss=y)
            tape.backward(grads={y: torch.ones(1)})
        assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("seed", [torch.tensor([3.0]), wp.full(1, 3.0, dtype=float), np.array([3.0], np.float32)])
def test_tensors_with_adjoints(seed: Any) -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.zeros(1, requires_grad=True)
    record(x, y).backward(grads={y: seed})
    assert x.grad.tolist() == [6.0, 12.0]


def test_vectors_over_a_tensor() -> None:
    x, y = torch.tensor([[1.0, 2.0]], requires_grad=True), torch.zeros(1, 2)
    record(x, y, squares, 1).backward(grads={y: torch.tensor([[1.0, 10.0]])})
    assert x.grad.tolist() == [[2.0, 40.0]]


def test_a_paddle_tensor_as_loss() -> None:
    paddle = pytest.importorskip("paddle")
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y = paddle.to_tensor([0.0], stop_gradient=False)
    record(x, y).backward(loss=y)
    assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_what_is_no_array_is_refused_with_what_to_write() -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.zeros(1, requires_grad=True)
    tape = record(x, y)
    with pytest.raises(TypeError, match=r"wrap it, as in tape.backward\(loss=wp.from_torch\(y\)\)"):
        tape.backward(loss="y")
    with pytest.raises(TypeError, match=r"wrap it, as in tape.backward\(grads=\{wp.from_torch\(y\): g\}\)"):
        tape.backward(grads={"y": torch.ones(1)})
    with pytest.raises(ValueError, match="takes a loss of one element"):
        tape.backward(loss=torch.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match=r"an adjoint of shape \(2,\) was given for an array of shape \(1,\)"):
        tape.backward(grads={y: torch.ones(2)})
    assert x.grad is None or not x.grad.any()
