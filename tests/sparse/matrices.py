"""Random sparse matrices, and what they are as dense ones in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

import warp_like as wp
from warp_like.sparse import BsrMatrix, bsr_from_triplets, bsr_zeros


def block(shape: tuple[int, int], dtype: Any) -> Any:
    return dtype if shape == (1, 1) else wp.types.matrix(shape=shape, dtype=dtype)


def entries(seed: int, size: tuple[int, int], n: int, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Rows, columns and blocks: some rows and columns have none, and some places have several."""
    rng = np.random.default_rng(seed)
    rows = 2 * rng.integers(0, max(1, (size[0] + 1) // 2), n)
    columns = rng.integers(0, max(1, size[1] - 1), n)
    return rows.astype(np.int32), columns.astype(np.int32), rng.uniform(-1, 1, (n, *shape))


def summed(size: tuple[int, int], rows: Any, columns: Any, blocks: Any) -> Any:
    """The dense matrix of entries."""
    r, c = blocks.shape[1:]
    full = np.zeros((size[0], r, size[1], c))
    np.add.at(full.transpose(0, 2, 1, 3), (rows, columns), blocks)
    return full.reshape(size[0] * r, size[1] * c)


def random(
    seed: int, size: tuple[int, int] = (6, 5), n: int = 14, shape: tuple[int, int] = (1, 1), dtype: Any = wp.float64
) -> BsrMatrix:
    rows, columns, blocks = entries(seed, size, n, shape)
    return bsr_from_triplets(
        *size, wp.array(rows), wp.array(columns), wp.array(blocks, dtype=dtype, shape=blocks.shape)
    )


def with_many_rows(n: int, dtype: Any) -> Iterator[tuple[BsrMatrix, Any]]:
    """Matrices whose groups of rows have one length or several, with columns side by side or not; SciPy's, too."""
    rng, at = np.random.default_rng(8), np.arange(n, dtype=np.int32)
    lengths = {
        "moved": np.full(n, 3),
        "apart": np.full(n, 5),
        "any": rng.integers(0, 12, n),
        "some": 1 + (at % 40 > 30),
    }
    lengths["none"] = np.where(at < n // 2, 0, 2)
    for name, counts in lengths.items():
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        columns = rng.integers(0, n, offsets[-1], dtype=np.int32)
        if name in ("moved", "some"):  # by one from row to row; in places the last column of a row differs
            columns = (np.arange(columns.size) - np.repeat(offsets[:-1] - at, counts)).astype(np.int32) % n
            columns[offsets[1:] - 1] = (columns[offsets[1:] - 1] + (rng.random(n) < 0.02)) % n
        values = rng.uniform(-1.0, 1.0, columns.size).astype(wp.dtype_to_numpy(dtype))
        A = bsr_zeros(n, n, dtype)
        A.offsets, A.columns, A.values, A.nnz = wp.array(offsets), wp.array(columns), wp.array(values), columns.size
        yield A, scipy.sparse.csr_array((values.astype(float), columns, offsets), shape=(n, n))


def dense(A: Any) -> Any:
    """The matrix as an array of float64, read from its rows; checks that these are sorted."""
    (r, c), numbers = A.block_shape, A.scalar_values.numpy()
    with np.errstate(invalid="ignore"):  # places that no row uses may hold anything
        values = np.asarray(numbers, np.float64)
    offsets, columns = A.offsets.numpy(), A.columns.numpy()
    full = np.zeros((A.nrow, r, A.ncol, c))
    for row in range(A.nrow):
        end = offsets[row + 1] if A.row_counts is None else offsets[row] + A.row_counts.numpy()[row]
        here = columns[offsets[row] : end]
        assert (np.diff(here) > 0).all(), f"row {row} has the columns {here}"
        for k in range(offsets[row], end):
            full[row, :, columns[k]] = values[k]
    return full.reshape(A.shape)
