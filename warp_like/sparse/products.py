"""Products of two matrices.

The algorithm is Gustavson's (Two fast algorithms for sparse matrices: multiplication and permuted transposition, ACM
TOMS 4, 1978): for each row, the rows of the right matrix that the left row names are merged. One kernel thread works
through a run of rows with an array of its own that says for each column where the row has it.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.sparse.counting import divide_into_runs, scan_counts
from warp_like.sparse.creation import bsr_zeros
from warp_like.sparse.lookup import blocks_of, find_block, row_end
from warp_like.sparse.matrix import BsrMatrix, block_type, composed, new_values, scaled
from warp_like.sparse.sums import bsr_axpy
from warp_like.sparse.topology import require_topology, sort_range


@wp.kernel(enable_backward=False, vector_width=1)
def _count_products(
    size: int,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    seen: wp.array2d[int],
    row_count: int,
    counts: wp.array[int],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        total = 0
        first, last = blocks_of(x_offsets, x_counts, row)
        for i in range(first, last):
            begin, end = blocks_of(y_offsets, y_counts, x_columns[i])
            for j in range(begin, end):
                column = wp.uint32(y_columns[j])
                if seen[run, column] != row + 1:
                    seen[run, column] = row + 1
                    total += 1
        counts[row] = total


@wp.kernel(enable_backward=False, vector_width=1)
def _list_products(
    size: int,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    seen: wp.array2d[int],
    row_count: int,
    offsets: wp.array[int],
    columns: wp.array[int],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        place = wp.uint32(offsets[row])
        limit = wp.uint32(offsets[row + 1])
        first, last = blocks_of(x_offsets, x_counts, row)
        for i in range(first, last):
            begin, end = blocks_of(y_offsets, y_counts, x_columns[i])
            for j in range(begin, end):
                column = wp.uint32(y_columns[j])
                if seen[run, column] != -row - 1 and place < limit:
                    seen[run, column] = -row - 1
                    columns[place] = int(column)
                    place += wp.uint32(1)
        sort_range(columns, wp.uint32(offsets[row]), limit)


@wp.kernel(enable_backward=False, vector_width=1)
def _list_and_sum_products(
    size: int,
    alpha: Any,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    x: wp.array[Any],
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    y: wp.array[Any],
    seen: wp.array2d[int],
    sums: wp.array2d[Any],
    row_count: int,
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        place = wp.uint32(offsets[row])
        limit = wp.uint32(offsets[row + 1])
        first, last = blocks_of(x_offsets, x_counts, row)
        for i in range(first, last):
            factor = alpha * x[i]
            begin, end = blocks_of(y_offsets, y_counts, x_columns[i])
            for j in range(begin, end):
                column = wp.uint32(y_columns[j])
                if seen[run, column] != -row - 1:
                    seen[run, column] = -row - 1
                    sums[run, column] = factor * y[j]
                    columns[place] = int(column)
                    place += wp.uint32(1)
                else:
                    sums[run, column] = sums[run, column] + factor * y[j]
        sort_range(columns, wp.uint32(offsets[row]), limit)
        for block in range(wp.uint32(offsets[row]), limit):
            values[block] = sums[run, wp.uint32(columns[block])]


@wp.kernel(enable_backward=False, vector_width=1)
def _sum_products(
    size: int,
    alpha: Any,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    x: wp.array[Any],
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    y: wp.array[Any],
    places: wp.array2d[int],
    row_count: int,
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
) -> None:
    run = wp.tid()
    for row in range(run * size, wp.min(row_count, run * size + size)):
        for block in range(wp.uint32(offsets[row]), wp.uint32(offsets[row + 1])):
            places[run, wp.uint32(columns[block])] = int(block)
            values[block] = values.dtype(0.0)
        first, last = blocks_of(x_offsets, x_counts, row)
        for i in range(first, last):
            factor = alpha * x[i]
            begin, end = blocks_of(y_offsets, y_counts, x_columns[i])
            for j in range(begin, end):
                place = wp.uint32(places[run, wp.uint32(y_columns[j])])
                values[place] = values[place] + factor * y[j]


@wp.kernel
def _sum_at_blocks(
    alpha: Any,
    x_offsets: wp.array[int],
    x_counts: wp.array[int],
    x_columns: wp.array[int],
    x: wp.array[Any],
    y_offsets: wp.array[int],
    y_counts: wp.array[int],
    y_columns: wp.array[int],
    y: wp.array[Any],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array[Any],
) -> None:
    row = wp.tid()
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        total = values.dtype(0.0)
        for i in range(x_offsets[row], row_end(x_offsets, x_counts, row)):
            k = x_columns[i]
            j = find_block(y_columns, y_offsets[k], row_end(y_offsets, y_counts, k), columns[block])
            if j >= 0:
                total += x[i] * y[j]
        values[block] = alpha * total


@wp.kernel(enable_backward=False)
def _limit_offsets(last: int, most: int, offsets: wp.array[int]) -> None:
    row = wp.tid()
    if row == last and offsets[row] > most:
        wp.printf("bsr_mm: max_new_nnz = %d is exceeded, the product has %d blocks\n", most, offsets[row])
    offsets[row] = wp.min(offsets[row], most)


class bsr_mm_work_arrays:
    """What ``bsr_mm`` keeps for further products of matrices with the same blocks (``reuse_topology``)."""

    def __init__(self) -> None:
        self._shape = (0, 0)
        self._product: tuple[Any, Any, int] | None = None
        self._is_whole = True  # whether no bound may have left blocks out


def bsr_mm(
    x: Any,
    y: Any,
    z: BsrMatrix | None = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    work_arrays: bsr_mm_work_arrays | None = None,
    reuse_topology: bool = False,
    tile_size: int = 0,
    max_new_nnz: int | None = None,
    topology: str | None = None,
) -> BsrMatrix:
    """Compute ``z := alpha * x @ y + beta * z`` and return ``z``. A tape differentiates the values.

    Args:
        x: The left matrix, or a multiple of one.
        y: The right matrix, or a multiple of one.
        z: The matrix to change; a new one when left out. It may be ``x`` or ``y``.
        alpha: The factor of the product.
        beta: The factor of ``z``; nothing of ``z`` is read if it is 0.
        work_arrays: Keeps which blocks the product has, for ``reuse_topology``.
        reuse_topology: ``x`` and ``y`` have the same blocks as in the call that filled ``work_arrays``, so don't search
            for those of the product. For compact matrices.
        tile_size: Accepted as in Warp.
        max_new_nnz: A bound for the number of blocks of the product, so that the host need not read it from the device;
            required while a graph is captured. If the product has more, a line is printed, and those of the last rows
            are missing.
        topology: ``"compact"``: ``z`` gets the blocks of the product and, unless ``beta`` is 0, its own. ``"masked"``:
            ``z`` keeps its blocks, and the others of the product don't count. ``"padded"``: rows keep their capacity,
            and ``z.status_sync()`` tells where it was too small.

    Raises:
        ValueError: The shapes, types or devices do not fit, or there is nothing to reuse.
        TypeError: An argument is no matrix.
        RuntimeError: A graph is captured without ``max_new_nnz``.

    Example:
        >>> from warp_like.sparse import bsr_diag, bsr_mm
        >>> D = bsr_diag(wp.array([2.0, 3.0]))
        >>> bsr_mm(D, D).values.list()
        [4.0, 9.0]
    """
    left, left_scale = scaled(x, "x")
    right, right_scale = scaled(y, "y")
    alpha = alpha * left_scale * right_scale
    topology = require_topology("bsr_mm", topology)
    if z is None:
        shape = (left.block_shape[0], right.block_shape[1])
        z, beta = bsr_zeros(left.nrow, right.ncol, block_type(shape, left.scalar_type), left.device), 0.0
    z, z_scale = scaled(z, "z")
    beta = beta * z_scale
    _require_fitting(left, right, z)
    if topology == "masked":
        _multiply_masked(left, right, z, alpha, beta)
        return z
    if reuse_topology and topology != "compact":
        raise ValueError(f"reuse_topology goes with topology='compact', got {topology!r}")
    product = _product(left, right, z.dtype, alpha, work_arrays, reuse_topology, max_new_nnz)
    if beta == 0 and topology == "compact":
        z.offsets, z.row_counts, z.columns = product.offsets, None, product.columns
        z.nnz, z.values = product.nnz, product.values
        return z
    return bsr_axpy(product, z, 1.0, beta, topology=topology)


def _require_fitting(x: BsrMatrix, y: BsrMatrix, z: BsrMatrix) -> None:
    blocks = (x.block_shape, y.block_shape, z.block_shape)
    if blocks[0][1] != blocks[1][0] or blocks[2] != (blocks[0][0], blocks[1][1]):
        raise ValueError(f"Incompatible block sizes for bsr_mm: those of x, y and z are {blocks}")
    if x.ncol != y.nrow or z.nrow != x.nrow or z.ncol != y.ncol:
        shown = ", ".join(f"{m.nrow} x {m.ncol}" for m in (x, y, z))
        raise ValueError(f"Incompatible number of rows/columns for bsr_mm: x, y and z are {shown}")
    types = [m.scalar_type for m in (x, y, z)]
    if types[0] is not types[1] or types[0] is not types[2]:
        raise ValueError(f"Incompatible scalar types for bsr_mm: {', '.join(t.__name__ for t in types)}")
    if not (x.device == y.device == z.device):
        raise ValueError(f"bsr_mm(): the matrices lie on one device, got {x.device}, {y.device} and {z.device}")


def _blocks(*matrices: BsrMatrix) -> list[Any]:
    """The values of matrices as arrays whose elements can be multiplied: all are matrices, or all are numbers."""
    if all(m.dtype is m.scalar_type for m in matrices):
        return [m.values for m in matrices]
    views = []
    for m in matrices:
        shaped = wp.types.matrix(shape=m.block_shape, dtype=m.scalar_type)
        views.append(m.values if m.dtype is shaped else composed(m.scalar_values, m.values.size, shaped))
    return views


def _stored(m: BsrMatrix) -> list[Any]:
    return [m.offsets, m.row_counts, m.columns]


def _multiply_masked(x: BsrMatrix, y: BsrMatrix, z: BsrMatrix, alpha: Any, beta: Any) -> None:
    """Let ``z`` keep its blocks: the product is computed at these alone."""
    product: BsrMatrix = z.__copy__()  # type: ignore[attr-defined]
    grad = any(m.requires_grad for m in (x, y, z))
    product.values = wp.zeros(z.values.size, dtype=z.dtype, device=z.device, requires_grad=grad)
    _sum_into(x, y, product, alpha)
    if beta == 0:
        z.values = product.values
    else:
        bsr_axpy(product, z, 1.0, beta, topology="masked")


def _sum_into(x: BsrMatrix, y: BsrMatrix, z: BsrMatrix, alpha: Any) -> None:
    """Write the values of the product at the blocks of ``z``."""
    of_x, of_y, of_z = _blocks(x, y, z)
    arguments = [z.scalar_type(alpha), *_stored(x), of_x, *_stored(y), of_y, *_stored(z)]
    wp.launch(_sum_at_blocks, dim=z.nrow, inputs=arguments, outputs=[of_z], device=z.device)


def _product(
    x: BsrMatrix, y: BsrMatrix, dtype: Any, alpha: Any, work: bsr_mm_work_arrays | None, reuse: bool, most: int | None
) -> BsrMatrix:
    """``alpha * x @ y`` as a new compact matrix."""
    z = bsr_zeros(x.nrow, y.ncol, dtype, x.device)
    rows = _Rows(x, y, z)
    is_whole = most is None
    if reuse:
        if work is None or work._product is None:
            raise ValueError("reuse_topology needs the work_arrays of an earlier product")
        if work._shape != (z.nrow, z.ncol):
            kept, wanted = (f"{rows} x {columns}" for rows, columns in (work._shape, (z.nrow, z.ncol)))
            raise ValueError(f"reuse_topology: work_arrays are those of a product of {kept} blocks, not of {wanted}")
        offsets, columns, z.nnz = work._product
        z.offsets, z.columns = wp.clone(offsets), wp.clone(columns)  # results may get other blocks, in place
        is_whole = work._is_whole
    apart = x.requires_grad or y.requires_grad or not is_whole  # has a gradient, and takes no block to be there
    if not reuse:
        rows.count(most)
        if apart:
            rows.list()
    new_values(z, z.nnz, (x.values, y.values))
    if apart:
        _sum_into(x, y, z, alpha)
    else:
        rows.sum(alpha, are_listed=reuse)
    if work is not None and not reuse:
        work._shape = z.nrow, z.ncol
        work._product, work._is_whole = (wp.clone(z.offsets), wp.clone(z.columns), z.nnz), is_whole
    return z


class _Rows:
    """The rows of a product ``z`` of ``x`` and ``y``, divided into runs that one thread each works through."""

    def __init__(self, x: BsrMatrix, y: BsrMatrix, z: BsrMatrix) -> None:
        self._x, self._y, self._z, self._device = x, y, z, x.device
        width = y.ncol * max(1, z.block_size)
        self._size, self._runs = divide_into_runs(x.nrow, width, (x.nnz + y.nnz) * z.block_size, x.device)
        self._seen = wp.zeros((self._runs, y.ncol), dtype=int, device=x.device)

    def _launch(self, kernel: wp.Kernel, *arguments: Any) -> None:
        wp.launch(kernel, dim=self._runs, inputs=[self._size, *arguments], device=self._device)

    def count(self, most: int | None) -> None:
        """Set how many blocks the rows have, and make room for their columns."""
        z = self._z
        counts = wp.zeros(z.nrow + 1, dtype=int, device=self._device)
        self._launch(_count_products, *_stored(self._x), *_stored(self._y), self._seen, z.nrow, counts)
        z.offsets = scan_counts(counts)
        if most is None:
            if self._device.is_capturing:
                raise RuntimeError("bsr_mm() needs max_new_nnz or reuse_topology while a graph is captured")
            z.nnz_sync()
        else:
            z.nnz = int(most)
            wp.launch(_limit_offsets, dim=z.nrow + 1, inputs=[z.nrow, z.nnz, z.offsets], device=self._device)
        z.columns = wp.empty(z.nnz, dtype=int, device=self._device)

    def list(self) -> None:
        """Write the columns."""
        z = self._z
        factors = [*_stored(self._x), *_stored(self._y), self._seen, z.nrow]
        self._launch(_list_products, *factors, z.offsets, z.columns)

    def sum(self, alpha: Any, are_listed: bool) -> None:
        """Write the values, and the columns unless they are there."""
        z = self._z
        of_x, of_y, of_z = _blocks(self._x, self._y, z)
        factors = [z.scalar_type(alpha), *_stored(self._x), of_x, *_stored(self._y), of_y, self._seen]
        written = [z.nrow, z.offsets, z.columns, of_z]
        if are_listed:
            self._launch(_sum_products, *factors, *written)
            return
        sums = wp.empty(self._seen.shape, dtype=of_z.dtype, device=self._device)
        self._launch(_list_and_sum_products, *factors, sums, *written)
