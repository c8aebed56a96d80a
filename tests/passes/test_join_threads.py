"""Blocks of several threads on the CPU, against the same kernels in plain Python, whose threads wait for each other."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.interpreter import run
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Options, Signature
from warp_like.ir import ops

f64 = wp.float64
A = wp.array(dtype=f64)
A2 = wp.array2d(dtype=f64)
COLUMNS = 40


@pytest.fixture(autouse=True)
def cpu_blocks() -> Iterator[None]:
    wp.config.enable_cpu_blocks = True
    yield
    wp.config.enable_cpu_blocks = False


class Team:
    """The threads of one block in plain Python: ``tid``, exchanges and barriers, under the names of builtins."""

    int = int
    float64 = float
    vec2d = staticmethod(lambda *x: np.array(x, float))
    sin = staticmethod(np.sin)
    where = staticmethod(lambda c, a, b: a if c else b)

    def __init__(self, count: int, dim: int) -> None:
        self.count, self.dim = count, dim
        self.barrier = threading.Barrier(count)
        self.slots: list[Any] = [None] * count
        self.local = threading.local()

    def all(self, value: Any) -> list[Any]:
        self.slots[self.local.number] = value
        self.barrier.wait()
        found = list(self.slots)
        self.barrier.wait()
        return found

    def tid(self) -> Any:
        return self.local.index

    def block_thread(self) -> int:
        return self.local.number

    def block_size(self) -> int:
        return self.count

    def block_dim(self) -> int:
        return self.dim

    def block_sync(self) -> None:
        self.barrier.wait()

    def block_sum(self, x: Any) -> Any:
        return sum(self.all(x))

    def block_min(self, x: Any) -> Any:
        return min(self.all(x))

    def block_max(self, x: Any) -> Any:
        return max(self.all(x))

    def block_any(self, x: bool) -> bool:
        return any(self.all(x))

    def block_all(self, x: bool) -> bool:
        return all(self.all(x))

    def warp_sum(self, x: Any) -> Any:
        return x

    def shared_array(self, shape: Any, dtype: Any) -> Any:
        return self.all(np.zeros(shape))[0]

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape)


def in_python(function: Callable[..., None], args: list[Any], dims: tuple[int, ...], block_dim: int) -> None:
    """Run a kernel's function once for each thread of the grid, block after block along its last dimension."""
    *outer, last = dims
    for row in np.ndindex(*outer):
        for first in range(0, last, block_dim):
            team = Team(min(block_dim, last - first), block_dim)
            code = types.FunctionType(function.__code__, {**function.__globals__, "wp": team, "f64": float})

            def one(k: int, team: Team = team, code: Any = code, at: Any = (*row, first)) -> None:
                team.local.number = k
                index = (*at[:-1], at[-1] + k)
                team.local.index = index if len(index) > 1 else index[0]
                code(*args)

            running = [threading.Thread(target=one, args=(k,)) for k in range(team.count)]
            for t in running:
                t.start()
            for t in running:
                t.join()


@wp.struct
class Pair:
    a: f64
    b: int
    v: wp.vec2d


# --- kernels of one array of numbers, one of results, and a number ---


@wp.kernel
def sums(x: A, y: A2, n: int):
    i = wp.tid()
    v = x[i] * f64(2.0)
    y[i, 0] = wp.block_sum(v)
    y[i, 1] = wp.block_min(v) + wp.block_max(x[i])
    y[i, 2] = f64(wp.block_sum(i)) + f64(wp.block_dim()) + f64(wp.block_size())
    pair = wp.block_sum(wp.vec2d(v, f64(1.0)))
    y[i, 3] = pair[0] - pair[1] + wp.warp_sum(v)


@wp.kernel
def votes(x: A, y: A2, n: int):
    i = wp.tid()
    if wp.block_any(x[i] > f64(0.8)):
        y[i, 0] = f64(1.0)
        y[i, 1] = wp.block_sum(x[i])
    if wp.block_all(x[i] > f64(-0.9)):
        y[i, 2] = x[i]
    else:
        y[i, 3] = wp.block_max(x[i])


@wp.kernel
def values_live_across_cuts(x: A, y: A2, n: int):
    i = wp.tid()
    k = wp.block_thread()
    a = wp.sin(x[i])
    first = wp.block_sum(a)
    b = a + first
    second = wp.block_sum(b * f64(k))
    y[i, 0] = a + b
    y[i, 1] = second + f64(i * 3 + k)


@wp.kernel
def loops_around_cuts(x: A, y: A2, n: int):
    i = wp.tid()
    total = f64(0.0)
    most = x[i]
    for k in range(n):
        total += wp.block_sum(x[i] * f64(k)) + x[i]
        most = wp.block_max(most) + f64(k)
        if k == 1:
            total += f64(0.5) * most
    y[i, 0] = total
    y[i, 1] = most


@wp.kernel
def loops_until_all_agree(x: A, y: A2, n: int):
    i = wp.tid()
    left = x[i] + f64(2.0)
    rounds = 0
    while wp.block_any(left > f64(0.5)):
        left -= f64(0.4) * wp.where(left > f64(0.5), f64(1.0), f64(0.0))
        rounds += 1
    y[i, 0] = left
    y[i, 1] = f64(rounds)


@wp.kernel
def shared_memory(x: A, y: A2, n: int):
    i = wp.tid()
    k = wp.block_thread()
    s = wp.shared_array(shape=(64,), dtype=f64)
    s[k] = x[i]
    wp.block_sync()
    y[i, 0] = s[wp.block_size() - 1 - k]
    wp.block_sync()
    step = 1
    while step < wp.block_size():
        other = f64(0.0)
        if k >= step:
            other = s[k - step]
        wp.block_sync()
        s[k] += other
        wp.block_sync()
        step *= 2
    y[i, 1] = s[k]


@wp.kernel
def arrays_of_threads(x: A, y: A2, n: int):
    i = wp.tid()
    own = wp.zeros(shape=(3,), dtype=f64)
    own[0] = x[i]
    own[1] = wp.block_sum(own[0])
    for k in range(n):
        more = wp.zeros(shape=(2,), dtype=f64)
        more[k % 2] = f64(1.0) + own[0]
        own[2] += wp.block_sum(more[1])
    y[i, 0] = own[0] + own[1]
    y[i, 1] = own[2]


@wp.kernel
def effects_around_cuts(x: A, y: A2, n: int):
    i = wp.tid()
    for k in range(3):
        y[i, k] = x[i] + f64(k)
    neighbour = i
    if wp.block_thread() > 0:
        neighbour = i - 1
    wp.block_sync()
    y[i, 3] = y[neighbour, 1]
    wp.block_sync()
    y[neighbour, 4] = f64(7.0)
    wp.block_sync()
    y[i, 5] = y[i, 4] + y[i, 0]


@wp.kernel
def uniform_conditions(x: A, y: A2, n: int):
    i = wp.tid()
    v = x[i]
    if n > 2:
        v = wp.block_sum(v)
        y[i, 2] = v
    elif n > 0:
        v = v + wp.block_max(v)
    else:
        v = v * f64(2.0)
    y[i, 0] = v
    y[i, 1] = wp.block_sum(v)


@wp.kernel
def own_loops_between_cuts(x: A, y: A2, n: int):
    i = wp.tid()
    total = f64(0.0)
    for k in range(i % 3):
        total += x[k]
    mean = wp.block_sum(total) / f64(wp.block_size())
    for k in range(i % 4):
        if f64(k) > mean:
            total -= mean
    y[i, 0] = total


@wp.kernel
def number_of_block(x: A, y: A2, n: int):
    i = wp.tid()
    if (i // 64) % 2 == 0:  # the same for all threads of a block, of which 64 is a multiple
        y[i, 0] = wp.block_sum(x[i]) + f64(i // 64)
    y[i, 1] = f64(i // 3)


PROGRAMS = [
    *(sums, votes, values_live_across_cuts, loops_around_cuts, loops_until_all_agree, shared_memory),
    *(arrays_of_threads, effects_around_cuts, uniform_conditions, own_loops_between_cuts),
    number_of_block,
]
GRIDS = [(8, 4), (1, 4), (70, 32), (64, 64), (3, 2)]


def data(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1.0, 1.0, n)


def expected(kernel: Any, x: np.ndarray, rounds: int, block_dim: int) -> np.ndarray:
    y = np.zeros((len(x), 6))
    in_python(kernel.func, [x, y, rounds], (len(x),), block_dim)
    return y


@pytest.mark.parametrize(("n", "block_dim"), GRIDS)
@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda k: k.key)
def test_it_computes_what_threads_do(kernel: Any, n: int, block_dim: int) -> None:
    for rounds in (0, 1, 3):
        y = np.zeros((n, 6))
        wp.launch(kernel, n, [data(n), y, rounds], block_dim=block_dim)
        np.testing.assert_allclose(y, expected(kernel, data(n), rounds, block_dim), rtol=1e-12, atol=1e-12)


def slope(function: Any, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The derivative of ``(function(x) * weights).sum()``, by differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += 1e-6
        down[place] -= 1e-6
        found[place] = ((function(up) - function(down)) * weights).sum() / 2e-6
    return found


@pytest.mark.parametrize("options", [{"mode": "debug"}, {"vector_width": 4}], ids=str)
@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda k: k.key)
def test_debug_mode_and_lanes_agree(kernel: Any, options: dict[str, Any]) -> None:
    n, block_dim = 11, 4
    y = np.zeros((n, 6))
    wp.launch(kernel, n, [data(n), y, 3], block_dim=block_dim, options=options)
    np.testing.assert_allclose(y, expected(kernel, data(n), 3, block_dim), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda k: k.key)
def test_the_gradient(kernel: Any) -> None:
    n, block_dim = 7, 4
    for rounds in (1, 3):
        x = wp.array(data(n), dtype=f64, requires_grad=True)
        y = wp.zeros((n, 6), dtype=f64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, n, [x, y, rounds], block_dim=block_dim)
        weights = np.random.default_rng(1).uniform(-1.0, 1.0, (n, 6))
        tape.backward(grads={y: wp.array(weights, dtype=f64)})
        wanted = slope(lambda at: expected(kernel, at, rounds, block_dim), data(n), weights)  # noqa: B023
        np.testing.assert_allclose(x.grad.numpy(), wanted, atol=1e-7)


@wp.func
def cubed(x: f64):
    return x * x * x


@wp.func
def halved(x: f64):
    return x / f64(2.0)


@wp.func_grad(halved)
def _adj_halved(x: f64, adj_ret: f64):
    wp.adjoint[x] += adj_ret * f64(3.0)  # not the derivative, so that it shows


@wp.kernel
def functions_with_gradients(x: A, y: A):
    i = wp.tid()
    y[i] = x[i] / wp.block_sum(x[i]) + wp.grad(cubed)(x[i]) + halved(x[i])


def test_functions_with_gradients_of_their_own() -> None:
    n, block_dim = 10, 4
    given = np.random.default_rng(8).uniform(0.1, 1.0, n)
    x, y = wp.array(given, dtype=f64, requires_grad=True), wp.zeros(n, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(functions_with_gradients, n, [x, y], block_dim=block_dim)

    def without(at: np.ndarray) -> Any:
        sums = np.concatenate([np.full(len(b), b.sum()) for b in np.split(at, [4, 8])])
        return at / sums + 3.0 * at * at

    np.testing.assert_allclose(y.numpy(), without(given) + given / 2.0, rtol=1e-12)
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, n)
    tape.backward(grads={y: wp.array(weights, dtype=f64)})
    np.testing.assert_allclose(x.grad.numpy(), slope(without, given, weights) + 3.0 * weights, atol=1e-6)


@wp.kernel
def places_from_a_counter(x: A, y: A, count: wp.array(dtype=int)):
    i = wp.tid()
    share = x[i] / wp.block_sum(x[i])
    place = wp.atomic_add(count, 0, 1)
    y[place] = share * share


def test_results_of_atomics_are_refused_where_the_gradient_needs_them() -> None:
    n, block_dim = 10, 4
    given = np.random.default_rng(8).uniform(0.1, 1.0, n)
    x, y = wp.array(given, dtype=f64, requires_grad=True), wp.zeros(n, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(places_from_a_counter, n, [x, y, wp.zeros(1, dtype=int)], block_dim=block_dim)
    sums = np.concatenate([np.full(len(b), b.sum()) for b in np.split(given, [4, 8])])
    np.testing.assert_allclose(np.sort(y.numpy()), np.sort((given / sums) ** 2), rtol=1e-12)
    with pytest.raises(wp.WarpCodegenError, match="result of an atomic can't be recomputed"):
        tape.backward(grads={y: wp.ones(n, dtype=f64)})
    assert x.grad.list() == [0.0] * n


@pytest.mark.parametrize("kernel", [values_live_across_cuts, loops_around_cuts, shared_memory], ids=lambda k: k.key)
def test_forward_mode(kernel: Any) -> None:
    n, block_dim = 7, 4
    x, t = data(n), np.random.default_rng(2).uniform(-1.0, 1.0, n)
    of_blocks = kernel.in_blocks(block_dim, 0, n % block_dim)
    got, _ = wp.autograd.jvp(of_blocks, 2, [x], [np.zeros((n, 6)), 3], tangents=[t])
    up, down = (expected(kernel, x + s * t, 3, block_dim) for s in (1e-6, -1e-6))
    np.testing.assert_allclose(got.numpy(), (up - down) / 2e-6, atol=1e-7)


# --- tiles ---

COUNT = 16


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
        second = first[first <= 4]
        y[i, 16 + second] = 2.0 * (row[second] ** 2).sum() * len(first)
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


ON_TILES = {
    parts_of_elements: _parts_of_elements,
    threads_that_leave: _threads_that_leave,
    stacks_in_functions: _stacks_in_functions,
    tiles_of_threads: _tiles_of_threads,
    tiles_that_threads_change: _tiles_that_threads_change,
    tiles_in_loops: _tiles_in_loops,
}


@pytest.mark.parametrize("block_dim", [2, 5, 8])
@pytest.mark.parametrize("kernel", ON_TILES, ids=lambda k: k.key)
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


@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda k: k.key)
def test_the_interpreter_agrees(kernel: Any) -> None:
    n, block_dim = 11, 4
    options = Options(cpu_block_dim=block_dim, cpu_block_axis=0, cpu_block_rest=n % block_dim)
    f = optimised(kernel.source, Signature(tuple(t for _, t in kernel.declared), options=options))
    assert not any(isinstance(o, (ops.Barrier, ops.TileOfThreads)) for o in f.body.walk())
    y = np.zeros((n, 6))
    run(f, [data(n), y, 3], (-(-n // block_dim),))
    np.testing.assert_allclose(y, expected(kernel, data(n), 3, block_dim), rtol=1e-12, atol=1e-12)


def test_errors_name_the_block() -> None:
    kernel = define(
        "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    i = wp.tid()\n    v = wp.block_sum(x[i])\n    x[i + 6] = v\n"
    )["k"]
    with pytest.raises(IndexError, match=r"index 12 is out of range .* in block 1, line 5"):
        wp.launch(kernel, 12, [wp.ones(12)], block_dim=4, options={"mode": "debug"})


REFUSED = {
    "a sum under a condition": (
        "if x[i] > 0.0:\n        x[i] = wp.block_sum(x[i])",
        "block_sum() is for the threads",
        "x[i] = wp",
    ),
    "a barrier in a loop": (
        "for k in range(i):\n        wp.block_sync()",
        "block_sync() is for the threads",
        "wp.block_sync()",
    ),
    "a tile under a condition": (
        "if i > 2:\n        wp.tile_store(x, wp.tile_ones(shape=4, dtype=float))\n    wp.block_sync()",
        "work on tiles is done for the threads of a block together, but the condition of line",
        "wp.tile_",
    ),
    "an offset": (
        "t = wp.tile_load(x, shape=4, offset=i)\n    wp.tile_store(x, t)",
        "work on tiles is done once for the threads of a block, but",
        "wp.tile_load(",
    ),
    "a value that fills a tile": (
        "t = wp.tile_full(shape=4, value=x[i], dtype=float)\n    wp.tile_store(x, t)",
        "work on tiles is done once for the threads of a block, but",
        "wp.tile_full(",
    ),
    "a part of a tile": (
        "t = wp.tile_zeros(shape=(4, 4), dtype=float)\n    wp.tile_store(x, t[i])",
        "work on tiles is done once for the threads of a block, but",
        "t[i]",
    ),
    "a sum in a function of elements": (
        "t = wp.tile_map(summed, wp.tile_ones(shape=4, dtype=float))\n    wp.tile_store(x, t)",
        "block_sum() is for the threads of a block, and this is done once for all of them",
        "wp.block_sum(",
    ),
    "a sum after some threads have left": (
        "if x[i] > 0.0:\n        return\n    x[i] = wp.block_sum(x[i])",
        "block_sum() is for the threads",
        "x[i] = wp",
    ),
    "a tile of another size": (
        "t = wp.tile_zeros(shape=3, dtype=float)\n    x[i] = wp.untile(t)",
        "an element for each thread of the block, which is 4",
        "wp.untile(",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_between_threads_is_refused(name: str) -> None:
    body, message, place = REFUSED[name]
    function = "@wp.func\ndef summed(v: float):\n    return wp.block_sum(v)\n\n"
    text = f"@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    i = wp.tid()\n    {body}\n"
    kernel = define(function + text if "summed" in body else text)["k"]
    x = wp.ones(8)
    with pytest.raises(wp.WarpCodegenError) as caught:
        wp.launch(kernel, 8, [x], block_dim=4)
    assert message in str(caught.value)
    assert place in str(caught.value)
    assert "^" in str(caught.value)
    assert x.list() == [1.0] * 8


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
