"""Products of tiles by the matrix units of a CUDA device, beside NumPy and the same kernels on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import CudaKernel
from tests.runtime.cuda.test_tile_kernels import forget, teams
from warp_like.backend.target import Options as LoweringOptions
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Options, Signature
from warp_like.passes.team import distribute

f16, bf16, f32, f64 = wp.float16, wp.bfloat16, wp.float32, wp.float64
BITS = {f16: 11, bf16: 8, f32: 24, f64: 53}


def gemm(
    t: Any, total: Any, shape: tuple[int, int, int], turned: tuple[bool, bool], precision: str = "tensor_cores"
) -> Any:
    """``out = x @ y`` by tiles, of ``x`` or ``y`` transposed, added up over ``k``."""
    M, K, N = shape
    TX, TY, PRECISION = *turned, precision
    X, Y = (K, M) if TX else (M, K), (N, K) if TY else (K, N)

    @wp.kernel(module="unique")
    def product(x: wp.array2d(dtype=t), y: wp.array2d(dtype=t), out: wp.array2d(dtype=total), steps: int):
        i, j = wp.tid()
        s = wp.tile_zeros(shape=(M, N), dtype=total)
        for k in range(steps):
            if wp.static(TX):
                left = wp.tile_load(x, shape=X, offset=(k * K, i * M))
            else:
                left = wp.tile_load(x, shape=X, offset=(i * M, k * K))
            if wp.static(TY):
                right = wp.tile_load(y, shape=Y, offset=(j * N, k * K))
            else:
                right = wp.tile_load(y, shape=Y, offset=(k * K, j * N))
            if wp.static(TX and TY):
                wp.tile_matmul(wp.tile_transpose(left), wp.tile_transpose(right), s, precision=PRECISION)
            elif wp.static(TX):
                wp.tile_matmul(wp.tile_transpose(left), right, s, precision=PRECISION)
            elif wp.static(TY):
                wp.tile_matmul(left, wp.tile_transpose(right), s, precision=PRECISION)
            else:
                wp.tile_matmul(left, right, s, precision=PRECISION)
        wp.tile_store(out, s, offset=(i * M, j * N))

    return product


made: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten(request: pytest.FixtureRequest) -> Iterator[None]:
    if "device" in request.fixturenames:
        request.getfixturevalue("device")
    yield
    for kernel in made:
        forget(kernel)
    made.clear()


def binaries(kernel: Any) -> list[bytes]:
    """What the device was given, of all variants: LLVM IR where it is emulated."""
    variants = [kernel, *kernel._with_options.values()]
    loaded = [one for k in variants for p in k._programs.values() if p.device.is_cuda for one in p.loaded.values()]
    return [bytes(one.artifact.code.binary) for one in loaded]


def is_by_units(kernel: Any) -> bool:
    """Whether all code that the device was given has steps of matrix units; machine code is not looked at."""
    return all(text.startswith(b"\x7fELF") or b"mma." in text for text in binaries(kernel))


def numbers(x: wp.array) -> np.ndarray:
    """The elements in float64; NumPy has the bits of bfloat16."""
    found = x.numpy()
    if x.dtype == bf16:
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float64)


PRODUCTS = {
    "float64": (f64, f64, (16, 8, 16), (False, False), 32),
    "float64, turned x": (f64, f64, (16, 4, 24), (True, False), 64),
    "float64, turned y": (f64, f64, (8, 16, 16), (False, True), 32),
    "float64, both": (f64, f64, (16, 8, 8), (True, True), 32),
    "float16": (f16, f32, (16, 16, 8), (False, False), 32),
    "float16, turned x": (f16, f32, (32, 16, 16), (True, False), 64),
    "float16, turned y": (f16, f32, (16, 32, 24), (False, True), 32),
    "float16, in float16": (f16, f16, (16, 16, 16), (False, False), 32),
    "bfloat16": (bf16, f32, (16, 16, 16), (False, True), 32),
    "bfloat16, in bfloat16": (bf16, bf16, (32, 16, 8), (True, False), 64),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(device: str, name: str) -> None:
    t, total, shape, turned, block_dim = PRODUCTS[name]
    kernel = gemm(t, total, shape, turned)
    made.append(kernel)
    (m, k, n), steps = shape, 3
    rng = np.random.default_rng(4)
    x = rng.normal(size=(steps * k, 2 * m) if turned[0] else (2 * m, steps * k))
    y = rng.normal(size=(n, steps * k) if turned[1] else (steps * k, n))
    given = [wp.array(v, dtype=t, device=device) for v in (x, y)]
    out = wp.zeros((2 * m, n), dtype=total, device=device)
    wp.launch_tiled(kernel, dim=(2, 1), inputs=[*given, out, steps], block_dim=block_dim, device=device)
    x, y = map(numbers, given)
    x, y = x.T if turned[0] else x, y.T if turned[1] else y
    sums = 24 if total == f32 else BITS[total]
    bound = 2 * steps * k * 2.0 ** (1 - sums) * (np.abs(x) @ np.abs(y))
    assert (np.abs(numbers(out) - x @ y) <= bound).all()
    assert teams(kernel) == {block_dim}
    assert is_by_units(kernel)


def launched(kernel: Any, where: str, given: list[np.ndarray], block_dim: int, dtype: Any = f64) -> list[np.ndarray]:
    """The result, and the gradients of the other arrays."""
    arrays = [wp.array(x, dtype=dtype, device=where, requires_grad=True) for x in given]
    out = wp.zeros_like(arrays[0])
    with wp.Tape() as tape:
        wp.launch_tiled(kernel, dim=1, inputs=arrays, outputs=[out], block_dim=block_dim, device=where)
        weights = np.random.default_rng(1).normal(size=out.shape)
        tape.backward(grads={out: wp.array(weights, dtype=dtype, device=where)})
    return [numbers(x) for x in (out, *(x.grad for x in arrays))]


S = 8


@wp.kernel
def in_turn(a: wp.array2d(dtype=f64), b: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    """Sums that are held in loops, and those that can't be: which something else reads, or only some rounds add to."""
    x, y = wp.tile_load(a, shape=(S, S)), wp.tile_load(b, shape=(S, S))
    held = wp.tile_zeros(shape=(S, S), dtype=f64)
    other = wp.tile_zeros(shape=(S, S), dtype=f64)
    for _ in range(a.shape[0] // S):
        wp.tile_matmul(x, y, held)
        wp.tile_matmul(wp.tile_transpose(y), x, other)
        x = x * f64(0.5) + y
    seen = held
    for k in range(a.shape[0] // S):
        wp.tile_matmul(x, seen, seen, alpha=f64(0.125))
        y = y + seen * f64(0.25)
        if k > 0:
            wp.tile_matmul(x, y, other)
    twice = wp.tile_matmul(other, wp.tile_ones(shape=(S, S), dtype=f64))
    twice += twice
    wp.tile_matmul(y, y, y)
    wp.tile_store(out, held + y * f64(0.125) + twice * f64(0.125) + other)


def test_products_in_turn(device: str) -> None:
    given = list(np.random.default_rng(0).normal(size=(2, 3 * S, S)) * 0.5)
    made.append(in_turn)
    wanted = launched(in_turn, "cpu", given, 32)
    for got, right in zip(launched(in_turn, device, given, 32), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-10, atol=1e-10 * np.abs(right).max())
    assert teams(in_turn) == {32}
    assert is_by_units(in_turn)


H = 16


@wp.kernel
def of_halves(a: wp.array2d(dtype=f16), b: wp.array2d(dtype=f16), out: wp.array2d(dtype=f16)):
    x, y = wp.tile_load(a, shape=(H, H)), wp.tile_load(b, shape=(H, H))
    wp.tile_store(out, wp.tile_matmul(x, y, precision="tensor_cores"))


def test_gradients_of_products_of_halves(device: str) -> None:
    """The adjoints are products of the same kind: of the gradient, which has 16 bits as well, with a factor."""
    given = [x.astype(np.float16).astype(np.float64) for x in np.random.default_rng(0).normal(size=(2, H, H))]
    made.append(of_halves)
    x, y = given
    g = np.random.default_rng(1).normal(size=(H, H)).astype(np.float16).astype(np.float64)
    for got, (p, q) in zip(launched(of_halves, device, given, 32, f16), ((x, y), (g, y.T), (x.T, g)), strict=True):
        assert (np.abs(got - p @ q) <= 2.0**-10 * np.abs(p @ q) + H * 2.0**-21 * (np.abs(p) @ np.abs(q))).all()
    assert len(binaries(of_halves)) == 2
    assert is_by_units(of_halves)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (gemm(f16, f32, (16, 16, 16), (False, False), "default"), {}),
        (gemm(f32, f32, (16, 16, 16), (False, False), "tensor_cores"), {}),
        (gemm(f64, f64, (16, 16, 16), (False, False)), {"fuse_fp": False}),
        (gemm(f64, f64, (16, 16, 12), (False, False)), {}),
    ],
    ids=["default", "float32", "not fused", "not of whole steps"],
)
def test_products_that_stay_as_they_are(device: str, kernel: Any, options: dict[str, bool]) -> None:
    made.append(kernel)
    (x, y), out = (wp.zeros((16, 16), dtype=kernel.types[k].dtype, device=device) for k in (0, 1)), None
    out = wp.zeros((16, 16), dtype=kernel.types[2].dtype, device=device)
    wp.set_module_options(options, kernel.module) if options else None
    wp.launch_tiled(kernel, dim=(1, 1), inputs=[x, y, out, 1], block_dim=32, device=device)
    assert not any(b"mma." in text for text in binaries(kernel))


BANKS = {
    "float64": (f64, f64, (16, 8, 16), (False, False)),
    "float64, turned x": (f64, f64, (16, 16, 8), (True, False)),
    "float64, turned y": (f64, f64, (8, 32, 16), (False, True)),
    "float16": (f16, f32, (32, 16, 64), (False, False)),
    "float16, turned x": (f16, f32, (32, 64, 16), (True, False)),
    "float16, turned y": (f16, f32, (16, 32, 24), (False, True)),
}


@pytest.mark.parametrize("name", BANKS)
def test_lanes_ask_different_banks(name: str) -> None:
    """No load from shared memory waits for a bank; with elements in the order of their matrix, some do."""
    t, total, (m, k, n), turned = BANKS[name]
    kernel = gemm(t, total, (m, k, n), turned)
    signature = Signature(kernel.types, options=Options(cpu_block_dim=32, cpu_block_axis=2), sums=True)
    found, rng = [], np.random.default_rng(6)
    number = np.float16 if t == f16 else np.float64
    x, y = (rng.normal(size=shape).astype(number) for shape in ((m, k), (k, n)))
    given = [v.T.copy() if is_turned else v for v, is_turned in zip((x, y), turned, strict=True)]
    for ways in (distribute.find_swizzles, lambda *_: {}):
        with mock.patch.object(distribute, "find_swizzles", ways):
            f = optimised(kernel.source, signature, team=32, units=(t.__name__,))
        emulated = CudaKernel(f, LoweringOptions(), counting=True)
        out = np.zeros((m, n), np.float64 if total == f64 else np.float32)
        emulated.in_blocks([*given, out, 1], (1, 1), 1, 32)
        np.testing.assert_allclose(out, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-4)
        found.append(emulated.bank_conflicts)
    assert found[0] == 0 < found[1]
