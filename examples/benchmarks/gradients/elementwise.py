"""Straight-line kernels: a thread for each element."""

import numpy as np
from programs import streaming

from .problem import Problem, joined, normal, reversed_normal

A = 2.5  # the factor of saxpy


class Saxpy(Problem):
    """A sum of two arrays, one of them scaled: only memory traffic."""

    cpp = "saxpy_gradient"
    numbers = (np.float32(A),)

    def __init__(self, n: int) -> None:
        self.name, self.inputs, self.dtypes = f"saxpy {n}", [normal(n), reversed_normal(n)], ["float32"] * 2
        self.seed = normal(n) + 1.0

    def launches(self, wp, inputs, out):
        kernel = streaming.Saxpy.kernel(wp, wp.float32)
        return lambda: wp.launch(kernel, dim=len(self.seed), inputs=[*inputs, A], outputs=[out]), []

    def function(self, xp, x, y):
        return streaming.Saxpy.arrays(xp, x, y, A)

    def gradient(self) -> np.ndarray:
        x, y = self.inputs
        return joined(A * x.astype(float) + y, A * self.seed, self.seed)


class Rosenbrock(Problem):
    """Rosenbrock's function of many variables: a forward pass that only reads."""

    cpp = "rosenbrock_gradient"

    def __init__(self, n: int) -> None:
        self.name, self.dtypes, self.seed = f"Rosenbrock {n}", ["float32"], np.ones(1, np.float32)
        self.inputs = [np.random.default_rng(0).uniform(-1.0, 1.0, n).astype(np.float32)]

    def launches(self, wp, inputs, out):
        @wp.kernel
        def rosenbrock(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            a = 1.0 - x[i]
            b = x[i + 1] - x[i] * x[i]
            wp.atomic_add(out, 0, a * a + 100.0 * b * b)

        return lambda: wp.launch(rosenbrock, dim=len(self.inputs[0]) - 1, inputs=inputs, outputs=[out]), [out]

    def function(self, xp, x):
        return ((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2).sum().reshape(1)

    def gradient(self) -> np.ndarray:
        p = self.inputs[0].astype(float)
        a, b = 1.0 - p[:-1], p[1:] - p[:-1] ** 2
        adj = np.zeros_like(p)
        adj[:-1] = -2.0 * a - 400.0 * p[:-1] * b
        adj[1:] += 200.0 * b
        return joined(np.sum(a * a + 100.0 * b * b), adj)
