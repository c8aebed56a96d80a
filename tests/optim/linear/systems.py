"""Linear systems of several kinds: their matrices in SciPy and as sparse matrices of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import warp_like as wp
from warp_like.sparse import BsrMatrix, bsr_copy, bsr_from_triplets


def sparse(A: Any, block: int = 1, dtype: Any = wp.float64) -> BsrMatrix:
    """A SciPy matrix as one of blocks."""
    coo = A.tocoo()
    rows, columns = (wp.array(c.astype(np.int32)) for c in coo.coords)
    made = bsr_from_triplets(*A.shape, rows, columns, wp.array(coo.data, dtype=dtype))
    return made if block == 1 else bsr_copy(made, block_shape=(block, block))


def _line(n: int, below: float = -1.0, above: float = -1.0) -> Any:
    return scipy.sparse.diags_array([below, 2.0, above], offsets=[-1, 0, 1], shape=(n, n))


def poisson(n: int) -> Any:
    """Five points, on a square of ``n`` times ``n`` points."""
    one = scipy.sparse.eye_array(n)
    return scipy.sparse.csr_array(scipy.sparse.kron(_line(n), one) + scipy.sparse.kron(one, _line(n)))


def convection(n: int) -> Any:
    """The same with a wind, which makes it unsymmetric."""
    one = scipy.sparse.eye_array(n)
    windy = _line(n, -1.6, -0.4)
    return scipy.sparse.csr_array(scipy.sparse.kron(windy, one) + scipy.sparse.kron(one, windy))


def springs(n: int) -> Any:
    """A chain of ``n`` points in space, held by springs of all directions: blocks of 3 x 3, as in elasticity."""
    rng = np.random.default_rng(0)
    full = np.zeros((n, 3, n, 3))
    for i in range(n):
        for j in (i + 1, i + 4):
            root = rng.standard_normal((3, 3))
            stiffness = root @ root.T + 0.1 * np.eye(3)
            full[i, :, i] += stiffness
            if j < n:
                full[j, :, j] += stiffness
                full[i, :, j] -= stiffness
                full[j, :, i] -= stiffness
    return scipy.sparse.csr_array(full.reshape(3 * n, 3 * n))
