"""Vortices behind a cylinder

A stream meets a cylinder and sheds vortices in turn from above and below: the vortex
street that makes wires sing in the wind.

Group: Fluids
You learn: a lattice Boltzmann solver in one kernel, vectors of a length of your own,
    and constants.
Check: the Strouhal number (the frequency of the vortices) lies between 0.15 and 0.30.
Method: S. Chen, G. Doolen, "Lattice Boltzmann method for fluid flows", Annual Review of
    Fluid Mechanics 30, 1998 (D2Q9 with one relaxation time). The Strouhal number is
    about 0.17 in a wide stream, and more in a narrow one.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

SPEED = 0.1  # of the stream, in cells a step; sound moves at 0.58
REYNOLDS = 120.0
vec9 = wp.types.vector(length=9, dtype=float)
vec9i = wp.types.vector(length=9, dtype=int)
CX = wp.constant(vec9i(0, 1, 0, -1, 0, 1, -1, -1, 1))
CY = wp.constant(vec9i(0, 0, 1, 0, -1, 1, 1, -1, -1))
BACK = wp.constant(vec9i(0, 3, 4, 1, 2, 7, 8, 5, 6))  # the opposite direction of each
WEIGHT = wp.constant(
    vec9(4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, *[1.0 / 36.0] * 4)
)


@wp.func
def equilibrium(k: int, density: float, u: wp.vec2):
    """Return the equilibrium flow in direction ``k`` at a mean velocity."""
    cu = 3.0 * (float(CX[k]) * u[0] + float(CY[k]) * u[1])
    return WEIGHT[k] * density * (1.0 + cu + 0.5 * cu * cu - 1.5 * wp.dot(u, u))


@wp.kernel
def advance(
    old: wp.array3d(dtype=float),
    solid: wp.array2d(dtype=int),
    relaxation: float,
    new: wp.array3d(dtype=float),
    velocity: wp.array2d(dtype=wp.vec2),
):
    """Let the nine populations stream in from the neighbours, and collide."""
    y, x = wp.tid()
    rows = solid.shape[0]
    columns = solid.shape[1]
    f = vec9()
    density = wp.float32(0.0)
    u = wp.vec2(0.0, 0.0)
    for k in range(9):
        from_x = wp.clamp(x - CX[k], 0, columns - 1)
        from_y = (y - CY[k] + rows) % rows
        if solid[from_y, from_x] != 0:
            f[k] = old[BACK[k], y, x]  # bounces back from the cylinder
        else:
            f[k] = old[k, from_y, from_x]
        density += f[k]
        u += f[k] * wp.vec2(float(CX[k]), float(CY[k]))
    u = u / density
    if x == 0:
        u = wp.vec2(SPEED, 0.0)
        density = 1.0
    for k in range(9):
        target = equilibrium(k, density, u)
        new[k, y, x] = wp.where(x == 0, target, f[k] + (target - f[k]) / relaxation)
    velocity[y, x] = wp.where(solid[y, x] != 0, wp.vec2(0.0, 0.0), u)


class Scene:
    """A channel without walls: what leaves at the top comes in at the bottom."""

    def __init__(self, quick: bool = False):
        rows, columns, self.diameter = (60, 120, 10.0) if quick else (120, 300, 16.0)
        y, x = np.mgrid[0:rows, 0:columns]
        away = np.hypot(x - 4.0 * self.diameter, y - rows / 2 - 0.6)
        self.solid = away < self.diameter / 2
        self.obstacle = wp.array(self.solid.astype(np.int32), dtype=int)
        self.relaxation = 0.5 + 3.0 * SPEED * self.diameter / REYNOLDS
        cx, cy = np.array([*CX], dtype=float), np.array([*CY], dtype=float)
        side = 0.02 * np.sin(4.0 * np.pi * x / columns)  # a first push to one side
        cu = 3.0 * (cx[:, None, None] * SPEED + cy[:, None, None] * side)
        start = 1.0 + cu + 0.5 * cu**2 - 1.5 * (SPEED**2 + side**2)
        start *= np.array([*WEIGHT])[:, None, None]
        self.old = wp.array(start.astype(np.float32), dtype=float)
        self.new = wp.zeros_like(self.old)
        self.velocity = wp.zeros((rows, columns), dtype=wp.vec2)

    def step(self) -> None:
        inputs = [self.old, self.obstacle, self.relaxation]
        wp.launch(
            advance,
            dim=self.solid.shape,
            inputs=inputs,
            outputs=[self.new, self.velocity],
        )
        self.old, self.new = self.new, self.old

    def draw(self) -> np.ndarray:
        u = self.velocity.numpy()
        curl = np.gradient(u[..., 1], axis=1) - np.gradient(u[..., 0], axis=0)
        image = pictures.colours(np.where(self.solid, 0.0, curl), "storm", -0.02, 0.02)
        image[self.solid] = (225, 228, 235)
        return image


def strouhal(sideways: list[float], diameter: float) -> float:
    """Return the frequency of the sideways velocity, in units of speed / diameter."""
    signal = np.array(sideways) - np.mean(sideways)
    upward = np.flatnonzero((signal[:-1] < 0.0) & (signal[1:] >= 0.0))
    pictures.require(len(upward) > 2, "no vortices leave the cylinder")
    return float((len(upward) - 1) / (upward[-1] - upward[0]) * diameter / SPEED)


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    start, steps = (4000, 3000) if quick else (9000, 4000)
    probe = scene.solid.shape[0] // 2, int(7.0 * scene.diameter)
    sideways, frames = [], []
    for k in range(start + steps):
        scene.step()
        if k >= start:
            sideways.append(float(scene.velocity.numpy()[probe][1]))
            if (k - start) % (1000 if quick else 33) == 0 and k - start < 1056:
                frames.append(scene.draw())
    number = strouhal(sideways, scene.diameter)
    print(f"Strouhal number: {number:.3f}")
    pictures.require(
        0.15 < number < 0.30,
        f"the Strouhal number is {number:.3f}, not between 0.15 and 0.30",
    )
    pictures.save_gif(out / "vortex_street.gif", frames, seconds=2.6, shades=32)


if __name__ == "__main__":
    main(**pictures.options())
