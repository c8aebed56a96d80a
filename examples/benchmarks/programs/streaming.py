"""Programs that wait for memory."""

import numpy as np

from .case import Case, Real, labelled, named, random, sizes


@sizes(float32=(2**24, 2**12))
class Copy(Case):
    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"copy {n}", n
        self.inputs, self.types = [random(real, n)], [named("real", real)] * 2
        self.out = np.empty(n, real)
        self.flops, self.nbytes = 0, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def copy(x: wp.array(dtype=real), out: wp.array(dtype=real)):
            i = wp.tid()
            out[i] = x[i]

        return copy

    @staticmethod
    def arrays(xp, x):
        return xp.copy(x)

    @staticmethod
    def loops(jit, prange, real):
        @jit
        def copy(x, out):
            for i in prange(x.shape[0]):
                out[i] = x[i]

        return copy


@sizes(float32=(2**24, 2**12), float64=(2**23, 2**12))
class Saxpy(Case):
    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"saxpy {n}", real), n
        self.inputs = [random(real, n), random(real, n, seed=1), real(2.5)]
        self.types, self.out = [named("real", real)] * 3, np.empty(n, real)
        self.flops, self.nbytes = 2 * n, 3 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def saxpy(x: wp.array(dtype=real), y: wp.array(dtype=real), a: real, out: wp.array(dtype=real)):
            i = wp.tid()
            out[i] = a * x[i] + y[i]

        return saxpy

    @staticmethod
    def arrays(xp, x, y, a):
        return a * x + y

    @staticmethod
    def loops(jit, prange, real):
        @jit
        def saxpy(x, y, a, out):
            for i in prange(x.shape[0]):
                out[i] = a * x[i] + y[i]

        return saxpy
