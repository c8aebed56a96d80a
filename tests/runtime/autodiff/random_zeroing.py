"""Random tapes over large arrays: ``backward(zero=True)`` gives what ``zero()`` and ``backward()`` give, bit by bit.

Launches are over parts of arrays and beyond them, and arrays are parts of others or share a gradient, so that launches
set gradients to zero on their way, or may not. All kernels are linear with small whole factors: sums are exact in any
order. Before the pass, gradients are full of NaN.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import warp_like as wp
from warp_like import _native as native

LARGE = 1 << 15
"""Elements of float32 of the smallest gradient that launches set to zero."""


@wp.kernel
def at_itself(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < wp.min(x.shape[0], y.shape[0]):
        y[i] = 2.0 * x[i]


@wp.kernel
def around(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < 3 or i + 5 >= x.shape[0] or i >= y.shape[0]:
        return
    y[i] = x[i - 3] - x[i + 5]


@wp.kernel
def before(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i >= 70 and i < wp.min(x.shape[0], y.shape[0]):
        wp.atomic_add(y, i, x[i - 70] + x[i - 2])


@wp.kernel
def ahead(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i + 200 < x.shape[0] and i < y.shape[0]:
        y[i] = x[i + 1] + x[i + 200]


@wp.kernel
def late(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """Only the last threads take long, so that workers come late."""
    i = wp.tid()
    if i + 1 < x.shape[0] and i < y.shape[0]:
        rounds = wp.where(i < LARGE // 2, 1, 100)
        sign = 1.0
        for _ in range(rounds):
            sign = -sign
        y[i] = sign * x[i] + x[i + 1]


@wp.kernel
def gathered(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < y.shape[0]:
        y[i] = x[(i * 17) % x.shape[0]]


KERNELS = (at_itself, around, before, ahead, late, gathered)


def check(seed: int) -> None:
    """Compare the gradients of one tape."""
    r = random.Random(seed)
    arrays = [_array(r.choice([LARGE - 1, LARGE, LARGE + r.randrange(5000), 2 * LARGE, 50])) for _ in range(3)]
    for _ in range(r.randrange(3)):
        whole = r.choice(arrays[:3])
        cut = r.randrange(1, 40)
        if r.random() < 0.3:
            arrays.append(_array(whole.shape[0]))
            arrays[-1].grad = whole.grad
        else:
            arrays.append(whole[cut:] if r.random() < 0.5 else whole[:-cut])
    launches = [_launch(r, arrays) for _ in range(r.randrange(1, 5))]
    launches = [(k, dim, x, y) for k, dim, x, y in launches if not (_overlap(x, y) or _overlap(x.grad, y.grad))]
    starts = {y: _numbers(y.shape[0], seed) for _, _, _, y in launches if r.random() < 0.8}
    if not starts:
        return
    native.set_num_threads(r.choice([1, 2, 7, 64]))
    try:
        with wp.Tape() as tape:
            for kernel, dim, x, y in launches:
                wp.launch(kernel, dim, inputs=[x], outputs=[y])
        used = [a for _, _, x, y in launches for a in (x, y)]
        tape.zero()
        tape.backward(grads=starts)
        expected = [a.grad.numpy().copy() for a in used]
        for _ in range(2):
            for a in used:
                a.grad.fill_(np.nan)
            tape.backward(grads=starts, zero=True)
            for a, e in zip(used, expected, strict=True):
                np.testing.assert_array_equal(a.grad.numpy(), e, err_msg=f"seed {seed}")
    finally:
        native.set_num_threads(0)


def _launch(r: random.Random, arrays: list[Any]) -> tuple[Any, int, Any, Any]:
    x, y = r.sample(arrays, 2)
    n = r.choice([x, y]).shape[0]
    return r.choice(KERNELS), r.choice([n, n, n // 3, n + 300, 1]), x, y


def _numbers(n: int, seed: int) -> Any:
    return wp.array(np.random.default_rng(seed).integers(-2, 3, n).astype(np.float32))


def _array(n: int) -> Any:
    return wp.zeros(n, dtype=float, requires_grad=True)


def _overlap(a: Any, b: Any) -> bool:
    return bool(a.ptr < b.ptr + b.size * 4 and b.ptr < a.ptr + a.size * 4)
