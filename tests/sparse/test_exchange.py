"""Sparse matrices of SciPy, PyTorch and JAX as views, and back."""

import numpy as np
import pytest
import scipy.sparse

import warp_like as wp
from tests.sparse.matrices import dense, random
from warp_like.sparse import (
    bsr_assign,
    bsr_from_jax,
    bsr_from_scipy,
    bsr_from_torch,
    bsr_to_jax,
    bsr_to_scipy,
    bsr_to_torch,
    bsr_zeros,
)

SHAPES = [(1, 1), (3, 2)]


def matrix(shape):
    A = random(1, (6, 5), 14, shape)
    A.nnz_sync()
    return A


@pytest.mark.parametrize("shape", SHAPES)
def test_scipy(shape):
    A = matrix(shape)
    there = bsr_to_scipy(A)
    assert there.format == ("csr" if shape == (1, 1) else "bsr")
    np.testing.assert_array_equal(there.toarray(), dense(A))
    assert there.data.ctypes.data == A.values.ptr
    assert there.indices.ctypes.data == A.columns.ptr
    back = bsr_from_scipy(there)
    assert (back.values.ptr, back.block_shape) == (A.values.ptr, shape)
    there.data *= 2.0
    np.testing.assert_array_equal(dense(back), there.toarray())
    np.testing.assert_allclose(dense(back @ back.T), (there @ there.T).toarray())


def test_scipy_with_rows_out_of_order():
    A = scipy.sparse.csr_array((np.ones(3), [2, 0, 0], [0, 2, 3]), shape=(2, 3))
    with pytest.raises(ValueError, match="call sum_duplicates"):
        bsr_from_scipy(A)
    A.sum_duplicates()
    np.testing.assert_array_equal(dense(bsr_from_scipy(A)), A.toarray())
    with pytest.raises(TypeError, match="takes a SciPy matrix in CSR or BSR format"):
        bsr_from_scipy(A.tocoo())
    with pytest.raises(TypeError, match=r"takes a BsrMatrix, got BsrScaling; call eval\(\)"):
        bsr_to_scipy(2.0 * matrix((1, 1)))


def test_a_padded_matrix_is_copied():
    A = matrix((3, 2))
    padded = bsr_zeros(6, 5, A.dtype, row_capacity=5)
    bsr_assign(padded, A, topology="padded")
    np.testing.assert_array_equal(bsr_to_scipy(padded).toarray(), dense(A))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_torch(shape, index):
    torch = pytest.importorskip("torch")
    A = matrix(shape)
    there = bsr_to_torch(A)
    assert there.layout == (torch.sparse_csr if shape == (1, 1) else torch.sparse_bsr)
    np.testing.assert_array_equal(there.to_dense().numpy(), dense(A))
    assert there.values().data_ptr() == A.values.ptr
    make = torch.sparse_csr_tensor if shape == (1, 1) else torch.sparse_bsr_tensor
    dtype = getattr(torch, index)
    there = make(there.crow_indices().to(dtype), there.col_indices().to(dtype), there.values(), size=A.shape)
    back = bsr_from_torch(there)
    assert (back.values.ptr, back.block_shape) == (there.values().data_ptr(), shape)
    there.values().mul_(2.0)
    np.testing.assert_array_equal(dense(back), there.to_dense().numpy())
    with pytest.raises(TypeError, match="takes a sparse CSR or BSR tensor of two dimensions, got Tensor"):
        bsr_from_torch(torch.zeros(2, 2))


@pytest.mark.parametrize("shape", SHAPES)
def test_jax(shape):
    jax = pytest.importorskip("jax")
    A = random(2, (6, 5), 14, shape, wp.float32)
    there = bsr_to_jax(A)
    np.testing.assert_array_equal(there.todense(), dense(A).astype(np.float32))
    back = bsr_from_jax(there)
    assert back.values.ptr == there.data.unsafe_buffer_pointer()
    np.testing.assert_array_equal(dense(back), dense(A))
    x = np.ones(A.shape[1], np.float32)
    np.testing.assert_allclose((A @ wp.array(x)).numpy().ravel(), there @ jax.numpy.asarray(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="takes a BCSR matrix without batches, got int"):
        bsr_from_jax(3)
