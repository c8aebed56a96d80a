"""Products of tiles of bfloat16 that are summed in pairs, on processors that are fast at it, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import warp_like as wp
from tests import pair_products
from tests.long_tail import tail
from tests.pair_products import rounded, widened
from warp_like.backend.target import Target, host_target
from warp_like.compiler.pipeline import stage_text
from warp_like.compiler.signature import Signature

bf16, f32 = wp.bfloat16, wp.float32
ASKED = "tensor_cores"


@pytest.fixture
def in_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this processor be one of those that sum in pairs; what it compiles is no other one's."""
    monkeypatch.setattr(Target, "sums_pairs", True)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))


def gemm(
    total: Any, shape: tuple[int, int, int], turned: tuple[bool, bool] = (False, False), precision: str = ASKED
) -> Any:
    """``out[i] = x[i] @ y[i] / 2 + 2 * out[i]`` of each block, of ``x`` or ``y`` transposed."""
    M, K, N = shape
    TX, TY, PRECISION = *turned, precision
    X, Y = (K, M) if TX else (M, K), (N, K) if TY else (K, N)

    @wp.kernel(module="unique")
    def product(x: wp.array3d(dtype=bf16), y: wp.array3d(dtype=bf16), out: wp.array3d(dtype=total)):
        i = wp.tid()
        left, right = wp.tile_load(x[i], shape=X), wp.tile_load(y[i], shape=Y)
        s = wp.tile_load(out[i], shape=(M, N))
        half, twice = total(0.5), total(2.0)
        if wp.static(TX and TY):
            wp.tile_matmul(wp.tile_transpose(left), wp.tile_transpose(right), s, half, twice, precision=PRECISION)
        elif wp.static(TX):
            wp.tile_matmul(wp.tile_transpose(left), right, s, half, twice, precision=PRECISION)
        elif wp.static(TY):
            wp.tile_matmul(left, wp.tile_transpose(right), s, half, twice, precision=PRECISION)
        else:
            wp.tile_matmul(left, right, s, half, twice, precision=PRECISION)
        wp.tile_store(out[i], s)

    return product


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers as bits; some products of them are denormal."""
    rng = np.random.default_rng((seed, *shape))
    return rounded(rng.normal(size=shape) * np.float32(2.0) ** rng.choice([-64, 0, 1], size=shape))


GEMMS = {
    "float32": (f32, (4, 32, 16), (False, False)),
    "odd": (f32, (5, 7, 33), (False, False)),
    "one term": (f32, (4, 1, 20), (True, False)),
    "turned x": (f32, (18, 6, 16), (True, False)),
    "turned y": (f32, (16, 9, 40), (False, True)),
    "both turned": (bf16, (7, 16, 17), (True, True)),
    "bfloat16": (bf16, (16, 34, 64), (False, False)),
}


@pytest.mark.parametrize("name", [tail(n) if n in ("float32", "turned x", "turned y") else n for n in GEMMS])
@pytest.mark.usefixtures("in_pairs")
def test_products_bit_for_bit(name: str) -> None:
    total, shape, turned = GEMMS[name]
    kernel, (m, k, n), count = gemm(total, shape, turned), shape, 2
    x, y = drawn(count, m, k), drawn(count, k, n, seed=1)
    given = [v.swapaxes(1, 2).copy() if t else v for v, t in zip((x, y), turned, strict=True)]
    old = drawn(count, m, n, seed=2)
    out = wp.array(old if total == bf16 else widened(old), dtype=total)
    wp.launch_tiled(kernel, dim=count, inputs=[*(wp.array(v, dtype=bf16) for v in given), out], block_dim=64)
    sums = np.array([pair_products.product(*pair) for pair in zip(x, y, strict=True)])
    if total == bf16:
        half = rounded(0.5 * widened(rounded(sums)))
        wanted = rounded(widened(half) + widened(rounded(2.0 * widened(old))))
    else:
        wanted = np.float32(0.5) * sums + np.float32(2.0) * widened(old)
    np.testing.assert_array_equal(out.numpy(), wanted)


def is_in_pairs(kernel: Any, target: Target, **more: Any) -> bool:
    text = stage_text(kernel.captured_source, Signature(kernel.types, **more), target, "optimised")
    return "_dot_of_pairs" in text


@pytest.mark.parametrize(
    "kernel",
    [
        gemm(f32, (16, 16, 16), precision="default"),
        gemm(f32, (3, 64, 16)),
        gemm(f32, (16, 64, 15)),
    ],
    ids=["default", "few rows", "narrow"],
)
def test_products_that_stay_as_they_are(kernel: Any) -> None:
    signature = Signature(kernel.types)
    texts = []
    for is_fast in (False, True):
        with mock.patch.object(Target, "sums_pairs", is_fast):
            texts.append(stage_text(kernel.captured_source, signature, host_target(), "lanes"))
    assert texts[0] == texts[1]


def test_which_processors_sum_in_pairs() -> None:
    kernel = gemm(f32, (16, 16, 16))
    for name, features, wanted in (
        ("znver4", "+avx512f,+avx512vl,+avx512bf16", True),
        ("znver3", "+avx2,+fma", False),
        ("sapphirerapids", "+avx512f,+avx512vl,+avx512bf16", False),
        ("x86-64", "", False),
    ):
        target = Target("cpu", name, features, "x86_64-unknown-linux-gnu")
        assert is_in_pairs(kernel, target) is wanted


def square(side: int) -> Any:
    S = side

    @wp.kernel(module="unique")
    def product(x: wp.array2d(dtype=bf16), y: wp.array2d(dtype=bf16), out: wp.array2d(dtype=bf16)):
        left, right = wp.tile_load(x, shape=(S, S)), wp.tile_load(y, shape=(S, S))
        wp.tile_store(out, wp.tile_matmul(left, wp.tile_transpose(right), precision="tensor_cores"))

    return product


@pytest.mark.usefixtures("in_pairs")
def test_gradients_are_such_products_too() -> None:
    """Those of ``x @ y^T``: ``g @ y`` and ``g^T @ x``, each rounded once to bfloat16."""
    n, kernel = 17, square(17)
    x, y, g = (rounded(np.random.default_rng(k).normal(size=(n, n))) for k in range(3))
    arrays = [wp.array(v, dtype=bf16, requires_grad=True) for v in (x, y)]
    out = wp.zeros((n, n), dtype=bf16, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(kernel, dim=1, inputs=arrays, outputs=[out], block_dim=64)
    tape.backward(grads={out: wp.array(g, dtype=bf16)})
    assert kernel.inspect("optimised", wrt=["x", "y", "out"]).count("_dot_of_pairs") >= 2
    for got, (p, q) in zip((out, *(a.grad for a in arrays)), ((x, y.T), (g, y), (g.T, x)), strict=True):
        np.testing.assert_array_equal(got.numpy(), rounded(pair_products.product(p, q)))
        exact, size = widened(p).astype(np.float64) @ widened(q), np.abs(widened(p)) @ np.abs(widened(q))
        assert (np.abs(widened(got.numpy()) - exact) <= 2.0**-8 * np.abs(exact) + n * 2.0**-23 * size).all()


@pytest.mark.usefixtures("in_pairs")
def test_products_of_blocks_of_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    kernel, x, y = gemm(f32, (16, 8, 16)), drawn(1, 16, 8), drawn(1, 8, 16, seed=1)
    out = wp.zeros((1, 16, 16), dtype=f32)
    wp.launch_tiled(kernel, dim=1, inputs=[*(wp.array(v, dtype=bf16) for v in (x, y)), out], block_dim=32)
    np.testing.assert_array_equal(out.numpy()[0], np.float32(0.5) * pair_products.product(x[0], y[0]))
