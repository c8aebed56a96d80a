"""Tiles in blocks of several threads on the CPU: what the threads do together, against NumPy, with gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed, name
from tests.passes.block_oracle import A2, COLUMNS, A, Pair, data, f64, slope

COUNT = 16


@pytest.fixture(autouse=True)
def cpu_blocks() -> Iterator[None]:
    wp.config.enable_cpu_blocks = True
    yield
    wp.config.enable_cpu_blocks = False


@wp.func
def doubled_where(t: Any, j: int):
    t[j] = t[j] * f64(2.0)


@wp.kernel
def tiles_of_threads(x: A2, y: A2):
    i, j = wp.tid()
    row = wp.tile(x[i, j])
    y[i, j] = wp.untile(row * f64(2.0)) + wp.tile_sum(row)[0]
    ends = wp.tile(wp.vec2d(x[i, j], f64(j)))
    back = wp.untile(ends + ends)
    y[i, COUNT + j] = back[0] * back[1]
    wp.tile_store(y[i], wp.tile_from_thread(shape=2, value=x[i, j], thread_idx=1), offset=2 * COUNT)


def _tiles_of_threads(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    row = x[:, :b]
    y[:, :b] = 2.0 * row + row.sum(axis=1, keepdims=True)
    y[:, COUNT : COUNT + b] = 4.0 * row * np.arange(b)
    y[:, 2 * COUNT : 2 * COUNT + 2] = row[:, 1:2]
    return y


@wp.kernel
def tiles_that_threads_change(x: A2, y: A2):
    i, j = wp.tid()
    t = wp.tile_load(x[i], shape=COUNT)
    before = t[wp.block_dim() - 1 - j]
    t[j] = before * before
    t[COUNT - 1] += x[i, j]
    doubled_where(t, j)
    wp.tile_scatter_add(t, 0, x[i, j], j % 2 == 0)
    t[1:3] = t[0:2] + wp.tile_ones(shape=2, dtype=f64)
    total = f64(0.0)
    for k in range(COUNT):
        if k % (j + 1) == 0:
            total += t[k]
    wp.tile_store(y[i], t)
    y[i, COUNT + j] = total


def _tiles_that_threads_change(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    for i, row in enumerate(x):
        t = row[:COUNT].copy()
        t[:b] = t[b - 1 :: -1][:b] ** 2
        t[COUNT - 1] += row[:b].sum()
        t[:b] *= 2.0
        t[0] += row[:b:2].sum()
        t[1:3] = t[0:2] + 1.0
        y[i, :COUNT] = t
        y[i, COUNT : COUNT + b] = [t[:: j + 1].sum() for j in range(b)]
    return y


@wp.kernel
def tiles_in_loops(x: A2, y: A2):
    i, j = wp.tid()
    own = x[i, j]
    total = wp.tile_zeros(shape=4, dtype=f64)
    for k in range(3):
        part = wp.tile_load(x[i], shape=4, offset=4 * k)
        if k == 1:
            total += part * f64(2.0)
            own += wp.tile_sum(part)[0]
        else:
            total -= part
        own *= f64(1.5) + part[j % 4]
    wp.tile_atomic_add(y[i], total)
    y[i, COUNT + j] = own
    for k in range(wp.block_thread(), COUNT, wp.block_dim()):
        y[i, 2 * COUNT - 8 + k % 8] += x[i, k] * x[i, k]


def _tiles_in_loops(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    for i, row in enumerate(x):
        own = row[:b].copy()
        for k in range(3):
            part = row[4 * k : 4 * k + 4]
            y[i, :4] += 2.0 * part if k == 1 else -part
            own += part.sum() if k == 1 else 0.0
            own *= 1.5 + part[np.arange(b) % 4]
        y[i, COUNT : COUNT + b] = own
        y[i, 2 * COUNT - 8 : 2 * COUNT] += row[:8] ** 2 + row[8:COUNT] ** 2
    return y


@wp.kernel
def parts_of_elements(x: A2, y: A2):
    i, j = wp.tid()
    v = wp.tile_zeros(shape=2, dtype=wp.vec2d)
    v[j // 2 % 2][j % 2] = x[i, j]
    v[0][j % 2] += x[i, j] * x[i, j]
    v[1][1] *= f64(2.0)
    h = wp.tile_zeros(shape=2, dtype=Pair)
    h[0].a += x[i, j]
    h[1].v[j % 2] = x[i, j]
    h[1].v[0] -= x[i, j]
    y[i, 0] = v[0][0]
    y[i, 1] = v[0][1]
    y[i, 2] = v[1][0]
    y[i, 3] = v[1][1]
    y[i, 4] = h[0].a
    y[i, 5] = h[1].v[0]
    y[i, 6] = h[1].v[1]


def _parts_of_elements(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    for i, row in enumerate(x[:, :b]):
        for j, number in enumerate(row):
            y[i, j % 4] = number
        y[i, 0] += (row[::2] ** 2).sum()
        y[i, 1] += (row[1::2] ** 2).sum()
        y[i, 3] *= 2.0
        y[i, 4:7] = row.sum(), row[::2][-1] - row.sum(), row[1::2][-1]
    return y


@wp.kernel
def threads_that_leave(x: A2, y: A2):
    i, j = wp.tid()
    v = x[i, j]
    before = wp.tile_sum(wp.tile(v))[0]
    if j % 3 == 0:
        y[i, j] = before * v
        return
    y[i, 8 + j] = wp.tile_sum(wp.tile(v))[0]
    s = wp.tile_stack(capacity=8, dtype=f64)
    wp.tile_stack_push(s, v, True)
    last = wp.tile_zeros(shape=1, dtype=f64)
    last[0] = v
    wp.tile_atomic_add(y[i], last, offset=24)
    same = f64(0.0)
    for k in range(2):
        y[i, 16 + j] += before
        same += f64(k + 1)
    wp.tile_store(y[i], wp.tile_full(shape=2, value=same, dtype=f64), offset=26)  # also where the first one has left
    if j > 4 or before > f64(1e9):
        return
    for _ in range(2):
        t = wp.tile(v * v)
        y[i, 16 + j] += wp.tile_sum(t)[0] * f64(wp.tile_stack_count(s))
    wp.tile_store(y[i], t, offset=32)


def _threads_that_leave(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    for i, row in enumerate(x[:, :b]):
        j = np.arange(b)
        y[i, j[j % 3 == 0]] = row.sum() * row[::3]
        first = j[j % 3 != 0]
        y[i, 8 + first] = row[first].sum()
        y[i, 24] = row[first[-1]]
        y[i, 16 + first] = 2.0 * row.sum()
        y[i, 26:28] = 3.0
        second = first[first <= 4]
        y[i, 16 + second] += 2.0 * (row[second] ** 2).sum() * len(first)
        y[i, 32 + second] = row[second] ** 2
    return y


@wp.func
def push_twice(s: wp.tile_stack(capacity=64, dtype=f64), v: f64):
    wp.tile_stack_push(s, v, True)
    wp.tile_stack_push(s, v + f64(1.0), v > f64(0.0))
    return wp.tile_stack_count(s)


@wp.func
def taken(s: Any):
    wp.tile_stack_pop(s)
    v, _place = wp.tile_stack_pop(s)
    return v


@wp.kernel
def stacks_in_functions(x: A2, y: A2):
    i, j = wp.tid()
    s = wp.tile_stack(capacity=64, dtype=f64)
    for k in range(2):
        y[i, k] = f64(push_twice(s, x[i, 0]))
    y[i, 2 + j] = taken(s)


def _stacks_in_functions(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    for i, row in enumerate(x):
        held: list[float] = []
        for k in range(2):
            held += [row[0]] * b + [row[0] + 1.0] * b * bool(row[0] > 0.0)
            y[i, k] = len(held)
        y[i, 2 : 2 + b] = held[-1 - b : -1 - 2 * b : -1]
    return y


@wp.kernel
def elements_taken_in_turns(x: A2, y: A2):
    i, j = wp.tid()
    n, width = x.shape[1], wp.block_dim()
    total = f64(0.0)
    for k in range(j, ((n + width - 1) // width) * width, width):
        v = f64(0.0)
        if k < n:
            v = x[i, k] * x[i, k]
        total += wp.tile_sum(wp.tile(v))[0] * f64(k + 1)
    y[i, j] = total


def _elements_taken_in_turns(x: np.ndarray, b: int) -> np.ndarray:
    y = np.zeros((len(x), COLUMNS))
    for begin in range(0, COUNT, b):
        sums = (x[:, begin : begin + b] ** 2).sum(1)
        y[:, :b] += sums[:, None] * (begin + 1 + np.arange(b))
    return y


ON_TILES = {
    elements_taken_in_turns: _elements_taken_in_turns,
    parts_of_elements: _parts_of_elements,
    threads_that_leave: _threads_that_leave,
    stacks_in_functions: _stacks_in_functions,
    tiles_of_threads: _tiles_of_threads,
    tiles_that_threads_change: _tiles_that_threads_change,
    tiles_in_loops: _tiles_in_loops,
}


@pytest.mark.parametrize(("kernel", "block_dim"), crossed(ON_TILES, [5, 8, 2], every=6), ids=name)
def test_tiles(kernel: Any, block_dim: int) -> None:
    given = np.random.default_rng(3).uniform(-1.0, 1.0, (3, COUNT))
    x = wp.array(given, dtype=f64, requires_grad=True)
    y = wp.zeros((3, COLUMNS), dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(kernel, dim=3, inputs=[x, y], block_dim=block_dim)
    np.testing.assert_allclose(y.numpy(), ON_TILES[kernel](given, block_dim), rtol=1e-12, atol=1e-12)
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, (3, COLUMNS))
    tape.backward(grads={y: wp.array(weights, dtype=f64)})
    wanted = slope(lambda at: ON_TILES[kernel](at, block_dim), given, weights)
    np.testing.assert_allclose(x.grad.numpy(), wanted, atol=1e-7)


@wp.kernel
def the_same_after_some_have_left(x: A, y: A2, n: int):
    i = wp.tid()
    if x[i] < f64(0.0):
        return
    total = f64(0.0)
    for k in range(n):
        y[i, 0] = f64(k)
        total += f64(k + 1)
    wp.tile_store(y[i // 4], wp.tile_full(shape=2, value=total, dtype=f64), offset=1)


def test_the_first_thread_may_have_left() -> None:
    x, y = np.array([-1.0, 1.0, -1.0, 1.0, 1.0, -1.0]), np.zeros((6, 3))
    wp.launch(the_same_after_some_have_left, 6, [x, y, 3], block_dim=4)
    np.testing.assert_array_equal(y[:, 0], np.where(x < 0.0, 0.0, 2.0))
    np.testing.assert_array_equal(y[:2, 1:], 6.0)


@wp.kernel
def stacks(x: A, y: A2, n: int):
    i = wp.tid()
    s = wp.tile_stack(capacity=6, dtype=f64)
    y[i, 0] = f64(wp.tile_stack_push(s, x[i], x[i] > f64(0.0)))
    y[i, 1] = f64(wp.tile_stack_count(s))
    value, place = wp.tile_stack_pop(s)
    y[i, 2] = value
    y[i, 3] = f64(place)
    y[i, 4] = f64(wp.tile_stack_count(s))


@pytest.mark.parametrize(("n", "block_dim"), [(8, 8), (21, 8)])
def test_stacks(n: int, block_dim: int) -> None:
    x, y = data(n), np.zeros((n, 6))
    wp.launch(stacks, n, [x, y, 0], block_dim=block_dim)
    for first in range(0, n, block_dim):
        own, got = x[first : first + block_dim], y[first : first + block_dim]
        kept = own[own > 0.0][:6]
        places = iter(range(len(own)))
        pushed = [next(places) if v > 0.0 else -1 for v in own]
        np.testing.assert_array_equal(got[:, 0], [p if p < 6 else -1 for p in pushed])
        np.testing.assert_array_equal(got[:, 1], len(kept))
        popped = np.flip(kept)[: len(own)]
        np.testing.assert_array_equal(got[: len(popped), 2], popped)
        np.testing.assert_array_equal(got[:, 3], [len(kept) - 1 - k if k < len(kept) else -1 for k in range(len(own))])
        np.testing.assert_array_equal(got[:, 4], max(len(kept) - len(own), 0))


@wp.kernel
def tiles_of_structs(x: A, y: A2, n: int):
    i = wp.tid()
    own = Pair()
    own.a = x[i]
    own.b = i
    t = wp.tile(own, preserve_type=True)
    other = t[wp.block_dim() - 1 - wp.block_thread()]
    y[i, 0] = other.a
    y[i, 1] = f64(other.b)


def test_tiles_of_structs() -> None:
    y = np.zeros((8, 6))
    wp.launch(tiles_of_structs, 8, [data(8), y, 0], block_dim=4)
    np.testing.assert_array_equal(y[:, 0], data(8).reshape(2, 4)[:, ::-1].ravel())
    np.testing.assert_array_equal(y[:, 1], [3, 2, 1, 0, 7, 6, 5, 4])


@wp.kernel
def random_tiles(seed: wp.uint32, out: wp.array2d(dtype=int)):
    i, _j = wp.tid()
    wp.tile_store(out[i], wp.tile_randi(shape=7, rng=seed + wp.uint32(100 * i)))


def pcg(state: int) -> int:
    b = (state * 747796405 + 2891336453) % 2**32
    c = ((b >> ((b >> 28) + 4)) ^ b) * 277803737 % 2**32
    return (c >> 22) ^ c


@pytest.mark.parametrize("block_dim", [3, 16])
def test_threads_draw_random_elements_in_turns(block_dim: int) -> None:
    out = wp.zeros((2, 7), dtype=int)
    wp.launch_tiled(random_tiles, dim=2, inputs=[42, out], block_dim=block_dim)
    wanted = np.zeros((2, 7), np.uint32)
    for i in range(2):
        states = [pcg(42 + 100 * i + k) for k in range(block_dim)]
        for e in range(7):
            states[e % block_dim] = pcg(states[e % block_dim])
            wanted[i, e] = states[e % block_dim]
    np.testing.assert_array_equal(out.numpy(), wanted.view(np.int32))


def of_vectors(length: int) -> Any:
    vector = wp.types.vector(length, f64)

    @wp.kernel
    def vectors(x: A, y: A2, n: int):
        i = wp.tid()
        v = vector(x[i])
        v[n] = x[i] * x[i]
        w = v
        total = wp.block_sum(v)
        if total[n] > f64(0.0):
            w = v * total[0]
            total += wp.block_sum(w)
        y[i, 0] = wp.dot(w, w)
        y[i, 1] = total[n]

    return vectors


def _of_vectors(x: np.ndarray, length: int, n: int, block_dim: int) -> np.ndarray:
    y = np.zeros((len(x), 2))
    for first in range(0, len(x), block_dim):
        own = x[first : first + block_dim]
        v = np.repeat(own[:, None], length, axis=1)
        v[:, n] = own**2
        w = v * v[:, 0].sum()
        y[first : first + block_dim, 0] = (w**2).sum(axis=1)
        y[first : first + block_dim, 1] = v[:, n].sum() + w[:, n].sum()
    return y


@pytest.mark.parametrize("length", [80, 20])
def test_vectors_in_memory_live_across_cuts(length: int) -> None:
    """Those of 80 numbers are large; those of 20 are in memory since they are indexed by a variable."""
    kernel, given = of_vectors(length), data(7)
    x = wp.array(given, dtype=f64, requires_grad=True)
    y = wp.zeros((7, 2), dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 7, inputs=[x, y, 3], block_dim=4)
    np.testing.assert_allclose(y.numpy(), _of_vectors(given, length, 3, 4), rtol=1e-12)
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, y.shape)
    tape.backward(grads={y: wp.array(weights, dtype=f64)})
    wanted = slope(lambda at: _of_vectors(at, length, 3, 4), given, weights)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)


@wp.kernel
def tiles_are_printed(x: A, n: int):
    i, j = wp.tid()
    t = wp.tile_load(x, shape=2, offset=2 * i)
    print("block", i, t)
    if n > 1:
        print(t[1:2])
    if j == 1:
        print("thread", t)
    for k in range(n):
        print(k, t)
    for _ in range(j - 1):
        print("own", j, t)


def test_a_tile_is_printed_once_where_all_threads_show_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    wp.launch_tiled(tiles_are_printed, dim=2, inputs=[np.arange(4.0), 2], block_dim=3)
    lines = []
    for i, t in enumerate(("0.0 1.0", "2.0 3.0")):
        lines += [f"block {i} {t}", t.split()[1], f"thread {t}", f"0 {t}", f"1 {t}", f"own 2 {t}"]
    assert capfd.readouterr().out.splitlines() == lines


@wp.kernel
def shapes_are_printed(x: A):
    m = wp.tile_load(x, shape=6)
    print(wp.tile_reshape(m, shape=(2, 3)))
    v = wp.tile_zeros(shape=(2, 1), dtype=wp.vec2d)
    v[1, 0] = wp.vec2d(m[1], m[2])
    print(v)
    pairs = wp.tile_zeros(shape=2, dtype=Pair)
    pairs[1].b = 3
    print(pairs)


def test_tiles_are_printed_in_their_rows(capfd: pytest.CaptureFixture[str]) -> None:
    wp.launch_tiled(shapes_are_printed, dim=1, inputs=[np.arange(6.0)], block_dim=2)
    assert capfd.readouterr().out.splitlines() == [
        "0.0 1.0 2.0",
        "3.0 4.0 5.0",
        "0.0 0.0",
        "1.0 2.0",
        "Pair(a=0.0, b=0, v=[0.0, 0.0]) Pair(a=0.0, b=3, v=[0.0, 0.0])",
    ]
