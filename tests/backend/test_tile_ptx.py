"""The PTX of tile kernels whose blocks have several threads: what lies where, and how often threads meet."""

from __future__ import annotations

import re
from typing import Any

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.backend import compile as backend
from warp_like.backend.target import cuda_target
from warp_like.compiler import pipeline
from warp_like.compiler.signature import Options, Signature

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


def ptx(kernel: Any, team: int, axis: int = 1) -> str:
    options = Options(cpu_block_dim=team, cpu_block_axis=axis)
    signature = Signature(kernel.types, options=options, sums=True)
    f = pipeline.optimised(kernel.source, signature, team=team)
    target = cuda_target("sm_80")
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
