"""Magnets and heat

Small magnets want to point as their neighbours do, and heat turns them at random. Below
a certain heat they agree over any distance; at it, islands of all sizes appear.

Group: First steps
You learn: random numbers that depend on the step and the thread alone, and updates in
    place in two colours.
Check: the magnetisation and the energy agree with L. Onsager's exact solution.
Method: N. Metropolis et al., J. Chem. Phys. 21, 1953, on a chessboard; L. Onsager,
    Phys. Rev. 65, 1944 and C. N. Yang, Phys. Rev. 85, 1952 for the Ising model.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

CRITICAL = 2.0 / np.log(1.0 + np.sqrt(2.0))
HEATS = (0.8 * CRITICAL, CRITICAL, 1.25 * CRITICAL)


@wp.kernel
def turn(
    spin: wp.array3d(dtype=wp.int8), heat: wp.array(dtype=float), colour: int, step: int
):
    """Turn magnets of one colour, where that costs no energy or heat gives it."""
    k, i, half = wp.tid()
    n = spin.shape[1]
    j = 2 * half + (i + colour) % 2
    around = int(spin[k, (i + 1) % n, j]) + int(spin[k, (i + n - 1) % n, j])
    around += int(spin[k, i, (j + 1) % n]) + int(spin[k, i, (j + n - 1) % n])
    cost = 2.0 * float(int(spin[k, i, j]) * around)
    random = wp.rand_init(step, (k * n + i) * n + j)
    if wp.randf(random) < wp.exp(-cost / heat[k]):
        spin[k, i, j] = -spin[k, i, j]


class Scene:
    """Three plates at different heats; the coldest one begins with all magnets up."""

    def __init__(self, quick: bool = False):
        self.n = 64 if quick else 256
        shape = (len(HEATS), self.n, self.n)
        spin = np.random.default_rng(0).choice([-1, 1], shape).astype(np.int8)
        spin[0] = 1
        self.spin = wp.array(spin, dtype=wp.int8)
        self.heat = wp.array(HEATS, dtype=float)
        self.steps = 0

    def step(self) -> None:
        for colour in range(2):
            dim = (len(HEATS), self.n, self.n // 2)
            wp.launch(
                turn,
                dim=dim,
                inputs=[self.spin, self.heat, colour, 2 * self.steps + colour],
            )
        self.steps += 1


def exact(heat: float) -> tuple[float, float]:
    """Return the magnetisation and the energy of a magnet, by Yang and by Onsager."""
    strong = np.sinh(2.0 / heat)
    aligned = (1.0 - strong**-4) ** 0.125 if heat < CRITICAL else 0.0
    kappa = 2.0 * strong / np.cosh(2.0 / heat) ** 2
    angle = (np.arange(20000) + 0.5) * np.pi / 40000
    # The elliptic integral, 2 / pi times.
    integral = np.mean(1.0 / np.sqrt(1.0 - (kappa * np.sin(angle)) ** 2))
    tanh = np.tanh(2.0 / heat)
    return aligned, -(1.0 + (2.0 * tanh**2 - 1.0) * integral) / tanh


def measure(spin: np.ndarray) -> tuple[float, float]:
    """Return the magnetisation and the energy of a magnet."""
    spin = spin.astype(float)
    bonds = spin * (np.roll(spin, 1, axis=0) + np.roll(spin, 1, axis=1))
    return abs(spin.mean()), -float(np.mean(bonds))


def main(quick: bool, out: Path) -> None:
    scene, found = Scene(quick), []
    for step in pictures.progress(600 if quick else 2000, "step"):
        scene.step()
        if step % 20 == 0:
            found.append([measure(s) for s in scene.spin.numpy()])
    means = np.mean(found[len(found) // 3 :], axis=0)
    for k, name in ((0, "cold"), (2, "hot")):
        errors = np.abs(means[k] - exact(HEATS[k]))
        print(
            f"{name}: magnetisation {means[k][0]:.4f}, energy {means[k][1]:.4f}; "
            f"off by {errors.max():.4f}"
        )
        limit = (0.02, 0.02) if k == 0 else (0.2 if quick else 0.05, 0.02)
        pictures.require(
            bool(np.all(errors < limit)), f"the {name} plate is off by {errors}"
        )
    size = min(scene.n, 256)
    spins = scene.spin.numpy()[:, :size, :size].astype(float)
    panels = [np.pad(s, 3, constant_values=-3.0) for s in spins]
    pictures.save_png(
        out / "magnet.png",
        pictures.colours(np.concatenate(panels, axis=1), "reef", -1.6, 1.2),
    )


if __name__ == "__main__":
    main(**pictures.options())
