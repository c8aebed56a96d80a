"""Random sparse matrices, and what they are as dense ones in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import warp_like as wp
from warp_like.sparse import BsrMatrix, bsr_from_triplets


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


def dense(A: Any) -> Any:
    """The matrix as an array of float64, read from its rows; checks that these are sorted."""
    (r, c), values = A.block_shape, np.asarray(A.scalar_values.numpy(), np.float64)
    offsets, columns = A.offsets.numpy(), A.columns.numpy()
    full = np.zeros((A.nrow, r, A.ncol, c))
    for row in range(A.nrow):
        end = offsets[row + 1] if A.row_counts is None else offsets[row] + A.row_counts.numpy()[row]
        here = columns[offsets[row] : end]
        assert (np.diff(here) > 0).all(), f"row {row} has the columns {here}"
        for k in range(offsets[row], end):
            full[row, :, columns[k]] = values[k]
    return full.reshape(A.shape)
