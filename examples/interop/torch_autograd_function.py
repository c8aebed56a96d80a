"""Minimise Rosenbrock's function with a kernel inside a ``torch.autograd.Function``.

The forward launches the kernel on PyTorch's tensors; the backward launches its adjoint.
See ``torch_one_line.py`` for the same in one line.
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


class Rosenbrock(torch.autograd.Function):
    """(n, 2) points to (n) values."""

    @staticmethod
    def forward(ctx, xy):
        z = torch.empty(len(xy), dtype=xy.dtype)
        wp.launch(rosenbrock, dim=len(xy), inputs=[xy], outputs=[z])
        ctx.save_for_backward(xy, z)
        return z

    @staticmethod
    def backward(ctx, grad_z):
        xy, z = ctx.saved_tensors
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


def main(steps: int = 3000) -> float:
    """Run the optimisation and return the final mean."""
    torch.manual_seed(0)
    xy = torch.rand(10, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Rosenbrock.apply, (xy,))
    opt = torch.optim.Adam([xy], lr=0.05)
    for _ in trange(steps, unit="step", leave=False):
        opt.zero_grad()
        loss = Rosenbrock.apply(xy).mean()
        loss.backward()
        opt.step()
    print(f"mean after {steps} steps: {loss.item():.3e}")
    assert loss.item() < 1.0e-3
    return loss.item()


if __name__ == "__main__":
    main()
