"""Loops that look ahead past what they write: only in launches whose arrays do not overlap, which launches find out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.passes.spmd.filters import find_filters, written_after_looking_ahead

FLOATS, NUMBERS = wp.array(dtype=float), wp.array(dtype=int)
ONE = {"vector_width": 1}
"""One thread at a time, whose loops are those that look ahead."""


@wp.kernel
def collect(x: FLOATS, y: FLOATS, r: float, found: FLOATS, count: NUMBERS):
    """Neighbours of ``x[i]``, in order, from ``found[i]`` on: what is written may be what is looked at next."""
    i = wp.tid()
    n = 0
    for k in range(x.shape[0]):
        d = x[k] - x[i]
        e = y[k] - y[i]
        f = d * e
        if d * d + e * e + f * f < r:
            if n < 3:
                found[i + n] = x[k] + 0.25
            n += 1
    count[i] = n


@wp.kernel
def moving(x: FLOATS, y: FLOATS, r: float, found: FLOATS, count: NUMBERS):
    i = wp.tid()
    for k in range(x.shape[0]):
        d = x[k] - x[i]
        e = y[k] - y[i]
        f = d * e
        if d * d + e * e + f * f < r:
            found[i] = d
            x[k] = e


@wp.kernel
def slots(x: FLOATS, y: FLOATS, r: float, found: FLOATS, count: NUMBERS):
    """Atomics hand out the places."""
    i = wp.tid()
    for k in range(x.shape[0]):
        d = x[k] - x[i]
        e = y[k] - y[i]
        f = d * e
        if d * d + e * e + f * f < r:
            place = wp.atomic_add(count, 0, 1)
            if place < found.shape[0]:
                found[place] = x[k]


def collected(x: np.ndarray, y: np.ndarray, r: float, found: np.ndarray, count: np.ndarray, dim: int) -> None:
    """The same in NumPy, thread after thread."""
    r = np.float32(r)
    for i in range(dim):
        n = 0
        for k in range(len(x)):
            d, e = x[k] - x[i], y[k] - y[i]
            f = d * e
            if d * d + e * e + f * f < r:
                if n < 3:
                    found[i + n] = x[k] + np.float32(0.25)
                n += 1
        count[i] = n


@pytest.mark.parametrize(("kernel", "expected"), [(collect, (3,)), (moving, ()), (slots, (3, 4))], ids=lambda k: str(k))
def test_which_arrays_must_overlap_no_other(kernel: Any, expected: tuple[int, ...]) -> None:
    f = optimised(kernel.source, Signature(kernel.types))
    assert written_after_looking_ahead(analyse(f)) == expected
    assert [len(find_filters(f, apart)) for apart in ((), expected)] == [0, bool(expected)]
    assert any(isinstance(o, ops.For) for o in f.body.walk())


def numbers(n: int, seed: int) -> np.ndarray:
    """Multiples of a half, so that sums of their products are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, n).astype(np.float32) / 2


@pytest.mark.parametrize("n", [1, 5, 40, 700])
def test_found_in_order_where_arrays_are_apart(n: int) -> None:
    x, y = numbers(n, 1), numbers(n, 2)
    dim = min(n, 6)
    found, count = np.zeros(n + 3, np.float32), np.zeros(n, np.int32)
    given = [wp.array(x), wp.array(y), 4.0, wp.array(found), wp.array(count)]
    wp.launch(collect, dim, given, options=ONE)
    assert collect.with_options(ONE).fast.required_variant(dim, given) == (True, False, True)
    collected(x, y, 4.0, found, count, dim)
    np.testing.assert_array_equal(given[3].numpy(), found)
    np.testing.assert_array_equal(given[4].numpy(), count)


@pytest.mark.parametrize("at", [0, 1, 5, 17, 39])
@pytest.mark.parametrize("of", ["x", "y"])
def test_what_is_written_is_looked_at_by_the_next_iterations(of: str, at: int) -> None:
    """``found`` begins at an element of an array that the loop reads."""
    sides = []
    for _ in range(2):
        x, y, count = np.concatenate([numbers(40, 3), np.zeros(9, np.float32)]), numbers(49, 4), np.zeros(6, np.int32)
        sides.append((x, y, {"x": x, "y": y}[of][at : at + 9], count))
    (x, y, found, count), expected = sides
    given = [wp.array(a, copy=False) for a in (x[:40], y[:40], found, count)]
    given.insert(2, 6.0)
    wp.launch(collect, 6, given, options=ONE)
    assert collect.with_options(ONE).fast.required_variant(6, given) == (True, False, False)
    collected(expected[0][:40], expected[1][:40], 6.0, *expected[2:], 6)
    for a, b in zip((x, y, count), (expected[0], expected[1], expected[3]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_slots_are_those_that_atomics_give() -> None:
    n = 200
    x, y = numbers(n, 5), numbers(n, 6)
    given = [wp.array(x), wp.array(y), 4.0, wp.zeros(n * n, dtype=float), wp.zeros(1, dtype=int)]
    wp.launch(slots, n, given, options=ONE)
    d, e = x[:, None] - x, y[:, None] - y
    near = d * d + e * e + (d * e) ** 2 < 4
    (count,) = given[4].numpy()
    assert count == near.sum()
    np.testing.assert_array_equal(np.sort(given[3].numpy()[:count]), np.sort(np.broadcast_to(x, near.shape)[near]))
