"""Products of pairs of bfloat16: the processor's instruction, and what stands for it elsewhere, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import pair_products
from tests.backend import running
from tests.ir_builder import start, tid
from warp_like.backend.target import Target, host_target
from warp_like.builtins import reference
from warp_like.ir.core import Function
from warp_like.ir.types import Array, float32, uint32
from warp_like.passes.spmd.widen import widen

HALVES = np.array(
    [0, 0x8000, 1, 0x807F, 0x0080, 0x3F80, 0xBF80, 0x3FC1, 0x1F93, 0x5F35, 0x7F7F, 0x7F80, 0xFFC0], np.uint16
)
"""Zeros, denormal numbers, the least normal one, small, large and infinite ones, NaN."""


def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Totals, and pairs as bits: all kinds of numbers beside each other, then random ones whose sums round."""
    totals = np.array([0.0, -0.0, 1e-40, 2.0**-126, -1.5, 3.4e38, np.inf, np.nan], np.float32)
    kinds = np.array(list(itertools.product(range(len(HALVES)), repeat=2)))
    x, y = HALVES[kinds], HALVES[kinds[::-1] * 5 % len(HALVES)]
    t = totals[np.arange(len(kinds)) % len(totals)]
    rng = np.random.default_rng(0)
    scale = np.float32(2.0) ** rng.choice([-70, -63, 0, 63], (1500, 1))
    more = [pair_products.rounded(rng.normal(size=(1500, 2)) * scale) for _ in range(2)]
    total = (rng.normal(size=1500) * scale[:, 0] ** 2).astype(np.float32)
    return np.append(t, total), np.vstack([x, more[0]]), np.vstack([y, more[1]])


def packed(pairs: np.ndarray) -> np.ndarray:
    return pairs[:, 0] | (pairs[:, 1].astype(np.uint32) << 16)


def adding() -> Function:
    f, b = start(t=Array(float32, 1), x=Array(uint32, 1), y=Array(uint32, 1))
    i, (t, x, y) = tid(b), f.params
    b.store(t, [i], b.apply("_dot_of_pairs", *(b.load(a, [i]) for a in (t, x, y))))
    b.yield_()
    return f


def without_instruction() -> Target:
    features = host_target().features.replace("+avx512bf16", "-avx512bf16")
    return host_target().replace(features=features)


@pytest.mark.parametrize("lanes", [1, 2, 8, 64])
@pytest.mark.parametrize("target", [host_target, without_instruction])
def test_sums_of_pairs_bit_for_bit(lanes: int, target: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "host_target", target)
    totals, x, y = numbers()
    wanted = pair_products.dot_of_pairs(totals, x, y)
    f = adding() if lanes == 1 else widen(adding(), lanes)
    got = totals.copy()
    running.Kernel(f, running.DEFAULT.replace(contiguous=True))([got, packed(x), packed(y)], (len(got),))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(got.view(np.uint32)[known], wanted.view(np.uint32)[known])
    told = reference.dot_of_pairs(totals, packed(x), packed(y))
    np.testing.assert_array_equal(told.view(np.uint32)[known], wanted.view(np.uint32)[known])


def test_the_instruction_is_used() -> None:
    from warp_like.backend.compile import to_asm

    target = host_target()
    if "avx512bf16" not in target.feature_set:
        target = target.replace(name="znver4", features="") if target.triple.startswith("x86_64") else None
    if target is None:
        pytest.skip("names x86's instructions")
    text = to_asm(
        widen(adding(), 16), target.replace(features=f"{target.features},+avx512bf16,+avx512vl"), running.DEFAULT
    )
    assert "vdpbf16ps" in text
