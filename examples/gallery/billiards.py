"""Differentiable billiards

Which shot sends the ball in the corner of the rack to the mark? Derivatives go
backwards through all collisions to the cue ball. Many shots are improved at once, and
the best one is drawn.

Group: Optimisation and learning
You learn: interacting bodies in many simulations at once, and gradients of each
    simulation by one ``wp.Tape``.
Check: derivatives agree with finite differences, collisions keep the momentum, and the
    best shot is 5 mm off at most.
Method: Y. Hu et al., "DiffTaichi: Differentiable programming for physical simulation",
    ICLR 2020, there with collisions that take no time; here balls are stiff springs.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp

RADIUS = 0.03
STIFFNESS = 40000.0
DRAG = 0.25  # of the cloth
DT = 1.0 / 800.0
ROWS = 4
MARK = (1.3, 0.3)


@wp.kernel
def advance(
    x: wp.array2d(dtype=wp.vec2),
    v: wp.array2d(dtype=wp.vec2),
    drag: float,
    new_x: wp.array2d(dtype=wp.vec2),
    new_v: wp.array2d(dtype=wp.vec2),
):
    """Advance ball ``i`` of shot ``s`` by one time step."""
    s, i = wp.tid()
    p = x[s, i]
    force = -drag * v[s, i]
    for k in range(x.shape[1]):
        if k != i:
            away = p - x[s, k]
            distance = wp.length(away)
            if distance < 2.0 * RADIUS:
                force += STIFFNESS * (2.0 * RADIUS - distance) / distance * away
    new_v[s, i] = v[s, i] + DT * force
    new_x[s, i] = p + DT * (v[s, i] + DT * force)


@wp.kernel
def miss(x: wp.array2d(dtype=wp.vec2), mark: wp.vec2, loss: wp.array(dtype=float)):
    """Write the square of the distance of the last ball to the mark."""
    s = wp.tid()
    away = x[s, x.shape[1] - 1] - mark
    loss[s] = wp.dot(away, away)


def rack() -> np.ndarray:
    """Return the places of the cue ball and of the balls in a triangle."""
    gap = 2.02 * RADIUS
    triangle = [
        (0.9 + 0.866 * gap * row, gap * (k - row / 2))
        for row in range(ROWS)
        for k in range(row + 1)
    ]
    return np.array([(0.2, 0.0), *triangle])


class Scene:
    """Shots at the rack; each step improves all of them."""

    def __init__(self, quick: bool = False):
        count, self.steps = (16, 800) if quick else (128, 1100)
        rng = np.random.default_rng(4)
        angle, speed = rng.uniform(-0.09, 0.09, count), rng.uniform(2.0, 3.5, count)
        self.shots = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        shape = (count, len(rack()))
        moments = range(self.steps + 1)  # a tape needs each of them
        self.x = [wp.zeros(shape, dtype=wp.vec2, requires_grad=True) for _ in moments]
        self.v = [wp.zeros(shape, dtype=wp.vec2, requires_grad=True) for _ in moments]
        self.loss = wp.zeros(count, dtype=float, requires_grad=True)
        self.x[0].assign(np.tile(rack(), (count, 1, 1)))
        self.first, self.second = np.zeros((2, *self.shots.shape))
        self.count = 0

    def play(self, shots: np.ndarray, drag: float = DRAG) -> wp.Tape:
        """Play all shots; how badly they miss is in ``loss`` then."""
        v = np.zeros((*self.x[0].shape, 2))
        v[:, 0] = shots
        self.v[0].assign(v)
        with wp.Tape() as tape:
            for k in range(self.steps):
                now = [self.x[k], self.v[k], drag]
                after = [self.x[k + 1], self.v[k + 1]]
                wp.launch(advance, dim=self.x[0].shape, inputs=now, outputs=after)
            wp.launch(
                miss,
                dim=len(shots),
                inputs=[self.x[-1], wp.vec2(*MARK)],
                outputs=[self.loss],
            )
        return tape

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses of all shots, and each one's gradient."""
        tape = self.play(self.shots)
        tape.zero()
        self.loss.grad.fill_(1.0)
        tape.backward()
        slopes = self.v[0].grad.numpy()[:, 0]
        return self.loss.numpy().astype(float), slopes.astype(float)

    def step(self, rate: float = 0.006) -> np.ndarray:
        """Improve all shots by a step of Adam, and return their losses before."""
        loss, slope = self.slopes()
        slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1.0)
        self.count += 1
        self.first = 0.8 * self.first + 0.2 * slope
        self.second = 0.95 * self.second + 0.05 * slope**2
        scaled = np.sqrt(self.second / (1.0 - 0.95**self.count)) + 1e-6
        self.shots -= rate * self.first / (1.0 - 0.8**self.count) / scaled
        return loss


def draw(scene: Scene, best: int, size: tuple[int, int] = (720, 420)) -> np.ndarray:
    """Return the ways of all balls in the best shot, of the last ball in the others."""
    ways = np.stack([x.numpy() for x in scene.x[::5]], axis=2)
    ways = ways * (1, -1) * 480.0 + (-40.0, 230.0)
    canvas = pictures.Canvas(*size, "#0c2b26")
    canvas.lines(ways[:, -1], "#2c6a5d", 0.8)
    rest = pictures.palette("wheel", ways.shape[1])[:-2]
    shades = np.vstack([[[245, 245, 240]], rest, [[255, 214, 92]]]).astype(int)
    for way, shade in zip(ways[best], shades.tolist(), strict=True):
        canvas.lines(way[None], tuple(shade), 1.6)
    mark = np.array([MARK]) * (1, -1) * 480.0 + (-40.0, 230.0)
    for radius, shade in ((20.0, (255, 255, 255)), (17.0, (12, 43, 38))):
        canvas.dots(mark, np.array([shade]), radius)
    canvas.dots(ways[best][:, 0], shades // 3, 480.0 * RADIUS)
    canvas.dots(ways[best][:, -1], shades, 480.0 * RADIUS)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    _, slope = scene.slopes()
    before, shift = scene.loss.numpy().astype(float), 1e-3 * np.array([0.0, 1.0])
    ends = []
    for s in (1, -1):
        scene.play(scene.shots + s * shift)
        ends.append(scene.loss.numpy().astype(float))
    wrong = np.abs((ends[0] - ends[1]) / 2e-3 - slope[:, 1])
    error = float(np.median(wrong / (np.abs(slope[:, 1]) + 0.1)))
    scene.play(scene.shots, drag=0.0)
    lost = np.abs(scene.v[-1].numpy().sum(axis=1) - scene.shots).max()
    for _ in pictures.progress(8 if quick else 60, "step"):
        scene.step()
    scene.play(scene.shots)
    best = int(scene.loss.numpy().argmin())
    off = float(np.sqrt(scene.loss.numpy().min()))
    print(
        f"The best shot is {off:.4f} m off, after {np.sqrt(before.min()):.4f} m; "
        f"derivatives are off by {error:.1e}"
    )
    pictures.require(error < 0.05, f"derivatives are off by {error:.1e}")
    pictures.require(lost < 1e-3, f"collisions changed the momentum by {lost:.1e}")
    pictures.require(
        off < (0.05 if quick else 0.005), f"the best shot is {off:.4f} m off"
    )
    pictures.save_png(out / "billiards.png", draw(scene, best))


if __name__ == "__main__":
    main(**pictures.options())
