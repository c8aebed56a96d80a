"""Kernels in lanes: every kind of memory access, atomics, components and functions, against one thread at a time."""

import functools
import math
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.long_tail import crossed, tail

SIZES = [0, 1, 7, 16, 17, 100]
NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.fixture(params=[4, 64])
def width(request):
    wp.config.vector_width = request.param
    yield request.param
    del wp.config.vector_width


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


# --- loads and stores --------------------------------------------------------------------------------------


MOVED = ("bool", "int8", "uint16", "float16", "float32", "int64")
"""Memory is moved alike whatever the sign of an integer, and a float as an integer of its size."""


def make_moves(dtype):
    @wp.kernel
    def moves(
        x: wp.array(dtype=dtype),
        order: wp.array(dtype=int),
        out: wp.array2d(dtype=dtype),
    ):
        i = wp.tid()
        n = x.shape[0]
        out[0, i] = x[i]
        out[1, i] = x[n - 1 - i]
        out[2, i] = x[order[i]]
        out[3, order[i]] = x[i]
        out[4, i] = x[0]
        if i % 3 == 1:
            out[5, i] = x[i]
            if 2 * i < n:
                out[6, 2 * i] = x[2 * i]

    return moves


def moved():
    """A dtype of each size and kind as scalars, some as vectors of three, one as larger elements; others are tail."""
    for dtype in ("bool", *NUMBERS):
        yield (dtype, ()) if dtype in MOVED else tail(dtype, ())
        yield (dtype, (3,)) if dtype in MOVED[::2] else tail(dtype, (3,))
        for shape in ((2, 2), (5,)):
            yield (dtype, shape) if dtype == "float32" else tail(dtype, shape)


@pytest.mark.parametrize(("dtype", "shape"), list(moved()))
def test_moves(dtype, shape):
    scalar = getattr(wp, dtype)
    element = {
        0: lambda: scalar,
        1: lambda: wp.types.vector(shape[0], scalar),
        2: lambda: wp.types.matrix(shape, scalar),
    }
    kernel = make_moves(element[len(shape)]())
    try:
        for wp.config.vector_width, step in ((16, 1), (8, 2)):
            for n in SIZES:
                check_moves(kernel, dtype, shape, n, step)
    finally:
        del wp.config.vector_width


def check_moves(kernel, dtype, shape, n, step):
    x = values(dtype, (2 * n, *shape))[::step][:n]
    order = np.random.default_rng(1).permutation(n).astype(np.int32)
    out = np.zeros((7, n, *shape), dtype)
    wp.launch(kernel, n, [x, order, out])
    i = np.arange(n)
    wanted = np.zeros_like(out)
    wanted[0], wanted[1], wanted[2] = x, x[::-1], x[order]
    wanted[3, order] = x
    if n:
        wanted[4] = x[0]
    some = i % 3 == 1
    wanted[5, some] = x[some]
    twice = 2 * i[some & (2 * i < n)]
    wanted[6, twice] = x[twice]
    np.testing.assert_array_equal(out, wanted)


@wp.kernel
def columns(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k, j] * x[i, k] + x[j, i]
    out[j, i] = total


@pytest.mark.parametrize("n", [1, 5, 33])
def test_rows_and_columns(width, n):
    x = values("float32", (n, n))
    out = np.zeros((n, n), np.float32)
    wp.launch(columns, (n, n), [x, out])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, ((wide @ wide) + n * wide.T).T, rtol=1e-4, atol=1e-4)


@wp.kernel
def of_several_ranks(out: wp.array(dtype=int), rows: wp.array(dtype=int)):
    i = wp.tid()
    for _k in range(3):
        out[i] += i
    a, b, c = wp.tid()
    rows[(a * 3 + b) * 5 + c] = i


def test_grids_of_several_dimensions(width):
    out, rows = np.zeros(2, np.int32), np.zeros(30, np.int32)
    wp.launch(of_several_ranks, (2, 3, 5), [out, rows])
    np.testing.assert_array_equal(out, [0, 3 * 15])
    np.testing.assert_array_equal(rows, np.arange(30) // 15)


@wp.kernel
def across_edges(x: wp.array2d(dtype=wp.int64), shift: int, out: wp.array3d(dtype=wp.int64)):
    i, j = wp.tid()
    n = x.shape[0]
    m = x.shape[1]
    left = wp.where(j > 0, j - 1, m - 1)
    out[0, i, j] = x[wp.where(i > 0, i - 1, n - 1), left]
    out[1, i, j] = x[wp.min(i + 1, n - 1), wp.max(j - 1, 0)]
    out[2, i, (j + m - 1) % m] = x[i, (j + shift + m) % m]
    right = j + 1
    if right >= m:
        right = right - m
    out[3, i, j] = x[i, wp.int64(right)]
    if i % 2 == 0:
        out[4, i, left] = x[(i + 1) % n, wp.clamp(j + shift, 0, m - 1)]
    below = j - 70
    out[5, i, j] = wp.int64(below % (m + shift - 100))


@pytest.mark.parametrize("m", [1, 3, 16, 17, 64, 150])
@pytest.mark.parametrize("shift", [0, 5, -40])
def test_neighbours_across_the_edges_of_a_grid(width, m, shift):
    n = 3
    x = np.arange(n * m).reshape(n, m)
    out = np.zeros((6, n, m), np.int64)
    shift = max(shift, -m)
    wp.launch(across_edges, (n, m), [x, shift, out])
    i, j = np.arange(n)[:, None], np.arange(m)[None]
    wanted = np.zeros_like(out)
    wanted[0] = np.roll(x, (1, 1), (0, 1))
    wanted[1] = x[np.minimum(i + 1, n - 1), np.maximum(j - 1, 0)]
    wanted[2][:, (j[0] - 1) % m] = x[i, (j + shift) % m]
    wanted[3] = np.roll(x, -1, 1)
    wanted[4, ::2][:, (j[0] - 1) % m] = np.roll(x, -1, 0)[i, np.clip(j + shift, 0, m - 1)][::2]
    divisor = m + shift - 100
    wanted[5] = np.fmod(j - 70, divisor) if divisor else 0
    np.testing.assert_array_equal(out, wanted)


# --- control flow ------------------------------------------------------------------------------------------


@wp.kernel
def collatz(start: wp.array(dtype=int), steps: wp.array(dtype=int), highest: wp.array(dtype=int)):
    i = wp.tid()
    n = start[i]
    count = 0
    top = int(n)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
            if n > top:
                top = n
        count += 1
        if count > 90:
            break
    steps[i] = count
    if top < 50:
        return
    highest[i] = top


def test_loops_that_lanes_leave_at_different_times(width):
    start = np.arange(1, 200, dtype=np.int32)
    steps, highest = np.zeros_like(start), np.full_like(start, -1)
    wp.launch(collatz, len(start), [start, steps, highest])
    for n, count, top in zip(start.tolist(), steps, highest, strict=True):
        k, most = 0, n
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            k, most = k + 1, max(most, n)
            if k > 90:
                break
        assert (count, top) == (k, most if most >= 50 else -1)


@wp.kernel
def prefixes(x: wp.array(dtype=wp.int64), limit: wp.array(dtype=wp.int64), out: wp.array2d(dtype=wp.int64)):
    i = wp.tid()
    total = wp.int64(0)
    steps = 0
    place = i
    j = 0
    while total <= limit[i] and j < x.shape[0]:
        total += x[j]
        steps += 1
        place += 2
        if total % wp.int64(7) == wp.int64(0):
            break
        j += 1
    out[0, i] = total
    out[1, i] = wp.int64(steps)
    out[2, i] = wp.int64(place)
    for k in range(i % 5):
        steps += k
        place += 1
    out[3, i] = wp.int64(steps + place)


def test_what_lanes_carry_out_of_a_loop_in_which_it_was_the_same(width):
    rng = np.random.default_rng(6)
    x, limit = rng.integers(1, 9, 50), rng.integers(0, 150, 77)
    out = np.zeros((4, 77), np.int64)
    wp.launch(prefixes, 77, [x, limit, out])
    for i in range(77):
        total, steps, place = 0, 0, i
        for v in x.tolist():
            if total > limit[i]:
                break
            total, steps, place = total + v, steps + 1, place + 2
            if total % 7 == 0:
                break
        n = i % 5
        assert out[:, i].tolist() == [total, steps, place, steps + place + n + n * (n - 1) // 2]


@wp.kernel
def ranges(lo: wp.array(dtype=int), hi: wp.array(dtype=int), step: wp.array(dtype=int), out: wp.array2d(dtype=int)):
    i = wp.tid()
    total = 0
    for k in range(lo[i], hi[i], step[i]):
        total += k * k + 1
    out[0, i] = total
    total = 0
    for k in range(lo[i], hi[i]):
        total += k
        if k == 3:
            continue
        for m in range(k):
            total += m
    out[1, i] = total
    last = -1
    for k in range(i, hi[i] + i, 2):
        last = k
    out[2, i] = last


def test_counted_loops_of_different_lengths(width):
    rng = np.random.default_rng(3)
    lo, hi, step = (rng.integers(a, b, 77).astype(np.int32) for a, b in ((-9, 9), (-9, 9), (-3, 4)))
    step[step == 0] = 5
    out = np.zeros((3, 77), np.int32)
    wp.launch(ranges, 77, [lo, hi, step, out])
    for i in range(77):
        a, b, s = int(lo[i]), int(hi[i]), int(step[i])
        assert out[0, i] == sum(k * k + 1 for k in range(a, b, s))
        assert out[1, i] == sum(k + (sum(range(k)) if k != 3 else 0) for k in range(a, b))
        assert out[2, i] == max(range(i, b + i, 2), default=-1)


@wp.kernel
def extreme_range(out: wp.array(dtype=int)):
    i = wp.tid()
    count = 0
    for _k in range(2147483640 + i % 3, 2147483647, 5):
        count += 1
    out[i] = count


def test_a_range_up_to_the_largest_integer(width):
    out = np.zeros(20, np.int32)
    wp.launch(extreme_range, 20, [out])
    np.testing.assert_array_equal(out, [len(range(2147483640 + i % 3, 2147483647, 5)) for i in range(20)])


# --- atomics -----------------------------------------------------------------------------------------------


def make_atomics(dtype):
    @wp.kernel
    def atomics(
        x: wp.array(dtype=dtype), bins: wp.array(dtype=int), one: wp.array(dtype=dtype), many: wp.array2d(dtype=dtype)
    ):
        i = wp.tid()
        for _k in range(2):
            wp.atomic_add(one, 0, x[i])
        wp.atomic_min(one, 1, x[i])
        wp.atomic_max(one, 2, x[i])
        wp.atomic_sub(many, 0, bins[i], x[i])
        wp.atomic_max(many, 1, bins[i], x[i])
        if bins[i] == 2:
            wp.atomic_add(one, 3, x[i])
            wp.atomic_min(many, 2, bins[i] + i % 2, x[i])

    return atomics


@pytest.mark.parametrize(
    ("n", "dtype"), crossed([1, 50], ["int32", "uint32", "int64", "uint64", "float16", "float32", "float64"], every=2)
)
def test_atomics(width, dtype, n):
    x = values(dtype, (n,))
    bins = np.random.default_rng(2).integers(0, 4, n).astype(np.int32)
    one, many = np.full(4, 3, dtype), np.full((3, 5), 3, dtype)
    wp.launch(make_atomics(getattr(wp, dtype)), n, [x, bins, one, many])
    wide = x.astype(np.float64 if dtype.startswith("float") else object)
    wanted_one = [3 + 2 * wide.sum(), min(3, wide.min()), max(3, wide.max()), 3 + wide[bins == 2].sum()]
    wanted = np.full((3, 5), 3, wide.dtype)
    np.subtract.at(wanted[0], bins, wide)
    np.maximum.at(wanted[1], bins, wide)
    picked = bins == 2
    np.minimum.at(wanted[2], (bins + np.arange(n) % 2)[picked], wide[picked])
    if dtype.startswith("float"):
        tolerance = {"rtol": 3e-2 if dtype == "float16" else 1e-5, "atol": 0.1 if dtype == "float16" else 1e-5}
        np.testing.assert_allclose(one, wanted_one, **tolerance)
        np.testing.assert_allclose(many, wanted, **tolerance)
    else:
        mask = (1 << 8 * x.itemsize) - 1
        assert [int(v) & mask for v in one] == [int(v) & mask for v in wanted_one]
        assert [int(v) & mask for v in many.ravel()] == [int(v) & mask for v in wanted.ravel()]


@wp.kernel
def extremes(x: wp.array(dtype=float), least: wp.array(dtype=float), most: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_min(least, 0, x[i])
    wp.atomic_max(most, 0, x[i])


@pytest.mark.parametrize("first", [np.nan, 2.0])
@pytest.mark.parametrize("n", [1, 37, 64])
def test_extremes_leave_out_what_is_no_number(width, n, first):
    x = values("float32", (n,))
    for numbers in (x, np.where(np.arange(n) % 3 == 1, np.float32(np.nan), x), np.full(n, np.nan, np.float32)):
        least, most = np.full(1, first, np.float32), np.full(1, first, np.float32)
        wp.launch(extremes, n, [numbers, least, most])
        np.testing.assert_array_equal(least[0], np.fmin.reduce([np.float32(first), *numbers]))
        np.testing.assert_array_equal(most[0], np.fmax.reduce([np.float32(first), *numbers]))


@wp.kernel
def slots(x: wp.array(dtype=float), count: wp.array(dtype=int), kept: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(2):
        if x[i] > float(k) * 0.5:
            kept[wp.atomic_add(count, 0, 1)] = x[i]


def test_each_lane_sees_its_own_old_value(width):
    x = values("float32", (300,))
    count, kept = np.zeros(1, np.int32), np.full(600, np.nan, np.float32)
    wp.launch(slots, 300, [x, count, kept])
    wanted = np.sort(np.concatenate([x[x > 0], x[x > 0.5]]))
    assert count[0] == len(wanted)
    np.testing.assert_array_equal(np.sort(kept[: len(wanted)]), wanted)
    assert np.isnan(kept[len(wanted) :]).all()


# --- values ------------------------------------------------------------------------------------------------

mat77 = wp.types.matrix((7, 7), wp.float32)
vec20 = wp.types.vector(20, wp.float64)


@wp.kernel
def components(at: wp.array(dtype=int), out: wp.array(dtype=float), sums: wp.array(dtype=wp.float64)):
    i = wp.tid()
    m = mat77()
    v = vec20()
    for r in range(7):
        for c in range(7):
            m[r, c] = float(i * 49 + r * 7 + c)
    for k in range(20):
        v[k] = wp.float64(i + k)
    m[at[i], (at[i] + 1) % 7] = -1.0
    v[at[i] * 2] = wp.float64(0.0)
    row = m[at[i]]
    total = 0.0
    for c in range(7):
        total += row[c] + m[c, at[i]]
    out[i] = total
    total64 = wp.float64(0.0)
    for k in range(20):
        total64 += v[k] * wp.float64(k)
    sums[i] = total64 + v[at[i]]


def test_components_at_dynamic_indices(width):
    at = np.random.default_rng(4).integers(0, 7, 45).astype(np.int32)
    out, sums = np.zeros(45, np.float32), np.zeros(45)
    wp.config.max_unroll = 0
    try:
        wp.launch(components, 45, [at, out, sums])
    finally:
        del wp.config.max_unroll
    for i, a in enumerate(at.tolist()):
        m = i * 49 + np.arange(49.0).reshape(7, 7)
        m[a, (a + 1) % 7] = -1
        v = i + np.arange(20.0)
        v[a * 2] = 0
        assert out[i] == m[a].sum() + m[:, a].sum()
        assert sums[i] == (v * np.arange(20)).sum() + v[a]


FUNCTIONS = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh,
    "atan": np.arctan, "cbrt": np.cbrt, "floor": np.floor, "round": None, "sinh": np.sinh, "log2": np.log2,
    "abs": np.abs, "erf": None,
}  # fmt: skip


def make_functions(dtype):
    parameters = "".join(f", {name}: wp.array(dtype=wp.{dtype})" for name in FUNCTIONS)
    stores = "".join(f"    {name}[i] = wp.{name}(x[i])\n" for name in FUNCTIONS)
    head = f"@wp.kernel\ndef functions(x: wp.array(dtype=wp.{dtype}){parameters}):\n    i = wp.tid()\n"
    return define(head + stores)["functions"]


@functools.cache
def functions_in(width, dtype):
    """Numbers of ``dtype``, and what one kernel makes of them by every function."""
    x = np.abs(values(dtype, (37,))) + np.asarray(0.1, dtype)
    out = {name: np.zeros_like(x) for name in FUNCTIONS}
    wp.config.vector_width = width
    try:
        wp.launch(make_functions(dtype), 37, [x, *out.values()])
    finally:
        del wp.config.vector_width
    return x, out


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("width", [4, 64])
def test_functions(width, name, dtype):
    reference = (
        FUNCTIONS[name]
        or {"round": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), "erf": np.vectorize(math.erf)}[name]
    )
    x, out = functions_in(width, dtype)
    wanted = reference(x.astype(np.float64))
    np.testing.assert_allclose(out[name], wanted, rtol={"float16": 2e-3, "float32": 5e-7, "float64": 2e-15}[dtype])


DTYPES = ("bool", *NUMBERS)


def make_casts(source):
    parameters = "".join(f", to_{t}: wp.array(dtype=wp.{t})" for t in DTYPES)
    stores = "".join(f"            to_{t}[i] = wp.{t}(x[k])\n" for t in DTYPES)
    head = f"@wp.kernel\ndef casts(x: wp.array(dtype=wp.{source}){parameters}):\n    i = wp.tid()\n"
    return define(head + "    for k in range(x.shape[0]):\n        if k == i:\n" + stores)["casts"]


@functools.cache
def cast_in(width, source):
    """Numbers of ``source``, cast to every type by one kernel."""
    x = values(source, (21,))
    if source.startswith("float"):  # the ends of the integers, and the numbers beside them
        ends = 2.0 ** np.array([0, 7, 8, 15, 16, 31, 32, 63, 64]), [np.inf, np.nan, 1e300, 0.5]
        with np.errstate(over="ignore"):
            near = np.concatenate(ends).astype(source)
            near = np.concatenate([near, np.nextafter(near, near.dtype.type(0)), near - near.dtype.type(1)])
        x = np.concatenate([x * np.asarray(3000, source), near, -near])
    out = {t: np.zeros(len(x), t) for t in DTYPES}
    wp.config.vector_width = width
    try:
        wp.launch(make_casts(source), len(x), [x, *out.values()])
    finally:
        del wp.config.vector_width
    return out


@pytest.mark.parametrize(("target", "source"), crossed(DTYPES, DTYPES, every=2))
def test_casts(source, target):
    np.testing.assert_array_equal(cast_in(1, source)[target], cast_in(16, source)[target])


@wp.kernel
def compare(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array2d(dtype=wp.bool)):
    i = wp.tid()
    a = x[i]
    b = y[i]
    out[0, i] = a == b
    out[1, i] = a != b
    out[2, i] = a[0] < b[0]
    out[3, i] = a[1] >= b[1] and a[2] != b[2]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "uint64"])
def test_comparisons_of_components(dtype):
    x, y = values(dtype, (83, 3)), values(dtype, (83, 3))
    y[::2] = x[::2]
    if dtype.startswith("float"):
        x[4, 1], y[4, 1], x[6, 2], y[6, 2] = np.nan, np.nan, 0.0, -0.0
    out = np.zeros((4, 83), bool)
    vector = wp.types.vector(3, getattr(wp, dtype))
    wp.launch(compare, 83, [wp.array(x, dtype=vector), wp.array(y, dtype=vector), out])
    a, b = x.T, y.T
    same = (x == y).all(axis=1)
    np.testing.assert_array_equal(out, [same, ~same, a[0] < b[0], (a[1] >= b[1]) & (a[2] != b[2])])


# --- gradients, and what is not widened ----------------------------------------------------------------------


@wp.kernel
def springs(x: wp.array(dtype=wp.vec3), pairs: wp.array2d(dtype=int), energy: wp.array(dtype=float)):
    i = wp.tid()
    total = 0.0
    for k in range(pairs.shape[1]):
        j = pairs[i, k]
        if j >= 0:
            stretch = wp.length(x[j] - x[i]) - 0.5
            total += stretch * stretch
    wp.atomic_add(energy, 0, total)


def test_gradients_agree_with_those_of_single_threads():
    x = values("float32", (83, 3))
    pairs = np.random.default_rng(5).integers(-1, 83, (83, 6)).astype(np.int32)
    gradients = []
    try:
        for wp.config.vector_width in (1, 16):
            points = wp.array(x, dtype=wp.vec3, requires_grad=True)
            energy = wp.zeros(1, dtype=float, requires_grad=True)
            with wp.Tape() as tape:
                wp.launch(springs, 83, [points, pairs, energy])
            tape.backward(loss=energy)
            gradients.append(points.grad.numpy())
    finally:
        del wp.config.vector_width
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=2e-5, atol=1e-5)


@wp.kernel
def powers(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    c = wp.float64(0.7)
    for k in range((i * 7) % 5):
        c = c * x[i]
        for _ in range(k % 3):
            c = wp.sin(c) * x[i]
    y[i] = y[i] * c


@wp.kernel
def both_sides(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    if x[i] > wp.float64(0.0):
        y[i] = y[i] * x[i] * y[i]
    else:
        for k in range(i % 3):
            if y[i] > wp.float64(k):
                y[i] = wp.sin(y[i]) * x[i]
            else:
                y[i] = y[i] * y[i]
    y[i] = y[i] * wp.cos(x[i])


@pytest.mark.parametrize("n", [5, 83])
@pytest.mark.parametrize("kernel", [powers, both_sides], ids=["powers", "both sides"])
def test_lanes_that_part_take_back_what_they_saved(kernel, n):
    """They join the reverse of a loop late, and the reverse of a branch begins with its second side."""
    gradients = []
    try:
        for wp.config.vector_width in (1, 4, 16):
            x, y = (wp.array(values("float64", (2, n))[k], requires_grad=True) for k in range(2))
            with wp.Tape() as tape:
                wp.launch(kernel, n, [x, y])
            tape.backward(grads={y: wp.ones(n, dtype=wp.float64)})
            gradients.append(np.stack([x.grad.numpy(), y.grad.numpy()]))
    finally:
        del wp.config.vector_width
    assert np.abs(gradients[0][1]).min() > 0
    for got in gradients[1:]:
        np.testing.assert_allclose(got, gradients[0], rtol=1e-12, atol=1e-12)


@wp.kernel
def locked(lock: wp.array(dtype=int), total: wp.array(dtype=float)):
    while wp.atomic_exch(lock, 0, 1) == 1:
        pass
    total[0] = total[0] + 1.0
    wp.atomic_exch(lock, 0, 0)


def test_threads_that_wait_for_each_other_run_one_at_a_time(width):
    wp.config.num_threads = 1
    try:
        total = np.zeros(1, np.float32)
        wp.launch(locked, 50, [np.zeros(1, np.int32), total])
    finally:
        del wp.config.num_threads
    assert total[0] == 50


# --- what users see -----------------------------------------------------------------------------------------


def test_explain():
    @wp.kernel
    def total(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        for k in range(x.shape[0]):
            out[i] += x[k, i]

    found = total.explain()
    (variant,) = found.variants
    assert (variant.role, variant.contiguous, variant.wide) == ("forward", True, False)
    assert variant.arguments == (("x", "array2d[float32]"), ("out", "array1d[float32]"))
    assert variant.lanes > 1
    assert "vectors of 32-bit numbers" in variant.lanes_reason
    assert {"frontend", "passes", "lanes", "backend"} <= {name for name, _ in variant.seconds}
    text = str(found)
    assert text.startswith("kernel `total`\n\n  forward, contiguous arrays")
    assert f"lanes      {variant.lanes} (" in text
    assert variant.key in found._repr_html_()

    x = wp.zeros((6, 4), dtype=float, requires_grad=True)
    out = wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, 4, [x, out])
    wp.launch(total, 4, [wp.zeros((4, 6), dtype=float).transpose(), out])
    tape.backward(grads={out: wp.ones_like(out)})
    told = [(v.role, v.contiguous) for v in total.explain().variants]
    assert sorted(set(told)) == [("adjoint", True), ("forward", False), ("forward", True)]


def test_explain_needs_types_where_annotations_leave_them_open():
    @wp.kernel
    def scale(x: wp.array(dtype=wp.Any), a: wp.Any):
        i = wp.tid()
        x[i] = a * x[i]

    with pytest.raises(ValueError, match="the type of `x` is inferred at launch; pass args="):
        scale.explain()
    (variant,) = scale.explain([wp.array(dtype=wp.float64), wp.float64]).variants
    assert variant.lanes > 1
    assert variant.lanes_reason.endswith("-bit vectors of 64-bit numbers")


def test_the_width_is_a_power_of_two():
    with pytest.raises(ValueError, match="setting `vector_width` is one of 0, 1, 2, 4, 8, 16, 32, 64, got 3"):
        wp.config.vector_width = 3
