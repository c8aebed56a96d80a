"""A column of water falls

Water is a crowd of particles that push each other where they are dense. A column of it
breaks down, runs against the far wall and comes back as a wave.

Group: Fluids
You learn: a list of the particles of each cell by counting and ``wp.utils.array_scan``,
    built anew in each step.
Check: densities agree with a sum over all pairs, the water keeps its density within 15
    %, and its energy never grows.
Method: J. Monaghan, "Simulating free surface flows with SPH", J. Comput. Phys. 110,
    1994; kernel of H. Wendland, 1995.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

# Sound is several times faster than the water, so that its density hardly changes.
GRAVITY, SOUND = 9.81, 25.0
VISCOSITY = 0.1
GAP, REACH = 0.009, 0.0234  # between particles, and how far they reach
COLUMNS, ROWS = 70, 44  # cells, each as wide as particles reach
WIDTH, HEIGHT = COLUMNS * REACH, ROWS * REACH
DT = 0.3 * REACH / SOUND


def density_of(x: np.ndarray) -> np.ndarray:
    """Return the density at each particle, by a sum over all pairs."""
    q = np.minimum(np.linalg.norm(x[:, None] - x, axis=2) / REACH, 1.0)
    return ((1.0 - q) ** 4 * (1.0 + 4.0 * q)).sum(axis=1)


REST = float(density_of(GAP * np.mgrid[-4:5, -4:5].reshape(2, -1).T).max())


@wp.func
def cell_of(x: wp.vec2, rim: int):
    """Return the cell of a place; with a rim of 1, it has neighbours on all sides."""
    column = wp.clamp(int(x[0] / REACH), rim, COLUMNS - 1 - rim)
    return column + COLUMNS * wp.clamp(int(x[1] / REACH), rim, ROWS - 1 - rim)


@wp.kernel
def count_particles(x: wp.array(dtype=wp.vec2), count: wp.array(dtype=int)):
    wp.atomic_add(count, cell_of(x[wp.tid()], 0), 1)


@wp.kernel
def sort_particles(
    x: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.vec2),
    end: wp.array(dtype=int),
    sorted: wp.array2d(dtype=wp.vec2),
):
    """Move a particle to the last free place of its cell; ``end`` becomes its begin."""
    i = wp.tid()
    place = wp.atomic_sub(end, cell_of(x[i], 0), 1) - 1
    sorted[0, place] = x[i]
    sorted[1, place] = v[i]


@wp.kernel
def find_density(
    x: wp.array(dtype=wp.vec2),
    start: wp.array(dtype=int),
    density: wp.array(dtype=float),
):
    """Add up the neighbours. Three cells side by side are one range of particles."""
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable that changes, for Warp too
    for row in range(-1, 2):
        cell = cell_of(x[i], 1) + row * COLUMNS
        for k in range(start[cell - 1], start[cell + 2]):
            q = wp.min(wp.length(x[i] - x[k]) / REACH, 1.0)
            total += (1.0 - q) * (1.0 - q) * (1.0 - q) * (1.0 - q) * (1.0 + 4.0 * q)
    density[i] = total / REST


@wp.kernel
def advance(
    x: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.vec2),
    density: wp.array(dtype=float),
    start: wp.array(dtype=int),
    new_x: wp.array(dtype=wp.vec2),
    new_v: wp.array(dtype=wp.vec2),
):
    """Push a particle by pressure, viscosity, gravity and the walls."""
    i = wp.tid()
    push = wp.vec2(0.0, 0.0)
    for row in range(-1, 2):
        cell = cell_of(x[i], 1) + row * COLUMNS
        for k in range(start[cell - 1], start[cell + 2]):
            d = x[i] - x[k]
            r2 = wp.dot(d, d)
            if r2 < REACH * REACH:
                p = 1.0 - wp.sqrt(r2) / REACH
                pressure = wp.max(density[i] - 1.0, 0.0) + wp.max(density[k] - 1.0, 0.0)
                closing = wp.min(wp.dot(v[i] - v[k], d), 0.0) * REACH
                closing /= r2 + 0.01 * REACH * REACH
                push += (SOUND * pressure - VISCOSITY * closing) * p * p * p * d
    push *= 20.0 * SOUND / (REACH * REACH * REST)
    u = v[i] + DT * (push - wp.vec2(0.0, GRAVITY))
    side = 0.25 * REACH  # from here on, the walls stop a particle
    if (x[i][0] < side and u[0] < 0.0) or (x[i][0] > WIDTH - side and u[0] > 0.0):
        u[0] = 0.0
    if (x[i][1] < side and u[1] < 0.0) or (x[i][1] > HEIGHT - side and u[1] > 0.0):
        u[1] = 0.0
    new_v[i] = u
    new_x[i] = x[i] + DT * u


class Scene:
    """A column of water at the left wall."""

    def __init__(self, quick: bool = False):
        wide, high = (0.15, 0.22) if quick else (0.5, 0.72)
        x = np.mgrid[0.5 * GAP : wide : GAP, 0.5 * GAP : high : GAP].reshape(2, -1).T
        self.count = len(x)
        self.x, self.v = wp.array(x, dtype=wp.vec2), wp.zeros(self.count, dtype=wp.vec2)
        self.sorted = wp.zeros((2, self.count), dtype=wp.vec2)
        self.density = wp.zeros(self.count, dtype=float)
        self.start = wp.zeros(COLUMNS * ROWS + 1, dtype=int)

    def step(self) -> None:
        self.start.zero_()
        wp.launch(count_particles, dim=self.count, inputs=[self.x, self.start])
        wp.utils.array_scan(self.start, self.start, inclusive=True)
        x, v = self.sorted[0], self.sorted[1]
        wp.launch(
            sort_particles,
            dim=self.count,
            inputs=[self.x, self.v, self.start, self.sorted],
        )
        wp.launch(find_density, dim=self.count, inputs=[x, self.start, self.density])
        wp.launch(
            advance,
            dim=self.count,
            inputs=[x, v, self.density, self.start, self.x, self.v],
        )

    def energy(self) -> float:
        motion = 0.5 * (self.v.numpy() ** 2).sum(axis=1)
        return float((motion + GRAVITY * self.x.numpy()[:, 1]).sum())


def main(quick: bool, out: Path) -> None:
    scene, frames, densest = Scene(quick), [], 0.0
    energies, size = [scene.energy()], (360, 226)
    for _ in pictures.progress(6 if quick else 60):
        canvas = pictures.Canvas(*size)
        speed = np.linalg.norm(scene.v.numpy(), axis=1)
        shades = pictures.colours(speed, "ice", -1.2, 3.6)
        canvas.dots(
            (scene.x.numpy() * (1, -1) / (WIDTH, HEIGHT) + (0, 1)) * size, shades, 1.6
        )
        frames.append(canvas.pixels())
        for _ in range(100):
            scene.step()
        energies.append(scene.energy())
        densest = max(densest, scene.density.numpy().max())
    exact = density_of(scene.sorted.numpy()[0])
    error = np.abs(scene.density.numpy() * REST - exact).max()
    print(
        f"Densities are off by {error:.1e}; "
        f"water is pressed by {densest - 1.0:.1%} at most"
    )
    pictures.require(error < 1e-4, f"densities are off by {error:.1e}")
    pictures.require(densest < 1.15, f"water is pressed by {densest - 1.0:.1%}")
    pictures.require(
        max(np.diff(energies)) < 1e-3 * energies[0], f"the energy grew: {energies}"
    )
    pictures.save_gif(out / "water_column.gif", frames, seconds=3.6, shades=24)


if __name__ == "__main__":
    main(**pictures.options())
