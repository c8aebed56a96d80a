"""Sparse matrices of SciPy, PyTorch and JAX as views of the same memory, and back; one call each.

Rows are sorted and have no column twice, as this module leaves them and asks for them. Index arrays of another width
than 32 bits can't be shared, so they are copied; values never are.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.sparse.assignment import bsr_copy
from warp_like.sparse.matrix import BsrMatrix, bsr_matrix_t, composed


def _matrix(size: tuple[int, int], offsets: Any, columns: Any, values: Any) -> BsrMatrix:
    """A matrix of arrays; ``values`` has one dimension, or three for blocks."""
    shape = tuple(values.shape[1:])
    scalar = values.dtype
    dtype = scalar if not shape else wp.types.matrix(shape=shape, dtype=scalar)
    made: BsrMatrix = bsr_matrix_t(dtype)()
    rows, across = shape or (1, 1)
    made.nrow, made.ncol, made.nnz = size[0] // rows, size[1] // across, int(columns.size)
    made.offsets, made.columns = offsets, columns
    made.values = composed(values, values.shape[0], dtype) if shape else values
    return made


def _compact(A: Any, name: str) -> BsrMatrix:
    """A matrix whose arrays have no gaps; a copy of one that has.

    Raises:
        TypeError: It is no matrix.
    """
    if not isinstance(A, BsrMatrix):
        raise TypeError(f"{name}() takes a BsrMatrix, got {type(A).__name__}; call eval() on a multiple of one")
    A = A if A.row_counts is None else bsr_copy(A)
    A.nnz_sync()
    return A


def _parts(A: BsrMatrix) -> tuple[Any, Any, Any]:
    """Offsets, columns and values as arrays of exactly the size that other libraries ask for."""
    values = A.values[: A.nnz]
    if A.dtype is not A.scalar_type:
        values = A.scalar_values[: A.nnz]
    return A.offsets[: A.nrow + 1], A.columns[: A.nnz], values


def bsr_from_scipy(A: Any) -> BsrMatrix:
    """Return a CSR or BSR matrix of SciPy as a ``BsrMatrix`` over the same memory.

    Args:
        A: A matrix or array of ``scipy.sparse`` in CSR or BSR format, with sorted rows that have no column twice.

    Raises:
        TypeError: It has another format.
        ValueError: A row is not sorted or has a column twice; ``A.sum_duplicates()`` mends this.

    Example:
        >>> import scipy.sparse
        >>> from warp_like.sparse import bsr_from_scipy
        >>> A = scipy.sparse.csr_array([[1.0, 0.0], [2.0, 3.0]])
        >>> B = bsr_from_scipy(A)
        >>> A.data[0] = 5.0
        >>> B.values.list()
        [5.0, 2.0, 3.0]
    """
    if getattr(A, "format", None) not in ("csr", "bsr"):
        raise TypeError(f"bsr_from_scipy() takes a SciPy matrix in CSR or BSR format, got {A!r}; call tocsr()")
    if not A.has_canonical_format:
        raise ValueError("bsr_from_scipy() takes rows that are sorted and have no column twice; call sum_duplicates()")
    offsets, columns = (np.ascontiguousarray(a, np.int32) for a in (A.indptr, A.indices))
    return _matrix(A.shape, *(wp.array(a, copy=False) for a in (offsets, columns, A.data)))


def bsr_to_scipy(A: BsrMatrix) -> Any:
    """Return a matrix on the CPU as a ``csr_array`` of SciPy, or a ``bsr_array`` for blocks, over the same memory.

    A padded matrix is copied first.

    Raises:
        TypeError: It is no ``BsrMatrix``.
        ModuleNotFoundError: SciPy is not installed.
    """
    sparse = importlib.import_module("scipy.sparse")
    A = _compact(A, "bsr_to_scipy")
    offsets, columns, values = (a.numpy() for a in _parts(A))
    if values.ndim == 3:
        return sparse.bsr_array((values, columns, offsets), shape=A.shape, blocksize=A.block_shape)
    return sparse.csr_array((values, columns, offsets), shape=A.shape)


def bsr_from_torch(A: Any) -> BsrMatrix:
    """Return a sparse CSR or BSR tensor of PyTorch as a ``BsrMatrix`` over the same memory.

    Args:
        A: A tensor of layout ``torch.sparse_csr`` or ``torch.sparse_bsr`` with two dimensions, whose rows are sorted.

    Raises:
        TypeError: It has another layout, or more dimensions.
    """
    torch = importlib.import_module("torch")
    if getattr(A, "layout", None) not in (torch.sparse_csr, torch.sparse_bsr) or A.ndim != 2:
        raise TypeError(f"bsr_from_torch() takes a sparse CSR or BSR tensor of two dimensions, got {type(A).__name__}")
    tensors = A.crow_indices().to(torch.int32), A.col_indices().to(torch.int32), A.values().detach()
    return _matrix(tuple(A.shape), *(wp.from_torch(a) for a in tensors))


def bsr_to_torch(A: BsrMatrix) -> Any:
    """Return a matrix as a sparse CSR tensor of PyTorch, or a BSR tensor for blocks, over the same memory.

    A padded matrix is copied first.

    Raises:
        TypeError: It is no ``BsrMatrix``.
        ModuleNotFoundError: PyTorch is not installed.
    """
    torch = importlib.import_module("torch")
    A = _compact(A, "bsr_to_torch")
    offsets, columns, values = (wp.to_torch(a, requires_grad=False) for a in _parts(A))
    make = torch.sparse_bsr_tensor if values.ndim == 3 else torch.sparse_csr_tensor
    return make(offsets, columns, values, size=A.shape, check_invariants=False)


def bsr_from_jax(A: Any) -> BsrMatrix:
    """Return a ``BCSR`` matrix of JAX as a ``BsrMatrix`` over the same memory, which must not be written to.

    Args:
        A: A ``jax.experimental.sparse.BCSR`` without batches, whose rows are sorted and have no column twice.

    Raises:
        TypeError: It is no such matrix, or has batches or dense dimensions.
    """
    if type(A).__name__ != "BCSR" or A.n_batch or A.n_dense:
        raise TypeError(f"bsr_from_jax() takes a BCSR matrix without batches, got {type(A).__name__}")
    return _matrix(tuple(A.shape), *(wp.from_jax(a) for a in (A.indptr, A.indices, A.data)))


def bsr_to_jax(A: BsrMatrix) -> Any:
    """Return a matrix as a ``jax.experimental.sparse.BCSR`` over the same memory, which must not change any more.

    A padded matrix, and one with blocks, is copied first: BCSR has numbers.

    Raises:
        TypeError: It is no ``BsrMatrix``.
        ModuleNotFoundError: JAX is not installed.
    """
    sparse = importlib.import_module("jax.experimental.sparse")
    if isinstance(A, BsrMatrix) and A.dtype is not A.scalar_type:
        A = bsr_copy(A, block_shape=(1, 1))
    A = _compact(A, "bsr_to_jax")
    offsets, columns, values = (wp.to_jax(a) for a in _parts(A))
    return sparse.BCSR((values, columns, offsets), shape=A.shape, indices_sorted=True, unique_indices=True)
