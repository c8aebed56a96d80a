"""Inverse design of a lens

A ball-shaped lens has no sharp focus. Derivatives of the traced rays change its curved
side until all of them meet in one point.

Group: Optimisation and learning
You learn: derivatives of a ray tracer with ``wp.Tape``, and a whole Jacobian from a
    single backward pass.
Check: the surface found is the hyperbola that has a sharp focus by theory, within
    0.0005.
Method: Gauss-Newton; that a hyperbola focuses all rays goes back to R. Descartes, "La
    Dioptrique", 1637.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

GLASS = 1.5  # refractive index
FOCUS = 3.0
TERMS = 5
EDGE = 0.95  # half the height of the lens


@wp.kernel
def trace(
    shape: wp.array2d(dtype=float),
    height: wp.array(dtype=float),
    miss: wp.array(dtype=float),
):
    """Write how high above the axis each ray is in the plane of the focus.

    The curved side is ``depth`` behind its top, a polynomial in the square of the
    height. Each ray has coefficients of its own, a row of ``shape``. So one backward
    pass gives the derivatives of all rays, not of their sum.
    """
    i = wp.tid()
    y = height[i]
    depth = float(0.0)  # noqa: UP018 -- a variable of the loop, for Warp too
    slope = float(0.0)  # noqa: UP018
    for k in range(TERMS - 1, -1, -1):
        slope = slope * y * y + 2.0 * float(k + 1) * shape[i, k]
        depth = (depth + shape[i, k]) * y * y
    normal = wp.normalize(wp.vec2(1.0, slope * y))
    inside = normal[0]  # cosines: the ray comes along x, through the flat side
    outside = wp.sqrt(1.0 - GLASS * GLASS * (1.0 - inside * inside))
    ray = wp.vec2(GLASS, 0.0) + (outside - GLASS * inside) * normal  # Snell's law
    miss[i] = y + (FOCUS + depth) * ray[1] / ray[0]


class Scene:
    """A lens; each step of Gauss-Newton improves it."""

    def __init__(self, quick: bool = False):
        self.y = np.linspace(-EDGE, EDGE, 200 if quick else 20000)
        self.powers = np.stack([self.y ** (2 * k + 2) for k in range(TERMS)], axis=1)
        self.height = wp.array(self.y, dtype=float)
        radius = FOCUS * (GLASS - 1.0)  # focuses rays near the axis
        ball = radius - np.sqrt(radius**2 - self.y**2)
        self.shape = np.linalg.lstsq(self.powers, ball, rcond=None)[0]
        self.rows = wp.zeros((len(self.y), TERMS), dtype=float, requires_grad=True)
        self.miss = wp.zeros(len(self.y), dtype=float, requires_grad=True)

    def trace(self) -> np.ndarray:
        """Return where rays arrive, and leave the derivatives in ``self.rows.grad``."""
        self.rows.assign(np.tile(self.shape, (len(self.y), 1)))
        with wp.Tape() as tape:
            wp.launch(
                trace,
                dim=len(self.y),
                inputs=[self.rows, self.height],
                outputs=[self.miss],
            )
        self.rows.grad.zero_()
        self.miss.grad.fill_(1.0)
        tape.backward()
        return self.miss.numpy().copy()

    def step(self) -> float:
        """Improve the lens, and return how large the spot was."""
        miss = self.trace().astype(float)
        slopes = self.rows.grad.numpy().astype(float)
        self.shape -= np.linalg.lstsq(slopes, miss, rcond=1e-6)[0]
        return float(np.sqrt(np.mean(miss**2)))

    def depth(self) -> np.ndarray:
        return self.powers @ self.shape


def hyperbola(y: np.ndarray) -> np.ndarray:
    """Return the curved side from which all ways to the focus take the same time."""
    a, b = FOCUS * (GLASS - 1.0), GLASS**2 - 1.0
    return (np.sqrt(a * a + b * y * y) - a) / b


def draw(lenses: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the lenses one below the other, with some rays of each."""
    canvas = pictures.Canvas(760, 236 * len(lenses))
    for k, (y, depth, miss) in enumerate(lenses):

        def place(x, y, middle=118 + 236 * k):
            return np.stack([190.0 + 135.0 * x, middle - 108.0 * y], axis=-1)

        side = place(-depth, y)
        corners = place(np.full(2, -0.62), np.array([EDGE, -EDGE]))
        canvas.polygons(
            np.concatenate([side, corners])[None], np.array([[38, 70, 104]])
        )
        chosen = slice(None, None, len(y) // 40)
        start, exit = place(np.full_like(y, -1.5), y)[chosen], side[chosen]
        end = exit + (place(np.full_like(y, FOCUS), miss)[chosen] - exit) * 1.4
        shades = pictures.colours(np.abs(y[chosen]), "fire", -1.2, 1.1)
        rays = np.stack([start, exit, end], axis=1)
        for ray, shade in zip(rays, shades.tolist(), strict=True):
            canvas.lines(ray[None], tuple(shade), 0.8)
        canvas.lines(np.concatenate([side, corners, side[:1]])[None], "#9cc9f0", 1.4)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    lenses, spots = [(scene.y, scene.depth(), scene.trace())], []
    for _ in range(8):
        spots.append(scene.step())
    lenses.append((scene.y, scene.depth(), scene.trace()))
    spots.append(float(np.sqrt(np.mean(scene.miss.numpy() ** 2))))
    error = float(np.abs(scene.depth() - hyperbola(scene.y)).max())
    print(
        f"The spot shrinks from {spots[0]:.4f} to {spots[-1]:.6f}; "
        f"the surface is {error:.6f} off the hyperbola"
    )
    pictures.require(error < 5e-4, f"the surface is {error:.5f} off the hyperbola")
    pictures.require(
        spots[-1] < 0.01 * spots[0], f"the spot is still {spots[-1]:.5f} large"
    )
    pictures.save_png(out / "lens_design.png", draw(lenses))


if __name__ == "__main__":
    main(**pictures.options())
