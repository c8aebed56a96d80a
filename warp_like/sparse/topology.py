"""Which blocks a matrix has: rows of sorted columns made of entries in any order.

Entries are counted by row (each learns its place within the row), scattered to their rows, and sorted there. A pair is
an entry in 64 bits, the column above its number, so that sorting is by column and then by number: the result is the
same whatever order the threads came in. Entries of one column become one block; ``Groups`` says which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import warp_like as wp
from warp_like.sparse.lookup import is_zero
from warp_like.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED, BsrMatrix, reserve, status_of

TOPOLOGIES = ("compact", "masked", "padded")
SHORT = 24
"""Rows up to this length are sorted by insertion, longer ones by a heap."""

_EXCEEDED = BSR_STATUS_ROW_CAPACITY_EXCEEDED


class Groups(NamedTuple):
    """The entries of each block of a result.

    Attributes:
        offsets: Where each row of a compact result begins.
        ends: For each block of the compact result, where its entries end in ``pairs``.
        pairs: The entries, block by block; the number of an entry is in the lower 32 bits.
    """

    offsets: Any
    ends: Any
    pairs: Any


def require_topology(name: str, topology: str | None, allowed: tuple[str, ...] = TOPOLOGIES) -> str:
    """Return the topology, ``"compact"`` for None.

    Raises:
        ValueError: There is no such topology.
    """
    if topology is None:
        return "compact"
    if topology not in allowed:
        raise ValueError(f"{name}(): topology is one of {', '.join(map(repr, allowed))}, got {topology!r}")
    return topology


@wp.func
def _rank(row: int, column: int, row_count: int, column_count: int, counts: wp.array[int]) -> int:
    """The place of an entry among those of its row; -1 for entries outside of the matrix."""
    if row < 0 or row >= row_count or column < 0 or column >= column_count:
        return -1
    return wp.atomic_add(counts, row, 1)


@wp.kernel(enable_backward=False, deterministic=False)
def _count_entries(
    row_count: int,
    column_count: int,
    rows: wp.array[int],
    columns: wp.array[int],
    limit: wp.array[int],
    counts: wp.array[int],
    ranks: wp.array[int],
) -> None:
    i = wp.tid()
    rank = -1
    if not limit or i < limit[0]:
        rank = _rank(rows[i], columns[i], row_count, column_count, counts)
    ranks[i] = rank


@wp.kernel(enable_backward=False, deterministic=False)
def _count_nonzero_entries(
    row_count: int,
    column_count: int,
    rows: wp.array[int],
    columns: wp.array[int],
    limit: wp.array[int],
    values: wp.array[Any],
    counts: wp.array[int],
    ranks: wp.array[int],
) -> None:
    i = wp.tid()
    rank = -1
    if (not limit or i < limit[0]) and not is_zero(values[i]):
        rank = _rank(rows[i], columns[i], row_count, column_count, counts)
    ranks[i] = rank


@wp.kernel(enable_backward=False)
def _scatter_entries(
    rows: wp.array[int],
    columns: wp.array[int],
    ranks: wp.array[int],
    starts: wp.array[int],
    pairs: wp.array[wp.int64],
) -> None:
    i = wp.tid()
    rank = ranks[i]
    if rank >= 0:
        pairs[starts[rows[i]] + rank] = (wp.int64(columns[i]) << wp.int64(32)) | wp.int64(i)


@wp.func
def sort_range(keys: wp.array[Any], begin: int, end: int) -> None:
    """Sort the elements from ``begin`` to ``end``, ascending."""
    if end - begin <= wp.static(SHORT):
        for i in range(begin + 1, end):
            key = keys[i]
            place = int(i)
            while place > begin and keys[place - 1] > key:
                keys[place] = keys[place - 1]
                place -= 1
            keys[place] = key
    else:
        _heap_sort(keys, begin, end - begin)


@wp.func
def _heap_sort(keys: wp.array[Any], begin: int, count: int) -> None:
    top = count // 2
    size = int(count)
    while size > 1:
        if top > 0:
            top -= 1
            key = keys[begin + top]
        else:
            size -= 1
            key = keys[begin + size]
            keys[begin + size] = keys[begin]
        parent = int(top)
        child = 2 * parent + 1
        while child < size:
            if child + 1 < size and keys[begin + child + 1] > keys[begin + child]:
                child += 1
            if keys[begin + child] > key:
                keys[begin + parent] = keys[begin + child]
                parent = child
                child = 2 * parent + 1
            else:
                child = size
        keys[begin + parent] = key


@wp.kernel(enable_backward=False)
def _sort_rows(starts: wp.array[int], pairs: wp.array[wp.int64], counts: wp.array[int]) -> None:
    row = wp.tid()
    begin = starts[row]
    end = starts[row + 1]
    sort_range(pairs, begin, end)
    blocks = 0
    last = wp.int64(-1)
    for k in range(begin, end):
        column = pairs[k] >> wp.int64(32)
        if column != last:
            blocks += 1
        last = column
    counts[row] = blocks


@wp.kernel(enable_backward=False)
def _list_blocks(
    starts: wp.array[int],
    pairs: wp.array[wp.int64],
    offsets: wp.array[int],
    columns: wp.array[int],
    ends: wp.array[int],
) -> None:
    row = wp.tid()
    block = offsets[row] - 1
    last = wp.int64(-1)
    for k in range(starts[row], starts[row + 1]):
        column = pairs[k] >> wp.int64(32)
        if column != last:
            block += 1
            columns[block] = int(column)
        last = column
        ends[block] = k + 1


@wp.kernel(enable_backward=False)
def _place_rows(
    source_offsets: wp.array[int],
    source_columns: wp.array[int],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    status: wp.array[int],
) -> None:
    row = wp.tid()
    begin = source_offsets[row]
    count = source_offsets[row + 1] - begin
    place = offsets[row]
    if count > offsets[row + 1] - place:
        count = 0
        wp.atomic_max(status, 0, wp.static(_EXCEEDED))
    row_counts[row] = count
    for k in range(count):
        columns[place + k] = source_columns[begin + k]


@wp.kernel(enable_backward=False)
def _fit_rows(counts: wp.array[int], offsets: wp.array[int], row_counts: wp.array[int], status: wp.array[int]) -> None:
    row = wp.tid()
    count = counts[row]
    if count > offsets[row + 1] - offsets[row]:
        count = 0
        wp.atomic_max(status, 0, wp.static(_EXCEEDED))
    row_counts[row] = count


def fit_rows(dest: BsrMatrix, counts: Any) -> None:
    """Set how many blocks the rows of a padded matrix have; those that don't fit become empty, which the status tells.

    Raises:
        ValueError: The matrix has no row capacity.
    """
    require_capacity(dest)
    arguments = [counts, dest.offsets, dest.row_counts, status_of(dest)]
    wp.launch(_fit_rows, dim=dest.nrow, inputs=arguments, device=dest.device)


def require_capacity(dest: BsrMatrix) -> None:
    """Check that a matrix is padded.

    Raises:
        ValueError: It is not.
    """
    if dest.row_counts is None:
        raise ValueError("topology='padded' needs a matrix with row capacity; make it by bsr_zeros(row_capacity=)")


def scan_counts(counts: Any) -> Any:
    """Return where each row begins, of counts with a last element that does not count."""
    offsets = wp.empty_like(counts)
    wp.utils.array_scan(counts, offsets, inclusive=False)
    return offsets


def entries_by_row(
    shape: tuple[int, int], rows: Any, columns: Any, limit: Any = None, nonzero: Any = None
) -> tuple[Any, Any]:
    """Return where the entries of each row begin, and the entries as pairs, not sorted yet.

    Args:
        shape: Rows and columns; entries outside are left out.
        rows: The row of each entry.
        columns: Its column.
        limit: An array with the number of entries that count, or None.
        nonzero: Blocks, one for each entry: entries whose block is zero are left out. None keeps them.
    """
    n, device = rows.size, rows.device
    counts = wp.zeros(shape[0] + 1, dtype=int, device=device)
    ranks = wp.empty(n, dtype=int, device=device)
    if nonzero is None:
        wp.launch(_count_entries, dim=n, inputs=[*shape, rows, columns, limit, counts, ranks], device=device)
    else:
        arguments = [*shape, rows, columns, limit, nonzero, counts, ranks]
        wp.launch(_count_nonzero_entries, dim=n, inputs=arguments, device=device)
    starts = scan_counts(counts)
    pairs = wp.empty(n, dtype=wp.int64, device=device)
    wp.launch(_scatter_entries, dim=n, inputs=[rows, columns, ranks, starts, pairs], device=device)
    return starts, pairs


def set_topology(dest: BsrMatrix, starts: Any, pairs: Any, padded: bool) -> Groups:
    """Let ``dest`` have the blocks of the entries; its values are not set.

    Compact matrices get new arrays of the right size where the old ones are too small; in padded ones rows keep their
    capacity, and rows whose blocks don't fit become empty, which the status tells.
    """
    device, bound = dest.device, pairs.size
    counts = wp.zeros(dest.nrow + 1, dtype=int, device=device)
    wp.launch(_sort_rows, dim=dest.nrow, inputs=[starts, pairs, counts], device=device)
    ends = wp.empty(bound, dtype=int, device=device)
    if padded:
        columns = wp.empty(bound, dtype=int, device=device)
    else:
        reserve(dest, bound)
        columns = dest.columns
    offsets = scan_counts(counts)
    wp.launch(_list_blocks, dim=dest.nrow, inputs=[starts, pairs, offsets, columns, ends], device=device)
    adopt(dest, offsets, columns, bound, padded)
    return Groups(offsets, ends, pairs)


def adopt(dest: BsrMatrix, offsets: Any, columns: Any, bound: int, padded: bool) -> None:
    """Give ``dest`` the rows of a compact topology with at most ``bound`` blocks."""
    if padded:
        require_capacity(dest)
        arguments = [offsets, columns, dest.offsets, dest.row_counts, dest.columns, status_of(dest)]
        wp.launch(_place_rows, dim=dest.nrow, inputs=arguments, device=dest.device)
        return
    if dest.offsets.size > dest.nrow:
        wp.copy(dest.offsets, offsets, count=dest.nrow + 1)
    else:
        dest.offsets = offsets
    dest.row_counts = None
    dest.columns = columns
    dest.nnz = bound
