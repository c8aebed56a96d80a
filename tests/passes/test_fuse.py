"""Which tiles need no loop of their own, and which must keep theirs."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.ir_builder import assert_same
from tests.long_tail import crossed, sampled
from tests.passes.tile_functions import after, expanded, tiles
from warp_like.passes.fuse import fuse

N, M = 20, 24
Matrix = wp.array2d(dtype=wp.float64)
Numbers = wp.array(dtype=wp.float64)
KERNELS: list[tuple[Any, int]] = []


def leaves(count: int) -> Any:
    """Note a kernel that needs ``count`` loops that make tiles."""

    def note(f: Any) -> Any:
        KERNELS.append((wp.kernel(f, module="unique"), count))
        return f

    return note


@wp.func
def mixed(x: wp.float64, y: wp.float64):
    if x > y:
        return wp.sin(x) * y
    return x - y


@leaves(1)  # the load
def a_chain(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    wp.tile_store(out, wp.tile_map(wp.exp, (t * t + t) * wp.float64(0.25)) - t)


@leaves(1)
def a_sum_of_products(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    out[0, 0] = wp.tile_sum(t * t - t)[0] + wp.tile_max(wp.tile_transpose(t))[0]


@leaves(2)  # the function costs more than its place in memory, and both sums need it
def what_is_needed_twice(a: Matrix, out: Matrix, n: int):
    e = wp.tile_map(wp.exp, wp.tile_load(a, shape=(N, M)))
    out[0, 0] = wp.tile_sum(e)[0] + wp.tile_sum(e * e)[0]


@leaves(1)
def functions_and_broadcasts(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    low = wp.tile_broadcast(wp.tile_min(t), shape=(N, M))
    wp.tile_store(out, wp.tile_map(mixed, low, t) + low)


@leaves(3)  # the row begins with the first one, and is the result of a loop that adds
def sums_along_an_axis(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    row = wp.tile_sum(t * wp.float64(2.0), axis=0)
    wp.tile_store(out, t - wp.tile_broadcast(row, shape=(N, M)))


@leaves(3)  # what is added in place, and the running sums
def conversions(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    whole = wp.tile_astype(t * wp.float64(10.0), dtype=int)
    whole += wp.tile_ones(shape=(N, M), dtype=int)
    wp.tile_store(out, wp.tile_astype(wp.tile_scan_inclusive(whole), dtype=wp.float64))


@leaves(2)  # `t` changes in place, and `double` is made of what it was: it can't be made later without a copy
def what_changes(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    double = t * wp.float64(2.0)
    for i in range(3):
        t[i + n, 1] = double[i, i] + wp.float64(1.0)
    wp.tile_store(out, double + t)


@leaves(2)  # an index that is out of range reads the first element
def indices_that_are_not_known(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M)) * wp.float64(2.0)
    out[0, 0] = t[n * 7, n]
    out[0, 1] = t[n - 3, 0]


@leaves(3)  # what loops carry stays a tile
def carried(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    s = t * wp.float64(0.5)
    for _ in range(n):
        s = s * t - t
    wp.tile_store(out, s)


@leaves(2)  # the last tile is read twice
def vectors(a: Matrix, out: Matrix, n: int):
    t = wp.tile_load(a, shape=(N, M))
    v = wp.tile_map(pair, t[:, 0], t[:, 1])
    w = v * wp.float64(0.5) + v
    out[0, 0] = wp.tile_sum(w)[0][1]
    for i in range(N):
        out[i, 1] = w[i][0]


@wp.func
def pair(x: wp.float64, y: wp.float64):
    return wp.vec2d(x * y, x - y)


@pytest.mark.parametrize("kernel, count", sampled(KERNELS, every=2), ids=lambda x: getattr(x, "key", ""))
def test_loops_that_are_left(kernel: Any, count: int):
    before = expanded(kernel)
    got = after(before, fuse)
    rng = np.random.default_rng(3)
    for rows in (N, N - 3):
        assert_same(before, got, [rng.normal(size=(rows, M)), np.zeros((N, M)), 2], (1,))
    assert tiles(got) == count
    again = after(got, fuse)
    assert tiles(again) == count


@pytest.mark.parametrize("kernel", crossed([k for k, _ in KERNELS], every=2), ids=lambda k: k.key)
def test_compiled_code_agrees(kernel: Any):
    a = np.random.default_rng(3).normal(size=(N, M))
    found = []
    for options in ({}, {"vector_width": 4}, {"mode": "debug"}):
        out = np.zeros((N, M))
        wp.launch_tiled(kernel, dim=1, inputs=[a, out, 2], block_dim=64, options=options)
        found.append(out)
    wanted = np.zeros((N, M))
    run(expanded(kernel), [a, wanted, 2], (1,))
    for out in found:
        np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-14)
