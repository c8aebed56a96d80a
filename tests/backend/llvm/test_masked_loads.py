"""Loads of some lanes stay where they are: what is stored after them is not what they give."""

import numpy as np
import pytest

import warp_like as wp


@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("dtype", [wp.float32, wp.int32])
def test_a_value_swapped_with_memory_in_a_loop_that_lanes_leave_one_by_one(width, dtype):
    @wp.kernel(vector_width=width, module="unique")
    def k(a: wp.array(dtype=float), out: wp.array(dtype=dtype)):
        i = wp.tid()
        x = a[i]
        v = dtype(1)
        while x < 10.0:
            x = x + x
            held = out[i]
            out[i] = v
            v = held
        out[i] = out[i] + v * dtype(10)

    a = np.tile(np.arange(1, 12, dtype=np.float32), 7)
    out = wp.zeros(len(a), dtype=dtype)
    wp.launch(k, len(a), inputs=[a], outputs=[out])
    rounds = np.ceil(np.log2(10 / np.minimum(a, 10))).astype(int)
    np.testing.assert_array_equal(out.numpy(), np.where(rounds % 2 == 1, 1, 10))
