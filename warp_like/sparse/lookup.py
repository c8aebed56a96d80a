"""Functions for kernels that find blocks and rows of a sparse matrix, on its arrays.

``row_counts`` is None for compact matrices, whose rows end where the next one begins.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp


@wp.func
def row_end(offsets: wp.array[int], row_counts: wp.array[int], row: int) -> int:
    """Return the index behind the last block of a row."""
    if row_counts:
        return offsets[row] + row_counts[row]
    return offsets[row + 1]


@wp.func
def blocks_of(offsets: wp.array[int], row_counts: wp.array[int], row: int) -> Any:
    """Return the indices of the first block of a row and of the one behind its last block.

    They are unsigned for loops over them: a signed index is tested, since negative ones count from the end.
    """
    return wp.uint32(offsets[row]), wp.uint32(row_end(offsets, row_counts, row))


@wp.func
def find_block(columns: wp.array[int], begin: int, end: int, column: int) -> int:
    """Return which of the blocks from ``begin`` to ``end``, sorted by column, stands in ``column``, or -1."""
    low = begin
    high = end
    while low < high:
        middle = low + (high - low) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    if low < end and columns[low] == column:
        return low
    return -1


@wp.func
def bsr_row_index(offsets: wp.array[int], row_count: int, block_index: int) -> int:
    """Return the row of blocks that has a block; -1 if none has it.

    Args:
        offsets: Where each row begins, ``row_count + 1`` numbers.
        row_count: How many rows of blocks there are.
        block_index: Index of the block.
    """
    if block_index < 0 or block_index >= offsets[row_count]:
        return -1
    low = 0
    high = int(row_count)  # the first row that ends behind the block
    while low < high:
        middle = low + (high - low) // 2
        if offsets[middle + 1] <= block_index:
            low = middle + 1
        else:
            high = middle
    return low


@wp.func  # type: ignore[no-redef]
def bsr_row_index(  # noqa: F811
    offsets: wp.array[int], row_count: int, block_index: int, row_counts: wp.array[int]
) -> int:
    """Return the row of blocks that has a block; -1 if none has it, or the block is unused capacity of its row.

    Args:
        offsets: Where each row begins, ``row_count + 1`` numbers.
        row_count: How many rows of blocks there are.
        block_index: Index of the block.
        row_counts: How many blocks each row has; None for compact matrices.
    """
    row = bsr_row_index(offsets, row_count, block_index)
    if row >= 0 and block_index >= row_end(offsets, row_counts, row):
        row = -1
    return row


@wp.func
def bsr_block_index(row: int, col: int, bsr_offsets: wp.array[int], bsr_columns: wp.array[int]) -> int:
    """Return the index of the block in row ``row`` and column ``col`` of a compact matrix; -1 if there is none.

    The columns of the row must be sorted, as all functions of this module leave them.

    Args:
        row: Row of blocks; negative ones have no blocks.
        col: Column of blocks.
        bsr_offsets: Where each row begins.
        bsr_columns: The column of each block.
    """
    if row < 0:
        return -1
    return find_block(bsr_columns, bsr_offsets[row], bsr_offsets[row + 1], col)


@wp.func  # type: ignore[no-redef]
def bsr_block_index(  # noqa: F811
    row: int,
    col: int,
    bsr_offsets: wp.array[int],
    bsr_columns: wp.array[int],
    bsr_row_counts: wp.array[int],
) -> int:
    """Return the index of the block in row ``row`` and column ``col``; -1 if there is none.

    The columns of the row must be sorted, as all functions of this module leave them.

    Args:
        row: Row of blocks; negative ones have no blocks.
        col: Column of blocks.
        bsr_offsets: Where each row begins.
        bsr_columns: The column of each block.
        bsr_row_counts: How many blocks each row has; None for compact matrices.
    """
    if row < 0:
        return -1
    return find_block(bsr_columns, bsr_offsets[row], row_end(bsr_offsets, bsr_row_counts, row), col)


@wp.func
def is_zero(x: wp.Scalar) -> bool:
    """Return whether a number is zero of either sign."""
    return x == x.dtype(0)


@wp.func  # type: ignore[no-redef]
def is_zero(m: wp.types.matrix(shape=(Any, Any), dtype=wp.Scalar)) -> bool:  # type: ignore[valid-type]  # noqa: F811
    """Return whether all components of a block are zero."""
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            if m[i, j] != m.dtype(0):
                return False
    return True
