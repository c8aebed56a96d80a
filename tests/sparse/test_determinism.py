"""Results have the same bits for any number of threads; products with a transpose have them in deterministic mode."""

import numpy as np

import warp_like as wp
from warp_like.optim.linear import bicgstab, cg, cr, gmres, preconditioner
from warp_like.sparse import bsr_from_triplets, bsr_mm, bsr_mv, bsr_transposed

ROWS = 3000


def compute():
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, ROWS, 12 * ROWS).astype(np.int32) for _ in range(2))
    diagonal = np.arange(ROWS, dtype=np.int32)
    values = np.concatenate([rng.uniform(-1, 1, rows.size), np.full(ROWS, 30.0)]).astype(np.float32)
    places = (wp.array(np.concatenate([a, diagonal])) for a in (rows, columns))
    A = bsr_from_triplets(ROWS, ROWS, *places, wp.array(values))
    turned = bsr_transposed(A)
    matrices = [A, turned, A + turned, A + 2.0 * A, bsr_mm(A, turned)]
    x = wp.array(rng.standard_normal(ROWS).astype(np.float32))
    vectors = [A @ x, bsr_mv(A, x, transpose=True)]
    for solver, matrix in ((cg, A + turned), (cr, A + turned), (bicgstab, A), (gmres, A)):
        found = wp.zeros_like(x)
        solver(matrix, x, found, maxiter=20, tol=0.0, atol=0.0, M=preconditioner(matrix))
        vectors.append(found)
    arrays = [part for m in matrices for part in (m.offsets, m.columns[: m.nnz_sync()], m.values[: m.nnz])]
    return [a.numpy().tobytes() for a in (*arrays, *vectors)]


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(wp.config, "deterministic", True)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(wp.config, "num_threads", threads)
        results.append(compute())
    assert results[0] == results[1] == results[2]
