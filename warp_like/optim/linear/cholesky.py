"""Incomplete Cholesky factorisations without fill: a triangle ``L`` where the matrix has numbers, ``L @ L.T`` near it.

Meijerink and van der Vorst, An iterative solution method for linear systems of which the coefficient matrix is a
symmetric M-matrix, Math. Comp. 31, 1977; where a pivot is too small, the diagonal is raised (Manteuffel, An incomplete
factorization technique for positive definite linear systems, Math. Comp. 34, 1980).

A row needs those before it that it has numbers for. A row's *level* is one more than the highest of these, so rows of
one level do not need each other (Saad, Iterative methods for sparse linear systems, 2003, section 11.6). A wide level
is a launch with a thread for each row. Narrow levels behind each other are one launch of one thread, which goes through
their rows in order: to begin a launch would take longer than to compute the level.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import warp_like as wp
from warp_like.optim.linear.operators import LinearOperator, numbers
from warp_like.sparse import BsrMatrix, bsr_copy, bsr_transposed, bsr_zeros
from warp_like.sparse.lookup import blocks_of

WIDE_ON_CPU, WIDE_ON_CUDA = 1024, 64
"""Rows of a level that is a launch by itself."""

_SHIFTS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""How much larger the diagonal is made, from try to try; large ones make any matrix with a positive one definite."""

_ONE = wp.uint32(1)


@wp.kernel(enable_backward=False)
def _count_lower(
    offsets: wp.array[int], columns: wp.array[int], row_counts: wp.array[int], failed: wp.array[int]
) -> None:
    row = wp.tid()
    count = 0
    last = -1
    for block in range(offsets[row], offsets[row + 1]):
        if columns[block] <= row:
            last = columns[block]
            count += 1
    row_counts[row] = count
    if last != row:  # the other kernels rely on the diagonal
        wp.atomic_max(failed, 0, row + 1)


@wp.kernel(enable_backward=False, vector_width=1)
def _find_levels(
    offsets: wp.array[int], row_counts: wp.array[int], columns: wp.array[int], levels: wp.array[int]
) -> None:
    for row in range(levels.shape[0]):
        level = 0
        begin, end = blocks_of(offsets, row_counts, row)
        for block in range(begin, end):
            if columns[block] != row:
                level = wp.max(level, levels[columns[block]] + 1)
        levels[row] = level


@wp.kernel(enable_backward=False, vector_width=1)
def _factorise(
    first: int,
    last: int,
    size: int,
    order: wp.array[int],
    shift: wp.float64,
    smallest: wp.float64,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
    factor: wp.array[Any],
    failed: wp.array[int],
) -> None:
    run = wp.tid()
    for at in range(first + run * size, wp.min(last, first + run * size + size)):
        row = order[at]
        begin, end = blocks_of(offsets, row_counts, row)
        good = False
        for block in range(begin, end):
            column = columns[block]
            total = wp.float64(values[block])
            diagonal = total
            if column == row:
                total += shift * total
            i = begin  # the products of what both rows have on the left
            j, j_end = blocks_of(offsets, row_counts, column)
            while i < block and j < j_end:
                a = columns[i]
                b = columns[j]
                if a == b:
                    total -= wp.float64(factor[i]) * wp.float64(factor[j])
                if a <= b:
                    i += _ONE
                if b <= a:
                    j += _ONE
            if column == row:
                good = diagonal > wp.float64(0.0) and total > smallest * diagonal
                factor[block] = factor.dtype(wp.sqrt(wp.max(total, wp.float64(0.0))))
            else:
                pivot = wp.float64(factor[j_end - _ONE])
                if pivot > wp.float64(0.0):
                    factor[block] = factor.dtype(total / pivot)
                else:
                    factor[block] = factor.dtype(0)
        if not good:
            wp.atomic_max(failed, 0, row + 1)


@wp.kernel(enable_backward=False, vector_width=1)
def _solve_lower(
    first: int,
    last: int,
    size: int,
    order: wp.array[int],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    factor: wp.array[Any],
    b: wp.array[Any],
    x: wp.array[Any],
) -> None:
    run = wp.tid()
    for at in range(first + run * size, wp.min(last, first + run * size + size)):
        row = wp.uint32(order[at])
        begin, end = blocks_of(offsets, row_counts, int(row))
        total = b[row]
        for block in range(begin, end - _ONE):
            total -= factor[block] * x[wp.uint32(columns[block])]
        x[row] = total / factor[end - _ONE]


@wp.kernel(enable_backward=False, vector_width=1)
def _solve_upper(
    first: int,
    last: int,
    size: int,
    order: wp.array[int],
    offsets: wp.array[int],
    columns: wp.array[int],
    factor: wp.array[Any],
    x: wp.array[Any],
) -> None:
    run = wp.tid()
    for k in range(run * size, wp.min(last - first, run * size + size)):
        row = wp.uint32(order[last - 1 - k])
        begin = wp.uint32(offsets[row])
        end = wp.uint32(offsets[row + _ONE])
        total = x[row]
        for block in range(begin + _ONE, end):
            total -= factor[block] * x[wp.uint32(columns[block])]
        x[row] = total / factor[begin]


@wp.kernel(enable_backward=False)
def _combine(alpha: Any, x: wp.array[Any], beta: Any, y: wp.array[Any], z: wp.array[Any]) -> None:
    i = wp.tid()
    total = alpha * x[i]
    if beta != beta.dtype(0):
        total += beta * y[i]
    z[i] = total


class _Schedule:
    """The launches that go through the rows of a triangle, each row after those that it needs.

    Attributes:
        order: The rows, level by level.
    """

    def __init__(self, levels: np.ndarray, device: Any) -> None:
        self._device = device
        self.order = wp.array(np.argsort(levels, kind="stable").astype(np.int32), device=device)
        self._stretches: list[tuple[int, int, bool]] = []
        wide = WIDE_ON_CPU if device.is_cpu else WIDE_ON_CUDA
        begin = 0
        for width in np.bincount(levels).tolist() if levels.size else ():
            self._add(begin, begin + width, width >= wide)
            begin += width

    def _add(self, begin: int, end: int, is_wide: bool) -> None:
        if self._stretches and not (is_wide or self._stretches[-1][2]):
            begin = self._stretches.pop()[0]
        self._stretches.append((begin, end, is_wide))

    def launch(self, kernel: wp.Kernel, *arguments: Any, backwards: bool = False) -> None:
        """Launch a kernel for all rows, the last ones first if ``backwards``."""
        for first, last, is_wide in reversed(self._stretches) if backwards else self._stretches:
            dim, size = (last - first, 1) if is_wide else (1, last - first)
            wp.launch(kernel, dim=dim, inputs=[first, last, size, self.order, *arguments], device=self._device)


class Factor(NamedTuple):
    """``L`` and its transpose, and how to go through their rows."""

    lower: BsrMatrix
    upper: BsrMatrix
    schedule: _Schedule


def factorise(A: BsrMatrix, smallest: float) -> Factor:
    """Return an incomplete Cholesky factor of a symmetric positive definite matrix. This waits for the device.

    Args:
        A: The matrix; what is above the diagonal is not read.
        smallest: The smallest pivot, beside its diagonal element, that counts as positive.

    Raises:
        ValueError: A number on the diagonal is not positive, or not finite.
    """
    failed = wp.zeros(1, dtype=int, device=A.device)
    L = _lower(bsr_copy(A, block_shape=(1, 1)), failed)
    levels = wp.zeros(L.nrow, dtype=int, device=L.device)
    stored = [L.offsets, L.row_counts, L.columns]
    wp.launch(_find_levels, dim=1, inputs=[*stored, levels], device=L.device)
    schedule = _Schedule(levels.numpy(), L.device)
    elements = wp.clone(L.values)
    for shift in _SHIFTS:
        failed.zero_()
        schedule.launch(_factorise, shift, smallest, *stored, elements, L.values, failed)
        if not failed.numpy()[0]:
            return Factor(L, bsr_transposed(L), schedule)
    raise _refusal(failed)


def _refusal(failed: Any) -> ValueError:
    return ValueError(
        "an incomplete Cholesky factorisation needs a symmetric positive definite matrix; the diagonal of row "
        f"{failed.numpy()[0] - 1} is not stored, not positive or not finite"
    )


def _lower(A: BsrMatrix, failed: Any) -> BsrMatrix:
    """The triangle of a compact matrix up to its diagonal, in the same memory: rows have room for what is above.

    Raises:
        ValueError: A row does not have its diagonal.
    """
    triangle: BsrMatrix = bsr_zeros(A.nrow, A.ncol, A.dtype, A.device)
    triangle.offsets, triangle.columns, triangle.values, triangle.nnz = A.offsets, A.columns, A.values, A.nnz
    triangle.row_counts = wp.zeros(A.nrow, dtype=int, device=A.device)
    wp.launch(_count_lower, dim=A.nrow, inputs=[A.offsets, A.columns, triangle.row_counts, failed], device=A.device)
    if failed.numpy()[0]:
        raise _refusal(failed)
    return triangle


def incomplete_cholesky(A: BsrMatrix, smallest: float) -> LinearOperator:
    """Return the inverse of ``L @ L.T`` as an operator.

    Raises:
        ValueError: As for ``factorise``.
    """
    lower, upper, schedule = factorise(A, smallest)
    between = wp.empty(A.shape[0], dtype=A.scalar_type, device=A.device)
    rows_below = [lower.offsets, lower.row_counts, lower.columns, lower.values]
    rows_above = [upper.offsets, upper.columns, upper.values]

    def matvec(x: Any, y: Any, z: Any, alpha: Any, beta: Any) -> None:
        schedule.launch(_solve_lower, *rows_below, numbers(x), between)
        schedule.launch(_solve_upper, *rows_above, between, backwards=True)
        arguments = [A.scalar_type(alpha), between, A.scalar_type(beta), numbers(y)]
        wp.launch(_combine, dim=between.size, inputs=arguments, outputs=[numbers(z)], device=A.device)

    return LinearOperator(A.shape, A.dtype, A.device, matvec)
