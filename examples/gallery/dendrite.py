"""Growth of a crystal

A seed freezes in a supercooled melt. Heat of freezing slows it down everywhere but at
the tips, so that it grows arms with side arms, like snow.

Group: Solids
You learn: two coupled fields, a random number for each thread, and differences of a
    field that is computed first.
Check: the heat of the melt grows by exactly the latent heat of what froze.
Method: R. Kobayashi, "Modeling and numerical simulations of dendritic crystal growth",
    Physica D 63, 1993.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

SPACING = 0.03
DT = 0.0001
ARMS = 6.0
LATENT_HEAT = 1.6


@wp.func
def at(a: wp.array2d(dtype=float), i: int, j: int):
    """Return ``a[i, j]``; beyond the border is the value of the border."""
    return a[wp.clamp(i, 0, a.shape[0] - 1), wp.clamp(j, 0, a.shape[1] - 1)]


@wp.func
def laplacian(a: wp.array2d(dtype=float), i: int, j: int):
    around = at(a, i - 1, j) + at(a, i + 1, j) + at(a, i, j - 1) + at(a, i, j + 1)
    return (around - 4.0 * a[i, j]) / (SPACING * SPACING)


@wp.kernel
def tensions(
    phase: wp.array2d(dtype=float),
    width: wp.array2d(dtype=float),
    flow: wp.array2d(dtype=wp.vec2),
):
    """Write the width of the border, by its direction, and the flow that it causes."""
    i, j = wp.tid()
    dy = (at(phase, i + 1, j) - at(phase, i - 1, j)) / (2.0 * SPACING)
    dx = (at(phase, i, j + 1) - at(phase, i, j - 1)) / (2.0 * SPACING)
    angle = ARMS * (wp.atan2(dy, dx) - 0.3)
    e = 0.01 * (1.0 + 0.04 * wp.cos(angle))
    turned = -0.01 * 0.04 * ARMS * wp.sin(angle)
    width[i, j] = e * e
    flow[i, j] = e * turned * wp.vec2(-dy, dx)


@wp.func
def across(
    width: wp.array2d(dtype=float),
    phase: wp.array2d(dtype=float),
    i: int,
    j: int,
    k: int,
    m: int,
):
    """Return what diffuses into cell i, j from its neighbour k, m."""
    return 0.5 * (width[i, j] + at(width, k, m)) * (at(phase, k, m) - phase[i, j])


@wp.kernel
def grow(
    phase: wp.array2d(dtype=float),
    heat: wp.array2d(dtype=float),
    width: wp.array2d(dtype=float),
    flow: wp.array2d(dtype=wp.vec2),
    step: int,
    new_phase: wp.array2d(dtype=float),
    new_heat: wp.array2d(dtype=float),
):
    i, j = wp.tid()
    p = phase[i, j]
    spread = across(width, phase, i, j, i - 1, j) + across(width, phase, i, j, i + 1, j)
    spread += across(width, phase, i, j, i, j - 1)
    spread += across(width, phase, i, j, i, j + 1)
    change = spread / (SPACING * SPACING)
    n = phase.shape[0] - 1
    m = phase.shape[1] - 1
    right = flow[i, wp.min(j + 1, m)] - flow[i, wp.max(j - 1, 0)]
    down = flow[wp.min(i + 1, n), j] - flow[wp.max(i - 1, 0), j]
    change += (right[0] + down[1]) / (2.0 * SPACING)
    drive = 0.9 / wp.pi * wp.atan(10.0 * (1.0 - heat[i, j]))
    noise = 0.01 * (wp.randf(wp.rand_init(step, i * phase.shape[1] + j)) - 0.5)
    change += p * (1.0 - p) * (p - 0.5 + drive + noise)
    change *= DT / 0.0003
    new_phase[i, j] = p + change
    new_heat[i, j] = heat[i, j] + DT * laplacian(heat, i, j) + LATENT_HEAT * change


class Scene:
    """A round seed in the middle of a cold melt."""

    def __init__(self, quick: bool = False):
        n = 80 if quick else 400
        y, x = np.mgrid[0:n, 0:n] - n / 2
        self.phase = wp.array(x * x + y * y < 25.0, dtype=float)
        self.heat = wp.zeros((n, n), dtype=float)
        self.width = wp.zeros((n, n), dtype=float)
        self.flow = wp.zeros((n, n), dtype=wp.vec2)
        self.new_phase = wp.zeros_like(self.phase)
        self.new_heat = wp.zeros_like(self.heat)
        self.steps = 0

    def step(self) -> None:
        wp.launch(
            tensions,
            dim=self.phase.shape,
            inputs=[self.phase],
            outputs=[self.width, self.flow],
        )
        inputs = [self.phase, self.heat, self.width, self.flow, self.steps]
        wp.launch(
            grow,
            dim=self.phase.shape,
            inputs=inputs,
            outputs=[self.new_phase, self.new_heat],
        )
        self.phase, self.new_phase = self.new_phase, self.phase
        self.heat, self.new_heat = self.new_heat, self.heat
        self.steps += 1

    def draw(self) -> np.ndarray:
        """Return the melt's heat and the crystal, dark where it froze late and warm."""
        phase = np.clip(self.phase.numpy(), 0.0, 1.0)[..., None]
        heat = self.heat.numpy()
        crystal = pictures.colours(heat, "ice", 1.5, 0.8)
        melt = pictures.colours(heat, "ice", 0.0, 5.0)
        return (phase * crystal + (1.0 - phase) * melt).astype(np.uint8)


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    before = scene.phase.numpy().sum(dtype=float)
    for _ in range(200 if quick else 4000):
        scene.step()
    frozen = scene.phase.numpy().sum(dtype=float) - before
    error = scene.heat.numpy().sum(dtype=float) / (LATENT_HEAT * frozen) - 1.0
    print(
        f"{frozen:.0f} cells froze; "
        f"the heat differs from their latent heat by {error:+.1e}"
    )
    pictures.require(frozen > 0.5 * before, f"only {frozen:.0f} cells froze")
    pictures.require(
        abs(error) < 1e-3, f"the heat differs by {error:.1e} from the latent heat"
    )
    pictures.save_png(out / "dendrite.png", scene.draw())


if __name__ == "__main__":
    main(**pictures.options())
