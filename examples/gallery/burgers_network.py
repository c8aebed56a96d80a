"""A network that obeys a law of physics

A small PyTorch network learns a flow that steepens to a shock. It sees no data but the
start: its loss is how badly it breaks Burgers' equation, and that is a kernel.

Group: Optimisation and learning
You learn: ``wp.torch_op``, which makes a kernel a differentiable operator, within a
    model and an optimiser of PyTorch.
Check: the network agrees with the exact solution of Cole and Hopf (a mean error below
    0.02; 0.2 in quick mode).
Method: M. Raissi, P. Perdikaris, G. Karniadakis, "Physics-informed neural networks", J.
    Comput. Phys. 378, 2019; here with differences on a grid in place of derivatives of
    the network.
Not timed: Warp has no ``torch_op``.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pictures
import torch

import warp_like as wp

VISCOSITY = 0.03


@wp.torch_op
@wp.kernel
def residual(
    u: wp.array2d(dtype=float), dt: float, dx: float, wrong: wp.array2d(dtype=float)
):
    """Write du/dt + u du/dx - viscosity d2u/dx2 between two moments, off the border."""
    k, i = wp.tid()
    if k + 1 < u.shape[0] and i > 0 and i + 1 < u.shape[1]:
        left = 0.5 * (u[k, i - 1] + u[k + 1, i - 1])
        here = 0.5 * (u[k, i] + u[k + 1, i])
        right = 0.5 * (u[k, i + 1] + u[k + 1, i + 1])
        change = (u[k + 1, i] - u[k, i]) / dt
        carried = 0.25 * (right * right - left * left) / dx
        spread = VISCOSITY * (left - 2.0 * here + right) / (dx * dx)
        wrong[k, i] = change + carried - spread


class Flow(torch.nn.Module):
    """The velocity at times and places, with the right start and zero at both ends."""

    def __init__(self):
        super().__init__()
        sizes = (2, 24, 24, 24, 1)
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
        steps = [m for layer in layers for m in (layer, torch.nn.Tanh())]
        self.net = torch.nn.Sequential(*steps[:-1])

    def forward(self, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        free = self.net(torch.stack([2.0 * t - 1.0, x], dim=-1))[..., 0]
        return -torch.sin(torch.pi * x) + t * (1.0 - x * x) * free


def exact(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the solution of Cole and Hopf, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(80)
    at = x[..., None] - np.sqrt(4.0 * VISCOSITY * t[..., None]) * nodes
    shares = weights * np.exp(-np.cos(np.pi * at) / (2.0 * np.pi * VISCOSITY))
    return -(shares * np.sin(np.pi * at)).sum(axis=-1) / shares.sum(axis=-1)


def train(flow: Flow, t: torch.Tensor, x: torch.Tensor, steps: int) -> float:
    """Make the residual small, and return its mean square."""
    dt, dx = float(t[1, 0] - t[0, 0]), float(x[0, 1] - x[0, 0])
    optimiser = torch.optim.LBFGS(
        flow.parameters(),
        max_iter=steps,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_change=0.0,
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = residual(flow(t, x), dt, dx).square().mean()
        value.backward()
        return value

    optimiser.step(loss)
    return loss().item()


def draw(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the flow over time; below it are five moments, the exact ones as dots."""
    height, width = 150, 720
    image = pictures.Canvas(width, height + 270, "#0b0f1a")
    shades = pictures.palette("fire", 9)[3:8].astype(int)
    moments = np.linspace(0, len(found) - 1, 5).astype(int)
    for k, shade in zip(moments, shades, strict=True):
        places = np.linspace(10.0, width - 10.0, found.shape[1])
        curve = np.stack([places, height + 135.0 - 115.0 * found[k]], axis=1)
        image.lines(curve[None], tuple(shade.tolist()), 2.0)
        dots = np.stack([places, height + 135.0 - 115.0 * truth[k]], axis=1)[::4]
        image.dots(dots, np.full((len(dots), 3), 240), 1.7)
    pixels = image.pixels().copy()
    smooth = torch.nn.functional.interpolate(
        torch.tensor(found)[None, None], (height, width), mode="bicubic"
    )
    pixels[:height] = pictures.colours(smooth[0, 0].numpy(), "storm", -1.0, 1.0)
    return pixels


def main(quick: bool, out: Path) -> None:
    torch.manual_seed(2)
    moments, places = (24, 49) if quick else (64, 129)
    t, x = torch.linspace(0.0, 0.8, moments), torch.linspace(-1.0, 1.0, places)
    t, x = torch.meshgrid(t, x, indexing="ij")
    flow = Flow()
    law = train(flow, t, x, 40 if quick else 600)
    found = flow(t, x).detach().numpy()
    truth = exact(t.numpy().astype(float), x.numpy().astype(float))
    error = float(np.abs(found - truth).mean())
    print(f"Mean square of the residual: {law:.2e}; mean error: {error:.4f}")
    limit = 0.2 if quick else 0.02
    pictures.require(error < limit, f"the network is off by {error:.4f} on average")
    pictures.save_png(out / "burgers_network.png", draw(found, truth))


if __name__ == "__main__":
    main(**pictures.options())
