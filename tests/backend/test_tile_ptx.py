"""The PTX of tile kernels whose blocks have several threads: what lies where, and how often threads meet."""

from __future__ import annotations

import re
from typing import Any

import pytest

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.backend import compile as backend
from warp_like.backend import nvptx
from warp_like.backend.target import Target, cuda_target
from warp_like.compiler import pipeline
from warp_like.compiler.signature import Options, Signature
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.passes.blocks import MAX_SHARED_BYTES
from warp_like.passes.team.distribute import shared_bytes

SIDE, DEPTH = 64, 16


@wp.kernel
def product(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(SIDE, SIDE), dtype=float)
    for k in range(a.shape[1] // DEPTH):
        left = wp.tile_load(a, shape=(SIDE, DEPTH), offset=(i * SIDE, k * DEPTH))
        right = wp.tile_load(b, shape=(DEPTH, SIDE), offset=(k * DEPTH, j * SIDE))
        wp.tile_matmul(left, right, total)
    wp.tile_store(out, total, offset=(i * SIDE, j * SIDE))


@wp.kernel
def squares(a: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=256)
    wp.tile_store(out[i], t * t + t)


@wp.kernel
def total(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile_load(a[i], shape=256)), offset=i)


@wp.kernel
def products(
    a: wp.array2d(dtype=wp.float64), b: wp.array2d(dtype=wp.float16), c: wp.array2d(dtype=wp.bfloat16),
    out: wp.array2d(dtype=float),
):  # fmt: skip
    i = wp.tid()
    x = wp.tile_load(a, shape=(16, 16))
    sums = wp.tile_astype(wp.tile_matmul(x, wp.tile_transpose(x)), dtype=float)
    y, z = wp.tile_load(b, shape=(16, 16)), wp.tile_load(c, shape=(16, 16))
    wp.tile_matmul(y, y, sums, precision="tensor_cores")
    wp.tile_matmul(wp.tile_transpose(z), z, sums, precision="tensor_cores")
    wp.tile_store(out, sums, offset=(i, 0))


@wp.kernel
def in_double(a: wp.array2d(dtype=wp.float64), b: wp.array2d(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(16, 32), dtype=wp.float64)
    for k in range(a.shape[1] // 4):
        left = wp.tile_load(a, shape=(16, 4), offset=(i * 16, k * 4))
        right = wp.tile_load(b, shape=(4, 32), offset=(k * 4, j * 32))
        wp.tile_matmul(left, right, total)
    wp.tile_store(out, total, offset=(i * 16, j * 32))


def made(kernel: Any, team: int, axis: int, arch: str) -> tuple[Function, Signature, Target]:
    """The kernel as ``team`` threads run it, and what it was compiled for."""
    options = Options(cpu_block_dim=team, cpu_block_axis=axis)
    signature, target = Signature(kernel.types, options=options, sums=True), cuda_target(arch)
    units, copies = pipeline._units(signature, target), target.has_async_copies
    f = pipeline.optimised(kernel.source, signature, team=team, units=units, async_copies=copies)
    return f, signature, target


def ptx(kernel: Any, team: int, axis: int = 1, arch: str = "sm_80") -> str:
    f, signature, target = made(kernel, team, axis, arch)
    return backend.to_ptx(f, target, pipeline._lowering(signature, analyse(f), target))


def test_a_product_is_summed_in_registers() -> None:
    text = ptx(product, 64, axis=2)
    inner = max(re.split(r"\$L\w+:", text), key=lambda part: part.count("fma.rn.f32"))
    assert inner.count("fma.rn.f32") == 64  # of 8 x 8 sums
    assert inner.count("ld.shared.v4") == 2  # neighbours at once
    assert inner.count("ld.shared") == 10
    assert ".local" not in text
    assert ".maxntid 64" in text


def test_threads_that_come_back_to_their_elements_do_not_wait() -> None:
    text = ptx(squares, 128)
    assert "barrier.sync" not in text  # a block has one place of the grid
    assert ".local" not in text


def test_a_sum_goes_over_the_warp_then_over_the_block() -> None:
    text = ptx(total, 128)
    assert text.count("shfl.sync.down") == 5
    assert text.count("barrier.sync") <= 4
    assert ".local" not in text


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_matrix_units_are_assembled(arch: str) -> None:
    text = ptx(products, 32, arch=arch)
    nvptx.assemble(text, arch)
    names = ("m8n8k4.row.col.f64.f64.f64.f64", "m16n8k16.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f32.bf16.bf16.f32")
    has_units = arch != "sm_75"
    assert all((f"mma.sync.aligned.{name}" in text) == has_units for name in names)
    assert ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in text) == has_units
    assert ".local" not in text or not has_units


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_asynchronous_copies_are_assembled(arch: str) -> None:
    """Of 16 bytes where that may be, else of an element; both factors are on their way when the threads wait."""
    text = ptx(product, 64, axis=2, arch=arch)
    nvptx.assemble(text, arch)
    has_copies = arch != "sm_75"
    assert (text.count("cp.async.cg.shared.global") > 0) == has_copies
    assert (text.count("cp.async.ca.shared.global") > 0) == has_copies
    assert text.count("cp.async.wait_all") == has_copies
    assert ".local" not in text


def test_sums_of_matrix_units_stay_in_registers() -> None:
    """The loop over tiles carries them; they are neither loaded nor cleared before, and stored after it."""
    f, *_ = made(in_double, 32, axis=2, arch="sm_80")
    (loop,) = (o for o in f.body.ops if isinstance(o, ops.For) and o.results)
    assert len(loop.results) == 16 * 32 // 32
    total = next(o for o in f.body.ops if isinstance(o, ops.LocalArray) and o.shape[0] == 512)
    assert not any(total.result in o.operands() for o in loop.body.walk())
    before = f.body.ops[: f.body.ops.index(loop)]
    assert not any(total.result in x.operands() for o in before for r in o.regions() for x in r.walk())
    assert sum(isinstance(o, ops.Store) and o.array is total.result for o in f.body.ops) == 16


@wp.kernel
def large_in_double(
    a: wp.array2d(dtype=wp.float64), b: wp.array2d(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)
):
    total = wp.tile_zeros(shape=(SIDE, SIDE), dtype=wp.float64)
    for k in range(a.shape[1] // DEPTH):
        left = wp.tile_load(a, shape=(SIDE, DEPTH), offset=(0, k * DEPTH))
        right = wp.tile_load(b, shape=(DEPTH, SIDE), offset=(k * DEPTH, 0))
        wp.tile_matmul(left, right, total)
    wp.tile_store(out, total)


def test_tiles_take_no_more_shared_memory_than_they_have_elements() -> None:
    f, *_ = made(large_in_double, 128, axis=2, arch="sm_80")
    assert f.team == 128
    assert shared_bytes(f) == MAX_SHARED_BYTES == 8 * (SIDE * SIDE + 2 * SIDE * DEPTH)
