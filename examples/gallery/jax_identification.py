"""System identification with JAX

Balls are thrown and filmed. From the noisy pictures we find the drag of the air, the
lift of the balls' spin and the wind, with derivatives through the whole flight.

Group: Optimisation and learning
You learn: a kernel as a step of ``jax.lax.scan``, and its derivatives by
    ``jax.jacfwd``, through ``wp.jax_kernel``.
Check: the coefficients that made the data are found again, within four standard errors
    each.
Method: Gauss-Newton least squares; L. Ljung, "System Identification: Theory for the
    User", 1987.
Not timed: it calls its kernels from JAX in another way.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pictures

import warp_like as wp

NAMES = ("drag", "lift", "wind")
TRUTH = np.array([0.085, 0.05, -1.6], np.float32)
GUESS = np.array([0.01, 0.0, 0.0], np.float32)
NOISE = 0.05  # metres
DT = 0.02


@wp.kernel
def fly(
    x: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.vec2),
    coefficients: wp.array(dtype=float),
    new_x: wp.array(dtype=wp.vec2),
    new_v: wp.array(dtype=wp.vec2),
):
    """Advance each ball by one time step."""
    i = wp.tid()
    air = v[i] - wp.vec2(coefficients[2], 0.0)
    speed = wp.length(air)
    across = wp.vec2(-air[1], air[0])
    push = speed * (coefficients[1] * across - coefficients[0] * air)
    faster = v[i] + DT * (push + wp.vec2(0.0, -9.81))
    new_v[i] = faster
    new_x[i] = x[i] + DT * faster


step = wp.jax_kernel(fly, num_outputs=2, enable_backward=True)


def throws(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where and how fast the balls start."""
    angle = np.radians(np.linspace(20.0, 72.0, count))
    v = 14.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.zeros((count, 2), np.float32), v.astype(np.float32)


def flights(coefficients: jax.Array, count: int, steps: int) -> jax.Array:
    """Return where the balls are after each step, shape (steps, count, 2)."""

    def advance(state, _):
        x, v = step(*state, coefficients)
        return (x, v), x

    first = tuple(map(jnp.asarray, throws(count)))
    return jax.lax.scan(advance, first, length=steps)[1]


def identify(
    seen: jax.Array, count: int, steps: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the coefficients after each Gauss-Newton step, and standard errors."""

    @jax.jit
    def linearised(c):
        return flights(c, count, steps) - seen, jax.jacfwd(flights)(c, count, steps)

    found = [GUESS]
    for _ in range(8):
        both = linearised(jnp.asarray(found[-1]))
        wrong, slopes = (np.asarray(a, dtype=float) for a in both)
        slopes = slopes.reshape(-1, len(NAMES))
        change, *_ = np.linalg.lstsq(slopes, -wrong.ravel(), rcond=None)
        found.append((found[-1] + change).astype(np.float32))
    return found, NOISE * np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))


def draw(seen: np.ndarray, curves: list[np.ndarray]) -> np.ndarray:
    """Return the filmed balls, the flights by the guess (grey), and by the result."""
    canvas = pictures.Canvas(720, 440)
    count = seen.shape[1]
    shades = pictures.palette("fire", count + 6)[4:-2].astype(int)

    def on_canvas(points):
        return np.array([60.0, 405.0]) + points * np.array([40.0, -40.0])

    canvas.lines(np.array([[[0, 405], [720, 405]]]), "#334155", 2.0)
    for k, curve in enumerate(curves):
        for ball in range(count):
            shade = tuple(shades[ball]) if k == len(curves) - 1 else "#475569"
            path = on_canvas(curve[:, ball])
            canvas.lines(
                path[path[:, 1] < 405][None],
                shade,
                2.2 if k == len(curves) - 1 else 1.0,
            )
    points = on_canvas(seen[::4].reshape(-1, 2))
    points = points[points[:, 1] < 403]
    canvas.dots(points, np.full((len(points), 3), 245), 1.8)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    count, steps = (5, 40) if quick else (9, 125)
    rng = np.random.default_rng(1)
    truth = flights(jnp.asarray(TRUTH), count, steps)
    seen = truth + rng.normal(0.0, NOISE, truth.shape).astype(np.float32)
    found, errors = identify(seen, count, steps)
    for name, value, error, true in zip(NAMES, found[-1], errors, TRUTH, strict=True):
        print(f"{name}: {value:.4f} +- {error:.4f}, true value {true:.4f}")
        pictures.require(
            abs(value - true) < 4.0 * error, f"{name} is {value:.4f}, not {true:.4f}"
        )
    guess, result = (
        flights(jnp.asarray(c), count, steps) for c in (found[0], found[-1])
    )
    curves = [np.asarray(guess), np.asarray(result)]
    pictures.save_png(out / "jax_identification.png", draw(np.asarray(seen), curves))


if __name__ == "__main__":
    main(**pictures.options())
