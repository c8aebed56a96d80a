"""How likely branches are, and how often loops run, for a thread and in lanes; and what the choice makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.cost import lane_cost, thread_cost
from warp_like.passes.spmd.likelihood import EQUAL, Likelihood, branching, goes_together, most_trips
from warp_like.passes.spmd.widen import widen


@wp.kernel
def equal(kind: wp.array(dtype=int), x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if kind[i] == 7:
        out[at[i]] = x[at[i]] * x[at[i] + 1] + x[at[i] + 2]


@wp.kernel
def unequal(kind: wp.array(dtype=int), x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] != 0.0:
        out[at[i]] = x[at[i]] * x[at[i] + 1] + x[at[i] + 2]


@wp.kernel
def negative(kind: wp.array(dtype=int), x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if kind[i] < 0:
        out[at[i]] = x[at[i]] * x[at[i] + 1] + x[at[i] + 2]


@wp.kernel
def less(kind: wp.array(dtype=int), x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] < x[at[i]]:
        out[at[i]] = x[at[i]] * x[at[i] + 1] + x[at[i] + 2]


@wp.kernel
def both(kind: wp.array(dtype=int), x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    k = kind[i]
    if k == 2 and x[i] < x[at[i]]:
        out[at[i]] = x[at[i]] * x[at[i] + 1] + x[at[i] + 2]


@wp.kernel
def one_of_three(
    kind: wp.array(dtype=int), x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)
):
    i = wp.tid()
    k = kind[i]
    if k == 1:
        out[at[i]] = x[at[i]] * x[at[i] + 1] + x[at[i] + 2]
    if k == 4:
        out[at[i]] = x[at[i]] * x[at[i] + 1] - x[at[i] + 2]
    if k == 9:
        out[at[i]] = x[at[i]] * x[at[i] + 3] - x[at[i] + 2]


@wp.kernel
def pairs(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    found = 0
    for j in range(1, 10, 2):
        if x[i] * float(j) > 3.0:
            found = j
            break
    out[i] = float(found)


def scalar(kernel: Any) -> Any:
    return optimised(kernel.source, Signature(kernel.types))


SHARES = [(equal, EQUAL), (unequal, 1.0 - EQUAL), (negative, EQUAL), (less, 0.5), (one_of_three, 0.25)]


@pytest.mark.parametrize(("kernel", "share"), SHARES)
def test_shares_of_a_thread_and_in_lanes(kernel, share):
    f = scalar(kernel)
    branches = [o for o in f.body.walk() if isinstance(o, ops.If)]
    assert {Likelihood(f).of(o.cond) for o in branches} == {share}
    wide = widen(f, 16)
    conditions = [c for o in wide.body.walk() if isinstance(o, ops.If) and (c := branching(o)) is not None]
    assert len(conditions) == len(branches)
    assert {Likelihood(wide).of(c) for c in conditions} == {share}
    assert not any(map(goes_together, conditions))


def test_conditions_that_are_made_of_others():
    f = scalar(both)
    assert min(Likelihood(f).of(o.cond) for o in f.body.walk() if isinstance(o, ops.If)) == pytest.approx(EQUAL / 2)


def test_lanes_go_together_along_the_index():
    @wp.kernel
    def guarded(n: int, at: wp.array(dtype=int), x: wp.array(dtype=float)):
        i = wp.tid()
        if i < n and at[i] < 3:
            for k in range(50):
                x[at[i] + k] = wp.sin(x[at[i] + k])

    wide = widen(scalar(guarded), 16)
    found = [c for o in wide.body.walk() if isinstance(o, ops.If) and (c := branching(o)) is not None]
    assert [goes_together(c) for c in found] == [True, False]


def test_a_loop_with_a_break_runs_at_most_so_often():
    f = scalar(pairs)
    for g in (f, widen(f, 16)):
        (loop,) = [o for o in g.body.walk() if isinstance(o, ops.While)]
        assert most_trips(loop) == 5


def test_a_loop_that_counts_from_anywhere_may_run_any_number_of_times():
    @wp.kernel
    def count(n: wp.array(dtype=int), x: wp.array(dtype=float)):
        i = wp.tid()
        k = n[i]
        while k < 10 and x[k] > 0.0:
            k += 1
        n[i] = k

    f = scalar(count)
    assert [most_trips(o) for g in (f, widen(f, 8)) for o in g.body.walk() if isinstance(o, ops.While)] == [None, None]


def test_rare_gathers_leave_the_rest_in_lanes():
    """What a thread does once in a while does not decide, but what it often does."""

    def root(rare: bool) -> Any:
        @wp.kernel(module="unique")
        def kernel(kind: wp.array(dtype=int), at: wp.array(dtype=wp.uint32), x: wp.array(dtype=float)):
            i = wp.tid()
            v = wp.sqrt(x[i]) / (1.0 + x[i])
            if not wp.static(rare) or (kind[i] == 5 and x[i] == 0.5):
                for k in range(16):
                    v += x[at[i] + wp.uint32(7 * k)]
            x[i] = v

        return kernel

    choices = [choose(scalar(root(rare)), 512, 32, 0) for rare in (True, False)]
    assert [c.width for c in choices] == [16, 1]


def test_additions_to_elements_of_a_thread_are_no_atomics():
    @wp.kernel
    def add(at: wp.array(dtype=int), y: wp.array2d(dtype=float)):
        i = wp.tid()
        wp.atomic_add(y, i, at[i], 1.0)

    f = scalar(add)
    wide = widen(f, 16)
    assert thread_cost(f, 1, [1]) < thread_cost(f)
    assert lane_cost(wide, 1, [1]) < lane_cost(wide, 1)


def test_one_of_several_alternatives_in_lanes():
    rng = np.random.default_rng(3)
    n = 1003
    kind, at = rng.integers(-1, 10, n).astype(np.int32), rng.permutation(n).astype(np.int32)
    x, out = rng.random(n + 3).astype(np.float32), np.zeros(n, dtype=np.float32)
    wp.launch(one_of_three.with_options(vector_width=16), n, [kind, x, at, out])
    a, b, c, d = (x[at + k].astype(float) for k in range(4))
    expected = np.zeros(n)
    expected[at] = np.select([kind == 1, kind == 4, kind == 9], [a * b + c, a * b - c, a * d - c])
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
