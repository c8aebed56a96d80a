"""Rosenbrock's function as an operator of PyTorch in one line, and compiled.

``torch_autograd_function.py`` and ``torch_custom_op.py`` show what the line replaces.
"""

import torch
from tqdm import trange

import warp_like as wp


@wp.torch_op
@wp.kernel
def rosenbrock(xy: wp.array(dtype=wp.vec2d), z: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x = xy[i][0]
    y = xy[i][1]
    a = wp.float64(1.0) - x
    b = y - x * x
    z[i] = a * a + wp.float64(100.0) * b * b


def main(steps: int = 3000, backend: str = "inductor") -> float:
    """Run the optimisation and return the final mean."""
    torch.manual_seed(0)
    xy = torch.rand(10, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(rosenbrock, (xy,))

    loss_of = torch.compile(
        lambda points: rosenbrock(points).mean(), fullgraph=True, backend=backend
    )
    opt = torch.optim.Adam([xy], lr=0.05)
    for _ in trange(steps, unit="step", leave=False):
        opt.zero_grad()
        loss = loss_of(xy)
        loss.backward()
        opt.step()
    print(f"mean after {steps} steps: {loss.item():.3e}")
    assert loss.item() < 1.0e-3

    batch = torch.zeros(3, 10, 2, dtype=torch.float64)
    gradient = torch.func.grad(lambda points: rosenbrock(points).sum())
    gradients = torch.vmap(gradient)(batch)
    expected = torch.tensor([-2.0, 0.0], dtype=torch.float64)
    assert torch.equal(gradients, expected.expand(3, 10, 2))
    return loss.item()


if __name__ == "__main__":
    main()
