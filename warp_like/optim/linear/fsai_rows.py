"""The rows of an adaptive factorised sparse approximate inverse, each found by one thread of its own.

With the matrix scaled to ones on its diagonal, row ``i`` of ``G`` is, up to a factor, ``z`` with ``A[S, S] z = e_0`` on
a support ``S`` that begins with ``i``. ``S`` grows by the columns before ``i`` where the residual ``A[c, S] z`` is
largest, which lowers Kaporin's number most (Janna, Ferronato, Sartoretto and Gambolati, FSAIPACK: a software package
for high-performance factored sparse approximate inverse preconditioning, ACM TOMS 41, 2015). The Cholesky factor of
``A[S, S]``, in the order of growth, gets a row for each column.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import warp_like as wp
from warp_like.sparse import bsr_block_index
from warp_like.sparse.lookup import row_end

MISMATCH, BAD_DIAGONAL, FAILED, REGULARIZED = range(4)
"""What the elements of a status count: differences of topology, unusable diagonals, rows that failed, pivots raised."""

TRUNCATED = 1
"""Where the status of a selection counts the rows that a pivot ended; at ``FAILED`` it counts those that failed."""


@wp.func
def element(
    i: int,
    j: int,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
) -> wp.float64:
    """Return number ``(i, j)`` of a matrix of blocks; 0 where it has none."""
    size = values.shape[1]
    block = bsr_block_index(i // size, j // size, offsets, columns, row_counts)
    result = wp.float64(0.0)
    if block >= 0:
        result = wp.float64(values[block, i % size, j % size])
    return result


@wp.kernel(enable_backward=False)
def find_scales(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
    scales: wp.array[wp.float64],
    status: wp.array[int],
) -> None:
    """Write what scales each diagonal element to 1; 1 for those that are not positive and finite."""
    i = wp.tid()
    diagonal = element(i, i, offsets, row_counts, columns, values)
    scale = wp.float64(1.0)
    if diagonal > wp.float64(0.0) and wp.isfinite(diagonal):
        scale = wp.float64(1.0) / wp.sqrt(diagonal)
    else:
        wp.atomic_add(status, wp.static(BAD_DIAGONAL), 1)
    scales[i] = scale


@wp.kernel(enable_backward=False)
def compare(expected: wp.array[int], found: wp.array[int], status: wp.array[int]) -> None:
    """Count differences."""
    i = wp.tid()
    if expected[i] != found[i]:
        wp.atomic_add(status, wp.static(MISMATCH), 1)


@wp.func
def _extend(
    c: int,
    count: int,
    floor: wp.float64,
    support: wp.array[int],
    scales: wp.array[wp.float64],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
    lower: Any,
    y: Any,
) -> wp.float64:
    """Write row ``count`` of the Cholesky factor, for column ``c``, and number ``count`` of ``y``: ``lower y = e_0``.

    Returns:
        The square of the diagonal, which is not less than ``floor`` in the factor.
    """
    pivot = wp.float64(1.0)
    along = wp.where(count == 0, wp.float64(1.0), wp.float64(0.0))
    for p in range(count):
        total = element(c, support[p], offsets, row_counts, columns, values)
        total *= scales[c] * scales[support[p]]
        for q in range(p):
            total -= lower[count, q] * lower[p, q]
        lower[count, p] = total / lower[p, p]
        pivot -= lower[count, p] * lower[count, p]
        along -= lower[count, p] * y[p]
    lower[count, count] = wp.sqrt(wp.max(pivot, floor))
    y[count] = along / lower[count, count]
    return pivot


@wp.func
def _solve_back(count: int, lower: Any, y: Any, z: Any) -> None:
    """``lower.T z = y``."""
    for m in range(count):
        p = count - 1 - m
        total = y[p]
        for q in range(p + 1, count):
            total -= lower[q, p] * z[q]
        z[p] = total / lower[p, p]


@wp.func
def _insert(c: int, score: wp.float64, found: int, most: int, best: Any, scores: Any) -> int:
    """Put a column among the ``most`` with the largest scores, the lower of equals first; return how many there are."""
    place = int(found)
    going = wp.bool(place > 0)
    while going:
        before = place - 1
        if scores[before] < score or (scores[before] == score and best[before] > c):
            place = before
            going = place > 0
        else:
            going = False
    count = int(found)
    if score > wp.float64(0.0) and place < most:
        count = wp.min(found + 1, most)
        last = count - 1
        while last > place:
            scores[last] = scores[last - 1]
            best[last] = best[last - 1]
            last -= 1
        scores[place] = score
        best[place] = c
    return count


@wp.func
def _find_best(
    i: int,
    count: int,
    wanted: int,
    support: wp.array[int],
    scales: wp.array[wp.float64],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
    z: Any,
    best: Any,
    scores: Any,
) -> int:
    """List up to ``wanted`` columns beside a support, where the residual is largest; return how many there are."""
    size = values.shape[1]
    found = 0
    for s in range(count):
        row = support[s] // size
        for block in range(offsets[row], row_end(offsets, row_counts, row)):
            for k in range(size):
                c = columns[block] * size + k
                fresh = wp.bool(c < i)
                for p in range(count):
                    fresh = fresh and support[p] != c
                for p in range(found):
                    fresh = fresh and best[p] != c
                if fresh:
                    score = wp.float64(0.0)
                    for p in range(count):
                        a = element(support[p], c, offsets, row_counts, columns, values)
                        score += a * scales[support[p]] * z[p]
                    found = _insert(c, wp.abs(score) * scales[c], found, wanted, best, scores)
    return found


@cache
def grow_kernel(most: int, step: int) -> wp.Kernel:
    """Return the kernel that chooses supports of up to ``most`` columns, ``step`` of them at a time."""

    @wp.kernel(enable_backward=False, vector_width=1, module="unique")
    def grow(
        tolerance: wp.float64,
        floor: wp.float64,
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[Any],
        scales: wp.array[wp.float64],
        ready: wp.array[int],
        lengths: wp.array[int],
        supports: wp.array2d[int],
        status: wp.array[int],
    ) -> None:
        i = wp.tid()
        if ready and ready[0] != 0:
            return
        support = supports[i]
        lower = wp.zeros(shape=(wp.static(most), wp.static(most)), dtype=wp.float64)
        y = wp.zeros(shape=(wp.static(most),), dtype=wp.float64)
        z = wp.zeros(shape=(wp.static(most),), dtype=wp.float64)
        best = wp.zeros(shape=(wp.static(step),), dtype=int)
        scores = wp.zeros(shape=(wp.static(step),), dtype=wp.float64)
        support[0] = i
        lower[0, 0] = wp.float64(1.0)
        y[0] = wp.float64(1.0)
        count = 1
        energy = wp.float64(1.0)  # z[0], which is the sum of the squares of y
        diagonal = element(i, i, offsets, row_counts, columns, values)
        growing = wp.static(most) > 1 and diagonal > wp.float64(0.0) and wp.isfinite(diagonal)
        while growing:
            _solve_back(count, lower, y, z)
            wanted = wp.min(wp.static(step), wp.static(most) - count)
            found = _find_best(i, count, wanted, support, scales, offsets, row_counts, columns, values, z, best, scores)
            before = energy
            growing = found > 0
            for n in range(found):
                if growing:
                    pivot = _extend(
                        best[n], count, floor, support, scales, offsets, row_counts, columns, values, lower, y
                    )
                    if pivot > floor:
                        energy += y[count] * y[count]
                        support[count] = best[n]
                        count += 1
                    else:
                        wp.atomic_add(status, wp.static(TRUNCATED), 1)
                        growing = False
            if tolerance > wp.float64(0.0) and energy - before <= tolerance * energy:
                growing = False
            growing = growing and count < wp.static(most)
        lengths[i] = count

    return grow


@cache
def fit_kernel(most: int) -> wp.Kernel:
    """Return the kernel that solves on supports of up to ``most`` columns."""

    @wp.kernel(enable_backward=False, vector_width=1, module="unique")
    def fit(
        floor: wp.float64,
        regularize: bool,
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[Any],
        scales: wp.array[wp.float64],
        lengths: wp.array[int],
        supports: wp.array2d[int],
        rows: wp.array2d[wp.float64],
        status: wp.array[int],
    ) -> None:
        i = wp.tid()
        support = supports[i]
        count = lengths[i]
        lower = wp.zeros(shape=(wp.static(most), wp.static(most)), dtype=wp.float64)
        y = wp.zeros(shape=(wp.static(most),), dtype=wp.float64)
        z = wp.zeros(shape=(wp.static(most),), dtype=wp.float64)
        raised = wp.bool(False)
        good = wp.bool(True)
        for n in range(count):
            c = support[n]
            good = good and element(c, c, offsets, row_counts, columns, values) > wp.float64(0.0)
            pivot = _extend(c, n, floor, support, scales, offsets, row_counts, columns, values, lower, y)
            good = good and wp.isfinite(pivot)
            raised = raised or pivot <= floor
        _solve_back(count, lower, y, z)
        good = good and z[0] > wp.float64(0.0) and wp.isfinite(z[0]) and (regularize or not raised)
        if not good:
            wp.atomic_add(status, wp.static(FAILED), 1)
        elif raised:
            wp.atomic_add(status, wp.static(REGULARIZED), 1)
        for p in range(count):
            g = wp.where(p == 0, scales[i], wp.float64(0.0))
            if good:
                g = z[p] / wp.sqrt(z[0]) * scales[support[p]]
            rows[i, p] = g

    return fit


@wp.kernel(enable_backward=False)
def list_columns(
    lengths: wp.array[int],
    supports: wp.array2d[int],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
) -> None:
    """Write the support of each row in ascending order."""
    i = wp.tid()
    begin = offsets[i]
    for n in range(lengths[i]):
        place = begin + n
        while place > begin and columns[place - 1] > supports[i, n]:
            columns[place] = columns[place - 1]
            place -= 1
        columns[place] = supports[i, n]
    if row_counts:
        row_counts[i] = lengths[i]


@wp.kernel(enable_backward=False)
def check_rows(
    lengths: wp.array[int], rows: wp.array2d[wp.float64], factor: wp.array[Any], status: wp.array[int]
) -> None:
    """Count rows that ``factor``'s type can't hold with finite numbers and a positive diagonal."""
    i = wp.tid()
    good = factor.dtype(rows[i, 0]) > factor.dtype(0)
    for n in range(lengths[i]):
        good = good and wp.isfinite(factor.dtype(rows[i, n]))
    if not good:
        wp.atomic_add(status, wp.static(FAILED), 1)


@wp.func
def is_usable(keep_failed: bool, status: wp.array[int]) -> bool:
    """Return whether the rows are to be used."""
    failed = status[wp.static(BAD_DIAGONAL)] + status[wp.static(FAILED)]
    return status[wp.static(MISMATCH)] == 0 and (keep_failed or failed == 0)


@wp.kernel(enable_backward=False)
def store_rows(
    keep_failed: bool,
    status: wp.array[int],
    lengths: wp.array[int],
    supports: wp.array2d[int],
    rows: wp.array2d[wp.float64],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    factor: wp.array[Any],
) -> None:
    """Write the rows to the factor, unless the status says that they are not to be used."""
    i = wp.tid()
    if is_usable(keep_failed, status):
        for n in range(lengths[i]):
            block = bsr_block_index(i, supports[i, n], offsets, columns, row_counts)
            factor[block] = factor.dtype(rows[i, n])


@wp.kernel(enable_backward=False)
def turn_values(
    sources: wp.array[wp.float64], values: wp.array[Any], last: int, offsets: wp.array[int], turned: wp.array[Any]
) -> None:
    """Write the values of the transpose, of which ``sources`` says where they stand."""
    i = wp.tid()
    if i < offsets[last]:
        turned[i] = values[int(sources[i])]


@wp.kernel(enable_backward=False)
def apply(
    alpha: Any,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
    x: wp.array[Any],
    beta: Any,
    y: wp.array[Any],
    z: wp.array[Any],
) -> None:
    """``z = alpha * A x + beta * y`` in the type of ``z``, whatever that of ``A``; no ``y`` where ``beta`` is 0."""
    row = wp.tid()
    total = z.dtype(0)
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        total += z.dtype(values[block]) * x[wp.uint32(columns[block])]
    total = alpha * total
    if beta != beta.dtype(0):
        total += beta * y[row]
    z[row] = total


# --- a pattern that is selected by the first update ---


@wp.kernel(enable_backward=False)
def set_identity(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    factor: wp.array[Any],
    turned_offsets: wp.array[int],
    turned_columns: wp.array[int],
    turned: wp.array[Any],
) -> None:
    """Let a padded factor and its compact transpose be the identity; one thread more than there are rows."""
    row = wp.tid()
    turned_offsets[row] = row
    if row < row_counts.shape[0]:
        row_counts[row] = 1
        columns[offsets[row]] = row
        factor[offsets[row]] = factor.dtype(1)
        turned_columns[row] = row
        turned[row] = turned.dtype(1)


@wp.kernel(enable_backward=False)
def begin_selection(ready: wp.array[int], selected: wp.array[int]) -> None:
    """Clear the status of the selection, if there is one now."""
    if ready[0] == 0:
        selected[wp.tid()] = 0


@wp.kernel(enable_backward=False)
def publish(keep_failed: bool, status: wp.array[int], source: wp.array[Any], target: wp.array[Any]) -> None:
    """Copy a part of the selected pattern, unless the status says that it is not to be used."""
    i = wp.tid()
    if is_usable(keep_failed, status):
        target[i] = source[i]


@wp.kernel(enable_backward=False)
def end_selection(keep_failed: bool, status: wp.array[int], selected: wp.array[int], ready: wp.array[int]) -> None:
    """Say what became of the selection, if there was one."""
    if ready[0] == 0:
        selected[wp.static(FAILED)] = status[wp.static(FAILED)]
        if is_usable(keep_failed, status):
            ready[0] = 1
