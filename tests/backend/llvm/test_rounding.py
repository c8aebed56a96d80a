"""Vectors of floats converted to 16 bits: by the processor's instructions, and bit for bit as without them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.running import DEFAULT, Kernel
from tests.ir_builder import start, tid
from tests.pair_products import widened
from warp_like.backend.compile import to_asm
from warp_like.backend.target import Target
from warp_like.ir.core import Function
from warp_like.ir.types import Array, Scalar, bfloat16, float16, float32, float64
from warp_like.passes.spmd.widen import widen

AVX512 = Target(
    "cpu",
    "znver4",
    "+avx,+avx2,+fma,+f16c,+bmi2,+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512bf16",
    "x86_64-unknown-linux-gnu",
)


def converting(source: Scalar, to: Scalar) -> Function:
    f, b = start(x=Array(source, 1), y=Array(to, 1))
    i, (x, y) = tid(b), f.params
    b.store(y, [i], b.cast(b.load(x, [i]), to))
    b.yield_()
    return f


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of ``x`` as bfloat16, by the distances to both neighbours in float64."""
    low = x.view(np.uint32) >> 16
    with np.errstate(invalid="ignore"):
        exact, down, up = (v.astype(np.float64) for v in (x, widened(low), widened(low + 1)))
    up = np.where(
        np.isinf(up), np.copysign(2.0**128, up), up
    )  # what rounds to infinity lies half way to the next power
    with np.errstate(invalid="ignore"):
        less, more = np.abs(exact - down), np.abs(up - exact)
        goes_up = (more < less) | ((more == less) & (low & 1 == 1))
    made = np.where(np.isfinite(x), low + goes_up, low)
    return np.where(np.isnan(x), low | 0x40, made).astype(np.uint16)


def numbers() -> np.ndarray:
    """All kinds of bits; first vectors that have one denormal number each, or one NaN."""
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(8, 64)).astype(np.float32)
    odd = np.array([1, 0x80000001, 0x007FFFFF, 0x00008000, 0x00018000, 0x807F8000, 0x7FC12345, 0xFF800001], np.uint32)
    plain[np.arange(8), np.arange(8) * 9] = odd.view(np.float32)
    edges = [0, 1 << 31, 0x00800000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x3F808000, 0x3F818000]
    bits = np.append(np.array(edges, np.uint32), rng.integers(0, 1 << 32, 4001, dtype=np.uint32))
    return np.append(plain.ravel(), bits.view(np.float32))


@pytest.mark.parametrize("lanes", [1, 8, 16, 64])
def test_float32_to_bfloat16(lanes: int) -> None:
    x = numbers()
    y = np.zeros(len(x), np.uint16)
    f = converting(float32, bfloat16)
    Kernel(f if lanes == 1 else widen(f, lanes), DEFAULT.replace(contiguous=True))([x, y], (len(x),))
    np.testing.assert_array_equal(y, rounded(x))


def test_float64_to_bfloat16_rounds_once() -> None:
    halfway = widened(np.arange(1, 0x7F00, 7, dtype=np.uint16)).astype(np.float64) * (1.0 + 2.0**-8)
    wide = np.concatenate([halfway * s for s in (1.0, 1.0 + 2.0**-40, 1.0 - 2.0**-40, -1.0)])
    made = []
    for lanes in (1, 64):
        y = np.zeros(len(wide), np.uint16)
        f = converting(float64, bfloat16)
        Kernel(f if lanes == 1 else widen(f, lanes), DEFAULT.replace(contiguous=True))([wide, y], (len(wide),))
        made.append(y)
        nearest = np.abs(widened(y).astype(np.float64) - wide)
        for other in (y - 1, y + 1):
            assert (nearest <= np.abs(widened(other.astype(np.uint16)).astype(np.float64) - wide)).all()
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    ("source", "to", "instruction"),
    [
        (float32, bfloat16, "vcvtneps2bf16"),
        (float32, float16, "vcvtps2ph"),
        (float16, float32, "vcvtph2ps"),
    ],
    ids=str,
)
def test_the_instructions_are_used(source: Scalar, to: Scalar, instruction: str) -> None:
    text = to_asm(widen(converting(source, to), 16), AVX512, DEFAULT.replace(contiguous=True))
    assert instruction in text
    assert "trunc" not in text  # a function for one lane after the other, such as __truncsfhf2
