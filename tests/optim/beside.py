"""Optimizers of ours and of PyTorch side by side, on the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp


def numbers(a: wp.array) -> np.ndarray:
    """The numbers in an array, as float64."""
    return np.array(a.list() if a.dtype is wp.bfloat16 else a.numpy(), dtype=np.float64)


def compare(
    ours: Callable[[list[wp.array]], Any],
    theirs: Callable[[list[Any]], Any],
    dtypes: list[Any],
    shapes: list[tuple[int, ...]],
    steps: int,
    tolerance: float,
) -> Any:
    """Make steps with the same random gradients by both, and compare the parameters after each; return our optimizer.

    The numbers are rounded to the dtype first, so that both work on the same ones.
    """
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)

    def fresh() -> list[wp.array]:
        made = []
        for dtype, shape in zip(dtypes, shapes, strict=True):
            inner = np.shape(dtype()) if wp.types.type_is_composite(dtype) else ()
            made.append(wp.array(rng.standard_normal((*shape, *inner)), dtype=dtype))
        return made

    params = fresh()
    tensors = [torch.nn.Parameter(torch.tensor(numbers(p))) for p in params]
    mine, other = ours(params), theirs(tensors)
    for _ in range(steps):
        grads = fresh()
        mine.step(grads)
        for t, g in zip(tensors, grads, strict=True):
            t.grad = torch.tensor(numbers(g))
        other.step()
        for p, t in zip(params, tensors, strict=True):
            np.testing.assert_allclose(numbers(p), t.detach().numpy(), rtol=tolerance, atol=tolerance)
    assert mine.t == steps
    return mine
