"""Sparse matrices made of entries, compared with sums in NumPy."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from tests.sparse.matrices import block, dense, entries, summed
from warp_like.sparse import (
    BSR_STATUS_ROW_CAPACITY_EXCEEDED,
    BSR_STATUS_SUCCESS,
    BsrTripletMap,
    bsr_from_triplets,
    bsr_set_from_mapped_values,
    bsr_set_from_triplets,
    bsr_zeros,
)

SHAPES = [(1, 1), (3, 2)]


def arrays(rows, columns, blocks, dtype=wp.float64):
    return wp.array(rows), wp.array(columns), wp.array(blocks, dtype=dtype, shape=blocks.shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size, n", [((7, 5), 0), ((7, 5), 1), ((9, 4), 60), ((2, 300), 900), ((400, 300), 3000)])
def test_entries_are_summed(shape, size, n):
    rows, columns, blocks = entries(n, size, n, shape)
    A = bsr_zeros(*size, block(shape, wp.float64))
    bsr_set_from_triplets(A, *arrays(rows, columns, blocks))
    np.testing.assert_allclose(dense(A), summed(size, rows, columns, blocks), atol=1e-14)
    assert A.nnz == n
    assert A.nnz_sync() == len({*zip(rows, columns, strict=True)})
    np.testing.assert_array_equal(A.uncompress_rows().numpy(), np.repeat(range(size[0]), np.diff(A.offsets.numpy())))


@pytest.mark.parametrize("shape", crossed([(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)], every=2))
def test_blocks_of_all_shapes(shape):
    size = (5, 6)
    rows, columns, blocks = entries(3, size, 20, shape)
    A = bsr_from_triplets(*size, *arrays(rows, columns, blocks, wp.float32))
    reference = summed(size, rows, columns, blocks)
    np.testing.assert_allclose(dense(A), reference, atol=1e-6)
    x = np.arange(A.shape[1], dtype=np.float32)
    np.testing.assert_allclose((A @ wp.array(x)).numpy().ravel(), reference @ x, atol=1e-4)


def test_a_long_row_is_sorted_and_summed_in_order():
    rng = np.random.default_rng(1)
    columns = rng.integers(0, 300, 5000).astype(np.int32)
    values = rng.uniform(-1, 1, 5000).astype(np.float32)
    A = bsr_from_triplets(1, 300, wp.zeros(5000, dtype=int), wp.array(columns), wp.array(values))
    expected = np.zeros(300, np.float32)
    for column, value in zip(columns, values, strict=True):  # one by one: the order decides the last bits
        expected[column] += value
    np.testing.assert_array_equal(A.values.numpy()[: A.nnz_sync()], expected[np.unique(columns)])


def test_entries_outside_and_behind_the_count_are_left_out():
    rows = wp.array([0, -1, 1, 2, 1, 0], dtype=int)
    columns = wp.array([1, 0, -3, 1, 2, 0], dtype=int)
    values = wp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=float)
    A = bsr_zeros(2, 2, float)
    bsr_set_from_triplets(A, rows, columns, values, count=wp.array([5], dtype=int))
    np.testing.assert_array_equal(dense(A), [[0.0, 1.0], [0.0, 0.0]])
    for size in ((0, 3), (3, 0), (0, 0)):
        B = bsr_zeros(*size, float)
        bsr_set_from_triplets(B, rows, columns, values)
        assert B.nnz_sync() == 0
        assert B.offsets.list() == [0] * (size[0] + 1)


def test_zero_blocks_are_pruned():
    rows, columns = wp.array([0, 1, 1], dtype=int), wp.array([0, 0, 1], dtype=int)
    values = wp.array([[[0.0, -0.0]], [[0.0, np.nan]], [[0.0, 1.0]]], dtype=float)
    pruned = bsr_from_triplets(2, 2, rows, columns, values)
    assert pruned.nnz_sync() == 2
    assert pruned.columns.list()[:2] == [0, 1]
    assert bsr_from_triplets(2, 2, rows, columns, values, prune_numerical_zeros=False).nnz_sync() == 3


def test_topology_without_values():
    A = bsr_zeros(2, 3, wp.mat22)
    bsr_set_from_triplets(A, wp.array([1, 0, 1], dtype=int), wp.array([2, 1, 2], dtype=int))
    assert A.nnz_sync() == 2
    assert A.offsets.list() == [0, 1, 2]
    assert A.columns.list()[:2] == [1, 2]
    assert A.values.size >= 2


@pytest.mark.parametrize("shape", SHAPES)
def test_masked_and_padded(shape):
    size = (6, 5)
    rows, columns, blocks = entries(5, size, 30, shape)
    reference = summed(size, rows, columns, blocks)
    A = bsr_zeros(*size, block(shape, wp.float64), row_capacity=5)
    bsr_set_from_triplets(A, *arrays(rows, columns, blocks), topology="padded")
    assert A.status_sync() == BSR_STATUS_SUCCESS
    assert A.offsets.list() == list(range(0, 31, 5))
    np.testing.assert_allclose(dense(A), reference, atol=1e-14)

    bsr_set_from_triplets(A, *arrays(rows[:3], columns[:3], blocks[:3]), topology="padded")
    half = summed(size, rows[:3], columns[:3], blocks[:3])
    np.testing.assert_allclose(dense(A), half, atol=1e-14)
    bsr_set_from_triplets(A, *arrays(rows, columns, blocks), topology="masked")
    np.testing.assert_allclose(dense(A), np.where(half != 0, reference, 0), atol=1e-14)

    small = bsr_zeros(*size, block(shape, wp.float64), row_capacity=1)
    bsr_set_from_triplets(small, *arrays(rows, columns, blocks), topology="padded")
    assert small.status_sync() == BSR_STATUS_ROW_CAPACITY_EXCEEDED
    assert small.status_message() == "row capacity exceeded"
    small.clear_status()
    assert small.status_message() == "success"


@pytest.mark.parametrize("reduction", ["gather", "atomic"])
def test_mapped_values(reduction):
    size = (6, 5)
    rows, columns, blocks = entries(7, size, 30, (2, 2))
    rows[3], columns[8] = -1, 5
    inside = (rows >= 0) & (columns < 5)
    A = bsr_zeros(*size, wp.mat22d)
    given = BsrTripletMap(capacity=40)
    mapping = bsr_set_from_triplets(A, *arrays(rows, columns, blocks), prune_numerical_zeros=False, build_mapping=given)
    assert mapping is given
    assert (mapping.triplet_count, mapping.capacity) == (30, 40)
    bsr_set_from_mapped_values(A, mapping, wp.array(2.0 * blocks), reduction)
    np.testing.assert_allclose(dense(A), 2.0 * summed(size, rows[inside], columns[inside], blocks[inside]), atol=1e-14)
    with pytest.raises(ValueError, match="the map is for 30 entries, got 4 values"):
        bsr_set_from_mapped_values(A, mapping, wp.array(blocks[:4]), reduction)
    with pytest.raises(ValueError, match="built for other blocks"):
        bsr_set_from_mapped_values(bsr_zeros(*size, wp.mat22d), mapping, wp.array(blocks), reduction)


def test_refused_arguments():
    A = bsr_zeros(2, 2, float)
    rows, values = wp.zeros(3, dtype=int), wp.ones(3)
    with pytest.raises(TypeError, match="Rows and columns arrays must be of type int32"):
        bsr_set_from_triplets(A, wp.zeros(3), rows, values)
    with pytest.raises(ValueError, match="got 3 rows, 2 columns and 3 values"):
        bsr_set_from_triplets(A, rows, rows[:2], values)
    with pytest.raises(ValueError, match="values are blocks of float32"):
        bsr_set_from_triplets(A, rows, rows, wp.zeros(3, dtype=wp.float64))
    with pytest.raises(ValueError, match=r"values have the shape \(n, 2, 2\), got \(3, 2, 1\)"):
        bsr_set_from_triplets(bsr_zeros(2, 2, wp.mat22), rows, rows, wp.zeros((3, 2, 1)))
    with pytest.raises(ValueError, match="topology is one of 'compact', 'masked', 'padded', got 'dense'"):
        bsr_set_from_triplets(A, rows, rows, values, topology="dense")
    with pytest.raises(ValueError, match="needs a matrix with row capacity"):
        bsr_set_from_triplets(A, rows, rows, values, topology="padded")
    with pytest.raises(ValueError, match="requires prune_numerical_zeros=False"):
        bsr_set_from_triplets(A, rows, rows, values, build_mapping=True)
    with pytest.raises(TypeError, match="build_mapping is a BsrTripletMap or a bool, got str"):
        bsr_set_from_triplets(A, rows, rows, values, build_mapping="yes")
