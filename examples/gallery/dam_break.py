"""A dam breaks

Behind a dam stands water; the dam vanishes. The water runs around a pillar, up the far
wall, and comes back.

Group: Fluids
You learn: ``wp.HashGrid``: who is near, in three dimensions and in a few lines.
Check: the grid gives the densities of a sum over all pairs, the water keeps its density
    within 15 %, and its energy never grows.
Method: J. Monaghan, "Simulating free surface flows with SPH", J. Comput. Phys. 110,
    1994; kernel of H. Wendland, 1995.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

GRAVITY, SOUND, VISCOSITY = 9.81, 16.0, 0.12
BOX = wp.constant(wp.vec3(1.6, 2.0, 0.6))
PILLAR, THICK = wp.constant(wp.vec3(1.05, 0.0, 0.3)), 0.1
POINTS = wp.array(dtype=wp.vec3)


@wp.func
def weight(r: float, reach: float):
    q = wp.min(r / reach, 1.0)
    return (
        21.0
        / (2.0 * wp.pi * reach * reach * reach)
        * (1.0 - q) ** 4.0
        * (1.0 + 4.0 * q)
    )


@wp.kernel
def sum_densities(
    grid: wp.uint64,
    reach: float,
    mass: float,
    x: POINTS,
    density: wp.array(dtype=float),
):
    i = wp.hash_grid_point_id(grid, wp.tid())  # neighbouring threads read the same
    total = float(0.0)  # noqa: UP018 -- a variable of the loop, for Warp too
    for j in wp.hash_grid_query(grid, x[i], reach):
        total += weight(wp.length(x[i] - x[j]), reach)
    density[i] = mass * total


@wp.kernel
def accelerate(
    grid: wp.uint64,
    reach: float,
    mass: float,
    x: POINTS,
    v: POINTS,
    density: wp.array(dtype=float),
    force: POINTS,
):
    i = wp.hash_grid_point_id(grid, wp.tid())
    mine = wp.max(density[i] - 1.0, 0.0) / (density[i] * density[i])
    total = wp.vec3(0.0, -GRAVITY, 0.0)
    slope = 210.0 / (wp.pi * reach**5.0)
    for j in wp.hash_grid_query(grid, x[i], reach):
        d = x[i] - x[j]
        r = wp.length(d)
        if r < reach and r > 0.0:
            other = wp.max(density[j] - 1.0, 0.0) / (density[j] * density[j])
            nearing = wp.min(wp.dot(v[i] - v[j], d), 0.0) / (
                r * r + 0.01 * reach * reach
            )
            push = SOUND * SOUND * (mine + other) - VISCOSITY * SOUND * reach * nearing
            total += mass * push * slope * (1.0 - r / reach) ** 3.0 * d
    force[i] = total


@wp.kernel
def move(dt: float, rough: float, force: POINTS, x: POINTS, v: POINTS):
    """Move a particle; walls and the pillar take the velocity into them.

    Walls are rough. At a smooth one, a sheet of particles could stand like a card.
    """
    i = wp.tid()
    rim = rough * wp.randf(wp.rand_init(4, i))
    u = v[i] + dt * force[i]
    p = x[i] + dt * u
    for k in range(3):
        if (p[k] < rim and u[k] < 0.0) or (p[k] > BOX[k] - rim and u[k] > 0.0):
            p[k] = wp.clamp(p[k], rim, BOX[k] - rim)
            u[k] = 0.0
    away = wp.vec3(p[0] - PILLAR[0], 0.0, p[2] - PILLAR[2])
    if wp.length(away) < THICK:
        normal = wp.normalize(away)
        p += (THICK - wp.length(away)) * normal
        u -= wp.min(wp.dot(u, normal), 0.0) * normal
    v[i] = u
    x[i] = p


class Scene:
    """Water at rest behind a dam."""

    def __init__(self, quick: bool = False):
        gap = 0.05 if quick else 0.0286
        self.reach, self.mass, self.dt = 2.2 * gap, gap**3, 0.3 * 2.2 * gap / SOUND
        ways = [np.arange(0.5 * gap, end, gap) for end in (0.5, 0.8, BOX[2])]
        places = np.stack([a.ravel() for a in np.meshgrid(*ways)], axis=1)
        places += np.random.default_rng(2).uniform(-0.02, 0.02, places.shape) * gap
        self.x = wp.array(places, dtype=wp.vec3)
        self.v, self.force = wp.zeros_like(self.x), wp.zeros_like(self.x)
        self.density = wp.zeros(len(places), dtype=float)
        self.grid = wp.HashGrid(32, 32, 16)

    def step(self) -> None:
        count = len(self.x)
        self.grid.build(self.x, self.reach)
        known = [self.grid.id, self.reach, self.mass, self.x]
        wp.launch(sum_densities, dim=count, inputs=known, outputs=[self.density])
        inputs = [*known, self.v, self.density]
        wp.launch(accelerate, dim=count, inputs=inputs, outputs=[self.force])
        inputs = [self.dt, 0.25 * self.reach, self.force]
        wp.launch(move, dim=count, inputs=inputs, outputs=[self.x, self.v])

    def energy(self) -> float:
        """Return the mean energy of a particle by its height, motion and pressure."""
        dense = np.maximum(self.density.numpy() - 1.0, 0.0)
        speeds = (self.v.numpy() ** 2).sum(axis=1)
        heights = GRAVITY * self.x.numpy()[:, 1]
        return float(np.mean(heights + 0.5 * speeds + 0.5 * (SOUND * dense) ** 2))

    def draw(self, width: int, height: int) -> np.ndarray:
        """Paint the particles, the far ones first, the fast ones bright."""
        x = self.x.numpy().astype(float)
        speed = np.linalg.norm(self.v.numpy(), axis=1)
        shades = pictures.colours(speed, "ice", -1.2, 3.6)
        canvas = pictures.Canvas(width, height)

        def place(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            p = p - [0.8, 0.3, 0.3]
            c, s = np.cos(0.5), np.sin(0.5)
            right, back = c * p[..., 0] + s * p[..., 2], c * p[..., 2] - s * p[..., 0]
            up, near = p[..., 1] - 0.42 * back, back + 0.42 * p[..., 1]
            scale = 0.43 * width / (1.0 - 0.12 * near)
            flat = np.stack(
                [0.5 * width + scale * right, 0.6 * height - scale * up], -1
            )
            return flat, near

        flat, near = place(x)
        order = np.argsort(near)
        canvas.dots(flat[order], shades[order], 0.011 * width)
        return canvas.pixels()


def all_pairs(scene: Scene, count: int) -> np.ndarray:
    """Return the densities of the first particles by a sum over all pairs."""
    x = scene.x.numpy().astype(float)
    q = np.linalg.norm(x[:count, None] - x[None], axis=2) / scene.reach
    weights = np.maximum(1.0 - q, 0.0) ** 4 * (1.0 + 4.0 * q)
    return scene.mass * 10.5 / np.pi / scene.reach**3 * weights.sum(axis=1)


def main(quick: bool, out: Path) -> None:
    scene, frames, densest, grown = Scene(quick), [], 0.0, 0.0
    exact = all_pairs(scene, 200)
    scene.step()
    error = float(np.abs(scene.density.numpy()[:200] / exact - 1.0).max())
    energy = scene.energy()
    for _ in pictures.progress(14 if quick else 56):
        frames.append(scene.draw(400, 280))
        for _ in range(round(0.03 / scene.dt)):
            scene.step()
        before, energy = energy, scene.energy()
        grown = max(grown, energy / before - 1.0)
        densest = max(densest, float(np.quantile(scene.density.numpy(), 0.999)))
    print(
        f"Densities differ by {error:.1e} from a sum over all pairs; the water is up "
        f"to {densest - 1.0:.1%} too dense; its energy grows by {grown:+.2%} at most"
    )
    pictures.require(error < 1e-4, f"densities differ by {error:.1e}")
    pictures.require(densest < 1.15, f"the water is {densest - 1.0:.1%} too dense")
    pictures.require(grown < 1e-3, f"the energy grows by {grown:.2%}")
    pictures.save_gif(out / "dam_break.gif", frames, seconds=3.0, shades=24)


if __name__ == "__main__":
    main(**pictures.options())
