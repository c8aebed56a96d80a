"""Path tracing

Light bounces between balls of glass, metal and chalk. Each path picks its directions by
chance, and the mean of many paths is the picture.

Group: Rendering
You learn: random numbers in kernels, functions that return several values, and scenes
    in arrays.
Check: alone with one lamp, the floor is as bright as the exact formula says, within 3
    %.
Method: J. T. Kajiya, "The rendering equation", SIGGRAPH 1986; P. Shirley, "Ray tracing
    in one weekend", 2016; reflection of glass by C. Schlick, 1994.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

NOTHING = -1  # met by a ray that misses all balls (0, 1, ...) and the floor (the last)
CHALK, METAL, GLASS, LAMP = 0, 1, 2, 3
EYE = wp.constant(wp.vec3(0.0, 1.5, 6.2))
DOWN = 0.13  # how much the camera looks down
GREY = 0.55  # share of light that the floor throws back
BOUNCES, FAR = 20, 1.0e6
Rows = wp.array(dtype=wp.vec4)


@wp.func
def first_three(row: wp.vec4):
    return wp.vec3(row[0], row[1], row[2])


@wp.func
def nearest(balls: Rows, start: wp.vec3, ray: wp.vec3):
    """Return how far a ray goes and what it meets."""
    t = wp.float32(FAR)
    met = wp.int32(NOTHING)
    if ray[1] < -1.0e-6:
        t = -start[1] / ray[1]
        met = balls.shape[0]
    for i in range(balls.shape[0]):
        to = first_three(balls[i]) - start
        along = wp.dot(to, ray)
        inside = balls[i][3] * balls[i][3] - wp.length_sq(to - along * ray)
        if inside > 0.0:
            half = wp.sqrt(inside)
            near = wp.where(along - half > 2.0e-3, along - half, along + half)
            if near > 2.0e-3 and near < t:
                t = near
                met = i
    return t, met


@wp.func
def through_glass(ray: wp.vec3, outwards: wp.vec3, chance: float):
    """Return the direction after a surface of glass: reflected, or refracted."""
    n = wp.where(wp.dot(ray, outwards) < 0.0, outwards, -outwards)
    ratio = wp.where(wp.dot(ray, outwards) < 0.0, 1.0 / 1.5, 1.5)
    cosine = -wp.dot(ray, n)
    k = 1.0 - ratio * ratio * (1.0 - cosine * cosine)
    flat = 1.0 - wp.where(ratio > 1.0, wp.sqrt(wp.max(k, 0.0)), cosine)
    direction = ray + 2.0 * cosine * n
    if k > 0.0 and chance > 0.04 + 0.96 * flat * flat * flat * flat * flat:
        direction = ratio * ray + (ratio * cosine - wp.sqrt(k)) * n
    return wp.normalize(direction)


@wp.kernel
def trace(
    balls: Rows, paint: Rows, sky: float, paths: int, image: wp.array2d(dtype=wp.vec3)
):
    row, column = wp.tid()
    height = float(image.shape[0])
    state = wp.rand_init(7, row * image.shape[1] + column)
    total = wp.vec3(0.0, 0.0, 0.0)
    for _ in range(paths):
        x = (float(column) + wp.randf(state) - 0.5 * float(image.shape[1])) / height
        y = 0.5 - DOWN - (float(row) + wp.randf(state)) / height
        ray = wp.normalize(wp.vec3(x, y, -1.3))
        start = EYE
        share = wp.vec3(1.0, 1.0, 1.0)
        for _bounce in range(BOUNCES):
            t, met = nearest(balls, start, ray)
            if met == NOTHING:
                low, high = wp.vec3(0.6, 0.36, 0.26), wp.vec3(0.05, 0.11, 0.3)
                dusk = wp.lerp(low, high, wp.min(1.8 * ray[1], 1.0))
                total += sky * wp.cw_mul(share, dusk)
                break
            start += t * ray
            n = wp.vec3(0.0, 1.0, 0.0)
            if met < balls.shape[0]:
                n = wp.normalize(start - first_three(balls[met]))
            share = wp.cw_mul(share, first_three(paint[met]))
            kind = int(paint[met][3])
            if kind == LAMP:
                total += share
                break
            if kind == GLASS:
                ray = through_glass(ray, n, wp.randf(state))
            elif kind == METAL:
                ray = ray - 2.0 * wp.dot(ray, n) * n
            else:
                ray = wp.normalize(1.0001 * n + wp.sample_unit_sphere_surface(state))
    image[row, column] = total / float(paths)


def scene_of(count: int) -> tuple[list, list]:
    """Return balls (x, y, z, radius) and their paint (colour or light, and kind)."""
    balls = [(x, 0.8, z, 0.8) for x, z in ((-1.75, 0.0), (0.0, -0.5), (1.75, 0.0))]
    balls.append((-4.0, 6.0, 2.5, 2.2))
    paint = [(0.8, 0.17, 0.1, CHALK), (0.97, 0.97, 0.97, GLASS)]
    paint += [(0.95, 0.72, 0.42, METAL), (5.2, 4.6, 3.7, LAMP)]
    rng = np.random.default_rng(4)
    while len(balls) < count:
        x, z = rng.uniform(-3.2, 3.2), rng.uniform(-3.0, 2.2)
        r = rng.uniform(0.12, 0.24)
        if all(np.hypot(x - b[0], z - b[2]) > b[3] + r for b in balls if b[1] < 2.0):
            balls.append((x, r, z, r))
            kind = int(rng.choice([CHALK, CHALK, METAL, GLASS, LAMP]))
            hue = 2.0 * np.pi * (rng.uniform() + np.array([0.0, 0.33, 0.67]))
            colour = 0.5 + 0.45 * np.cos(hue)
            colour *= {LAMP: 4.0, GLASS: 0.0}.get(kind, 0.9)
            paint.append((*(colour + 0.95 * (kind == GLASS)), kind))
    return balls, paint


class Scene:
    """Each step renders the picture."""

    def __init__(self, quick: bool = False, paths: int = 16, only_lamp: bool = False):
        self.shape, self.paths = (40, 60) if quick else (360, 540), paths
        self.sky = 0.0 if only_lamp else 0.55
        balls, paint = scene_of(8 if quick else 30)
        if only_lamp:
            balls, paint = [(0, 3, 0, 1)], [(1, 1, 1, LAMP)]
        self.balls = wp.array(np.array(balls, np.float32), dtype=wp.vec4)
        floor = (GREY, GREY, GREY, CHALK)
        self.paint = wp.array(np.array([*paint, floor], np.float32), dtype=wp.vec4)
        self.image = wp.zeros(self.shape, dtype=wp.vec3)

    def step(self) -> None:
        inputs = [self.balls, self.paint, self.sky, self.paths]
        wp.launch(trace, dim=self.shape, inputs=inputs, outputs=[self.image])


def check_floor() -> float:
    """Return the relative error of the light below a lamp, which a formula gives."""
    scene = Scene(quick=True, paths=300, only_lamp=True)
    scene.step()
    height, width = scene.shape
    y, x = np.mgrid[0:height, 0:width] + 0.5
    right, up = (x - width / 2) / height, 0.5 - DOWN - y / height
    rays = np.stack([right, up, np.full_like(x, -1.3)], axis=2)[height // 2 :]
    floor = np.array([*EYE]) - rays * (EYE[1] / rays[:, :, 1:2])
    to_lamp = np.array([0.0, 3.0, 0.0]) - floor
    # The share of the sky times the cosine.
    exact = GREY * to_lamp[:, :, 1] / np.linalg.norm(to_lamp, axis=2) ** 3
    return float(scene.image.numpy()[height // 2 :, :, 0].mean() / exact.mean() - 1.0)


def main(quick: bool, out: Path) -> None:
    error = check_floor()
    print(f"The floor below a lamp is {error:+.2%} too bright")
    pictures.require(abs(error) < 0.03, f"the floor is {error:+.1%} too bright")
    scene = Scene(quick, paths=16 if quick else 1200)
    scene.step()
    pictures.save_png(out / "path_tracing.png", pictures.tone(scene.image.numpy()))


if __name__ == "__main__":
    main(**pictures.options())
