"""Additions of lanes to neighbouring elements, which meet memory together."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import warp_like as wp

OFFSETS = ((0, 1), (2, 1, 3), (0, 4), (1, 3, 0), (1, 0, 0, 2), (0, 9))


def spreading(offsets: tuple[int, ...], dtype: Any) -> Any:
    """Return a kernel that adds to elements at ``offsets`` behind the thread's."""
    a, b, c, d = [*offsets, *offsets[:1] * 4][:4]
    count = len(offsets)

    @wp.kernel(module="unique")
    def spread(x: wp.array(dtype=dtype), out: wp.array(dtype=dtype)):
        i = wp.tid()
        wp.atomic_add(out, i + a, x[i])
        wp.atomic_add(out, i + b, x[i] * dtype(3))
        if count > 2:
            wp.atomic_add(out, i + c, dtype(7) - x[i])
        if count > 3:
            wp.atomic_add(out, i + d, dtype(5) * x[i])

    return spread


@wp.kernel
def spread_from(x: wp.array(dtype=float), first: int, out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, i + first, x[i])
    wp.atomic_add(out, i + first + 1, x[i] * 3.0)


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.int32])
def test_each_element_gets_what_all_threads_add(offsets: tuple[int, ...], dtype: Any) -> None:
    kernel = spreading(offsets, dtype)
    for n in (0, 1, 33, 5000):
        x = np.random.default_rng(n).integers(-8, 8, n)  # whole numbers, whose sums are exact
        out = wp.full(n + 24, 2, dtype=dtype)
        wp.launch(kernel, dim=n, inputs=[wp.array(x, dtype=dtype)], outputs=[out])
        expected = np.full(n + 24, 2)
        parts = (x, 3 * x, 7 - x, 5 * x)
        for offset, part in zip(offsets, parts, strict=False):
            expected[offset : offset + n] += part
        np.testing.assert_array_equal(out.numpy(), expected)


@wp.kernel
def smooth(u: wp.array2d(dtype=float), x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    k = j + 1
    out[i, k] = u[i, k - 1] * u[i, k + 1] + u[i + 1, k] * x[k] - u[i, k] * u[i, k] + x[k + 1] * x[k - 1]


def test_gradients_of_stencils() -> None:
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 3), (5, 70), (3, 1000)):
        u, x = rng.normal(size=(rows + 1, columns)), rng.normal(size=columns)
        seed = rng.normal(size=(rows, columns))
        arrays = [wp.array(v, dtype=float, requires_grad=True) for v in (u, x)]
        out = wp.zeros((rows, columns), dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(smooth, dim=(rows, columns - 2), inputs=arrays, outputs=[out])
        tape.backward(grads={out: wp.array(seed, dtype=float)})
        g, adj_u, adj_x = seed[:, 1:-1], np.zeros_like(u), np.zeros_like(x)
        adj_u[:-1, :-2] += g * u[:-1, 2:]
        adj_u[:-1, 2:] += g * u[:-1, :-2]
        adj_u[:-1, 1:-1] -= 2 * g * u[:-1, 1:-1]
        adj_u[1:, 1:-1] += g * x[1:-1]
        adj_x[1:-1] += (g * u[1:, 1:-1]).sum(axis=0)
        adj_x[2:] += g.sum(axis=0) * x[:-2]
        adj_x[:-2] += g.sum(axis=0) * x[2:]
        for a, expected in zip(arrays, (adj_u, adj_x), strict=True):
            np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-4, atol=1e-4)


@wp.kernel
def looks_between(x: wp.array(dtype=float), out: wp.array(dtype=float), seen: wp.array(dtype=float)):
    i = 2 * wp.tid()
    wp.atomic_add(out, i, x[i])
    seen[i] = out[i]
    old = wp.atomic_add(out, i + 1, x[i + 1])
    seen[i + 1] = old


@wp.kernel
def under_conditions(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        wp.atomic_add(out, i, x[i])
        wp.atomic_add(out, i + 1, 2.0 * x[i])
    for k in range(3):
        wp.atomic_add(out, i + k, 1.0)
        wp.atomic_add(out, i + k + 1, 3.0)


@wp.kernel
def copies_and_adds(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 2 * i, 4.0)
    wp.atomic_add(out, 2 * i + 1, 1.0 + x[2 * i])


def test_what_others_see_stays_as_it_is() -> None:
    x = np.random.default_rng(1).integers(-8, 8, 500).astype(np.float32)
    out, seen = wp.zeros(500, dtype=float), wp.zeros(500, dtype=float)
    wp.launch(looks_between, dim=250, inputs=[wp.array(x), out], outputs=[seen])
    np.testing.assert_array_equal(out.numpy(), x)
    np.testing.assert_array_equal(seen.numpy(), np.where(np.arange(500) % 2, 0, x))

    out = wp.zeros(503, dtype=float)
    wp.launch(under_conditions, dim=500, inputs=[wp.array(x)], outputs=[out])
    expected, taken = np.zeros(503), np.where(x > 0, x, 0)
    expected[:500] += taken
    expected[1:501] += 2 * taken
    for k in range(3):
        expected[k : k + 500] += 1
        expected[k + 1 : k + 501] += 3
    np.testing.assert_array_equal(out.numpy(), expected)

    both = wp.array(x)  # read and added to by two parameters: each thread sees what it has added
    wp.launch(copies_and_adds, dim=250, inputs=[both, both])
    np.testing.assert_array_equal(both.numpy(), x + np.where(np.arange(500) % 2, 1 + np.repeat(x[::2] + 4, 2), 4))


def vectors_stored(kernel: Any) -> int:
    """How many vectors of all lanes the code for whole vectors stores."""
    text = kernel.inspect("llvm")
    part = text[text.index("\nvector:") : text.index("\nremainder:")]
    return len(re.findall(r"store <(?:8|16|32|64) x float>", part))


def test_neighbours_are_stored_once_where_no_index_wraps() -> None:
    assert vectors_stored(spreading((1, 0, 2), wp.float32)) == 1
    assert vectors_stored(spreading((0, 9), wp.float32)) == 2  # too far apart
    assert vectors_stored(spread_from) == 2
    x, out = wp.ones(100, dtype=float), wp.zeros(102, dtype=float)
    wp.launch(spread_from, dim=100, inputs=[x, 1], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), [0, 1, *[4] * 99, 3])
