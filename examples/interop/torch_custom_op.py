"""Rosenbrock's function as a custom operator by ``torch.library``, and compiled.

An operator has a schema, a rule for shapes (its "fake" implementation) and a rule for
gradients, so that the compiler need not look inside. See ``torch_one_line.py`` for the
same in one line.
"""

import torch
from tqdm import trange

import warp_like as wp


@wp.kernel
def rosenbrock(xy: wp.array(dtype=wp.vec2d), z: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x = xy[i][0]
    y = xy[i][1]
    a = wp.float64(1.0) - x
    b = y - x * x
    z[i] = a * a + wp.float64(100.0) * b * b


@torch.library.custom_op("examples::rosenbrock", mutates_args=())
def rosenbrock_op(xy: torch.Tensor) -> torch.Tensor:
    """(n, 2) points to (n) values."""
    z = torch.empty(len(xy), dtype=xy.dtype)
    wp.launch(rosenbrock, dim=len(xy), inputs=[xy], outputs=[z])
    return z


@rosenbrock_op.register_fake
def _(xy):
    return xy.new_empty(len(xy))


@torch.library.custom_op("examples::rosenbrock_backward", mutates_args=())
def rosenbrock_backward(
    xy: torch.Tensor, z: torch.Tensor, grad_z: torch.Tensor
) -> torch.Tensor:
    """The gradient for the points from that for the values."""
    grad_xy = torch.zeros_like(xy)
    wp.launch(
        rosenbrock,
        dim=len(xy),
        inputs=[xy],
        outputs=[z],
        adj_inputs=[grad_xy],
        adj_outputs=[grad_z],
        adjoint=True,
    )
    return grad_xy


@rosenbrock_backward.register_fake
def _(xy, z, grad_z):
    return torch.empty_like(xy)


def setup_context(ctx, inputs, output):
    """Save what the backward needs."""
    ctx.save_for_backward(inputs[0], output)


def backward(ctx, grad_z):
    """Call the backward's operator."""
    return rosenbrock_backward(*ctx.saved_tensors, grad_z)


rosenbrock_op.register_autograd(backward, setup_context=setup_context)


def mean(xy: torch.Tensor) -> torch.Tensor:
    """The loss, of which the compiler sees one graph."""
    return rosenbrock_op(xy).mean()


def main(steps: int = 3000, backend: str = "inductor") -> float:
    """Run the optimisation and return the final mean."""
    torch.manual_seed(0)
    xy = torch.rand(10, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(rosenbrock_op, (xy,))
    torch.library.opcheck(rosenbrock_op, (xy,))
    compiled = torch.compile(mean, fullgraph=True, backend=backend)
    opt = torch.optim.Adam([xy], lr=0.05)
    for _ in trange(steps, unit="step", leave=False):
        opt.zero_grad()
        loss = compiled(xy)
        loss.backward()
        opt.step()
    print(f"mean after {steps} steps: {loss.item():.3e}")
    assert loss.item() < 1.0e-3
    return loss.item()


if __name__ == "__main__":
    main()
