"""Threads of a block together: what CUDA's code computes, run on the CPU with the threads of each block side by side.

Blocks that the grid fills in part, several rounds of a grid that is larger than the launch, and blocks that are no
whole number of warps are in each test. What is expected is computed block by block with NumPy.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import Kernel, copies
from tests.backend.test_ptx import accept
from tests.cuda_emulation import Context, CudaKernel
from tests.interpreter import run
from warp_like.backend.target import Options
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir.core import Function

SHAPES = [(1, 1, 1), (5, 1, 32), (64, 1, 64), (100, 2, 64), (200, 1, 48), (77, 3, 33)]
"""Threads of the grid, blocks that are launched, and threads of a block."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def finished(kernel: Any, **changes: Any) -> Function:
    """The kernel's IR as the backend for CUDA gets it."""
    return optimised(kernel.source, Signature(tuple(t for _, t in kernel.declared), **changes))


def launch(kernel: Any, args: list[Any], n: int, blocks: int, threads: int, arch: str = "sm_80") -> None:
    """Run a kernel over ``n`` threads, by code that counts in 64 bits and by code that counts in 32."""
    f = finished(kernel)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    CudaKernel(f, Options(contiguous=True, narrow=True), arch).in_blocks(copies, (n,), blocks, threads)
    CudaKernel(f, Options(contiguous=True), arch).in_blocks(args, (n,), blocks, threads)
    for a, b in zip(args, copies, strict=True):
        np.testing.assert_array_equal(a, b)


def groups(n: int, threads: int, warps: bool = False) -> list[np.ndarray]:
    """The indices of the threads of each block of the grid, or of each warp."""
    found = [np.arange(first, min(first + threads, n)) for first in range(0, n, threads)]
    return [g[k : k + 32] for g in found for k in range(0, len(g), 32)] if warps else found


# --- sums, extremes and votes ---


@wp.kernel
def of_block(
    x: wp.array(dtype=float), sums: wp.array(dtype=float), least: wp.array(dtype=float), most: wp.array(dtype=float)
):
    i = wp.tid()
    sums[i] = wp.block_sum(x[i])
    least[i] = wp.block_min(x[i])
    most[i] = wp.block_max(x[i])


@wp.kernel
def of_warp(
    x: wp.array(dtype=float), sums: wp.array(dtype=float), least: wp.array(dtype=float), most: wp.array(dtype=float)
):
    i = wp.tid()
    sums[i] = wp.warp_sum(x[i])
    least[i] = wp.warp_min(x[i])
    most[i] = wp.warp_max(x[i])


@pytest.mark.parametrize(("n", "blocks", "threads"), SHAPES)
@pytest.mark.parametrize("kernel", [of_block, of_warp], ids=["block", "warp"])
def test_sums_and_extremes(kernel: Any, n: int, blocks: int, threads: int) -> None:
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    x[n // 2] = np.nan if n > 1 else 1.0
    got = [x, *(np.zeros(n, np.float32) for _ in range(3))]
    launch(kernel, got, n, blocks, threads)
    for g in groups(n, threads, kernel is of_warp):
        np.testing.assert_allclose(got[1][g], np.full(len(g), x[g].astype(np.float64).sum()), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(got[2][g], np.full(len(g), np.fmin.reduce(x[g])))
        np.testing.assert_array_equal(got[3][g], np.full(len(g), np.fmax.reduce(x[g])))


@wp.kernel
def of_integers(
    x: wp.array(dtype=wp.int8), y: wp.array(dtype=wp.uint64), a: wp.array(dtype=wp.int8), b: wp.array(dtype=wp.uint64)
):
    i = wp.tid()
    a[i] = wp.block_sum(x[i]) + wp.warp_min(x[i])
    b[i] = wp.block_max(y[i]) + wp.warp_sum(y[i])


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_integers_wrap(arch: str) -> None:
    n, threads = 70, 64
    rng = np.random.default_rng(1)
    x, y = rng.integers(-128, 128, n, dtype=np.int8), rng.integers(0, 2**64, n, dtype=np.uint64)
    got = [x, y, np.zeros_like(x), np.zeros_like(y)]
    launch(of_integers, got, n, 1, threads, arch)
    for block in groups(n, threads):
        for g in groups(len(block), 32):
            least, total = x[block][g].min(keepdims=True), y[block][g].sum(dtype=np.uint64, keepdims=True)
            np.testing.assert_array_equal(got[2][block][g], np.repeat(x[block].sum(dtype=np.int8) + least, len(g)))
            np.testing.assert_array_equal(got[3][block][g], np.repeat(y[block].max() + total, len(g)))


@wp.kernel
def of_vectors(
    x: wp.array(dtype=wp.vec3d), m: wp.array(dtype=wp.mat22), a: wp.array(dtype=wp.vec3d), b: wp.array(dtype=wp.mat22)
):
    i = wp.tid()
    a[i] = wp.block_sum(x[i])
    b[i] = wp.warp_sum(m[i])


def test_vectors_and_matrices_are_summed_by_components() -> None:
    n, threads = 90, 64
    rng = np.random.default_rng(2)
    x, m = rng.standard_normal((n, 3)), rng.standard_normal((n, 2, 2)).astype(np.float32)
    got = [x, m, np.zeros_like(x), np.zeros_like(m)]
    launch(of_vectors, got, n, 1, threads)
    for g in groups(n, threads):
        np.testing.assert_allclose(got[2][g], np.broadcast_to(x[g].sum(0), x[g].shape), rtol=1e-12)
    for g in groups(n, threads, warps=True):
        np.testing.assert_allclose(got[3][g], np.broadcast_to(m[g].sum(0), m[g].shape), rtol=1e-5, atol=1e-5)


@wp.kernel
def votes(x: wp.array(dtype=int), found: wp.array2d(dtype=int), bits: wp.array(dtype=wp.uint32)):
    i = wp.tid()
    yes = x[i] > 0
    found[i, 0] = int(wp.block_any(yes))
    found[i, 1] = int(wp.block_all(yes))
    found[i, 2] = int(wp.warp_any(yes))
    found[i, 3] = int(wp.warp_all(yes))
    bits[i] = wp.warp_ballot(yes)


@pytest.mark.parametrize(("n", "blocks", "threads"), SHAPES)
def test_votes(n: int, blocks: int, threads: int) -> None:
    x = (np.arange(n) // 30 % 3).astype(np.int32)
    got = [x, np.zeros((n, 4), np.int32), np.zeros(n, np.uint32)]
    launch(votes, got, n, blocks, threads)
    for g in groups(n, threads):
        assert (got[1][g, :2] == [(x[g] > 0).any(), (x[g] > 0).all()]).all()
    for g in groups(n, threads, warps=True):
        assert (got[1][g, 2:] == [(x[g] > 0).any(), (x[g] > 0).all()]).all()
        assert set(got[2][g]) == {sum(1 << int(k) for k in np.flatnonzero(x[g] > 0))}


@wp.kernel
def who(found: wp.array2d(dtype=int)):
    i = wp.tid()
    found[i, 0] = wp.block_dim()
    found[i, 1] = wp.block_size()
    found[i, 2] = wp.block_thread()
    found[i, 3] = wp.warp_size()
    found[i, 4] = wp.warp_lane()


@pytest.mark.parametrize(("n", "blocks", "threads"), SHAPES)
def test_who_is_who(n: int, blocks: int, threads: int) -> None:
    found = np.zeros((n, 5), np.int32)
    launch(who, [found], n, blocks, threads)
    for g in groups(n, threads):
        k = np.arange(len(g))
        assert (found[g] == np.stack([0 * k + threads, 0 * k + len(g), k, 0 * k + 32, k % 32], axis=1)).all()


# --- exchanges ---


@wp.kernel
def exchanges(x: wp.array(dtype=wp.vec2h), lane: wp.array(dtype=int), by: int, out: wp.array2d(dtype=wp.vec2h)):
    i = wp.tid()
    out[i, 0] = wp.warp_shuffle(x[i], lane[i])
    out[i, 1] = wp.warp_shuffle_up(x[i], by)
    out[i, 2] = wp.warp_shuffle_down(x[i], by)
    out[i, 3] = wp.warp_shuffle_xor(x[i], by)


def read_from(k: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The lanes that are read, each its own where there is no such lane."""
    return np.where((source >= 0) & (source < len(k)), source, k)


@pytest.mark.parametrize("by", [0, 1, 5, 31, 32, 33, -1])
@pytest.mark.parametrize(("n", "threads"), [(64, 64), (70, 64), (7, 32)])
def test_exchanges(n: int, threads: int, by: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, 2)).astype(np.float16)
    lane = rng.integers(-3, 40, n).astype(np.int32)
    out = np.zeros((n, 4, 2), np.float16)
    launch(exchanges, [x, lane, by, out], n, 1, threads)
    for g in groups(n, threads, warps=True):
        k = np.arange(len(g))
        xor = k ^ by if 0 <= by < 32 else k
        for column, source in enumerate((lane[g], k - by if by >= 0 else k, k + by if by >= 0 else k, xor)):
            np.testing.assert_array_equal(out[g, column], x[g][read_from(k, source)])


# --- shared memory ---

TILE = 8


@wp.kernel
def transpose(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    """A tile for each block: rows are read, and rows are written, one element for each thread."""
    row, column, k = wp.tid()
    tile = wp.shared_array(shape=(TILE, TILE + 1), dtype=float)
    for e in range(k, TILE * TILE, wp.block_dim()):
        tile[e // TILE, e % TILE] = a[row * TILE + e // TILE, column * TILE + e % TILE]
    wp.block_sync()
    for e in range(k, TILE * TILE, wp.block_dim()):
        b[column * TILE + e // TILE, row * TILE + e % TILE] = tile[e % TILE, e // TILE]


@pytest.mark.parametrize("threads", [64, 32])
@pytest.mark.parametrize("blocks", [1, 4, 12])
def test_a_transpose_through_shared_memory(threads: int, blocks: int) -> None:
    a = np.random.default_rng(4).standard_normal((3 * TILE, 4 * TILE)).astype(np.float32)
    b = np.zeros((4 * TILE, 3 * TILE), np.float32)
    kernel = CudaKernel(finished(transpose), Options(contiguous=True, narrow=True))
    kernel.in_blocks([a, b], (3, 4, threads), blocks, threads)
    np.testing.assert_array_equal(b, a.T)


def test_the_transpose_on_the_cpu_has_blocks_of_one_thread() -> None:
    a = np.random.default_rng(4).standard_normal((3 * TILE, 4 * TILE)).astype(np.float32)
    b = wp.zeros((4 * TILE, 3 * TILE))
    wp.launch(transpose, (3, 4, 1), [a, b])
    np.testing.assert_array_equal(b.numpy(), a.T)


@wp.kernel
def scan(x: wp.array(dtype=int), y: wp.array(dtype=int)):
    """A prefix sum over each block, in as many steps as its size has binary digits (Hillis and Steele, 1986)."""
    i = wp.tid()
    k = wp.block_thread()
    part = wp.shared_array(shape=64, dtype=int)
    part[k] = x[i]
    distance = 1
    while distance < wp.block_size():
        wp.block_sync()
        more = 0
        if k >= distance:
            more = part[k - distance]
        wp.block_sync()
        part[k] += more
        distance *= 2
    y[i] = part[k]


@pytest.mark.parametrize(("n", "blocks", "threads"), SHAPES)
def test_a_scan_in_shared_memory(n: int, blocks: int, threads: int) -> None:
    x = np.random.default_rng(5).integers(-9, 9, n).astype(np.int32)
    y = np.zeros_like(x)
    launch(scan, [x, y], n, blocks, threads)
    for g in groups(n, threads):
        np.testing.assert_array_equal(y[g], np.cumsum(x[g]))


@wp.kernel
def histogram(x: wp.array(dtype=int), counts: wp.array(dtype=int)):
    """Zero at the beginning of each round, though it was counted in before."""
    i = wp.tid()
    own = wp.shared_array(shape=10, dtype=int)
    wp.atomic_add(own, x[i], 1)
    wp.block_sync()
    for k in range(wp.block_thread(), 10, wp.block_size()):
        wp.atomic_add(counts, k, own[k])


@pytest.mark.parametrize(("n", "blocks", "threads"), SHAPES)
def test_atomics_in_shared_memory(n: int, blocks: int, threads: int) -> None:
    x = np.random.default_rng(6).integers(0, 10, n).astype(np.int32)
    counts = np.zeros(10, np.int32)
    launch(histogram, [x, counts], n, blocks, threads)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=10))
    counts = wp.zeros(10, dtype=int)
    wp.launch(histogram, n, [x, counts])
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x, minlength=10))


@wp.kernel
def by_place(x: wp.array(dtype=int), counts: wp.array(dtype=int)):
    """Which lanes update one element can't be seen from an index without operands."""
    i = wp.tid()
    wp.atomic_add(counts, wp.block_thread(), x[i])


@pytest.mark.parametrize(("n", "blocks", "threads"), SHAPES)
def test_the_number_in_the_block_is_an_index_of_its_own(n: int, blocks: int, threads: int) -> None:
    x = np.random.default_rng(7).integers(-9, 9, n).astype(np.int32)
    counts = np.zeros(threads, np.int32)
    launch(by_place, [x, counts], n, blocks, threads)
    wanted = np.zeros(threads, np.int32)
    for g in groups(n, threads):
        wanted[: len(g)] += x[g]
    np.testing.assert_array_equal(counts, wanted)


@wp.struct
class Sample:
    weight: float
    place: wp.vec3
    late: bool


@wp.func
def put(s: wp.array2d(dtype=float), k: int, value: float):
    s[k, 1] = value


@wp.kernel
def varied(x: wp.array2d(dtype=float), m: int, out: wp.array(dtype=float)):
    """Structs, halves, vectors, views, functions and choices of shared arrays."""
    i = wp.tid()
    k = wp.block_thread()
    s = wp.shared_array(shape=(64, 2), dtype=float)
    samples = wp.shared_array(shape=64, dtype=Sample)
    halves = wp.shared_array(shape=4, dtype=wp.float16)
    most = wp.shared_array(shape=4, dtype=wp.bfloat16)
    taken = wp.shared_array(shape=1, dtype=int)
    pairs = wp.shared_array(shape=2, dtype=wp.vec2)
    put(s, k, x[i, 0])
    samples[k].weight = 2.0
    samples[k].place = wp.vec3(1.0, 2.0, x[i, 0])
    samples[k].late = k > 3
    wp.atomic_add(halves, 1, wp.float16(1.0))
    wp.atomic_max(most, 1, wp.bfloat16(2.0))
    wp.atomic_add(pairs, 0, wp.vec2(1.0, 2.0))
    if wp.atomic_cas(taken, 0, 0, 1) == 0:
        s[0, 0] = 5.0
    wp.block_sync()
    chosen = s if m > 0 else x
    row = s[wp.block_size() - 1 - k]
    late = 0.0
    if samples[k].late:
        late = 100.0
    total = samples[k].place[2] * samples[k].weight + float(halves[1]) + float(most[1]) + pairs[0][1]
    out[i] = chosen[0, 0] + row[1] + total + late


@pytest.mark.parametrize("threads", [16, 33])
def test_whatever_arrays_hold(threads: int) -> None:
    n = 40
    x, out = np.arange(2 * n, dtype=np.float32).reshape(n, 2), np.zeros(n, np.float32)
    launch(varied, [x, 1, out], n, 1, threads)
    for g in groups(n, threads):
        k, size = np.arange(len(g)), len(g)
        np.testing.assert_array_equal(out[g], 5 + x[g[::-1], 0] + 2 * x[g, 0] + 3 * size + 2 + 100 * (k > 3))
    alone = wp.zeros(n)
    wp.launch(varied, n, [wp.array(x), 1, alone])
    np.testing.assert_array_equal(alone.numpy(), 5 + 3 * x[:, 0] + 3 + 2)


@wp.kernel
def failing(x: wp.array(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    assert x[i] >= 0, "negative"
    wp.block_sync()
    y[i] = x[i]


def test_nobody_waits_for_a_thread_that_a_fault_has_ended() -> None:
    f, context = (
        finished(
            failing,
            options=Signature(
                (),
            ).options.replace(debug=True),
        ),
        Context(),
    )
    x, y = np.arange(40, dtype=np.int32), np.full(40, -1, np.int32)
    x[[3, 35]] = -5
    kernel = CudaKernel(f)
    kernel.run_blocks(kernel._thread([x, y], (40,), context, 1, 64), 1, 64)
    np.testing.assert_array_equal(y, np.where(x < 0, -1, x))
    assert "negative" in str(kernel.fault(context))


# --- the oracle ---


@pytest.mark.parametrize("kernel", [of_warp, histogram, scan], ids=lambda k: k.key)
def test_blocks_of_one_thread_are_as_interpreted(kernel: Any) -> None:
    """The interpreter, the CPU's code, and CUDA's code for blocks of one thread."""
    n = 13
    rng = np.random.default_rng(8)
    made = {
        of_warp: lambda: [rng.standard_normal(n).astype(np.float32), *(np.zeros(n, np.float32) for _ in range(3))],
        histogram: lambda: [rng.integers(0, 10, n).astype(np.int32), np.zeros(10, np.int32)],
        scan: lambda: [rng.integers(0, 10, n).astype(np.int32), np.zeros(n, np.int32)],
    }
    args = made[kernel]()
    f = finished(kernel)
    wanted, on_cuda, on_cpu = copies(args), copies(args), copies(args)
    run(f, wanted, (n,))
    CudaKernel(f, Options(contiguous=True)).in_blocks(on_cuda, (n,), 4, 1)
    Kernel(f, Options(contiguous=True))(on_cpu, (n,))
    for a, b, c in zip(wanted, on_cuda, on_cpu, strict=True):
        np.testing.assert_array_equal(b, a)
        np.testing.assert_array_equal(c, a)


# --- loops that are counted in 32 bits ---


@wp.kernel
def counted(bounds: wp.array2d(dtype=int), out: wp.array2d(dtype=int)):
    """How often loops run, and the sum of what they count, which wraps."""
    t = wp.tid()
    times = 0
    total = 0
    for i in range(bounds[t, 0], bounds[t, 1], bounds[t, 2]):
        times += 1
        total += i
    for i in range(bounds[t, 0], bounds[t, 1], 1000):
        times += 1
        total += i
    for i in range(bounds[t, 0], bounds[t, 1], -1000):
        times += 1
        total += i
    out[t, 0] = times
    out[t, 1] = total


def test_loops_near_the_ends_of_their_type() -> None:
    low, high = -(2**31), 2**31 - 1
    rows = [
        (high - 7, high, 3), (low + 7, low, -3), (low, low + 5000, 2000), (high, high - 5000, -2000), (0, 10, 1),
        (5, 5, 1), (low, high, high), (high, low, low), (low, high, 1 << 30), (high - 2500, high, 999),
    ]  # fmt: skip
    out = np.zeros((len(rows), 2), np.int32)
    bounds = np.array(rows, np.int32)
    wanted = []
    for lo, hi, step in bounds.tolist():
        spans = [range(lo, hi, step)]
        spans += [range(lo, hi, by) for by in (1000, -1000)]
        times, total = (sum(f(s) for s in spans) for f in (len, lambda s: len(s) * (s[0] + s[-1]) // 2 if s else 0))
        wanted.append((times, (total + 2**31) % 2**32 - 2**31))
    kernel = CudaKernel(finished(counted), Options(contiguous=True, narrow=True))
    kernel([bounds, out], (len(rows),))
    np.testing.assert_array_equal(out, wanted)


# --- text ---


@pytest.mark.long
def test_every_architecture_takes_them() -> None:
    for arch in ARCHITECTURES:
        for kernel in (of_block, of_warp, of_integers, votes, exchanges, transpose, scan, histogram, varied):
            ptx = accept(finished(kernel), arch, Options(contiguous=True, narrow=True))
            assert f".target {arch}" in ptx
    accept(finished(varied), "sm_80", Options(debug=True))


def test_what_is_written() -> None:
    ptx = accept(finished(of_integers), "sm_80")
    assert ptx.count("barrier.sync") == 4
    assert "redux.sync.add.s32" in ptx
    assert "vote.sync.ballot" in accept(finished(votes))
    assert ".shared .align 16 .b8 shared0[" in accept(finished(transpose))
    assert "atom.shared.add" in accept(finished(histogram))
    assert "barrier" not in accept(finished(of_warp))


def test_threads_beyond_the_grid_end_before_anybody_waits() -> None:
    """The only way past the barriers of a round leaves the kernel."""
    ptx = accept(finished(histogram), "sm_80", Options(contiguous=True, narrow=True))
    before = ptx[: ptx.index("barrier.sync")]
    ends = {line.rstrip(":") for line, after in itertools.pairwise(ptx.splitlines()) if after.strip() == "ret;"}
    jumps = [
        line.split()[-1].rstrip(";") for line in before.splitlines() if "bra" in line and line.strip().startswith("@")
    ]
    assert set(jumps) & ends
