"""Kernels with state that a loop overwrites."""

from typing import Any

import numpy as np

from .problem import Problem, joined, normal, reversed_normal

TIME_STEP = 1.0e-2


def make_pendulum(wp, steps: int):
    """Return a kernel of a constant number of steps, which both Warps may unroll, and its further arguments."""
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


def make_long_pendulum(wp, steps: int):
    """Return a kernel that is given the number of steps, and its further arguments."""

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


def step(xp: Any, q: Any, v: Any) -> tuple[Any, Any]:
    """Return angle and speed after a time step, on whole arrays."""
    v = v - TIME_STEP * xp.sin(q)
    return q + TIME_STEP * v, v


class Pendulum(Problem):
    """Explicit steps of a pendulum: angle and speed are overwritten, and the sine makes it nonlinear."""

    cpp = "pendulum_gradient"

    def __init__(self, n: int, steps: int) -> None:
        self.name, self.steps = f"loop of {steps} steps, {n} threads", steps
        self.inputs, self.dtypes = [normal(n), 0.5 * reversed_normal(n)], ["float32"] * 2
        self.seed, self.numbers = np.ones(n, np.float32), (steps,)

    def launches(self, wp, inputs, out):
        make = make_pendulum if self.steps <= 16 else make_long_pendulum
        kernel, more = make(wp, self.steps)
        return lambda: wp.launch(kernel, dim=len(self.seed), inputs=[*inputs, *more], outputs=[out]), []

    def function(self, xp, q, v):
        return xp.loop(self.steps, lambda q, v: step(xp, q, v), q, v)[0]

    def gradient(self) -> np.ndarray:
        angle, v = (a.astype(float) for a in self.inputs)
        angles = [angle]
        for _ in range(self.steps):
            angle, v = step(np, angle, v)
            angles.append(angle)
        adj_q, adj_v = self.seed.astype(float), np.zeros(len(self.seed))
        for q in angles[-2::-1]:
            adj_v = adj_v + TIME_STEP * adj_q
            adj_q = adj_q - TIME_STEP * np.cos(q) * adj_v
        return joined(angles[-1], adj_q, adj_v)
