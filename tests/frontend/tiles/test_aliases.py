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


# --- loops that give the variable another tile ---


@wp.kernel
def finished_before_the_loop(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    u = t[::-1] * 0.5
    v = wp.tile_view(t, offset=0, shape=4)
    total = wp.tile_sum(v)[0]
    for _i in range(n):
        t = t + u
    wp.tile_store(out, t * total)


@wp.kernel
def finished_before_a_nest(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    u = t[::-1] * 0.5
    i = wp.int32(0)
    while i < n:
        for _j in range(1):
            first = t[0:1] * 0.0
            t = t + u
        t = t + wp.tile_broadcast(first, shape=(COUNT,))
        i += 1
    total = wp.tile_sum(wp.tile_load(x, shape=4))[0]
    wp.tile_store(out, t * total)


@wp.kernel
def copied_into_a_tuple(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    pair = (t[::-1], wp.tile_sum(t[0:4])[0])
    for _i in range(n):
        t = t + pair[0] * 0.5
    wp.tile_store(out, t * pair[1])


@pytest.mark.parametrize("kernel", [finished_before_the_loop, finished_before_a_nest, copied_into_a_tuple])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_what_was_made_of_a_part_outlives_the_tile(kernel: Any, n: int):
    x = np.arange(1.0, COUNT + 1).astype(np.float32)
    out = np.zeros_like(x)
    wp.launch_tiled(kernel, dim=1, inputs=[n, x, out], block_dim=1)
    np.testing.assert_allclose(out, (x + n * x[::-1] * 0.5) * x[:4].sum())


@wp.kernel
def read_in_the_loop(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    v = t[::-1]
    for _i in range(n):
        u = v * 0.5
        t = t + u
    wp.tile_store(out, t)


@wp.kernel
def read_in_a_condition(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    v = t[2:4]
    while v[0] < 9.0:
        t = t + t
    wp.tile_store(out, t)


@wp.kernel
def read_after_the_loop(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    v = t[0:4]
    for _i in range(n):
        t = t + t
    wp.tile_store(out, v)


@wp.kernel
def part_of_a_part(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    w = t[::-1][0:4]
    for _i in range(n):
        out[0] = w[0]
        t = t + t


@wp.kernel
def read_beside_a_branch(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    v = t[0:4]
    if n > 1:
        for _i in range(n):
            t = t + t
    wp.tile_store(out, v)


@wp.kernel
def read_of_several_names(n: int, x: Floats, out: Floats):
    t = wp.tile_load(x, shape=COUNT)
    (a, _b), c = (t[0:4], 1.0), t[4:8]
    for _i in range(n):
        for _j in range(n):
            out[0] = a[1] + c[1]
        t = t + t


REFUSED = [
    *[read_in_the_loop, read_in_a_condition, read_of_several_names, read_after_the_loop, part_of_a_part],
    read_beside_a_branch,
]


@pytest.mark.parametrize("kernel", REFUSED)
def test_a_part_that_would_be_of_another_tile_is_refused(kernel: Any):
    with pytest.raises(wp.WarpCodegenError, match=r"is a part of the tile (in `t` from before|that `t` held before)"):
        wp.launch_tiled(
            kernel, dim=1, inputs=[2, np.zeros(COUNT, np.float32), np.zeros(COUNT, np.float32)], block_dim=1
        )
