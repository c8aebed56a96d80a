"""Grids whose last extents are 1: the kernel's last indices are 0, and the others name a thread.

Blocks of one thread make such grids of kernels that ask for the index in their block. They run code of their own, which
takes no other grids.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import warp_like as wp

GRIDS = [
    *[(40,), (40, 1), (40, 1, 1), (40, 3, 1), (40, 3), (40, 3, 2), (1, 3), (1, 1), (1, 1, 2), (40, 1, 2), (0, 1)],
    *[(40, 1, 1, 1), (40, 1, 1, 2), (1, 3, 1)],
]


@wp.kernel
def add(x: wp.array3d(dtype=float), y: wp.array3d(dtype=float), count: wp.array(dtype=int)):
    i, j, k = wp.tid()
    for n in range(x.shape[2]):
        wp.atomic_add(y, i, j, n, x[i, j, n] + float(k))
    wp.atomic_add(count, j + k, 1)


def expected(x: np.ndarray, dims: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """What ``add`` gives, in float64."""
    a, b, c, *others = (*dims, 1, 1, 1)
    times = math.prod(others)
    y, count = np.zeros(x.shape), np.zeros(8, dtype=int)
    y[:a, :b] = times * (c * x[:a, :b] + sum(range(c)))
    for j in range(b):
        for k in range(c):
            count[j + k] += a * times
    return y, count


def run(dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).random((40, 3, 7)).astype(np.float32)
    y, count = np.zeros_like(x), np.zeros(8, dtype=np.int32)
    wp.launch(add, dims, [x, y, count])
    wanted, counted = expected(x.astype(float), dims)
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    np.testing.assert_array_equal(count, counted)


@pytest.mark.parametrize("dims", GRIDS)
def test_each_grid_of_unit_extents(dims):
    run(dims)
    run(dims)


def test_grids_of_all_kinds_in_turn():
    for dims in (*GRIDS, *reversed(GRIDS), *GRIDS[::2]):
        run(dims)


def test_arguments_that_overlap():
    """Each thread adds to a row of its own, but two parameters are rows of the same array, one further down."""

    @wp.kernel
    def add_to_both(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        i, j = wp.tid()
        for n in range(x.shape[1]):
            wp.atomic_add(x, i, n, 1.0)
            wp.atomic_add(y, i, n, 1.0 + float(j))

    memory = np.zeros((5001, 8), dtype=np.float32)
    wp.launch(add_to_both, (5000, 1), [memory[:-1], memory[1:]])
    assert (memory[0] == 1.0).all()
    assert (memory[-1] == 1.0).all()
    assert (memory[1:-1] == 2.0).all()


def test_a_row_of_the_last_index_but_one_runs_in_lanes():
    @wp.kernel
    def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i, j = wp.tid()
        y[i] = wp.exp(x[i]) + float(j)

    x = np.linspace(-1.0, 1.0, 1000, dtype=np.float32)
    y = np.zeros_like(x)
    wp.launch(root, (1000, 1), [x, y])
    np.testing.assert_allclose(y, np.exp(x.astype(float)), rtol=1e-6)
    (variant,) = root.explain().variants
    assert variant.extents == 1
    assert variant.lanes > 1
    assert "no extents above 1 but the first 1" in str(root.explain())


def test_a_kernel_that_asks_for_as_many_indices_has_one_program():
    @wp.kernel
    def double(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = 2.0 * x[i]

    x = np.ones(9, dtype=np.float32)
    for dims in ((9,), (9, 1), 9, (9, 1, 1)):
        wp.launch(double, dims, [x])
    assert (x == 16.0).all()
    assert [v.extents for v in double.explain().variants] == [0]


def test_a_block_of_one_thread_adds_without_atomics():
    @wp.kernel
    def sums(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        i, t = wp.tid()
        total = wp.tile_sum(wp.tile_load(x[i], shape=8))
        for n in range(t, y.shape[1], wp.block_dim()):
            wp.atomic_add(y, i, n, total[0])

    x = np.arange(320, dtype=np.float32).reshape(40, 8)
    y = np.ones((40, 5), dtype=np.float32)
    wp.launch_tiled(sums, dim=40, inputs=[x, y], block_dim=32)
    np.testing.assert_allclose(y, 1.0 + np.repeat(x.astype(float).sum(axis=1, keepdims=True), 5, axis=1))
    assert sums.program(sums.types, extents=1).effects.thread_private == (1,)
    assert sums.program(sums.types).effects.thread_private == ()


def test_gradients_of_such_launches():
    x = wp.array(np.random.default_rng(2).random((6, 1, 4)), dtype=float, requires_grad=True)
    y, count = wp.zeros((6, 1, 4), dtype=float, requires_grad=True), wp.zeros(8, dtype=int)
    with wp.Tape() as tape:
        wp.launch(add, (6, 1, 1), [x, y, count])
        wp.launch(add, (6, 1, 3), [x, y, count])
    tape.backward(grads={y: wp.ones_like(y)})
    assert (x.grad.numpy() == 4.0).all()


def test_recorded_launches_and_graphs_follow_their_grid():
    x, y, count = (wp.array(np.ones((6, 3, 2)), dtype=float), wp.zeros((6, 3, 2), dtype=float), wp.zeros(8, dtype=int))
    command = wp.launch(add, (6, 1, 1), [x, y, count], record_cmd=True)
    for dims in ((6, 1, 1), (6, 3, 1), (6, 3, 2), (6, 1, 1)):
        command.set_dim(dims)
        command.launch()
    with wp.ScopedCapture() as capture:
        wp.launch(add, (6, 1, 1), [x, y, count])
    wp.capture_launch(capture.graph)
    wp.capture_launch(capture.graph)
    assert (y.numpy()[:, 0] == 1 + 1 + 3 + 1 + 2).all()
    assert (y.numpy()[:, 1:] == 1 + 3).all()


@pytest.mark.parametrize("dims", [(3,), (3, 1), (1, 3), (2, 3), (3, 1, 2), (2, 1, 3, 1)], ids=str)
def test_blocks_that_share_indices(dims):
    @wp.kernel
    def tiles(y: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_add(y, i, wp.tile_sum(wp.tile_ones(shape=4, dtype=int))[0])

    y = wp.zeros(4, dtype=int)
    for launch in (wp.launch, wp.launch_tiled):
        y.zero_()
        launch(tiles, dim=dims, inputs=[y], block_dim=1)
        np.testing.assert_array_equal(y.numpy(), [4 * math.prod(dims[1:]) * (i < dims[0]) for i in range(4)])


def test_a_grid_that_counts_in_64_bits():
    """The indices of kernels for small grids have 32 bits, so that code with mixed sums is refused there."""

    @wp.kernel
    def last(y: wp.array(dtype=wp.int64)):
        i, j = wp.tid()
        if i + wp.int64(1) == wp.int64(2**31 + 3):
            y[0] = wp.int64(i) + wp.int64(j)

    y = wp.zeros(1, dtype=wp.int64)
    wp.launch(last, dim=(2**31 + 3, 1), inputs=[y])
    assert y.numpy()[0] == 2**31 + 2
