"""A column of sand

A column of sand breaks down and comes to rest as a heap. Grains slide where they are
pushed sideways harder than their friction allows.

Group: Solids
You learn: material points in three dimensions, ``wp.svd3``, and vectors of four numbers
    added by atomics.
Check: the grid has the mass of the sand, the energy never grows, and the heap is less
    steep than friction allows.
Method: G. Klar et al., "Drucker-Prager elastoplasticity for sand animation", ACM TOG
    35, 2016; Y. Hu et al., "A moving least squares material point method", ACM TOG 37,
    2018.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

DT, GRAVITY = 2.5e-4, 9.8
MU, LAMBDA = 420.0, 280.0  # Lame's parameters for a density of 1
FRICTION = 35.0  # degrees
SINE = np.sin(np.radians(FRICTION))
ALPHA = float(np.sqrt(2.0 / 3.0) * 2.0 * SINE / (3.0 - SINE))


@wp.struct
class Grain:
    x: wp.vec3
    v: wp.vec3
    affine: wp.mat33  # how the velocity changes around the grain
    deformation: wp.mat33


@wp.func
def spline(f: float, k: int):
    """Return the weight of node ``k`` (0 to 2) for a grain ``f`` cells after node 0."""
    d = wp.abs(f - float(k))
    return wp.where(d < 0.5, 0.75 - d * d, 0.5 * (1.5 - d) * (1.5 - d))


@wp.func
def slide(s: wp.vec3):
    """Return logarithms of stretches, after the grains slid where friction let them."""
    e = wp.vec3(wp.log(s[0]), wp.log(s[1]), wp.log(s[2]))
    volume = e[0] + e[1] + e[2]
    sideways = e - wp.vec3(volume / 3.0, volume / 3.0, volume / 3.0)
    size = wp.length(sideways)
    excess = wp.max(size + (3.0 * LAMBDA + 2.0 * MU) / (2.0 * MU) * volume * ALPHA, 0.0)
    e -= excess / wp.max(size, 1.0e-9) * sideways
    # Grains that part have no stress.
    return wp.where(volume < 0.0, e, wp.vec3(0.0, 0.0, 0.0))


@wp.kernel
def to_grid(grains: wp.array(dtype=Grain), grid: wp.array3d(dtype=wp.vec4)):
    """Deform a grain, and add its momentum and mass (1) to 27 grid nodes."""
    g = grains[wp.tid()]
    n = float(grid.shape[0])
    u, s, v = wp.svd3(g.deformation + DT * g.affine * g.deformation)
    e = slide(s)
    stretch = wp.vec3(wp.exp(e[0]), wp.exp(e[1]), wp.exp(e[2]))
    g.deformation = u * wp.diag(stretch) * wp.transpose(v)
    grains[wp.tid()] = g
    stress = 2.0 * MU * e + LAMBDA * (e[0] + e[1] + e[2]) * wp.vec3(1.0, 1.0, 1.0)
    moved = g.affine - (4.0 * DT * n * n) * (u * wp.diag(stress) * wp.transpose(u))
    i = int(g.x[0] * n - 0.5)
    j = int(g.x[1] * n - 0.5)
    k = int(g.x[2] * n - 0.5)
    at = g.x * n - wp.vec3(float(i), float(j), float(k))
    for a in range(3):
        for b in range(3):
            for c in range(3):
                away = wp.vec3(float(a), float(b), float(c)) - at
                near = g.v + moved * away / n
                weight = spline(at[0], a) * spline(at[1], b) * spline(at[2], c)
                added = weight * wp.vec4(near[0], near[1], near[2], 1.0)
                wp.atomic_add(grid, i + a, j + b, k + c, added)


@wp.kernel
def from_grid(grid: wp.array3d(dtype=wp.vec4), grains: wp.array(dtype=Grain)):
    """Gather velocity and its gradient from 27 nodes under gravity, and move."""
    g = grains[wp.tid()]
    n = float(grid.shape[0])
    i = int(g.x[0] * n - 0.5)
    j = int(g.x[1] * n - 0.5)
    k = int(g.x[2] * n - 0.5)
    at = g.x * n - wp.vec3(float(i), float(j), float(k))
    g.v = wp.vec3(0.0, 0.0, 0.0)
    g.affine = wp.mat33(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for a in range(3):
        for b in range(3):
            for c in range(3):
                node = grid[i + a, j + b, k + c]
                node /= wp.max(node[3], 1.0e-9)
                u = wp.vec3(node[0], node[1], node[2] - DT * GRAVITY)
                if k + c < 3:
                    u = wp.vec3(0.0, 0.0, 0.0)  # the rough ground
                weight = spline(at[0], a) * spline(at[1], b) * spline(at[2], c)
                g.v += weight * u
                away = wp.vec3(float(a), float(b), float(c)) - at
                g.affine += (4.0 * n * weight) * wp.outer(u, away)
    g.x += DT * g.v
    grains[wp.tid()] = g


class Scene:
    """A round column in layers."""

    def __init__(self, quick: bool = False):
        n, self.count = (24, 600) if quick else (48, 9000)
        random = np.random.default_rng(0).uniform(size=(4, self.count))
        angle, radius, height, light = random * [[2.0 * np.pi], [1.0], [0.36], [0.3]]
        x, y = 0.5 + 0.12 * np.sqrt(radius) * (np.cos(angle), np.sin(angle))
        start = np.zeros(self.count, dtype=Grain.numpy_dtype())
        start["x"] = np.stack([x, y, height + 2.5 / n], axis=1)
        start["deformation"] = np.eye(3)
        layers = pictures.palette("dunes", 9)[(height * 25.0).astype(int)]
        self.shades = layers * (1.0 - light[:, None])
        self.grains = wp.array(start, dtype=Grain)
        self.grid = wp.zeros((n, n, n), dtype=wp.vec4)

    def step(self) -> None:
        self.grid.zero_()
        wp.launch(to_grid, dim=self.count, inputs=[self.grains], outputs=[self.grid])
        wp.launch(from_grid, dim=self.count, inputs=[self.grid], outputs=[self.grains])

    def state(self) -> tuple[np.ndarray, float]:
        """Return places from the ground's middle, and kinetic plus potential energy."""
        g = self.grains.numpy()
        x = g["x"] - (0.5, 0.5, 2.0 / self.grid.shape[0])
        return x, float((0.5 * (g["v"] ** 2).sum(axis=1) + GRAVITY * x[:, 2]).sum())

    def draw(self) -> np.ndarray:
        x = self.state()[0]
        order = np.argsort(-x[:, 1])  # the farthest grains first
        down = 185.0 - 440.0 * x[:, 2] - 170.0 * x[:, 1]
        places = np.stack([180.0 + 480.0 * x[:, 0], down], axis=1)
        shades = self.shades * np.clip(0.95 - 0.9 * x[:, 1], 0.3, 1.2)[:, None]
        canvas = pictures.Canvas(360, 248)
        canvas.dots(places[order], np.clip(shades, 0, 255).astype(int)[order], 2.2)
        return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene, frames, energies = Scene(quick), [], []
    for _ in pictures.progress(4 if quick else 36):
        frames.append(scene.draw())
        energies.append(scene.state()[1])
        for _ in range(45):
            scene.step()
    x, mass = scene.state()[0], float(scene.grid.numpy()[..., 3].sum(dtype=float))
    radius = np.quantile(np.hypot(x[:, 0], x[:, 1]), 0.98)
    slope = np.degrees(np.arctan2(x[:, 2].max(), radius))
    print(
        f"The heap rises by {slope:.1f} degrees; "
        f"{energies[-1] / energies[0]:.0%} of the energy is left"
    )
    pictures.require(
        abs(mass / scene.count - 1.0) < 1e-4,
        f"the mass on the grid is {mass:.2f}, not {scene.count}",
    )
    pictures.require(
        max(np.diff(energies)) < 1e-3 * energies[0], f"the energy grew: {energies}"
    )
    pictures.require(
        quick or 10.0 < slope < FRICTION, f"the heap rises by {slope:.1f} degrees"
    )
    pictures.save_gif(out / "sand.gif", frames, seconds=3.0, shades=32)


if __name__ == "__main__":
    main(**pictures.options())
