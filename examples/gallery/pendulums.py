"""A map of chaos

Each pixel is a double pendulum that is let go from two angles. Its colour says how long
it takes until one of its rods turns over: calm islands lie in a sea of chaos.

Group: First steps
You learn: a ``while`` loop whose end differs from thread to thread, and a step of Runge
    and Kutta in a function.
Check: pendulums that have too little energy to turn over never do, and the energy of
    one stays the same.
Method: T. Shinbrot et al., "Chaos in a double pendulum", American Journal of Physics
    60, 1992; the map after J. Heyl, "The double pendulum fractal", 2008.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

DT = 0.02
LONGEST = 30.0  # in units of the square root of a rod's length by gravity


@wp.func
def slope(s: wp.vec4):
    """Return how fast angles and speeds change; rods have no mass, bobs are equal."""
    d = s[0] - s[1]
    c = wp.cos(d)
    below = 1.0 + wp.sin(d) * wp.sin(d)
    pull = wp.sin(d) * s[3] * s[3] + 2.0 * wp.sin(s[0])
    push = wp.sin(d) * s[2] * s[2] - wp.sin(s[1])
    return wp.vec4(
        s[2], s[3], -(pull + c * push) / below, (2.0 * push + c * pull) / below
    )


@wp.func
def advance(s: wp.vec4):
    a = slope(s)
    b = slope(s + 0.5 * DT * a)
    c = slope(s + 0.5 * DT * b)
    d = slope(s + DT * c)
    return s + DT / 6.0 * (a + 2.0 * b + 2.0 * c + d)


@wp.kernel
def let_go(time: wp.array2d(dtype=float)):
    """Write when a rod turns over; ``LONGEST`` where none does."""
    i, j = wp.tid()
    n = float(time.shape[0])
    x = wp.pi * (2.0 * (float(j) + 0.5) / n - 1.0)
    y = wp.pi * (2.0 * (float(i) + 0.5) / n - 1.0)
    s = wp.vec4(x, y, 0.0, 0.0)
    t = float(0.0)  # noqa: UP018 -- a variable that changes, for Warp too
    while t < LONGEST and wp.abs(s[0]) < wp.pi and wp.abs(s[1]) < wp.pi:
        s = advance(s)
        t += DT
    time[i, j] = t


@wp.kernel
def swing(way: wp.array(dtype=wp.vec4)):
    """Write the angles and speeds of one pendulum, moment by moment."""
    for k in range(way.shape[0] - 1):
        way[k + 1] = advance(way[k])


class Scene:
    """Pendulums that are let go from n by n angles."""

    def __init__(self, n: int = 160):
        self.time = wp.zeros((n, n), dtype=float)

    def step(self) -> None:
        wp.launch(let_go, dim=self.time.shape, inputs=[self.time])


def energy(s: np.ndarray) -> np.ndarray:
    """Return the energy of states, shape (n, 4), for rods, bobs and gravity of 1."""
    motion = s[:, 2] ** 2 + 0.5 * s[:, 3] ** 2
    motion += s[:, 2] * s[:, 3] * np.cos(s[:, 0] - s[:, 1])
    return motion - 2.0 * np.cos(s[:, 0]) - np.cos(s[:, 1])


def main(quick: bool, out: Path) -> None:
    way = wp.zeros(3000, dtype=wp.vec4)
    way.assign(np.tile([1.9, 2.3, 0.0, 0.0], (3000, 1)))
    wp.launch(swing, dim=1, inputs=[way])
    drift = float(np.ptp(energy(way.numpy().astype(float))))
    scene = Scene(64 if quick else 480)
    scene.step()
    time, n = scene.time.numpy(), len(scene.time)
    angle = np.pi * (2.0 * (np.arange(n) + 0.5) / n - 1.0)
    # With the lower rod upright, the energy is -1.
    calm = 2.0 * np.cos(angle)[None] + np.cos(angle)[:, None] > 1.0
    turned = int((time[calm] < LONGEST).sum())
    print(
        f"The energy drifts by {drift:.1e}; "
        f"{turned} of {calm.sum()} calm pendulums turned over"
    )
    pictures.require(drift < 1e-3, f"the energy drifts by {drift:.1e}")
    pictures.require(
        turned == 0, f"{turned} pendulums turned over without the energy for it"
    )
    pictures.require(bool((time[~calm] < LONGEST).any()), "no pendulum turned over")
    pictures.save_png(
        out / "pendulums.png",
        pictures.colours(np.log(time), "fire", np.log(LONGEST), np.log(1.2)),
    )


if __name__ == "__main__":
    main(**pictures.options())
