"""Loops along rows of lanes: what several iterations at once give, and which loops are left as they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import crossed, name
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.verify import verify
from warp_like.passes.spmd.consecutive import load_consecutively
from warp_like.passes.spmd.widen import widen

Rows = wp.array2d(dtype=float)


@wp.kernel
def sums(x: Rows, out: Rows):
    i = wp.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * float(k)
    out[i, 0] = total


@wp.kernel
def squares(x: Rows, out: Rows):
    i = wp.tid()
    own = wp.zeros(shape=23, dtype=float)
    for k in range(3, x.shape[1]):
        own[k] = x[i, k - 3]
    for k in range(2, x.shape[1]):
        out[i, k] = own[k] * own[k - 2]


@wp.kernel
def flat(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    own = wp.zeros(shape=22, dtype=wp.float64)
    for k in range(21):
        own[k] = x[21 * i + k]
    for k in range(21):
        out[21 * i + k] = own[20 - k]


@wp.kernel
def chosen(x: Rows, rows: wp.array(dtype=int), out: Rows):
    """Rows in any order."""
    i = wp.tid()
    row = rows[i]
    for k in range(x.shape[1]):
        out[i, k] = float(k)
    total = 0.0
    for k in range(x.shape[1]):
        total += x[row, k]
    out[i, 0] = total


@wp.kernel
def between(x: Rows, out: Rows, lo: int, hi: int):
    i = wp.tid()
    total = 0.0
    for k in range(wp.max(lo, 0), hi):
        total += x[i, k]
    out[i, 0] = total


@wp.kernel
def scaled(x: Rows, out: Rows):
    """The second loop uses what replaces the result of the first one."""
    i = wp.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    largest = 0.0
    for k in range(x.shape[1]):
        largest = wp.max(largest, x[i, k] * total)
    out[i, 0] = largest


@wp.kernel
def lines(x: Rows, out: Rows):
    """Rows whose length is known: a whole line at once, where there are as many lanes."""
    i = wp.tid()
    own = wp.zeros(shape=32, dtype=float)
    for k in range(32):
        own[k] = x[i, k]
    for k in range(32):
        out[i, k] = own[k] + own[31 - k]


@wp.kernel
def lines_of_doubles(x: wp.array2d(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
    i = wp.tid()
    own = wp.zeros(shape=32, dtype=wp.float64)
    for k in range(32):
        own[k] = x[i, k + 2]
    for k in range(32):
        out[i, k + 1] = own[31 - k]


def table(rows: int = 37, columns: int = 23, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(columns).standard_normal((rows, columns)).astype(dtype)


CASES: dict[Any, Callable[[], list[Any]]] = {
    sums: lambda: [table(), np.zeros((37, 1), np.float32)],
    squares: lambda: [table(), np.zeros((37, 23), np.float32)],
    flat: lambda: [table(37, 21, np.float64).ravel(), np.zeros(37 * 21)],
    chosen: lambda: [
        table(),
        np.random.default_rng(1).permutation(37).astype(np.int32),
        np.zeros((37, 23), np.float32),
    ],
    scaled: lambda: [table(), np.zeros((37, 1), np.float32)],
    lines: lambda: [table(37, 33), np.zeros((37, 33), np.float32)],
    lines_of_doubles: lambda: [table(37, 35, np.float64), np.zeros((37, 34))],
    between: lambda: [table(37, 60), np.zeros((37, 1), np.float32), 2, 29],
}


def thread_code(kernel: Any) -> Function:
    return optimised(kernel.source, Signature(kernel.types))


def consecutive(f: Function) -> list[ops.Op]:
    return [o for o in f.body.walk() if isinstance(o, (ops.LoadConsecutive, ops.StoreConsecutive))]


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("kernel", CASES, ids=lambda k: k.key)
def test_lanes_do_what_threads_do(kernel: Any, width: int):
    f = thread_code(kernel)
    wanted, got = CASES[kernel](), CASES[kernel]()
    run(f, wanted, (37,))
    g = load_consecutively(widen(f, width))
    verify(g)
    assert consecutive(g)
    run_lanes(g, got, (37,))
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize(("kernel", "width"), crossed(CASES, [2, 4, 8, 16, 32], every=3), ids=name)
def test_compiled(kernel: Any, width: int):
    """Also rows that lie apart, and columns: elements that do not follow on each other."""
    for change in (lambda a: a, lambda a: a[::-1], lambda a: np.repeat(a, 2, axis=-1)[..., ::2], np.asfortranarray):
        wanted, got = CASES[kernel](), CASES[kernel]()
        got = [change(a) if isinstance(a, np.ndarray) and a.dtype != np.int32 else a for a in got]
        for k, a in enumerate(got):
            if isinstance(a, np.ndarray):
                wanted[k] = np.ascontiguousarray(a)
        wp.launch(kernel, 37, wanted, options={"vector_width": 1})
        wp.launch(kernel, 37, got, options={"vector_width": width})
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lo, hi", [(5, 2), (8, -9), (0, 3), (1, 5), (-30, 30), (7, 7), (3, -(2**31))])
def test_bounds(lo: int, hi: int):
    x, got = table(37, 60), np.zeros((37, 1), np.float32)
    wp.launch(between, 37, [x, got, lo, hi], options={"vector_width": 4})
    lo = max(lo, 0)
    np.testing.assert_allclose(got[:, 0], x[:, lo : max(hi, lo)].sum(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kernel", "width", "count"), [(lines, 16, 16), (lines, 8, 8), (lines, 32, 16), (sums, 16, 4)])
def test_lines(kernel: Any, width: int, count: int):
    """As many elements at once as a line of the cache has, if there are as many lanes and the rows have whole lines."""
    found = consecutive(load_consecutively(widen(thread_code(kernel), width)))
    numbers = {len(o.results if isinstance(o, ops.LoadConsecutive) else o.values) for o in found}  # type: ignore[attr-defined]
    assert numbers == {count}


# --- loops that are left ---


@wp.kernel
def in_place(x: Rows, out: Rows):
    """Each element is made of the one before it, which is why no load may happen earlier."""
    i = wp.tid()
    for k in range(1, x.shape[1]):
        out[i, k] = x[i, k] + out[i, k - 1]


@wp.kernel
def two_stores(x: Rows, out: Rows):
    """Where both arrays are one, the second store of an iteration is overwritten by the first of the next one."""
    i = wp.tid()
    for k in range(x.shape[1] - 1):
        x[i, k] = float(k)
        out[i, k + 1] = -float(k)


@wp.kernel
def reads_elsewhere(x: Rows, out: Rows):
    i = wp.tid()
    for k in range(1, x.shape[1]):
        out[i, k] = x[0, k - 1]


@wp.kernel
def by_twos(x: Rows, out: Rows):
    i = wp.tid()
    total = 0.0
    for k in range(0, x.shape[1], 2):
        total += x[i, k]
    for k in range(x.shape[1] // 2):
        total += x[i, 2 * k]
    out[i, 0] = total


@wp.kernel
def wraps(x: Rows, out: Rows, start: wp.uint32):
    """An index that may begin again at 0 in the middle of the loop."""
    i = wp.tid()
    total = 0.0
    for k in range(8):
        total += x[i, start + wp.uint32(k)] * float(k)
    out[i, 0] = total


@wp.kernel
def own_ends(x: Rows, out: Rows):
    """Lanes leave the loop one after the other."""
    i = wp.tid()
    total = 0.0
    for k in range(i % 23):
        total += x[i, k]
    out[i, 0] = total


@wp.kernel
def adds(x: Rows, out: Rows):
    i = wp.tid()
    for k in range(x.shape[1]):
        wp.atomic_add(out, 0, k, x[i, k])


LEFT: dict[Any, list[Any]] = {
    in_place: [],
    two_stores: [],
    reads_elsewhere: [],
    by_twos: [],
    wraps: [np.uint32(2)],
    own_ends: [],
    adds: [],
}


@pytest.mark.parametrize("kernel", LEFT, ids=lambda k: k.key)
def test_loops_that_are_left(kernel: Any):
    """They compute the same in lanes, also where both arrays are one."""
    assert not consecutive(load_consecutively(widen(thread_code(kernel), 4)))
    x = table()
    wanted, got = x.copy(), x.copy()
    wp.launch(kernel, 37, [wanted, wanted, *LEFT[kernel]], options={"vector_width": 1})
    wp.launch(kernel, 37, [got, got, *LEFT[kernel]], options={"vector_width": 4})
    if kernel is not reads_elsewhere:  # whose threads race then
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
