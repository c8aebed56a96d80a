"""Matrices made of entries: a row, a column and a block each, in any order, also several at one place."""

from __future__ import annotations

import operator
from typing import Any

import warp_like as wp
from warp_like.sparse.counting import entries_by_row
from warp_like.sparse.creation import bsr_zeros
from warp_like.sparse.lookup import blocks_of, bsr_block_index
from warp_like.sparse.matrix import BsrMatrix, block_type, composed, new_values
from warp_like.sparse.topology import ONE, Groups, adopt, column_of, require_topology, set_topology, sort_rows


@wp.func
def _entry(pair: wp.int64) -> wp.uint32:
    return wp.uint32(pair & wp.int64(0x7FFFFFFF))  # a signed index is tested: negative, it is from the end


@wp.kernel
def _sum_entries(
    compact: wp.array[int],
    ends: wp.array[int],
    pairs: wp.array[wp.int64],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    entries: wp.array[Any],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    block, last = blocks_of(offsets, row_counts, row)
    source = wp.uint32(compact[row])
    begin = wp.uint32(0)
    if source > wp.uint32(0):
        begin = wp.uint32(ends[source - ONE])
    for k in range(last - block):
        end = wp.uint32(ends[source + k])
        total = entries[_entry(pairs[begin])]
        for entry in range(begin + ONE, end):
            total += entries[_entry(pairs[entry])]
        values[block + k] = total
        begin = end


@wp.kernel(enable_backward=False)
def _sum_rows(
    starts: wp.array[int],
    pairs: wp.array[wp.int64],
    entries: wp.array[Any],
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    block = wp.uint32(offsets[row])
    begin = wp.uint32(starts[row])
    end = wp.uint32(starts[row + 1])
    while begin < end:
        column = column_of(pairs[begin])
        total = entries[_entry(pairs[begin])]
        begin += ONE
        while begin < end and column_of(pairs[begin]) == column:
            total += entries[_entry(pairs[begin])]
            begin += ONE
        columns[block] = column
        values[block] = total
        block += ONE


@wp.kernel
def _add_to_blocks(
    row_count: int,
    column_count: int,
    rows: wp.array[int],
    columns: wp.array[int],
    limit: wp.array[int],
    entries: wp.array[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    stored: wp.array[int],
    values: wp.array[Any],
) -> None:
    i = wp.tid()
    if limit and i >= limit[0]:
        return
    row = rows[i]
    column = columns[i]
    if row >= 0 and row < row_count and column >= 0 and column < column_count:
        block = bsr_block_index(row, column, offsets, stored, row_counts)
        if block >= 0:
            wp.atomic_add(values, block, entries[i])


@wp.kernel(enable_backward=False)
def _map_entries(
    ends: wp.array[int],
    pairs: wp.array[wp.int64],
    total: wp.array[int],
    last: int,
    indices: wp.array[int],
    blocks: wp.array[int],
) -> None:
    block = wp.tid()
    if block >= total[last]:
        return
    begin = 0
    if block > 0:
        begin = ends[block - 1]
    for k in range(begin, ends[block]):
        entry = _entry(pairs[k])
        indices[k] = int(entry)
        blocks[entry] = block


@wp.kernel
def _gather_mapped(
    last: int,
    offsets: wp.array[int],
    ends: wp.array[int],
    indices: wp.array[int],
    entries: wp.array[Any],
    values: wp.array[Any],
) -> None:
    block = wp.tid()
    if block >= offsets[last]:
        return
    begin = 0
    if block > 0:
        begin = ends[block - 1]
    total = entries[indices[begin]]
    for k in range(begin + 1, ends[block]):
        total += entries[indices[k]]
    values[block] = total


@wp.kernel
def _clear_blocks(last: int, offsets: wp.array[int], values: wp.array[Any]) -> None:
    block = wp.tid()
    if block < offsets[last]:
        values[block] = values.dtype(0.0)


@wp.kernel
def _add_mapped(blocks: wp.array[int], entries: wp.array[Any], values: wp.array[Any]) -> None:
    i = wp.tid()
    if blocks[i] >= 0:
        wp.atomic_add(values, blocks[i], entries[i])


class BsrTripletMap:
    """Which block of a matrix each entry went to, so that new values need no search.

    ``bsr_set_from_triplets(build_mapping=...)`` fills one, ``bsr_set_from_mapped_values`` uses it. The blocks of the
    matrix must stay the same in between; their values may change.

    Args:
        capacity: For how many entries to make room. There is more room when a map for more entries is made.
        device: Where the map shall be.
    """

    def __init__(self, capacity: int = 0, device: Any = None) -> None:
        self.triplet_count = 0
        """The number of entries that the map was made for."""
        self._storage = _map_storage(operator.index(capacity), wp.get_device(device))
        self._matrix: tuple[Any, ...] | None = None

    @property
    def device(self) -> Any:
        """Where the map is."""
        return self._storage[0].device

    @property
    def capacity(self) -> int:
        """For how many entries there is room."""
        return int(self._storage[0].size)

    @property
    def _block_ends(self) -> Any:
        return self._storage[0][: self.triplet_count]

    @property
    def _triplet_indices(self) -> Any:
        return self._storage[1][: self.triplet_count]

    @property
    def _triplet_blocks(self) -> Any:
        return self._storage[2][: self.triplet_count]

    def validate(self, dest: BsrMatrix) -> None:
        """Check that this is a map to ``dest``, by its size and by which arrays it has, not by what these hold.

        Raises:
            ValueError: The map has not been built, or for another matrix.
        """
        if self._matrix is None:
            raise ValueError("the triplet map has not been built; pass it to bsr_set_from_triplets() first")
        if self._matrix != _identity(dest):
            raise ValueError("the triplet map was built for other blocks than those of the destination matrix")

    def _build(self, dest: BsrMatrix, groups: Groups, count: int) -> None:
        if count > self.capacity:
            self._storage = _map_storage(count, self.device)
        self.triplet_count = count
        self._triplet_blocks.fill_(-1)
        wp.copy(self._storage[0], groups.ends, count=count)
        arguments = [groups.ends, groups.pairs, groups.offsets, dest.nrow, self._storage[1], self._storage[2]]
        wp.launch(_map_entries, dim=count, inputs=arguments, device=self.device)
        self._matrix = _identity(dest)


def _map_storage(capacity: int, device: Any) -> list[Any]:
    return [wp.empty(capacity, dtype=int, device=device) for _ in range(3)]


def _identity(bsr: BsrMatrix) -> tuple[Any, ...]:
    counts = None if bsr.row_counts is None else bsr.row_counts.ptr
    return (bsr.nrow, bsr.ncol, bsr.offsets.ptr, bsr.columns.ptr, counts)


# --- arguments ---


def as_blocks(values: Any, bsr: BsrMatrix, name: str) -> Any:
    """Return blocks as a one-dimensional array of the matrix's block type, a view.

    Raises:
        ValueError: They have another shape or another type.
    """
    values = values if isinstance(values, wp.array) else wp.array(values, dtype=bsr.dtype, copy=False)
    if values.ndim == 1 and values.dtype is bsr.dtype:
        return values
    scalar, shape = bsr.scalar_type, bsr.block_shape
    numbers = values
    if values.ndim == 1 and getattr(values.dtype, "_shape_", None) == shape:
        numbers = values.view(getattr(values.dtype, "_wp_scalar_type_", values.dtype))
    if numbers.dtype is not scalar or (numbers.ndim == 1 and shape != (1, 1)) or numbers.ndim not in (1, 3):
        raise ValueError(
            f"{name} are blocks of {bsr.dtype.__name__}, or an array of {scalar.__name__} of shape "
            f"(n, {shape[0]}, {shape[1]}), got {values!r}"
        )
    if numbers.ndim == 3 and numbers.shape[1:] != shape:
        raise ValueError(f"{name} have the shape (n, {shape[0]}, {shape[1]}), got {numbers.shape}")
    return composed(numbers, numbers.shape[0], bsr.dtype)


def _indices(given: Any, bsr: BsrMatrix, name: str) -> Any:
    found = given if isinstance(given, wp.array) else wp.array(given, copy=False)
    if found.dtype is not wp.int32:
        raise TypeError("Rows and columns arrays must be of type int32")
    if found.ndim != 1:
        raise ValueError(f"bsr_set_from_triplets(): `{name}` has one dimension, got shape {found.shape}")
    _require_device(found, bsr, name)
    return found


def _require_device(a: Any, bsr: BsrMatrix, name: str) -> None:
    if a.device != bsr.device:
        raise ValueError(f"`{name}` lies on the device of the matrix, {bsr.device}, got {a.device}")


def _require_map(given: Any, bsr: BsrMatrix, topology: str, prune: bool) -> BsrTripletMap | None:
    """Return the map to fill, a new one for True.

    Raises:
        TypeError: It is neither a map nor a bool.
        ValueError: It lies on another device, or there is no map for what is asked.
    """
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, BsrTripletMap):
        raise TypeError(f"build_mapping is a BsrTripletMap or a bool, got {type(given).__name__}")
    if topology != "compact":
        raise ValueError(f"build_mapping is only supported for topology='compact', got {topology!r}")
    if prune:
        raise ValueError("build_mapping requires prune_numerical_zeros=False: the map serves other values, too")
    mapping = BsrTripletMap(device=bsr.device) if given is True else given
    if mapping.device != bsr.device:
        raise ValueError(f"the map and the matrix lie on the same device, got {mapping.device} and {bsr.device}")
    return mapping


# --- the functions ---


def bsr_set_from_triplets(
    dest: BsrMatrix,
    rows: Any,
    columns: Any,
    values: Any = None,
    count: Any = None,
    prune_numerical_zeros: bool = True,
    topology: str | None = None,
    build_mapping: BsrTripletMap | bool | None = None,
) -> BsrTripletMap | None:
    """Let a matrix consist of entries: a row, a column and a block each. Entries at one place are added up.

    The entries may have any order. Those outside of the matrix are left out. Blocks are summed in the order of the
    entries, so the result does not depend on the number of threads. A tape differentiates the values.

    Args:
        dest: The matrix.
        rows: The row of blocks of each entry, int32.
        columns: The column of blocks of each entry, int32.
        values: The block of each entry: an array of blocks, or of numbers with the shape
            ``(n, rows of a block, columns of a block)``. None leaves the values of the matrix uninitialised.
        count: An array of one int32: how many entries count. All of them when left out.
        prune_numerical_zeros: Leave out entries whose blocks are zero.
        topology: ``"compact"``: new blocks replace the old ones. ``"masked"``: only the places that have a block
            already get entries. ``"padded"``: rows keep their capacity, and ``dest.status_sync()`` tells where it was
            too small.
        build_mapping: True for a map with which ``bsr_set_from_mapped_values`` sets other values, or a map to build
            again. For compact matrices, without pruning.

    Returns:
        The map, where one is built.

    Raises:
        TypeError: ``rows`` or ``columns`` are not int32.
        ValueError: The shapes, types or devices do not fit.
    """
    topology = require_topology("bsr_set_from_triplets", topology)
    mapping = _require_map(build_mapping, dest, topology, prune_numerical_zeros)
    rows, columns = _indices(rows, dest, "rows"), _indices(columns, dest, "columns")
    blocks = None if values is None else as_blocks(values, dest, "values")
    n = rows.size
    if columns.size != n or (blocks is not None and blocks.size != n):
        found = f"{n} rows, {columns.size} columns" + ("" if blocks is None else f" and {blocks.size} values")
        raise ValueError(f"bsr_set_from_triplets(): there is one row, column and value for each entry, got {found}")
    if blocks is not None:
        _require_device(blocks, dest, "values")
    if topology == "masked":
        _set_masked(dest, rows, columns, blocks, count)
        return None
    nonzero = blocks if prune_numerical_zeros else None
    starts, pairs = entries_by_row((dest.nrow, dest.ncol), rows, columns, count, nonzero)
    if mapping is None:
        set_from_entries(dest, starts, pairs, blocks, topology == "padded")
    else:
        mapping._build(dest, _set_groups(dest, starts, pairs, blocks, False), n)
    return mapping


def set_from_entries(dest: BsrMatrix, starts: Any, pairs: Any, blocks: Any, padded: bool) -> None:
    """Let a matrix consist of entries that are ordered by row already: of their blocks."""
    if padded or blocks is None or blocks.requires_grad or dest.requires_grad:
        _set_groups(dest, starts, pairs, blocks, padded)
        return
    offsets, bound = sort_rows(starts, pairs), pairs.size  # nobody will ask which entries a block has
    columns = dest.columns if dest.columns.size >= bound else wp.empty(bound, dtype=int, device=dest.device)
    new_values(dest, bound, (blocks,))
    wp.launch(
        _sum_rows, dim=dest.nrow, inputs=[starts, pairs, blocks, offsets, columns, dest.values], device=dest.device
    )
    adopt(dest, offsets, columns, bound, False)


def _set_groups(dest: BsrMatrix, starts: Any, pairs: Any, blocks: Any, padded: bool) -> Groups:
    """Do the same, and return which entries each block has."""
    groups = set_topology(dest, starts, pairs, padded)
    if blocks is None:
        new_values(dest, dest.nnz, ())
        return groups
    new_values(dest, dest.nnz, (blocks,))
    arguments = [*groups, dest.offsets, dest.row_counts, blocks, dest.values]
    wp.launch(_sum_entries, dim=dest.nrow, inputs=arguments, device=dest.device)
    return groups


def _set_masked(dest: BsrMatrix, rows: Any, columns: Any, blocks: Any, count: Any) -> None:
    if blocks is None:
        raise ValueError("bsr_set_from_triplets() with topology='masked' needs values")
    new_values(dest, dest.nnz, (blocks,))
    dest.values.zero_()
    stored = [dest.offsets, dest.row_counts, dest.columns, dest.values]
    arguments = [dest.nrow, dest.ncol, rows, columns, count, blocks, *stored]
    wp.launch(_add_to_blocks, dim=rows.size, inputs=arguments, device=dest.device)


def bsr_set_from_mapped_values(dest: BsrMatrix, mapping: BsrTripletMap, values: Any, reduction: str = "gather") -> None:
    """Set the values of a matrix from those of entries whose places are known. A tape differentiates it.

    Args:
        dest: The matrix that the map was built for.
        mapping: The map.
        values: The block of each entry, as for ``bsr_set_from_triplets``.
        reduction: ``"gather"``: a thread for each block, which sums its entries in their order. ``"atomic"``: a thread
            for each entry.

    Raises:
        ValueError: The map is not one for ``dest``, the values do not fit, or there is no such reduction.
    """
    if reduction not in ("gather", "atomic"):
        raise ValueError(f"reduction is 'gather' or 'atomic', got {reduction!r}")
    mapping.validate(dest)
    blocks = as_blocks(values, dest, "values")
    if blocks.size != mapping.triplet_count:
        raise ValueError(f"the map is for {mapping.triplet_count} entries, got {blocks.size} values")
    _require_device(blocks, dest, "values")
    new_values(dest, dest.nnz, (blocks,))
    if reduction == "gather":
        arguments = [dest.nrow, dest.offsets, mapping._block_ends, mapping._triplet_indices, blocks, dest.values]
        wp.launch(_gather_mapped, dim=dest.nnz, inputs=arguments, device=dest.device)
        return
    wp.launch(_clear_blocks, dim=dest.nnz, inputs=[dest.nrow, dest.offsets, dest.values], device=dest.device)
    wp.launch(_add_mapped, dim=blocks.size, inputs=[mapping._triplet_blocks, blocks, dest.values], device=dest.device)


def bsr_from_triplets(
    rows_of_blocks: int,
    cols_of_blocks: int,
    rows: Any,
    columns: Any,
    values: Any,
    prune_numerical_zeros: bool = True,
) -> BsrMatrix:
    """Return a compact matrix made of entries; those at one place are added up. A tape differentiates the values.

    Args:
        rows_of_blocks: Number of rows of blocks.
        cols_of_blocks: Number of columns of blocks.
        rows: The row of blocks of each entry, int32.
        columns: The column of blocks of each entry, int32.
        values: The block of each entry: an array of blocks, or of numbers with the shape
            ``(n, rows of a block, columns of a block)``.
        prune_numerical_zeros: Leave out entries whose blocks are zero.

    Returns:
        The matrix. Its ``nnz`` is the number of entries until ``nnz_sync()`` is called.

    Raises:
        TypeError: ``rows`` or ``columns`` are not int32.
        ValueError: The shapes, types or devices do not fit.

    Example:
        >>> from warp_like.sparse import bsr_from_triplets
        >>> rows, columns = wp.array([0, 1, 1], dtype=int), wp.array([0, 1, 1], dtype=int)
        >>> A = bsr_from_triplets(2, 2, rows, columns, wp.array([1.0, 2.0, 3.0]))
        >>> (A @ wp.array([1.0, 1.0])).list()
        [1.0, 5.0]
    """
    values = values if isinstance(values, wp.array) else wp.array(values, copy=False)
    dtype = block_type(values.shape[1:], values.dtype) if values.ndim == 3 else values.dtype
    A = bsr_zeros(rows_of_blocks, cols_of_blocks, dtype, values.device)
    bsr_set_from_triplets(A, rows, columns, values, prune_numerical_zeros=prune_numerical_zeros)
    return A
