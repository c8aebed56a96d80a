"""A factorised sparse approximate inverse: a lower triangle ``G`` with ``G.T @ G`` near the inverse of a matrix.

Kolotilina and Yeremin, Factorized sparse approximate inverse preconditionings I, SIAM J. Matrix Anal. Appl. 14, 1993.
Each row of ``G`` is found by itself: of the matrix restricted to the row's columns, it is the last row of the inverse,
scaled. The columns are those of the matrix left of the diagonal, the largest ones beside their diagonals.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.sparse import BsrMatrix, bsr_block_index, bsr_transposed, bsr_zeros
from warp_like.sparse.lookup import row_end

ROW_SIZE = 8
"""The most elements of a row of ``G``."""


@wp.func
def _element(
    i: int,
    j: int,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
) -> wp.float64:
    size = values.shape[1]
    block = bsr_block_index(i // size, j // size, offsets, columns, row_counts)
    result = wp.float64(0.0)
    if block >= 0:
        result = wp.float64(values[block, i % size, j % size])
    return result


@wp.kernel(enable_backward=False, vector_width=1)
def _choose_columns(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
    lengths: wp.array[int],
    chosen: wp.array2d[int],
) -> None:
    i = wp.tid()
    size = values.shape[1]
    row = i // size
    most = wp.static(ROW_SIZE)
    weights = wp.zeros(shape=(wp.static(ROW_SIZE),), dtype=wp.float64)
    count = 0
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        for k in range(size):
            j = columns[block] * size + k
            a = wp.float64(values[block, i % size, k])
            if j < i and a != wp.float64(0.0):
                weight = a * a / wp.max(_element(j, j, offsets, row_counts, columns, values), wp.float64(1e-300))
                place = wp.min(count, most - 1)
                if count < most - 1 or weight > weights[most - 2]:
                    if count == most - 1:
                        place = most - 2
                    while place > 0 and weights[wp.max(place - 1, 0)] < weight:
                        weights[place] = weights[place - 1]
                        chosen[i, place] = chosen[i, place - 1]
                        place -= 1
                    weights[place] = weight
                    chosen[i, place] = j
                    count = wp.min(count + 1, most - 1)
    for p in range(1, count):  # by column
        key = chosen[i, p]
        q = int(p)
        while q > 0 and chosen[i, wp.max(q - 1, 0)] > key:
            chosen[i, q] = chosen[i, q - 1]
            q -= 1
        chosen[i, q] = key
    chosen[i, count] = i
    lengths[i] = count + 1


@wp.kernel(enable_backward=False, vector_width=1)
def _factorise(
    smallest: wp.float64,
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[Any],
    lengths: wp.array[int],
    chosen: wp.array2d[int],
    factor: wp.array2d[Any],
) -> None:
    i = wp.tid()
    count = lengths[i]
    local = wp.zeros(shape=(wp.static(ROW_SIZE), wp.static(ROW_SIZE)), dtype=wp.float64)
    g = wp.zeros(shape=(wp.static(ROW_SIZE),), dtype=wp.float64)
    # the factor L of the matrix restricted to the chosen columns
    good = True
    for p in range(count):
        for q in range(p + 1):
            total = _element(chosen[i, p], chosen[i, q], offsets, row_counts, columns, values)
            largest = total
            for k in range(q):
                total -= local[p, k] * local[q, k]
            if p == q:
                if not (total > smallest * wp.abs(largest)):
                    good = False
                local[p, p] = wp.sqrt(wp.max(total, wp.float64(1e-300)))
            else:
                local[p, q] = total / local[q, q]

    # the last row of the inverse, divided by the root of its last element: L^-T e
    for m in range(count):
        p = count - 1 - m
        total = wp.float64(0.0)
        if m == 0:
            total = wp.float64(1.0)
        for q in range(p + 1, count):
            total -= local[q, p] * g[q]
        g[p] = total / local[p, p]
    if good:
        for p in range(count):
            factor[i, p] = factor.dtype(g[p])
    else:
        diagonal = _element(i, i, offsets, row_counts, columns, values)
        chosen[i, 0] = i
        factor[i, 0] = factor.dtype(1)
        if diagonal > wp.float64(0.0):
            factor[i, 0] = factor.dtype(wp.float64(1.0) / wp.sqrt(diagonal))
        lengths[i] = 1


def factorised_inverse(A: BsrMatrix, smallest: float) -> tuple[BsrMatrix, BsrMatrix]:
    """Return ``G`` and its transpose, matrices of numbers.

    Args:
        A: A symmetric positive definite matrix. Where a part of it is not, the row of ``G`` has its diagonal alone.
        smallest: The smallest pivot, beside its diagonal element, that counts as positive.
    """
    n, scalar = A.shape[0], A.scalar_type
    G = bsr_zeros(n, n, scalar, A.device, row_capacity=ROW_SIZE)
    chosen, factor = G.columns[: n * ROW_SIZE], G.values[: n * ROW_SIZE]
    shape = (n, ROW_SIZE)
    given = [A.offsets, A.row_counts, A.columns, A.scalar_values, G.row_counts, chosen.reshape(shape)]
    wp.launch(_choose_columns, dim=n, inputs=given, device=A.device)
    wp.launch(_factorise, dim=n, inputs=[smallest, *given], outputs=[factor.reshape(shape)], device=A.device)
    return G, bsr_transposed(G)
