"""A heat sink warms up

A chip heats a block of metal from below, and air cools its fins. Each step solves a
sparse system, so it may be a thousand times longer than an explicit step.

Group: Solids
You learn: a matrix of entries that a kernel writes, ``wp.sparse.bsr_from_triplets``,
    and a preconditioned ``wp.optim.linear.cg`` that begins with the last result.
Check: the heat in the metal is what the chip gave less what the air took, within 0.1 %;
    in the end a fin is as warm as the theory of fins says, within 2 %.
Method: implicit Euler steps and finite volumes; F. Incropera, D. DeWitt, "Fundamentals
    of heat and mass transfer", 1981, for the fin.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp
from warp_like.optim.linear import cg, preconditioner
from warp_like.sparse import bsr_from_triplets

# Lengths are in cells; the metal's conductivity and capacity are 1.
FIN, GAP, LENGTH, BASE = 8, 10, 90, 14
COOLING = 6.0e-4  # of a side of a cell
POWER = 0.4  # of the chip
AIR, INSULATION = -1, -2  # cells that are not metal


@wp.kernel
def assemble(
    number: wp.array2d(dtype=int),
    dt: float,
    rows: wp.array(dtype=int),
    columns: wp.array(dtype=int),
    values: wp.array(dtype=wp.float64),
):
    """Write a cell's five entries of the matrix; those outside the metal are 0."""
    i, j = wp.tid()
    me = number[i, j]
    if me < 0:
        return
    diagonal = wp.float64(1.0 / dt)
    for k in range(4):
        row = i + wp.where(k == 0, 1, 0) - wp.where(k == 1, 1, 0)
        column = j + wp.where(k == 2, 1, 0) - wp.where(k == 3, 1, 0)
        other = number[row, column]
        rows[5 * me + k] = me
        columns[5 * me + k] = wp.where(other < 0, me, other)
        values[5 * me + k] = wp.float64(wp.where(other < 0, 0.0, -1.0))
        if other >= 0:
            diagonal += wp.float64(1.0)
        if other == AIR:
            diagonal += wp.float64(COOLING)
    rows[5 * me + 4] = me
    columns[5 * me + 4] = me
    values[5 * me + 4] = diagonal


@wp.kernel
def give_heat(
    dt: float,
    source: wp.array(dtype=wp.float64),
    heat: wp.array(dtype=wp.float64),
    right: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    right[i] = heat[i] * wp.float64(1.0 / dt) + source[i]


def metal(fins: int) -> np.ndarray:
    """Return which cells are metal, from the tips of the fins down to the chip."""
    width = fins * (FIN + GAP) - GAP
    column = np.arange(width) % (FIN + GAP)
    tall = np.tile(column < FIN, (LENGTH, 1))
    return np.concatenate([tall, np.ones((BASE, width), bool)])


class Scene:
    """Cold metal; the chip is switched on."""

    def __init__(self, quick: bool = False):
        fins, self.dt = (3, 1600.0) if quick else (9, 400.0)
        self.metal = np.pad(metal(fins), 1)
        self.count = int(self.metal.sum())
        number = np.full(self.metal.shape, AIR)
        number[-1] = INSULATION
        number[self.metal] = np.arange(self.count)
        self.number = wp.array(number, dtype=int)
        rows, columns = (wp.zeros(5 * self.count, dtype=int) for _ in range(2))
        values = wp.zeros(5 * self.count, dtype=wp.float64)
        wp.launch(
            assemble,
            dim=self.metal.shape,
            inputs=[self.number, self.dt],
            outputs=[rows, columns, values],
        )
        self.A = bsr_from_triplets(self.count, self.count, rows, columns, values)
        self.M = preconditioner(self.A, "diag")
        place = np.linspace(-1.0, 1.0, self.metal.shape[1])
        chip = number[-2][(np.abs(place) < 0.3) & (number[-2] >= 0)]
        source = np.zeros(self.count)
        source[chip] = POWER * fins / len(chip)
        self.source = wp.array(source, dtype=wp.float64)
        self.heat = wp.zeros_like(self.source)
        self.right = wp.zeros_like(self.heat)
        self.power, self.air = source.sum(), self.surface()

    def step(self) -> int:
        """Solve for the heat after a step, and return how many iterations it took."""
        inputs = [self.dt, self.source, self.heat]
        wp.launch(give_heat, dim=self.count, inputs=inputs, outputs=[self.right])
        return cg(self.A, self.right, self.heat, tol=1e-6, M=self.M)[0]

    def surface(self) -> np.ndarray:
        """Return how many sides of each cell the air cools."""
        number = self.number.numpy()
        sides = sum(np.roll(number, s, axis=a) == AIR for a in (0, 1) for s in (1, -1))
        return sides[self.metal]

    def cooled(self) -> float:
        """Return the power that the air takes."""
        return float(self.air @ self.heat.numpy()) * COOLING

    def image(self, scale: int) -> np.ndarray:
        warm = np.full(self.metal.shape, -1.0)
        warm[self.metal] = self.heat.numpy()
        shades = pictures.colours(warm, "fire", -0.3, 5.8)
        shades[~self.metal] = (11, 15, 26)
        return shades.repeat(scale, axis=0).repeat(scale, axis=1)

    def along_fin(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the warmth along a fin's middle, and that of the theory."""
        column = self.metal.shape[1] // 2 // (FIN + GAP) * (FIN + GAP)
        cells = self.number.numpy()[1 : 1 + LENGTH, column + FIN // 2]
        found = self.heat.numpy()[cells].astype(float)
        m = np.sqrt(2.0 * COOLING / FIN)
        to_tip = np.arange(len(cells)) + 0.5 + 0.5 * FIN
        theory = np.cosh(m * to_tip)
        return found, theory * (found[-1] / theory[-1])


def main(quick: bool, out: Path) -> None:
    scene, frames = Scene(quick), []
    taken, iterations, steps = 0.0, 0, 30 if quick else 120
    for step in pictures.progress(steps, "step"):
        if step % 3 == 0 and step < 90:
            frames.append(scene.image(4))
        iterations += scene.step()
        taken += scene.dt * scene.cooled()
    kept = float(scene.heat.numpy().sum())
    error = (kept + taken) / (scene.dt * scene.power * steps) - 1.0
    found, theory = scene.along_fin()
    off = float(np.abs(found / theory - 1.0).max())
    print(
        f"{iterations / steps:.0f} iterations a step; {error:+.4%} of the heat is "
        f"missing; the fin differs from theory by {off:.2%}"
    )
    pictures.require(abs(error) < 0.001, f"{error:+.2%} of the heat is missing")
    pictures.require(off < 0.02, f"the fin differs from theory by {off:.1%}")
    pictures.save_gif(out / "heat_sink.gif", frames, seconds=3.0, shades=64)


if __name__ == "__main__":
    main(**pictures.options())
