"""Waves through two slits

A wave meets a wall with two gaps. Behind it, the waves from both gaps add up in some
directions and cancel in others.

Group: First steps
You learn: stencils on a 2-D array, and how to swap buffers from one time step to the
    next.
Check: the wave's energy stays the same over all steps, within 0.1 %.
Method: leapfrog finite differences of the wave equation; R. Courant, K. Friedrichs, H.
    Lewy, "On the partial difference equations of mathematical physics", 1928. The
    discrete energy is conserved exactly.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

COURANT = 0.5  # wave speed x time step / grid spacing; stable below 1 / sqrt(2)


@wp.func
def value(
    u: wp.array2d(dtype=float),
    open: wp.array2d(dtype=float),
    i: int,
    j: int,
    at_wall: float,
):
    """Return ``u[i, j]``, or ``at_wall`` outside of the grid and in walls."""
    if i < 0 or j < 0 or i >= u.shape[0] or j >= u.shape[1]:
        return at_wall
    return wp.where(open[i, j] > 0.0, u[i, j], at_wall)


@wp.kernel
def advance(
    before: wp.array2d(dtype=float),
    now: wp.array2d(dtype=float),
    open: wp.array2d(dtype=float),
    after: wp.array2d(dtype=float),
):
    i, j = wp.tid()
    u = now[i, j]
    around = value(now, open, i - 1, j, u) + value(now, open, i + 1, j, u)
    around += value(now, open, i, j - 1, u) + value(now, open, i, j + 1, u)
    push = COURANT * COURANT * (around - 4.0 * u)
    after[i, j] = open[i, j] * (2.0 * u - before[i, j] + push)


class Scene:
    """A short wave packet that moves to the right, towards the wall."""

    def __init__(self, quick: bool = False):
        n = 96 if quick else 256
        y, x = np.mgrid[0:n, 0:n] / n
        wall = (np.abs(x - 0.4) < 0.012) & (np.abs(np.abs(y - 0.5) - 0.09) > 0.022)
        self.passable = (~wall).astype(np.float32)
        self.open = wp.array(self.passable, dtype=float)
        self.before = wp.array(self.packet(x + COURANT / n), dtype=float)
        self.now = wp.array(self.packet(x), dtype=float)
        self.after = wp.zeros_like(self.now)

    def packet(self, x: np.ndarray) -> np.ndarray:
        ripples = np.exp(-(((x - 0.2) / 0.06) ** 2)) * np.sin(2.0 * np.pi * x / 0.05)
        return (ripples * self.passable).astype(np.float32)

    def step(self) -> None:
        wp.launch(
            advance,
            dim=self.now.shape,
            inputs=[self.before, self.now, self.open],
            outputs=[self.after],
        )
        self.before, self.now, self.after = self.now, self.after, self.before

    def energy(self) -> float:
        """Return the energy between the last two steps: of motion and of slopes."""
        u, v = self.before.numpy().astype(float), self.now.numpy().astype(float)
        total = np.sum(((v - u) / COURANT) ** 2)
        for axis in (0, 1):
            joined = np.minimum(self.passable, np.roll(self.passable, -1, axis))
            slopes = np.diff(u, axis=axis) * np.diff(v, axis=axis)
            total += np.sum(slopes * (joined[:-1] if axis == 0 else joined[:, :-1]))
        return 0.5 * float(total)

    def draw(self) -> np.ndarray:
        image = pictures.colours(self.now.numpy(), "storm", -0.45, 0.45)
        image[self.passable == 0.0] = (235, 235, 240)
        return image


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    first, frames = scene.energy(), []
    for _ in range(4 if quick else 30):
        frames.append(scene.draw())
        for _ in range(10 if quick else 11):
            scene.step()
    drift = scene.energy() / first - 1.0
    print(f"Energy changed by {drift:+.5%}")
    pictures.require(abs(drift) < 1e-3, f"the energy changed by {drift:.3%}")
    pictures.save_gif(out / "wave_equation.gif", frames, seconds=3.0, shades=24)


if __name__ == "__main__":
    main(**pictures.options())
