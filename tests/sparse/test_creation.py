"""Sparse matrices without blocks and with diagonal blocks; their storage, and what kernels find in them."""

import numpy as np
import pytest

import warp_like as wp
from tests.sparse.matrices import dense, random
from warp_like.sparse import (
    BsrMatrix,
    bsr_block_index,
    bsr_diag,
    bsr_get_diag,
    bsr_identity,
    bsr_matrix_t,
    bsr_row_index,
    bsr_set_diag,
    bsr_set_identity,
    bsr_set_zero,
    bsr_zeros,
)


def test_an_empty_matrix():
    A = bsr_zeros(3, 4, wp.types.matrix(shape=(2, 3), dtype=wp.float64))
    assert isinstance(A, BsrMatrix)
    assert isinstance(A, bsr_matrix_t(A.dtype))
    assert (A.shape, A.block_shape, A.block_size, A.scalar_type) == ((6, 12), (2, 3), 6, wp.float64)
    assert (A.nnz, A.nnz_sync(), A.row_counts, A.requires_grad) == (0, 0, None, False)
    assert repr(A) == "BsrMatrix(shape=(6, 12), blocks of 2 x 3, float64, nnz <= 0, compact, device=cpu)"
    assert (A @ wp.ones(12, dtype=wp.float64)).numpy().tolist() == [[0.0, 0.0]] * 3


def test_capacity():
    A = bsr_zeros(3, 4, float, row_capacity=wp.array([1, 0, 3], dtype=int), nnz_capacity=8)
    assert A.offsets.list() == [0, 1, 1, 4]
    assert A.row_counts.list() == [0, 0, 0]
    assert A.nnz == 8
    assert A.values.size == 8
    assert A.nnz_sync() == 4
    bsr_set_zero(A, 5, 4, topology="padded")
    assert A.offsets.list() == [0, 1, 1, 4, 4, 4]
    assert A.row_counts.list() == [0] * 5
    bsr_set_zero(A, rows_of_blocks=2, topology="padded", row_capacity=3)
    assert A.offsets.list()[:3] == [0, 3, 6]
    assert A.nnz == 6
    bsr_set_zero(A, 2, 2)
    assert A.nnz_sync() == 0
    assert A.row_counts is None
    A.notify_nnz_changed(10)
    assert A.nnz == 10
    assert A.columns.size >= 10
    assert A.nnz_sync() == 0
    A.offsets.assign([0, 2, 6, 6, 6, 6])
    A.notify_nnz_changed()
    assert A.nnz == 6


def test_masked_zero_keeps_the_blocks():
    A = random(1)
    columns = A.columns.list()
    bsr_set_zero(A, topology="masked")
    assert A.columns.list() == columns
    assert not dense(A).any()


@pytest.mark.parametrize("dtype, unit", [(wp.float64, [[1.0]]), (wp.mat33, np.eye(3))])
def test_identity(dtype, unit):
    np.testing.assert_array_equal(dense(bsr_identity(4, dtype)), np.kron(np.eye(4), unit))
    A = random(2, (4, 4), 9, np.shape(unit), getattr(dtype, "_wp_scalar_type_", dtype))
    bsr_set_identity(A, 2)
    np.testing.assert_array_equal(dense(A), np.kron(np.eye(2), unit))


def test_diagonals():
    blocks = np.arange(12.0).reshape(3, 2, 2)
    A = bsr_diag(wp.array(blocks, dtype=wp.mat22d))
    np.testing.assert_array_equal(bsr_get_diag(A).numpy(), blocks)
    np.testing.assert_array_equal(bsr_get_diag(2.0 * A).numpy(), 2 * blocks)
    np.testing.assert_array_equal(dense(bsr_diag(wp.mat22d(*range(4)), 1, 2)), [[0, 1, 0, 0], [2, 3, 0, 0]])
    assert bsr_diag(rows_of_blocks=3, block_type=wp.mat22).values.shape == (3,)
    bsr_set_diag(A, wp.mat22d(1.0))
    np.testing.assert_array_equal(dense(A), np.kron(np.eye(3), np.ones((2, 2))))

    B = random(3, (5, 7), 40)
    out = wp.full(5, 9.0, dtype=wp.float64)
    assert bsr_get_diag(B, out) is out
    np.testing.assert_array_equal(out.numpy(), np.diag(dense(B)))


@wp.kernel
def look_up(A: bsr_matrix_t(wp.float64), rows: wp.array(dtype=int), found: wp.array2d(dtype=int)):
    i, j = wp.tid()
    found[i, j] = bsr_block_index(i, j, A.offsets, A.columns, A.row_counts)
    if i == 0 and j == 0:
        for k in range(rows.shape[0]):
            rows[k] = bsr_row_index(A.offsets, A.nrow, k, A.row_counts)


@pytest.mark.parametrize("capacity", [None, 4])
def test_kernels_take_matrices(capacity):
    A = random(4, (6, 5), 12)
    if capacity is not None:
        padded = bsr_zeros(6, 5, wp.float64, row_capacity=capacity)
        from warp_like.sparse import bsr_assign

        bsr_assign(padded, A, topology="padded")
        A = padded
    n = A.nnz_sync()
    rows, found = wp.zeros(n + 2, dtype=int), wp.zeros((6, 5), dtype=int)
    wp.launch(look_up, dim=(6, 5), inputs=[A], outputs=[rows, found])
    full = dense(A)
    np.testing.assert_array_equal(found.numpy() >= 0, full != 0)
    for i, j in zip(*np.nonzero(full), strict=True):
        assert A.values.numpy()[found.numpy()[i, j]] == full[i, j]
        assert rows.numpy()[found.numpy()[i, j]] == i
    assert (np.delete(rows.numpy(), found.numpy()[full != 0]) == -1).all()


def test_refused_arguments():
    for wrong in (wp.vec3, str, wp.quat):
        with pytest.raises(ValueError, match="BsrMatrix block type must be either warp matrix or scalar"):
            bsr_zeros(1, 1, wrong)
    with pytest.raises(ValueError, match="rows_of_blocks is not negative, got -1"):
        bsr_zeros(-1, 1, float)
    with pytest.raises(ValueError, match=r"row_capacity is an array of shape \(3,\), got \(2,\)"):
        bsr_zeros(3, 1, float, row_capacity=wp.zeros(2, dtype=int))
    with pytest.raises(TypeError, match="row_capacity is an array of int32, got float32"):
        bsr_zeros(3, 1, float, row_capacity=wp.zeros(3))
    with pytest.raises(ValueError, match="row_capacity goes with topology='padded'"):
        bsr_zeros(3, 1, float, topology="compact", row_capacity=2)
    with pytest.raises(ValueError, match="an identity matrix has square blocks, got blocks of 1 x 2"):
        bsr_identity(2, wp.types.matrix(shape=(1, 2), dtype=float))
    with pytest.raises(ValueError, match="needs rows_of_blocks or cols_of_blocks"):
        bsr_diag(block_type=float)
    with pytest.raises(ValueError, match="at least 4 blocks, got shape"):
        bsr_diag(wp.zeros(3), rows_of_blocks=4)
    with pytest.raises(ValueError, match="`out` holds blocks of float32"):
        bsr_get_diag(bsr_identity(2, float), wp.zeros(2, dtype=wp.float64))


def test_results_are_not_read_during_a_capture():
    A = bsr_zeros(2, 2, float, row_capacity=1)
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match=r"nnz_sync\(\) can't be captured"):
        A.nnz_sync()
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match=r"status_sync\(\) can't be captured"):
        A.status_sync()
