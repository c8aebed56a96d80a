"""Transposes: a counting sort of the blocks by column, which keeps the order of rows.

The rows are divided into runs. Each run counts its blocks by column, so that it knows where the first one of each goes,
behind those of the runs before. Then it writes them there, one after the other, without asking the other runs. So the
result does not depend on threads.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.sparse.assignment import bsr_assign
from warp_like.sparse.counting import begin_runs, divide_into_runs
from warp_like.sparse.creation import bsr_zeros, resize
from warp_like.sparse.lookup import blocks_of
from warp_like.sparse.matrix import BsrMatrix, new_values, scaled, shares_rows
from warp_like.sparse.topology import adopt, require_topology


@wp.kernel(enable_backward=False, vector_width=1)
def _count(
    size: int,
    row_count: int,
    column_count: int,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    places: wp.array2d[int],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        begin, end = blocks_of(offsets, row_counts, row)
        for block in range(begin, end):
            column = wp.uint32(columns[block])
            if column < wp.uint32(column_count):
                places[run, column] = places[run, column] + 1


@wp.kernel(enable_backward=False, vector_width=1)
def _scatter(
    size: int,
    row_count: int,
    column_count: int,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    places: wp.array2d[int],
    turned: wp.array[int],
    sources: wp.array[int],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        begin, end = blocks_of(offsets, row_counts, row)
        for block in range(begin, end):
            column = wp.uint32(columns[block])
            if column < wp.uint32(column_count):
                place = wp.uint32(places[run, column])
                places[run, column] = int(place) + 1
                turned[place] = row
                sources[place] = int(block)


@wp.kernel(enable_backward=False, vector_width=1)
def _scatter_numbers(
    size: int,
    row_count: int,
    column_count: int,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    places: wp.array2d[int],
    turned: wp.array[int],
    scale: Any,
    numbers: wp.array[Any],
    values: wp.array[Any],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        begin, end = blocks_of(offsets, row_counts, row)
        for block in range(begin, end):
            column = wp.uint32(columns[block])
            if column < wp.uint32(column_count):
                place = wp.uint32(places[run, column])
                places[run, column] = int(place) + 1
                turned[place] = row
                values[place] = scale * numbers[block]


@wp.kernel
def _gather(
    scale: Any,
    compact: wp.array[int],
    sources: wp.array[int],
    blocks: wp.array[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    begin, end = blocks_of(offsets, row_counts, row)
    shift = wp.uint32(compact[row]) - begin
    for block in range(begin, end):
        values[block] = scale * blocks[wp.uint32(sources[block + shift])]


@wp.kernel
def _gather_transposed(
    scale: Any,
    compact: wp.array[int],
    sources: wp.array[int],
    blocks: wp.array[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    begin, end = blocks_of(offsets, row_counts, row)
    shift = wp.uint32(compact[row]) - begin
    for block in range(begin, end):
        values[block] = scale * wp.transpose(blocks[wp.uint32(sources[block + shift])])


def bsr_set_transpose(dest: BsrMatrix, src: Any, topology: str | None = None) -> None:
    """Let a matrix be the transpose of another one. A tape differentiates the values.

    Args:
        dest: The matrix to change. It may be the same as ``src``.
        src: The matrix to transpose, or a multiple of one.
        topology: ``"compact"``: the blocks replace those of ``dest``. ``"masked"``: ``dest`` keeps its blocks; those
            without a counterpart become zero. ``"padded"``: rows keep their capacity, and ``dest.status_sync()`` tells
            where it was too small.

    Raises:
        ValueError: The shape of the blocks or the type of the numbers is another, or the matrices lie on different
            devices.
        TypeError: ``src`` is no matrix.
    """
    source, scale = scaled(src, "src")
    topology = require_topology("bsr_set_transpose", topology)
    if dest.block_shape != source.block_shape[::-1]:
        raise ValueError(f"Destination block shape must be {source.block_shape[::-1]}, got {dest.block_shape}")
    if dest.scalar_type is not source.scalar_type:
        raise ValueError(
            f"Destination scalar type must be {source.scalar_type.__name__}, got {dest.scalar_type.__name__}"
        )
    if dest.device != source.device:
        raise ValueError(f"bsr_set_transpose(): the matrices lie on one device, got {dest.device} and {source.device}")
    if topology == "masked":
        turned = bsr_zeros(0, 0, dest.dtype, dest.device)
        bsr_set_transpose(turned, src)
        bsr_assign(dest, turned, topology="masked")
        return
    rows, across = source.ncol, source.nrow
    if topology == "padded" and (dest.nrow, dest.ncol) != (rows, across):
        raise ValueError(f"Destination has {rows} rows and {across} columns of blocks, got {dest.nrow}, {dest.ncol}")
    stored, device = source.values, dest.device
    turn = _Turn(source, dest if topology == "compact" and not shares_rows(source, dest) else None)
    if topology == "compact" and dest.dtype is dest.scalar_type and not (stored.requires_grad or dest.requires_grad):
        new_values(dest, source.nnz, (stored,))
        turn.scatter(_scatter_numbers, dest.scalar_type(scale), stored, dest.values)  # no gradient needs the sources
        resize(dest, rows, across)
        adopt(dest, turn.starts, turn.columns, source.nnz, False)
        return
    sources = wp.empty(source.nnz, dtype=int, device=device)
    turn.scatter(_scatter, sources)
    if topology == "compact":
        resize(dest, rows, across)
    adopt(dest, turn.starts, turn.columns, source.nnz, topology == "padded")
    new_values(dest, dest.nnz, (stored,))
    kernel = _gather if dest.dtype is dest.scalar_type else _gather_transposed
    arguments = [dest.scalar_type(scale), turn.starts, sources, stored, dest.offsets, dest.row_counts, dest.values]
    wp.launch(kernel, dim=dest.nrow, inputs=arguments, device=device)


class _Turn:
    """The order of the blocks of a matrix by column.

    Args:
        A: The matrix.
        dest: A matrix whose rows may be overwritten by those of the transpose, or None.

    Attributes:
        starts: Where the rows of the transpose begin.
        columns: Its columns, once the blocks are scattered.
    """

    def __init__(self, A: BsrMatrix, dest: BsrMatrix | None) -> None:
        device = A.device
        size, self._runs = divide_into_runs(A.nrow, A.ncol, A.nnz, device, per_thread=1)
        places = wp.zeros((self._runs, A.ncol), dtype=int, device=device)
        self._read = [size, A.nrow, A.ncol, A.offsets, A.row_counts, A.columns, places]
        wp.launch(_count, dim=self._runs, inputs=self._read, device=device)
        starts = self.columns = None
        if dest is not None:
            starts = dest.offsets if dest.offsets.size > A.ncol else None
            self.columns = dest.columns if dest.columns.size >= A.nnz else None
        self.starts = begin_runs(places, starts)
        if self.columns is None:
            self.columns = wp.empty(A.nnz, dtype=int, device=device)

    def scatter(self, kernel: wp.Kernel, *more: Any) -> None:
        """Write the columns of the transpose, and what the kernel writes beside them; once."""
        wp.launch(kernel, dim=self._runs, inputs=[*self._read, self.columns, *more], device=self.starts.device)


def bsr_transposed(A: Any) -> BsrMatrix:
    """Return a transposed copy of a matrix. A tape differentiates the values.

    Args:
        A: The matrix, or a multiple of one.

    Raises:
        TypeError: ``A`` is no matrix.

    Example:
        >>> from warp_like.sparse import bsr_from_triplets, bsr_transposed
        >>> row, column = wp.array([0], dtype=int), wp.array([2], dtype=int)
        >>> bsr_transposed(bsr_from_triplets(1, 3, row, column, wp.array([5.0]))).shape
        (3, 1)
    """
    source, _ = scaled(A, "A")
    turned = bsr_zeros(0, 0, _transposed_type(source), source.device)
    bsr_set_transpose(turned, A)
    return turned


def _transposed_type(A: BsrMatrix) -> Any:
    if A.dtype is A.scalar_type:
        return A.dtype
    return wp.types.matrix(shape=A.block_shape[::-1], dtype=A.scalar_type)
