"""Programs in which each thread sums a row of products: a matrix product, a neural network."""

import numpy as np

from .case import SPECIAL, Case, Real, labelled, named, random, sizes

WIDTH = 64  # of the network's hidden layer


@sizes(float32=(512, 32), float64=(384, 32))
class Matmul(Case):
    """Naive on purpose: one thread an element, and no block is kept anywhere. JAX and PyTorch call a tuned library."""

    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-3}

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"matmul {n}, naive", real), (n, n)
        self.inputs, self.types = [random(real, n, n), random(real, n, n, seed=1)], [named("real", real)] * 3
        self.out = np.empty((n, n), real)
        self.flops, self.nbytes = 2 * n**3, 3 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def matmul(a: wp.array2d(dtype=real), b: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
            i, j = wp.tid()
            total = real(0.0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total

        return matmul

    @staticmethod
    def arrays(xp, a, b):
        return a @ b

    @staticmethod
    def loops(jit, prange, real):
        zero = real(0.0)

        @jit
        def matmul(a, b, out):
            for i in prange(a.shape[0]):
                for j in range(b.shape[1]):
                    total = zero
                    for k in range(a.shape[1]):
                        total += a[i, k] * b[k, j]
                    out[i, j] = total

        return matmul


@sizes(float32=(2**17, 2**10))
class Network(Case):
    """A small network, evaluated by each thread for its own point."""

    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-4}

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"MLP 3-{WIDTH}-1, {n} points", n
        self.inputs = [random(real, n, 3), random(real, WIDTH, 3), random(real, WIDTH), random(real, WIDTH, seed=1)]
        self.types, self.out = ["vec3", "vec3", "float32", "float32", "float32"], np.empty(n, real)
        self.flops, self.nbytes = (8 + SPECIAL) * WIDTH * n, 4 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
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

        return network

    @staticmethod
    def arrays(xp, points, hidden, bias, output):
        return xp.tanh(points @ hidden.T + bias) @ output

    @staticmethod
    def loops(jit, prange, real):
        zero = real(0.0)

        @jit
        def network(p, hidden, bias, output, out):
            for i in prange(p.shape[0]):
                total = zero
                for h in range(hidden.shape[0]):
                    s = hidden[h, 0] * p[i, 0] + hidden[h, 1] * p[i, 1] + hidden[h, 2] * p[i, 2] + bias[h]
                    total += output[h] * np.tanh(s)
                out[i] = total

        return network
