"""Kernels in PyTorch programs: tapes with optimizers in both directions, and an autograd.Function."""

import numpy as np
import pytest

import warp_like as wp

torch = pytest.importorskip("torch")


@wp.func
def square(v: float):
    return v * v


@wp.kernel
def loss(xs: wp.array2d[float], total: wp.array(dtype=float)):
    tid = wp.tid()
    wp.atomic_add(total, 0, square(xs[tid, 0]) + square(xs[tid, 1]))


@wp.kernel
def cube(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


def train(xs, total, opt, zero, steps=150):
    tape = wp.Tape()
    with tape:
        wp.launch(loss, dim=len(xs), inputs=[xs], outputs=[total])
    for _ in range(steps):
        zero(tape)
        tape.backward(loss=total)
        assert np.allclose(xs.grad.numpy(), 2 * xs.numpy(), rtol=1e-5)
        opt.step()
        total.zero_()
        wp.launch(loss, dim=len(xs), inputs=[xs], outputs=[total])
    return float(total.numpy()[0])


@pytest.mark.parametrize("direction", ["tensor", "array"])
@pytest.mark.parametrize("how", ["tape.zero", "opt.zero_grad", "keep the memory"])
def test_adam_moves_all_points_to_the_origin(direction, how):
    start = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    if direction == "tensor":
        t = torch.tensor(start, requires_grad=True)
        xs, total = wp.from_torch(t), wp.from_torch(torch.zeros(1, requires_grad=True))
    else:
        xs, total = wp.array(start, requires_grad=True), wp.zeros(1, requires_grad=True)
        t = wp.to_torch(xs)
    opt = torch.optim.Adam([t], lr=0.1)
    zero = {
        "tape.zero": lambda tape: tape.zero(),
        "opt.zero_grad": lambda tape: opt.zero_grad(),
        "keep the memory": lambda tape: opt.zero_grad(set_to_none=False),
    }[how]
    assert train(xs, total, opt, zero) < 1e-3
    assert t.grad.data_ptr() == xs.grad.ptr
    assert np.abs(t.detach().numpy()).max() < 0.02


def test_gradients_of_torch_and_of_a_tape_add_up():
    t = torch.ones(4, 2, requires_grad=True)
    xs, total = wp.from_torch(t), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss, dim=4, inputs=[xs], outputs=[total])
    (3 * t).sum().backward()
    tape.backward(loss=total)
    assert (t.grad == 5).all()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.zeros_like(x)
        ctx.x, ctx.y = wp.from_torch(x), wp.from_torch(y, requires_grad=True)
        wp.launch(cube, dim=len(x), inputs=[ctx.x], outputs=[ctx.y])
        return y

    @staticmethod
    def backward(ctx, g):
        ctx.x.grad.zero_()
        ctx.y.grad = wp.from_torch(g.contiguous())
        wp.launch(
            cube,
            dim=len(ctx.x),
            inputs=[ctx.x],
            outputs=[ctx.y],
            adj_inputs=[ctx.x.grad],
            adj_outputs=[ctx.y.grad],
            adjoint=True,
        )
        return wp.to_torch(ctx.x.grad).clone()


def test_autograd_function():
    x = torch.arange(1, 5, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(Cube.apply, (x,))
    x.grad = None
    Cube.apply(2 * x).sum().backward()
    assert torch.allclose(x.grad, 24 * x.detach() ** 2)
    Cube.apply(2 * x).sum().backward()
    assert torch.allclose(x.grad, 48 * x.detach() ** 2), "gradients add up, each once"


def test_launch_on_tensors_and_numpy_arrays_without_conversion():
    x, y = torch.arange(4, dtype=torch.float64), np.zeros(8)
    wp.launch(cube, dim=4, inputs=[x, y[::2]])
    assert y.tolist() == [0, 0, 1, 0, 8, 0, 27, 0]
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        wp.launch(cube, dim=4, inputs=[x, y])
