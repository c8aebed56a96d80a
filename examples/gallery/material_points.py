"""Jelly, water and snow

A wall of water breaks in a box, and jelly and a snowball fall into it. Particles carry
the material; a grid, built anew in each step, lets them push each other.

Group: Solids
You learn: an array of structs, atomic additions from many threads, and ``wp.svd2`` of
    matrices.
Check: the snowball falls as a stone does, nothing leaves the box, and the sum of all
    energies never grows.
Method: Y. Hu et al., "A moving least squares material point method", ACM TOG 37, 2018
    (MLS-MPM); snow by A. Stomakhin et al., "A material point method for snow
    simulation", ACM TOG 32, 2013.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

DT, GRAVITY = 1.0e-4, 9.8
MU, LAMBDA = 240.0, 390.0  # Lame's parameters for a density of 1
SOFT = 0.3  # the share of them that jelly has
JELLY, WATER, SNOW = wp.constant(0), wp.constant(1), wp.constant(2)
SHADES = np.array([[244, 91, 116], [38, 132, 232], [238, 242, 250]])


@wp.struct
class Particle:
    x: wp.vec2
    v: wp.vec2
    affine: wp.mat22  # how the velocity changes around the particle
    deformation: wp.mat22
    cracks: float  # the share by which snow has cracked open
    material: int


@wp.func
def spline(f: float, k: int):
    """Return the weight of node ``k`` for a particle ``f`` cells behind node 0."""
    d = wp.abs(f - float(k))
    return wp.where(d < 0.5, 0.75 - d * d, 0.5 * (1.5 - d) * (1.5 - d))


@wp.kernel
def to_grid(particles: wp.array(dtype=Particle), grid: wp.array2d(dtype=wp.vec3)):
    """Deform a particle, and add its momentum and mass (1) to nine grid nodes."""
    p = particles[wp.tid()]
    n = float(grid.shape[0])
    u, s, v = wp.svd2(p.deformation + DT * p.affine * p.deformation)
    # Water has no shear: its volume is all it keeps.
    mu = wp.where(p.material == WATER, 0.0, MU)
    hard = wp.where(p.material == JELLY, SOFT, 1.0)
    # Snow cracks beyond these stretches, and is harder where it was pressed.
    if p.material == SNOW:
        kept = wp.vec2(wp.clamp(s[0], 0.975, 1.0045), wp.clamp(s[1], 0.975, 1.0045))
        p.cracks = wp.clamp(p.cracks * s[0] * s[1] / (kept[0] * kept[1]), 0.6, 2.0)
        hard = wp.clamp(wp.exp(10.0 * (1.0 - p.cracks)), 0.1, 8.0)
        s = kept
    p.deformation = u * wp.diag(s) * wp.transpose(v)
    if p.material == WATER:
        p.deformation = wp.sqrt(s[0] * s[1]) * wp.identity(n=2, dtype=float)
    particles[wp.tid()] = p
    pressure = LAMBDA * s[0] * s[1] * (s[0] * s[1] - 1.0)
    stress = 2.0 * mu * wp.cw_mul(s - wp.vec2(1.0, 1.0), s)
    stress += wp.vec2(pressure, pressure)
    turned = u * wp.diag(stress) * wp.transpose(u)
    moved = p.affine - (4.0 * DT * n * n * hard) * turned
    i = int(p.x[0] * n - 0.5)
    j = int(p.x[1] * n - 0.5)
    at = p.x * n - wp.vec2(float(i), float(j))
    for a in range(3):
        for b in range(3):
            away = wp.vec2(float(a), float(b)) - at
            near = p.v + moved * away / n
            weight = spline(at[0], a) * spline(at[1], b)
            wp.atomic_add(grid, i + a, j + b, weight * wp.vec3(near[0], near[1], 1.0))


@wp.kernel
def from_grid(grid: wp.array2d(dtype=wp.vec3), particles: wp.array(dtype=Particle)):
    """Gather velocity and its gradient from nine nodes, and move."""
    p = particles[wp.tid()]
    n = grid.shape[0]
    i = int(p.x[0] * float(n) - 0.5)
    j = int(p.x[1] * float(n) - 0.5)
    at = p.x * float(n) - wp.vec2(float(i), float(j))
    p.v = wp.vec2(0.0, 0.0)
    p.affine = wp.mat22(0.0, 0.0, 0.0, 0.0)
    for a in range(3):
        for b in range(3):
            node = grid[i + a, j + b] / wp.max(grid[i + a, j + b][2], 1.0e-9)
            u = wp.vec2(node[0], node[1] - DT * GRAVITY)
            if (i + a < 3 and u[0] < 0.0) or (i + a > n - 3 and u[0] > 0.0):
                u[0] = 0.0
            if (j + b < 3 and u[1] < 0.0) or (j + b > n - 3 and u[1] > 0.0):
                u[1] = 0.0
            weight = spline(at[0], a) * spline(at[1], b)
            p.v += weight * u
            away = wp.vec2(float(a), float(b)) - at
            p.affine += (4.0 * float(n) * weight) * wp.outer(u, away)
    p.x += DT * p.v
    particles[wp.tid()] = p


class Scene:
    """Water on the left, and jelly and a snowball in the air."""

    def __init__(self, quick: bool = False):
        n = 32 if quick else 96
        y, x = ((k + 0.5) / (2 * n) for k in np.mgrid[0 : 2 * n, 0 : 2 * n])
        jelly = (x - 0.5) ** 8 + (y - 0.35) ** 8 < 0.1**8
        jelly |= (x - 0.2) ** 8 + (y - 0.8) ** 8 < 0.07**8
        water = (x > 0.032) & (x < 0.33) & (y > 0.032) & (y < 0.5)
        snow = (x - 0.76) ** 2 + (y - 0.62) ** 2 < 0.15**2
        parts = (jelly, water, snow)
        counts = [part.sum() for part in parts]
        self.kinds = np.repeat(np.arange(3), counts)
        start = np.zeros(len(self.kinds), dtype=Particle.numpy_dtype())
        start["x"] = np.concatenate([np.stack([x[p], y[p]], axis=1) for p in parts])
        start["x"] += np.random.default_rng(0).uniform(-0.2, 0.2, start["x"].shape) / n
        start["material"], start["cracks"] = self.kinds, 1.0
        start["deformation"] = np.eye(2)
        depth = (self.kinds == WATER) * (start["x"][:, 1] - 0.2)
        self.shades = SHADES[self.kinds] + np.outer(depth, [90, 190, 40])
        self.particles = wp.array(start, dtype=Particle)
        self.grid = wp.zeros((n, n), dtype=wp.vec3)

    def step(self) -> None:
        self.grid.zero_()
        wp.launch(
            to_grid, dim=len(self.kinds), inputs=[self.particles], outputs=[self.grid]
        )
        wp.launch(
            from_grid, dim=len(self.kinds), inputs=[self.grid], outputs=[self.particles]
        )

    def energy(self) -> float:
        """Return the energy of motion, height and stretch."""
        p = self.particles.numpy()
        s = np.linalg.svd(p["deformation"].astype(float))[1]
        pressed = np.clip(np.exp(10.0 * (1.0 - p["cracks"])), 0.1, 8.0)
        hard = np.where(self.kinds == JELLY, SOFT, pressed)
        shear = np.where(self.kinds == WATER, 0.0, MU) * ((s - 1.0) ** 2).sum(axis=1)
        elastic = hard * (shear + 0.5 * LAMBDA * (s.prod(axis=1) - 1.0) ** 2)
        moving = 0.5 * (p["v"] ** 2).sum(axis=1)
        return float((moving + GRAVITY * p["x"][:, 1] + elastic).sum())


def main(quick: bool, out: Path) -> None:
    scene, frames, energies, heights = Scene(quick), [], [], []
    for _ in pictures.progress(4 if quick else 56):
        x = scene.particles.numpy()["x"]
        canvas = pictures.Canvas(288, 288)
        canvas.dots((x * (1, -1) + (0, 1)) * 288, scene.shades.astype(int), 1.7)
        frames.append(canvas.pixels())
        energies.append(scene.energy())
        heights.append(x[scene.kinds == SNOW, 1].mean())
        for _ in range(200):
            scene.step()
    fallen = float(heights[0] - heights[1]) / (0.5 * GRAVITY * DT * DT * 200 * 201)
    print(
        f"The snowball fell {fallen:.4f} of a stone's way; "
        f"{energies[-1] / energies[0]:.0%} of the energy is left"
    )
    pictures.require(
        abs(fallen - 1.0) < 0.01,
        f"the snowball fell {fallen:.3f} times as far as a stone",
    )
    pictures.require(
        max(np.diff(energies)) < 1e-4 * energies[0], f"the energy grew: {energies}"
    )
    pictures.require(bool(np.all((x > 0.0) & (x < 1.0))), "particles left the box")
    pictures.save_gif(out / "material_points.gif", frames, seconds=3.6, shades=24)


if __name__ == "__main__":
    main(**pictures.options())
