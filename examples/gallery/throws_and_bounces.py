"""Throws that bounce into a cup

How must a ball be thrown so that it bounces off floor, wall and posts, and is at a
given place at a given time? Many guesses are improved at once, each by the derivatives
of its own flight.

Group: Optimisation and learning
You learn: a tape through hundreds of launches and through contacts, and a backward pass
    for each row of a Jacobian.
Check: a simulation of the throws in NumPy with float64 arrives at the same place,
    within 2 cm.
Method: shooting with Levenberg-Marquardt steps; J. Betts, "Survey of numerical methods
    for trajectory optimization", J. Guidance, Control, and Dynamics 21, 1998. Contacts
    are stiff springs.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

RADIUS = 0.08
STIFFNESS = 24000.0
WALL = 5.0
POSTS = ((2.3, 1.15, 0.34), (3.5, 2.15, 0.3), (1.5, 2.5, 0.26))  # x, y, radius
POST = wp.constant(wp.mat33(*POSTS[0], *POSTS[1], *POSTS[2]))
START = np.array([0.4, 0.6])
GOAL = np.array([3.3, 0.9])
DT = 1.0 / 500.0


@wp.func
def push(x: wp.vec2, cx: float, cy: float, radius: float):
    """Return the force of a round post."""
    away = x - wp.vec2(cx, cy)
    depth = wp.max(radius + RADIUS - wp.length(away), 0.0)
    return STIFFNESS * depth * wp.normalize(away)


@wp.kernel
def advance(
    x: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.vec2),
    new_x: wp.array(dtype=wp.vec2),
    new_v: wp.array(dtype=wp.vec2),
):
    """Advance each ball by one time step."""
    i = wp.tid()
    p = x[i]
    floor = STIFFNESS * wp.max(RADIUS - p[1], 0.0)
    wall = STIFFNESS * wp.max(RADIUS + p[0] - WALL, 0.0)
    force = wp.vec2(-wall, floor - 9.81)
    for n in range(3):
        force += push(p, POST[n, 0], POST[n, 1], POST[n, 2])
    new_v[i] = v[i] + DT * force
    new_x[i] = p + DT * (v[i] + DT * force)


def flights(v: np.ndarray, steps: int) -> np.ndarray:
    """Return where the balls are at each moment, computed by NumPy in float64."""
    x = np.tile(START, (len(v), 1))
    path, v = [x], v.astype(float)
    for _ in range(steps):
        force = np.zeros_like(x)
        force[:, 0] = -STIFFNESS * np.maximum(RADIUS + x[:, 0] - WALL, 0.0)
        force[:, 1] = STIFFNESS * np.maximum(RADIUS - x[:, 1], 0.0) - 9.81
        for cx, cy, radius in POSTS:
            away = x - (cx, cy)
            distance = np.linalg.norm(away, axis=1, keepdims=True)
            depth = np.maximum(radius + RADIUS - distance, 0.0)
            force += STIFFNESS * depth * away / distance
        v = v + DT * force
        x = x + DT * v
        path.append(x)
    return np.stack(path)


class Scene:
    """Throws in all directions; each step improves all of them."""

    def __init__(self, quick: bool = False):
        count, self.steps = (32, 320) if quick else (500, 800)
        rng = np.random.default_rng(5)
        angle, speed = rng.uniform(-0.4, 2.0, count), rng.uniform(3.0, 8.0, count)
        self.throws = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        moments = range(self.steps + 1)  # a tape needs each of them
        self.x = [wp.zeros(count, dtype=wp.vec2, requires_grad=True) for _ in moments]
        self.v = [wp.zeros(count, dtype=wp.vec2, requires_grad=True) for _ in moments]
        with wp.Tape() as self.tape:
            self.fly()

    def fly(self) -> None:
        for k in range(self.steps):
            now, after = [self.x[k], self.v[k]], [self.x[k + 1], self.v[k + 1]]
            wp.launch(advance, dim=len(self.throws), inputs=now, outputs=after)

    def step(self) -> None:
        count = len(self.throws)
        self.x[0].assign(np.tile(START, (count, 1)))
        self.v[0].assign(self.throws)
        self.fly()
        rows = []
        # How the final x, then y, depends on the throw.
        for axis in ((1.0, 0.0), (0.0, 1.0)):
            self.tape.zero()
            self.x[-1].grad.assign(np.tile(axis, (count, 1)))
            self.tape.backward()
            rows.append(self.v[0].grad.numpy().astype(float))
        slopes = np.stack(rows, axis=1)
        miss = self.x[-1].numpy() - GOAL
        across = slopes.swapaxes(1, 2)
        damped = across @ slopes + 0.003 * np.eye(2)
        change = -np.linalg.solve(damped, across @ miss[..., None])[..., 0]
        size = np.linalg.norm(change, axis=1, keepdims=True)
        self.throws += change * np.minimum(1.0, 0.4 / np.maximum(size, 1e-12))


def draw(paths: np.ndarray) -> np.ndarray:
    """Return the flights, shape (steps, count, 2), to the goal."""
    canvas = pictures.Canvas(690, 560)

    def place(points):
        return np.array([20.0, 535.0]) + np.asarray(points) * np.array([128.0, -128.0])

    canvas.polygons(
        np.array([[[0, 535], [690, 535], [690, 560], [0, 560]]]),
        np.array([[40, 51, 70]]),
    )
    canvas.polygons(
        np.array([[[660, 0], [690, 0], [690, 560], [660, 560]]]),
        np.array([[40, 51, 70]]),
    )
    shades = pictures.palette("fire", paths.shape[1] + 14)[10:].astype(int)
    for k in range(paths.shape[1]):
        canvas.lines(place(paths[:, k])[None], tuple(shades[k].tolist()), 1.2)
    for cx, cy, radius in POSTS:
        canvas.dots(place([[cx, cy]]), np.array([[71, 104, 140]]), 128.0 * radius)
    canvas.dots(place([START]), np.array([[240, 240, 245]]), 128.0 * RADIUS)
    canvas.dots(place([GOAL]), np.array([[74, 222, 128]]), 128.0 * RADIUS)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    for _ in range(40 if quick else 60):
        scene.step()
        miss = np.linalg.norm(scene.x[-1].numpy() - GOAL, axis=1)
    thrown = scene.v[0].numpy()[miss < 1e-3]
    print(f"{len(thrown)} of {len(miss)} throws arrive within a millimetre")
    pictures.require(len(thrown) > len(miss) // 20, f"only {len(thrown)} throws arrive")
    paths = flights(thrown, scene.steps)
    error = np.linalg.norm(paths[-1] - GOAL, axis=1)
    print(
        f"In float64, they are {np.median(error):.1e} m off in the median, "
        f"{error.max():.1e} m at most"
    )
    pictures.require(
        float(np.median(error)) < 0.02,
        f"in float64 they miss by {np.median(error):.3f} m",
    )
    chosen = np.unique(thrown.round(1), axis=0, return_index=True)[1]
    pictures.save_png(out / "throws_and_bounces.png", draw(paths[:, chosen]))


if __name__ == "__main__":
    main(**pictures.options())
