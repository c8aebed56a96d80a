"""Copies of sparse matrices, also with blocks of other shapes, and rows put in order."""

import numpy as np
import pytest

import warp_like as wp
from tests.sparse.matrices import dense, random
from warp_like.sparse import (
    BSR_STATUS_ROW_CAPACITY_EXCEEDED,
    bsr_assign,
    bsr_compress,
    bsr_copy,
    bsr_diag,
    bsr_zeros,
)

SHAPES = [(1, 1), (3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_copies(shape):
    A = random(1, (6, 5), 14, shape)
    copied = bsr_copy(-2.0 * A)
    np.testing.assert_array_equal(dense(copied), -2.0 * dense(A))
    copied.values.zero_()
    assert dense(A).any()
    single = bsr_copy(A, scalar_type=wp.float32)
    assert single.scalar_type is wp.float32
    np.testing.assert_allclose(dense(single), dense(A), atol=1e-7)
    places = bsr_copy(A, structure_only=True)
    assert places.offsets.list() == A.offsets.list()
    assert places.values.size >= places.nnz_sync()


def test_padded_copies():
    A = random(2, (6, 5), 14, (3, 2))
    padded = bsr_zeros(6, 5, A.dtype, row_capacity=5)
    bsr_assign(padded, 3.0 * A, topology="padded")
    np.testing.assert_array_equal(dense(padded), 3.0 * dense(A))
    again = bsr_copy(padded, topology="padded")
    assert again.offsets.list() == padded.offsets.list()
    assert again.row_counts.list() == padded.row_counts.list()
    np.testing.assert_array_equal(dense(bsr_copy(again)), dense(padded))
    for shape in ((1, 1), (9, 1), (6, 10)):
        np.testing.assert_array_equal(dense(bsr_copy(padded, block_shape=shape, topology="padded")), dense(padded))
    small = bsr_zeros(6, 5, A.dtype, row_capacity=1)
    bsr_assign(small, A, topology="padded")
    assert small.status_sync() == BSR_STATUS_ROW_CAPACITY_EXCEEDED


@pytest.mark.parametrize("shape", [(2, 2), (1, 1), (4, 4), (8, 8), (4, 1), (1, 16)])
def test_blocks_of_another_shape(shape):
    A = random(3, (4, 8), 20, (4, 2))
    changed = bsr_copy(A, block_shape=shape)
    assert changed.block_shape == shape
    np.testing.assert_array_equal(dense(changed), dense(A))


def test_shapes_that_do_not_divide():
    A = random(3, (4, 8), 20, (4, 2))
    with pytest.raises(ValueError, match=r"Incompatible dest and src block shapes \(3, 3\) and \(4, 2\)"):
        bsr_copy(A, block_shape=(3, 3))
    with pytest.raises(ValueError, match=r"\(32, 32\) does not evenly divide the source matrix of total size"):
        bsr_copy(A, block_shape=(32, 32))


def test_masked_assignment_takes_the_blocks_that_are_there():
    A = random(4, (8, 8), 40)
    diagonal = bsr_diag(rows_of_blocks=4, block_type=wp.mat22d)
    bsr_assign(diagonal, A, topology="masked")
    mask = np.kron(np.eye(4), np.ones((2, 2)))
    np.testing.assert_array_equal(dense(diagonal), dense(A) * mask)


def unordered(topology):
    """Rows with unsorted columns, several blocks of one column, zeros, and columns outside of the matrix."""
    A = bsr_zeros(3, 4, float, row_capacity=6 if topology == "padded" else None)
    columns = np.array([2, 0, 2, -1, 9, 3, 1, 1, 0, 3, 3, 3], np.int32)
    values = np.arange(1.0, 13.0)
    values[8] = 0
    ends = np.array([6, 10, 12])
    if topology == "padded":
        placed, numbers = np.full(18, 7, np.int32), np.full(18, np.nan)
        for row, (begin, end) in enumerate([(0, 6), (6, 10), (10, 12)]):
            placed[6 * row : 6 * row + end - begin] = columns[begin:end]
            numbers[6 * row : 6 * row + end - begin] = values[begin:end]
        A.columns, A.values = wp.array(placed), wp.array(numbers, dtype=float)
        A.row_counts = wp.array([6, 4, 2], dtype=int)
    else:
        A.offsets, A.nnz = wp.array([0, *ends], dtype=int), 12
        A.columns, A.values = wp.array(columns), wp.array(values, dtype=float)
    expected = np.array([[2.0, 0, 4, 6], [0, 15, 0, 10], [0, 0, 0, 23]])
    return A, expected


@pytest.mark.parametrize("topology", ["compact", "padded"])
@pytest.mark.parametrize("inplace", [False, True])
def test_compress(topology, inplace):
    A, expected = unordered(topology)
    assert bsr_compress(A, inplace=inplace, topology=topology) is A
    np.testing.assert_array_equal(dense(A), expected)
    counts = A.row_counts.list() if topology == "padded" else np.diff(A.offsets.numpy()).tolist()
    assert counts == [3, 2, 1]
    kept, _ = unordered(topology)
    bsr_compress(kept, prune_numerical_zeros=False, topology=topology)
    np.testing.assert_array_equal(dense(kept), expected)
    values = kept.values
    bsr_compress(kept, structure_only=True, topology=topology)
    assert kept.values.ptr == values.ptr
