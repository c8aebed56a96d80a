"""The problems of benchmark_backward.py: kernels, the same function of whole arrays, and its gradient in NumPy.

A problem's function is written three times. ``launches`` makes kernels that warp_like and warp-lang both compile;
``function`` is the peers' way, on whole arrays; ``gradient`` is derived by hand, in float64, and is what every
column must agree with before it gets a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

SOFTENING = 1.0e-2  # added to the squared distance of two bodies
TIME_STEP = 1.0e-2
STIFFNESS = 50.0


@dataclass
class Problem:
    """A differentiable function of some arrays.

    Attributes:
        inputs: The arrays, all of them differentiated.
        dtypes: The names of their types in a kernel.
        seed: The adjoint of the output; its shape is that of the output.
        launches: ``launches(wp, inputs, out)`` returns a function that computes ``out``, and the arrays that
            have to be zero before.
        function: ``function(xp, *inputs)`` returns the output; ``xp`` is a ``TorchMath`` or a ``JaxMath``.
        gradient: Returns the output and the gradients as one flat array.
        cpp: The name of the C++ function that computes output and gradients; empty where there is none.
    """

    name: str
    inputs: list[np.ndarray]
    dtypes: list[str]
    seed: np.ndarray
    launches: Callable
    function: Callable
    gradient: Callable[..., np.ndarray]
    tolerance: dict = field(default_factory=lambda: {"rtol": 1.0e-3, "atol": 1.0e-3})
    cpp: str = ""


def joined(*parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


def one_launch(wp, kernel, dim: int, arguments: list, out):
    """Return the launch of one kernel that adds to ``out``."""
    return lambda: wp.launch(kernel, dim=dim, inputs=arguments, outputs=[out]), [out]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- straight-line kernels ---------------------------------------------------------------------------------


def saxpy(n: int) -> Problem:
    x, y, seed = random(n), random(n)[::-1].copy(), random(n) + 1.0

    def launches(wp, inputs, out):
        @wp.kernel
        def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float, out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = a * x[i] + y[i]

        return lambda: wp.launch(saxpy, dim=n, inputs=[*inputs, 2.5], outputs=[out]), []

    def gradient():
        return joined(2.5 * x.astype(float) + y, 2.5 * seed, seed)

    return Problem(f"saxpy {n}", [x, y], ["float32"] * 2, seed, launches, lambda xp, x, y: 2.5 * x + y, gradient)


def rosenbrock(n: int) -> Problem:
    x = np.random.default_rng(0).uniform(-1.0, 1.0, n).astype(np.float32)

    def launches(wp, inputs, out):
        @wp.kernel
        def rosenbrock(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            a = 1.0 - x[i]
            b = x[i + 1] - x[i] * x[i]
            wp.atomic_add(out, 0, a * a + 100.0 * b * b)

        return one_launch(wp, rosenbrock, n - 1, inputs, out)

    def function(xp, x):
        return ((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2).sum().reshape(1)

    def gradient():
        p = x.astype(float)
        a, b = 1.0 - p[:-1], p[1:] - p[:-1] ** 2
        adj = np.zeros_like(p)
        adj[:-1] = -2.0 * a - 400.0 * p[:-1] * b
        adj[1:] += 200.0 * b
        return joined(np.sum(a * a + 100.0 * b * b), adj)

    seed, cpp = np.ones(1, np.float32), "rosenbrock_gradient"
    return Problem(f"Rosenbrock {n}", [x], ["float32"], seed, launches, function, gradient, cpp=cpp)


# --- sums in a loop ----------------------------------------------------------------------------------------


def energy(n: int) -> Problem:
    positions = random(n, 3)

    def launches(wp, inputs, out):
        @wp.kernel
        def energy(positions: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
            i = wp.tid()
            total = wp.float32(0.0)
            for j in range(positions.shape[0]):
                d = positions[j] - positions[i]
                total += 1.0 / wp.sqrt(wp.dot(d, d) + SOFTENING)
            wp.atomic_add(out, 0, -0.5 * total)

        return one_launch(wp, energy, n, inputs, out)

    def function(xp, p):
        d = p[None, :] - p[:, None]
        return -0.5 * (((d * d).sum(-1) + SOFTENING) ** -0.5).sum().reshape(1)

    def gradient():
        p, adj, value = positions.astype(float), np.zeros(positions.shape), 0.0
        for i in range(n):
            d = p[i] - p
            inverse = (np.sum(d * d, axis=1) + SOFTENING) ** -0.5
            adj[i] = inverse**3 @ d
            value -= 0.5 * inverse.sum()
        return joined(value, adj)

    seed = np.ones(1, np.float32)
    name = f"n-body energy {n}"
    return Problem(name, [positions], ["vec3"], seed, launches, function, gradient, cpp="energy_gradient")


def network(n: int, width: int = 32) -> Problem:
    points, hidden, bias, output = random(n, 3), random(width, 3), random(width), random(width)[::-1].copy()
    seed = random(n)

    def launches(wp, inputs, out):
        @wp.kernel
        def network(
            points: wp.array(dtype=wp.vec3),
            hidden: wp.array(dtype=wp.vec3),
            bias: wp.array(dtype=float),
            output: wp.array(dtype=float),
            out: wp.array(dtype=float),
        ):
            i = wp.tid()
            p = points[i]
            total = wp.float32(0.0)
            for h in range(hidden.shape[0]):
                total += output[h] * wp.tanh(wp.dot(hidden[h], p) + bias[h])
            out[i] = total

        return lambda: wp.launch(network, dim=n, inputs=inputs, outputs=[out]), []

    def function(xp, points, hidden, bias, output):
        return xp.tanh(points @ hidden.T + bias) @ output

    def gradient():
        p, w, b, o, g = (a.astype(float) for a in (points, hidden, bias, output, seed))
        t = np.tanh(p @ w.T + b)
        adj = g[:, None] * o * (1.0 - t * t)  # of what goes into tanh
        return joined(t @ o, adj @ w, adj.T @ p, adj.sum(axis=0), t.T @ g)

    dtypes, inputs = ["vec3", "vec3", "float32", "float32"], [points, hidden, bias, output]
    tolerance = {"rtol": 2.0e-3, "atol": 2.0e-2}
    name = f"MLP 3-{width}-1, {n} points"
    return Problem(name, inputs, dtypes, seed, launches, function, gradient, tolerance, "network_gradient")


# --- state that a loop overwrites --------------------------------------------------------------------------


def make_pendulum(wp, steps: int):
    """Return the kernel; up to 16 steps are constant, so that both Warps may unroll the loop."""
    if steps <= 16:
        count = wp.constant(steps)

        @wp.kernel
        def pendulum(q0: wp.array(dtype=float), v0: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            q = q0[i]
            v = v0[i]
            for _ in range(count):
                v -= TIME_STEP * wp.sin(q)
                q += TIME_STEP * v
            out[i] = q

        return pendulum, []

    @wp.kernel
    def pendulums(q0: wp.array(dtype=float), v0: wp.array(dtype=float), steps: int, out: wp.array(dtype=float)):
        i = wp.tid()
        q = q0[i]
        v = v0[i]
        for _ in range(steps):
            v -= TIME_STEP * wp.sin(q)
            q += TIME_STEP * v
        out[i] = q

    return pendulums, [steps]


def pendulum(n: int, steps: int) -> Problem:
    """Explicit steps of a pendulum: angle and speed are overwritten, and the sine makes it nonlinear."""
    angle, speed = random(n), 0.5 * random(n)[::-1].copy()

    def launches(wp, inputs, out):
        kernel, extra = make_pendulum(wp, steps)
        return lambda: wp.launch(kernel, dim=n, inputs=[*inputs, *extra], outputs=[out]), []

    def step(xp, q, v):
        v = v - TIME_STEP * xp.sin(q)
        return q + TIME_STEP * v, v

    def function(xp, q, v):
        return xp.loop(steps, lambda q, v: step(xp, q, v), q, v)[0]

    def gradient():
        states, v = [angle.astype(float)], speed.astype(float)
        for _ in range(steps):
            q, v = step(np, states[-1], v)
            states.append(q)
        adj_q, adj_v = np.ones(n), np.zeros(n)
        for q in states[-2::-1]:
            adj_v = adj_v + TIME_STEP * adj_q
            adj_q = adj_q - TIME_STEP * np.cos(q) * adj_v
        return joined(states[-1], adj_q, adj_v)

    name, seed = f"loop of {steps} steps, {n} threads", np.ones(n, np.float32)
    return Problem(name, [angle, speed], ["float32"] * 2, seed, launches, function, gradient)


# --- gather and scatter ------------------------------------------------------------------------------------


def make_springs(wp):
    @wp.kernel
    def pull(x: wp.array(dtype=wp.vec3), ends: wp.array2d(dtype=int), rest: float, force: wp.array(dtype=wp.vec3)):
        s = wp.tid()
        a = ends[s, 0]
        b = ends[s, 1]
        d = x[b] - x[a]
        r = wp.length(d)
        f = (STIFFNESS * (r - rest) / r) * d
        wp.atomic_add(force, a, f)
        wp.atomic_sub(force, b, f)

    @wp.kernel
    def move(
        x: wp.array(dtype=wp.vec3),
        v: wp.array(dtype=wp.vec3),
        force: wp.array(dtype=wp.vec3),
        out: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        out[i] = x[i] + TIME_STEP * (v[i] + TIME_STEP * force[i])

    return pull, move


def springs(side: int) -> Problem:
    """One step of a square cloth: a launch over the springs scatters forces, one over the points moves them."""
    n, rest = side * side, 0.8
    grid = np.arange(n, dtype=np.int32).reshape(side, side)
    ends = np.concatenate(
        [np.stack([grid[:, :-1], grid[:, 1:]], -1).reshape(-1, 2), np.stack([grid[:-1], grid[1:]], -1).reshape(-1, 2)]
    )
    rows, columns = np.divmod(np.arange(n), side)
    x = (np.stack([columns, rows, 0 * rows], axis=-1) + 0.1 * random(n, 3)).astype(np.float32)
    v, seed = random(n, 3)[::-1].copy(), random(n, 3)

    def launches(wp, inputs, out):
        pull, move = make_springs(wp)
        spring_ends = wp.array(ends, dtype=int)
        force = wp.zeros(n, dtype=wp.vec3, requires_grad=True)

        def run():
            wp.launch(pull, dim=len(ends), inputs=[inputs[0], spring_ends, rest], outputs=[force])
            wp.launch(move, dim=n, inputs=[*inputs, force], outputs=[out])

        return run, [force]

    def function(xp, x, v):
        a, b = xp.indices(ends[:, 0]), xp.indices(ends[:, 1])
        d = x[b] - x[a]
        r = ((d * d).sum(-1) ** 0.5)[:, None]
        f = (STIFFNESS * (r - rest) / r) * d
        force = xp.scatter(xp.scatter(0.0 * x, a, f), b, -f)
        return x + TIME_STEP * (v + TIME_STEP * force)

    def gradient():
        p, w, g = x.astype(float), v.astype(float), seed.astype(float)
        a, b = ends.T
        d = p[b] - p[a]
        r = np.linalg.norm(d, axis=1)[:, None]
        force = np.zeros_like(p)
        np.add.at(force, a, STIFFNESS * (1.0 - rest / r) * d)
        np.add.at(force, b, -STIFFNESS * (1.0 - rest / r) * d)
        adj_f = TIME_STEP**2 * (g[a] - g[b])
        along = np.sum(adj_f * d, axis=1)[:, None]
        adj_d = STIFFNESS * ((1.0 - rest / r) * adj_f + rest / r**3 * along * d)
        adj_x = g.copy()
        np.add.at(adj_x, b, adj_d)
        np.add.at(adj_x, a, -adj_d)
        return joined(p + TIME_STEP * (w + TIME_STEP * force), adj_x, TIME_STEP * g)

    name = f"mass-spring step, {len(ends)} springs"
    return Problem(name, [x, v], ["vec3"] * 2, seed, launches, function, gradient)


def all_problems(quick: bool) -> list[Problem]:
    return [
        saxpy(2**10 if quick else 2**22),
        rosenbrock(2**8 if quick else 2**20),
        energy(64 if quick else 2048),
        network(2**6 if quick else 2**14),
        pendulum(2**6 if quick else 2**16, 16),
        pendulum(2**3 if quick else 2**12, 1000),
        springs(8 if quick else 128),
    ]
