"""Which tiles are read where they are in an array, and which need a copy."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.ir_builder import assert_same, count
from tests.long_tail import crossed, name, sampled
from tests.passes.tile_functions import after, expanded, tiles
from warp_like.ir import ops
from warp_like.passes.fuse import fuse
from warp_like.passes.read_in_place import read_in_place

N, M = 20, 72
Matrix = wp.array2d(dtype=wp.float64)
KERNELS: list[tuple[Any, int, int]] = []


def leaves(copies: int, versions: int) -> Any:
    """Note a kernel that has so many loops that make tiles, and so much code in two versions."""

    def note(f: Any) -> Any:
        KERNELS.append((wp.kernel(f, module="unique"), copies, versions))
        return f

    return note


@leaves(1, 1)
def a_sum(a: Matrix, b: Matrix, at: int):
    b[0, 0] = wp.tile_sum(wp.tile_load(a, shape=(N, M), offset=(0, at)))[0]


@leaves(0, 0)
def a_promise(a: Matrix, b: Matrix, at: int):
    b[0, 0] = wp.tile_sum(wp.tile_load(a, shape=(N - 2, M - 8), offset=(1, 2), bounds_check=False))[0]


@leaves(0, 0)
def a_promise_of_short_rows(a: Matrix, b: Matrix, at: int):
    b[0, 0] = wp.tile_sum(wp.tile_load(a, shape=(N - 2, 16), bounds_check=False))[0]


@leaves(2, 1)  # one version for both
def two_at_once(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(N, M))
    s = wp.tile_load(b, shape=(N, M), offset=(at, 0))
    total = wp.tile_sum(t * s)
    b[0, 0] = total[0] + wp.tile_max(t)[0]


@leaves(3, 1)  # exponentials are a tile, in both versions
def a_softmax(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a[at], shape=M)
    e = wp.tile_map(wp.exp, t - wp.tile_broadcast(wp.tile_max(t), shape=(M,)))
    wp.tile_store(b[0], wp.tile_map(wp.div, e, wp.tile_broadcast(wp.tile_sum(e), shape=(M,))))


@leaves(2, 1)  # where the second tile is depends on the first one
def the_place_of_another(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(N, M))
    s = wp.tile_load(b[at], shape=M, offset=(wp.tile_argmax(t)[0] // M,))
    b[0, 0] = wp.tile_sum(t)[0] * wp.tile_sum(s)[0]


@leaves(1, 0)  # the store comes between the load and the sum, and the arrays may be one
def overwritten_before_the_read(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(N, M))
    b[at, 1] = wp.float64(7.0)
    b[0, 0] = wp.tile_sum(t)[0]


@leaves(2, 0)  # the loop reads what it has written; an index that may count from the end is no sum
def overwritten_by_the_loop_that_reads(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(N, M))
    for i in range(N - 1):
        b[i, at] = wp.tile_sum(t[N - 1 - i])[0]


@leaves(1, 0)
def stored(a: Matrix, b: Matrix, at: int):
    wp.tile_store(b, wp.tile_load(a, shape=(N, M)), offset=(0, at))


@leaves(3, 0)  # many reads of each number
def a_product(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(N, M))
    b[0, at] = wp.tile_sum(wp.tile_matmul(t, wp.tile_transpose(t)))[0]


@leaves(1, 1)
def in_a_loop(a: Matrix, b: Matrix, at: int):
    total = wp.float64(0.0)
    for i in range(N + at):
        total += wp.tile_sum(wp.tile_load(a[i % (N - 1)], shape=M))[0]
    b[0, 0] = total


@leaves(1, 0)  # columns, which lie apart
def columns(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(N, M))
    b[0, 0] = wp.tile_sum(wp.tile_transpose(t) * wp.float64(2.0))[0]


@leaves(2, 1)
def in_a_loop_that_reads(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a[at], shape=M, offset=at)
    total = wp.float64(0.0)
    for i in range(N - 2):
        s = wp.tile_load(a[i], shape=M, offset=i)
        total += t[i] * s[3] + s[5]
    b[0, 0] = total


def arguments(rows: int, one: bool) -> list[Any]:
    a = np.random.default_rng(3).normal(size=(rows, M))
    return [a, a if one else np.random.default_rng(4).normal(size=(N, M)), 1]


@pytest.mark.parametrize("kernel, copies, versions", sampled(KERNELS, every=2), ids=lambda x: getattr(x, "key", ""))
def test_what_is_left(kernel: Any, copies: int, versions: int):
    fused = after(expanded(kernel), fuse)
    got = after(fused, read_in_place)
    for rows in (N, N - 1):
        assert_same(fused, got, arguments(rows, False), (1,))
    assert count(got, ops.If) - count(fused, ops.If) == versions
    made = after(got, fuse)
    assert tiles(made) == copies


@pytest.mark.parametrize(("kernel", "one"), crossed([k for k, _, _ in KERNELS], [False, True], every=4), ids=name)
def test_compiled_code_agrees(kernel: Any, one: bool):
    before = expanded(kernel)
    for rows, options in ((N, {}), (N - 1, {"vector_width": 4})):
        a, b, at = arguments(rows, one)
        c, d, _ = arguments(rows, one)
        d = c if one else d
        wp.launch_tiled(kernel, dim=1, inputs=[a, b, at], block_dim=64, options=options)
        run(before, [c, d, at], (1,))
        np.testing.assert_allclose(a, c, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(b, d, rtol=1e-12, atol=1e-14)


@wp.kernel
def sums_of_products(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a[at], shape=M, offset=at)
    s = wp.tile_zeros(shape=65, dtype=wp.float64)
    for m in range(65):
        s[m] = a[1, m + 2] * t[m + 1] + a[2, m]
    total = s[3] + s[5] * s[7]
    for j in range(M):
        total += t[j] * wp.float64(j)
    b[0, 0] = total


@wp.kernel
def sums_in_order(a: Matrix, b: Matrix, at: int):
    s = wp.tile_zeros(shape=65, dtype=wp.float64)
    for m in range(65):
        s[m] = a[1, m + 2] * wp.float64(2.0) + a[2, m]
    total = s[3] + s[5] * s[7] + s[9] * s[11]
    t = wp.tile_load(a[at], shape=M, offset=at)
    for j in range(M):
        total += t[j] * wp.float64(j)
    b[0, 0] = total


@wp.kernel
def sums_of_rows(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a[at], shape=M, offset=at)
    total = wp.float64(0.0)
    for j in range(M):
        s = wp.tile_load(a[j % 4], shape=M, offset=j)
        total += t[j] * s[3] + s[5]
    b[0, 0] = total


@pytest.mark.parametrize("kernel", [sums_of_products, sums_in_order, sums_of_rows])
@pytest.mark.parametrize("at", [0, 1])
def test_reads_among_reads(kernel: Any, at: int):
    """Elements of a tile that are read move the reads of another one, and are copied with them."""
    a, b, _ = arguments(N, False)
    wanted = np.zeros_like(b)
    run(expanded(kernel), [a, wanted, at], (1,))
    wp.launch_tiled(kernel, dim=1, inputs=[a, b, at], block_dim=64, options={"fuse_fp": False})
    np.testing.assert_allclose(b[0, 0], wanted[0, 0], rtol=1e-12)


@wp.kernel
def few_numbers(a: Matrix, b: Matrix, at: int):
    t = wp.tile_load(a, shape=(3, 4))
    if at > 1:
        b[0, 0] = wp.float64(0.0)
    else:
        t = wp.tile_map(wp.min, wp.tile_load(b, shape=(3, 4), offset=(0, 1)), t)
    wp.tile_store(b, t)


def test_few_numbers_are_copied():
    """A version of such code without copies, all loops unrolled, made LLVM's vectoriser give invalid code."""
    f = after(expanded(few_numbers), fuse)
    assert count(after(f, read_in_place), ops.If) == count(f, ops.If)
    a, b, at = arguments(N, False)
    wanted = b.copy()
    wanted[:3, :4] = np.minimum(b[:3, 1:5], a[:3, :4])
    wp.launch_tiled(few_numbers, dim=1, inputs=[a, b, at], block_dim=64)
    np.testing.assert_array_equal(b, wanted)
