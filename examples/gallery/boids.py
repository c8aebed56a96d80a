"""Flocks of birds

Each bird sees only those around it: it keeps its distance, turns as they turn, and
stays with them. Flocks form without a leader.

Group: Particles
You learn: neighbours in cells, found by ``wp.utils.radix_sort_pairs``; no cell has a
    limit, and nothing is atomic.
Check: the cells give exactly the neighbours that a search through all pairs finds; the
    birds end up flying in flocks.
Method: C. Reynolds, "Flocks, herds and schools: a distributed behavioral model",
    SIGGRAPH 1987.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

WIDTH, HEIGHT = 32, 20  # cells; a bird sees as far as a cell is wide
SPEED, NEAR = 0.06, 0.35  # a bird avoids those that are near
FOLLOW, GATHER, AVOID = 0.05, 0.003, 0.008


@wp.func
def wrap(d: wp.vec2):
    """Return a difference of places across borders that are joined."""
    x = d[0] - float(WIDTH) * wp.round(d[0] / float(WIDTH))
    y = d[1] - float(HEIGHT) * wp.round(d[1] / float(HEIGHT))
    return wp.vec2(x, y)


@wp.func
def cell_of(x: wp.vec2):
    return int(x[1]) % HEIGHT * WIDTH + int(x[0]) % WIDTH


@wp.kernel
def name_cells(
    x: wp.array(dtype=wp.vec2), cell: wp.array(dtype=int), bird: wp.array(dtype=int)
):
    i = wp.tid()
    cell[i] = cell_of(x[i])
    bird[i] = i


@wp.kernel
def find_starts(cell: wp.array(dtype=int), count: int, start: wp.array(dtype=int)):
    """Write where cells begin: a bird does so for the cells since the last bird."""
    i = wp.tid()
    previous = wp.where(i > 0, cell[wp.max(i - 1, 0)], -1)
    here = wp.where(i < count, cell[i], start.shape[0] - 1)
    for c in range(previous + 1, here + 1):
        start[c] = i


@wp.kernel
def fly(
    x: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.vec2),
    bird: wp.array(dtype=int),
    start: wp.array(dtype=int),
    new_x: wp.array(dtype=wp.vec2),
    new_v: wp.array(dtype=wp.vec2),
    seen: wp.array(dtype=int),
):
    """Turn a bird by those in the nine cells around it, and move it."""
    i = bird[wp.tid()]  # neighbouring threads look into the same cells
    heading = wp.vec2(0.0, 0.0)
    middle = wp.vec2(0.0, 0.0)
    away = wp.vec2(0.0, 0.0)
    count = int(0)  # noqa: RUF046, UP018 -- a variable that changes, for Warp too
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            cell = cell_of(x[i] + wp.vec2(float(WIDTH + dx), float(HEIGHT + dy)))
            for k in range(start[cell], start[cell + 1]):
                d = wrap(x[bird[k]] - x[i])
                r2 = wp.dot(d, d)
                if bird[k] != i and r2 < 1.0:
                    heading += v[bird[k]]
                    middle += d
                    count += 1
                    if r2 < NEAR * NEAR:
                        away -= d / (r2 + 0.01)
    turn = FOLLOW * (heading / float(wp.max(count, 1)) - v[i])
    turn += (GATHER * middle + AVOID * away) * SPEED
    turned = SPEED * wp.normalize(v[i] + turn)
    moved = x[i] + turned + wp.vec2(float(WIDTH), float(HEIGHT))
    new_v[i] = turned
    new_x[i] = wp.vec2(moved[0] % float(WIDTH), moved[1] % float(HEIGHT))
    seen[i] = count


class Scene:
    """Birds anywhere, that fly in any direction."""

    def __init__(self, quick: bool = False):
        self.count = 400 if quick else 3200
        share = np.random.default_rng(8).uniform(size=(3, self.count))
        x, y, angle = share * [[WIDTH], [HEIGHT], [2.0 * np.pi]]
        v = SPEED * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        self.x = wp.array(np.stack([x, y], axis=1), dtype=wp.vec2)
        self.v = wp.array(v, dtype=wp.vec2)
        self.new_x, self.new_v = wp.zeros_like(self.x), wp.zeros_like(self.v)
        self.cell = wp.zeros(2 * self.count, dtype=int)  # the sort wants twice the room
        self.bird = wp.zeros_like(self.cell)
        self.start = wp.zeros(WIDTH * HEIGHT + 1, dtype=int)
        self.seen = wp.zeros(self.count, dtype=int)

    def step(self) -> None:
        wp.launch(
            name_cells, dim=self.count, inputs=[self.x], outputs=[self.cell, self.bird]
        )
        wp.utils.radix_sort_pairs(self.cell, self.bird, self.count)
        wp.launch(
            find_starts,
            dim=self.count + 1,
            inputs=[self.cell, self.count],
            outputs=[self.start],
        )
        state = [self.x, self.v, self.bird, self.start]
        after = [self.new_x, self.new_v, self.seen]
        wp.launch(fly, dim=self.count, inputs=state, outputs=after)
        self.x, self.new_x = self.new_x, self.x
        self.v, self.new_v = self.new_v, self.v


def neighbours(x: np.ndarray) -> np.ndarray:
    """Return which birds see each other, by a search through all pairs."""
    d = x[:, None] - x[None]
    d -= np.round(d / (WIDTH, HEIGHT)) * (WIDTH, HEIGHT)
    return ((d * d).sum(axis=2) < 1.0) & ~np.eye(len(x), dtype=bool)


def draw(scene: Scene, scale: int = 24) -> np.ndarray:
    """Return the birds, each with its way, in the colour of its direction."""
    direction = np.arctan2(*scene.v.numpy().T[::-1]) % (2.0 * np.pi)
    shades = pictures.colours(direction, "wheel", 0.0, 2.0 * np.pi)
    canvas = pictures.Canvas(WIDTH * scale, HEIGHT * scale)
    way = [scene.x.numpy().copy()]
    for _ in range(14):
        scene.step()
        d = scene.x.numpy() - way[-1]
        d -= np.round(d / (WIDTH, HEIGHT)) * (WIDTH, HEIGHT)  # across the border
        way.append(way[-1] + d)
    way = np.stack(way, axis=1) * scale
    for part, light in ((way[:, 0:6], 0.25), (way[:, 5:11], 0.5), (way[:, 10:], 0.9)):
        paint = (shades * light).astype(int).tolist()
        for line, shade in zip(part, paint, strict=True):
            canvas.lines(line[None], tuple(shade), 1.5)
    canvas.dots(way[:, -1], shades, 1.6)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    expected = neighbours(scene.x.numpy()).sum(axis=1)
    scene.step()
    pictures.require(
        bool(np.all(scene.seen.numpy() == expected)), "the cells give other neighbours"
    )
    for _ in pictures.progress(150 if quick else 230, "step"):
        scene.step()
    v = scene.v.numpy() / SPEED
    order = float((v @ v.T)[neighbours(scene.x.numpy())].mean())
    print(
        "The cells give the right neighbours; "
        f"birds fly in parallel with theirs by {order:.3f}"
    )
    pictures.require(
        order > 0.5, f"birds fly in parallel with their neighbours by {order:.3f} only"
    )
    pictures.save_png(out / "boids.png", draw(scene))


if __name__ == "__main__":
    main(**pictures.options())
