"""Mandelbrot set

A zoom into the Mandelbrot set, and the hello world of kernels: ten lines of Python that
run once for each pixel, compiled to native code.

Group: First steps
You learn: how ``@wp.kernel``, ``wp.tid`` and ``wp.launch`` fill an image, one thread
    for each pixel.
Check: the area of the set, counted in pixels, is 1.5066 (Foerstemann 2012) within 1 %.
Method: escape times with smooth colours; R. Munafo, "Continuous dwell", Mu-Ency, 1996
    to 2023.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

CENTRE = (-0.743643, 0.131826)  # in the Seahorse Valley
AREA = 1.50659


@wp.kernel
def mandelbrot(
    centre: wp.vec2, width: float, steps: int, image: wp.array2d(dtype=float)
):
    """Write how many steps a point takes to escape; 0 if it never does."""
    row, column = wp.tid()
    pixel = width / float(image.shape[1])
    x = centre[0] + pixel * (float(column - image.shape[1] // 2) + 0.5)
    y = centre[1] + pixel * (float(row - image.shape[0] // 2) + 0.5)
    c = wp.vec2(x, y)
    z = wp.vec2(0.0, 0.0)
    n = wp.int32(0)
    while n < steps and wp.dot(z, z) < 256.0:
        z = wp.vec2(z[0] * z[0] - z[1] * z[1], 2.0 * z[0] * z[1]) + c
        n += 1
    if n < steps:
        size = wp.dot(z, z)
        image[row, column] = float(n) - wp.log2(wp.log2(size))  # no bands of equal n
    else:
        image[row, column] = 0.0


class Scene:
    """A zoom: each step draws the next frame."""

    def __init__(self, quick: bool = False):
        self.shape = (60, 90) if quick else (180, 270)
        self.image = wp.zeros(self.shape, dtype=float)
        self.width = 3.2

    def draw(self, centre: tuple[float, float]) -> np.ndarray:
        wp.launch(
            mandelbrot,
            dim=self.shape,
            inputs=[wp.vec2(*centre), self.width, 600],
            outputs=[self.image],
        )
        return self.image.numpy()

    def step(self) -> np.ndarray:
        self.width *= 0.78
        return self.draw(CENTRE)


def check_area(scene: Scene) -> None:
    inside = np.count_nonzero(scene.draw((-0.75, 0.0)) == 0.0)
    area = inside * (scene.width / scene.shape[1]) ** 2
    print(f"Area: {area:.4f}, expected {AREA}")
    few = scene.shape[0] < 100  # they count less exactly
    tolerance = 0.03 if few else 0.01
    pictures.require(
        abs(area / AREA - 1.0) < tolerance,
        f"the set has an area of {area:.4f}, not of {AREA}",
    )


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    check_area(scene)
    frames = []
    for _ in range(4 if quick else 30):
        depth = np.sqrt(np.maximum(scene.step(), 0.0) / 300.0)
        brightness = np.where(depth > 0.0, 1.0 - np.abs(1.0 - 2.4 * depth), 0.0)
        frames.append(pictures.colours(brightness, "fire", 0.0, 1.0))
    pictures.save_gif(out / "mandelbrot.gif", frames, seconds=4.0, shades=48)


if __name__ == "__main__":
    main(**pictures.options())
