"""Cloth on a ball

A square of cloth falls on a ball and drapes over it. Thousands of short threads keep
their length.

Group: Solids
You learn: constraints in colours, which a kernel solves side by side without atomics,
    and many small time steps.
Check: until it touches the ball, the cloth's centre falls like a free body; in the end
    no thread is longer by more than 4 %, and no point is in the ball.
Method: M. Macklin, M. Mueller, N. Chentanez, "XPBD: position-based simulation of
    compliant constrained dynamics", Motion in Games 2016, with one iteration in each
    small step (M. Macklin et al., 2019).
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

RADIUS = 0.5  # of the ball around the origin
GRAVITY = 9.81
HEIGHT = 0.62  # where the cloth begins
DT = 1.0 / 1800.0
AIR = 0.9  # share of the speed that air takes in a second
FRICTION = 0.3  # share of the movement along the ball that friction takes in a step
# What threads connect (rows down, columns right), and how soft they are.
WEAVE, SLANTED = [(0, 1, 0.0), (1, 0, 0.0)], [(1, 1, 1.0), (1, -1, 1.0)]
KINDS = [*WEAVE, *SLANTED, (0, 2, 30.0), (2, 0, 30.0)]


@wp.kernel
def predict(
    dt: float,
    old: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    x: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    old[i] = x[i]
    x[i] = x[i] + dt * v[i] - wp.vec3(0.0, dt * dt * GRAVITY, 0.0)


@wp.kernel
def keep_lengths(
    threads: wp.array(dtype=wp.vec2i),
    length: float,
    softness: float,
    x: wp.array(dtype=wp.vec3),
):
    """Move both ends of a thread; no two threads of a launch share a point."""
    ends = threads[wp.tid()]
    d = x[ends[1]] - x[ends[0]]
    now = wp.length(d)
    move = (0.5 * (now - length) / (1.0 + softness) / now) * d
    x[ends[0]] = x[ends[0]] + move
    x[ends[1]] = x[ends[1]] - move


@wp.kernel
def collide(
    dt: float,
    old: wp.array(dtype=wp.vec3),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    p = x[i]
    if wp.length(p) < RADIUS:
        n = wp.normalize(p)
        moved = RADIUS * n - old[i]
        slid = moved - wp.dot(moved, n) * n
        p = RADIUS * wp.normalize(RADIUS * n - FRICTION * slid)
    x[i] = p
    v[i] = ((1.0 - AIR * dt) / dt) * (p - old[i])


def threads_of(n: int) -> list[tuple[np.ndarray, float, float]]:
    """Return each colour's pairs of points, length in grid spacings, and softness."""
    row, column = np.mgrid[0:n, 0:n]
    found = []
    for down, right, softness in KINDS:
        inside = (row + down < n) & (column + right < n) & (column + right >= 0)
        line, reach = (row, down) if down else (column, right)
        for colour in (0, 1):  # stretches of `reach` points take turns
            chosen = inside & (line // reach % 2 == colour)
            r, c = row[chosen], column[chosen]
            pairs = np.stack([r * n + c, (r + down) * n + c + right], axis=1)
            found.append(
                (pairs.astype(np.int32), float(np.hypot(down, right)), softness)
            )
    return found


class Scene:
    """A square of cloth above the ball."""

    def __init__(self, quick: bool = False):
        self.n = 24 if quick else 64
        at = np.linspace(-0.85, 0.85, self.n)
        z, x = np.meshgrid(at, at, indexing="ij")
        y = np.full_like(x, HEIGHT)
        turned = np.stack([x * 0.96 - z * 0.28, y, x * 0.28 + z * 0.96], axis=2)
        self.space = at[1] - at[0]
        self.x = wp.array(turned.reshape(-1, 3).astype(np.float32), dtype=wp.vec3)
        self.old, self.v = wp.clone(self.x), wp.zeros_like(self.x)
        self.pairs = threads_of(self.n)
        for pairs, _, _ in self.pairs:
            shared = np.unique(pairs).size < pairs.size
            pictures.require(not shared, "two threads of a colour share a point")
        self.colours = [
            (wp.array(pairs, dtype=wp.vec2i), length * self.space, softness)
            for pairs, length, softness in self.pairs
        ]

    def step(self) -> None:
        n, state = self.n**2, [self.old, self.v, self.x]
        wp.launch(predict, dim=n, inputs=[DT], outputs=state)
        for threads, length, softness in self.colours:
            inputs = [threads, length, softness, self.x]
            wp.launch(keep_lengths, dim=len(threads), inputs=inputs)
        wp.launch(collide, dim=n, inputs=[DT, self.old], outputs=[self.x, self.v])

    def longest(self) -> float:
        """Return the largest share by which a thread of the weave is too long."""
        x = self.x.numpy().astype(float)
        weave = np.concatenate([pairs for pairs, long, _ in self.pairs if long == 1.0])
        lengths = np.linalg.norm(x[weave[:, 1]] - x[weave[:, 0]], axis=1)
        return float(lengths.max() / self.space - 1.0)

    def draw(self, width: int, height: int) -> np.ndarray:
        """Paint the squares of the cloth, the far ones first."""
        grid = self.x.numpy().astype(float).reshape(self.n, self.n, 3)
        corners = [grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]]
        quads = np.stack(corners, axis=2).reshape(-1, 4, 3)
        normal = np.cross(quads[:, 2] - quads[:, 0], quads[:, 3] - quads[:, 1])
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        c, s = np.cos(0.5), np.sin(0.5)
        seen = quads @ np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]])
        front = normal @ np.array([0.0, s, c]) > 0.0
        light = np.abs(normal @ np.array([0.45, 0.75, 0.48]))[:, None]
        row, column = np.divmod(np.arange(len(quads)), self.n - 1)
        check = ((row * 10 // self.n + column * 10 // self.n) % 2 == 0)[:, None]
        paint = np.where(check, (0.85, 0.16, 0.12), (0.9, 0.72, 0.45))
        paint *= np.where(front, 1.0, 0.45)[:, None]
        shades = pictures.tone(paint * (0.12 + 0.9 * light**1.5))
        canvas = pictures.Canvas(width, height, "#10141f")
        scale = 0.46 * width
        middle = np.array([[0.5 * width, 0.53 * height]])
        corners = middle + seen[:, :, :2] * (scale, -scale)
        depth = seen[:, :, 2].mean(axis=1)
        order = np.argsort(depth)
        behind = depth[order] < 0.0  # half of the cloth is painted before the ball
        canvas.polygons(corners[order][behind], shades[order][behind])
        for k in np.linspace(0.0, 1.0, 32):  # discs that get brighter towards the light
            shade = pictures.tone(np.array([[0.1, 0.22, 0.38]]) * (0.12 + 1.1 * k))
            at = middle + k * np.array([0.1, -0.17]) * scale
            canvas.dots(at, shade, 0.985 * RADIUS * (1.0 - 0.8 * k) * scale)
        canvas.polygons(corners[order][~behind], shades[order][~behind])
        return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene, frames = Scene(quick), []
    for frame in range(12 if quick else 45):
        frames.append(scene.draw(280, 280))
        for _ in range(60):
            scene.step()
        if frame == 3:  # the cloth still falls freely, in air
            t = 240 * DT
            fall = GRAVITY / AIR * (t - (1.0 - np.exp(-AIR * t)) / AIR)
            fallen = HEIGHT - float(scene.x.numpy()[:, 1].astype(float).mean())
            pictures.require(abs(fallen / fall - 1.0) < 0.02, f"it fell {fallen:.4f}")
    longest = scene.longest()
    depth = RADIUS - float(np.linalg.norm(scene.x.numpy(), axis=1).min())
    print(
        f"It fell {fallen:.4f} of {fall:.4f}; the longest thread is {longest:.2%} "
        f"too long; {depth:.1e} in the ball"
    )
    pictures.require(longest < 0.04, f"a thread is {longest:.1%} too long")
    pictures.require(depth < 1e-5, f"a point is {depth:.1e} inside the ball")
    pictures.save_gif(out / "cloth.gif", frames, seconds=3.2, shades=64)


if __name__ == "__main__":
    main(**pictures.options())
