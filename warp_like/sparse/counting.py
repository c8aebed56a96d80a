"""Entries in the order of their rows, by counting: in time proportional to the entries and the rows.

On the CPU entries are divided into runs. Each run counts its entries by row, so that it knows where its first entry of
each row goes, behind those of the runs before. Then it writes its entries there, without asking the other runs. On
other devices, which have far more threads than there are runs worth having, each entry learns its place within the row
from an atomic addition.
"""

from __future__ import annotations

import os
from typing import Any

import warp_like as wp
from warp_like.sparse.lookup import is_zero

RUNS_PER_THREAD = 2
"""Runs for each OS thread where rows take different times, so that threads end at about the same time."""

CUDA_RUNS = 2048
ROWS_PER_PART = 1024
"""Rows that a thread of the CPU takes where it passes through all runs; on other devices one."""

MOST_PLACES = 1 << 26
"""Elements, at most, of the arrays of all runs."""

PLACES_PER_ITEM = 4
"""Such elements, at most, for each item: clearing them must not take longer than the work itself."""


def divide_into_runs(
    rows: int, width: int, items: int, device: Any, per_thread: int = RUNS_PER_THREAD
) -> tuple[int, int]:
    """Return how many rows a run has, and how many runs there are.

    Args:
        rows: How many rows there are to divide.
        width: Elements of an array that each run has.
        items: How much work there is, beside ``rows``.
        device: Where it is done.
        per_thread: Runs for each OS thread of the CPU.
    """
    wanted, most = CUDA_RUNS, MOST_PLACES
    if device.is_cpu:
        wanted, most = per_thread * (os.cpu_count() or 1), min(most, PLACES_PER_ITEM * (items + rows))
    runs = max(1, min(wanted, rows, most // max(1, width)))
    size = max(1, -(-rows // runs))
    return size, max(1, -(-rows // size))


@wp.kernel(enable_backward=False, vector_width=1)
def _sum_runs(size: int, places: wp.array2d[int], sums: wp.array[int], counts: wp.array[int]) -> None:
    part = wp.tid()
    begin = part * size
    end = wp.min(begin + size, places.shape[1])
    for row in range(begin, end):
        sums[row] = places[0, row]
    for run in range(1, places.shape[0]):
        for row in range(begin, end):
            sums[row] = sums[row] + places[run, row]
    total = 0
    for row in range(begin, end):
        total += sums[row]
    counts[part] = total


@wp.kernel(enable_backward=False, vector_width=1)
def _begin_runs(size: int, before: wp.array[int], places: wp.array2d[int], starts: wp.array[int]) -> None:
    part = wp.tid()
    begin = part * size
    end = wp.min(begin + size, places.shape[1])
    place = before[part]
    for row in range(begin, end):
        count = starts[row]
        starts[row] = place
        place += count
    if end == places.shape[1]:
        starts[end] = place
    if begin < end:  # a run ends where the next one begins, so the last one comes first
        run = places.shape[0] - 1
        for row in range(begin, end - 1):
            places[run, row] = starts[row + 1] - places[run, row]
        places[run, end - 1] = place - places[run, end - 1]
        for k in range(1, places.shape[0]):
            for row in range(begin, end):
                places[run - k, row] = places[run - k + 1, row] - places[run - k, row]


def begin_runs(places: Any, starts: Any = None) -> Any:
    """Turn how many entries each run has in each row into where it begins to write them, and return where rows begin.

    Args:
        places: An array of two dimensions, run and row.
        starts: An array for the result, with one element more than there are rows; a new one when left out.
    """
    rows, device = places.shape[1], places.device
    if starts is None:
        starts = wp.empty(rows + 1, dtype=int, device=device)
    size = ROWS_PER_PART if device.is_cpu else 1
    parts = max(1, -(-rows // size))
    counts = wp.zeros(parts + 1, dtype=int, device=device)
    wp.launch(_sum_runs, dim=parts, inputs=[size, places, starts, counts], device=device)
    before = scan_counts(counts)
    wp.launch(_begin_runs, dim=parts, inputs=[size, before, places, starts], device=device)
    return starts


def scan_counts(counts: Any) -> Any:
    """Return where each row begins, of counts with a last element that does not count."""
    offsets = wp.empty_like(counts)
    wp.utils.array_scan(counts, offsets, inclusive=False)
    return offsets


@wp.func
def _entries_of(run: int, size: int, rows: wp.array[int], limit: wp.array[int]) -> Any:
    """The first entry of a run and the one behind its last, without those behind the limit.

    They are unsigned for loops over them: a signed index is tested, since negative ones count from the end.
    """
    end = rows.shape[0]
    if limit:
        end = wp.clamp(limit[0], 0, end)
    begin = wp.min(run * size, end)
    return wp.uint32(begin), wp.uint32(begin + wp.min(size, end - begin))


@wp.func
def _counts(i: wp.uint32, row: wp.uint32, column: wp.uint32, shape: wp.vec2ui, nonzero: wp.array[Any]) -> bool:
    """Whether an entry counts: it is inside of the matrix, and its block is not zero where zeros are left out."""
    return row < shape[0] and column < shape[1] and (nonzero.shape[0] == 0 or not is_zero(nonzero[i]))


@wp.func
def _pair(column: wp.uint32, entry: wp.uint32) -> wp.int64:
    return (wp.int64(column) << wp.int64(32)) | wp.int64(entry)


@wp.kernel(enable_backward=False, vector_width=1)
def _count_runs(
    size: int,
    shape: wp.vec2ui,
    rows: wp.array[int],
    columns: wp.array[int],
    limit: wp.array[int],
    nonzero: wp.array[Any],
    places: wp.array2d[int],
) -> None:
    run = wp.tid()
    begin, end = _entries_of(run, size, rows, limit)
    for i in range(begin, end):
        row = wp.uint32(rows[i])
        if _counts(i, row, wp.uint32(columns[i]), shape, nonzero):
            places[run, row] = places[run, row] + 1


@wp.kernel(enable_backward=False, vector_width=1)
def _scatter_runs(
    size: int,
    shape: wp.vec2ui,
    rows: wp.array[int],
    columns: wp.array[int],
    limit: wp.array[int],
    nonzero: wp.array[Any],
    places: wp.array2d[int],
    pairs: wp.array[wp.int64],
) -> None:
    run = wp.tid()
    begin, end = _entries_of(run, size, rows, limit)
    if begin == end or shape[0] == wp.uint32(0):
        return
    last = wp.uint32(0)
    place = wp.uint32(places[run, last])  # in a register while entries stay in a row, as those of finite elements do
    for i in range(begin, end):
        row = wp.uint32(rows[i])
        column = wp.uint32(columns[i])
        if _counts(i, row, column, shape, nonzero):
            if row != last:
                places[run, last] = int(place)
                place = wp.uint32(places[run, row])
                last = row
            pairs[place] = _pair(column, i)
            place += wp.uint32(1)
    places[run, last] = int(place)


@wp.kernel(enable_backward=False, deterministic=False)
def _rank_entries(
    shape: wp.vec2ui,
    rows: wp.array[int],
    columns: wp.array[int],
    limit: wp.array[int],
    nonzero: wp.array[Any],
    counts: wp.array[int],
    ranks: wp.array[int],
) -> None:
    entry = wp.tid()
    rank = -1
    i, end = _entries_of(entry, 1, rows, limit)
    if i < end and _counts(i, wp.uint32(rows[i]), wp.uint32(columns[i]), shape, nonzero):
        rank = wp.atomic_add(counts, rows[i], 1)
    ranks[entry] = rank


@wp.kernel(enable_backward=False)
def _scatter_ranked(
    rows: wp.array[int],
    columns: wp.array[int],
    ranks: wp.array[int],
    starts: wp.array[int],
    pairs: wp.array[wp.int64],
) -> None:
    i = wp.tid()
    rank = ranks[i]
    if rank >= 0:
        pairs[starts[rows[i]] + rank] = _pair(wp.uint32(columns[i]), wp.uint32(i))


def entries_by_row(
    shape: tuple[int, int], rows: Any, columns: Any, limit: Any = None, nonzero: Any = None
) -> tuple[Any, Any]:
    """Return where the entries of each row begin, and the entries as pairs, not sorted within a row.

    A pair is an entry in 64 bits, the column above its number, so that sorting is by column and then by number: the
    result is the same whatever order the threads came in.

    Args:
        shape: Rows and columns; entries outside are left out.
        rows: The row of each entry.
        columns: Its column.
        limit: An array with the number of entries that count, or None.
        nonzero: Blocks, one for each entry: entries whose block is zero are left out. None keeps them.
    """
    if nonzero is None:
        nonzero = wp.empty(0, dtype=int, device=rows.device)
    pairs = wp.empty(rows.size, dtype=wp.int64, device=rows.device)
    order = order_by_runs if rows.device.is_cpu else order_by_ranks
    return order([shape, rows, columns, limit, nonzero], pairs), pairs


def order_by_runs(entries: list[Any], pairs: Any) -> Any:
    """Write the pairs, each run of entries in one thread; return where rows begin."""
    (row_count, _), rows = entries[:2]
    size, runs = divide_into_runs(rows.size, row_count, rows.size, rows.device, per_thread=1)
    places = wp.zeros((runs, row_count), dtype=int, device=rows.device)
    wp.launch(_count_runs, dim=runs, inputs=[size, *entries, places], device=rows.device)
    starts = begin_runs(places)
    wp.launch(_scatter_runs, dim=runs, inputs=[size, *entries, places, pairs], device=rows.device)
    return starts


def order_by_ranks(entries: list[Any], pairs: Any) -> Any:
    """Write the pairs, each entry in one thread; return where rows begin."""
    (row_count, _), rows, columns = entries[:3]
    counts = wp.zeros(row_count + 1, dtype=int, device=rows.device)
    ranks = wp.empty(rows.size, dtype=int, device=rows.device)
    wp.launch(_rank_entries, dim=rows.size, inputs=[*entries, counts, ranks], device=rows.device)
    starts = scan_counts(counts)
    given = [rows, columns, ranks, starts, pairs]
    wp.launch(_scatter_ranked, dim=rows.size, inputs=given, device=rows.device)
    return starts
