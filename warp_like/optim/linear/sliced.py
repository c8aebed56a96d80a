"""A copy of a matrix in slices, for solvers that multiply with it many times.

A slice is a group of rows that follow each other. Where all of them have the same length, their first elements lie side
by side, then their second ones, and so on, so that one loop sums all rows with plain loads; where each row also has the
columns of the row before, moved by one, as on grids, only those of the first row are kept. Slices of other rows are not
copied: they are read from the matrix itself. Format: Kreutzer, Hager, Wellein, Fehske and Bishop, A unified sparse
matrix data format, SIAM J. Sci. Comput. 36, 2014, without sorting and padding.

To copy a matrix takes about as long as to multiply with it once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import warp_like as wp
from warp_like.optim.linear.dots import PART, dot_part
from warp_like.sparse import BsrMatrix
from warp_like.sparse.multiply import (
    ROWS_TOGETHER,
    are_moved,
    common_length,
    has_many_plain_rows,
    multiply_rows,
)

SLICES = PART // ROWS_TOGETHER
"""Slices that one thread takes: as many rows as it sums numbers of an inner product."""


@wp.kernel(enable_backward=False, vector_width=1)
def _cut(
    room: int,
    rows: int,
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
    shapes: wp.array[wp.vec2i],
    heads: wp.array[int],
    turned: wp.array[int],
    numbers: wp.array[Any],
) -> None:
    """Copy a slice, and write where it begins and its shape: 2 lengths of a row, 1 more if columns are not moved."""
    at = wp.tid()
    first = wp.uint64(at) * wp.uint64(ROWS_TOGETHER)
    start = offsets[first]
    common = common_length(first, offsets, wp.uint64(rows))
    if common < 0 or start < 0 or wp.int64(start) + wp.int64(ROWS_TOGETHER) * wp.int64(common) > wp.int64(room):
        shapes[at] = wp.vec2i(start, -1)
        return
    begin = wp.uint64(start)
    length = wp.uint64(common)
    moved = are_moved(columns, begin, length)
    shapes[at] = wp.vec2i(start, 2 * common + wp.where(moved, 0, 1))
    for j in range(length):
        to = begin + j * wp.uint64(ROWS_TOGETHER)
        for k in range(ROWS_TOGETHER):
            numbers[to + wp.uint64(k)] = values[begin + j + wp.uint64(k) * length]
    if moved:
        for j in range(length):
            heads[begin // wp.uint64(ROWS_TOGETHER) + j] = columns[begin + j]
    else:
        for j in range(length):
            to = begin + j * wp.uint64(ROWS_TOGETHER)
            for k in range(ROWS_TOGETHER):
                turned[to + wp.uint64(k)] = columns[begin + j + wp.uint64(k) * length]


@cache
def _multiply(with_dot: bool) -> wp.Kernel:
    """Return the product by a thread for each part of the rows, which also sums that part of an inner product."""

    @wp.kernel(enable_backward=False, vector_width=1, module="unique")
    def multiply(
        offsets: wp.array[int],
        columns: wp.array[int],
        values: wp.array[Any],
        shapes: wp.array[wp.vec2i],
        heads: wp.array[int],
        turned: wp.array[int],
        numbers: wp.array[Any],
        x: wp.array[Any],
        y: wp.array[Any],
        other: wp.array[Any],
        partial: wp.array2d[wp.float64],
    ) -> None:
        part = wp.tid()
        last = wp.min((part + 1) * wp.static(SLICES), shapes.shape[0])
        for at in range(part * wp.static(SLICES), last):
            first = wp.uint64(at) * wp.uint64(ROWS_TOGETHER)
            shape = shapes[at]
            if shape[1] < 0:
                multiply_rows(first, y.dtype(1.0), offsets, columns, values, x, False, y.dtype(0.0), y)
            else:
                begin = wp.uint64(shape[0])
                length = wp.uint64(shape[1] // 2)
                totals = wp.types.vector(length=ROWS_TOGETHER, dtype=y.dtype)()
                if shape[1] % 2 == 0:
                    for j in range(length):
                        column = wp.uint64(wp.uint32(heads[begin // wp.uint64(ROWS_TOGETHER) + j]))
                        for k in range(ROWS_TOGETHER):
                            block = begin + j * wp.uint64(ROWS_TOGETHER) + wp.uint64(k)
                            totals[k] += numbers[block] * x[column + wp.uint64(k)]
                else:
                    for j in range(length):
                        for k in range(ROWS_TOGETHER):
                            block = begin + j * wp.uint64(ROWS_TOGETHER) + wp.uint64(k)
                            totals[k] += numbers[block] * x[wp.uint32(turned[block])]
                for k in range(ROWS_TOGETHER):
                    y[first + wp.uint64(k)] = totals[k]
        if wp.static(with_dot):
            partial[0, part] = dot_part(part, other, y)

    return multiply


class SlicedMatrix:
    """A copy of a matrix in slices, with its memory. It multiplies with the matrix that ``cut`` was given last.

    Args:
        A: A matrix that ``can_be_sliced``.
    """

    def __init__(self, A: BsrMatrix) -> None:
        self._matrix, self._room = A, _room(A)
        self._shapes = wp.empty(-(-A.nrow // ROWS_TOGETHER), dtype=wp.vec2i, device=A.device)
        self._heads = wp.empty(self._room // ROWS_TOGETHER + 1, dtype=int, device=A.device)
        self._turned = wp.empty(self._room, dtype=int, device=A.device)
        self._numbers = wp.empty(self._room, dtype=A.dtype, device=A.device)

    def fits(self, A: BsrMatrix) -> bool:
        """Whether the memory is that for ``A``."""
        made_for = self._matrix
        return (A.nrow, A.dtype, _room(A)) == (made_for.nrow, made_for.dtype, self._room)

    def cut(self, A: BsrMatrix) -> None:
        """Copy a matrix that fits."""
        self._matrix = A
        given = [self._room, A.nrow, A.offsets, A.columns, A.values]
        written = [self._shapes, self._heads, self._turned, self._numbers]
        wp.launch(_cut, dim=self._shapes.size, inputs=given, outputs=written, device=A.device)

    def multiply(self, x: Any, y: Any, other: Any = None, partial: Any = None) -> None:
        """Write ``A @ x`` to ``y``, with the bits of ``bsr_mv``; they share no memory.

        Args:
            x: An array of numbers.
            y: Another one.
            other: A vector whose inner product with ``y`` is summed as well.
            partial: For the sums of its parts, as ``Dots.parts`` gives them.
        """
        A, with_dot = self._matrix, other is not None
        stored = [A.offsets, A.columns, A.values, self._shapes, self._heads, self._turned, self._numbers]
        summed = [other, partial] if with_dot else [y, wp.empty((0, 0), dtype=wp.float64, device=A.device)]
        wp.launch(_multiply(with_dot), dim=-(-A.nrow // PART), inputs=[*stored, x, y, *summed], device=A.device)


def _room(A: BsrMatrix) -> int:
    return min(int(A.columns.size), int(A.values.size))


def can_be_sliced(A: Any) -> bool:
    """Whether ``A`` is a matrix whose copy in slices is worth it."""
    return isinstance(A, BsrMatrix) and has_many_plain_rows(A)
