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


def test_a_graph_of_sums_of_matrices_with_the_same_blocks_and_with_others():
    first, second = (np.array([0, 1, 2]), np.array([2, 0, 1])), (np.array([0, 0, 2]), np.array([1, 2, 1]))
    values = wp.array([1.0, 2.0, 3.0])
    of_a, of_b = ([wp.array(a, dtype=int) for a in first] for _ in range(2))
    A, B, total = (bsr_zeros(3, 3, wp.float64) for _ in range(3))
    bsr_set_from_triplets(total, *of_a, values)
    with wp.ScopedCapture() as capture:
        bsr_set_from_triplets(A, *of_a, values)
        bsr_set_from_triplets(B, *of_b, values)
        total = A + B
    for a, b in ((first, first), (first, second), (second, second), (first, first)):
        for arrays, given in ((of_a, a), (of_b, b)):
            for target, source in zip(arrays, given, strict=True):
                target.assign(source)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(dense(total), dense(A) + dense(B))


def test_a_product_without_a_bound_is_refused():
    A = bsr_zeros(2, 2, float)
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match="needs max_new_nnz or reuse_topology while a graph"):
        bsr_mm(A, A)
