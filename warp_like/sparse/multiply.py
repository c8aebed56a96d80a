"""Products of matrices with vectors."""

from __future__ import annotations

from functools import cache
from typing import Any

import warp_like as wp
from warp_like.sparse.lookup import row_end
from warp_like.sparse.matrix import BsrMatrix, composed, overlap, scaled

NUMBERS_TOGETHER = 4
"""A power of two."""

ROWS_TOGETHER = 16
"""As many sums as two vectors of AVX2 hold."""

MANY_ROWS = 1 << 14
"""For fewer rows, groups save less time than their longer code takes to compile."""

ONE = wp.uint64(1)


@cache
def _multiply(padded: bool, adds: bool, together: int) -> wp.Kernel:
    """Return the product for matrices with row counts or without, that adds to a multiple of ``y`` or overwrites it.

    Rows are short, so that asking for each of them takes as long as an element or two. It takes so many elements
    together, in their order, as long as the row has them: the loop itself costs as much as an element.
    """

    @wp.kernel(module="unique")
    def multiply(
        alpha: Any,
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array[Any],
        x: wp.array[Any],
        beta: Any,
        y: wp.array[Any],
    ) -> None:
        row = wp.tid()
        begin = wp.int64(offsets[row])  # sums of shorter ones might wrap, so each would be extended anew
        end = begin
        if wp.static(padded):
            end = begin + wp.int64(row_counts[row])
        else:
            end = wp.int64(offsets[row + 1])
        total = y.dtype(0.0)
        rest = begin
        if wp.static(together > 1):
            rest = end - ((end - begin) & wp.int64(wp.static(together - 1)))
            for first in range(begin, rest, wp.int64(wp.static(together))):
                for k in range(wp.static(together)):
                    block = first + wp.int64(k)
                    total += values[block] * x[wp.uint32(columns[block])]
        for block in range(rest, end):  # a signed index is tested: negative, it is from the end
            total += values[block] * x[wp.uint32(columns[block])]
        if wp.static(adds):
            y[row] = alpha * total + beta * y[row]
        else:
            y[row] = alpha * total

    return multiply


@wp.func
def common_length(first: wp.uint64, offsets: wp.array[int], rows: wp.uint64) -> int:
    """Return how many elements each row of a group has; -1 if they differ, or the group is not whole."""
    if first + wp.uint64(ROWS_TOGETHER) > rows:
        return -1
    length = offsets[first + ONE] - offsets[first]
    differ = 0
    for k in range(1, ROWS_TOGETHER):
        row = first + wp.uint64(k)
        differ |= (offsets[row + ONE] - offsets[row]) ^ length
    if differ != 0:
        length = -1
    return length


@wp.func
def are_moved(columns: wp.array[int], begin: wp.uint64, length: wp.uint64) -> bool:
    """Whether each row of a group of rows with one length has the columns of the row before, moved by one.

    There are 15 times as many pairs of columns as a row has elements: compared by 15, they leave no rest.
    """
    differ = wp.types.vector(length=ROWS_TOGETHER, dtype=int)()
    for j in range(length):
        at = begin + j * wp.uint64(ROWS_TOGETHER - 1)
        for k in range(ROWS_TOGETHER - 1):
            differ[k] |= (columns[at + wp.uint64(k) + length] - columns[at + wp.uint64(k)]) ^ 1
    any_differs = 0
    for k in range(ROWS_TOGETHER):
        any_differs |= differ[k]
    return any_differs == 0


@wp.func
def multiply_rows(
    first: wp.uint64,
    alpha: Any,
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
    x: wp.array[Any],
    adds: bool,
    beta: Any,
    y: wp.array[Any],
) -> None:
    """Multiply the rows of a group one by one, and add to a multiple of ``y`` or overwrite it."""
    begin = wp.uint64(offsets[first])
    for row in range(first, wp.min(first + wp.uint64(ROWS_TOGETHER), wp.uint64(y.shape[0]))):
        end = wp.uint64(offsets[row + ONE])
        rest = end - ((end - begin) & wp.uint64(NUMBERS_TOGETHER - 1))
        total = y.dtype(0.0)
        for start in range(begin, rest, wp.uint64(NUMBERS_TOGETHER)):
            for k in range(NUMBERS_TOGETHER):
                block = start + wp.uint64(k)
                total += values[block] * x[wp.uint32(columns[block])]
        for block in range(rest, end):
            total += values[block] * x[wp.uint32(columns[block])]
        begin = end
        result = alpha * total
        if adds:
            result += beta * y[row]
        y[row] = result


@cache
def _multiply_groups(adds: bool) -> wp.Kernel:
    """Return the product for compact matrices of numbers, a thread for each group of rows that follow each other.

    Where all rows of a group have the same length, one loop sums all of them, an element of each at a time. On grids
    the columns of each row are often those of the row before, moved by one; then the elements of ``x`` lie side by
    side. Each row is summed in the order of its elements, as by ``_multiply``.
    """

    @wp.kernel(vector_width=1, module="unique")
    def multiply(
        alpha: Any,
        offsets: wp.array[int],
        columns: wp.array[int],
        values: wp.array[Any],
        x: wp.array[Any],
        beta: Any,
        y: wp.array[Any],
    ) -> None:
        first = wp.uint64(wp.tid()) * wp.uint64(ROWS_TOGETHER)
        begin = wp.uint64(offsets[first])
        common = common_length(first, offsets, wp.uint64(y.shape[0]))
        if common >= 0:
            length = wp.uint64(common)
            totals = wp.types.vector(length=ROWS_TOGETHER, dtype=y.dtype)()
            if are_moved(columns, begin, length):
                for block in range(begin, begin + length):
                    column = wp.uint64(wp.uint32(columns[block]))
                    for k in range(ROWS_TOGETHER):
                        totals[k] += values[block + wp.uint64(k) * length] * x[column + wp.uint64(k)]
            else:
                for start in range(begin, begin + length):
                    for k in range(ROWS_TOGETHER):
                        block = start + wp.uint64(k) * length
                        totals[k] += values[block] * x[wp.uint32(columns[block])]
            for k in range(ROWS_TOGETHER):
                result = alpha * totals[k]
                if wp.static(adds):
                    result += beta * y[first + wp.uint64(k)]
                y[first + wp.uint64(k)] = result
        else:
            multiply_rows(first, alpha, offsets, columns, values, x, wp.static(adds), beta, y)

    return multiply


@wp.kernel
def _scale_vector(beta: Any, y: wp.array[Any]) -> None:
    i = wp.tid()
    y[i] = beta * y[i]


@wp.kernel
def _add_transposed(
    alpha: Any,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
    x: wp.array[Any],
    y: wp.array[Any],
) -> None:
    row = wp.tid()
    factor = alpha * x[row]
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        wp.atomic_add(y, columns[block], factor * values[block])


def as_vectors(given: Any, A: BsrMatrix, count: int, length: int, name: str) -> Any:
    """Return an array of numbers or vectors as ``count`` vectors of ``length``, a view.

    Where the blocks of ``A`` are numbers, so are the vectors.

    Raises:
        ValueError: It has another size or type, or is not contiguous.
    """
    scalar = A.scalar_type
    wanted = scalar if A.dtype is scalar else wp.types.vector(length=length, dtype=scalar)
    if given.ndim == 1 and given.dtype is wanted and given.size == count:
        return given
    numbers = given
    if getattr(given.dtype, "_wp_scalar_type_", given.dtype) is scalar and given.ndim <= 2:
        numbers = given if given.dtype is scalar else given.view(scalar)
        if numbers.size == count * length and numbers.is_contiguous:
            return composed(numbers, count, wanted)
    raise ValueError(
        f"Incompatible '{name}' vector for bsr_mv: expected {count} vectors of {length} {scalar.__name__}, contiguous, "
        f"got {given!r}"
    )


def bsr_mv(
    A: Any,
    x: Any,
    y: Any = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    transpose: bool = False,
    work_buffer: Any = None,
    tile_size: int = 0,
) -> Any:
    """Compute ``y := alpha * A @ x + beta * y`` and return ``y``. A tape differentiates it.

    Args:
        A: The matrix, or a multiple of one.
        x: A vector for each column of blocks, or as many numbers, contiguous.
        y: A vector for each row of blocks, or as many numbers, contiguous; a new array when left out. It may be ``x``.
        alpha: The factor of the product; ``x`` is not read if it is 0.
        beta: The factor of ``y``; ``y`` is not read if it is 0.
        transpose: Multiply with the transpose of ``A``. Its threads add to common elements, so unless
            ``wp.config.deterministic`` is set, the last bits may differ from run to run.
        work_buffer: An array like ``y`` for a copy of ``x`` where the two share memory; a new one when left out.
        tile_size: Accepted as in Warp.

    Raises:
        TypeError: ``A`` is no matrix.
        ValueError: The sizes, types or devices do not fit.

    Example:
        >>> from warp_like.sparse import bsr_diag, bsr_mv
        >>> bsr_mv(bsr_diag(wp.array([2.0, 3.0])), wp.array([1.0, 1.0])).list()
        [2.0, 3.0]
    """
    matrix, scale = scaled(A, "A")
    alpha = alpha * scale
    x = x if isinstance(x, wp.array) else wp.array(x, copy=False)
    rows, columns = matrix.block_shape
    sizes = (matrix.ncol, columns, matrix.nrow, rows)
    m, x_length, n, y_length = (matrix.nrow, rows, matrix.ncol, columns) if transpose else sizes
    if y is None:
        plain = y_length == 1
        dtype = matrix.scalar_type if plain else wp.types.vector(length=y_length, dtype=matrix.scalar_type)
        grad = x.requires_grad or matrix.requires_grad
        y, beta = wp.empty(n, dtype=dtype, device=matrix.device, requires_grad=grad), 0.0
    elif not isinstance(y, wp.array):
        y = wp.array(y, copy=False)
    if not (matrix.device == x.device == y.device):
        raise ValueError(f"A, x, and y must reside on the same device, got {matrix.device}, {x.device} and {y.device}")
    x_view = as_vectors(x, matrix, m, x_length, "x")
    y_view = as_vectors(y, matrix, n, y_length, "y")
    if overlap(x, y):
        x_view = _copied(x_view, work_buffer)
    factors = matrix.scalar_type(alpha), matrix.scalar_type(beta)
    stored = [matrix.offsets, matrix.row_counts, matrix.columns, matrix.values]
    if not transpose and alpha != 0:
        adds = bool(beta != 0)
        if _has_groups(matrix, x, y):
            kernel, threads = _multiply_groups(adds), -(-n // ROWS_TOGETHER)
            del stored[1]
        else:
            together = NUMBERS_TOGETHER if matrix.dtype is matrix.scalar_type else 1
            kernel, threads = _multiply(matrix.row_counts is not None, adds, together), n
        arguments = [factors[0], *stored, x_view, factors[1]]
        wp.launch(kernel, dim=threads, inputs=arguments, outputs=[y_view], device=matrix.device)
        return y
    if beta == 0:
        y_view.zero_()
    elif beta != 1:
        wp.launch(_scale_vector, dim=n, inputs=[factors[1]], outputs=[y_view], device=matrix.device)
    if transpose and alpha != 0:
        arguments = [factors[0], *stored, x_view]
        wp.launch(_add_transposed, dim=m, inputs=arguments, outputs=[y_view], device=matrix.device)
    return y


def _has_groups(A: BsrMatrix, x: Any, y: Any) -> bool:
    """Whether a thread takes a group of rows: on the CPU. With gradients it takes one, whose adjoint is less code."""
    return has_many_plain_rows(A) and not (A.requires_grad or x.requires_grad or y.requires_grad)


def has_many_plain_rows(A: BsrMatrix) -> bool:
    """Whether ``A`` is a compact matrix of numbers on the CPU, with so many rows that groups of them are worth it."""
    return A.nrow >= MANY_ROWS and A.device.is_cpu and A.row_counts is None and A.dtype is A.scalar_type


def _copied(x: Any, buffer: Any) -> Any:
    """A copy of ``x``, in the buffer where there is one.

    Raises:
        ValueError: The buffer is too small, or of another type.
    """
    if buffer is None:
        buffer = wp.empty_like(x, requires_grad=x.requires_grad)
    else:
        if buffer.dtype is not x.dtype:
            raise ValueError(f"work_buffer has the dtype {x.dtype.__name__}, got {buffer!r}")
        if buffer.size < x.size:
            raise ValueError(f"work_buffer has at least {x.size} elements, got {buffer.size}")
        buffer = buffer[: x.size]
    wp.copy(buffer, x)
    return buffer
