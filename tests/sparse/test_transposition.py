"""Transposes of sparse matrices, compared with NumPy."""

import numpy as np
import pytest

import warp_like as wp
from tests.sparse.matrices import block, dense, random
from warp_like.sparse import bsr_assign, bsr_copy, bsr_set_transpose, bsr_transposed, bsr_zeros

SHAPES = [(1, 1), (3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_transposes(shape):
    A = random(5, (60, 41), 300, shape)
    turned = bsr_transposed(A)
    assert turned.shape == A.shape[::-1]
    assert turned.nnz_sync() == A.nnz_sync()
    np.testing.assert_array_equal(dense(turned), dense(A).T)
    np.testing.assert_array_equal(dense((2.0 * A).T.eval()), 2.0 * dense(A).T)
    padded = bsr_zeros(41, 60, block(shape[::-1], wp.float64), row_capacity=60)
    bsr_set_transpose(padded, A, topology="padded")
    np.testing.assert_array_equal(dense(padded), dense(A).T)
    np.testing.assert_array_equal(dense(bsr_transposed(padded)), dense(A))
    some = bsr_transposed(random(6, (60, 41), 90, shape))
    mask = np.kron(dense(bsr_copy(some, block_shape=(1, 1))) != 0, np.ones((1, 1)))
    bsr_set_transpose(some, A, topology="masked")
    np.testing.assert_array_equal(dense(some), dense(A).T * mask)


def test_a_matrix_is_transposed_in_place():
    A = random(7, (9, 9), 40, (2, 2))
    expected = 2.0 * dense(A).T
    bsr_set_transpose(A, 2.0 * A)
    np.testing.assert_array_equal(dense(A), expected)
    bsr_assign(A, -1.0 * A)
    np.testing.assert_array_equal(dense(A), -expected)


def test_the_memory_of_the_result_is_used_again():
    """For a smaller and a larger transpose than before, but not where the matrix itself lies there."""
    turned = bsr_zeros(0, 0, wp.float64)
    for seed, size, n in ((1, (1500, 2100), 4000), (2, (30, 9), 100), (3, (2100, 1500), 5000), (4, (3, 0), 0)):
        A = random(seed, size, n) if n else bsr_zeros(*size, wp.float64)
        columns = turned.columns.ptr if turned.columns.size >= A.nnz else None
        bsr_set_transpose(turned, A)
        assert columns is None or turned.columns.ptr == columns
        np.testing.assert_array_equal(dense(turned), dense(A).T)
    view, expected = bsr_zeros(0, 0, wp.float64), dense(A := random(5, (20, 20), 90)).T
    view.nrow, view.ncol, view.nnz = 20, 20, A.nnz
    view.offsets, view.columns, view.values = A.offsets, A.columns, A.values
    bsr_set_transpose(view, A)
    np.testing.assert_array_equal(dense(view), expected)


def test_transposes_of_other_types_are_refused():
    A = random(8, (3, 4), 6, (3, 2))
    with pytest.raises(ValueError, match=r"Destination block shape must be \(2, 3\), got \(3, 2\)"):
        bsr_set_transpose(A, A)
    with pytest.raises(ValueError, match="Destination scalar type must be float64, got float32"):
        bsr_set_transpose(bsr_zeros(4, 3, block((2, 3), wp.float32)), A)
    with pytest.raises(TypeError, match="src is a BsrMatrix, got int"):
        bsr_set_transpose(A, 3)
