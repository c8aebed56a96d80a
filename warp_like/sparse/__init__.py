"""Sparse matrices of blocks: ``import warp_like.sparse``, as ``warp.sparse``.

It is written in kernels and whole-array operations of the public API. All functions run on the device of the matrix.
"""

from __future__ import annotations

import importlib

from warp_like.sparse import matrix as _matrix
from warp_like.sparse.assignment import bsr_assign, bsr_compress, bsr_copy
from warp_like.sparse.creation import (
    bsr_diag,
    bsr_get_diag,
    bsr_identity,
    bsr_set_diag,
    bsr_set_identity,
    bsr_set_zero,
    bsr_zeros,
)
from warp_like.sparse.exchange import (
    bsr_from_jax,
    bsr_from_scipy,
    bsr_from_torch,
    bsr_to_jax,
    bsr_to_scipy,
    bsr_to_torch,
)
from warp_like.sparse.lookup import bsr_block_index, bsr_row_index
from warp_like.sparse.matrix import (
    BSR_STATUS_ROW_CAPACITY_EXCEEDED,
    BSR_STATUS_SUCCESS,
    BsrMatrix,
    bsr_matrix_t,
)
from warp_like.sparse.multiply import bsr_mv
from warp_like.sparse.products import bsr_mm, bsr_mm_work_arrays
from warp_like.sparse.sums import bsr_axpy, bsr_axpy_work_arrays, bsr_scale
from warp_like.sparse.sums import bsr_sum as bsr_sum  # for operators
from warp_like.sparse.transposition import bsr_set_transpose, bsr_transposed
from warp_like.sparse.triplets import (
    BsrTripletMap,
    bsr_from_triplets,
    bsr_set_from_mapped_values,
    bsr_set_from_triplets,
)

__all__ = [
    "BSR_STATUS_ROW_CAPACITY_EXCEEDED",
    "BSR_STATUS_SUCCESS",
    "BsrMatrix",
    "BsrTripletMap",
    "bsr_assign",
    "bsr_axpy",
    "bsr_axpy_work_arrays",
    "bsr_block_index",
    "bsr_compress",
    "bsr_copy",
    "bsr_diag",
    "bsr_from_jax",
    "bsr_from_scipy",
    "bsr_from_torch",
    "bsr_from_triplets",
    "bsr_get_diag",
    "bsr_identity",
    "bsr_matrix_t",
    "bsr_mm",
    "bsr_mm_work_arrays",
    "bsr_mv",
    "bsr_row_index",
    "bsr_scale",
    "bsr_set_diag",
    "bsr_set_from_mapped_values",
    "bsr_set_from_triplets",
    "bsr_set_identity",
    "bsr_set_transpose",
    "bsr_set_zero",
    "bsr_to_jax",
    "bsr_to_scipy",
    "bsr_to_torch",
    "bsr_transposed",
    "bsr_zeros",
]


def _operations() -> _matrix.Operations:
    return importlib.import_module(__name__)


_matrix.operations.register(_operations)
