"""Computed tomography

X-rays from a few directions cast shadows of a head. Which head casts them? Gradients
through the rays go back to its picture.

Group: Optimisation and learning
You learn: ``wp.paddle_op``, which makes a kernel a differentiable operator, within an
    optimiser of Paddle.
Check: the shadow of a disc is that of the formula, derivatives fit the operator, and
    the head comes back.
Method: the head of L. Shepp and B. Logan, "The Fourier reconstruction of a head
    section", IEEE Trans. Nucl. Sci. 21, 1974, found as the smallest total variation
    that fits, after L. Rudin, S. Osher, E. Fatemi, Physica D 60, 1992.
Not timed: Warp has no ``paddle_op``.
"""

from pathlib import Path

import numpy as np
import paddle
import pictures
from PIL import Image

import warp_like as wp

# Intensity, half axes, centre and angle of the ellipses of a head; intensities add up.
ELLIPSES = np.array(
    [
        [1.0, 0.69, 0.92, 0.0, 0.0, 0.0],
        [-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0],
        [-0.2, 0.11, 0.31, 0.22, 0.0, -18.0],
        [-0.2, 0.16, 0.41, -0.22, 0.0, 18.0],
        [0.1, 0.21, 0.25, 0.0, 0.35, 0.0],
        [0.1, 0.046, 0.046, 0.0, 0.1, 0.0],
        [0.1, 0.046, 0.046, 0.0, -0.1, 0.0],
        [0.1, 0.046, 0.023, -0.08, -0.605, 0.0],
        [0.1, 0.023, 0.023, 0.0, -0.606, 0.0],
        [0.1, 0.023, 0.046, 0.06, -0.605, 0.0],
    ]
)


@wp.paddle_op(
    dim=lambda image, angles: (len(angles), image.shape[1]),
    shapes={"shadow": lambda i, a: (len(a), i.shape[1])},
)
@wp.kernel
def cast(
    image: wp.array2d(dtype=float),
    angles: wp.array(dtype=float),
    shadow: wp.array2d(dtype=float),
):
    """Add up the interpolated picture along a ray, half a pixel at a time."""
    a, k = wp.tid()
    n = image.shape[0]
    middle = 0.5 * float(n - 1)
    along = wp.vec2(wp.cos(angles[a]), wp.sin(angles[a]))
    total = float(0.0)  # noqa: UP018 -- as in other kernels
    for step in range(2 * n):
        t = 0.5 * (float(step) + 0.5) - 0.5 * float(n)
        x = middle + t * along[0] - (float(k) - middle) * along[1]
        y = middle + t * along[1] + (float(k) - middle) * along[0]
        i = int(wp.floor(y))
        j = int(wp.floor(x))
        if i >= 0 and j >= 0 and i < n - 1 and j < n - 1:
            u = x - float(j)
            v = y - float(i)
            top = (1.0 - u) * image[i, j] + u * image[i, j + 1]
            below = (1.0 - u) * image[i + 1, j] + u * image[i + 1, j + 1]
            total += (1.0 - v) * top + v * below
    shadow[a, k] = total / float(n)  # the picture is 2 wide, and a step is half a pixel


def head(n: int, ellipses: np.ndarray = ELLIPSES) -> np.ndarray:
    """Return the picture of ellipses, n by n pixels, each the mean of nine points."""
    ticks = (np.arange(3 * n) + 0.5) * 2.0 / (3 * n) - 1.0
    x, y = np.meshgrid(ticks, -ticks)
    image = np.zeros((3 * n, 3 * n))
    for light, a, b, x0, y0, degrees in ellipses:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        u, v = (x - x0) * c + (y - y0) * s, (y - y0) * c - (x - x0) * s
        image[(u / a) ** 2 + (v / b) ** 2 <= 1.0] += light
    return image.reshape(n, 3, n, 3).mean(axis=(1, 3)).astype(np.float32)


def roughness(image: paddle.Tensor) -> paddle.Tensor:
    """Return the total variation: the mean length of the picture's slope."""
    down, right = image[1:, :-1] - image[:-1, :-1], image[:-1, 1:] - image[:-1, :-1]
    return (down**2 + right**2 + 1e-6).sqrt().mean()


def disc_error(n: int, angles: paddle.Tensor) -> float:
    """Return the mean error of a disc's shadow, which is the length of rays in it."""
    disc = head(n, np.array([[1.0, 0.6, 0.6, 0.0, 0.0, 0.0]]))
    shadow = cast(paddle.to_tensor(disc), angles).numpy()
    off = (np.arange(n) + 0.5) * 2.0 / n - 1.0
    return float(np.abs(shadow - 2.0 * np.sqrt(np.maximum(0.36 - off**2, 0.0))).mean())


def reconstruct(
    shadow: paddle.Tensor, angles: paddle.Tensor, n: int, steps: int
) -> np.ndarray:
    """Return the smoothest picture that casts these shadows."""
    zero = paddle.nn.initializer.Constant(0.0)
    image = paddle.create_parameter([n, n], "float32", default_initializer=zero)
    exact = {"tolerance_grad": 0.0, "tolerance_change": 0.0}
    optimiser = paddle.optimizer.LBFGS(
        max_iter=10,
        history_size=20,
        line_search_fn="strong_wolfe",
        parameters=[image],
        **exact,
    )

    def loss() -> paddle.Tensor:
        optimiser.clear_grad()
        miss = ((cast(image, angles) - shadow) ** 2).mean()
        value = 1e3 * miss + 0.1 * roughness(image)
        value.backward()
        return value

    for _ in pictures.progress(steps // 10, "ten steps"):
        optimiser.step(loss)
    return image.numpy()


def draw(panels: list[np.ndarray], size: int = 270) -> np.ndarray:
    """Return pictures side by side, each from its darkest to its lightest."""
    size, smooth = (size, size), Image.Resampling.BICUBIC
    images = [Image.fromarray(panel).resize(size, smooth) for panel in panels]
    images = [pictures.colours(np.array(i), "ice", 0.0, 1.0) for i in images]
    return np.concatenate(images, axis=1)


def main(quick: bool, out: Path) -> None:
    n, directions, steps = (40, 16, 30) if quick else (144, 40, 160)
    truth = head(n)
    angles = np.pi * np.arange(directions) / directions
    angles = paddle.to_tensor(angles, dtype="float32")
    image = paddle.to_tensor(truth, stop_gradient=False)
    shadow = cast(image, angles)
    # The shadows are linear in the picture.
    (back,) = paddle.grad([(shadow**2).sum()], [image])
    fit = abs(float((back * image).sum()) / (2.0 * float((shadow**2).sum())) - 1.0)
    disc = disc_error(n, angles)
    found = reconstruct(shadow.detach(), angles, n, steps)
    error = float(np.sqrt(np.mean((found - truth) ** 2)))
    print(
        f"The disc is off by {disc:.4f}, derivatives by {fit:.1e}, "
        f"and the head by {error:.4f}"
    )
    pictures.require(disc < 0.6 / n, f"the shadow of a disc is off by {disc:.4f}")
    pictures.require(fit < 1e-4, f"the derivatives are off by {fit:.1e}")
    pictures.require(
        error < (0.08 if quick else 0.02), f"the head is off by {error:.4f}"
    )
    blurred = back.numpy() / float(back.max())
    pictures.save_png(
        out / "tomography.png",
        draw([shadow.numpy() / float(shadow.max()), blurred, 2.2 * found]),
    )


if __name__ == "__main__":
    main(**pictures.options())
