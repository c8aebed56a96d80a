"""Arrays that a kernel adds to at the thread's own index, and that a launch gives as another argument, too.

Where both keep to the thread's own elements, plain additions are as good as atomic ones, if each thread's accesses keep
their order. Else the launch has to be atomic. The interpreter, thread after thread, says what comes out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from warp_like.analysis.memory import analyse
from warp_like.compiler.artifact import Effects
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.spmd.filters import written_after_looking_ahead
from warp_like.runtime.cpu.programs import _are_compared

ATOMIC, PLAIN = (True, False, False), (True, False, True)
PERIOD = 24
"""The threads that the interpreter runs; what larger grids compute repeats."""

RNG = np.random.default_rng(11)


@functools.cache
def kernels(t: Any) -> dict[str, Any]:
    """Kernels on arrays of numbers ``t``."""

    @wp.kernel
    def between(x: wp.array(dtype=t), out: wp.array(dtype=t), last: wp.array(dtype=t)):
        """Each read has to see the additions before it and none after it."""
        i = wp.tid()
        before = x[i]
        out[i] += before
        first = x[i]
        out[i] -= last[i]
        out[i] += x[i] * x[i] - first
        last[i] = x[i] - before

    @wp.kernel
    def masked(x: wp.array(dtype=t), out: wp.array(dtype=t), last: wp.array(dtype=t)):
        """Lanes that take no part, and stores through the other name."""
        i = wp.tid()
        if x[i] > t(0):
            out[i] += x[i]
            if i % 3 == 0:
                x[i] = out[i] + x[i]
        out[i] += x[i]
        last[i] = out[i]

    @wp.kernel
    def rows(x: wp.array2d(dtype=t), out: wp.array2d(dtype=t), last: wp.array2d(dtype=t)):
        """Iterations read what earlier ones have added to."""
        i = wp.tid()
        for k in range(1, out.shape[1]):
            out[i, k] += x[i, k - 1] - last[i, 0]
            out[i, 0] += x[i, k] + x[i, 0]
        last[i, 0] = x[i, 0]

    @wp.kernel
    def plane(x: wp.array2d(dtype=t), out: wp.array2d(dtype=t), last: wp.array2d(dtype=t)):
        i, j = wp.tid()
        out[i, j] += x[i, j]
        out[i, j] += x[i, j] + last[i, j]

    return {k.key: k for k in (between, masked, rows, plane)}


@wp.kernel
def vectors(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] += x[i]
    out[i] -= 3.0 * x[i]


@wp.kernel
def bits(x: wp.array(dtype=int), out: wp.array(dtype=float), last: wp.array(dtype=int)):
    """The same memory as other numbers."""
    i = wp.tid()
    out[i] += 1.5
    first = x[i]
    out[i] += 0.25
    last[i] = x[i] - first


@wp.kernel
def found(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    """A loop that looks ahead: what it adds to is what later iterations look at."""
    i = wp.tid()
    for k in range(x.shape[1]):
        d = x[i, k] - 1.0
        e = y[i, k] + 0.5
        f = d * e
        if d * d + e * e + f * f < 6.0:
            out[i, k] += d
            out[i, out.shape[1] - 1] += e


@wp.kernel
def counting(x: wp.array(dtype=float), out: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    out[i] += x[i]
    total[i // 2] += 1.0


@wp.kernel
def beside(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    """Reads elements of other threads."""
    i = wp.tid()
    out[i] += wp.min(x[(i + 1) % x.shape[0]], 0.0) + 1.0


@pytest.fixture(autouse=True)
def as_many_threads_as_before() -> Iterator[None]:
    yield
    wp.config.num_threads = 0


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(dtype)


def check(kernel: Any, dim: Any, args: list[np.ndarray], expected: Any) -> None:
    """See which variant launches take, and compare what they leave with the interpreter."""
    wanted = {id(a): a[:PERIOD].copy() for a in args}
    first, rest = (dim, ()) if isinstance(dim, int) else (dim[0], dim[1:])
    f = optimised(kernel.source, Signature(kernel.types))
    run(f, [wanted[id(a)] for a in args], (min(first, PERIOD), *rest))
    for wp.config.num_threads in (1, 2, 7):
        again = {id(a): a.copy() for a in args}
        given = [again[id(a)] for a in args]
        wp.launch(kernel, dim, given)
        assert kernel.fast.required_variant(dim, given) == expected
        for k, a in again.items():
            np.testing.assert_array_equal(a, np.resize(wanted[k], a.shape) if a.size else a)


@pytest.mark.parametrize(("dtype", "width"), [("f", 0), ("f", 1), ("f", 16), ("d", 0), ("i", 16), ("l", 0)])
@pytest.mark.parametrize("name", ["between", "masked"])
def test_the_array_that_is_added_to_is_an_input(name: str, dtype: str, width: int) -> None:
    t = {"f": wp.float32, "d": wp.float64, "i": wp.int32, "l": wp.int64}[dtype]
    kernel = kernels(t)[name].with_options(vector_width=width)
    for n in (0, 1, 7, PERIOD, 900 * PERIOD):
        a, b = (np.resize(numbers((min(n, PERIOD),), dtype), n) for _ in range(2))
        check(kernel, n, [a, a, b], PLAIN)
        check(kernel, n, [a.copy(), a, a], PLAIN)
        check(kernel, n, [a, a, a], PLAIN)


@pytest.mark.parametrize("width", [0, 1, 16])
@pytest.mark.parametrize("name", ["rows", "plane"])
def test_rows_of_the_array_are_inputs(name: str, width: int) -> None:
    kernel = kernels(wp.int32)[name].with_options(vector_width=width)
    for n, m in ((1, 1), (PERIOD, 5), (60 * PERIOD, 37)):
        a, b = (np.resize(numbers((min(n, PERIOD), m), "i"), (n, m)) for _ in range(2))
        dim = n if name == "rows" else (n, m)
        check(kernel, dim, [a, a, b], PLAIN)
        check(kernel, dim, [a, a, a], PLAIN)


def test_vectors_and_their_bits() -> None:
    for n in (1, PERIOD, 900 * PERIOD):
        a = np.resize(numbers((min(n, PERIOD), 3), "f"), (n, 3))
        check(vectors, n, [a, a], PLAIN)
        start = np.resize(numbers((min(n, PERIOD),), "f"), n)
        for wp.config.num_threads in (1, 2, 7):
            a, b = start.copy(), np.zeros(n, "i")
            assert required(bits, n, [a.view("i"), a, b]) == PLAIN
            first, second = start + np.float32(1.5), start + np.float32(1.75)
            np.testing.assert_array_equal(b, second.view("i") - first.view("i"))
            np.testing.assert_array_equal(a, second)


def test_other_overlaps_are_atomic() -> None:
    between, rows = kernels(wp.float32)["between"], kernels(wp.int32)["rows"]
    wp.config.num_threads = 2
    n = 5000
    a, b = np.zeros(2 * n, "f"), np.zeros(n, "f")
    for x in (a[1 : n + 1], a[: n - 1], a[: n + 1]):  # begin elsewhere, or have other extents
        assert required(between, n - 1, [x, a[:n], b]) == ATOMIC
    assert required(between, n, [a[n:], a[:n], b]) == PLAIN
    c = np.zeros((n, 4), "i")
    assert required(rows, n, [c.reshape(2 * n, 2)[:n], c, np.zeros((n, 1), "i")]) == ATOMIC
    assert required(rows, n // 2, [c, c, c[: n // 2]]) == ATOMIC
    x = numbers((n,), "f")
    assert required(counting, n, [x, x, np.zeros(n, "f")]) == PLAIN
    assert required(counting, n, [x, np.zeros(n, "f"), x]) == ATOMIC  # each OS thread would add to a copy
    assert required(counting, n, [np.zeros(n, "f"), x, x]) == ATOMIC


def required(kernel: Any, dim: int, args: list[np.ndarray]) -> Any:
    wp.launch(kernel, dim, args)
    return kernel.fast.required_variant(dim, args)


def test_no_addition_is_lost_beside_elements_of_other_threads() -> None:
    for wp.config.num_threads in (1, 2, 7):
        x = np.ones(50_001, "f")
        assert required(beside, len(x), [x, x]) == ATOMIC
        np.testing.assert_array_equal(x, 2)


@pytest.mark.parametrize("width", [0, 1])
def test_loops_that_look_ahead_need_the_array_for_themselves(width: int) -> None:
    f = optimised(found.source, Signature(found.types))
    assert written_after_looking_ahead(analyse(f)) == (2,)
    kernel = found.with_options(vector_width=width)
    for n, m in ((1, 1), (PERIOD, 40), (40 * PERIOD, 23)):
        a, b = (np.resize(numbers((min(n, PERIOD), m), "f"), (n, m)) for _ in range(2))
        check(kernel, n, [a.copy(), b, a], PLAIN)
        check(kernel, n, [a, b, a], ATOMIC)
        check(kernel, n, [a, a, a], ATOMIC)


def test_the_first_variant_has_to_know_what_others_rely_on() -> None:
    """Launches compare arrays by what the first variant's code does."""
    known = Effects(thread_private=(1,), own=(0, 1), sums=(2,), reduced=(3,), apart=(4,))
    assert _are_compared(known, known)
    assert _are_compared(known.replace(own=(0, 1, 5), sums=()), known)
    for change in ({"own": (1,)}, {"thread_private": (1, 5)}, {"sums": (2, 5)}, {"reduced": (5,)}, {"apart": (5,)}):
        assert not _are_compared(known.replace(**change), known)
    assert _are_compared(known.replace(own=(), thread_private=()), known)
