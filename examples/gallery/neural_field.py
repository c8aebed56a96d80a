"""A picture as a neural field

A network learns the colour of each place of a photograph. It is small, since it looks
up trained features in grids from coarse to fine, and large grids share the entries of a
hash table.

Group: Optimisation and learning
You learn: ``wp.torch_op`` with an output of another shape, between the parameters and
    the layers of a PyTorch model.
Check: derivatives agree with finite differences, and the picture comes back with 28 dB
    from a third of its numbers.
Method: T. Müller et al., "Instant neural graphics primitives with a multiresolution
    hash encoding", SIGGRAPH 2022.
Not timed: Warp has no ``torch_op``.
"""

from pathlib import Path

import numpy as np
import pictures
import torch

import warp_like as wp

LEVELS = 10
ENTRIES = 4096  # of a level's table; two numbers each
COARSE, FINER = 8.0, 1.45  # cells of the first grid; the next has FINER times as many


@wp.func
def entry_of(i: int, j: int, cells: int, level: int):
    """Return the row of a grid's corner in the tables; large grids share rows."""
    at = i * (cells + 1) + j
    if (cells + 1) * (cells + 1) > ENTRIES:
        mixed = wp.uint32(i) ^ (wp.uint32(j) * wp.uint32(2654435761))
        at = int(mixed % wp.uint32(ENTRIES))
    return level * ENTRIES + at


@wp.torch_op(
    dim=lambda table, places: (len(places), LEVELS),
    shapes={"features": lambda t, p: (len(p), 2 * LEVELS)},
)
@wp.kernel
def look_up(
    table: wp.array(dtype=wp.vec2),
    places: wp.array(dtype=wp.vec2),
    features: wp.array2d(dtype=float),
):
    """Write a level's two features at a place in the unit square, from four corners."""
    n, level = wp.tid()
    cells = int(COARSE * wp.pow(FINER, float(level)))
    x = places[n][0] * float(cells)
    y = places[n][1] * float(cells)
    i = wp.min(int(y), cells - 1)
    j = wp.min(int(x), cells - 1)
    x -= float(j)
    y -= float(i)
    a, b = table[entry_of(i, j, cells, level)], table[entry_of(i, j + 1, cells, level)]
    c = table[entry_of(i + 1, j, cells, level)]
    d = table[entry_of(i + 1, j + 1, cells, level)]
    top = (1.0 - x) * a + x * b
    below = (1.0 - x) * c + x * d
    found = (1.0 - y) * top + y * below
    features[n, 2 * level] = found[0]
    features[n, 2 * level + 1] = found[1]


class Field(torch.nn.Module):
    """The colours of places."""

    def __init__(self):
        super().__init__()
        table = torch.empty(LEVELS * ENTRIES, 2).uniform_(-1e-2, 1e-2)
        self.table = torch.nn.Parameter(table)
        layers = (
            torch.nn.Linear(2 * LEVELS, 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 32),
            torch.nn.ReLU(),
        )
        self.net = torch.nn.Sequential(*layers, torch.nn.Linear(32, 3))

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.net(look_up(self.table, places)))


def photograph(size: int) -> torch.Tensor:
    """Return Eileen Collins (NASA, public domain), shape (size, size, 3), 0 to 1."""
    from skimage import data, transform

    photo = data.astronaut()[:440, 20:460]
    small = transform.resize(photo, (size, size), anti_aliasing=True)
    return torch.tensor(small, dtype=torch.float32)


def slope_error(field: Field) -> float:
    """Return the relative error of a derivative along a random direction."""
    places, direction = torch.rand(500, 2), torch.randn_like(field.table)
    loss = look_up(field.table, places).square().sum()
    (gradient,) = torch.autograd.grad(loss, field.table)
    with torch.no_grad():
        ends = [
            look_up(field.table + s * direction, places).double().square().sum()
            for s in (1e-2, -1e-2)
        ]
    difference = (ends[0] - ends[1]) / 2e-2
    return float(abs((gradient.double() * direction).sum() / difference - 1.0))


def main(quick: bool, out: Path) -> None:
    torch.manual_seed(0)
    size, batch, shown = 288, 8000, (24, 80, 700)
    if quick:
        size, batch, shown = 64, 1024, (3, 12, 48)
    photo, field = photograph(size), Field()
    slope = slope_error(field)
    ticks = (torch.arange(size) + 0.5) / size
    places = torch.meshgrid(ticks, ticks, indexing="xy")
    places = torch.stack(places, dim=-1).reshape(-1, 2)
    optimiser = torch.optim.Adam(field.parameters(), lr=1e-2, eps=1e-15)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, shown[-1], 1e-3)
    images = []
    for step in pictures.progress(shown[-1], "step"):
        some = torch.randint(len(places), (batch,))
        optimiser.zero_grad()
        (field(places[some]) - photo.reshape(-1, 3)[some]).square().mean().backward()
        optimiser.step()
        schedule.step()
        if step + 1 in shown:
            images.append(field(places).detach().reshape(size, size, 3))
    error = 10.0 * np.log10(1.0 / (images[-1] - photo).square().mean().item())
    share = sum(p.numel() for p in field.parameters()) / photo.numel()
    print(
        f"{error:.1f} dB from {share:.0%} of the picture's numbers; "
        f"the derivative is off by {slope:.1e}"
    )
    pictures.require(slope < 1e-2, f"the derivative is off by {slope:.1e}")
    pictures.require(
        error > (15.0 if quick else 28.0),
        f"the picture comes back with {error:.1f} dB only",
    )
    pictures.save_png(
        out / "neural_field.png",
        (255.0 * torch.cat(images, dim=1).numpy()).astype(np.uint8),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers this small are no faster on several
    main(**pictures.options())
