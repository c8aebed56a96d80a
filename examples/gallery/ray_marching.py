"""Ray marching

A scene that is nothing but a distance function: every ray walks as far as it surely
may, until it touches something. Shadows and dark corners come from the same function.

Group: Rendering
You learn: functions of a kernel (``@wp.func``), loops with early exit, and vector
    arithmetic.
Check: where a ray meets the ball, the distance is that of the exact intersection.
Method: J. C. Hart, "Sphere tracing", The Visual Computer 12, 1996; distance functions,
    soft shadows and ambient occlusion by I. Quilez, "Distance functions" and "Soft
    shadows", iquilezles.org, 2008 to 2013.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

FAR = 30.0
EYE = wp.constant(wp.vec3(0.0, 1.9, 5.6))
BALL = wp.constant(wp.vec3(-1.55, 0.75, 0.3))
BALL_RADIUS = 0.75
SUN = wp.constant(wp.normalize(wp.vec3(0.6, 0.8, 0.55)))


@wp.func
def soft_min(a: float, b: float, k: float):
    """Return the smaller of two distances, with a round seam of width ``k``."""
    h = wp.max(k - wp.abs(a - b), 0.0) / k
    return wp.min(a, b) - 0.25 * h * h * k


@wp.func
def things(p: wp.vec3):
    """Return the distance to all that stands on the floor, except the ball."""
    q = p - wp.vec3(1.3, 0.95, 0.0)
    torus = wp.length(wp.vec2(wp.length(wp.vec2(q[0], q[1])) - 0.7, q[2])) - 0.25
    q = wp.vec3(wp.abs(p[0]), wp.abs(p[1] - 0.5), wp.abs(p[2] + 1.5))
    d = q - wp.vec3(0.42, 0.42, 0.42)
    outside = wp.vec3(wp.max(d[0], 0.0), wp.max(d[1], 0.0), wp.max(d[2], 0.0))
    block = wp.length(outside) + wp.min(wp.max(d[0], wp.max(d[1], d[2])), 0.0) - 0.08
    top = wp.length(p - wp.vec3(0.0, 1.3, -1.5)) - 0.5
    return wp.min(soft_min(torus, wp.length(q) - 0.3, 0.2), soft_min(block, top, 0.2))


@wp.func
def distance(p: wp.vec3):
    return wp.min(p[1], wp.min(wp.length(p - BALL) - BALL_RADIUS, things(p)))


@wp.func
def march(start: wp.vec3, direction: wp.vec3):
    """Return how far a ray goes, at most ``FAR``."""
    t = wp.float32(0.0)
    d = wp.float32(1.0)
    while d > 1.0e-4 * (1.0 + t) and t < FAR:
        d = distance(start + t * direction)
        t += d
    return wp.min(t, FAR)


@wp.func
def normal_at(p: wp.vec3):
    """Return the direction in which the distance grows."""
    x = distance(p + wp.vec3(1.0e-3, 0.0, 0.0))
    y = distance(p + wp.vec3(0.0, 1.0e-3, 0.0))
    z = distance(p + wp.vec3(0.0, 0.0, 1.0e-3))
    return wp.normalize(wp.vec3(x, y, z) - distance(p) * wp.vec3(1.0, 1.0, 1.0))


@wp.func
def light_on(p: wp.vec3):
    """Return the share of the sun that is seen from ``p``, with soft edges."""
    share = wp.float32(1.0)
    t = wp.float32(0.03)
    while share > 0.001 and t < 8.0:
        d = distance(p + t * SUN)
        share = wp.min(share, 10.0 * d / t)
        t += wp.clamp(d, 0.02, 0.3)
    return wp.max(share, 0.0)


@wp.func
def paint(p: wp.vec3):
    """Return the colour of what is at ``p``."""
    if wp.length(p - BALL) - BALL_RADIUS < 0.01:
        return wp.vec3(0.8, 0.09, 0.03)
    if things(p) < 0.01:
        foot, top = wp.vec3(0.0, 0.13, 0.24), wp.vec3(0.9, 0.42, 0.05)
        return wp.lerp(foot, top, wp.smoothstep(0.2, 1.7, p[1]))
    tile = int(wp.floor(1.25 * p[0])) + int(wp.floor(1.25 * p[2]))
    return wp.where(tile % 2 == 0, wp.vec3(0.34, 0.34, 0.36), wp.vec3(0.1, 0.105, 0.12))


@wp.kernel
def render(image: wp.array2d(dtype=wp.vec3), depth: wp.array2d(dtype=float)):
    row, column = wp.tid()
    height = float(image.shape[0])
    x = (float(column) + 0.5 - 0.5 * float(image.shape[1])) / height
    ray = wp.normalize(wp.vec3(x, 0.28 - (float(row) + 0.5) / height, -1.25))
    t = march(EYE, ray)
    depth[row, column] = t
    low, high = wp.vec3(0.5, 0.62, 0.75), wp.vec3(0.06, 0.16, 0.42)
    colour = wp.lerp(low, high, wp.clamp(2.5 * ray[1] + 0.3, 0.0, 1.0))
    if t < FAR:
        p = EYE + t * ray
        n = normal_at(p)
        gleam = wp.pow(wp.max(wp.dot(n, wp.normalize(SUN - ray)), 0.0), 48.0)
        direct = wp.max(wp.dot(n, SUN), 0.0) * light_on(p + 0.003 * n)
        corners = wp.clamp(distance(p + 0.25 * n) / 0.25, 0.0, 1.0)
        light = direct * wp.vec3(1.5, 1.35, 1.1)
        light += corners * (0.35 + 0.25 * n[1]) * wp.vec3(0.55, 0.7, 0.95)
        seen = wp.cw_mul(paint(p), light)
        seen += 0.5 * gleam * direct * wp.vec3(1.0, 1.0, 1.0)
        colour = wp.lerp(colour, seen, wp.exp(-0.0006 * t * t * t))
    image[row, column] = colour


class Scene:
    """Each step renders the picture."""

    def __init__(self, quick: bool = False):
        self.shape = (60, 90) if quick else (720, 1080)
        self.image = wp.zeros(self.shape, dtype=wp.vec3)
        self.depth = wp.zeros(self.shape, dtype=float)

    def step(self) -> None:
        wp.launch(render, dim=self.shape, inputs=[], outputs=[self.image, self.depth])


def check_ball(depth: np.ndarray) -> float:
    """Return the largest error where rays meet the ball not too flatly, in float64."""
    height, width = depth.shape
    y, x = np.mgrid[0:height, 0:width] + 0.5
    right, up = (x - width / 2) / height, (height / 2 - y) / height - 0.22
    rays = np.stack([right, up, np.full_like(x, -1.25)], axis=2)
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    along = rays @ (to_ball := np.subtract([*BALL], [*EYE]))
    inside = BALL_RADIUS**2 - (to_ball @ to_ball - along**2)
    error = np.abs(depth - along + np.sqrt(np.maximum(inside, 0.0)))
    return float(error[inside > 0.05].max())


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    scene.step()
    error = check_ball(scene.depth.numpy())
    print(f"Largest error of the distance to the ball: {error:.1e}")
    pictures.require(error < 5e-3, f"rays end {error:.1e} away from the ball")
    # Two by two pixels are averaged, so that edges are smooth.
    height, width = scene.shape
    light = scene.image.numpy().reshape(height // 2, 2, width // 2, 2, 3)
    pictures.save_png(out / "ray_marching.png", pictures.tone(light.mean(axis=(1, 3))))


if __name__ == "__main__":
    main(**pictures.options())
