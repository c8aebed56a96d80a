"""Reaction and diffusion

Two chemicals react and spread at different speeds. Spots grow, split and turn into a
labyrinth, as on the skin of animals.

Group: First steps
You learn: several arrays in one kernel, periodic borders, and a constant of the module
    in a kernel.
Check: the first steps agree with NumPy in float64.
Method: J. E. Pearson, "Complex patterns in a simple system", Science 261, 1993 (the
    Gray-Scott model).
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

FEED = 0.0367
KILL = 0.0610
SPREAD_U = 0.16
SPREAD_V = 0.08


@wp.func
def laplacian(a: wp.array2d(dtype=float), i: int, j: int):
    """Return the four neighbours less four times the middle; the borders are joined."""
    n = a.shape[0]
    m = a.shape[1]
    vertical = a[(i + 1) % n, j] + a[(i + n - 1) % n, j]
    horizontal = a[i, (j + 1) % m] + a[i, (j + m - 1) % m]
    return vertical + horizontal - 4.0 * a[i, j]


@wp.kernel
def react(
    u: wp.array2d(dtype=float),
    v: wp.array2d(dtype=float),
    new_u: wp.array2d(dtype=float),
    new_v: wp.array2d(dtype=float),
):
    i, j = wp.tid()
    rate = u[i, j] * v[i, j] * v[i, j]
    du = SPREAD_U * laplacian(u, i, j) - rate + FEED * (1.0 - u[i, j])
    dv = SPREAD_V * laplacian(v, i, j) + rate - (FEED + KILL) * v[i, j]
    new_u[i, j] = u[i, j] + du
    new_v[i, j] = v[i, j] + dv


class Scene:
    """A dish of U with drops of V in it."""

    def __init__(self, quick: bool = False):
        n = 64 if quick else 288
        rng = np.random.default_rng(3)
        y, x = np.mgrid[0:n, 0:n]
        v = np.zeros((n, n), dtype=np.float32)
        for cx, cy in rng.uniform(0.0, n, (4 if quick else 24, 2)):
            v[(x - cx) ** 2 + (y - cy) ** 2 < 16.0] = 0.5
        self.u = wp.array(1.0 - v, dtype=float)
        self.v = wp.array(v, dtype=float)
        self.new_u, self.new_v = wp.zeros_like(self.u), wp.zeros_like(self.v)

    def step(self) -> None:
        wp.launch(
            react,
            dim=self.u.shape,
            inputs=[self.u, self.v],
            outputs=[self.new_u, self.new_v],
        )
        self.u, self.new_u = self.new_u, self.u
        self.v, self.new_v = self.new_v, self.v


def with_numpy(u: np.ndarray, v: np.ndarray, steps: int) -> np.ndarray:
    """Return V after some steps, computed on whole arrays."""
    for _ in range(steps):
        near_u, near_v = (
            sum(np.roll(a, k, axis) for k in (1, -1) for axis in (0, 1)) - 4.0 * a
            for a in (u, v)
        )
        rate = u * v * v
        du = SPREAD_U * near_u - rate + FEED * (1.0 - u)
        dv = SPREAD_V * near_v + rate - (FEED + KILL) * v
        u, v = u + du, v + dv
    return v


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    u, v = scene.u.numpy().astype(float), scene.v.numpy().astype(float)
    expected = with_numpy(u, v, 50)
    for _ in range(50):
        scene.step()
    error = float(np.abs(scene.v.numpy() - expected).max())
    print(f"Largest difference from NumPy after 50 steps: {error:.1e}")
    pictures.require(error < 1e-4, f"V differs from NumPy's by {error:.1e}")
    for _ in range(200 if quick else 9000):
        scene.step()
    pictures.save_png(
        out / "gray_scott.png", pictures.colours(scene.v.numpy(), "reef", 0.0, 0.36)
    )


if __name__ == "__main__":
    main(**pictures.options())
