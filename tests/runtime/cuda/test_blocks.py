"""Threads of a block together through launches on a CUDA device: in emulation, and on a GPU where there is one."""

import numpy as np
import pytest

import warp_like as wp
from tests.backend.llvm.test_block import groups, read_from

TILE = 8


@wp.kernel
def sums(x: wp.array(dtype=float), of_block: wp.array(dtype=float), of_warp: wp.array(dtype=float)):
    i = wp.tid()
    of_block[i] = wp.block_sum(x[i])
    of_warp[i] = wp.warp_sum(x[i])


@wp.kernel
def mixed(x: wp.array(dtype=wp.vec2), votes: wp.array(dtype=int), moved: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    votes[i] = int(wp.block_any(x[i][0] > 0.9)) + 2 * int(wp.warp_all(x[i][1] > 0.01))
    moved[i] = wp.warp_shuffle_down(x[i], 3) - wp.warp_shuffle_xor(x[i], 5)


@wp.kernel
def turned(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    row, column, k = wp.tid()
    tile = wp.shared_array(shape=(TILE, TILE + 1), dtype=float)
    for e in range(k, TILE * TILE, wp.block_size()):
        tile[e // TILE, e % TILE] = a[row * TILE + e // TILE, column * TILE + e % TILE]
    wp.block_sync()
    for e in range(k, TILE * TILE, wp.block_size()):
        b[column * TILE + e // TILE, row * TILE + e % TILE] = tile[e % TILE, e // TILE]


@wp.kernel
def counted(x: wp.array(dtype=int), counts: wp.array(dtype=int)):
    own = wp.shared_array(shape=10, dtype=int)
    wp.atomic_add(own, x[wp.tid()], 1)
    wp.block_sync()
    for k in range(wp.block_thread(), 10, wp.block_size()):
        wp.atomic_add(counts, k, own[k])


@wp.kernel
def normalized(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] / wp.block_sum(x[i])


@wp.kernel(mode="debug")
def failing(x: wp.array(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    assert x[i] >= 0, "negative"
    wp.block_sync()
    y[i] = x[i]


HOW = [
    (1, {}),
    (200, {"block_dim": 64}),
    (200, {"block_dim": 48, "max_blocks": 2}),
    (77, {"block_dim": 33, "max_blocks": 1}),
]


@pytest.mark.parametrize(("n", "how"), HOW)
def test_sums(device, n, how):
    x = np.random.default_rng(0).uniform(0, 1, n).astype(np.float32)
    of_block, of_warp = wp.zeros(n, device=device), wp.zeros(n, device=device)
    wp.launch(sums, n, [wp.array(x, device=device), of_block, of_warp], device=device, **how)
    threads = how.get("block_dim", 256)
    for got, warps in ((of_block.numpy(), False), (of_warp.numpy(), True)):
        for g in groups(n, threads, warps):
            np.testing.assert_allclose(got[g], np.full(len(g), x[g].sum(dtype=np.float64)), rtol=1e-5)
            assert len(set(got[g].tolist())) == 1


def test_votes_and_exchanges(device):
    n, threads = 150, 64
    x = np.random.default_rng(1).uniform(0, 1, (n, 2)).astype(np.float32)
    votes, moved = wp.zeros(n, dtype=int, device=device), wp.zeros(n, dtype=wp.vec2, device=device)
    given = wp.array(x, dtype=wp.vec2, device=device)
    wp.launch(mixed, n, [given, votes, moved], device=device, block_dim=threads)
    wanted = np.zeros(n, int)
    for g in groups(n, threads):
        wanted[g] += (x[g, 0] > 0.9).any()
    for g in groups(n, threads, warps=True):
        k = np.arange(len(g))
        wanted[g] += 2 * (x[g, 1] > 0.01).all()
        np.testing.assert_array_equal(moved.numpy()[g], x[g][read_from(k, k + 3)] - x[g][read_from(k, k ^ 5)])
    np.testing.assert_array_equal(votes.numpy(), wanted)


@pytest.mark.parametrize("how", [{}, {"max_blocks": 1}, {"max_blocks": 5}], ids=str)
def test_shared_memory(device, how):
    a = np.random.default_rng(2).uniform(0, 1, (3 * TILE, 4 * TILE)).astype(np.float32)
    b = wp.zeros((4 * TILE, 3 * TILE), device=device)
    threads = 64
    wp.launch(turned, (3, 4, threads), [wp.array(a, device=device), b], device=device, block_dim=threads, **how)
    np.testing.assert_array_equal(b.numpy(), a.T)
    x = np.random.default_rng(3).integers(0, 10, 300).astype(np.int32)
    counts = wp.zeros(10, dtype=int, device=device)
    wp.launch(counted, 300, [wp.array(x, device=device), counts], device=device, block_dim=threads, **how)
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x, minlength=10))


@wp.kernel
def in_rounds(rounds: wp.array(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    for k in range(rounds[0]):
        y[i] += wp.block_max(k)


@wp.kernel
def in_rounds_of_a_number(rounds: int, x: wp.array(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    for _k in range(rounds):
        y[i] += wp.block_max(x[0])


@pytest.mark.parametrize("step", [1, 2])
def test_elements_that_keep_threads_together_do_not_change(device, step):
    """A thread that has written to ``rounds[0]`` would end its loop before the others of its block."""
    memory = wp.zeros(40, dtype=int, device=device)
    rounds, y = memory[:8][::step], memory[8:][::step]
    rounds.fill_(3)
    wp.launch(in_rounds, len(y), [rounds, y], device=device)
    np.testing.assert_array_equal(y.numpy(), 0 + 1 + 2)
    before = memory.numpy().copy()
    words = "kernel `in_rounds`: an array that it writes overlaps another argument"
    for apart in (memory, memory[7:]):
        with pytest.raises(ValueError, match=words):
            wp.launch(in_rounds, len(apart), [memory, apart], device=device)
    np.testing.assert_array_equal(memory.numpy(), before)
    wp.launch(in_rounds_of_a_number, 4, [2, memory, memory], device=device)
    assert memory.numpy()[0] > 3


def test_gradients(device):
    n, threads = 100, 64
    x = np.random.default_rng(4).uniform(1, 2, n).astype(np.float32)
    given = wp.array(x, device=device, requires_grad=True)
    y = wp.zeros(n, device=device, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(normalized, n, [given], [y], device=device, block_dim=threads)
    g = np.random.default_rng(5).standard_normal(n).astype(np.float32)
    y.grad.assign(g)
    tape.backward()
    wanted = np.zeros(n)
    for b in groups(n, threads):
        total = x[b].sum(dtype=np.float64)
        wanted[b] = g[b] / total - (g[b] * x[b]).sum(dtype=np.float64) / total**2
    np.testing.assert_allclose(given.grad.numpy(), wanted, rtol=1e-4, atol=1e-6)
    for _ in range(2):  # once more, by the shortest way that there is
        tape.zero()
        y.grad.assign(g)
        tape.backward()
        np.testing.assert_allclose(given.grad.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_a_thread_that_fails_keeps_nobody_waiting(device):
    x = np.arange(40, dtype=np.int32)
    x[[3, 35]] = -5
    y = wp.full(40, -1, dtype=int, device=device)
    with pytest.raises(AssertionError, match="negative"):
        wp.launch(failing, 40, [wp.array(x, device=device), y], device=device, block_dim=64)
    np.testing.assert_array_equal(y.numpy(), np.where(x < 0, -1, x))
