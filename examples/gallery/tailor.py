"""A tailor for hanging cloth

A cloth hangs in a square frame. How must it be cut so that it hangs as a pyramid?
Gradients go back through all steps of the fall, and through the sparse system that
each of them solves, to the flat pattern. On the left, a plain cloth seen from below, on
the right, the one that was cut.

Group: Optimisation and learning
You learn: implicit steps with ``wp.sparse`` and ``wp.optim.linear.cg`` on a
    ``wp.Tape``, and ``wp.optim.LBFGS``.
Check: a derivative agrees with finite differences within 2 %, and the mean square
    of the distance from the pyramid falls to less than a fifth.
Method: D. Baraff, A. Witkin, "Large steps in cloth simulation", SIGGRAPH 1998;
    gradients through solves by the implicit function theorem.
Not timed: Warp has no L-BFGS, and no gradients through ``cg``.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp
from warp_like.optim.linear import cg
from warp_like.sparse import bsr_from_triplets

STIFFNESS, BENT, MASS, GRAVITY = 40.0, 0.02, 0.02, 9.81
DT, KEEP = 0.06, 0.6  # a step, and the share of the velocity that air leaves
DEPTH = 0.45  # of the pyramid; the frame is 2 wide
FLOATS, POINTS = wp.array(dtype=float), wp.array(dtype=wp.vec3)
WOLFE = "strong_wolfe"  # how L-BFGS finds the lengths of its steps
BLOCKS = wp.array(dtype=wp.mat33)


@wp.kernel
def stretch(
    threads: wp.array(dtype=wp.vec2i),
    pattern: wp.array(dtype=wp.vec2),
    x: POINTS,
    free: FLOATS,
    force: POINTS,
    blocks: BLOCKS,
):
    """Add a thread's pull to its ends, and write how the pull changes with them."""
    e = wp.tid()
    i = threads[e][0]
    j = threads[e][1]
    d = x[j] - x[i]
    n = wp.normalize(d)
    share = wp.length(pattern[j] - pattern[i]) / wp.length(d)
    pull = STIFFNESS * (1.0 - share) * d
    wp.atomic_add(force, i, pull)
    wp.atomic_add(force, j, -pull)
    along = wp.outer(n, n)
    across = wp.identity(3, float) - along
    stiff = STIFFNESS * (along + wp.max(1.0 - share, BENT) * across)
    blocks[4 * e] = free[i] * stiff
    blocks[4 * e + 1] = free[j] * stiff
    blocks[4 * e + 2] = -free[i] * free[j] * stiff
    blocks[4 * e + 3] = -free[i] * free[j] * stiff


@wp.kernel
def weigh(
    first: int, free: FLOATS, v: POINTS, force: POINTS, right: POINTS, blocks: BLOCKS
):
    """Write the right side, and the blocks of inertia behind those of the threads."""
    i = wp.tid()
    weight = wp.vec3(0.0, 0.0, -GRAVITY * MASS)
    right[i] = free[i] * (force[i] + weight + (MASS / DT) * v[i])
    blocks[first + i] = (MASS / (DT * DT)) * wp.identity(3, float)


@wp.kernel
def move(change: POINTS, x: POINTS, new_x: POINTS, new_v: POINTS):
    i = wp.tid()
    new_x[i] = x[i] + change[i]
    new_v[i] = (KEEP / DT) * change[i]


@wp.kernel
def compare(x: POINTS, goal: FLOATS, loss: FLOATS):
    i = wp.tid()
    off = x[i][2] - goal[i]
    wp.atomic_add(loss, 0, off * off / float(goal.shape[0]))


class Cloth:
    """A square of cloth, held along its edges."""

    def __init__(self, quick: bool = False):
        n = self.n = 9 if quick else 17
        self.steps = 12 if quick else 16
        y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j].reshape(2, -1)
        edge = np.maximum(abs(x), abs(y))
        k = np.arange(n * n).reshape(n, n)
        pairs = [(k[:, :-1], k[:, 1:]), (k[:-1], k[1:])]
        pairs += [(k[:-1, :-1], k[1:, 1:]), (k[:-1, 1:], k[1:, :-1])]
        ends = np.concatenate([np.stack([*map(np.ravel, p)], axis=1) for p in pairs])
        rows, columns = ends[:, [0, 1, 0, 1]].ravel(), ends[:, [0, 1, 1, 0]].ravel()
        self.rows = wp.array(np.concatenate([rows, k.ravel()]), dtype=int)
        self.columns = wp.array(np.concatenate([columns, k.ravel()]), dtype=int)
        self.threads = wp.array(ends, dtype=wp.vec2i)
        self.free = wp.array(edge < 1.0, dtype=float)
        self.start = np.stack([x, y, 0.0 * x], axis=1)
        self.goal = wp.array(-DEPTH * (1.0 - edge), dtype=float)
        flat = 1.05 * self.start[:, :2]
        self.pattern = wp.array(flat, dtype=wp.vec2, requires_grad=True)
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)

    def new(self, dtype: type = wp.vec3, count: int | None = None) -> wp.array:
        return wp.zeros(count or self.n**2, dtype=dtype, requires_grad=True)

    def step(self, x: wp.array, v: wp.array) -> tuple[wp.array, wp.array]:
        """Return positions and velocities after an implicit step."""
        count, threads = self.n**2, len(self.threads)
        force, right, change, new_x, new_v = (self.new() for _ in range(5))
        blocks = self.new(wp.mat33, len(self.rows))
        inputs = [self.threads, self.pattern, x, self.free]
        wp.launch(stretch, dim=threads, inputs=inputs, outputs=[force, blocks])
        inputs = [4 * threads, self.free, v, force]
        wp.launch(weigh, dim=count, inputs=inputs, outputs=[right, blocks])
        A = bsr_from_triplets(count, count, self.rows, self.columns, blocks)
        cg(A, right, change, tol=1e-6)
        wp.launch(move, dim=count, inputs=[change, x], outputs=[new_x, new_v])
        return new_x, new_v

    def fall(self) -> wp.array:
        """Return where the cloth hangs, and add up its distance from the goal."""
        x, v = wp.array(self.start, dtype=wp.vec3, requires_grad=True), self.new()
        for _ in range(self.steps):
            x, v = self.step(x, v)
        self.loss.zero_()
        wp.launch(compare, dim=self.n**2, inputs=[x, self.goal], outputs=[self.loss])
        return x

    def closure(self) -> wp.array:
        """Compute the loss, and leave its gradient in ``pattern.grad``."""
        self.pattern.grad.zero_()
        with wp.Tape() as tape:
            self.fall()
        tape.backward(self.loss)
        return self.loss


def check(cloth: Cloth) -> float:
    """Return how much the steepest derivative differs from finite differences."""
    cloth.closure()
    start, slope = cloth.pattern.numpy().copy(), cloth.pattern.grad.numpy().copy()
    size, losses = np.linalg.norm(slope), []
    for sign in (1.0, -1.0):
        cloth.pattern.assign(start + sign * 0.01 * slope / size)
        cloth.fall()
        losses.append(float(cloth.loss.numpy()[0]))
    cloth.pattern.assign(start)
    return float((losses[0] - losses[1]) / 0.02 / size - 1.0)


def draw(cloth: Cloth, shapes: list[np.ndarray]) -> np.ndarray:
    """Return each cloth, seen from below, and its pattern."""
    n, width = cloth.n, 380
    canvas = pictures.Canvas(2 * width, 2 * width - 90)
    k = np.arange(n * n).reshape(n, n)
    corners = [k[:-1, :-1], k[:-1, 1:], k[1:, 1:], k[1:, :-1]]
    quads = np.stack([c.ravel() for c in corners], axis=1)
    view = np.array([[0.84, 0.54, 0.0], [-0.26, 0.41, -0.87], [0.47, -0.73, -0.49]])
    for column, (x, pattern) in enumerate(shapes):
        right = width * (column + 0.5)
        seen = x @ view.T
        a, b, c, d = x[quads].swapaxes(0, 1)
        normal = np.cross(c - a, d - b)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        light = np.abs(normal @ [0.6, 0.25, -0.76])[:, None] ** 2
        shades = pictures.tone((0.15 + 0.85 * light) * [[0.75, 0.3, 0.2]])
        flat = seen[quads, :2] * (125.0, -125.0) + (right, 190.0)
        order = np.argsort(seen[quads, 2].mean(axis=1))
        canvas.polygons(flat[order], shades[order])
        places = pattern.reshape(n, n, 2) * (140.0, -140.0) + (right, 475.0)
        canvas.lines(places, "#7fb7e6", 1.0)
        canvas.lines(places.swapaxes(0, 1), "#7fb7e6", 1.0)
    return canvas.pixels()


def main(quick: bool, out: Path) -> None:
    cloth = Cloth(quick)
    error = check(cloth)
    pictures.require(abs(error) < 0.02, f"a derivative is {error:+.1%} off")
    shapes = [(cloth.fall().numpy(), cloth.pattern.numpy().copy())]
    before = float(cloth.loss.numpy()[0])
    count = 8 if quick else 40
    optimizer = wp.optim.LBFGS([cloth.pattern], max_iter=count, line_search_fn=WOLFE)
    optimizer.step(cloth.closure)
    shapes.append((cloth.fall().numpy(), cloth.pattern.numpy()))
    after = float(cloth.loss.numpy()[0])
    print(f"A derivative is {error:+.2%} off; the loss falls to {after / before:.2%}")
    pictures.require(after < 0.2 * before, f"the loss is still {after:.5f}")
    pictures.save_png(out / "tailor.png", draw(cloth, shapes))


if __name__ == "__main__":
    main(**pictures.options())
