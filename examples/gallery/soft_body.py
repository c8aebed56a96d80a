"""Soft body from its energy

A rubber ring falls on a floor. The kernel computes nothing but elastic energy; the
forces on the corners are its gradient, which a tape gives.

Group: Solids
You learn: energies of finite elements as a kernel, and forces as their gradient by
    ``wp.Tape``.
Check: without friction, the sum of elastic energy, energy of motion and weight stays
    the same within 1 %.
Method: J. Bonet, R. Wood, "Nonlinear Continuum Mechanics for Finite Element Analysis",
    1997: a neo-Hookean material.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

SHEAR = 130.0  # moduli of the rubber
BULK = 450.0
FLOOR = 60000.0  # stiffness of the floor
DENSITY = 1.0
GRAVITY = 9.81


@wp.kernel
def elastic(
    x: wp.array(dtype=wp.vec2),
    corners: wp.array2d(dtype=int),
    rest: wp.array(dtype=wp.mat22),
    area: wp.array(dtype=float),
    energy: wp.array(dtype=float),
):
    """Write each triangle's energy; ``rest`` is the inverse of its undeformed edges."""
    i = wp.tid()
    a = x[corners[i, 0]]
    b = x[corners[i, 1]] - a
    c = x[corners[i, 2]] - a
    deformed = wp.mat22(b[0], c[0], b[1], c[1]) * rest[i]
    j = wp.determinant(deformed)
    stretch = wp.ddot(deformed, deformed) - 2.0 - 2.0 * wp.log(j)
    energy[i] = area[i] * (0.5 * SHEAR * stretch + 0.5 * BULK * (j - 1.0) * (j - 1.0))


@wp.kernel
def outer(
    x: wp.array(dtype=wp.vec2),
    mass: wp.array(dtype=float),
    energy: wp.array(dtype=float),
):
    """Write each corner's energy by its weight, and by how deep it is in the floor."""
    i = wp.tid()
    depth = wp.max(-x[i][1], 0.0)
    energy[i] = mass[i] * (GRAVITY * x[i][1] + 0.5 * FLOOR * depth * depth)


@wp.kernel
def move(
    slope: wp.array(dtype=wp.vec2),
    mass: wp.array(dtype=float),
    dt: float,
    v: wp.array(dtype=wp.vec2),
    x: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    v[i] = v[i] - slope[i] * (dt / mass[i])
    x[i] = x[i] + v[i] * dt


def ring(around: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a ring, and of its triangles."""
    angle = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)
    radius = np.linspace(0.28, 0.5, layers + 1)[:, None]
    x, y = radius * np.cos(angle) + 0.75, radius * np.sin(angle) + 1.15
    points = np.stack([x, y], axis=-1).reshape(-1, 2)
    k, i = (a.ravel() for a in np.mgrid[0:layers, 0:around])
    a, b = k * around + i, k * around + (i + 1) % around
    c, d = a + around, b + around
    return points, np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, b], 1)])


class Scene:
    """A ring in the air, which moves to the right."""

    def __init__(self, quick: bool = False):
        points, triangles = ring(*((24, 2) if quick else (72, 6)))
        self.triangles, self.dt = triangles, 0.0004 if quick else 0.0002
        b, c = (points[triangles[:, k]] - points[triangles[:, 0]] for k in (1, 2))
        edges = np.stack([b, c], axis=2)
        area = 0.5 * np.linalg.det(edges)
        mass = np.zeros(len(points))
        np.add.at(mass, triangles, DENSITY * area[:, None] / 3.0)
        self.corners = wp.array(triangles, dtype=int)
        self.area = wp.array(area, dtype=float)
        self.rest = wp.array(np.linalg.inv(edges), dtype=wp.mat22)
        self.mass = wp.array(mass, dtype=float)
        self.x = wp.array(points, dtype=wp.vec2, requires_grad=True)
        self.v = wp.array(np.tile([0.6, 0.0], (len(points), 1)), dtype=wp.vec2)
        self.elastic = wp.zeros(len(triangles), dtype=float, requires_grad=True)
        self.outer = wp.zeros(len(points), dtype=float, requires_grad=True)

    def measure(self) -> None:
        """Compute all energies anew."""
        wp.launch(
            elastic,
            dim=len(self.area),
            inputs=[self.x, self.corners, self.rest, self.area, self.elastic],
        )
        wp.launch(outer, dim=len(self.x), inputs=[self.x, self.mass, self.outer])

    def step(self) -> None:
        with wp.Tape() as tape:
            self.measure()
        tape.zero()
        self.elastic.grad.fill_(1.0)
        self.outer.grad.fill_(1.0)
        tape.backward()  # x.grad is the gradient of the sum of all energies
        wp.launch(
            move,
            dim=len(self.x),
            inputs=[self.x.grad, self.mass, self.dt, self.v, self.x],
        )

    def total(self) -> float:
        motion = 0.5 * (self.mass.numpy()[:, None] * self.v.numpy() ** 2).sum()
        self.measure()
        return float(self.elastic.numpy().sum() + self.outer.numpy().sum() + motion)

    def draw(self) -> np.ndarray:
        canvas = pictures.Canvas(480, 300)
        canvas.polygons(
            np.array([[[0, 280], [480, 280], [480, 300], [0, 300]]]),
            np.array([[51, 65, 85]]),
        )
        points = self.x.numpy()[self.triangles] * (160.0, -160.0) + (0.0, 280.0)
        self.measure()
        density = self.elastic.numpy() / self.area.numpy()
        shades = pictures.colours(density, "fire", -9.0, 14.0)
        canvas.polygons(points, shades)
        return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    before, worst, frames = scene.total(), 0.0, []
    for _ in range(12 if quick else 48):
        frames.append(scene.draw())
        for _ in range(100):
            scene.step()
        worst = max(worst, abs(scene.total() / before - 1.0))
    print(f"The energy changes by at most {worst:.3%}")
    pictures.require(worst < 0.01, f"the energy changes by {worst:.2%}")
    pictures.save_gif(out / "soft_body.gif", frames, seconds=2.4, shades=32)


if __name__ == "__main__":
    main(**pictures.options())
