"""Loops of a few rounds that LLVM makes vectors of, whose last rounds fill a vector in part."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp

SUMS = 16
"""So many that LLVM does not unroll the loop."""


def extremes(rounds: int, dtype: Any) -> wp.Kernel:
    """A kernel that takes the least and the greatest number of each of ``SUMS`` rows of ``rounds`` numbers."""
    row_type = wp.types.vector(length=SUMS, dtype=dtype)

    @wp.kernel
    def extremes_of_rows(a: wp.array2d(dtype=dtype), least: wp.array(dtype=dtype), greatest: wp.array(dtype=dtype)):
        low, high = row_type(), row_type()
        for k in range(rounds):
            for row in range(SUMS):
                low[row] = wp.min(low[row], a[row, k])
                high[row] = wp.max(high[row], a[row, k])
        for row in range(SUMS):
            least[row] = low[row]
            greatest[row] = high[row]

    return extremes_of_rows


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.float16])
@pytest.mark.parametrize("rounds", [5, 11, 13])
def test_no_round_is_left_out(rounds: int, dtype: Any) -> None:
    kernel = extremes(rounds, dtype)
    numpy_type = wp.dtype_to_numpy(dtype)
    for place in range(rounds):
        a = np.random.default_rng(place).uniform(-1.0, 1.0, (SUMS, rounds)).astype(numpy_type)
        a[::2, place], a[1::2, place] = -2.0, 2.0
        a[::3, (place + 1) % rounds] = np.nan
        least, greatest = np.zeros(SUMS, numpy_type), np.zeros(SUMS, numpy_type)
        wp.launch(kernel, dim=1, inputs=[a, least, greatest], options={"vector_width": 1, "max_unroll": SUMS})
        np.testing.assert_array_equal(least, np.fmin(np.fmin.reduce(a, axis=1), 0))
        np.testing.assert_array_equal(greatest, np.fmax(np.fmax.reduce(a, axis=1), 0))
