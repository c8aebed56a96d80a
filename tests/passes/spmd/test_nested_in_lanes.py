"""Arrays in elements of arrays, in lanes: kernels against plain Python, at sizes that leave lanes without a thread."""

import numpy as np
import pytest

import warp_like as wp
from tests.guarded import IS_SUPPORTED, guarded


@pytest.fixture(params=[0, 4, 16])
def width(request):
    wp.config.vector_width = request.param
    yield request.param
    del wp.config.vector_width


@wp.struct
class Row:
    v: wp.array(dtype=float)


def rows_of(parts):
    """An array of structs that hold these arrays."""
    made = []
    for x in parts:
        row = Row()
        row.v = wp.array(x, dtype=float)
        made.append(row)
    return wp.array(made, dtype=Row)


@wp.kernel
def lengths_at(rows: wp.array(dtype=Row), wanted: wp.array(dtype=int), at: int, out: wp.array(dtype=float)):
    i = wp.tid()
    n = float(0)
    if wanted[i] > 0:
        n = float(rows[at].v.shape[0]) * 2.0
    out[i] = n


@pytest.mark.skipif(not IS_SUPPORTED, reason="needs protected pages")
def test_no_element_is_read_for_lanes_that_are_off(width):
    """One element for all lanes, which none of them reads: reading it anyway would end the process."""
    with guarded("end"):
        rows, out = rows_of([np.zeros(3, np.float32)]), wp.zeros(21, dtype=float)
        for wanted, at in ((1, 0), (0, 1), (0, 1 << 28)):
            wp.launch(lengths_at, 21, [rows, np.full(21, wanted, np.int32), at, out])
            np.testing.assert_array_equal(out.numpy(), np.full(21, 6.0 * wanted))
