"""Kernels whose threads sum in a loop."""

import numpy as np
from programs import dense
from programs.particles import SOFTENING

from .problem import Problem, joined, normal, reversed_normal


class Energy(Problem):
    """The potential energy of bodies that attract each other, over all pairs."""

    cpp = "energy_gradient"

    def __init__(self, n: int) -> None:
        self.name, self.inputs, self.dtypes = f"n-body energy {n}", [normal(n, 3)], ["vec3"]
        self.seed = np.ones(1, np.float32)

    def launches(self, wp, inputs, out):
        @wp.kernel
        def energy(positions: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
            i = wp.tid()
            total = wp.float32(0.0)
            for j in range(positions.shape[0]):
                d = positions[j] - positions[i]
                total += 1.0 / wp.sqrt(wp.dot(d, d) + SOFTENING)
            wp.atomic_add(out, 0, -0.5 * total)

        return lambda: wp.launch(energy, dim=len(self.inputs[0]), inputs=inputs, outputs=[out]), [out]

    def function(self, xp, p):
        d = p[None, :] - p[:, None]
        return -0.5 * (((d * d).sum(-1) + SOFTENING) ** -0.5).sum().reshape(1)

    def gradient(self) -> np.ndarray:
        p, value = self.inputs[0].astype(float), 0.0
        adj = np.zeros_like(p)
        for i in range(len(p)):
            d = p[i] - p
            inverse = (np.sum(d * d, axis=1) + SOFTENING) ** -0.5
            adj[i] = inverse**3 @ d
            value -= 0.5 * inverse.sum()
        return joined(value, adj)


class Network(Problem):
    """A small network, evaluated by each thread for its own point; all weights are differentiated."""

    cpp = "network_gradient"
    tolerance = {"rtol": 2.0e-3, "atol": 2.0e-2}

    def __init__(self, n: int, width: int = 32) -> None:
        self.name, self.dtypes = f"MLP 3-{width}-1, {n} points", ["vec3", "vec3", "float32", "float32"]
        self.inputs, self.seed = [normal(n, 3), normal(width, 3), normal(width), reversed_normal(width)], normal(n)

    def launches(self, wp, inputs, out):
        kernel = dense.Network.kernel(wp, wp.float32)
        return lambda: wp.launch(kernel, dim=len(self.seed), inputs=inputs, outputs=[out]), []

    def function(self, xp, *inputs):
        return dense.Network.arrays(xp, *inputs)

    def gradient(self) -> np.ndarray:
        p, w, b, o, g = (a.astype(float) for a in (*self.inputs, self.seed))
        t = np.tanh(p @ w.T + b)
        adj = g[:, None] * o * (1.0 - t * t)  # of the argument of tanh
        return joined(t @ o, adj @ w, adj.T @ p, adj.sum(axis=0), t.T @ g)


class DeepNetwork(Problem):
    """A network of two hidden layers, evaluated by each thread for its own point, as neural fields do."""

    cpp = "deep_network_gradient"
    tolerance = {"rtol": 2.0e-3, "atol": 2.0e-2}

    def __init__(self, n: int) -> None:
        self.name, self.dtypes = f"MLP 8-16-16-1, {n} points", ["float32"] * 4
        weights = [normal(16, 8), 0.5 * normal(16, 16), reversed_normal(16)]
        self.inputs, self.seed = [normal(n, 8), *weights], normal(n)

    def launches(self, wp, inputs, out):
        @wp.kernel
        def deep_network(
            points: wp.array2d(dtype=float),
            first: wp.array2d(dtype=float),
            second: wp.array2d(dtype=float),
            last: wp.array(dtype=float),
            out: wp.array(dtype=float),
        ):
            t = wp.tid()
            a = wp.vector(dtype=float, length=16)
            for i in range(16):
                s = wp.float32(0.0)
                for j in range(8):
                    s += first[i, j] * points[t, j]
                a[i] = wp.tanh(s)
            total = wp.float32(0.0)
            for i in range(16):
                s = wp.float32(0.0)
                for j in range(16):
                    s += second[i, j] * a[j]
                total += last[i] * wp.tanh(s)
            out[t] = total

        return lambda: wp.launch(deep_network, dim=len(self.seed), inputs=inputs, outputs=[out]), []

    def function(self, xp, x, first, second, last):
        return xp.tanh(xp.tanh(x @ first.T) @ second.T) @ last

    def gradient(self) -> np.ndarray:
        x, first, second, last, g = (a.astype(float) for a in (*self.inputs, self.seed))
        a = np.tanh(x @ first.T)
        b = np.tanh(a @ second.T)
        adj_b = g[:, None] * last * (1.0 - b * b)  # of the arguments of tanh
        adj_a = (adj_b @ second) * (1.0 - a * a)
        return joined(b @ last, adj_a @ first, adj_a.T @ x, adj_b.T @ a, b.T @ g)
