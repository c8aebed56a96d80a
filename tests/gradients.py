"""Comparing compiled gradients with central differences of the compiled kernel, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import warp_like as wp
from warp_like import values


def check(kernel: Any, dim: Any, inputs: Sequence[Any], shape_out: Any, *, tolerance: float = 2e-6, step: float = 1e-6):
    """Compare the gradient of ``sum(w * out)`` for random ``w`` with central differences.

    ``inputs`` are NumPy arrays (float64 ones are differentiated) and numbers; the kernel's last parameter is ``out``.
    Returns the gradients.
    """
    rng = np.random.default_rng(7)
    weights = rng.normal(size=shape_out)

    def forward(arrays: Sequence[Any]) -> float:
        out = np.zeros(shape_out)
        wp.launch(kernel, dim=dim, inputs=[a.copy() if isinstance(a, np.ndarray) else a for a in arrays], outputs=[out])
        return float(np.sum(out * weights))

    bound = [_bind(a, kernel, i) for i, a in enumerate(inputs)]
    out = wp.zeros(shape_out, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=bound, outputs=[out])
    tape.backward(grads={out: wp.array(weights, dtype=wp.float64)})

    gradients = []
    for k, a in enumerate(inputs):
        if not (isinstance(a, np.ndarray) and a.dtype == np.float64):
            continue
        expected = np.zeros_like(a)
        for at in np.ndindex(a.shape):
            plus, minus = [[x.copy() if isinstance(x, np.ndarray) else x for x in inputs] for _ in range(2)]
            h = step * max(1.0, abs(a[at]))
            plus[k][at] += h
            minus[k][at] -= h
            expected[at] = (forward(plus) - forward(minus)) / (2 * h)
        got = bound[k].grad.numpy()
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)
        gradients.append(got)
    return gradients


def _bind(a: Any, kernel: Any, position: int) -> Any:
    if not isinstance(a, np.ndarray):
        return a
    if a.dtype != np.float64:
        return wp.array(a)
    t = kernel.parameters[position][1]
    return wp.array(a, dtype=values.from_ir(t.dtype), requires_grad=True)
