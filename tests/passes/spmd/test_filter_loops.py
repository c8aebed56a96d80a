"""Loops that look for few things among many do what they did without the search by lanes."""

import itertools
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid, while_
from tests.lane_interpreter import run_lanes
from tests.long_tail import seeds, tail
from tests.passes.spmd import random_filters, random_neighbours
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Lanes, bool_, float32, int32, int64, uint64
from warp_like.ir.verify import verify
from warp_like.passes.expand import expand
from warp_like.passes.spmd import filter_lists, filter_loops
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.filter_conditions import condition_in_line
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


@wp.kernel
def ending(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    total = 0.0
    for k in range(ids.shape[0]):
        d = wp.length(x[i] - x[ids[k]])
        if d < r:
            wp.expect_neq(ids[k], i)
            total += d
    out[i] = total


@wp.kernel
def in_table(x: V3, ids: NUMBERS, r: float, out: FLOATS, n: NUMBERS):
    i = wp.tid()
    total = 0.0
    for k in range(ids.shape[0]):
        root = wp.sqrt(x[ids[k]][0])
        if root < r:
            d = wp.length(x[int(root / r * float(x.shape[0]))] - x[i])
            if d < 0.5:
                total += d
    out[i] = total


FOUND = [near, left_early, wide]
NOT_FOUND = [nearest, moving, counting, in_line, ending]
"""What iterations carry on decides about later ones; what they write later ones read, or might, as arguments may
overlap; they always do something; one may be the thread's last one."""


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
    monkeypatch.setattr(filter_lists, "LISTED", 32)  # so that several lists are filled
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
    """Threads look through rows of numbers, ``starts`` to ``ends``; all three are addresses of an object's memory."""
    f, b = start(ids=uint64, x=X, starts=uint64, ends=uint64, rows=int32, out=X)
    (ids, x, starts, ends, rows, out), i = f.params, tid(b)
    p, size = b.load(x, [i]), b.constant(1 << 20, int64)

    def bounds(row: Value) -> tuple[Value, Value]:
        place = b.select(b.lt(row, rows), row, b.constant(0, int32))
        made = [ops.AtAddress(words, (b.constant(6, int64),), constant=True) for words in (starts, ends)]
        low, high = (b.load(b.insert(one, N).result, [place]) for one in made)
        return low, high

    def body(row: Value, low: Value, high: Value, total: Value) -> tuple[Value, ...]:
        with loop(b, low, high, init=[total]) as sums:
            items = b.insert(ops.AtAddress(ids, (size,), constant=True), N).result
            item = b.load(items, [sums.i])
            item = b.select(b.lt(item, 0), b.add(item, b.insert(ops.Dim(x, 0), int32).result), item)
            d = b.sub(b.load(x, [item]), p)
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
    monkeypatch.setattr(filter_lists, "LISTED", 64)
    f = over_rows()
    assert len(find_rows(f, find_filters(f))) == 1
    g = filter_loops.filter_loops(clone_function(f), bits, gathers=gathers)
    verify(g)
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 9, 400).astype(np.int32)
    starts = np.array([3, 10, 10, 100, 7, 350], np.int32)
    ends = np.array([3, 11, 40, 275, 2, 400], np.int32)
    for rows in (0, 1, 6):
        args = [ids.ctypes.data, rng.uniform(0, 1, 9).astype(np.float32), starts.ctypes.data, ends.ctypes.data, rows]
        expected, got = np.zeros(9, np.float32), np.zeros(9, np.float32)
        run(f, [*args, expected], (3,))
        run_lanes(g, [*args, got], (3,))
        np.testing.assert_array_equal(got, expected)
        assert (rows < 2) or expected.any()


ROWS = {
    "in line": [[*range(20)], [], [*range(20, 61)], [*range(30, 46)]],
    "to the end of the points": [[*range(40, 57)], [*range(65, 97)], [*range(80, 97)]],
    "at first": [[*range(33)], [3, 4, 9], [*range(12), *range(13, 20)], [*range(7, -1, -1)], [*range(64, 80)]],
    "from the end": [[*range(3, 16)], [*range(-20, 0)], [*range(-5, 9)]],
    "from the end at first": [[*range(-20, 5)], [*range(3, 16)]],
    "short": [[1], [4, 5, 6], [*range(30, 60)]],
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("bits", [256, 512])
def test_rows_of_items_in_line(rows: list[list[int]], bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a vector reads behind the end of a row is not looked at; rows whose items leave the line are found out."""
    monkeypatch.setattr(filter_lists, "LISTED", 64)
    f = over_rows()
    g = filter_loops.filter_loops(clone_function(f), bits)
    verify(g)
    ids = np.array([*itertools.chain(*rows)], np.int32)
    bounds = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    starts, ends = bounds[:-1].copy(), bounds[1:].copy()
    args = [ids.ctypes.data, np.random.default_rng(2).uniform(0, 1, 97).astype(np.float32)]
    args += [starts.ctypes.data, ends.ctypes.data, len(rows)]
    expected, got = np.zeros(3, np.float32), np.zeros(3, np.float32)
    run(f, [*args, expected], (3,))
    run_lanes(g, [*args, got], (3,))
    np.testing.assert_array_equal(got, expected)
    assert expected.all()


def test_rows_in_line_are_read_without_gathers() -> None:
    g = filter_loops.filter_loops(over_rows(), 512)
    loads = [o for o in g.body.walk() if isinstance(o, ops.Load) and o.result.type == Lanes(float32, 16)]
    assert [isinstance(o.indices[0].op, ops.Iota) for o in loads] == [True, True, False]


def guarded(kind: str) -> Function:
    """Threads look through a row of numbers whose condition reads more than the elements of the items."""
    f, b = start(ids=uint64, x=X, y=X, rows=int32, out=X)
    (ids, x, y, rows, out), size = f.params, b.constant(1 << 20, int64)

    def body(row: Value, low: Value, high: Value, total: Value) -> tuple[Value, ...]:
        with loop(b, low, high, init=[total]) as sums:
            item = b.load(b.insert(ops.AtAddress(ids, (size,), constant=True), N).result, [sums.i])
            d = b.load(x, [item])
            (sum_,) = sums.carried
            if kind == "guarded":
                far = branch(b, b.lt(d, 0.5), lambda: (b.load(y, [rows]),), lambda: (d,))[0]
            else:
                far = b.load(y, [b.add(item, 1) if kind == "beside" else b.cast(d, int32)])
            for _ in range(6):
                far = b.add(b.mul(far, 0.5), d)
            sums.next = branch(b, b.lt(far, 1.0), lambda: (b.add(b.mul(sum_, 0.75), d),), lambda: (sum_,))
        return b.add(row, 1), high, high, sums.results[0]

    init = [b.constant(0, int32), b.constant(0, int32), b.constant(14, int32), b.constant(0.0, float32)]
    b.store(out, [tid(b)], while_(b, init, lambda row, *_: b.lt(row, rows), body)[3])
    b.yield_()
    return f


@pytest.mark.parametrize("kind", ["guarded", "beside", "looked up"])
def test_conditions_that_items_behind_a_row_must_not_ask(kind: str) -> None:
    """Elements behind the row's end would pass a guard, or lead to places that are not there."""
    f = guarded(kind)
    (found,) = find_filters(f)
    (rows,) = find_rows(f, [found])
    assert condition_in_line(found, 512, rows.item) is None
    g = filter_loops.filter_loops(clone_function(f), 512)
    verify(g)
    ids, x, y = np.arange(14, dtype=np.int32), np.full(40, 0.75, np.float32), np.ones(15, np.float32)
    x[14:], y[3] = 0.25 if kind == "guarded" else 99.0, -9.0
    count = 20 if kind == "guarded" else 1  # not a place of `y`
    expected, got = np.zeros(2, np.float32), np.zeros(2, np.float32)
    run(f, [ids.ctypes.data, x, y, count, expected], (2,))
    run_lanes(g, [ids.ctypes.data, x, y, count, got], (2,))
    np.testing.assert_array_equal(got, expected)


def test_roots_that_guard_a_load() -> None:
    """They are compared as they are: a root that is the bound, or no number, has no place in the table behind it."""
    f = function_of(in_table)
    assert len(find_filters(f)) == 1
    g = filter_loops.filter_loops(clone_function(f), 512)
    x = np.ones((3, 3), np.float32) * np.float32(0.25)
    x[1:, 0] = -1.0, 0.01
    for r in (0.5, -0.5):
        expected, got = ([x.copy(), np.arange(3, dtype=np.int32), r, *arguments(3, 0)[3:]] for _ in range(2))
        run(f, expected, (3,))
        run_lanes(g, got, (3,))  # raises where an index is out of range
        np.testing.assert_array_equal(got[3], expected[3])


def _with_condition(flag: bool) -> Function:
    """A loop that asks a flag that it carries, or for the thread's index, before it looks at an item."""
    f, b = start(x=Array(float32, 1), out=Array(float32, 1))
    (x, out), i = f.params, tid(b)
    init = [b.constant(True, bool_), b.constant(0.0, float32)]
    with loop(b, 0, 40, init=init) as body:
        on, total = body.carried

        def look() -> tuple[Value, ...]:
            d = b.sub(b.load(x, [body.i]), b.load(x, [i if flag else tid(b)]))
            for _ in range(4):
                d = b.add(b.mul(d, d), -0.25)
            some = b.add(total, d)
            return branch(b, b.lt(d, 0.5), lambda: (b.lt(some, 1.0), some), lambda: (on, total))

        outer = on if flag else b.lt(body.i, 30)
        body.next = branch(b, outer, look, lambda: (on, total))
    b.store(out, [i], body.results[1])
    b.yield_()
    return expand(f)


@pytest.mark.parametrize("flag", [True, False])
def test_conditions_that_lanes_would_misread(flag: bool) -> None:
    f = _with_condition(flag)
    verify(f)
    assert find_filters(f) == []


def _with_rows(kind: str) -> Function:
    """A loop over rows whose starts and ends are in ``words``, memory that no kernel writes, or in ``ids``."""
    f, b = start(words=uint64, ids=Array(int32, 1), x=Array(float32, 1), out=Array(float32, 1))
    (words, ids, x, out), i = f.params, tid(b)
    size = b.constant(100, int64)

    def at(place: Value) -> Value:
        made = ops.AtAddress(words, (size,), constant=True)
        return b.load(b.insert(made, Array(int32, 1)).result, [place])

    def row(n: Value, first: Value, end: Value, total: Value, before: Value) -> tuple[Value, ...]:
        with loop(b, first, end, init=[total]) as body:
            (old,) = body.carried
            d = b.sub(b.load(x, [at(body.i)]), b.load(x, [i]))
            for _ in range(4):
                d = b.add(b.mul(d, d), -0.25)

            def add() -> tuple[Value, ...]:
                if kind == "numbered":
                    b.store(ids, [n], b.index(0))
                return (b.add(old, d),)

            body.next = branch(b, b.lt(d, 0.5), add, lambda: (old,))
        after, start_of = b.add(n, 1), at if kind != "read" else lambda k: b.load(ids, [k])
        return (after, start_of(n), at(after), *body.results, total if kind == "kept" else before)

    none, zero = b.index(0), b.constant(0.0, float32)
    got = while_(b, [none, none, none, zero, zero], lambda n, *_: b.lt(n, 3), row)
    b.store(out, [i], b.add(got[3], got[4]))
    b.yield_()
    return expand(f)


@pytest.mark.parametrize("kind", ["plain", "read", "kept", "numbered"])
def test_rows_that_are_found_early(kind: str) -> None:
    """Nothing that iterations do may say where the next row is, or be looked at between rows."""
    f = _with_rows(kind)
    verify(f)
    filters = find_filters(f, [0, 1])
    assert len(find_rows(f, filters)) == (kind == "plain")
    verify(filter_loops.filter_loops(f, 512, [0, 1]))


@pytest.mark.parametrize("seed", [0, *(tail(first) for first in range(4, 400, 4))])
def test_random_loops(seed: int) -> None:
    for k in range(seed, seed + 4):
        random_filters.check(k, compiled=seed > 0)


@pytest.mark.parametrize("seed", seeds(300, few=3))
def test_random_neighbours(seed: int) -> None:
    random_neighbours.check(seed)


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
