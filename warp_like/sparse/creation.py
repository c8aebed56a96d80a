"""Matrices without blocks, and matrices of diagonal blocks."""

from __future__ import annotations

import operator
from typing import Any

import warp_like as wp
from warp_like.sparse.lookup import bsr_block_index
from warp_like.sparse.matrix import (
    BsrMatrix,
    block_shape_of,
    bsr_matrix_t,
    reserve,
    scalar_type_of,
    scaled,
    status_of,
)
from warp_like.sparse.topology import require_topology


@wp.kernel(enable_backward=False)
def _fill_capacity(capacity: int, offsets: wp.array[int]) -> None:
    row = wp.tid()
    offsets[row] = row * capacity


@wp.kernel(enable_backward=False)
def _extend_offsets(old_row_count: int, offsets: wp.array[int]) -> None:
    row = old_row_count + 1 + wp.tid()
    offsets[row] = offsets[old_row_count]


@wp.kernel(enable_backward=False)
def _set_diagonal_topology(count: int, offsets: wp.array[int], columns: wp.array[int]) -> None:
    row = wp.tid()
    offsets[row] = wp.min(row, count)
    if row < count:
        columns[row] = row


@wp.kernel
def _get_diagonal(
    scale: Any,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
    diagonal: wp.array[Any],
) -> None:
    row = wp.tid()
    block = bsr_block_index(row, row, offsets, columns, row_counts)
    if block >= 0:
        diagonal[row] = scale * values[block]
    else:
        diagonal[row] = diagonal.dtype(0.0)


def _size(name: str, given: Any) -> int:
    n = operator.index(given)
    if n < 0:
        raise ValueError(f"{name} is not negative, got {n}")
    return n


def bsr_zeros(
    rows_of_blocks: int,
    cols_of_blocks: int,
    block_type: Any,
    device: Any = None,
    *,
    topology: str | None = None,
    row_capacity: Any = None,
    nnz_capacity: int | None = None,
) -> BsrMatrix:
    """Return a matrix without blocks.

    Args:
        rows_of_blocks: Number of rows of blocks.
        cols_of_blocks: Number of columns of blocks.
        block_type: The type of the blocks: a scalar type, or a matrix type.
        device: Where the arrays shall be.
        topology: ``"compact"``, or ``"padded"`` for rows that have a fixed capacity; padded where ``row_capacity`` is
            given.
        row_capacity: For how many blocks each row has room: a number, or an array of int32 with one for each row.
        nnz_capacity: For how many blocks to make room at once. With an array as ``row_capacity`` it spares waiting for
            the device, and must not be less than the capacity of all rows.

    Raises:
        ValueError: The sizes are negative, ``row_capacity`` has another length, ``block_type`` is no type of blocks, or
            the topology is another.
        TypeError: ``row_capacity`` is an array of another type than int32.
    """
    if topology is None:
        topology = "padded" if row_capacity is not None else "compact"
    require_topology("bsr_zeros", topology, ("compact", "padded"))
    bsr: BsrMatrix = bsr_matrix_t(block_type)()
    bsr.nrow, bsr.ncol = _size("rows_of_blocks", rows_of_blocks), _size("cols_of_blocks", cols_of_blocks)
    bsr.offsets = wp.zeros(bsr.nrow + 1, dtype=int, device=device)
    bsr.columns = wp.empty(0, dtype=int, device=device)
    bsr.values = wp.empty(0, dtype=block_type, device=device)
    _set_zero(bsr, topology, row_capacity, nnz_capacity)
    return bsr


def bsr_set_zero(
    bsr: BsrMatrix,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    *,
    topology: str = "compact",
    row_capacity: Any = None,
    nnz_capacity: int | None = None,
) -> None:
    """Set a matrix to zero, and change its size where one is given.

    Args:
        bsr: The matrix.
        rows_of_blocks: The new number of rows of blocks; as it is when left out.
        cols_of_blocks: The new number of columns of blocks; as it is when left out.
        topology: ``"compact"`` drops all blocks and capacities. ``"padded"`` drops the blocks and keeps the capacity of
            rows; new rows have none. ``"masked"`` keeps the blocks and sets them to zero.
        row_capacity: With ``"padded"``, the new capacity of rows, as for ``bsr_zeros``.
        nnz_capacity: For how many blocks to make room, as for ``bsr_zeros``.

    Raises:
        ValueError: As ``bsr_zeros`` raises it; or the size of a masked matrix would change.
        TypeError: ``row_capacity`` is an array of another type than int32.
    """
    require_topology("bsr_set_zero", topology)
    rows = bsr.nrow if rows_of_blocks is None else _size("rows_of_blocks", rows_of_blocks)
    columns = bsr.ncol if cols_of_blocks is None else _size("cols_of_blocks", cols_of_blocks)
    if row_capacity is not None and topology != "padded":
        raise ValueError("row_capacity goes with topology='padded'")
    if topology == "masked":
        if (rows, columns) != (bsr.nrow, bsr.ncol):
            raise ValueError("bsr_set_zero() can't change the size of a matrix with topology='masked'")
        bsr.values.zero_()
        return
    resize(bsr, rows, columns, keep_rows=topology == "padded" and row_capacity is None)
    _set_zero(bsr, topology, row_capacity, nnz_capacity, keep=True)


def resize(bsr: BsrMatrix, rows: int, columns: int, keep_rows: bool = False) -> None:
    """Change the size; what the rows hold is undefined unless they are kept."""
    old, offsets = bsr.nrow, bsr.offsets
    bsr.nrow, bsr.ncol = rows, columns
    if offsets.size < rows + 1:
        bsr.offsets = wp.zeros(rows + 1, dtype=int, device=offsets.device)
        if keep_rows:
            wp.copy(bsr.offsets, offsets, count=old + 1)
    if keep_rows and rows > old:
        wp.launch(_extend_offsets, dim=rows - old, inputs=[old, bsr.offsets], device=bsr.device)


def _set_zero(bsr: BsrMatrix, topology: str, capacity: Any, room: int | None, keep: bool = False) -> None:
    """Drop all blocks; padded matrices keep the capacity of their rows if told so and no other is given."""
    if capacity is not None and topology != "padded":
        raise ValueError("row_capacity goes with topology='padded'")
    room = None if room is None else _size("nnz_capacity", room)
    nnz: int | None = 0
    if topology == "compact":
        bsr.offsets.zero_()
        bsr.row_counts = None
    else:
        if capacity is not None:
            nnz = _set_capacity(bsr, capacity)
        elif keep:
            nnz = bsr.nnz
        if bsr.row_counts is None or bsr.row_counts.size < bsr.nrow:
            bsr.row_counts = wp.zeros(bsr.nrow, dtype=int, device=bsr.device)
        else:
            bsr.row_counts.zero_()
        status_of(bsr)
    bsr.notify_nnz_changed(nnz, room)


def _set_capacity(bsr: BsrMatrix, capacity: Any) -> int | None:
    """Set the capacity of each row; the total, where the host knows it."""
    if not isinstance(capacity, wp.array):
        each = _size("row_capacity", capacity)
        wp.launch(_fill_capacity, dim=bsr.nrow + 1, inputs=[each, bsr.offsets], device=bsr.device)
        return bsr.nrow * each
    if capacity.shape != (bsr.nrow,):
        raise ValueError(f"row_capacity is an array of shape ({bsr.nrow},), got {capacity.shape}")
    if capacity.dtype is not wp.int32:
        raise TypeError(f"row_capacity is an array of int32, got {capacity.dtype.__name__}")
    if capacity.device != bsr.device:
        raise ValueError(f"row_capacity lies on the device of the matrix, {bsr.device}, got {capacity.device}")
    bsr.offsets[:1].zero_()
    wp.utils.array_scan(capacity, bsr.offsets[1 : bsr.nrow + 1], inclusive=True)
    return None


# --- diagonals ---


def bsr_get_diag(A: Any, out: Any = None) -> Any:
    """Return the blocks on the diagonal; zero where there is none. A tape differentiates it.

    Args:
        A: The matrix, or a multiple of one.
        out: An array of blocks for the result; a new one when left out.

    Returns:
        ``out``, of ``min(nrow, ncol)`` blocks.

    Raises:
        ValueError: ``out`` has another type, is too small, or lies on another device.
    """
    matrix, scale = scaled(A, "A")
    n = min(matrix.nrow, matrix.ncol)
    if out is None:
        grad = matrix.requires_grad
        out = wp.zeros(n, dtype=matrix.dtype, device=matrix.device, requires_grad=grad)
    else:
        if out.dtype is not matrix.dtype:
            raise ValueError(f"bsr_get_diag(): `out` holds blocks of {matrix.dtype.__name__}, got {out!r}")
        if out.device != matrix.device:
            raise ValueError(f"bsr_get_diag(): `out` lies on the device of A, {matrix.device}, got {out.device}")
        if out.ndim != 1 or out.size < n:
            raise ValueError(f"bsr_get_diag(): `out` has one dimension and at least {n} elements, got {out.shape}")
    stored = [matrix.offsets, matrix.row_counts, matrix.columns, matrix.values]
    wp.launch(_get_diagonal, dim=n, inputs=[matrix.scalar_type(scale), *stored, out], device=matrix.device)
    return out


def _make_compact(matrix: BsrMatrix, blocks: int) -> None:
    """Let a matrix have so many blocks, with no room between its rows."""
    matrix.row_counts = None
    matrix.nnz = blocks


def bsr_set_diag(A: BsrMatrix, diag: Any, rows_of_blocks: int | None = None, cols_of_blocks: int | None = None) -> None:
    """Let a matrix have blocks on its diagonal, and no others.

    Args:
        A: The matrix.
        diag: An array of blocks; or one block for all places; or None, which leaves the values uninitialised.
        rows_of_blocks: The new number of rows of blocks; that of columns where only this is given. When both are left
            out, the length of the array ``diag`` says both, else the matrix keeps its size.
        cols_of_blocks: The new number of columns of blocks.

    Raises:
        ValueError: ``diag`` has too few blocks for the size, or lies on another device.
    """
    is_array = isinstance(diag, wp.array)
    if rows_of_blocks is None and cols_of_blocks is None:
        rows, columns = (diag.size, diag.size) if is_array else (A.nrow, A.ncol)
    else:
        rows = _size("rows_of_blocks", cols_of_blocks if rows_of_blocks is None else rows_of_blocks)
        columns = _size("cols_of_blocks", rows_of_blocks if cols_of_blocks is None else cols_of_blocks)
    n = min(rows, columns)
    if is_array and (diag.ndim != 1 or diag.size < n):
        raise ValueError(f"bsr_set_diag(): `diag` has one dimension and at least {n} blocks, got shape {diag.shape}")
    if is_array and diag.device != A.device:
        raise ValueError(f"bsr_set_diag(): `diag` lies on the device of A, {A.device}, got {diag.device}")
    resize(A, rows, columns)
    _make_compact(A, n)
    reserve(A, n)
    wp.launch(_set_diagonal_topology, dim=rows + 1, inputs=[n, A.offsets, A.columns], device=A.device)
    if is_array:
        if diag.requires_grad and not A.requires_grad:
            A.values.requires_grad = True
        wp.copy(A.values, diag, count=n)
    elif diag is not None:
        A.values.fill_(diag)


def bsr_diag(
    diag: Any = None,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    block_type: Any = None,
    device: Any = None,
) -> BsrMatrix:
    """Return a matrix with blocks on its diagonal.

    Args:
        diag: An array of blocks; or one block for all places; or None, which leaves the values uninitialised.
        rows_of_blocks: Number of rows of blocks; that of columns where only this is given. When both are left out, the
            length of the array ``diag`` says both.
        cols_of_blocks: Number of columns of blocks.
        block_type: The type of the blocks where ``diag`` is None.
        device: Where the arrays shall be; that of ``diag`` if this is an array.

    Raises:
        ValueError: Neither the size nor the type of the blocks is known, or the type is none of blocks.

    Example:
        >>> from warp_like.sparse import bsr_diag
        >>> bsr_diag(wp.array([1.0, 2.0]), cols_of_blocks=2).shape
        (2, 2)
    """
    is_array = isinstance(diag, wp.array)
    if is_array:
        block_type, device = diag.dtype, diag.device
        if rows_of_blocks is None and cols_of_blocks is None:
            rows_of_blocks = diag.size
    elif diag is not None:
        block_type = type(diag)
    if rows_of_blocks is None and cols_of_blocks is None:
        raise ValueError("bsr_diag() needs rows_of_blocks or cols_of_blocks, unless `diag` is an array")
    if block_type is None:
        raise ValueError("bsr_diag() needs block_type, unless `diag` is given")
    A = bsr_zeros(0, 0, block_type, device)
    bsr_set_diag(A, diag, rows_of_blocks, cols_of_blocks)
    return A


def _unit(dtype: Any) -> Any:
    """The identity as a block."""
    rows, columns = block_shape_of(dtype)
    if rows != columns:
        raise ValueError(f"an identity matrix has square blocks, got blocks of {rows} x {columns}")
    if scalar_type_of(dtype) is dtype:
        return dtype(1)
    return dtype(*(float(i == j) for i in range(rows) for j in range(columns)))


def bsr_set_identity(A: BsrMatrix, rows_of_blocks: int | None = None) -> None:
    """Let a matrix be the identity.

    Args:
        A: The matrix, with square blocks.
        rows_of_blocks: The new number of rows and columns of blocks; the matrix keeps its size when left out.

    Raises:
        ValueError: The blocks are not square.
    """
    bsr_set_diag(A, _unit(A.dtype), rows_of_blocks, rows_of_blocks)


def bsr_identity(rows_of_blocks: int, block_type: Any, device: Any = None) -> BsrMatrix:
    """Return an identity matrix.

    Args:
        rows_of_blocks: Number of rows and columns of blocks.
        block_type: The type of the blocks, which are square.
        device: Where the arrays shall be.

    Raises:
        ValueError: The blocks are not square.

    Example:
        >>> from warp_like.sparse import bsr_identity
        >>> bsr_identity(2, wp.mat22).values.numpy()[0].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    A = bsr_zeros(rows_of_blocks, rows_of_blocks, block_type, device)
    bsr_set_identity(A)
    return A
