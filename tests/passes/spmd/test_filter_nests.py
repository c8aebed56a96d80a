"""Loops around loops that look for few things: what all rounds find runs at the end, in the same order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.verify import verify
from warp_like.passes.spmd import filter_lists, filter_nests
from warp_like.passes.spmd.filter_loops import filter_loops
from warp_like.passes.spmd.filter_nests import find_nests
from warp_like.passes.spmd.filters import find_filters

FLOATS, NUMBERS, POINTS = wp.array(dtype=float), wp.array(dtype=int), wp.array(dtype=wp.vec3)
APART = [4, 5]
"""``out`` and ``count``."""


@wp.func
def square(a: wp.vec3, b: wp.vec3):
    return wp.dot(a - b, a - b)


@wp.kernel
def cells(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """Neighbours by a list of cells on a ring of 4: the order in which they are found shows."""
    i = wp.tid()
    n, total = 0, 0.0
    reach = starts.shape[0] - 4
    for a in range(-reach, reach + 1):
        if a == 1 and i % 2 == 1:
            continue
        for b in range(reach + 1):
            c = (i + a + 4) % 4
            near = c == i % 4
            for k in range(starts[c] + b, starts[c + 1]):
                j = order[k]
                if near and j == i:
                    continue
                if square(x[j], x[i]) < r:
                    total = 0.75 * total + float(a * 8 + b * 2 + k)
                    if near:
                        n += 3
                    n += 1
    out[i] = total
    count[i] = n


@wp.kernel
def listed(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """Nothing is carried but by memory."""
    i = wp.tid()
    for c in range(starts.shape[0] - 1):
        for k in range(starts[c], starts[c + 1]):
            if square(x[order[k]], x[i]) < r:
                count[i] += 1
                out[i] = 0.5 * out[i] + float(k)


@wp.kernel
def rewritten(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """What a row begins with is written by the rows before it."""
    i = wp.tid()
    for c in range(starts.shape[0] - 1):
        most = count[i]
        for k in range(starts[c], starts[c + 1]):
            if square(x[order[k]], x[i]) < r:
                count[i] += 1
                out[i] += float(most)


@wp.kernel
def enough(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """Rows ask how many were found."""
    i = wp.tid()
    n = 0
    for c in range(starts.shape[0] - 1):
        if n < 2:
            for k in range(starts[c], starts[c + 1]):
                if square(x[order[k]], x[i]) < r:
                    n += 1
    count[i] = n


@wp.kernel
def of_rows(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """Each row adds something by itself."""
    i = wp.tid()
    total = 0.0
    for c in range(starts.shape[0] - 1):
        row = 0.0
        for k in range(starts[c], starts[c + 1]):
            if square(x[order[k]], x[i]) < r:
                row += 1.0
        total += row * row
    out[i] = total


@wp.kernel
def marked(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """Rows write themselves."""
    i = wp.tid()
    for c in range(starts.shape[0] - 1):
        out[i] = float(c)
        for k in range(starts[c], starts[c + 1]):
            if square(x[order[k]], x[i]) < r:
                count[i] += int(out[i])


@wp.kernel
def wrapped(x: POINTS, starts: NUMBERS, order: NUMBERS, r: float, out: FLOATS, count: NUMBERS):
    """Divisions in a branch, which an outer loop may do; where the branch is not taken, they are by 0 and overflow."""
    i = wp.tid()
    q, reach = starts[0] % 3, starts.shape[0] - 3
    n, total = 0, 0.0
    for a in range(-reach, reach + 1):
        for b in range(reach + 1):
            if q > 0:
                c = (i + a) % q
                if c < 0:
                    c = c + q
                most = (a - 2147483646) / (q - 1 - 2 * (q // 2)) + b / q
                for k in range(starts[c] + b, starts[c + 1]):
                    if square(x[order[k]], x[i]) < r:
                        total = 0.75 * total + float(most % 8 + c)
                        n += 1
    out[i] = total
    count[i] = n


LEVELS = {cells: 3, wrapped: 3, listed: 1, rewritten: 0, enough: 0, of_rows: 0, marked: 0}
"""How many loops and branches lead to the loop of candidates."""


def function_of(kernel: Any) -> Function:
    return optimised(kernel.source, Signature(kernel.types))


def arguments(n: int, r: float) -> list[Any]:
    """Few points, of which cells take several, and negative indices, which count from the end."""
    rng = np.random.default_rng(n)
    x = rng.integers(-4, 5, (n, 3)).astype(np.float32) / 2
    starts = np.sort(rng.integers(0, 41, 5)).astype(np.int32)
    order = rng.integers(-n, n, 41).astype(np.int32)
    return [x, starts, order, r, np.zeros(n, np.float32), np.zeros(n, np.int32)]


@pytest.mark.parametrize("kernel", LEVELS, ids=lambda k: k.key)
def test_what_leads_to_a_loop(kernel: Any) -> None:
    f = function_of(kernel)
    filters = find_filters(f, APART)
    assert len(filters) == 1
    found = find_nests(f, filters, APART)
    assert [len(nest.levels) for nest in found] == [LEVELS[kernel]] * bool(LEVELS[kernel])
    assert find_nests(f, filters, []) == found[: kernel in (cells, wrapped)]  # they write behind the loops alone


def test_divisions_leave_the_loops_in_which_they_stay_the_same() -> None:
    f = function_of(wrapped)
    (nest,) = find_nests(f, find_filters(f, APART), APART)
    divisions = [
        [o.args for o in given if isinstance(o, ops.Apply) and o.fn in ("div", "floordiv", "mod")]
        for given in nest.hoisted()
    ]
    outer, inner = (level.body.params[0] for level in nest.levels[:2] if isinstance(level, ops.For))
    assert [len(d) for d in divisions[1:]] == [2, 0, 1]  # that of the inner counter stays in its branch
    assert inner in divisions[3][0]
    assert all(outer in a.op.operands() for a, _ in divisions[1] if a.op is not None)


@pytest.mark.parametrize("kernel", LEVELS, ids=lambda k: k.key)
@pytest.mark.parametrize(("bits", "gathers"), [(256, False), (512, True)])
def test_all_is_as_before(kernel: Any, bits: int, gathers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_lists, "LISTED", 32)  # so that lists and tables are filled
    monkeypatch.setattr(filter_nests, "ROWS", 2)
    f = function_of(kernel)
    g = filter_loops(clone_function(f), bits, APART, gathers=gathers)
    verify(g)
    for n, r in [(1, 1.0), (5, 6.0), (7, 0.0), (6, np.inf)]:
        expected, got = arguments(n, r), arguments(n, r)
        run(f, expected, (n,))
        run_lanes(g, got, (n,))
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("r", [0.02, 0.3, 10.0])
def test_compiled(r: float) -> None:
    """``cells`` and ``listed`` with long lists; for ``r`` of 10, all candidates are found."""
    n = 600
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, (n, 3)).astype(np.float32)
    order = rng.permutation(n).astype(np.int32)
    starts = np.array([0, 3, 3, 290, 600], np.int32)
    near = ((x[:9, None].astype(np.float64) - x) ** 2).sum(-1) < r
    given = [wp.array(x, dtype=wp.vec3), wp.array(starts), wp.array(order), r]
    out, count = wp.zeros(9, dtype=float), wp.zeros(9, dtype=int)
    wp.launch(listed, 9, [*given, out, count], options={"vector_width": 1})
    np.testing.assert_array_equal(count.numpy(), near.sum(1))
    last = [0.0] * 9
    for i, k in itertools.product(range(9), range(n)):
        last[i] = float(np.float32(0.5 * last[i] + k)) if near[i, order[k]] else last[i]
    np.testing.assert_array_equal(out.numpy(), last)
    wp.launch(wrapped, 9, [*given, out, count], options={"vector_width": 1})  # nothing, by 0
    np.testing.assert_array_equal(count.numpy(), np.zeros(9))
    wp.launch(cells, 9, [*given, out, count], options={"vector_width": 1})
    for i in range(9):
        found = 0
        for a, b in itertools.product((-1, 0, 1), (0, 1)):
            c = (i + a + 4) % 4
            j = order[starts[c] + b : starts[c + 1]] if not (a == 1 and i % 2) else order[:0]
            found += (near[i, j] & ((c != i % 4) | (j != i))).sum() * (4 if c == i % 4 else 1)
        assert count.numpy()[i] == found
