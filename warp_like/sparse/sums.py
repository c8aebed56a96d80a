"""Multiples and sums of matrices.

Rows of two matrices are merged by column: once to count the blocks of the sum, once to write them. Often both matrices
have the same blocks. A kernel finds out and leaves it on the device; then another one takes a block in each thread, and
nothing is merged.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.sparse.assignment import bsr_assign, bsr_copy
from warp_like.sparse.counting import scan_counts
from warp_like.sparse.creation import bsr_zeros
from warp_like.sparse.lookup import blocks_of, find_block, row_end
from warp_like.sparse.matrix import BsrMatrix, new_values, scaled, shares_rows
from warp_like.sparse.topology import ONE, fit_rows, require_topology


@wp.kernel
def _scale(factor: Any, values: wp.array[Any]) -> None:
    i = wp.tid()
    values[i] = factor * values[i]


@wp.kernel(enable_backward=False)
def _compare(
    rows: int,
    blocks: int,
    x_offsets: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_columns: wp.array[int],
    differ: wp.array[int],
) -> None:
    i = wp.uint32(wp.tid())
    if i <= wp.uint32(rows) and x_offsets[i] != y_offsets[i]:
        differ[0] = 1
    if i < wp.uint32(wp.min(blocks, x_offsets[rows])) and x_columns[i] != y_columns[i]:
        differ[0] = 1


@wp.kernel
def _add_same(
    rows: int,
    differ: wp.array[int],
    alpha: Any,
    x: wp.array[Any],
    beta: Any,
    y: wp.array[Any],
    offsets: wp.array[int],
    source: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
) -> None:
    i = wp.uint32(wp.tid())
    if differ[0] == 0 and i < wp.uint32(offsets[rows]):
        columns[i] = source[i]
        values[i] = alpha * x[i] + beta * y[i]


@wp.kernel(enable_backward=False, vector_width=1)
def _count_merged(
    differ: wp.array[int],
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    counts: wp.array[int],
) -> None:
    row = wp.tid()
    i, x_end = blocks_of(x_offsets, x_counts, row)
    j, y_end = blocks_of(y_offsets, y_counts, row)
    if differ[0] == 0:
        counts[row] = int(x_end - i)
        return
    total = (x_end - i) + (y_end - j)
    for k in range(i, x_end):
        column = x_columns[k]
        while j < y_end and y_columns[j] < column:
            j += ONE
        if j < y_end and y_columns[j] == column:
            total -= ONE
    counts[row] = int(total)


@wp.kernel(vector_width=1)
def _merge(
    differ: wp.array[int],
    alpha: Any,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    x: wp.array[Any],
    beta: Any,
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    y: wp.array[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    if differ[0] == 0:
        return
    i, x_end = blocks_of(x_offsets, x_counts, row)
    j, y_end = blocks_of(y_offsets, y_counts, row)
    begin, end = blocks_of(offsets, row_counts, row)
    for block in range(begin, end):
        a = 0x7FFFFFFF
        b = 0x7FFFFFFF
        if i < x_end:
            a = x_columns[i]
        if j < y_end:
            b = y_columns[j]
        columns[block] = wp.min(a, b)
        total = values.dtype(0.0)
        if a <= b:
            total += alpha * x[i]
            i += ONE
        if b <= a:
            total += beta * y[j]
            j += ONE
        values[block] = total


@wp.kernel
def _add_masked(
    alpha: Any,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    x: wp.array[Any],
    beta: Any,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    y: wp.array[Any],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    x_begin = x_offsets[row]
    x_end = row_end(x_offsets, x_counts, row)
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        total = beta * y[block]
        found = find_block(x_columns, x_begin, x_end, columns[block])
        if found >= 0:
            total += alpha * x[found]
        values[block] = total


class bsr_axpy_work_arrays:
    """Accepted by ``bsr_axpy`` as in Warp: what it needs beside its result is small, and made anew."""


def bsr_scale(x: BsrMatrix, alpha: Any) -> BsrMatrix:
    """Multiply the values of a matrix by a number, in place, and return it. A tape differentiates it.

    Args:
        x: The matrix, or a multiple of one, whose factor is then multiplied as well.
        alpha: The number.

    Raises:
        TypeError: ``x`` is no matrix.
    """
    matrix, scale = scaled(x, "x")
    factor = alpha * scale
    if factor == 0:
        matrix.values.zero_()
    elif factor != 1:
        arguments = [matrix.scalar_type(factor), matrix.values]
        wp.launch(_scale, dim=min(matrix.nnz, matrix.values.size), inputs=arguments, device=matrix.device)
    return matrix


def bsr_axpy(
    x: Any,
    y: BsrMatrix | None = None,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    work_arrays: bsr_axpy_work_arrays | None = None,
    topology: str | None = None,
) -> BsrMatrix:
    """Compute ``y := alpha * x + beta * y`` and return ``y``. A tape differentiates the values.

    Args:
        x: A matrix, or a multiple of one. It may be ``y``.
        y: The matrix to change, or a multiple of one, whose factor then counts; a new one when left out.
        alpha: The factor of ``x``; nothing of ``x`` is read if it is 0.
        beta: The factor of ``y``; nothing of ``y`` is read if it is 0.
        work_arrays: Accepted as in Warp.
        topology: ``"compact"``: ``y`` gets the blocks of both. ``"masked"``: ``y`` keeps its blocks, and the others of
            ``x`` don't count. ``"padded"``: rows keep their capacity, and ``y.status_sync()`` tells where it was too
            small.

    Raises:
        ValueError: The shapes, the types of blocks or the devices differ.
        TypeError: An argument is no matrix.
    """
    matrix, scale = scaled(x, "x")
    alpha = alpha * scale
    topology = require_topology("bsr_axpy", topology)
    if y is None:
        y, beta = bsr_zeros(matrix.nrow, matrix.ncol, matrix.dtype, matrix.device), 0.0
    y, y_scale = scaled(y, "y")
    beta = beta * y_scale
    _require_same(matrix, y)
    if alpha == 0 or matrix is y:
        return bsr_scale(y, alpha + beta if alpha != 0 else beta)
    if beta == 0 and topology != "masked":
        bsr_assign(y, alpha * matrix, topology=topology)
        return y
    factors = y.scalar_type(alpha), y.scalar_type(beta)
    if topology == "masked":
        _axpy_masked(matrix, y, *factors)
        return y
    _axpy_merged(matrix, y, *factors, topology == "padded")
    return y


def _require_same(x: BsrMatrix, y: BsrMatrix) -> None:
    if (x.nrow, x.ncol) != (y.nrow, y.ncol):
        raise ValueError(
            f"Matrices must have the same number of rows and columns, got {x.nrow} x {x.ncol} and {y.nrow} x {y.ncol}"
        )
    if x.block_shape != y.block_shape:
        raise ValueError(f"Matrices must have the same block shape, got {x.block_shape} and {y.block_shape}")
    if x.scalar_type is not y.scalar_type:
        raise ValueError(
            f"Matrices must have the same scalar type, got {x.scalar_type.__name__} and {y.scalar_type.__name__}"
        )
    if x.device != y.device:
        raise ValueError(f"Matrices must lie on one device, got {x.device} and {y.device}")


def _axpy_masked(x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any) -> None:
    old = y.values
    if beta == 0:
        old.zero_()  # so that what was there, which may be NaN, does not count
    new_values(y, y.nnz, (x.values, old))
    read = [alpha, x.offsets, x.row_counts, x.columns, x.values, beta, y.offsets, y.row_counts, y.columns, old]
    wp.launch(_add_masked, dim=y.nrow, inputs=read, outputs=[y.values], device=y.device)


def _axpy_merged(x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any, padded: bool) -> None:
    if padded and shares_rows(x, y):
        x = bsr_copy(x)
    device, bound = y.device, x.nnz + y.nnz
    counts = wp.zeros(y.nrow + 1, dtype=int, device=device)
    of_x, of_y = ([m.offsets, m.row_counts, m.columns] for m in (x, y))
    sources = x.values, y.values
    can_be_same = not padded and x.row_counts is None and y.row_counts is None
    differ, common = wp.full(1, int(not can_be_same), dtype=int, device=device), min(x.nnz, y.nnz)
    if can_be_same:
        found = [y.nrow, common, x.offsets, x.columns, y.offsets, y.columns, differ]
        wp.launch(_compare, dim=max(y.nrow + 1, common), inputs=found, device=device)
    wp.launch(_count_merged, dim=y.nrow, inputs=[differ, *of_x, *of_y, counts], device=device)
    if padded:  # rows stay where they are, and are written while they are read
        of_y[1:] = wp.clone(y.row_counts), wp.clone(y.columns)
        fit_rows(y, counts)
    else:
        y.offsets, y.row_counts = scan_counts(counts), None
        y.columns, y.nnz = wp.empty(bound, dtype=int, device=device), bound
    new_values(y, y.nnz, sources)
    if can_be_same:
        read = [y.nrow, differ, alpha, sources[0], beta, sources[1], y.offsets, x.columns]
        wp.launch(_add_same, dim=common, inputs=read, outputs=[y.columns, y.values], device=device)
    read = [differ, alpha, *of_x, sources[0], beta, *of_y, sources[1]]
    outputs = [y.offsets, y.row_counts, y.columns, y.values]
    wp.launch(_merge, dim=y.nrow, inputs=read, outputs=outputs, device=device)


def bsr_sum(x: Any, y: Any, alpha: Any, beta: Any) -> BsrMatrix:
    """Return ``alpha * x + beta * y`` as a new compact matrix.

    Raises:
        ValueError: The shapes, the types of blocks or the devices differ.
        TypeError: An argument is no matrix.
    """
    left, left_scale = scaled(x, "x")
    right, right_scale = scaled(y, "y")
    alpha, beta = alpha * left_scale, beta * right_scale
    if left is right or alpha == 0 or beta == 0:
        return bsr_axpy(left, bsr_copy(right), alpha, beta)
    result: BsrMatrix = right.__copy__()  # type: ignore[attr-defined]
    _require_same(left, right)
    _axpy_merged(left, result, result.scalar_type(alpha), result.scalar_type(beta), padded=False)
    return result
