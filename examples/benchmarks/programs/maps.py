"""Programs that evaluate special functions of one number."""

import numpy as np

from .case import SPECIAL, Case, Real, labelled, named, random, sizes, uniform


@sizes(float32=(2**22, 2**12), float64=(2**21, 2**12))
class Sine(Case):
    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"sine {n}", real), n
        self.inputs, self.types = [10 * random(real, n)], [named("real", real)] * 2
        self.out = np.empty(n, real)
        self.flops, self.nbytes = SPECIAL * n, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def sine(x: wp.array(dtype=real), out: wp.array(dtype=real)):
            i = wp.tid()
            out[i] = wp.sin(x[i])

        return sine

    @staticmethod
    def arrays(xp, x):
        return xp.sin(x)

    @staticmethod
    def loops(jit, prange, real):
        @jit
        def sine(x, out):
            for i in prange(x.shape[0]):
                out[i] = np.sin(x[i])

        return sine


@sizes(float32=(2**22, 2**12), float64=(2**20, 2**12))
class Mix(Case):
    """An exponential, a logarithm and a power."""

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"exp, log, pow {n}", real), n
        self.inputs, self.types = [uniform(real, 0.1, 4.0, n)], [named("real", real)] * 2
        self.out = np.empty(n, real)
        # a power is a logarithm and an exponential
        self.flops, self.nbytes = (4 * SPECIAL + 4) * n, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def mix(x: wp.array(dtype=real), out: wp.array(dtype=real)):
            i = wp.tid()
            v = x[i]
            out[i] = wp.exp(-v) * wp.log(real(1.0) + v) + wp.pow(v, real(1.7))

        return mix

    @staticmethod
    def arrays(xp, x):
        return xp.exp(-x) * xp.log(1.0 + x) + x**1.7

    @staticmethod
    def loops(jit, prange, real):
        one, power = real(1.0), real(1.7)

        @jit
        def mix(x, out):
            for i in prange(x.shape[0]):
                out[i] = np.exp(-x[i]) * np.log(one + x[i]) + x[i] ** power

        return mix
