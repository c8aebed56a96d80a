"""Contour lines

A map of an island: marching squares look at each square of a grid of heights, and draw
a line where the height passes a level.

Group: First steps
You learn: output of unknown size: count, ``wp.utils.array_scan``, write; noise from
    ``wp.noise``.
Check: the lines of a cone are as long as circles, and each line of the island is
    closed.
Method: W. Lorensen, H. Cline, "Marching cubes", SIGGRAPH 1987, in two dimensions.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

LEVELS = 16


@wp.kernel
def raise_island(height: wp.array2d(dtype=float), seed: int):
    """Write heights: noise of several sizes, on a hill that ends in the sea."""
    i, j = wp.tid()
    p = wp.vec2(float(j) / float(height.shape[1]), float(i) / float(height.shape[0]))
    state = wp.rand_init(seed)
    bumps = float(0.0)  # noqa: UP018 -- a variable that changes, for Warp too
    for octave in range(5):
        scale = wp.pow(2.0, float(octave))
        bumps += wp.noise(state, 4.0 * scale * p + wp.vec2(37.0 * scale, 11.0)) / scale
    away = 2.0 * wp.length(p - wp.vec2(0.5, 0.5))
    hill = (0.55 + 1.1 * bumps) * wp.max(1.0 - away * away, 0.0)
    height[i, j] = hill - 0.12 * away * away - 0.1


@wp.func
def crossings(height: wp.array2d(dtype=float), i: int, j: int, level: float):
    """Return a bit for each corner that is above the level."""
    top = wp.where(height[i, j] > level, 1, 0)
    top += wp.where(height[i, j + 1] > level, 2, 0)
    bottom = wp.where(height[i + 1, j + 1] > level, 4, 0)
    return top + bottom + wp.where(height[i + 1, j] > level, 8, 0)


@wp.func
def on_edge(height: wp.array2d(dtype=float), i: int, j: int, edge: int, level: float):
    """Return where the level passes an edge: 0 to 3 are top, right, bottom and left."""
    a = wp.vec2i(i + wp.where(edge == 2, 1, 0), j + wp.where(edge == 1, 1, 0))
    b = a + wp.where(edge % 2 == 0, wp.vec2i(0, 1), wp.vec2i(1, 0))
    low = height[a[0], a[1]]
    share = (level - low) / (height[b[0], b[1]] - low)
    start = wp.vec2(float(a[1]), float(a[0]))
    return start + share * wp.where(edge % 2 == 0, wp.vec2(1.0, 0.0), wp.vec2(0.0, 1.0))


@wp.kernel
def count_lines(
    height: wp.array2d(dtype=float),
    levels: wp.array(dtype=float),
    count: wp.array3d(dtype=int),
):
    """Write how many lines pass a square: two where opposite corners are above."""
    k, i, j = wp.tid()
    corners = crossings(height, i, j, levels[k])
    none = corners == 0 or corners == 15
    two = corners == 5 or corners == 10
    count[k, i, j] = wp.where(none, 0, wp.where(two, 2, 1))


@wp.kernel
def draw_lines(
    height: wp.array2d(dtype=float),
    levels: wp.array(dtype=float),
    end: wp.array3d(dtype=int),
    lines: wp.array2d(dtype=wp.vec2),
):
    """Write a square's lines, from edges where it falls to those where it rises."""
    k, i, j = wp.tid()
    corners = crossings(height, i, j, levels[k])
    if corners != 0 and corners != 15:
        place = end[k, i, j]
        for edge in range(4):
            if (corners >> edge & 1) == 1 and (corners >> ((edge + 1) % 4) & 1) == 0:
                other = (edge + 1) % 4
                while (corners >> ((other + 1) % 4) & 1) == 0:
                    other = (other + 1) % 4
                place -= 1
                lines[place, 0] = on_edge(height, i, j, edge, levels[k])
                lines[place, 1] = on_edge(height, i, j, other, levels[k])


class Scene:
    """An island, or other heights that are given."""

    def __init__(self, quick: bool = False, heights: np.ndarray | None = None):
        n = 96 if quick else 480
        if heights is None:
            self.height = wp.zeros((n, n), dtype=float)
            wp.launch(raise_island, dim=(n, n), inputs=[self.height, 5])
        else:
            self.height = wp.array(heights, dtype=float)
        self.levels = wp.array(np.linspace(0.0, 0.75, LEVELS) + 1e-4, dtype=float)
        self.squares = (LEVELS, self.height.shape[0] - 1, self.height.shape[1] - 1)
        self.count = wp.zeros(self.squares, dtype=int)
        self.end = wp.zeros_like(self.count)
        self.lines = wp.zeros((1, 2), dtype=wp.vec2)

    def step(self) -> None:
        """Find the lines of all levels, sorted by level."""
        inputs = [self.height, self.levels]
        wp.launch(count_lines, dim=self.squares, inputs=inputs, outputs=[self.count])
        wp.utils.array_scan(self.count.flatten(), self.end.flatten(), inclusive=True)
        total = int(self.end.numpy()[-1, -1, -1])
        if len(self.lines) < total:
            self.lines = wp.zeros((total, 2), dtype=wp.vec2)
        inputs.append(self.end)
        wp.launch(draw_lines, dim=self.squares, inputs=inputs, outputs=[self.lines])

    def by_level(self) -> list[np.ndarray]:
        """Return the lines of each level, shape (lines, 2, 2)."""
        ends = self.end.numpy()[:, -1, -1]
        pieces = zip([0, *ends[:-1]], ends, strict=True)
        return [self.lines.numpy()[begin:end] for begin, end in pieces]


def draw(scene: Scene, size: int = 560) -> np.ndarray:
    height = scene.height.numpy()
    slope = np.gradient(height, 1.0 / len(height))
    light = np.clip(1.0 + 0.16 * (slope[0] + slope[1])[..., None], 0.55, 1.3)
    land = pictures.colours(height, "land", -0.25, 0.75)
    land = np.clip(land * np.where(height[..., None] > 0.0, light, 1.0), 0, 255)
    canvas = pictures.Canvas(size, size, land.astype(np.uint8))
    scale = size / len(height)
    for k, lines in enumerate(scene.by_level()):
        shade, width = "#f6efd8" if k == 0 else "#3b2f22", 0.6 if k % 5 else 1.6
        canvas.lines((lines + 0.5) * scale, shade, width)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    y, x = np.mgrid[-1.0:1.0:301j, -1.0:1.0:301j]
    cone = Scene(quick, 0.9 - np.hypot(x, y))
    cone.step()
    parts = [lines[:, 1] - lines[:, 0] for lines in cone.by_level()]
    long = np.array([np.linalg.norm(part, axis=1).sum() for part in parts]) / 150.0
    error = np.abs(long / (2.0 * np.pi * (0.9 - cone.levels.numpy())) - 1.0).max()
    scene = Scene(quick)
    scene.step()
    ends = scene.lines.numpy().view("c8")
    starts, ends = (np.sort(ends[:, k], axis=0) for k in (0, 1))
    print(f"Circles are off by {error:.1e}; the map has {len(starts)} lines")
    pictures.require(error < 1e-3, f"circles are off by {error:.1e}")
    pictures.require(bool(np.all(starts == ends)), "a contour is not closed")
    pictures.save_png(out / "contour_lines.png", draw(scene))


if __name__ == "__main__":
    main(**pictures.options())
