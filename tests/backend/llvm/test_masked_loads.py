"""Loads of some lanes stay where they are, so that they don't give what is stored after them, and touch no others."""

import ctypes
import mmap
import sys

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed, name


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


ELEMENTS = (
    wp.types.vector(2, wp.float32),
    wp.types.vector(3, wp.float32),
    wp.types.matrix((2, 5), wp.float32),
    wp.types.vector(17, wp.int32),
    wp.types.vector(3, wp.float64),
    wp.types.vector(3, wp.float16),
)
"""Among them those that are loaded as pieces of registers, one with too many components, and one with small ones."""


@pytest.mark.parametrize("dtype", ELEMENTS, ids=lambda t: t.__name__)
def test_elements_of_some_lanes_leave_those_of_others_alone(dtype):
    @wp.kernel(vector_width=16, module="unique")
    def k(x: wp.array2d(dtype=dtype), on: wp.array2d(dtype=wp.int32), total: wp.array2d(dtype=dtype)):
        i, j = wp.tid()
        if on[i, j] > 0:
            total[i, j] += x[i, j] + x[i, j]

    rng = np.random.default_rng(3)
    for rows, columns in ((0, 3), (3, 0), (1, 1), (2, 5), (3, 16), (2, 17), (2, 35)):
        shape = (rows, columns, *dtype._shape_)
        x = rng.integers(-9, 9, shape)
        before = rng.integers(-9, 9, shape)
        on = rng.integers(0, 2, (rows, columns), dtype=np.int32)
        total = wp.array(before, dtype=dtype)
        wp.launch(k, (rows, columns), inputs=[wp.array(x, dtype=dtype), on, total])
        marks = on.reshape(rows, columns, *[1] * len(dtype._shape_))
        np.testing.assert_array_equal(total.numpy().reshape(shape), before + 2 * x * marks, f"{rows} x {columns}")


@pytest.mark.parametrize(("dtype", "width"), crossed(ELEMENTS, [4, 16, 32], every=2), ids=name)
def test_elements_anywhere_for_lanes_whose_index_is_valid(dtype, width):
    @wp.kernel(vector_width=width, module="unique")
    def k(x: wp.array(dtype=dtype), at: wp.array(dtype=wp.int32), y: wp.array(dtype=dtype), z: wp.array(dtype=dtype)):
        i = wp.tid()
        j = at[i]
        if j < len(x):
            y[i] = x[j]
        z[i] = x[j % len(x)]

    rng = np.random.default_rng(4)
    x = rng.integers(-99, 99, (7, *dtype._shape_))
    for n in (0, 1, 4, 15, 16, 17, 33, 64):
        at = rng.choice([0, 1, 5, 6, 1 << 30], n).astype(np.int32)  # the last one lies far beyond all memory
        y, z = wp.zeros(n, dtype=dtype), wp.zeros(n, dtype=dtype)
        wp.launch(k, n, inputs=[wp.array(x, dtype=dtype), at], outputs=[y, z])
        given = (at < 7).reshape(n, *[1] * len(dtype._shape_))
        np.testing.assert_array_equal(y.numpy().reshape(n, *dtype._shape_), np.where(given, x[at % 7], 0))
        np.testing.assert_array_equal(z.numpy().reshape(n, *dtype._shape_), x[at % 7])


def protected(behind: bool) -> tuple[mmap.mmap, int]:
    """Two pages of memory, of which the one behind the other, or before it, can't be touched; and where that begins."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    closed = start + page * behind
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(closed), ctypes.c_size_t(page), 0) == 0
    return memory, page


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory by a function of the C library")
@pytest.mark.parametrize("behind", [True, False])
@pytest.mark.parametrize("width", [8, 16])
def test_neighbours_of_some_lanes_near_both_ends(behind, width):
    """Elements of lanes that do not take part are read where the array has them, and nowhere else."""

    @wp.kernel(vector_width=width, module="unique")
    def k(x: wp.array(dtype=wp.vec3), on: wp.array(dtype=int), by: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        if on[i] > 0:
            y[i] = 2.0 * x[i + by[0]]

    memory, page = protected(behind)
    for n in (1, 5, 16, 37, 64):
        x = np.frombuffer(memory, np.float32, 3 * n, page - 12 * n if behind else page).reshape(n, 3)
        x[:] = np.arange(3 * n).reshape(n, 3)
        for by, threads in ((0, n), (-3, n), (-n, n), (n // 2, n - n // 2), (-1, 1)):
            if by < -n:
                continue
            at = np.arange(threads) + by  # negative ones count from the end
            for chosen in (at >= 0, at % 3 == 0, at == at[-1], at < 0):
                y, on = wp.zeros(n, dtype=wp.vec3), np.zeros(n, np.int32)
                on[:threads] = chosen
                wp.launch(k, threads, inputs=[x, on, np.array([by], np.int32)], outputs=[y])
                expected = np.where(chosen[:, None], 2 * x[at], 0)
                np.testing.assert_array_equal(y.numpy()[:threads], expected)


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory by a function of the C library")
def test_no_memory_behind_the_last_element_is_touched():
    @wp.kernel(vector_width=16, module="unique")
    def k(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    @wp.kernel(vector_width=16, module="unique")
    def gather(x: wp.array(dtype=wp.vec3), at: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        y[i] = 2.0 * x[at[i]]

    memory, page = protected(behind=True)
    for n in (1, 5, 15, 17, 31):
        x = np.frombuffer(memory, np.float32, 3 * n, page - 12 * n).reshape(n, 3)
        x[:] = np.arange(3 * n).reshape(n, 3)
        y = wp.zeros(n, dtype=wp.vec3)
        wp.launch(k, n, inputs=[x], outputs=[y])
        np.testing.assert_array_equal(y.numpy(), 2 * x)
        at = np.arange(n, dtype=np.int32)[::-1].copy()
        wp.launch(gather, n, inputs=[x, at], outputs=[y])
        np.testing.assert_array_equal(y.numpy(), 2 * x[::-1])
        wp.launch(k, n, inputs=[y], outputs=[x])
        np.testing.assert_array_equal(x, 2 * y.numpy())
