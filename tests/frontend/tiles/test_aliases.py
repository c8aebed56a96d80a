"""Variables that stand for a part of a tile, however they got it, change the tile, in loops, too."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp

COUNT = 8
Floats = wp.array(dtype=float)
Four = wp.tile[float, 4]


@wp.kernel
def annotated(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    v: Any = wp.tile_view(t, offset=2, shape=4)
    for _i in range(n):
        v[0] += 1.0
    wp.tile_store(out, t)


@wp.kernel
def annotated_with_its_type(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    v: Four = wp.tile_view(t, offset=2, shape=4)
    i = wp.int32(0)
    while i < n:
        v[0] += 1.0
        i += 1
    wp.tile_store(out, t)


@wp.kernel
def in_a_tuple(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    (a, unused), b = (wp.tile_view(t, offset=2, shape=4), 1.0), t[6:8]
    for _i in range(n):
        a[0] += unused
        b[1] += 2.0
    wp.tile_store(out, t)


@wp.kernel
def of_two_names(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    a = b = wp.tile_view(t, offset=2, shape=4)
    for _i in range(n):
        b[0] += 1.0
    a[1] = 5.0
    wp.tile_store(out, t)


@wp.kernel
def swapped_parts(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    t[0] = 1.0
    t[4] = 2.0
    for _i in range(n):
        t[0:4], t[4:8] = t[4:8], t[0:4]
    wp.tile_store(out, t)


@wp.kernel
def swapped_names(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    a, b = t[0:4], t[4:8]
    a, b = b, a
    for _i in range(n):
        a[0] += 1.0
        b[1] -= 1.0
    wp.tile_store(out, t)


@wp.func
def count(v: Any):
    v[0] += 1.0


@wp.func
def count_in_loop(v: Any, n: int):
    part: Any = v[1:3]
    for _i in range(n):
        part[1] += 1.0


@wp.kernel
def given_to_functions(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    v = t[1:3]
    for _i in range(n):
        count(v)
        count(t[3:5])
    count_in_loop(t, 2)
    wp.tile_store(out, t)


@wp.kernel
def viewed_in_the_call(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    for _i in range(n):
        count(wp.tile_view(t, offset=2, shape=4))
    wp.tile_store(out, t)


@wp.kernel
def changed_by_builtins(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    for _i in range(n):
        wp.tile_scatter_add(wp.tile_view(t, offset=1, shape=4), 2, 1.0, True)
        wp.tile_add_inplace(t[5:7], wp.tile_ones(shape=2, dtype=float))
        wp.tile_assign(wp.tile_reshape(t=t, shape=(2, 4))[1], wp.tile_full(shape=1, value=2.0), offset=3)
    wp.tile_store(out, t)


WANTED = {
    changed_by_builtins: lambda n: [0, 0, 0, n, 0, n, n, 2 * (n > 0)],
    annotated: lambda n: [0, 0, n, 0, 0, 0, 0, 0],
    annotated_with_its_type: lambda n: [0, 0, n, 0, 0, 0, 0, 0],
    in_a_tuple: lambda n: [0, 0, n, 0, 0, 0, 0, 2 * n],
    of_two_names: lambda n: [0, 0, n, 5, 0, 0, 0, 0],
    swapped_parts: lambda n: [1 + n % 2, 0, 0, 0, 2 - n % 2, 0, 0, 0],
    swapped_names: lambda n: [0, -n, 0, 0, n, 0, 0, 0],
    viewed_in_the_call: lambda n: [0, 0, n, 0, 0, 0, 0, 0],
    given_to_functions: lambda n: [0, n, 2, n, 0, 0, 0, 0],
}


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("kernel", WANTED, ids=lambda k: k.key)
def test_the_tile_changes(kernel: Any, n: int):
    out = np.full(COUNT, -9.0, np.float32)
    wp.launch_tiled(kernel, dim=1, inputs=[n, out], block_dim=64)
    np.testing.assert_array_equal(out, WANTED[kernel](n))


@wp.func
def gets_another(t: Any):
    t[0] = 1.0
    t, _ = wp.tile_zeros(shape=COUNT, dtype=float), 0


@wp.kernel
def given_to_one_that_gets_another(n: int, out: Floats):
    t = wp.tile_zeros(shape=COUNT, dtype=float)
    gets_another(t)
    wp.tile_store(out, t)


def test_an_argument_that_changes_and_gets_another_value_is_refused():
    with pytest.raises(wp.WarpCodegenError, match="gets another value here, which the caller would not see"):
        wp.launch_tiled(given_to_one_that_gets_another, dim=1, inputs=[2, np.zeros(COUNT, np.float32)], block_dim=64)
