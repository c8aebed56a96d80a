"""The grid loop: any rank, any split, ranks that differ between kernel and launch, sizes beyond int32."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.running import Kernel, check
from tests.ir_builder import start, tid
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Array, int32, int64
from warp_like.passes.spmd.widen import widen

I2 = Array(int32, 2)


def trace(ndim: int, others: tuple[int, ...] = ()) -> Function:
    """Every thread writes its indices, seen as ``ndim`` and as ``others`` dimensional, in its own row."""
    f, b = start("trace", next=Array(int32, 1), out=I2)
    at = b.atomic("add", f.params[0], [b.index(0)], b.index(1))
    k = 0
    for n in (ndim, *others):
        for axis in range(n):
            b.store(f.params[1], [at, b.index(k)], tid(b, axis, n))
            k += 1
    b.yield_()
    return f


DIMS = [
    (7,),
    (1,),
    (3, 5),
    (1, 9),
    (9, 1),
    (2, 3, 4),
    (2, 1, 3, 2),
    (4, 1, 1, 1),
    (2, 1, 3, 2, 2),
    (2, 1, 2, 3, 1, 2, 2, 3),
]


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_ranks(ndim: int, dims: tuple[int, ...]) -> None:
    total = int(np.prod(dims))
    check(trace(ndim), [np.zeros(1, "i"), np.zeros((total, ndim), "i")], dims)


@pytest.mark.parametrize("dims", [(23,), (5, 7), (3, 4, 5), (2, 3, 2, 4)], ids=str)
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_splits(ndim: int, dims: tuple[int, ...]) -> None:
    total = int(np.prod(dims))
    for splits in ([1, 2, 6, 6, 7, 20], [total - 1], [0, 5, 10, 15]):
        check(trace(ndim), [np.zeros(1, "i"), np.zeros((total, ndim), "i")], dims, splits=splits)


def test_several_ranks_in_one_kernel() -> None:
    dims = (2, 3, 4)
    check(trace(3, (1, 2)), [np.zeros(1, "i"), np.zeros((24, 6), "i")], dims)
    check(trace(2, (1,)), [np.zeros(1, "i"), np.zeros((24, 3), "i")], dims)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_empty_grid(ndim: int) -> None:
    f = trace(ndim)
    count = np.zeros(1, "i")
    Kernel(f)([count, np.zeros((1, ndim), "i")], (0, 5))
    assert count[0] == 0


def test_no_tid_runs_every_thread() -> None:
    f, b = start("count", n=Array(int32, 1))
    b.atomic("add", f.params[0], [b.index(0)], b.index(1))
    b.yield_()
    n = np.zeros(1, "i")
    Kernel(f)([n], (3, 4))
    assert n[0] == 12


@pytest.mark.parametrize("ndim", [1, 2])
def test_threads_beyond_int32(ndim: int) -> None:
    """The last threads of a grid of 2**33, without running the others."""
    f, b = start("wide", out=Array(int64, 2))
    index = [b.insert(ops.Tid(k, ndim), int64).result for k in range(ndim)]
    flat = index[0] if ndim == 1 else b.add(b.mul(index[0], b.constant(3, int64)), index[1])
    slot = b.sub(flat, b.constant(3 * 2**32 - 4, int64))
    for k, v in enumerate(index):
        b.store(f.params[0], [slot, b.index(k)], v)
    b.yield_()
    kernel = Kernel(f)
    out = np.zeros((4, ndim), "q")
    total = 3 * 2**32
    dims = (2**32, 3)
    wanted = np.arange(total - 4, total)
    run_tail(kernel, out, dims, total)
    np.testing.assert_array_equal(out, wanted[:, None] if ndim == 1 else np.stack([wanted // 3, wanted % 3], 1))


def run_tail(kernel: Kernel, out: np.ndarray, dims: tuple[int, ...], total: int) -> None:
    import struct

    from tests.backend.running import pack
    from warp_like.base.contract import MAX_DIMS

    extents = struct.pack(f"={MAX_DIMS}q", *dims, *[1] * (MAX_DIMS - len(dims)))
    kernel._entry(pack(kernel.function, [out]), extents, total - 4, total, None)


def numbers(ndim: int, more: int) -> Function:
    """Every thread adds its number and ``more`` to its element."""
    f, b = start("numbers", out=Array(int32, ndim))
    at = [tid(b, axis, ndim) for axis in range(ndim)]
    number = at[0]
    for axis in range(1, ndim):
        number = b.add(b.mul(number, b.insert(ops.GridDim(axis, ndim), int32).result), at[axis])
    b.store(f.params[0], at, b.add(b.load(f.params[0], at), b.add(number, more)))
    b.yield_()
    f.tid_ndim = ndim
    return f


@pytest.mark.parametrize("dims", [(9, 1), (5, 3), (2, 3, 2), (5, 4), (3, 9), (2, 3, 19)], ids=str)
def test_short_rows_run_one_thread_at_a_time(dims: tuple[int, ...]) -> None:
    """The code for one thread adds 1000 more here, which tells them apart."""
    wide = widen(numbers(len(dims), 0), 8)
    wide.schedule = wide.schedule.replace(alone=numbers(len(dims), 1000), fewest=4)
    total = int(np.prod(dims))
    wanted = np.arange(total).reshape(dims) + (1000 if dims[-1] < 4 else 0)
    kernel = Kernel(wide)
    for splits in ([], [0, 1, 2, 6, 6, 8], [total - 1]):
        out = np.zeros(dims, "i")
        kernel([out], dims, splits=splits)
        np.testing.assert_array_equal(out, wanted)
