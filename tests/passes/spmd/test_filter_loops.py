"""Loops that look for few things among many do what they did without the search by lanes."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid, while_
from tests.lane_interpreter import run_lanes
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32, int32, int64, uint64
from warp_like.ir.verify import verify
from warp_like.passes.spmd import filter_loops
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.filters import find_filters, find_rows

X, N = Array(float32, 1), Array(int32, 1)
V3, FLOATS, NUMBERS = wp.array(dtype=wp.vec3), wp.array(dtype=float), wp.array(dtype=int)


@wp.kernel
def near(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    total, found = 0.0, 0
    for k in range(ids.shape[0]):
        d = wp.length(x[i] - x[ids[k]])
        if d < r:
            total += r - d
            found = ids[k]
    out[i] = total
    n[i] = found


@wp.kernel
def in_line(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    total = 0.0
    for k in range(i, x.shape[0]):
        if k != i:
            d = x[i] - x[k]
            if wp.dot(d, d) <= r * r:
                total += wp.sqrt(r * r - wp.dot(d, d))
                n[i] += 1
    out[i] = total


@wp.kernel
def left_early(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    own = wp.zeros(shape=4, dtype=float)
    for k in range(ids.shape[0]):
        j = ids[k]
        d = wp.length(x[j] - x[i])
        if j == i or d > r:
            continue
        own[j % 4] += d
    out[i] = own[0] + 2.0 * own[1] + 3.0 * own[2] + 4.0 * own[3]


@wp.kernel
def wide(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    total = wp.float64(0.0)
    for k in range(ids.shape[0]):
        y = wp.vec3d(x[i]) - wp.vec3d(x[ids[k]])
        if wp.float64(r) > wp.length(y):
            total += wp.length(y)
    out[i] = float(total)


@wp.kernel
def nearest(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    best = r
    for k in range(ids.shape[0]):
        d = wp.length(x[i] - x[ids[k]] - wp.vec3(0.3, 0.0, 0.0))
        if d < best:
            best = d
    out[i] = best


@wp.kernel
def moving(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    for k in range(ids.shape[0]):
        d = wp.length(x[i] - x[ids[k]])
        if d < r:
            x[ids[k]] = x[ids[k]] * 0.5
            out[i] += d


@wp.kernel
def counting(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    for k in range(ids.shape[0]):
        d = wp.length(x[i] - x[ids[k]])
        n[i] += 1
        if d < r:
            out[i] = d


FOUND = [near, left_early, wide]
NOT_FOUND = [nearest, moving, counting, in_line]
"""What iterations carry on decides about later ones; what they write later ones read, or might, as arguments may
overlap; they always do something."""


def function_of(kernel: Any) -> Function:
    return optimised(kernel.source, Signature(kernel.types))


def arguments(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n)
    x = rng.uniform(0, 1, (n, 3)).astype(np.float32)
    if n > 4:
        x[2], x[3, 1] = np.nan, np.inf
        x[4] = x[0]
    ids = rng.integers(-n, n, m).astype(np.int32)  # negative ones count from the end
    return [x, ids, 0.4, np.zeros(n, np.float32), np.zeros(n, np.int32)]


@pytest.mark.parametrize("kernel", FOUND, ids=lambda k: k.key)
@pytest.mark.parametrize(("bits", "gathers"), [(256, False), (512, True)])
def test_iterations_that_are_found_are_all_that_do_something(
    kernel: Any, bits: int, gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_loops, "LISTED", 32)  # so that several lists are filled
    f = function_of(kernel)
    assert len(find_filters(f)) == 1
    g = filter_loops.filter_loops(clone_function(f), bits, gathers=gathers)
    verify(g)
    for n, m in [(3, 0), (3, 1), (6, 33), (5, 70)]:
        expected, got = arguments(n, m), arguments(n, m)
        run(f, expected, (n,))
        run_lanes(g, got, (n,))
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(b, a, err_msg=print_function(g))


@pytest.mark.parametrize("kernel", NOT_FOUND, ids=lambda k: k.key)
def test_loops_that_must_stay(kernel: Any) -> None:
    assert find_filters(function_of(kernel)) == []


def test_arrays_that_overlap_no_other_argument() -> None:
    """``n`` may be ``x`` for all that the code says; a launch that adds to it without atomics checks that it is not."""
    f = function_of(in_line)
    assert len(find_filters(f, [4])) == 1
    g = filter_loops.filter_loops(clone_function(f), 512, [4])
    expected, got = arguments(6, 1), arguments(6, 1)
    run(f, expected, (6,))
    run_lanes(g, got, (6,))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(b, a)


def test_roots_are_compared_by_squares() -> None:
    g = choose(function_of(near), 512, 32, 1, gathers=True).function
    roots = [o for o in g.body.walk() if isinstance(o, ops.Apply) and o.fn == "sqrt"]
    assert len(roots) == 1  # in the iterations that are found


def over_rows() -> Function:
    """Threads look through rows of numbers in memory that ``ids`` is the address of: ``starts`` to ``ends``."""
    f, b = start(ids=uint64, x=X, starts=N, ends=N, rows=int32, out=X)
    (ids, x, starts, ends, rows, out), i = f.params, tid(b)
    p, size = b.load(x, [i]), b.constant(1 << 20, int64)

    def bounds(row: Value) -> tuple[Value, Value]:
        place = b.select(b.lt(row, rows), row, b.constant(0, int32))
        return b.load(starts, [place]), b.load(ends, [place])

    def body(row: Value, low: Value, high: Value, total: Value) -> tuple[Value, ...]:
        with loop(b, low, high, init=[total]) as sums:
            items = b.insert(ops.AtAddress(ids, (size,), constant=True), N).result
            d = b.sub(b.load(x, [b.load(items, [sums.i])]), p)
            square = b.mul(d, d)
            far = b.sqrt(b.add(square, b.mul(square, b.add(square, b.mul(d, square)))))
            (sum_,) = sums.carried
            sums.next = branch(b, b.lt(far, 0.5), lambda: (b.add(b.mul(sum_, 0.75), d),), lambda: (sum_,))
        following = b.add(row, 1)
        return following, *bounds(following), sums.results[0]

    first = b.constant(0, int32)
    init = [first, *bounds(first), b.constant(0.0, float32)]
    b.store(out, [i], while_(b, init, lambda row, *_: b.lt(row, rows), body)[3])
    b.yield_()
    return f


@pytest.mark.parametrize(("bits", "gathers"), [(256, False), (512, True)])
def test_rows_of_items(bits: int, gathers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are empty, of one item, longer than the list, and end before they begin."""
    monkeypatch.setattr(filter_loops, "LISTED", 64)
    f = over_rows()
    assert len(find_rows(f, find_filters(f))) == 1
    g = filter_loops.filter_loops(clone_function(f), bits, gathers=gathers)
    verify(g)
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 9, 400).astype(np.int32)
    starts = np.array([3, 10, 10, 100, 7, 350], np.int32)
    ends = np.array([3, 11, 40, 275, 2, 400], np.int32)
    for rows in (0, 1, 6):
        args = [ids.ctypes.data, rng.uniform(0, 1, 9).astype(np.float32), starts, ends, rows]
        expected, got = np.zeros(9, np.float32), np.zeros(9, np.float32)
        run(f, [*args, expected], (3,))
        run_lanes(g, [*args, got], (3,))
        np.testing.assert_array_equal(got, expected)
        assert (rows < 2) or expected.any()


def test_extreme_radii() -> None:
    """Squares of small numbers are 0, those of large ones infinity; some points are where the first one is."""
    f = function_of(near)
    g = choose(f, 512, 32, 1, gathers=True).function
    for r in (0.0, -1.0, 1e-30, 1e-23, 1e30, np.inf, np.nan):
        expected, got = ([*arguments(5, 20)[:2], r, *arguments(5, 20)[3:]] for _ in range(2))
        run(f, expected, (5,))
        run_lanes(g, got, (5,))
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("n", [1, 5, 40, 1300])
def test_compiled(n: int) -> None:
    x = np.random.default_rng(n).uniform(0, 1, (n, 3)).astype(np.float32)
    ids = np.random.default_rng(n).permutation(n).astype(np.int32)
    out, found = wp.zeros(n, dtype=float), wp.zeros(n, dtype=int)
    wp.launch(near, n, [wp.array(x, dtype=wp.vec3), wp.array(ids), 0.3, out, found], options={"vector_width": 1})
    d = np.linalg.norm(x[:, None].astype(np.float64) - x, axis=-1)
    np.testing.assert_allclose(out.numpy(), np.maximum(0.3 - d, 0).sum(1), rtol=1e-4)
    last = np.where(d[:, ids] < 0.3, np.arange(n), -1).max(1)
    np.testing.assert_array_equal(found.numpy(), ids[last])
