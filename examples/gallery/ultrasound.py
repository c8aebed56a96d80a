"""A look inside with sound

Loudspeakers around a body send pulses, and microphones around it hear what comes
through. Which body answers like that? Gradients through the waves find it. From left to
right: the body, a wave, and the body that was found.

Group: Optimisation and learning
You learn: ``wp.optim.Adam``, and a tape through hundreds of launches.
Check: a derivative agrees with finite differences within 2 %, and the found body
    differs from the true one by less than 40 % of its contrast.
Method: A. Tarantola, "Inversion of seismic reflection data in the acoustic
    approximation", Geophysics 49, 1984.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp
from warp_like.optim import Adam

WATER = 0.25  # square of the speed, in cells a step
RIM = 10  # cells that swallow waves, around microphones and loudspeakers
PERIOD = 15.0  # of the pulse, in steps
WAVES, FLOATS = wp.array3d(dtype=float), wp.array(dtype=float)


@wp.kernel
def advance(
    contrast: FLOATS,
    inside: FLOATS,
    rim: FLOATS,
    places: wp.array(dtype=wp.vec2i),
    pulse: float,
    before: WAVES,
    now: WAVES,
    after: WAVES,
):
    """Write the waves of each loudspeaker, a layer of the arrays, after a step."""
    s, i, j = wp.tid()
    n = now.shape[1]
    if i == 0 or j == 0 or i == n - 1 or j == n - 1:
        return
    around = now[s, i - 1, j] + now[s, i + 1, j] + now[s, i, j - 1] + now[s, i, j + 1]
    k = i * n + j
    push = WATER * (1.0 + inside[k] * contrast[k]) * (around - 4.0 * now[s, i, j])
    if places[s][0] == i and places[s][1] == j:
        push += pulse
    moving = (1.0 - rim[k]) * (now[s, i, j] - before[s, i, j])
    after[s, i, j] = now[s, i, j] + moving + push


@wp.kernel
def listen(ears: wp.array(dtype=wp.vec2i), now: WAVES, sound: wp.array2d(dtype=float)):
    s, k = wp.tid()
    sound[s, k] = now[s, ears[k][0], ears[k][1]]


@wp.kernel
def compare(
    heard: wp.array2d(dtype=float), sound: wp.array2d(dtype=float), loss: FLOATS
):
    s, k = wp.tid()
    off = sound[s, k] - heard[s, k]
    wp.atomic_add(loss, 0, off * off)


def places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each cell's place; the ring of microphones has radius 1."""
    y, x = np.mgrid[0:n, 0:n] - 0.5 * (n - 1)
    return x / (0.5 * n - RIM - 1.0), y / (0.5 * n - RIM - 1.0)


def ring(n: int, count: int) -> wp.array:
    """Return cells on the ring."""
    angle = np.arange(count) * 2.0 * np.pi / count
    way = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    cells = np.rint(0.5 * (n - 1) + (0.5 * n - RIM - 1.0) * way)
    return wp.array(cells.astype(np.int32), dtype=wp.vec2i)


def body(n: int) -> np.ndarray:
    """Return how much the square of the speed differs from that in water."""
    x, y = places(n)
    contrast = np.where(np.hypot(x / 0.75, y / 0.6) < 1.0, 0.07, 0.0)
    contrast[np.hypot(x + 0.28, y + 0.06) < 0.2] = -0.06
    contrast[np.hypot(x - 0.26, y - 0.13) < 0.24] = 0.16
    contrast[np.hypot((x - 0.15) / 0.26, (y + 0.31) / 0.09) < 1.0] = -0.03
    return contrast.ravel()


class Scene:
    """Water in which a body is to be found."""

    def __init__(self, quick: bool = False):
        n, self.steps = (64, 150) if quick else (96, 230)
        self.n, speakers, ears = n, 4 if quick else 8, 24 if quick else 64
        self.places, self.ears = ring(n, speakers), ring(n, ears)
        phase = (np.arange(self.steps) / PERIOD - 1.0) * np.pi
        self.pulse = (1.0 - 2.0 * phase**2) * np.exp(-(phase**2))
        x, y = places(n)
        depth = np.maximum(np.maximum(abs(x), abs(y)) - 1.0, 0.0) * (
            0.5 * n / RIM - 1.0
        )
        self.rim = wp.array(0.35 * depth.ravel() ** 2, dtype=float)
        self.inside = wp.array(np.hypot(x, y).ravel() < 0.9, dtype=float)
        self.waves = [self.new(speakers, n, n) for _ in range(self.steps + 2)]
        self.sounds = [self.new(speakers, ears) for _ in range(self.steps)]
        self.contrast = wp.array(body(n), dtype=float, requires_grad=True)
        self.run()
        self.heard = [wp.clone(sound) for sound in self.sounds]
        self.loss = self.new(1)
        self.contrast.zero_()
        self.adam = Adam([self.contrast], lr=0.01)

    def new(self, *shape: int) -> wp.array:
        return wp.zeros(shape, dtype=float, requires_grad=True)

    def run(self) -> None:
        """Send the pulses, and record what is heard."""
        fixed = [self.contrast, self.inside, self.rim, self.places]
        for t in range(self.steps):
            before, now, after = self.waves[t : t + 3]
            inputs = [*fixed, self.pulse[t], before, now]
            wp.launch(advance, dim=now.shape, inputs=inputs, outputs=[after])
            sound = self.sounds[t]
            inputs = [self.ears, after]
            wp.launch(listen, dim=sound.shape, inputs=inputs, outputs=[sound])

    def measure(self) -> None:
        """Add up how much the sounds differ from what was heard."""
        self.run()
        self.loss.zero_()
        for heard, sound in zip(self.heard, self.sounds, strict=True):
            inputs = [heard, sound]
            wp.launch(compare, dim=sound.shape, inputs=inputs, outputs=[self.loss])

    def slope(self) -> None:
        """Leave the gradient of the loss in ``contrast.grad``."""
        with wp.Tape() as tape:
            self.measure()
        tape.zero()
        tape.backward(self.loss)

    def step(self) -> None:
        self.slope()
        self.adam.step([self.contrast.grad])

    def error(self) -> float:
        """Return the distance from the true body, as a share of its contrast."""
        off = self.contrast.numpy() - body(self.n)
        return float(np.linalg.norm(off) / np.linalg.norm(body(self.n)))


def check(scene: Scene) -> float:
    """Return how much the steepest derivative differs from finite differences."""
    scene.slope()
    slope, losses = scene.contrast.grad.numpy().copy(), []
    size = np.linalg.norm(slope)
    for sign in (1.0, -1.0):
        scene.contrast.assign(sign * 0.008 * slope / size)
        scene.measure()
        losses.append(float(scene.loss.numpy()[0]))
    scene.contrast.zero_()
    return float((losses[0] - losses[1]) / 0.016 / size - 1.0)


def draw(scene: Scene) -> np.ndarray:
    """Return the body, a wave, and what was found."""
    n = scene.n
    wave = scene.waves[scene.steps // 2].numpy()[0]
    both = [body(n), scene.contrast.numpy()]
    first, last = (pictures.colours(c.reshape(n, n), "ice", -0.1, 0.2) for c in both)
    middle = pictures.colours(wave, "storm", -0.4, 0.4)
    image = np.concatenate([first, middle, last], axis=1)
    return image.repeat(3, axis=0).repeat(3, axis=1)


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick)
    wrong = check(scene)
    for _ in pictures.progress(40 if quick else 100, "step"):
        scene.step()
    error = scene.error()
    print(f"A derivative is {wrong:+.2%} off; the body is found within {error:.1%}")
    pictures.require(abs(wrong) < 0.02, f"a derivative is {wrong:+.1%} off")
    pictures.require(error < 0.4, f"the body is {error:.0%} off")
    pictures.save_png(out / "ultrasound.png", draw(scene))


if __name__ == "__main__":
    main(**pictures.options())
