"""An hourglass

Grains fall through the waist of a glass, which is a mesh. They push each other and the
glass, and rub.

Group: Particles
You learn: contacts with a mesh by ``wp.mesh_query_point``, and with each other by a
    ``wp.HashGrid`` that is built anew in each step.
Check: no grain leaves the glass, and the sand flows evenly: no matter how much is left
    above, as many grains pass the waist, within 10 %.
Method: P. Cundall, O. Strack, "A discrete numerical model for granular assemblies",
    Geotechnique 29, 1979; that the flow does not depend on the height is the law of W.
    Beverloo et al., Chem. Eng. Sci. 15, 1961.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

RADIUS = 0.02
GRAVITY = 9.81
STIFFNESS, DAMPING = 6.0e4, 120.0  # of contacts, for a grain of mass 1
FRICTION, RUBBING = 0.5, 60.0
WAIST, BULB = 0.115, 0.42  # radii of the glass; each half is 1 high
DT = 4.0e-4
FAR = 1.0


@wp.func
def contact(normal: wp.vec3, depth: float, v: wp.vec3):
    """Return the force on a grain that is ``depth`` deep; ``v`` is its velocity."""
    away = wp.dot(v, normal)
    push = wp.max(STIFFNESS * depth - DAMPING * away, 0.0)
    slide = v - away * normal
    rub = wp.min(RUBBING * wp.length(slide), FRICTION * push)
    return push * normal - rub * wp.normalize(slide)


@wp.kernel
def push(
    grid: wp.uint64,
    glass: wp.uint64,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
):
    """Write the force on a grain."""
    i = wp.hash_grid_point_id(
        grid, wp.tid()
    )  # neighbouring threads see the same grains
    p = x[i]
    total = wp.vec3(0.0, -GRAVITY, 0.0)
    for j in wp.hash_grid_query(grid, p, 2.0 * RADIUS):
        d = p - x[j]
        gap = wp.length(d)
        if j != i and gap < 2.0 * RADIUS:
            total += contact(d / gap, RADIUS - 0.5 * gap, v[i] - v[j])
    wall = wp.mesh_query_point(glass, p, RADIUS)
    if wall.result:
        at = wp.mesh_eval_position(glass, wall.face, wall.u, wall.v)
        inside = -wall.sign * wp.length(p - at)
        normal = -wall.sign * wp.normalize(p - at)
        total += contact(normal, RADIUS - inside, v[i])
    force[i] = total


@wp.kernel
def move(
    force: wp.array(dtype=wp.vec3),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    v[i] = v[i] + DT * force[i]
    x[i] = x[i] + DT * v[i]


def profile(y: np.ndarray) -> np.ndarray:
    """Return the glass's radius at heights from -1 to 1."""
    return WAIST + (BULB - WAIST) * np.sin(0.5 * np.pi * np.abs(y)) ** 2


def glass(around: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and triangles of a closed surface, which look outwards."""
    y = np.linspace(-1.0, 1.0, layers + 1)
    angle = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)
    r = profile(y)[:, None]
    height = np.broadcast_to(y[:, None], (len(y), around))
    rings = np.stack([r * np.cos(angle), height, r * np.sin(angle)], axis=2)
    k, i = (a.ravel() for a in np.mgrid[0:layers, 0:around])
    a, b = k * around + i, k * around + (i + 1) % around
    sides = np.stack([a, a + around, b, b, a + around, b + around], axis=1)
    i = np.arange(around)
    low, high, top = around * len(y), around * len(y) + 1, around * layers
    turn = (i + 1) % around
    bottom = np.stack([np.full(around, low), i, turn], axis=1)
    lid = np.stack([np.full(around, high), top + turn, top + i], axis=1)
    points = np.concatenate([rings.reshape(-1, 3), [[0, -1, 0], [0, 1, 0]]])
    return points, np.concatenate([sides.reshape(-1, 3), bottom, lid])


class Scene:
    """Grains in the upper half of the glass."""

    def __init__(self, quick: bool = False):
        self.points, self.faces = glass(48, 40)
        points = wp.array(self.points, dtype=wp.vec3)
        self.glass = wp.Mesh(points, wp.array(self.faces.ravel(), dtype=int))
        at = np.arange(-BULB, BULB, 2.02 * RADIUS)
        heights = np.arange(0.2, 0.5 if quick else 0.95, 2.02 * RADIUS)
        x, y, z = (a.ravel() for a in np.meshgrid(at, heights, at))
        free = np.hypot(x, z) < profile(y) - 1.2 * RADIUS
        places = np.stack([x, y, z], axis=1)[free]
        rng = np.random.default_rng(5)
        places += rng.uniform(-0.05, 0.05, places.shape) * RADIUS
        self.layer = np.floor(8.0 * places[:, 1]).astype(int)
        self.x = wp.array(places, dtype=wp.vec3)
        self.v, self.force = wp.zeros_like(self.x), wp.zeros_like(self.x)
        self.grid = wp.HashGrid(32, 64, 32)

    def step(self) -> None:
        self.grid.build(self.x, 2.0 * RADIUS)
        inputs = [self.grid.id, self.glass.id, self.x, self.v]
        wp.launch(push, dim=len(self.x), inputs=inputs, outputs=[self.force])
        outputs = [self.x, self.v]
        wp.launch(move, dim=len(self.x), inputs=[self.force], outputs=outputs)

    def below(self) -> int:
        """Return how many grains have passed the waist."""
        return int((self.x.numpy()[:, 1] < 0.0).sum())

    def outside(self) -> float:
        """Return how far the worst grain is outside of the glass."""
        x = self.x.numpy()
        beyond = np.hypot(x[:, 0], x[:, 2]) - profile(np.clip(x[:, 1], -1.0, 1.0))
        return float(max(beyond.max(), np.abs(x[:, 1]).max() - 1.0))

    def draw(self, width: int, height: int) -> np.ndarray:
        """Paint the grains behind the glass's middle, and the glass."""
        canvas = pictures.Canvas(width, height, "#0e1320")
        scale = height / 2.15

        def place(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.stack([0.5 * width + scale * x, 0.5 * height - scale * y], -1)

        y = np.linspace(-1.0, 1.0, 80)
        sides = np.stack([place(side * profile(y), y) for side in (1, -1)])
        body = np.concatenate([sides[0], sides[1][::-1]])[None]
        canvas.polygons(body, np.array([[22, 30, 48]]))
        x = self.x.numpy()
        order = np.argsort(x[:, 2])
        shades = pictures.colours(self.layer, "dunes", 1.0, 8.0)
        light = np.interp(x[:, 2], [-BULB, BULB], [0.35, 1.0])[:, None]
        shades = (shades * light).astype(np.uint8)[order]
        canvas.dots(place(x[:, 0], x[:, 1])[order], shades, RADIUS * scale)
        canvas.lines(sides, "#8fb6d9", 2.0)
        for end in (1.0, -1.0):
            wide = np.array([-1.1, 1.1]) * BULB
            canvas.lines(place(wide, np.full(2, end))[None], "#b98d5a", 7.0)
        return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene, frames, passed, beyond = Scene(quick), [], [], 0.0
    count, steps = len(scene.x), 90 if quick else 150
    for _ in pictures.progress(20 if quick else 60):
        frames.append(scene.draw(220, 400))
        for _ in range(steps):
            scene.step()
        passed.append(scene.below())
        beyond = max(beyond, scene.outside())
    # When three shares of the sand have passed: the times between must be the same.
    times = np.interp(np.array([0.25, 0.45, 0.65]) * count, passed, range(len(passed)))
    first, second = np.diff(times) * steps * DT
    print(f"A fifth of {count} grains takes {first:.3f} s, the next {second:.3f} s")
    pictures.require(beyond < 0.01 * RADIUS, f"a grain is {beyond:.4f} outside")
    even = abs(second / first - 1.0) < (0.4 if quick else 0.1)
    pictures.require(even, f"the sand flows unevenly: {first:.3f} s, {second:.3f} s")
    pictures.save_gif(out / "hourglass.gif", frames, seconds=4.0, shades=48)


if __name__ == "__main__":
    main(**pictures.options())
