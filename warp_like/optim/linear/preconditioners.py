"""Preconditioners: approximate inverses that are cheap to multiply with."""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.cholesky import incomplete_cholesky
from warp_like.optim.linear.fsai import FSAI
from warp_like.optim.linear.operators import LinearOperator, aslinearoperator, numbers
from warp_like.runtime.memory.recorder import paused
from warp_like.sparse import BsrMatrix, bsr_get_diag

_TOO_SMALL = {wp.float16: 1e-3, wp.float32: 1e-6, wp.float64: 1e-12}
"""A block is singular if a pivot is smaller than this, beside the block's largest number."""

_BLOCKS = ("block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile")


@wp.func
def _inverse_number(x: Any, absolute: bool) -> Any:
    result = x.dtype(1)
    if x != x.dtype(0):
        result = x.dtype(1) / x
        if absolute:
            result = wp.abs(result)
    return result


@wp.kernel(enable_backward=False)
def _invert_diagonal(blocks: wp.array3d[Any], absolute: bool, inverse: wp.array2d[Any]) -> None:
    block, i = wp.tid()
    inverse[block, i] = _inverse_number(blocks[block, i, i], absolute)


@wp.kernel(enable_backward=False)
def _invert_dense_diagonal(A: wp.array2d[Any], absolute: bool, inverse: wp.array[Any]) -> None:
    i = wp.tid()
    inverse[i] = _inverse_number(A[i, i], absolute)


@wp.func
def _is_definite(block: wp.array2d[Any], work: wp.array2d[wp.float64], least: wp.float64) -> bool:
    """Whether a block is symmetric and positive definite: its factorisation L D L^T has positive pivots."""
    n = block.shape[0]
    for i in range(n):
        for j in range(i):
            a = wp.float64(block[i, j])
            if not (wp.abs(a - wp.float64(block[j, i])) <= least):
                return False
    for i in range(n):
        for j in range(i + 1):
            total = wp.float64(block[i, j])
            for k in range(j):
                total -= work[i, k] * work[j, k] * work[k, k]
            if i == j:
                if not (total > least):
                    return False
                work[i, i] = total
            else:
                work[i, j] = total / work[j, j]
    return True


@wp.func
def _invert(work: wp.array2d[wp.float64], inverse: wp.array2d[wp.float64], least: wp.float64) -> bool:
    """Gauss-Jordan elimination with pivots from the whole column; false where one is too small."""
    n = work.shape[0]
    for k in range(n):
        best = int(k)
        for i in range(k + 1, n):
            if wp.abs(work[i, k]) > wp.abs(work[best, k]):
                best = i
        if not (wp.abs(work[best, k]) > least):
            return False
        scale = wp.float64(1.0) / work[best, k]
        for j in range(n):
            a = work[best, j] * scale
            b = inverse[best, j] * scale
            work[best, j] = work[k, j]
            inverse[best, j] = inverse[k, j]
            work[k, j] = a
            inverse[k, j] = b
        for i in range(n):
            if i != k:
                factor = work[i, k]
                for j in range(n):
                    work[i, j] = work[i, j] - factor * work[k, j]
                    inverse[i, j] = inverse[i, j] - factor * inverse[k, j]
    return True


@wp.kernel(enable_backward=False, vector_width=1)
def _invert_blocks(
    blocks: wp.array3d[Any],
    definite: bool,
    tolerance: wp.float64,
    work: wp.array3d[wp.float64],
    exact: wp.array3d[wp.float64],
    inverse: wp.array3d[Any],
) -> None:
    block = wp.tid()
    n = blocks.shape[1]
    largest = wp.float64(0.0)
    for i in range(n):
        for j in range(n):
            largest = wp.max(largest, wp.abs(wp.float64(blocks[block, i, j])))
    least = tolerance * largest
    good = True
    if definite:
        good = _is_definite(blocks[block], work[block], least)
    if good:
        for i in range(n):
            for j in range(n):
                work[block, i, j] = wp.float64(blocks[block, i, j])
                exact[block, i, j] = wp.where(i == j, wp.float64(1.0), wp.float64(0.0))
        good = _invert(work[block], exact[block], least)
    for i in range(n):
        for j in range(n):
            found = wp.where(i == j, wp.float64(1.0), wp.float64(0.0))
            if good:
                found = exact[block, i, j]
            inverse[block, i, j] = inverse.dtype(found)


@wp.kernel(enable_backward=False)
def _multiply_blocks(
    alpha: Any, blocks: wp.array3d[Any], x: wp.array2d[Any], beta: Any, y: wp.array2d[Any], z: wp.array2d[Any]
) -> None:
    block, i = wp.tid()
    total = z.dtype(0)
    for j in range(blocks.shape[2]):
        total += blocks[block, i, j] * x[block, j]
    total = alpha * total
    if beta != beta.dtype(0):
        total += beta * y[block, i]
    z[block, i] = total


def preconditioner(A: Any, ptype: str = "diag") -> LinearOperator | None:
    """Return an approximate inverse of a matrix, for the argument ``M`` of solvers.

    Args:
        A: A ``BsrMatrix``, or an array of two dimensions.
        ptype: Which one:

            * ``"diag"``: the inverse of the diagonal (Jacobi); where that is zero, 1.
            * ``"diag_abs"``: the absolute value of this.
            * ``"block_jacobi_direct"``: the inverses of the blocks on the diagonal.
            * ``"block_jacobi_sequential"`` and ``"block_jacobi_tile"``: the same for blocks that are symmetric and
              positive definite. All three take the identity in place of blocks that are not, or are singular, and mean
              ``"diag"`` where blocks are numbers.
            * ``"fsai"``: ``FSAI(A)``, a sparse approximate inverse for symmetric positive definite matrices.
            * ``"ic"``: an incomplete Cholesky factorisation without fill, for symmetric positive definite matrices,
              whose blocks count as numbers. Solvers take the fewest iterations with it, but each row waits for others,
              so few threads work at a time. Making it waits for the device.
            * ``"id"``: None, which means no preconditioner.

    Raises:
        ValueError: There is no such type, or it does not go with the matrix. For ``"ic"``, the diagonal is not positive
            and finite.

    Example:
        >>> from warp_like.optim.linear import cg, preconditioner
        >>> A, b, x = wp.array([[2.0, 0.0], [0.0, 8.0]]), wp.array([2.0, 8.0]), wp.zeros(2, dtype=wp.float64)
        >>> iterations, residual, tolerance = cg(A, b, x, M=preconditioner(A), check_every=1)
        >>> iterations, x.list()
        (1, [1.0, 1.0])
    """
    if ptype == "id":
        return None
    with paused():  # a solution does not depend on it
        if ptype in ("diag", "diag_abs"):
            return _jacobi(A, ptype == "diag_abs")
        if ptype in _BLOCKS:
            return _block_jacobi(A, ptype)
        if ptype == "fsai":
            return FSAI(A)
        if ptype == "ic":
            _require_square_blocks(A, ptype)
            return incomplete_cholesky(A, _TOO_SMALL.get(A.scalar_type, 1e-6))
    raise ValueError(
        f"ptype is one of 'diag', 'diag_abs', {', '.join(map(repr, _BLOCKS))}, 'fsai', 'ic', 'id', got {ptype!r}"
    )


def _jacobi(A: Any, absolute: bool) -> LinearOperator:
    if isinstance(A, BsrMatrix):
        blocks = _diagonal_blocks(A)
        inverse = wp.empty(blocks.shape[:2], dtype=A.scalar_type, device=A.device)
        arguments = [blocks, absolute, inverse]
        wp.launch(_invert_diagonal, dim=inverse.shape, inputs=arguments, device=A.device)
        return aslinearoperator(inverse.flatten())
    if isinstance(A, wp.array) and A.ndim == 2:
        inverse = wp.empty(min(A.shape), dtype=A.dtype, device=A.device)
        wp.launch(_invert_dense_diagonal, dim=inverse.size, inputs=[A, absolute, inverse], device=A.device)
        return aslinearoperator(inverse)
    raise ValueError(f"preconditioner() takes a BsrMatrix or an array of two dimensions, got {type(A).__name__}")


def _diagonal_blocks(A: BsrMatrix) -> Any:
    """The blocks on the diagonal, as an array of numbers with three dimensions.

    Raises:
        ValueError: The matrix or its blocks are not square.
    """
    if A.nrow != A.ncol or A.block_shape[0] != A.block_shape[1]:
        raise ValueError(
            f"a preconditioner needs a square matrix with square matrix blocks, got {A.nrow} x {A.ncol} blocks of "
            f"shape {A.block_shape}"
        )
    found = bsr_get_diag(A, wp.empty(A.nrow, dtype=A.dtype, device=A.device))
    return numbers(found).reshape((A.nrow, *A.block_shape))


def _block_jacobi(A: Any, ptype: str) -> LinearOperator:
    if not isinstance(A, BsrMatrix):
        raise ValueError(f"{ptype!r} takes a BsrMatrix, got {type(A).__name__}")
    blocks, scalar = _diagonal_blocks(A), A.scalar_type
    if A.block_size == 1:
        return _jacobi(A, absolute=False)
    if ptype == "block_jacobi_tile" and scalar not in (wp.float32, wp.float64):
        raise ValueError(f"'block_jacobi_tile' takes matrices of float32 or float64, got {scalar.__name__}")
    work, exact = (wp.zeros(blocks.shape, dtype=wp.float64, device=A.device) for _ in range(2))
    inverse = wp.empty(blocks.shape, dtype=scalar, device=A.device)
    arguments = [blocks, ptype != "block_jacobi_direct", _TOO_SMALL.get(scalar, 1e-6), work, exact, inverse]
    wp.launch(_invert_blocks, dim=A.nrow, inputs=arguments, device=A.device)
    shape = inverse.shape[:2]

    def matvec(x: Any, y: Any, z: Any, alpha: Any, beta: Any) -> None:
        views = [numbers(a).reshape(shape) for a in (x, y, z)]
        if x.ptr == z.ptr:
            views[0] = wp.clone(views[0])
        given = [scalar(alpha), inverse, views[0], scalar(beta), views[1]]
        wp.launch(_multiply_blocks, dim=shape, inputs=given, outputs=[views[2]], device=A.device)

    return LinearOperator(A.shape, A.dtype, A.device, matvec)


def _require_square_blocks(A: Any, ptype: str) -> None:
    if not isinstance(A, BsrMatrix):
        raise ValueError(f"{ptype!r} takes a BsrMatrix, got {type(A).__name__}")
    if A.nrow != A.ncol or A.block_shape[0] != A.block_shape[1]:
        raise ValueError(f"{ptype!r} takes a square matrix with square blocks, got {A!r}")
