"""Additions to one array at all kinds of index in one kernel, plain or atomic, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed

KINDS = ("own", "next", "first", "given", "gathered", "reversed", "old")
SIZES = (1, 7, 15, 16, 17, 31, 33, 64, 100)


def make(dtype, kinds, masked):
    """A kernel with an addition of each of ``kinds`` to ``a``, in this order, and some to ``c``."""
    steps = tuple(KINDS.index(k) for k in kinds) + (-1,) * (3 - len(kinds))
    s0, s1, s2 = steps

    @wp.func
    def step(which: int, i: int, k: int, a: wp.array(dtype=dtype), p: wp.array(dtype=int), value: dtype):
        if which == 0:
            wp.atomic_add(a, i, value)
        if which == 1:
            wp.atomic_add(a, i + 1, value)
        if which == 2:
            wp.atomic_add(a, 0, value)
        if which == 3:
            wp.atomic_sub(a, k, value)
        if which == 4:
            wp.atomic_add(a, p[i], value)
        if which == 5:
            wp.atomic_add(a, a.shape[0] - 1 - i, value)

    @wp.kernel
    def combined(
        a: wp.array(dtype=dtype),
        c: wp.array(dtype=dtype),
        x: wp.array(dtype=dtype),
        p: wp.array(dtype=int),
        k: int,
        out: wp.array(dtype=dtype),
    ):
        i = wp.tid()
        if wp.static(not masked) or p[i] % 3 != 0:
            step(wp.static(s0), i, k, a, p, x[i])
            wp.atomic_add(c, 0, x[i])
            step(wp.static(s1), i, k, a, p, x[i])
            wp.atomic_add(c, i, x[i])
            step(wp.static(s2), i, k, a, p, x[i])
            if wp.static(s0 == 6):
                out[i] = wp.atomic_add(c, i + 1, x[i]) - wp.atomic_add(c, i + 1, x[i])

    return combined


def expected(kinds, masked, a, c, x, p, k):
    """What the additions make of ``a`` and ``c``."""
    i = np.arange(len(x))
    i = i[p % 3 != 0] if masked else i
    places = {"own": i, "next": i + 1, "first": 0 * i, "given": 0 * i + k, "gathered": p[i], "reversed": len(a) - 1 - i}
    a, c = a.copy(), c.copy()
    for kind in kinds:
        if kind == "old":
            np.add.at(c, i + 1, 2 * x[i])
        else:
            np.add.at(a, places[kind], -x[i] if kind == "given" else x[i])
    np.add.at(c, 0 * i, x[i])
    np.add.at(c, i, x[i])
    return a, c


CASES = [
    ("own", "first"),
    ("first", "own", "given"),
    ("next", "own", "first"),
    ("own", "gathered", "first"),
    ("gathered", "given", "reversed"),
    ("reversed", "own", "next"),
    ("old", "first", "own"),
]
DTYPES = ("int32", "float64", "int64", "float32", "float16", "uint32")


def check(dtype, kinds, width, masked, shape=()):
    """Run one combination at all sizes; numbers are small integers, so that every order gives the same sum."""
    wp.config.vector_width = width
    try:
        element = wp.types.vector(3, getattr(wp, dtype)) if shape else getattr(wp, dtype)
        kernel = make(element, kinds, masked)
        for n in SIZES:
            rng = np.random.default_rng(n)
            x = rng.integers(0, 3, (n, *shape)).astype(dtype)
            p = rng.integers(0, n, n).astype(np.int32)
            a, c = (rng.integers(0, 9, (n + 1, *shape)).astype(dtype) for _ in range(2))
            wanted = expected(kinds, masked, a, c, x, p, n // 2)
            out = np.zeros_like(x)
            wp.launch(kernel, n, [a, c, x, p, n // 2, out])
            np.testing.assert_array_equal(a, wanted[0], err_msg=f"a, {n} threads")
            np.testing.assert_array_equal(c, wanted[1], err_msg=f"c, {n} threads")
    finally:
        wp.config.vector_width = 0


@pytest.mark.parametrize(("number", "width"), crossed(range(len(CASES)), [0, 1, 8], every=2))
def test_additions_of_several_kinds(number, width):
    masked = bool((number + width) % 2)
    check(DTYPES[(number + width) % len(DTYPES)], CASES[number], width, masked)


@pytest.mark.parametrize("dtype", ["int32", "float64"])
@pytest.mark.parametrize("kinds", [("own", "first"), ("next", "own", "first")])
def test_additions_of_vectors(dtype, kinds):
    check(dtype, kinds, 0, False, (3,))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_additions_that_come_in_several_chunks(dtype):
    """Enough threads for several OS threads, each with a copy or a range of its own."""
    n = 200_000
    kernel = make(getattr(wp, dtype), ("own", "first", "gathered"), False)
    rng = np.random.default_rng(1)
    x, p = rng.integers(0, 3, n).astype(dtype), rng.integers(0, n, n).astype(np.int32)
    a, c, out = np.zeros(n + 1, dtype), np.zeros(n + 1, dtype), np.zeros(n, dtype)
    wanted = expected(("own", "first", "gathered"), False, a, c, x, p, 5)
    wp.launch(kernel, n, [a, c, x, p, 5, out])
    np.testing.assert_array_equal(a, wanted[0])
    np.testing.assert_array_equal(c, wanted[1])


@wp.kernel
def rows(m: wp.array2d(dtype=float), column: wp.array(dtype=float), x: wp.array2d(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(m, i, j, x[i, j])
    wp.atomic_add(m[i], 0, x[i, j])
    wp.atomic_add(m, 0, j, x[i, j])
    wp.atomic_add(column, i, x[i, j])
    wp.atomic_add(column, 0, 1.0)


@pytest.mark.parametrize("width", [0, 1, 8])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (5, 16), (8, 33), (17, 64)])
def test_additions_in_two_dimensions(shape, width):
    wp.config.vector_width = width
    x = np.random.default_rng(2).integers(0, 4, shape).astype(np.float32)
    m, column = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
    wp.launch(rows, shape, [m, column, x])
    wp.config.vector_width = 0
    wanted = x.copy()
    wanted[:, 0] += x.sum(1)
    wanted[0] += x.sum(0)
    np.testing.assert_array_equal(m, wanted)
    wanted = x.sum(1)
    wanted[0] += x.size
    np.testing.assert_array_equal(column, wanted)


@wp.kernel
def products(a: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    out[i] = a[i] * a[0]


@wp.kernel
def neighbours(a: wp.array(dtype=wp.float64), k: int, out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    out[i] = a[i] * a[0] + a[i + 1] * a[k]


@pytest.mark.parametrize("width", [0, 1, 8])
@pytest.mark.parametrize("n", [1, 16, 37, 1000])
def test_gradients_of_elements_that_all_threads_read(n, width):
    wp.config.vector_width = width
    x, k = np.arange(n + 1) + 1.0, n // 3
    wanted = np.zeros(n + 1)
    wanted[:n] += x[0]
    wanted[0] += x[:n].sum()
    for kernel, given in ((products, []), (neighbours, [k])):
        a = wp.array(x, dtype=wp.float64, requires_grad=True)
        out = wp.zeros(n, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, n, [a, *given, out])
        tape.backward(grads={out: wp.ones(n, dtype=wp.float64)})
        if given:
            wanted[1:] += x[k]
            wanted[k] += x[1:].sum()
        np.testing.assert_array_equal(a.grad.numpy(), wanted)
    wp.config.vector_width = 0


@wp.func_native("return counts[0];")
def first_natively(counts: wp.array(dtype=int)) -> int: ...


@wp.kernel
def also_native(x: wp.array(dtype=int), counts: wp.array(dtype=int), seen: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(counts, x[i], 1)
    seen[i] = first_natively(counts)


def test_native_code_sees_the_array_and_no_copy_of_it():
    n = 300_000
    wp.config.num_threads = 4
    x, seen = np.arange(n, dtype=np.int32) % 5 + 1, np.zeros(n, np.int32)
    counts = np.full(6, 50, np.int32)
    wp.launch(also_native, n, [x, counts, seen])
    wp.config.num_threads = 0
    assert counts.tolist() == [50, *[50 + n // 5] * 5]
    assert set(seen.tolist()) == {50}
