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


@pytest.mark.parametrize(("n", "dtype"), [(2, wp.float32), (3, wp.float64), (7, wp.float32), (17, wp.float32)])
@pytest.mark.parametrize("threads", [1, 100])
def test_each_component_is_summed(n: int, dtype: Any, threads: int) -> None:
    x = np.random.default_rng(n).integers(-8, 8, (threads, n))  # whole numbers, whose sums are exact
    around = wp.zeros(5, dtype=wp.types.vector(n, dtype))  # the elements beside the sums stay as they are
    out = around[1:4]
    wp.launch(summing(n, dtype), dim=threads, inputs=[wp.array(x, dtype=dtype)], outputs=[out])
    expected = [(k + 1) * x[x[:, 0] > k - 2].sum(axis=0) for k in range(3)]
    np.testing.assert_array_equal(around.numpy(), [np.zeros(n), *expected, np.zeros(n)])


def test_sums_that_need_no_atomics_stay_in_a_register() -> None:
    for n, masked, pieces in ((3, 4, (2,)), (5, 8, (4,)), (7, 8, (4, 2))):
        kernel = summing(n, wp.float32)
        plain = kernel.inspect("llvm")
        if "<16 x float>" in plain:  # on processors that have so many lanes, and leave some out for nothing
            assert f"@llvm.masked.store.v{masked}f32" in plain
        elif "<8 x float>" in plain:  # on those whose masked stores are slow
            assert "@llvm.masked.store" not in plain
            assert all(f"store <{k} x float>" in plain for k in pieces)
    assert "@llvm.masked.store.v32f32" not in summing(17, wp.float32).inspect("llvm")  # more than a register
