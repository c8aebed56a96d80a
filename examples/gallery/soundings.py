"""A sea floor from soundings

Ships have measured the depth of a sea along their ways. How deep is it between them,
and how sure is that? Each block of the grid answers for a square of the map: it solves
equations with the nearest soundings. From left to right: the soundings, the map, its
error as it says, and the true floor.

Group: Optimisation and learning
You learn: tiles: a block builds matrices with ``wp.tile_map``, and solves with
    ``wp.tile_cholesky``.
Check: the map misses the true floor by as much as it says, within 15 %, and squares
    agree with NumPy in float64.
Method: kriging with the nearest neighbours; C. Rasmussen, C. Williams, "Gaussian
    processes for machine learning", MIT Press 2006, algorithm 2.1. The true floor is a
    random field of the same covariance.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

NEAR = 32  # soundings that a square looks at
SIDE = 8  # pixels of a square, each way
PIXELS = SIDE * SIDE
LENGTH = wp.constant(0.11)  # over which the depth changes; the map is 1 wide
NOISE = wp.constant(1e-4)  # variance of a sounding's error; that of the depth is 1


@wp.func
def covariance(a: wp.vec2, b: wp.vec2):
    """Return the covariance of depths (Matern 3/2): 1 at one place, 0 far away."""
    d = 1.7320508 * wp.length(a - b) / LENGTH
    return (1.0 + d) * wp.exp(-d)


@wp.kernel
def interpolate(
    places: wp.array2d(dtype=wp.vec2),
    depths: wp.array2d(dtype=float),
    pixels: wp.array2d(dtype=wp.vec2),
    mean: wp.array2d(dtype=float),
    variance: wp.array2d(dtype=float),
):
    """Write the depth of a square's pixels, and the variance of its error."""
    square = wp.tid()
    near = wp.tile_load(places[square], shape=NEAR)
    row = wp.tile_broadcast(wp.tile_reshape(near, shape=(1, NEAR)), shape=(NEAR, NEAR))
    column = wp.tile_reshape(near, shape=(NEAR, 1))
    column = wp.tile_broadcast(column, shape=(NEAR, NEAR))
    noise = wp.tile_full(shape=NEAR, value=NOISE, dtype=float)
    alike = wp.tile_map(covariance, row, column)
    factor = wp.tile_cholesky(wp.tile_diag_add(alike, noise))

    at = wp.tile_reshape(wp.tile_load(pixels[square], shape=PIXELS), shape=(1, PIXELS))
    to = wp.tile_broadcast(wp.tile_reshape(near, shape=(NEAR, 1)), shape=(NEAR, PIXELS))
    cross = wp.tile_map(covariance, to, wp.tile_broadcast(at, shape=(NEAR, PIXELS)))

    weights = wp.tile_cholesky_solve(factor, wp.tile_load(depths[square], shape=NEAR))
    found = wp.tile_matmul(wp.tile_reshape(weights, shape=(1, NEAR)), cross)
    wp.tile_store(mean[square], wp.tile_reshape(found, shape=(PIXELS,)))
    known = wp.tile_lower_solve(factor, cross)
    sums = wp.tile_reduce(wp.add, wp.tile_map(wp.mul, known, known), axis=0)
    wp.tile_store(variance[square], wp.tile_ones(shape=PIXELS, dtype=float) - sums)


def random_floor(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return an n by n field of this covariance, by the FFT of a larger torus."""
    k = np.minimum(np.arange(2 * n), 2 * n - np.arange(2 * n)) / n
    d = np.sqrt(3.0) * np.hypot(k[:, None], k[None, :]) / LENGTH
    power = np.fft.fft2((1.0 + d) * np.exp(-d)).real.clip(0.0)
    noise = rng.normal(size=(2 * n, 2 * n)) + 1j * rng.normal(size=(2 * n, 2 * n))
    return np.fft.fft2(np.sqrt(power) * noise).real[:n, :n] / (2 * n)


class Scene:
    """A map of n by n pixels, in squares, and the soundings nearest to each square."""

    def __init__(self, quick: bool = False):
        rng = np.random.default_rng(5)
        self.n, ships = (64, 12) if quick else (256, 32)
        self.floor = random_floor(self.n, rng)
        angle = rng.uniform(0.0, np.pi, (ships, 1))
        start = rng.uniform(0.0, 1.0, (ships, 1, 2))
        heading = np.stack([np.cos(angle), np.sin(angle)], axis=2)
        ways = start + np.arange(-1.4, 1.4, 0.025)[:, None] * heading
        inside = ways[np.all((ways >= 0.0) & (ways < 1.0), axis=2)]
        self.cells = np.unique((inside * self.n).astype(int) @ (1, self.n))
        y, x = np.divmod(np.arange(self.n * self.n), self.n)
        grid = np.stack([x + 0.5, y + 0.5], axis=1) / self.n
        self.places = grid[self.cells]
        errors = rng.normal(size=len(self.cells)) * np.sqrt(NOISE)
        self.depths = self.floor.ravel()[self.cells] + errors
        squares = self.in_squares(grid.reshape(self.n, self.n, 2))
        away = np.linalg.norm(squares.mean(axis=1)[:, None] - self.places, axis=2)
        nearest = np.argpartition(away, NEAR, axis=1)[:, :NEAR]
        self.near = wp.array(self.places[nearest], dtype=wp.vec2)
        self.seen = wp.array(self.depths[nearest], dtype=float)
        self.pixels = wp.array(squares, dtype=wp.vec2)
        self.mean = wp.zeros(self.pixels.shape, dtype=float)
        self.variance = wp.zeros_like(self.mean)

    def in_squares(self, image: np.ndarray) -> np.ndarray:
        """Return an image, shape (n, n, 2), by squares: (squares, PIXELS, 2)."""
        k = self.n // SIDE
        squares = image.reshape(k, SIDE, k, SIDE, 2).swapaxes(1, 2)
        return squares.reshape(k * k, PIXELS, 2)

    def as_image(self, squares: wp.array) -> np.ndarray:
        """Return the numbers of all squares as an image, (n, n)."""
        k = self.n // SIDE
        rows = squares.numpy().reshape(k, k, SIDE, SIDE).swapaxes(1, 2)
        return rows.reshape(self.n, self.n)

    def step(self) -> None:
        arrays = [self.near, self.seen, self.pixels]
        outputs = [self.mean, self.variance]
        wp.launch_tiled(
            interpolate,
            dim=len(self.near),
            inputs=arrays,
            outputs=outputs,
            block_dim=32,
        )

    def exact(self, square: int) -> np.ndarray:
        """Return the depths of a square by NumPy, in float64."""
        near = self.near.numpy()[square].astype(float)
        pixels = self.pixels.numpy()[square].astype(float)
        d = np.linalg.norm(np.concatenate([near, pixels])[:, None] - near, axis=2)
        d *= np.sqrt(3.0) / LENGTH
        k = (1.0 + d) * np.exp(-d)
        seen = self.seen.numpy()[square]
        return k[NEAR:] @ np.linalg.solve(k[:NEAR] + NOISE * np.eye(NEAR), seen)


def draw(scene: Scene) -> np.ndarray:
    """Return soundings, map, its own error and the true floor, side by side."""
    scale, n = 280 / scene.n, scene.n
    canvas = pictures.Canvas(280, 280, "#06121f")
    canvas.dots(
        scene.places * 280, pictures.colours(scene.depths, "reef", -2.5, 2.5), 2.0
    )
    error = np.sqrt(scene.as_image(scene.variance).clip(0.0))
    maps = [
        pictures.colours(scene.as_image(scene.mean), "reef", -2.5, 2.5),
        pictures.colours(error, "fire", 0.0, 1.0),
    ]
    maps.append(pictures.colours(scene.floor, "reef", -2.5, 2.5))
    at = (np.arange(280) / scale).astype(int).clip(0, n - 1)
    maps = [image[at][:, at] for image in maps]
    return np.concatenate([canvas.pixels(), *maps], axis=1)


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    scene.step()
    mean, some = scene.mean.numpy(), range(0, len(scene.near), 7)
    off = max(np.abs(mean[k] - scene.exact(k)).max() for k in some)
    missed = scene.as_image(scene.mean) - scene.floor
    said = scene.as_image(scene.variance)
    ratio = float(np.sqrt(np.mean(missed**2) / np.mean(said)))
    print(
        f"{len(scene.places)} soundings for {scene.n**2} pixels: "
        f"off by {np.sqrt(np.mean(missed**2)):.3f}, ",
        end="",
    )
    print(f"{ratio:.3f} times what the map says; from NumPy by {off:.1e}")
    pictures.require(off < 2e-3, f"the depths are {off:.1e} from those of NumPy")
    pictures.require(
        abs(ratio - 1.0) < 0.15, f"the errors are {ratio:.3f} times what is said"
    )
    pictures.save_png(out / "soundings.png", draw(scene))


if __name__ == "__main__":
    main(**pictures.options())
