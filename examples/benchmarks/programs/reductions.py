"""Programs in which all threads meet in few elements, by atomics in a kernel."""

import numpy as np

from .case import Case, Real, labelled, named, random, sizes, uniform

BINS = 256


class _Reduction(Case):
    """One number, reduced from arrays that are read once."""

    zeroed = True

    def __init__(self, n: int, real: Real, name: str, *inputs: np.ndarray) -> None:
        self.title, self.dim = labelled(f"{name} {n}", real), n
        self.inputs, self.types = list(inputs), [named("real", real)] * (len(inputs) + 1)
        self.out = np.zeros(1, real)
        self.flops, self.nbytes = n * len(inputs), sum(a.nbytes for a in inputs)


@sizes(float32=(2**22, 2**12))
class Sum(_Reduction):
    tolerance = {"rtol": 1.0e-3}  # numbers are added one by one in some columns

    def __init__(self, n: int, real: Real) -> None:
        super().__init__(n, real, "sum", uniform(real, 0.0, 1.0, n))

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def total(x: wp.array(dtype=real), out: wp.array(dtype=real)):
            wp.atomic_add(out, 0, x[wp.tid()])

        return total

    @staticmethod
    def arrays(xp, x):
        return x.sum().reshape(1)

    @staticmethod
    def loops(jit, prange, real):
        zero = real(0.0)

        @jit
        def total(x, out):
            s = zero
            for i in prange(x.shape[0]):
                s += x[i]
            out[0] = s

        return total


@sizes(float64=(2**22, 2**12))
class Dot(_Reduction):
    tolerance = {"rtol": 1.0e-9}

    def __init__(self, n: int, real: Real) -> None:
        super().__init__(n, real, "dot product", uniform(real, 0.0, 1.0, n), uniform(real, 0.0, 1.0, n, seed=1))

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def dot(x: wp.array(dtype=real), y: wp.array(dtype=real), out: wp.array(dtype=real)):
            i = wp.tid()
            wp.atomic_add(out, 0, x[i] * y[i])

        return dot

    @staticmethod
    def arrays(xp, x, y):
        return (x * y).sum().reshape(1)

    @staticmethod
    def loops(jit, prange, real):
        zero = real(0.0)

        @jit
        def dot(x, y, out):
            s = zero
            for i in prange(x.shape[0]):
                s += x[i] * y[i]
            out[0] = s

        return dot


@sizes(float32=(2**22, 2**12))
class Max(_Reduction):
    def __init__(self, n: int, real: Real) -> None:
        super().__init__(n, real, "maximum", random(real, n))

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def largest(x: wp.array(dtype=real), out: wp.array(dtype=real)):
            wp.atomic_max(out, 0, x[wp.tid()])

        return largest

    @staticmethod
    def arrays(xp, x):
        return x.max().reshape(1)

    @staticmethod
    def loops(jit, prange, real):
        zero = real(0.0)

        @jit
        def largest(x, out):
            m = zero
            for i in prange(x.shape[0]):
                m = max(m, x[i])
            out[0] = m

        return largest


@sizes(float32=(2**22, 2**12))
class Histogram(Case):
    zeroed = True

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"histogram {n}, {BINS} bins", n
        values = np.random.default_rng(0).integers(0, BINS, n).astype(np.int32)
        self.inputs, self.types = [values], ["int32", "int32"]
        self.out = np.zeros(BINS, np.int32)
        self.flops, self.nbytes = n, values.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def histogram(values: wp.array(dtype=int), out: wp.array(dtype=int)):
            wp.atomic_add(out, values[wp.tid()], 1)

        return histogram

    @staticmethod
    def arrays(xp, values):
        return xp.counts(values, BINS)

    @staticmethod
    def loops(jit, prange, real):
        parts = 8  # numba has no atomics on the CPU: a histogram for each part, then their sum

        @jit
        def histogram(values, out):
            n = values.shape[0]
            counts = np.zeros((parts, BINS), np.int32)
            for p in prange(parts):
                for i in range(p * n // parts, (p + 1) * n // parts):
                    counts[p, values[i]] += 1
            out[:] = counts.sum(0)

        return histogram
