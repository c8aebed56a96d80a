"""Blocks of several threads on the CPU, against the same kernels in plain Python, whose threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.interpreter import run
from tests.long_tail import crossed, name
from tests.passes.block_oracle import A2, A, data, expected, f64, slope
from warp_like.base.contract import MAX_NARROW
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Options, Signature
from warp_like.ir import ops
from warp_like.ir.types import int64


@pytest.fixture(autouse=True)
def cpu_blocks() -> Iterator[None]:
    wp.config.enable_cpu_blocks = True
    yield
    wp.config.enable_cpu_blocks = False


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


@pytest.mark.parametrize(("kernel", "grid"), crossed(PROGRAMS, GRIDS, every=4), ids=name)
def test_it_computes_what_threads_do(kernel: Any, grid: tuple[int, int]) -> None:
    n, block_dim = grid
    for rounds in (0, 1, 3):
        y = np.zeros((n, 6))
        wp.launch(kernel, n, [data(n), y, rounds], block_dim=block_dim)
        np.testing.assert_allclose(y, expected(kernel, data(n), rounds, block_dim), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "options"), crossed(PROGRAMS, [{"mode": "debug"}, {"vector_width": 4}], every=2), ids=name
)
def test_debug_mode_and_lanes_agree(kernel: Any, options: dict[str, Any]) -> None:
    n, block_dim = 11, 4
    y = np.zeros((n, 6))
    wp.launch(kernel, n, [data(n), y, 3], block_dim=block_dim, options=options)
    np.testing.assert_allclose(y, expected(kernel, data(n), 3, block_dim), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", crossed(PROGRAMS, every=2), ids=lambda k: k.key)
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


@wp.func
def whole(x: f64):
    return wp.block_sum(x)


@wp.func_grad(whole)
def _adj_whole(x: f64, adj_ret: f64):
    wp.adjoint[x] += wp.block_sum(adj_ret)


@wp.func
def own_part(x: f64):
    return x


@wp.func_grad(own_part)
def _adj_own_part(x: f64, adj_ret: f64):
    wp.adjoint[x] += adj_ret * f64(wp.block_thread())


@wp.kernel
def functions_that_meet(x: A, y: A):
    i = wp.tid()
    y[i] = x[i] * whole(x[i])


@wp.kernel
def gradients_that_ask(x: A, y: A):
    i = wp.tid()
    y[i] = wp.block_sum(own_part(x[i]))


@pytest.mark.parametrize(("kernel", "what"), [(functions_that_meet, "block_sum"), (gradients_that_ask, "block_thread")])
def test_functions_with_gradients_of_their_own_know_one_thread(kernel: Any, what: str) -> None:
    x, y = wp.ones(8, dtype=f64, requires_grad=True), wp.zeros(8, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 8, [x, y], block_dim=4)
    np.testing.assert_array_equal(y.numpy(), 4.0)
    with pytest.raises(wp.WarpCodegenError, match=rf"is for one thread, but there {what}\(\) is for the threads"):
        tape.backward(grads={y: wp.ones(8, dtype=f64)})


@wp.kernel
def places_from_a_counter(x: A, y: A, count: wp.array(dtype=int)):
    i = wp.tid()
    share = x[i] / wp.block_sum(x[i])
    place = wp.atomic_add(count, 0, 1)
    y[place] = share * share


def test_results_of_atomics_are_saved_where_the_gradient_needs_them() -> None:
    n, block_dim = 10, 4
    given = np.random.default_rng(8).uniform(0.1, 1.0, n)
    x, y = wp.array(given, dtype=f64, requires_grad=True), wp.zeros(n, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(places_from_a_counter, n, [x, y, wp.zeros(1, dtype=int)], block_dim=block_dim)
    sums = np.concatenate([np.full(len(b), b.sum()) for b in np.split(given, [4, 8])])
    np.testing.assert_allclose(np.sort(y.numpy()), np.sort((given / sums) ** 2), rtol=1e-12)
    tape.backward(grads={y: wp.ones(n, dtype=f64)})

    def total(at: np.ndarray) -> Any:
        return (at / np.concatenate([np.full(len(b), b.sum()) for b in np.split(at, [4, 8])])) ** 2

    np.testing.assert_allclose(x.grad.numpy(), slope(total, given, np.ones(n)), atol=1e-6)


@pytest.mark.parametrize("kernel", [values_live_across_cuts, loops_around_cuts, shared_memory], ids=lambda k: k.key)
def test_forward_mode(kernel: Any) -> None:
    n, block_dim = 7, 4
    x, t = data(n), np.random.default_rng(2).uniform(-1.0, 1.0, n)
    of_blocks = kernel.in_blocks(block_dim, 0, n % block_dim)
    got, _ = wp.autograd.jvp(of_blocks, 2, [x], [np.zeros((n, 6)), 3], tangents=[t])
    up, down = (expected(kernel, x + s * t, 3, block_dim) for s in (1e-6, -1e-6))
    np.testing.assert_allclose(got.numpy(), (up - down) / 2e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda k: k.key)
def test_the_interpreter_agrees(kernel: Any) -> None:
    n, block_dim = 11, 4
    options = Options(cpu_block_dim=block_dim, cpu_block_axis=0, cpu_block_rest=n % block_dim)
    f = optimised(kernel.source, Signature(tuple(t for _, t in kernel.declared), options=options))
    assert not any(isinstance(o, (ops.Barrier, ops.TileOfThreads)) for o in f.body.walk())
    y = np.zeros((n, 6))
    run(f, [data(n), y, 3], (-(-n // block_dim),))
    np.testing.assert_allclose(y, expected(kernel, data(n), 3, block_dim), rtol=1e-12, atol=1e-12)


@wp.kernel
def sizes_without_index(count: wp.array(dtype=int)):
    wp.atomic_add(count, wp.block_sum(1), 1)


@wp.kernel
def sizes_of_rows(count: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(count, wp.block_sum(1 + 0 * i), 1)


@wp.kernel
def sizes_of_planes(count: wp.array(dtype=int)):
    i, j = wp.tid()
    wp.atomic_add(count, wp.block_sum(1 + 0 * (i + j)), 1)


@pytest.mark.parametrize("kernel", [sizes_without_index, sizes_of_rows, sizes_of_planes], ids=lambda k: k.key)
def test_the_grid_may_have_more_dimensions_than_indices(kernel: Any) -> None:
    for dims in ((7,), (2, 7), (2, 3, 7), (2, 3, 3), (2, 1, 2, 7)):
        count = np.zeros(5, np.int32)
        wp.launch(kernel, dims, [count], block_dim=4)
        whole, rest = divmod(dims[-1], 4)
        wanted = np.bincount([4] * whole + [rest], [4.0] * whole + [rest], minlength=5) * np.prod(dims[:-1])
        np.testing.assert_array_equal(count, wanted)


@wp.kernel
def places_behind_and(x: A, y: A2, n: int):
    i = wp.tid()
    if x[i] > f64(0.0) and wp.block_thread() > 0:
        y[i, 0] = f64(1.0)
    if n > 1 or wp.block_size() == 2:
        y[i, 1] = wp.block_sum(f64(1.0))


def test_the_place_in_the_block_in_conditions() -> None:
    """Builtins without arguments are computed beside what stands in front of an `and`."""
    for n in (1, 3):
        y = np.zeros((6, 6))
        wp.launch(places_behind_and, 6, [data(6), y, n], block_dim=4)
        np.testing.assert_array_equal(y, expected(places_behind_and, data(6), n, 4))


def test_threads_of_large_grids_have_wide_indices() -> None:
    """A grid of blocks has few indices, but those of the threads need 64 bits."""
    kernel, count = sizes_of_rows.in_blocks(1024, 0), wp.zeros(2, dtype=int)
    program, most = kernel.program(kernel.types), MAX_NARROW // 1024
    dispatcher = program.require(contiguous=True, wide=False, sums=True)
    for extent in (1, most, most + 1, MAX_NARROW + 1):
        assert program.is_wide((extent,)) == (extent > most)
        assert dispatcher.required_variant((extent,), [count])[1] == (extent > most)
    function = optimised(kernel.source, Signature(kernel.types, wide=True, options=kernel.compile_options()))
    assert {o.result.type for o in function.body.walk() if isinstance(o, ops.Tid)} <= {int64}


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
    "a vote behind and": (
        "v = x[i]\n    c = v > 2.0\n    if v > 0.0 and wp.block_any(c):\n        x[i] = 1.0",
        "block_any() is for the threads",
        "wp.block_any(",
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
    "a choice of tiles": (
        "t = wp.tile_zeros(shape=4, dtype=float)\n    u = wp.tile_ones(shape=4, dtype=float)\n    if x[i] > 0.0:\n"
        "        t = u\n    wp.tile_store(x, t)",
        "work on tiles is done once for the threads of a block, but",
        "if x[i] > 0.0",
    ),
    "tiles that a loop swaps": (
        "t = wp.tile_zeros(shape=4, dtype=float)\n    u = wp.tile_ones(shape=4, dtype=float)\n    for k in range(i):\n"
        "        t, u = u, t\n    wp.tile_store(x, t)",
        "work on tiles is done once for the threads of a block, but `i`",
        "for k in range(i)",
    ),
    "tiles that a loop swaps until": (
        "t = wp.tile_zeros(shape=4, dtype=float)\n    u = wp.tile_ones(shape=4, dtype=float)\n    k = i\n"
        "    while k > 0:\n        t, u = u, t\n        k -= 1\n    wp.tile_store(x, t)",
        "work on tiles is done once for the threads of a block, but",
        "while k > 0",
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
