"""Matrices and solvers on a CUDA device, emulated and on a GPU where there is one, compared with NumPy in float64."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from tests.optim.linear.systems import poisson, sparse
from tests.runtime.cuda.conftest import device as device  # a fixture
from tests.sparse.matrices import dense, entries, summed
from warp_like.optim.linear import FSAI, bicgstab, cg, cr, gmres
from warp_like.sparse import bsr_from_triplets


@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_operations(shape, device):
    size = (7, 9)
    rows, columns, blocks = entries(0, size, 40, shape)
    full = summed(size, rows, columns, blocks)
    x = np.random.default_rng(1).standard_normal(full.shape[1])
    with wp.ScopedDevice(device):
        A = bsr_from_triplets(*size, wp.array(rows), wp.array(columns), wp.array(blocks))
        B = A.T
        pairs = [
            (A, full),
            (B, full.T),
            (A @ B, full @ full.T),
            (A + 2.0 * A, 3.0 * full),
            (A - (B @ A @ B).T, full - full @ full.T @ full),
        ]
        for found, expected in pairs:
            np.testing.assert_allclose(dense(found), expected, atol=1e-13)
        vector = wp.array(
            x.reshape(-1, shape[1]) if shape[1] > 1 else x, dtype=wp.vec3d if shape[1] > 1 else wp.float64
        )
        np.testing.assert_allclose((A @ vector).numpy().ravel(), full @ x, atol=1e-13)


@pytest.mark.parametrize("solver", [cg, *map(tail, (cr, bicgstab, gmres))])
def test_a_solve_in_a_graph(solver, device):
    """The device decides when the iterations end, and a captured update fits the preconditioner."""
    A, b = poisson(5), np.random.default_rng(2).standard_normal(25)
    with wp.ScopedDevice(device):
        matrix, given = sparse(A), wp.array(b)
        x = wp.zeros_like(given)
        M = FSAI(matrix, reuse_pattern=True, defer_pattern=True)
        with wp.ScopedCapture() as capture:
            M.update()
            x.zero_()
            iterations, residual_sq, limit_sq = solver(matrix, given, x, 1e-10, 0.0, maxiter=100, M=M, check_every=0)
        for scale in (1.0, -2.0):
            given.assign(scale * b)
            wp.capture_launch(capture.graph)
            assert M.update_status.list() == [0] * 4
            assert 0 < iterations.list()[0] < (25 if solver is not gmres else 32)
            assert residual_sq.list()[0] <= limit_sq.list()[0]
            np.testing.assert_allclose(x.numpy(), scale * np.linalg.solve(A.toarray(), b), atol=1e-8)
