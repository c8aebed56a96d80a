"""Galaxies that meet

Two discs of stars pass close to each other. Gravity pulls long tails of stars out of
both.

Group: Particles
You learn: a loop over all pairs in one kernel, vectors, and leapfrog integration on the
    device alone.
Check: the total energy drifts by less than 1 %, and the momentum stays zero.
Method: A. and J. Toomre, "Galactic bridges and tails", Astrophysical Journal 178, 1972;
    kick-drift-kick leapfrog with softened gravity, as in S. Aarseth, "Gravitational
    N-body simulations", 2003.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

SOFTENING = 0.06  # length below which gravity weakens: no close stars fly apart
CORE = 0.7  # share of a galaxy's mass in its first body
DT = 0.008


@wp.kernel
def kick(
    x: wp.array(dtype=wp.vec3),
    m: wp.array(dtype=float),
    dt: float,
    v: wp.array(dtype=wp.vec3),
):
    """Change a star's velocity by the pull of all others."""
    i = wp.tid()
    pull = wp.vec3(0.0, 0.0, 0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        r2 = wp.dot(d, d) + SOFTENING * SOFTENING
        pull += (m[j] / (r2 * wp.sqrt(r2))) * d
    v[i] = v[i] + dt * pull


@wp.kernel
def drift(v: wp.array(dtype=wp.vec3), dt: float, x: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    x[i] = x[i] + dt * v[i]


@wp.kernel
def potential(
    x: wp.array(dtype=wp.vec3),
    m: wp.array(dtype=float),
    energy: wp.array(dtype=wp.float64),
):
    """Write a star's half of the energy of its pairs."""
    i = wp.tid()
    total = wp.float64(0.0)
    for j in range(x.shape[0]):
        if j != i:
            d = x[j] - x[i]
            distance = wp.sqrt(wp.dot(d, d) + SOFTENING * SOFTENING)
            total -= wp.float64(0.5 * m[i] * m[j] / distance)
    energy[i] = total


def disc(
    count: int, rng: np.random.Generator, tilt: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places, velocities and masses of a disc of mass 1 around a heavy core."""
    r = np.sqrt(rng.uniform(0.15**2, 1.0, count))
    angle = rng.uniform(0.0, 2.0 * np.pi, count)
    c, s = np.cos(angle), np.sin(angle)
    x = np.stack([r * c, r * s, 0.02 * rng.normal(size=count)], axis=1)
    speed = np.sqrt((CORE + (1.0 - CORE) * r**2) * r**2 / (r**2 + SOFTENING**2) ** 1.5)
    v = speed[:, None] * np.stack([-s, c, np.zeros(count)], axis=1)
    m = np.full(count, (1.0 - CORE) / (count - 1))
    x[0], v[0], m[0] = 0.0, 0.0, CORE
    c, s = np.cos(tilt), np.sin(tilt)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return x @ turn.T, v @ turn.T, m


class Scene:
    """Two discs on a path that brings them close."""

    def __init__(self, quick: bool = False):
        self.count = 256 if quick else 3072
        rng = np.random.default_rng(1)
        half = self.count // 2
        (xa, va, ma), (xb, vb, mb) = disc(half, rng, 0.3), disc(half, rng, -0.9)
        place, speed = np.array([1.7, 0.75, 0.0]), np.array([-0.52, 0.0, 0.0])
        v = np.concatenate([va + speed, vb - speed])
        self.masses = np.concatenate([ma, mb])
        v -= self.masses @ v / self.masses.sum()
        x = np.concatenate([xa + place, xb - place])
        self.x = wp.array(x.astype(np.float32), dtype=wp.vec3)
        self.v = wp.array(v.astype(np.float32), dtype=wp.vec3)
        self.m = wp.array(self.masses.astype(np.float32), dtype=float)

    def step(self) -> None:
        wp.launch(
            kick, dim=self.count, inputs=[self.x, self.m, 0.5 * DT], outputs=[self.v]
        )
        wp.launch(drift, dim=self.count, inputs=[self.v, DT], outputs=[self.x])
        wp.launch(
            kick, dim=self.count, inputs=[self.x, self.m, 0.5 * DT], outputs=[self.v]
        )

    def energy(self) -> float:
        pairs = wp.zeros(self.count, dtype=wp.float64)
        wp.launch(potential, dim=self.count, inputs=[self.x, self.m], outputs=[pairs])
        speeds = self.v.numpy().astype(float)
        moving = 0.5 * self.masses @ np.sum(speeds**2, axis=1)
        return float(pairs.numpy().sum() + moving)

    def draw(self, size: int) -> np.ndarray:
        """Add up the light of the stars: one galaxy is blue, the other orange."""
        x = self.x.numpy()
        light = np.zeros((size, size, 3))
        half = self.count // 2
        blue, orange = (0.35, 0.6, 1.0), (1.0, 0.55, 0.25)
        for stars, shade in ((x[:half], blue), (x[half:], orange)):
            edges = np.linspace(-2.6, 2.6, size + 1)
            count, _, _ = np.histogram2d(-stars[:, 1], stars[:, 0], bins=(edges, edges))
            around = [np.roll(count, k, axis) for k in (1, -1) for axis in (0, 1)]
            glow = 0.8 * count + 0.12 * sum(around)
            light += glow[:, :, None] * shade
        return pictures.tone(0.55 * light)


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    first, frames = scene.energy(), []
    for _ in range(3 if quick else 44):
        frames.append(scene.draw(240))
        for _ in range(8 if quick else 12):
            scene.step()
    change = scene.energy() / first - 1.0
    momentum = np.abs(scene.masses @ scene.v.numpy()).max()
    print(f"Energy changed by {change:+.4%}, momentum is {momentum:.1e}")
    pictures.require(abs(change) < 0.01, f"the energy changed by {change:.2%}")
    pictures.require(momentum < 1e-3, f"the momentum is {momentum:.1e}, not zero")
    pictures.save_gif(out / "galaxies.gif", frames, seconds=4.4, shades=48)


if __name__ == "__main__":
    main(**pictures.options())
