"""Programs that read memory at indices that are data."""

import numpy as np

from .case import Case, Real, random, sizes


@sizes(float32=(2**21, 2**10))
class Gather(Case):
    """A random permutation."""

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"permutation {n}", n
        order = np.random.default_rng(0).permutation(n).astype(np.int32)
        self.inputs, self.types = [random(real, n), order], ["float32", "int32", "float32"]
        self.out = np.empty(n, real)
        self.flops, self.nbytes = 0, 3 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def gather(x: wp.array(dtype=float), order: wp.array(dtype=int), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = x[order[i]]

        return gather

    @staticmethod
    def arrays(xp, x, order):
        return x[order]

    @staticmethod
    def loops(jit, prange, real):
        @jit
        def gather(x, order, out):
            for i in prange(x.shape[0]):
                out[i] = x[order[i]]

        return gather


@sizes(float32=(2**18, 2**8))
class Sparse(Case):
    """The product of a sparse matrix (CSR, five to nine elements a row) and a vector."""

    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-4}

    def __init__(self, n: int, real: Real) -> None:
        rng = np.random.default_rng(1)
        first = np.concatenate([[0], np.cumsum(rng.integers(5, 10, n))]).astype(np.int32)
        values, columns = random(real, first[-1]), rng.integers(0, n, first[-1]).astype(np.int32)
        self.title, self.dim = f"sparse product {n}", n
        self.inputs = [values, columns, first, random(real, n)]
        self.types = ["float32", "int32", "int32", "float32", "float32"]
        self.out = np.empty(n, real)
        self.flops = 2 * len(values)
        self.nbytes = values.nbytes + columns.nbytes + first.nbytes + 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def sparse(
            values: wp.array(dtype=float),
            columns: wp.array(dtype=int),
            first: wp.array(dtype=int),
            x: wp.array(dtype=float),
            out: wp.array(dtype=float),
        ):
            i = wp.tid()
            total = wp.float32(0.0)
            for k in range(first[i], first[i + 1]):
                total += values[k] * x[columns[k]]
            out[i] = total

        return sparse

    @staticmethod
    def arrays(xp, values, columns, first, x):
        """By prefix sums of the products, which no array library has to scatter for."""
        sums = xp.cumsum(values * x[columns], 0)
        ends = sums[first[1:] - 1]
        return ends - xp.concatenate([0.0 * ends[:1], ends[:-1]])

    @staticmethod
    def loops(jit, prange, real):
        zero = real(0.0)

        @jit
        def sparse(values, columns, first, x, out):
            for i in prange(first.shape[0] - 1):
                total = zero
                for k in range(first[i], first[i + 1]):
                    total += values[k] * x[columns[k]]
                out[i] = total

        return sparse
