"""Sums over the lanes of vectors' components, which share shuffles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp


def summing(n: int, dtype: Any) -> Any:
    """Return a kernel whose threads add vectors of ``n`` different numbers to elements that a loop goes over."""
    vec = wp.types.vector(n, dtype)

    @wp.kernel(module="unique")
    def sums(x: wp.array2d(dtype=dtype), out: wp.array(dtype=vec)):
        i = wp.tid()
        for k in range(out.shape[0]):
            v = vec()
            for c in range(n):
                v[c] = x[i, c] * dtype(k + 1)
            if x[i, 0] > dtype(k - 2):  # not all lanes
                wp.atomic_add(out, k, v)

    return sums


@pytest.mark.parametrize(("n", "dtype"), [(2, wp.float32), (3, wp.float64), (5, wp.float32), (17, wp.float32)])
@pytest.mark.parametrize("threads", [1, 100])
def test_each_component_is_summed(n: int, dtype: Any, threads: int) -> None:
    x = np.random.default_rng(n).integers(-8, 8, (threads, n))  # whole numbers, whose sums are exact
    out = wp.zeros(3, dtype=wp.types.vector(n, dtype))
    wp.launch(summing(n, dtype), dim=threads, inputs=[wp.array(x, dtype=dtype)], outputs=[out])
    expected = [(k + 1) * x[x[:, 0] > k - 2].sum(axis=0) for k in range(3)]
    np.testing.assert_array_equal(out.numpy(), expected)
