"""Loops over arrays, vectors, matrices, tuples and lists; reversed ranges; loops unrolled for ``wp.static``."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define, everywhere
from tests.gradients import check
from warp_like.frontend.closure import capture
from warp_like.frontend.source import parse

RNG = np.random.default_rng(5)
vec20 = wp.types.vector(length=20, dtype=wp.float64)
POWERS = [1, 2, 5]
PAIRS = ((1, 0.5), (2, 0.25))
TABLE = [[1.0, 2.0], [3.0], [], [4.0]]
SHAPE = wp.vec2(2.0, 3.0)


@wp.func
def double(x: float):
    return x * 2.0


@wp.func
def halve(x: float):
    return x / 2.0


STEPS = (double, halve, double)


@wp.kernel
def over_values(a: wp.array2d(dtype=float), v: wp.vec3, m: wp.mat22, out: wp.array(dtype=float)):
    for row in a:
        for x in row:
            out[0] = out[0] + x
    for x in v:
        out[1] = out[1] * 10.0 + x
    for row in m:
        out[2] = out[2] * 10.0 + row[1]
        for x in row:
            if x == 3.0:
                break
            out[3] = out[3] + x
    for x in a[1:, 0]:
        if x > 4.0:
            continue
        out[4] = out[4] + x


def test_elements_components_and_rows():
    a = RNG.integers(0, 9, (3, 4)).astype(np.float32)
    *_, out = everywhere(
        over_values, 1, a, wp.vec3(1.0, 2.0, 3.0), wp.mat22(1.0, 2.0, 3.0, 4.0), np.zeros(5, np.float32)
    )
    column = a[1:, 0]
    np.testing.assert_array_equal(out, [a.sum(), 123.0, 24.0, 3.0, column[column <= 4].sum()])


@pytest.mark.parametrize("shape", [(0, 4), (1, 1)])
def test_arrays_of_few_elements(shape):
    a = np.ones(shape, np.float32)
    *_, out = everywhere(over_values, 1, a, wp.vec3(), wp.mat22(), np.zeros(5, np.float32))
    assert out[0] == a.sum()


@wp.kernel
def over_items(x: float, out: wp.array(dtype=float)):
    for n in (1, 2, 5):
        out[0] += float(n) * x
    for n in POWERS:
        out[n] = 0.5 * n
    for n, w in PAIRS:
        out[6] += w * float(n)
    for row in TABLE:
        for w in row:
            out[12] += w
    for f in STEPS:
        x = f(x)
    out[7] = x
    for y in (x, 2.0 * x, 3.0):
        out[8] += y
    for n in wp.static([k * k for k in range(4)]):
        out[9] += float(n)
    for n in reversed(POWERS):
        out[10] = out[10] * 10.0 + float(n)
    for c in SHAPE:
        out[11] += c
    for n in ():
        out[12] = float(n)


def test_tuples_and_lists():
    _, out = everywhere(over_items, 1, 3.0, np.zeros(13, np.float32))
    expected = np.array([24.0, 0.5, 1.0, 0, 0, 2.5, 1.0, 6.0, 21.0, 14.0, 521.0, 5.0, 10.0])
    np.testing.assert_array_equal(out, expected)


@wp.func
def first_root(x: int):
    for n in (0, 1, 2, 3):
        if n == 1:
            continue
        if n * n == x:
            return n
    return -1


@wp.kernel
def leave_items(xs: wp.array(dtype=int), out: wp.array2d(dtype=int)):
    i = wp.tid()
    x = xs[i]
    out[i, 0] = first_root(x)
    for n in (3, 4, 5):
        if n == x:
            break
        if n + 1 == x:
            continue
        out[i, 1] += n
    for n in (10, 20):
        if x == 9:
            return
        out[i, 2] += n
        x += n
    out[i, 2] += 1


def test_leaving_loops_over_items():
    xs = np.arange(10, dtype=np.int32)
    _, out = everywhere(leave_items, 10, xs, np.zeros((10, 3), np.int32))
    for x, row in zip(xs, out, strict=True):
        assert row[0] == {0: 0, 4: 2, 9: 3}.get(int(x), -1)
        before = (3, 4, 5)[: (3, 4, 5).index(x)] if x in (3, 4, 5) else (3, 4, 5)
        assert row[1] == sum(n for n in before if n + 1 != x)
        assert row[2] == (0 if x == 9 else 31)


@wp.kernel
def backwards(lo: int, hi: int, step: int, out: wp.array(dtype=int), leave: int):
    n = 0
    for i in reversed(range(lo, hi, step)):
        out[n] = i
        n += 1
    for i in reversed(range(lo, hi, step)):
        if i == leave:
            break
        n += 100
    for i in reversed(range(wp.uint8(3))):
        out[20 + int(i)] = n
    out[30] = n


@pytest.mark.parametrize("bounds", [(0, 7, 3), (5, 0, -2), (0, 0, 1), (3, -4, 2), (-3, 4, 1), (4, -4, -1), (1, 8, 0)])
def test_reversed_ranges(bounds):
    reached = [] if bounds[2] == 0 else list(reversed(range(*bounds)))
    *_, out, _ = everywhere(backwards, 1, *bounds, np.zeros(31, np.int32), 3)
    np.testing.assert_array_equal(out[: len(reached)], reached)
    whole = reached.index(3) if 3 in reached else len(reached)
    assert out[30] == len(reached) + 100 * whole
    np.testing.assert_array_equal(out[20:23], [out[30]] * 3)


@wp.kernel
def static_index(out: wp.array(dtype=float)):
    for i in range(1, 4):
        out[i] = wp.static(float(POWERS[i - 1]) * i)
        for j in range(wp.static(i + 1)):
            out[4 + j] += wp.static(10.0 * i + j)
    for name in ("x", "y"):
        out[8] += wp.static(len(name)) * 1.0
    for i in reversed(range(3)):
        out[9] = out[9] * 10.0 + wp.static(float(i))


def test_static_uses_indices_of_loops():
    (out,) = everywhere(static_index, 1, np.zeros(10, np.float32))
    expected = np.zeros(10, np.float32)
    for i in range(1, 4):
        expected[i] = POWERS[i - 1] * i
        for j in range(i + 1):
            expected[4 + j] += 10 * i + j
    expected[8] = 2.0
    expected[9] = 210.0
    np.testing.assert_array_equal(out, expected)


KEYED = """
def table(i):
    return VALUES[i]

def k(out: wp.array(dtype=float)):
    for i in range(2):
        for j in range(COUNT):
            out[i] = wp.static(table(i) + j)
    for n in NUMBERS:
        out[n] = 0.0
"""


def test_the_cache_key_sees_all_values_of_loops():
    def key(**names):
        module = define(KEYED, **({"VALUES": [1.0, 2.0], "NUMBERS": range(3), "COUNT": 2} | names))
        return capture(parse(module["k"], "kernel")).meanings

    assert key() == key()
    for change in ({"VALUES": [1.0, 3.0]}, {"NUMBERS": range(4)}, {"COUNT": 1}):
        assert key(**change) != key()


@wp.kernel
def long_vector(x: wp.array(dtype=vec20), w: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    total = wp.float64(0.0)
    for c in x[0]:
        total = total * wp.float64(0.5) + c * c
    for a in w:
        total += a * total
    for k in (1, 2, 3):
        total *= w[k - 1]
    for v in reversed(range(3)):
        total += w[v] * wp.float64(v) * total
    out[0] = total


def test_gradients():
    check(long_vector, 1, [RNG.normal(size=(1, 20)), RNG.normal(size=3)], 1)


def test_many_results_in_one_name():
    module = define("""
    @wp.func
    def both(x: float):
        return x, int(x) * 2

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        t = both(3.0)
        out[0] = t[0]
        out[1] = float(t[1] + len(t))
        a, b = t
        out[2] = a + float(b)
        for r in t:
            out[3] += float(r)
    """)
    (out,) = everywhere(module["k"], 1, np.zeros(4, np.float32))
    np.testing.assert_array_equal(out, [3.0, 8.0, 9.0, 9.0])


ONCE = True


def test_bools_count_as_integers_in_ranges_and_indices():
    @wp.kernel
    def k(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        for i in range(wp.static(ONCE)):
            out[i] += 1.0
        for _ in range(False, 3, ONCE):
            out[1] += 1.0
        out[2] = x[ONCE]

    out = wp.zeros(3, dtype=float)
    wp.launch(k, 1, inputs=[wp.array([5.0, 7.0], dtype=float), out])
    assert out.list() == [1.0, 3.0, 7.0]
