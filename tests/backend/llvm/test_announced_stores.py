"""Stores of aggregates by whole vectors of lanes ask for the memory ahead of them, also where none is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.guarded import guarded


def adding(dtype: Any) -> Any:
    """Return a kernel in lanes that writes elements of a type."""

    @wp.kernel(module="unique", vector_width=8)
    def add(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype), out: wp.array(dtype=dtype)):
        i = wp.tid()
        out[i] = x[i] + y[i]

    return add


def test_a_request_for_each_line_of_aggregates() -> None:
    for dtype, lines in ((wp.float32, 0), (wp.vec3, 2), (wp.mat33, 5), (wp.mat44d, 16)):  # of 8 lanes
        calls = adding(dtype).inspect("llvm").count("call void @llvm.prefetch.p0(")
        assert bool(calls) == bool(lines), dtype
        assert calls % max(lines, 1) == 0, dtype


@pytest.mark.parametrize("n", [1, 8, 33, 1000])
def test_nothing_is_read_behind_the_arrays(n: int) -> None:
    values = np.arange(9 * n, dtype=np.float32).reshape(n, 3, 3)
    with guarded("end"):
        x = wp.array(values, dtype=wp.mat33)
        out = wp.zeros(n, dtype=wp.mat33)
        wp.launch(adding(wp.mat33), dim=n, inputs=[x, x], outputs=[out])
        np.testing.assert_array_equal(out.numpy(), 2 * values)
        del x, out
