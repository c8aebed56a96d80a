"""Gradients of loops whose index is unsigned, which can't count down past zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed

BOUNDS = [(0, 0, 1), (0, 1, 1), (0, 5, 1), (2, 9, 3), (2, 8, 3), (1, 2, 7), (5, 2, 1), (7, 0, 2), (0, 40, 1)]


def loop(x: Any, y: Any, lo: Any, hi: Any, step: Any) -> Any:
    i = wp.tid()
    total = wp.float64(0.0)
    f = wp.float64(1.0)
    for j in range(lo, hi, step):
        t = x[i] * f
        total = total * wp.float64(0.5) + t * t * wp.float64(j)
        f *= wp.float64(1.25)
    y[i] = total


def kernels(name: str) -> list[Any]:
    bound = getattr(wp, name)
    arrays = dict.fromkeys("xy", wp.array(dtype=wp.float64))
    loop.__annotations__ = arrays | dict.fromkeys(("lo", "hi", "step"), bound)
    return [wp.kernel(loop), wp.kernel(loop, checkpoint_loops=True)]


def expected(x: float, lo: int, hi: int, step: int) -> tuple[float, float]:
    total, slope, f = 0.0, 0.0, 1.0
    for j in range(lo, hi, step):
        total = total * 0.5 + (x * f) ** 2 * j
        slope = slope * 0.5 + 2 * x * f * f * j
        f *= 1.25
    return total, slope


@pytest.mark.parametrize("name", crossed(["uint8", "uint16", "uint32", "uint64", "int32"], every=2))
def test_gradient(name: str) -> None:
    for kernel in kernels(name):
        for bounds in BOUNDS:
            x = wp.array([0.7], dtype=wp.float64, requires_grad=True)
            y = wp.zeros(1, dtype=wp.float64, requires_grad=True)
            with wp.Tape() as tape:
                wp.launch(kernel, dim=1, inputs=[x, y, *bounds])
            tape.backward(grads={y: wp.ones(1, dtype=wp.float64)})
            found = [y.numpy()[0], x.grad.numpy()[0]]
            np.testing.assert_allclose(found, expected(0.7, *bounds), rtol=1e-12, err_msg=f"{name} {bounds}")
