"""Tiles that are loaded by asynchronous copies: beside NumPy, at the edges of arrays, and from any address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import seeds
from tests.runtime.cuda import random_tile_loops
from tests.runtime.cuda.test_products_of_tiles import binaries
from tests.runtime.cuda.test_tile_kernels import forget, teams
from warp_like.passes.team.distribute import _Distributor

ROWS, COLUMNS = 10, 24
made: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten(device: str) -> Iterator[None]:
    yield
    for kernel in made:
        forget(kernel)
    made.clear()


def loads(t: Any, shape: tuple[int, int]) -> Any:
    """Tiles of ``shape`` at four places, turned around, so that each thread stores what others have loaded."""
    R, C = shape

    @wp.kernel(module="unique")
    def load(a: wp.array2d(dtype=t), i: int, j: int, out: wp.array3d(dtype=t)):
        for k in range(4):
            tile = wp.tile_load(a, shape=(R, C), offset=(i + 3 * (k // 2), j + 7 * (k % 2)))
            wp.tile_store(out[k], tile[::-1, ::-1])
        wp.tile_store(out[4], wp.tile_load(a, shape=(R, C), bounds_check=False)[::-1, ::-1])

    made.append(load)
    return load


def expected(a: np.ndarray, at: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    around = np.zeros((a.shape[0] + 200, a.shape[1] + 200), a.dtype)
    around[100 : 100 + a.shape[0], 100 : 100 + a.shape[1]] = a
    i, j = at[0] + 100, at[1] + 100
    return around[i : i + shape[0], j : j + shape[1]][::-1, ::-1]


CASES = {
    "16 bytes at once": (wp.float32, (4, 8), True),
    "8 numbers at once": (wp.float16, (2, 16), True),
    "2 numbers at once": (wp.int64, (3, 4), True),
    "bytes": (wp.uint8, (2, 16), True),
    "one by one": (wp.float32, (3, 5), True),
    "one by one, of 8 bytes": (wp.float64, (5, 1), True),
    "too short": (wp.float16, (3, 5), False),
}


@pytest.mark.parametrize("name", CASES)
def test_loads(device: str, name: str) -> None:
    t, shape, is_async = CASES[name]
    kernel = loads(t, shape)
    whole = np.random.default_rng(0).integers(0, 100, (ROWS, COLUMNS)).astype(wp.dtype_to_numpy(t))
    for skipped in (0, 1, 4):  # where the first element is
        given = whole.reshape(-1)[skipped : skipped + (ROWS - 1) * COLUMNS].reshape(ROWS - 1, COLUMNS)
        a = wp.array(whole.reshape(-1), dtype=t, device=device)[skipped : skipped + given.size].reshape(given.shape)
        for i, j in ((0, 0), (-2, -3), (ROWS - 3, COLUMNS - 9), (50, -60)):
            out = wp.zeros((5, *shape), dtype=t, device=device)
            wp.launch_tiled(kernel, dim=1, inputs=[a, i, j, out], block_dim=16, device=device)
            for k, got in enumerate(out.numpy()):
                at = (i + 3 * (k // 2), j + 7 * (k % 2)) if k < 4 else (0, 0)
                np.testing.assert_array_equal(got, expected(given, at, shape))
    assert teams(kernel) == {16}
    texts = [text for text in binaries(kernel) if not text.startswith(b"\x7fELF")]
    assert any(b"cp.async" in text for text in texts) == is_async  # not of views that begin anywhere


@wp.kernel
def in_turn(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float), again: int):
    """Loads into memory that is used before and after, in loops and branches, and of what the kernel writes itself."""
    s = wp.tile_zeros(shape=(4, 8), dtype=float)
    x = wp.tile_load(a, shape=(4, 8))
    for k in range(3):
        y = wp.tile_load(b, shape=(4, 8), offset=(k, 0))
        s += wp.tile_map(wp.mul, x, y)
        x = wp.tile_load(a, shape=(4, 8), offset=(k + 1, 0))
        if again > k:
            z = wp.tile_load(b, shape=(8, 4), offset=(0, k))
            s += wp.tile_transpose(z)
    x += s
    wp.tile_store(out, x[::-1])
    wp.tile_store(out, wp.tile_load(out, shape=(4, 8))[::-1] + s, offset=(4, 0))


@wp.kernel
def by_loops(a: wp.array(dtype=float), out: wp.array2d(dtype=float), n: int):
    """Loops of the user's that copy, from another place on than the first, or not all."""
    t = wp.tile_zeros(shape=16, dtype=float)
    for k in range(1, wp.clamp(n, 0, 17)):
        t[k - 1] = a[k]
    wp.tile_store(out[0], t[::-1])
    u = wp.tile_zeros(shape=16, dtype=float)
    for k in range(wp.clamp(n, 4, 8), 16):
        u[k] = a[k + 3]
    for k in range(3):
        v = wp.tile_load(a, shape=16, offset=k)
        u += v
        v = wp.tile_load(a, shape=16, offset=k + 1)
        u += v[::-1]
        if n > k:
            v = wp.tile_load(a, shape=16, offset=2 * k)
        u += v
    wp.tile_store(out[1], u[::-1])


@pytest.mark.parametrize("n", [0, 9, 30])
def test_loops_that_copy(device: str, n: int) -> None:
    made.append(by_loops)
    a = np.random.default_rng(2).integers(-5, 6, 40).astype(np.float32)
    out = wp.zeros((2, 16), dtype=float, device=device)
    wp.launch_tiled(by_loops, dim=1, inputs=[wp.array(a, device=device), out, n], block_dim=8, device=device)
    t, u = np.zeros((2, 16), np.float32)
    last, first = min(max(n, 1), 17), min(max(n, 4), 8)
    t[: last - 1], u[first:] = a[1:last], a[first + 3 : 19]
    for k in range(3):
        u += a[k : k + 16] + a[k + 1 : k + 17][::-1]
        u += a[2 * k : 2 * k + 16] if n > k else a[k + 1 : k + 17]
    np.testing.assert_array_equal(out.numpy(), [t[::-1], u[::-1]])


@pytest.mark.parametrize("seed", seeds(20, few=0))
def test_random_kernels(device: str, seed: int) -> None:
    made.append(random_tile_loops.compare(seed, device))


def result(device: str) -> np.ndarray:
    made.append(in_turn)
    a, b = np.random.default_rng(2).integers(-5, 6, (2, 8, 8)).astype(np.float32)
    out = wp.zeros((8, 8), dtype=float, device=device)
    given = [wp.array(v, device=device) for v in (a, b)]
    wp.launch_tiled(in_turn, dim=1, inputs=[*given, out, 2], block_dim=8, device=device)
    s = sum(a[k : k + 4] * b[k : k + 4] + (b[:8, k : k + 4].T if k < 2 else 0.0) for k in range(3))
    np_result = np.concatenate([(a[3:7] + s)[::-1], a[3:7] + s + s])
    return np.array([out.numpy(), np_result])


def test_loads_in_turn(device: str) -> None:
    np.testing.assert_array_equal(*result(device))
    (text,) = binaries(in_turn)
    assert text.startswith(b"\x7fELF") or len(re.findall(rb"(call void @llvm.nvvm.|\t)cp.async.wait", text)) >= 2


def test_a_missing_wait_shows(device: str, request: pytest.FixtureRequest) -> None:
    """The emulation copies when a thread waits, so what is not waited for is not there."""
    if request.node.callspec.params["device"] == "gpu":
        pytest.skip("a device may be fast enough")
    with mock.patch.object(_Distributor, "land", return_value=None):
        got, right = result(device)
    assert not np.array_equal(got, right)
