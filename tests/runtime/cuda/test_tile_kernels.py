"""Tiles on a CUDA device, worked on by the threads of a block together, beside the same blocks on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import CudaKernel
from tests.frontend.tiles.programs import BLOCKS, PROGRAMS, SHAPE
from tests.long_tail import crossed
from tests.passes.block_oracle import COLUMNS, data, expected, slope
from tests.passes.test_join_threads import PROGRAMS as OF_THREADS
from tests.passes.test_joined_tiles import COUNT, ON_TILES
from tests.runtime.autodiff.test_recorded_results import check_blocks, pack_by_block
from warp_like.backend.target import Options as LoweringOptions
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Options, Signature
from warp_like.passes.team.distribute import _Distributor

f64 = wp.float64
N = 24


@contextmanager
def cpu_blocks() -> Iterator[None]:
    wp.config.enable_cpu_blocks = True
    try:
        yield
    finally:
        wp.config.enable_cpu_blocks = False


def launched(kernel: Any, where: str, given: list[np.ndarray], block_dim: int, dim: int = BLOCKS) -> list[np.ndarray]:
    """The last array, which is the result, and the gradients of the others."""
    arrays = [wp.array(x, device=where, requires_grad=True) for x in given]
    out = wp.zeros_like(arrays[0])
    with cpu_blocks(), wp.Tape() as tape:
        wp.launch_tiled(kernel, dim=dim, inputs=arrays, outputs=[out], block_dim=block_dim, device=where)
        weights = np.random.default_rng(1).normal(size=out.shape)
        tape.backward(grads={out: wp.array(weights, device=where)})
    return [out.numpy(), *(x.grad.numpy() for x in arrays)]


def teams(kernel: Any) -> set[int]:
    """How many threads have run a block, of all variants that were made."""
    made = [kernel, *kernel._with_options.values()]
    loaded = [one for k in made for p in k._programs.values() if p.device.is_cuda for one in p.loaded.values()]
    return {one.artifact.schedule.team for one in loaded}


@pytest.fixture(autouse=True)
def forgotten(device: str) -> Iterator[None]:
    """Drop what was compiled for the device before it is gone."""
    yield
    own = wp.get_module(__name__).kernels.values()
    for kernel in [*(k for k, _ in PROGRAMS.values()), *ON_TILES, pack_by_block, *own]:
        forget(kernel)


def forget(kernel: Any) -> None:
    for made in (kernel, *kernel._with_options.values()):
        made.forget_programs()
    kernel._with_options.clear()


@pytest.mark.parametrize(("name", "block_dim"), crossed(PROGRAMS, [6, 64, 33], every=6))
def test_programs(device: str, name: str, block_dim: int) -> None:
    kernel = PROGRAMS[name][0]
    given = list(np.random.default_rng(0).normal(size=(2, *SHAPE)))
    wanted = launched(kernel, "cpu", given, block_dim)
    for got, right in zip(launched(kernel, device, given, block_dim), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-10, atol=1e-12)
    assert teams(kernel) == {block_dim}


@pytest.mark.parametrize("kernel", crossed(ON_TILES, every=2), ids=lambda k: k.key)
def test_threads_and_tiles(device: str, kernel: Any) -> None:
    given = np.random.default_rng(3).uniform(-1.0, 1.0, (3, COUNT))
    x, y = wp.array(given, device=device, requires_grad=True), wp.zeros((3, COLUMNS), dtype=f64, device=device)
    y.requires_grad = True
    for block_dim in (2, 5):
        x.grad.zero_()
        y.zero_()
        with wp.Tape() as tape:
            wp.launch_tiled(kernel, dim=3, inputs=[x, y], block_dim=block_dim, device=device)
        np.testing.assert_allclose(y.numpy(), ON_TILES[kernel](given, block_dim), rtol=1e-12, atol=1e-12)
        weights = np.random.default_rng(1).uniform(-1.0, 1.0, (3, COLUMNS))
        tape.backward(grads={y: wp.array(weights, dtype=f64, device=device)})
        at = lambda moved, b=block_dim: ON_TILES[kernel](moved, b)  # noqa: E731
        np.testing.assert_allclose(x.grad.numpy(), slope(at, given, weights), atol=1e-7)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("kernel", OF_THREADS, ids=lambda k: k.key)
def test_threads_of_joined_blocks(kernel: Any, apart: bool) -> None:
    """What threads do between barriers of the user's, each as one of a team, in any order."""
    n, block_dim = 11, 4
    options = Options(cpu_block_dim=block_dim, cpu_block_axis=0, cpu_block_rest=n % block_dim)
    f = optimised(kernel.source, Signature(kernel.types, options=options, sums=apart), team=block_dim)
    assert f.team == block_dim
    y, grid = np.zeros((n, 6)), (-(-n // block_dim),)
    CudaKernel(f, LoweringOptions()).in_blocks([data(n), y, 3], grid, *grid, block_dim)
    wanted = expected(kernel, data(n), 3, block_dim)
    np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)


@wp.kernel
def factors(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    t = wp.tile_load(a, shape=(N, N))
    wp.tile_store(out, wp.tile_cholesky(t))
    wp.tile_store(out, wp.tile_cholesky(wp.tile_view(t, (0, 0), (5, 5))), offset=(N, 0))


def test_factors_have_the_bits_of_the_cpu(device: str, request: pytest.FixtureRequest) -> None:
    x = np.random.default_rng(2).normal(size=(N, 2 * N))
    given, results = x @ x.T, []
    for where in ("cpu", device):
        out = wp.zeros((N + 5, N), dtype=f64, device=where)
        wp.launch_tiled(factors, dim=1, inputs=[wp.array(given, device=where), out], block_dim=32, device=where)
        results.append(out.numpy())
    if request.node.callspec.params["device"] == "emulated":  # a device may fuse other operations
        np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[1][:N], np.linalg.cholesky(given), rtol=1e-12, atol=1e-12)
    assert teams(factors) == {32}


# --- loops whose order counts ---


@wp.kernel
def running(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=N)
    for k in range(N - 1):
        t[k + 1] = t[k + 1] + f64(0.5) * t[k]
    wp.tile_store(out[i], t)


@wp.kernel
def last_one_stays(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=N)
    for k in range(N):
        t[k // 2] = t[k]
    for k in range(N):
        out[i, k // 3] = t[k] + out[i, k // 3]
    wp.tile_atomic_add(out[i], t)


@wp.kernel
def memory_again(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=N)
    wp.tile_store(out[i], t[::-1])
    for _ in range(3):
        u = wp.tile_load(out[i], shape=N - 1, offset=1)
        wp.tile_store(out[i], u * f64(1.5) + t[1:])
    t = wp.tile_load(out[i], shape=N)
    while wp.abs(t[3]) > f64(0.1):
        t = t[::-1] * f64(0.5)
        t[3] = t[4]
    wp.tile_atomic_add(out[i], t * wp.tile_sum(t[2:5])[0])


@wp.kernel
def counters(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    old = wp.tile_atomic_add(out[i], wp.tile_load(a[i], shape=N))
    more = wp.tile_ones(shape=N, dtype=f64)
    places = wp.tile_zeros(shape=N, dtype=int)
    for k in range(N):
        places[k] = k // 3
    wp.tile_atomic_add_indexed(out[i], places, old + more)
    assert wp.tile_sum(old)[0] == f64(0.0), "once"


IN_ORDER = [running, last_one_stays, memory_again, counters]


@pytest.mark.parametrize("kernel", crossed(IN_ORDER, every=2), ids=lambda k: k.key)
def test_loops_whose_order_counts(device: str, kernel: Any) -> None:
    given = np.random.default_rng(5).normal(size=(2, N))
    results = []
    for where in ("cpu", device):
        a, out = wp.array(given, device=where), wp.zeros((2, N), dtype=f64, device=where)
        with cpu_blocks():
            wp.launch_tiled(kernel, dim=2, inputs=[a, out], block_dim=5, device=where)
        results.append(out.numpy())
    np.testing.assert_allclose(*results, rtol=1e-12)
    assert teams(kernel) == {5}


@wp.kernel
def overlapping(a: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    t = wp.tile_load(a, shape=N)
    wp.tile_store(out, t * f64(2.0))
    u = wp.tile_load(a, shape=N)
    wp.tile_store(out, u[::-1] + t)


def test_arguments_that_overlap_and_strides(device: str) -> None:
    given = np.random.default_rng(6).normal(size=2 * N)
    results = []
    for where in ("cpu", device):
        for parts in (
            [slice(0, N), slice(0, N)],
            [slice(0, N), slice(1, N + 1)],
            [slice(0, None, 2), slice(1, None, 2)],
        ):
            a = wp.array(given, device=where)
            with cpu_blocks():
                wp.launch_tiled(overlapping, dim=1, inputs=[a[p] for p in parts], block_dim=7, device=where)
            results.append(a.numpy())
    np.testing.assert_array_equal(results[:3], results[3:])


@wp.kernel
def large_values(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    mean = wp.tile_sum(wp.tile(x[i]))[0]
    own = wp.vector(length=80, dtype=f64)
    for k in range(80):
        own[k] = x[i] * f64(k)
    for k in range(40):
        own[(k * 7 + i) % 80] += mean
    y[i] = own[i % 80] + own[79]


def test_each_thread_has_its_large_values(device: str) -> None:
    given = np.random.default_rng(4).normal(size=21)
    results = []
    for where in ("cpu", device):
        x, y = wp.array(given, device=where), wp.zeros(21, dtype=f64, device=where)
        with cpu_blocks():
            wp.launch(large_values, 21, [x, y], block_dim=6, device=where)
        results.append(y.numpy())
    np.testing.assert_allclose(*results, rtol=1e-12)


# --- blocks ---


@wp.kernel
def large(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    t = wp.tile_load(a, shape=(80, 80), offset=(i * 80, 0))
    wp.tile_store(out, t * f64(2.0) + wp.tile_transpose(t), offset=(i * 80, 0))


def test_more_than_a_block_can_share_is_done_by_one_thread(device: str) -> None:
    given = np.random.default_rng(7).normal(size=(80, 80))
    a, out = wp.array(given, device=device), wp.zeros((80, 80), dtype=f64, device=device)
    wp.launch_tiled(large, dim=1, inputs=[a, out], block_dim=64, device=device)
    np.testing.assert_allclose(out.numpy(), 2.0 * given + given.T)
    assert teams(large) == {1}


@wp.kernel
def centred(x: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    x[i] = v - wp.tile_sum(wp.tile(v))[0] / f64(wp.block_size())


def test_plain_launches(device: str) -> None:
    """Blocks that the grid does not fill, and launches that say nothing of blocks."""
    given = np.random.default_rng(8).normal(size=22)
    x = wp.array(given, device=device)
    wp.launch(centred, 22, [x], block_dim=8, device=device)
    parts = np.split(given, [8, 16])
    np.testing.assert_allclose(x.numpy(), np.concatenate([p - p.mean() for p in parts]), atol=1e-12)
    wp.launch(centred, 22, [x], device=device)
    np.testing.assert_array_equal(x.numpy(), 0.0)
    command = wp.launch(centred, 22, [x], block_dim=8, device=device, record_cmd=True)
    x.assign(given)
    command.launch()
    np.testing.assert_allclose(x.numpy(), np.concatenate([p - p.mean() for p in parts]), atol=1e-12)
    assert teams(centred) == {1, 8}


def test_results_of_atomics_are_kept_for_the_gradient(device: str) -> None:
    check_blocks(3, device)
    assert teams(pack_by_block) == {3}


def test_a_missing_barrier_shows(device: str, request: pytest.FixtureRequest) -> None:
    """The emulation lets threads run in orders in which one that does not wait reads what is not yet there."""
    if request.node.callspec.params["device"] == "gpu":
        pytest.skip("a device may run threads in an order in which no barrier is needed")
    given = np.random.default_rng(9).normal(size=(2, N))

    def result() -> np.ndarray:
        a, out = wp.array(given, device=device), wp.zeros((2, N), dtype=f64, device=device)
        wp.launch_tiled(reversed_rows, dim=2, inputs=[a, out], block_dim=8, device=device)
        forget(reversed_rows)
        return out.numpy()

    np.testing.assert_array_equal(result(), given[:, ::-1])
    with mock.patch.object(_Distributor, "meet_before", return_value=None):
        assert not np.array_equal(result(), given[:, ::-1])


@wp.kernel
def reversed_rows(a: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=N)
    wp.tile_store(out[i], t[::-1])
