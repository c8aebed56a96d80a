"""Operations on sparse matrices as parts of graphs, which compute with other numbers when they are run again."""

import numpy as np
import pytest

import warp_like as wp
from tests.sparse.matrices import dense, entries, summed
from warp_like.sparse import bsr_axpy, bsr_mm, bsr_mv, bsr_set_from_triplets, bsr_set_transpose, bsr_zeros


def test_a_graph_of_operations():
    size = (6, 6)
    first, second = entries(1, size, 20, (2, 2)), entries(2, size, 20, (2, 2))
    rows, columns, blocks = (wp.array(a) for a in first)
    A, turned, product = (bsr_zeros(*size, wp.mat22d) for _ in range(3))
    x, y = wp.ones(12, dtype=wp.float64), wp.zeros(12, dtype=wp.float64)
    with wp.ScopedCapture() as capture:
        bsr_set_from_triplets(A, rows, columns, blocks)
        bsr_set_transpose(turned, A)
        bsr_mm(A, turned, product, max_new_nnz=36)
        bsr_axpy(turned, product, 2.0, -1.0)
        bsr_mv(product, x, y)
    for given in (first, second):
        for target, source in zip((rows, columns, blocks), given, strict=True):
            target.assign(source)
        wp.capture_launch(capture.graph)
        full = summed(size, *given)
        expected = 2.0 * full.T - full @ full.T
        np.testing.assert_allclose(dense(product), expected, atol=1e-13)
        np.testing.assert_allclose(y.numpy(), expected.sum(1), atol=1e-13)


def test_a_product_without_a_bound_is_refused():
    A = bsr_zeros(2, 2, float)
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match="needs max_new_nnz or reuse_topology while a graph"):
        bsr_mm(A, A)
