"""The rows of ``benchmark_cuda.py``: their names, their inputs, and the results that NumPy has for them."""

from collections.abc import Callable

import numpy as np
from cuda_kernels import SOFTENING
from timing import Program

SAXPY = "saxpy of vec4"
COPY = "copy on the device"
KERNEL_COPY = "copy of vec4 by a kernel"
NBODY = "n-body"
NBODY_FAST = "n-body, fast inverse roots"
STENCIL = "stencil, 5 points"
SUM = "sum into one element"
HISTOGRAM = "histogram, 1024 bins"
MATMUL = "matmul, a thread an element"
SMALL = "launch of 16 elements"
GRAPH_NODES = 20
GRAPH = f"graph of {GRAPH_NODES} launches"
ROWS = [SAXPY, COPY, KERNEL_COPY, NBODY, NBODY_FAST, STENCIL, SUM, HISTOGRAM, MATMUL, SMALL, GRAPH]

Makers = dict[str, Callable[[], Program]]
"""A library's programs by row; each is made when it is its turn."""


class Data:
    """The inputs of all rows on the host."""

    def __init__(self, quick: bool) -> None:
        rng = np.random.default_rng(0)
        self.count = 4096 if quick else 1 << 24  # elements of 16 bytes
        self.bodies = 256 if quick else 1 << 15
        self.side = 130 if quick else 8194
        self.summed = 10_000 if quick else 1 << 24
        self.edge = 64 if quick else 2048
        self.x, self.y = (rng.random((self.count, 4), dtype=np.float32) for _ in range(2))
        self.positions = rng.random((self.bodies, 4), dtype=np.float32)
        self.image = rng.random((self.side, self.side), dtype=np.float32)
        self.values = rng.random(self.summed, dtype=np.float32)
        self.bins = rng.integers(0, 1024, self.summed, dtype=np.int32)
        self.a, self.b = (rng.random((self.edge, self.edge), dtype=np.float32) for _ in range(2))

    def forces(self) -> np.ndarray:
        """Return the accelerations of the first 64 bodies."""
        p = self.positions.astype(np.float64)
        d = p[None, :, :3] - p[:64, None, :3]
        r2 = (d * d).sum(axis=2) + SOFTENING
        return (d * (p[None, :, 3] / r2**1.5)[..., None]).sum(axis=1)

    def blurred(self) -> np.ndarray:
        """Return the inner points after the stencil."""
        x = self.image
        inner = x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return 0.2 * inner


def expected(data: Data) -> dict[str, np.ndarray]:
    """Return the result of each row."""
    axpy, forces = 2.0 * data.x + data.y, data.forces()
    return {
        SAXPY: axpy,
        COPY: data.x,
        KERNEL_COPY: data.x,
        NBODY: forces,
        NBODY_FAST: forces,
        STENCIL: data.blurred(),
        SUM: data.values.sum(dtype=np.float64, keepdims=True),
        HISTOGRAM: np.bincount(data.bins, minlength=1024),
        MATMUL: data.a.astype(np.float64) @ data.b,
        SMALL: axpy[:16],
        GRAPH: axpy[:16],
    }
