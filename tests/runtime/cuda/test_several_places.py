"""Threads that take several places of the grid, and load and store their elements together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.analysis.streams import places_a_thread
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature

SIZES = (1, 2, 3, 4, 5, 31, 64, 1021, 1024)


@wp.kernel
def move(x: wp.array(dtype=float), v: wp.array(dtype=float), n: wp.array(dtype=wp.int8), dt: float):
    i = wp.tid()
    v[i] -= x[i] * dt
    x[i] = wp.clamp(x[i] + v[i] * dt, -1.0, 1.0)
    n[i] = n[i] + wp.int8(i)


@wp.kernel
def widen(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float64), b: wp.array(dtype=bool)):
    i = wp.tid()
    y[i] = wp.float64(x[i]) * 2.0 + wp.float64(i)
    b[i] = x[i] > wp.float16(0.0)


def moved(x: np.ndarray, v: np.ndarray, n: np.ndarray, dt: np.float32) -> tuple[np.ndarray, ...]:
    v = v - x * dt
    x = np.clip(x + v * dt, -1.0, 1.0)
    return x, v, (n + np.arange(len(n))).astype(np.int8)


@pytest.mark.parametrize("shift", [0, 1], ids=["aligned", "unaligned"])
def test_all_sizes_and_views(device, shift):
    rng = np.random.default_rng(3)
    for size in SIZES:
        x, v = rng.standard_normal((2, size)).astype(np.float32)
        n = rng.integers(-99, 99, size, dtype=np.int8)
        room = [wp.array(np.full(size + 9, 7, a.dtype), device=device) for a in (x, v, n)]
        views = [a[shift : shift + size] for a in room]
        for view, a in zip(views, (x, v, n), strict=True):
            view.assign(a)
        wp.launch(move, dim=size, inputs=[*views, 0.25], device=device, block_dim=32)
        for whole, view, want in zip(room, views, moved(x, v, n, np.float32(0.25)), strict=True):
            np.testing.assert_allclose(view.numpy(), want, rtol=1e-6, atol=1e-6)
            rest = np.delete(whole.numpy(), slice(shift, shift + size))
            np.testing.assert_array_equal(rest, np.full(9, 7), "what is beside the grid stays")


def test_grids_smaller_than_arrays_overlaps_and_recorded_launches(device):
    x = np.linspace(-1.0, 1.0, 23).astype(np.float16)
    given, y, b = wp.array(x, device=device), wp.zeros(23, dtype=wp.float64, device=device), wp.zeros(23, dtype=bool)
    b = b.to(device)
    command = wp.launch(widen, dim=23, inputs=[given, y, b], device=device, record_cmd=True)
    command.set_dim(13)
    command.launch()
    want = np.where(np.arange(23) < 13, x.astype(float) * 2.0 + np.arange(23), 0.0)
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(b.numpy(), (x > 0) & (np.arange(23) < 13))
    # In one array for both, each thread still sees what it has written itself.
    both, n = wp.ones(16, device=device), wp.zeros(16, dtype=wp.int8, device=device)
    wp.launch(move, dim=16, inputs=[both, both, n, 0.5], device=device)
    np.testing.assert_array_equal(both.numpy(), np.full(16, 0.75))
    x, v, n = (wp.ones(70, dtype=t, device=device) for t in (float, float, wp.int8))
    wp.launch(move, dim=70, inputs=[x, v, n, 0.5], device=device, max_blocks=1, block_dim=32)
    np.testing.assert_array_equal(x.numpy(), np.ones(70))
    np.testing.assert_array_equal(v.numpy(), np.full(70, 0.5))


def test_fewer_blocks_are_launched(fake):
    fake.args_size = 80
    x, v = wp.zeros(1 << 16, device="cuda:0"), wp.zeros(1 << 16, device="cuda:0")
    n = wp.zeros(1 << 16, dtype=wp.int8, device="cuda:0")
    for given, blocks in (([x, v], 64), ([x[1:], v[:-1]], 256), ([x[4:], v[:-4]], 64)):
        fake.forget()
        wp.launch(move, dim=given[0].size, inputs=[*given, n, 0.5], device="cuda:0")
        assert [c.grid[0] for c in fake.launches] == [blocks]
    move.forget_programs()


@wp.kernel
def neighbour(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i + 1]


@wp.kernel
def branches(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        y[i] = x[i]


@wp.kernel
def meets(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    y[0] += x[i]


@wp.kernel
def rows(x: wp.array2d(dtype=float)):
    i, j = wp.tid()
    x[i, j] = 1.0


@wp.kernel
def costly(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def vectors(x: wp.array(dtype=wp.vec4), y: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    y[i] = x[i]


def test_which_kernels_stream():
    def places(kernel: Any) -> int:
        f = optimised(kernel.source, Signature(tuple(t for _, t in kernel.declared), sums=True))
        return places_a_thread(analyse(f), (0, 1))

    assert (places(move), places(widen)) == (4, 2)
    assert {k.key: places(k) for k in (neighbour, branches, meets, rows, costly, vectors)} == dict.fromkeys(
        ("neighbour", "branches", "meets", "rows", "costly", "vectors"), 1
    )
    ptx = move.inspect_ptx(target="sm_90")
    for access in ("ld.global.v4.b32", "st.global.v4.b32", "ld.global.b32 ", "st.global.b32 "):
        assert access in ptx.replace("\t", " "), access
    assert "ld.global.v2.b64" not in ptx
    assert "st.global.v2.b64" in widen.inspect_ptx(target="sm_90")
    assert "global_load_dwordx4" in move.inspect("asm", target="gfx942")
