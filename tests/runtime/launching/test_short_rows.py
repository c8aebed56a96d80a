"""Grids of short rows: kernels with loops run in lanes that go on in the next row, in a program of their own."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import seeds
from warp_like.base.contract import FEWEST_IN_SHORT_ROWS, SHORT_GRID_ROW


@wp.kernel
def series(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float), sums: wp.array(dtype=int)):
    i, j = wp.tid()
    total = 0.0
    for n in range(7 + j):
        total = 0.5 * total + wp.sqrt(x[i, j] + float(n))
    y[i, j] = total
    wp.atomic_add(sums, i, j + 1)
    wp.atomic_add(sums, 0, 1)


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``series`` gives, in float64."""
    rows, row = x.shape
    total = np.zeros(x.shape)
    for n in range(7 + row):
        total = np.where(n < 7 + np.arange(row), 0.5 * total + np.sqrt(x + n), total)
    sums = np.full(rows, row * (row + 1) // 2)
    sums[0] += x.size
    return total, sums


def check(rows: int, row: int) -> None:
    x = np.random.default_rng(row).random((rows, row)).astype(np.float32)
    y, sums = np.zeros_like(x), np.zeros(rows, dtype=np.int32)
    wp.launch(series, (rows, row), [x, y, sums])
    wanted, counted = expected(x.astype(float))
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    np.testing.assert_array_equal(sums, counted)


FEW = FEWEST_IN_SHORT_ROWS
GRIDS = [
    (FEW, 3),
    (FEW // 3, 3),
    (FEW // 3 + 1, 3),
    (FEW, SHORT_GRID_ROW),
    (FEW, SHORT_GRID_ROW + 1),
    (701, 2),
    (1, 5),
    (997, 7),
]


@pytest.mark.parametrize(("rows", "row"), [*GRIDS, (FEW, 1), (5, 300)])
def test_each_grid(rows, row):
    check(rows, row)
    check(rows, row)


def test_grids_of_all_kinds_in_turn():
    for rows, row in (*GRIDS, *reversed(GRIDS), *GRIDS[::3]):
        check(rows, row)


def test_short_rows_have_a_program_of_their_own_whatever_ran_before():
    @wp.kernel
    def roots(y: wp.array2d(dtype=float)):
        i, j = wp.tid()
        total = 0.0
        for n in range(9 + i % 2):
            total = 0.5 * total + wp.sqrt(float(i + j + n))
        y[i, j] = total

    def ran(rows: int, row: int) -> object:
        """Launch it, and return the dispatcher that took the launch."""
        y = np.zeros((rows, row), dtype=np.float32)
        wp.launch(roots, (rows, row), [y])
        number = np.arange(rows)[:, None] + np.arange(row)
        wanted = sum(0.5 ** (8 - n) * np.sqrt(number + n) for n in range(9))
        wanted = np.where(np.arange(rows)[:, None] % 2 == 0, wanted, 0.5 * wanted + np.sqrt(number + 9.0))
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
        return roots.fast

    usual, short = ran(100, 40), ran(2000, 3)
    assert (usual.short_rows, short.short_rows) == (False, True)
    for _ in range(3):
        assert ran(2000, 3) is short
        assert ran(100, 40) is usual
        assert ran(2000, 8) is short
        assert ran(10, 3) is usual
    variants = {v.short_rows: v for v in roots.explain().variants}
    assert variants[True].lanes > 1
    assert "short rows of threads" in str(roots.explain())


def test_kernels_without_loops_and_on_one_index_have_one_program():
    @wp.kernel
    def root(x: wp.array2d(dtype=float)):
        i, j = wp.tid()
        x[i, j] = wp.sqrt(x[i, j])

    @wp.kernel
    def row(x: wp.array2d(dtype=float)):
        i = wp.tid()
        for j in range(x.shape[1]):
            x[i, j] = wp.sqrt(x[i, j])

    for kernel, dims in ((root, (2000, 3)), (row, 2000)):
        x = np.full((2000, 3), 4.0, dtype=np.float32)
        wp.launch(kernel, dims, [x])
        assert (x == 2.0).all()
        assert [v.short_rows for v in kernel.explain().variants] == [False]


@wp.kernel
def three(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64), rows: wp.array(dtype=wp.float64)):
    a, b, c = wp.tid()
    at = (a * 5 + b) * 4 + c
    while y[at] < x[at]:
        y[at] += wp.float64(1.0) + wp.float64(c)
    wp.atomic_add(rows, a, y[at])


@pytest.mark.parametrize("width", [0, 8])
def test_three_indices_and_float64(width):
    x = np.random.default_rng(3).uniform(-3.0, 9.0, 67 * 5 * 4)
    y, rows = np.zeros_like(x), np.zeros(67)
    wp.config.vector_width = width
    try:
        wp.launch(three, (67, 5, 4), [x, y, rows])
    finally:
        del wp.config.vector_width
    step = 1.0 + np.arange(x.size) % 4
    wanted = np.maximum(np.ceil(x / step), 0.0) * step
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_allclose(rows, wanted.reshape(67, -1).sum(axis=1), rtol=1e-12)


def test_strides_and_views():
    whole = np.random.default_rng(4).random((800, 2, 5)).astype(np.float32)
    x, y = whole[::-1, 0, 1:4], np.zeros((3, 800), dtype=np.float32).T
    sums = np.zeros(800, dtype=np.int32)
    wp.launch(series, (800, 3), [x, y, sums])
    wanted, counted = expected(x.astype(float))
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    np.testing.assert_array_equal(sums, counted)


def test_gradients_recorded_launches_and_graphs():
    @wp.kernel
    def power(x: wp.array2d(dtype=wp.float64), y: wp.array2d(dtype=wp.float64), n: int):
        i, j = wp.tid()
        p = wp.float64(1.0)
        for _ in range(n):
            p *= x[i, j]
        y[i, j] += p

    given = np.random.default_rng(5).uniform(0.5, 1.5, (900, 3))
    x = wp.array(given, dtype=wp.float64, requires_grad=True)
    y = wp.zeros((900, 3), dtype=wp.float64, requires_grad=True)
    for _ in range(2):
        with wp.Tape() as tape:
            wp.launch(power, (900, 3), [x, y, 4])
        tape.backward(grads={y: wp.ones_like(y)})
        np.testing.assert_allclose(x.grad.numpy(), 4.0 * given**3, rtol=1e-12)
        tape.zero()
    y.zero_()
    command = wp.launch(power, (900, 3), [x, y, 3], record_cmd=True)
    for dims in ((900, 3), (900, 1), (2, 3), (900, 3), (900, 2)):
        command.set_dim(dims)
        command.launch()
    with wp.ScopedCapture() as capture:
        wp.launch(power, (900, 3), [x, y, 3])
    wp.capture_launch(capture.graph)
    times = np.full((900, 3), 3.0) + np.array([2.0, 1.0, 0.0])
    times[:2] += 1.0
    np.testing.assert_allclose(y.numpy(), times * given**3, rtol=1e-12)


@pytest.mark.parametrize("seed", seeds(60, few=3))
def test_random_grids_in_pieces_of_all_sizes(seed):
    """Several threads take pieces that begin and end anywhere in rows; each thread of the grid runs once."""
    random = np.random.default_rng(seed)
    row = int(random.integers(2, SHORT_GRID_ROW + 1))
    rows = int(random.integers(FEW // row + 1, 40_000))
    check(rows, row)
