"""Which blocks a matrix has: rows of sorted columns made of entries in any order.

Entries in the order of their rows (``counting.py``) are sorted there by column. Those of one column become one block;
``Groups`` says which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import warp_like as wp
from warp_like.sparse.counting import scan_counts
from warp_like.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED, BsrMatrix, reserve, status_of

TOPOLOGIES = ("compact", "masked", "padded")
SHORT = 24
"""Rows up to this length are sorted by insertion, longer ones by a heap."""

ONE = wp.uint32(1)
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
def sort_range(keys: wp.array[Any], begin: wp.uint32, end: wp.uint32) -> None:
    """Sort the elements from ``begin`` to ``end``, ascending."""
    if end - begin <= wp.uint32(SHORT):
        for i in range(begin + ONE, end):
            key = keys[i]
            place = wp.uint32(i)
            while place > begin and keys[place - ONE] > key:
                keys[place] = keys[place - ONE]
                place -= ONE
            keys[place] = key
    else:
        _heap_sort(keys, int(begin), int(end - begin))


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


@wp.func
def column_of(pair: wp.int64) -> int:
    """Return the column of an entry."""
    return int(pair >> wp.int64(32))


@wp.kernel(enable_backward=False)
def _sort_rows(starts: wp.array[int], pairs: wp.array[wp.int64], counts: wp.array[int]) -> None:
    row = wp.tid()
    begin = wp.uint32(starts[row])
    end = wp.uint32(starts[row + 1])
    sort_range(pairs, begin, end)
    blocks = 0
    last = -1
    for k in range(begin, end):
        column = column_of(pairs[k])
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
    block = wp.uint32(offsets[row]) - ONE
    last = -1
    for k in range(wp.uint32(starts[row]), wp.uint32(starts[row + 1])):
        column = column_of(pairs[k])
        if column != last:
            block += ONE
            columns[block] = column
        last = column
        ends[block] = int(k) + 1


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


def sort_rows(starts: Any, pairs: Any) -> Any:
    """Sort the entries of each row, and return where its blocks begin."""
    rows = starts.size - 1
    counts = wp.zeros(rows + 1, dtype=int, device=starts.device)
    wp.launch(_sort_rows, dim=rows, inputs=[starts, pairs, counts], device=starts.device)
    return scan_counts(counts)


def set_topology(dest: BsrMatrix, starts: Any, pairs: Any, padded: bool) -> Groups:
    """Let ``dest`` have the blocks of the entries; its values are not set.

    Compact matrices get new arrays of the right size where the old ones are too small; in padded ones rows keep their
    capacity, and rows whose blocks don't fit become empty, which the status tells.
    """
    device, bound = dest.device, pairs.size
    offsets = sort_rows(starts, pairs)
    ends = wp.empty(bound, dtype=int, device=device)
    if padded:
        columns = wp.empty(bound, dtype=int, device=device)
    else:
        reserve(dest, bound)
        columns = dest.columns
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
        if offsets is not dest.offsets:
            wp.copy(dest.offsets, offsets, count=dest.nrow + 1)
    else:
        dest.offsets = offsets
    dest.row_counts = None
    dest.columns = columns
    dest.nnz = bound
