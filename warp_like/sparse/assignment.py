"""Matrices made of others: copies, also with blocks of another shape, and rows put in order."""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.sparse.counting import entries_by_row, scan_counts
from warp_like.sparse.creation import bsr_zeros, resize
from warp_like.sparse.lookup import bsr_block_index, bsr_row_index, row_end
from warp_like.sparse.matrix import BsrMatrix, block_type, new_values, reserve, scaled, shares_rows, status_of
from warp_like.sparse.topology import adopt, require_topology, set_topology
from warp_like.sparse.triplets import set_from_entries


@wp.kernel(enable_backward=False)
def _count_blocks(offsets: wp.array[int], row_counts: wp.array[int], counts: wp.array[int]) -> None:
    row = wp.tid()
    counts[row] = row_end(offsets, row_counts, row) - offsets[row]


@wp.kernel(enable_backward=False)
def _copy_columns(
    source_offsets: wp.array[int],
    source_counts: wp.array[int],
    source: wp.array[int],
    offsets: wp.array[int],
    columns: wp.array[int],
) -> None:
    row = wp.tid()
    begin = source_offsets[row]
    for k in range(row_end(source_offsets, source_counts, row) - begin):
        columns[offsets[row] + k] = source[begin + k]


@wp.kernel
def _copy_blocks(
    scale: Any,
    source_offsets: wp.array[int],
    source: wp.array[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    shift = source_offsets[row] - offsets[row]
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        values[block] = scale * source[block + shift]


@wp.kernel(enable_backward=False)
def _list_parts(
    row_count: int,
    parts: wp.vec2i,
    source_shape: wp.vec2i,
    shape: wp.vec2i,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    source: wp.array[int],
    rows: wp.array[int],
    columns: wp.array[int],
) -> None:
    block, i, j = wp.tid()
    part = (block * parts[0] + i) * parts[1] + j
    row = bsr_row_index(offsets, row_count, block, row_counts)
    rows[part] = -1
    columns[part] = -1
    if row >= 0:
        rows[part] = (row * source_shape[0] + i * (source_shape[0] // parts[0])) // shape[0]
        columns[part] = (source[block] * source_shape[1] + j * (source_shape[1] // parts[1])) // shape[1]


@wp.kernel
def _copy_numbers(
    scale: Any,
    source_offsets: wp.array[int],
    source_counts: wp.array[int],
    source_columns: wp.array[int],
    source: wp.array3d[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
) -> None:
    row, i = wp.tid()
    r = row * source.shape[1] + i
    dest_row = r // values.shape[1]
    for block in range(source_offsets[row], row_end(source_offsets, source_counts, row)):
        for j in range(source.shape[2]):
            c = source_columns[block] * source.shape[2] + j
            dest_column = c // values.shape[2]
            found = bsr_block_index(dest_row, dest_column, offsets, columns, row_counts)
            if found >= 0:
                values[found, r - dest_row * values.shape[1], c - dest_column * values.shape[2]] = values.dtype(
                    scale * source[block, i, j]
                )


def bsr_assign(dest: BsrMatrix, src: Any, structure_only: bool = False, topology: str | None = None) -> None:
    """Let a matrix have the blocks of another one, as numbers of its own type in blocks of its own shape.

    A tape differentiates the values.

    Args:
        dest: The matrix to change. It may be the same as ``src``.
        src: The matrix to copy, or a multiple of one.
        structure_only: Copy the places of blocks and leave the values uninitialised.
        topology: ``"compact"``: the blocks of ``src`` replace those of ``dest``. ``"masked"``: ``dest`` keeps its
            blocks; what they hold elsewhere becomes zero. ``"padded"``: rows keep their capacity, and
            ``dest.status_sync()`` tells where it was too small.

    Raises:
        ValueError: The shapes do not fit, or the matrices lie on different devices.
        TypeError: ``src`` is no matrix.
    """
    source, scale = scaled(src, "src")
    topology = require_topology("bsr_assign", topology)
    if dest.device != source.device:
        raise ValueError(f"bsr_assign(): the matrices lie on one device, got {dest.device} and {source.device}")
    rows, columns = _fitting_size(dest, source)
    if shares_rows(source, dest):
        source = _shallow_copy(source)
    if topology == "compact":
        resize(dest, rows, columns)
    elif (rows, columns) != (dest.nrow, dest.ncol):
        raise ValueError(
            f"bsr_assign() with topology={topology!r}: the matrices have the same shape, got {dest.shape} and "
            f"{source.shape}"
        )
    if topology != "masked":
        _assign_topology(dest, source, topology == "padded")
    if structure_only:
        reserve(dest, dest.nnz)
        return
    new_values(dest, dest.nnz, (source.values,))
    if dest.dtype is source.dtype and topology != "masked":
        arguments = [source.scalar_type(scale), source.offsets, source.values]
        outputs = [dest.offsets, dest.row_counts, dest.values]
        wp.launch(_copy_blocks, dim=dest.nrow, inputs=arguments, outputs=outputs, device=dest.device)
        return
    dest.values.zero_()  # places that no block of the source covers
    stored = [source.offsets, source.row_counts, source.columns, source.scalar_values]
    outputs = [dest.offsets, dest.row_counts, dest.columns, dest.scalar_values]
    arguments = [source.scalar_type(scale), *stored]
    grid = (source.nrow, source.block_shape[0])
    wp.launch(_copy_numbers, dim=grid, inputs=arguments, outputs=outputs, device=dest.device)


def _shallow_copy(A: BsrMatrix) -> BsrMatrix:
    """A matrix with the same arrays, which stays as it is when ``A`` gets others."""
    copied: BsrMatrix = A.__copy__()  # type: ignore[attr-defined]
    copied.offsets = wp.clone(A.offsets)
    copied.columns = wp.clone(A.columns)
    if A.row_counts is not None:
        copied.row_counts = wp.clone(A.row_counts)
    return copied


def _fitting_size(dest: BsrMatrix, source: BsrMatrix) -> tuple[int, int]:
    """The rows and columns of blocks that ``dest`` has as a copy.

    Raises:
        ValueError: One shape of blocks does not divide the other, or not the whole matrix.
    """
    mine, others = dest.block_shape, source.block_shape
    if any(a % b and b % a for a, b in zip(mine, others, strict=True)):
        raise ValueError(f"Incompatible dest and src block shapes {mine} and {others}: one has to divide the other")
    if any(n % b for n, b in zip(source.shape, mine, strict=True)):
        raise ValueError(
            f"The requested block shape {mine} does not evenly divide the source matrix of total size {source.shape}"
        )
    return source.shape[0] // mine[0], source.shape[1] // mine[1]


def _assign_topology(dest: BsrMatrix, source: BsrMatrix, padded: bool) -> None:
    if dest.block_shape == source.block_shape:
        offsets, columns = _compact_rows(source)
        adopt(dest, offsets, columns, source.nnz, padded)
        return
    mine, others = dest.block_shape, source.block_shape
    parts = tuple(max(1, b // a) for a, b in zip(mine, others, strict=True))
    n = source.nnz * parts[0] * parts[1]
    rows, columns = (wp.empty(n, dtype=int, device=dest.device) for _ in range(2))
    sizes = [source.nrow, wp.vec2i(*parts), wp.vec2i(*others), wp.vec2i(*mine)]
    stored = [source.offsets, source.row_counts, source.columns]
    wp.launch(_list_parts, dim=(source.nnz, *parts), inputs=[*sizes, *stored, rows, columns], device=dest.device)
    starts, pairs = entries_by_row((dest.nrow, dest.ncol), rows, columns)
    set_topology(dest, starts, pairs, padded)


def _compact_rows(A: BsrMatrix) -> tuple[Any, Any]:
    """Offsets and columns of the blocks of ``A`` without gaps, in arrays of their own."""
    counts = wp.zeros(A.nrow + 1, dtype=int, device=A.device)
    wp.launch(_count_blocks, dim=A.nrow, inputs=[A.offsets, A.row_counts, counts], device=A.device)
    offsets = scan_counts(counts)
    columns = wp.empty(A.nnz, dtype=int, device=A.device)
    arguments = [A.offsets, A.row_counts, A.columns, offsets, columns]
    wp.launch(_copy_columns, dim=A.nrow, inputs=arguments, device=A.device)
    return offsets, columns


def bsr_copy(
    A: Any,
    scalar_type: Any = None,
    block_shape: tuple[int, int] | None = None,
    structure_only: bool = False,
    topology: str = "compact",
) -> BsrMatrix:
    """Return a copy of a matrix, also with numbers of another type, or blocks of another shape.

    A tape differentiates the values.

    Args:
        A: The matrix, or a multiple of one.
        scalar_type: The type of the numbers; that of ``A`` when left out.
        block_shape: The shape of the blocks; that of ``A`` when left out. Each extent divides that of ``A`` or is a
            multiple of it.
        structure_only: Copy the places of blocks and leave the values uninitialised.
        topology: ``"compact"``, or ``"padded"`` to keep the capacity of rows.

    Raises:
        ValueError: The shape of blocks does not fit.
        TypeError: ``A`` is no matrix.
    """
    source, _ = scaled(A, "A")
    require_topology("bsr_copy", topology, ("compact", "padded"))
    shape = source.block_shape if block_shape is None else (int(block_shape[0]), int(block_shape[1]))
    scalar = source.scalar_type if scalar_type is None else wp.empty(0, dtype=scalar_type).dtype
    same = shape == source.block_shape and scalar is source.scalar_type
    copied = bsr_zeros(0, 0, source.dtype if same else block_type(shape, scalar), source.device)
    if source.requires_grad:
        copied.values.requires_grad = True
    rows, columns = _fitting_size(copied, source)
    if topology == "padded":
        _copy_capacity(copied, source, rows, columns)
    bsr_assign(copied, A, structure_only, topology)
    return copied


@wp.kernel(enable_backward=False)
def _count_capacity(
    row_count: int, parts: int, merged: int, columns: int, offsets: wp.array[int], counts: wp.array[int]
) -> None:
    row = wp.tid()
    total = 0
    for source in range(row * merged // parts, wp.min(row_count, (row * merged) // parts + merged)):
        total += (offsets[source + 1] - offsets[source]) * columns
    counts[row] = total


def _copy_capacity(copied: BsrMatrix, source: BsrMatrix, rows: int, columns: int) -> None:
    """Make ``copied`` a padded matrix whose rows have room for all blocks that fit into the source's rows."""
    mine, others = copied.block_shape, source.block_shape
    parts, merged = max(1, others[0] // mine[0]), max(1, mine[0] // others[0])
    resize(copied, rows, columns)
    counts = wp.zeros(rows + 1, dtype=int, device=source.device)
    each = max(1, others[1] // mine[1])
    wp.launch(
        _count_capacity,
        dim=rows,
        inputs=[source.nrow, parts, merged, each, source.offsets, counts],
        device=source.device,
    )
    copied.offsets = scan_counts(counts)
    copied.row_counts = wp.zeros(rows, dtype=int, device=source.device)
    status_of(copied)
    copied.nnz = source.nnz * parts * each
    reserve(copied, copied.nnz)


# --- rows put in order ---


def bsr_compress(
    src: BsrMatrix,
    prune_numerical_zeros: bool = True,
    inplace: bool = False,
    topology: str | None = None,
    structure_only: bool = False,
) -> BsrMatrix:
    """Sort the blocks of each row by column, add up those of one column, and drop those outside of the matrix.

    A tape differentiates the values.

    Args:
        src: The matrix, which is changed; its ``columns`` may be in any order.
        prune_numerical_zeros: Drop blocks that are zero.
        inplace: Accepted as in Warp; the result is the same.
        topology: ``"compact"``, or ``"padded"`` to keep the capacity of rows.
        structure_only: Sort the columns and leave the values as they are, which then belong to no columns.

    Returns:
        ``src``.

    Raises:
        ValueError: There is no such topology, or ``"padded"`` is asked for of a compact matrix.
    """
    topology = require_topology("bsr_compress", topology, ("compact", "padded"))
    padded = topology == "padded"
    prune = prune_numerical_zeros and not structure_only
    rows = src.uncompress_rows()
    starts, pairs = entries_by_row(
        (src.nrow, src.ncol), rows, src.columns[: src.nnz], nonzero=src.values if prune else None
    )
    if structure_only:
        set_topology(src, starts, pairs, padded)
    else:
        set_from_entries(src, starts, pairs, src.values, padded)
    return src
