"""Where code polls, what it computes around a poll, and that LLVM may not take loops for finite."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.running import DEFAULT, Kernel, check
from tests.interpreter import run
from tests.ir_builder import branch, count, loop, start, tid, while_
from warp_like.backend.compile import lower_to_llvm, to_asm
from warp_like.backend.llvm.polls import FUEL
from warp_like.backend.target import Target, cuda_target, host_target
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Scalar, float32, int8, int32, int64, uint64
from warp_like.passes.spmd.widen import widen


def summing(t: Scalar, step: int, of: Scalar | None = None) -> Function:
    """Adds up a function of the index from one bound to another; of integers, LLVM vectorises that."""
    f, b = start("summing", bounds=Array(t, 2), out=Array(of or t, 1))
    bounds, out = f.params
    i = tid(b)
    lo, hi = (b.load(bounds, [i, b.index(k)]) for k in range(2))
    with loop(b, lo, hi, b.constant(step, t), init=[b.zero(of or t)]) as each:
        x = each.i if of is None else b.cast(each.i, of)
        each.next = (b.add(b.mul(each.carried[0], 3), x),)
    b.store(out, [i], each.results[0])
    b.yield_()
    return f


@pytest.mark.parametrize(
    ("t", "step"), [(int32, 1), (int32, -1), (int32, 7), (int64, 1), (int64, -1), (uint64, 1), (int8, 1)], ids=str
)
def test_strips_run_every_iteration_once(t: Scalar, step: int) -> None:
    info = np.iinfo(str(t))
    rows = [(0, n) for n in (0, 1, 100, 5000, 9001) if n <= info.max]
    rows += [(info.max - 3, info.max), (info.max - min(5000, info.max), info.max), (info.max, 0), (5, 5)]
    if step < 0:
        rows = [(hi, lo) for lo, hi in rows]
    check(summing(t, step), [np.array(rows, str(t)), np.zeros(len(rows), str(t))], (len(rows),))


def test_long_loops_poll_and_go_on() -> None:
    """Each iteration takes fuel, or each strip; the sum is right in spite of what the poll does to registers."""
    for of in (None, float32):
        kernel = Kernel(summing(int32, 1, of))
        out = np.zeros(1, "f" if of else "i")
        kernel([np.array([(0, 3 * FUEL)], "i"), out], (1,))
        assert 2 <= kernel.runtime.polls < 40
        kernel.runtime.polls = 0
        kernel([np.array([(0, 100)], "i"), out], (1,))
        assert kernel.runtime.polls == 0


def test_lanes_keep_their_values_across_a_poll() -> None:
    """Python runs in the poll here, and leaves no vector register as it was."""
    f, b = start("iterate", x=Array(float32, 1), n=int32)
    x, n = f.params
    i = tid(b)
    first = b.load(x, [i])
    powers = [b.mul(first, float(k + 1)) for k in range(12)]
    with loop(b, 0, n, init=powers) as each:
        each.next = tuple(b.add(b.mul(v, 0.5), float(k)) for k, v in enumerate(each.carried))
    total = each.results[0]
    for v in each.results[1:]:
        total = b.add(total, v)
    b.store(x, [i], b.add(total, first))
    b.yield_()
    lanes = widen(f, 8)
    given = np.arange(19, dtype=np.float32)
    wanted, got = given.copy(), given.copy()
    run(f, [wanted, 60], (19,))  # the values converge
    kernel = Kernel(lanes)
    kernel([got, FUEL // 8], (19,))
    assert kernel.runtime.polls > 2
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_a_nest_of_short_loops_shares_its_fuel() -> None:
    f, b = start("nest", n=int32, out=Array(int32, 1))
    n, out = f.params
    with loop(b, 0, n, init=[b.zero(int32)]) as outer:
        with loop(b, 0, 10, init=[outer.carried[0]]) as middle:
            with loop(b, 0, n, init=[middle.carried[0]]) as inner:
                inner.next = (b.add(b.mul(inner.carried[0], 5), inner.i),)
            middle.next = inner.results
        outer.next = middle.results
    b.store(out, [b.index(0)], outer.results[0])
    b.yield_()
    kernel = Kernel(f)
    kernel([300, np.zeros(1, "i")], (1,))
    assert kernel.runtime.polls > 5


def test_the_loop_over_threads_polls_where_they_have_loops() -> None:
    f = summing(int32, 1, float32)
    kernel = Kernel(f)
    n = FUEL // 8
    kernel([np.array([(0, 4)] * n, "i"), np.zeros(n, "f")], (n,))
    assert kernel.runtime.polls > 1


def while_kernel() -> Function:
    f, b = start("halving", x=Array(float32, 1))
    (x,) = f.params
    i = tid(b)
    value = b.load(x, [i])
    (last,) = while_(b, [value], lambda v: b.gt(v, 1.0), lambda v: (b.mul(v, 0.5),))
    b.store(x, [i], last)
    b.yield_()
    return f


@pytest.mark.parametrize("make", [while_kernel, lambda: summing(int32, 1)])
def test_no_code_says_that_its_loops_end(make: type) -> None:
    f = make()
    assert "wl_saved_poll" in lower_to_llvm(f, host_target(), DEFAULT)
    for target in (host_target(), cuda_target("sm_80")):
        assert "mustprogress" not in lower_to_llvm(f, target, DEFAULT)
    assert "wl_poll" not in lower_to_llvm(f, cuda_target("sm_80"), DEFAULT)


@pytest.mark.parametrize(
    ("cpu", "features", "triple"),
    [
        ("x86-64", "", "x86_64-unknown-linux-gnu"),
        ("skylake-avx512", "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx2,+fma", "x86_64-unknown-linux-gnu"),
        ("neoverse-n1", "+neon", "aarch64-unknown-linux-gnu"),
        ("apple-m1", "+neon", "arm64-apple-macosx"),
    ],
)
def test_other_processors(cpu: str, features: str, triple: str) -> None:
    """Nothing clears the upper halves of registers behind the poll, which has restored them."""
    asm = to_asm(widen(while_kernel(), 16), Target("cpu", cpu, features, triple), DEFAULT)
    assert "vzeroupper" not in asm[asm.index("wl_saved_poll:") :]


def test_code_without_loops_has_no_polls() -> None:
    f, b = start("scale", x=Array(float32, 1))
    (x,) = f.params
    i = tid(b)
    with loop(b, 0, 8, init=[b.load(x, [i])]) as each:
        each.next = (b.mul(each.carried[0], 2.0),)
    b.store(x, [i], each.results[0])
    b.yield_()
    assert count(f, ops.For) == 1
    assert "wl_poll" not in lower_to_llvm(f, host_target(), DEFAULT)


def bounded(most: int | None) -> Function:
    """A loop that runs as often as an element of ``n`` says, but at most ``most`` times."""
    f, b = start("bounded", n=Array(int32, 1), out=Array(int32, 1))
    n, out = f.params
    i = tid(b)
    bound = b.load(n, [i])
    with loop(
        b, 0, bound if most is None else b.select(b.lt(bound, most), bound, b.index(most)), init=[b.zero(int32)]
    ) as each:
        each.next = (b.add(b.mul(each.carried[0], 3), each.i),)
    b.store(out, [i], each.results[0])
    b.yield_()
    return f


@pytest.mark.parametrize("lanes", [1, 8])
def test_loops_whose_bounds_are_small_do_not_poll(lanes: int) -> None:
    def polls(most: int | None) -> int:
        f = bounded(most)
        return lower_to_llvm(f if lanes == 1 else widen(f, lanes), host_target(), DEFAULT).count("@wl_saved_poll")

    assert polls(10) == 0
    assert polls(100_000) == polls(None) > 0
    assert lanes > 1 or 0 < polls(1200) < polls(None)


def test_many_threads_with_bounded_loops_poll() -> None:
    """Threads take 10 units or 3,600: polls are neither frequent for those nor rare for these."""
    kernel, threads = Kernel(bounded(1200)), 4096
    kernel([np.full(threads, 1200, "i"), np.zeros(threads, "i")], (threads,))
    assert 1 <= kernel.runtime.polls <= 8


def branching(length: int, deep: bool, looping: bool) -> Function:
    """Threads, or iterations of their loop, go into a branch of ``length`` roots where an element is 1.

    The branch is in another one if ``deep``, which is as long where an element is not 0.
    """
    f, b = start("branching", way=Array(int32, 1), n=int32, out=Array(float32, 1))
    way, n, out = f.params
    i = tid(b)
    taken = b.load(way, [i])

    def roots(x: Value) -> Value:
        for _ in range(length):
            x = b.apply("sqrt", b.add(x, 1.0))
        return x

    def step(x: Value) -> Value:
        def inner(x: Value) -> Value:
            return branch(b, b.eq(taken, 1), lambda: (roots(x),), lambda: (x,))[0]

        if not deep:
            return inner(x)
        return branch(b, b.ne(taken, 0), lambda: (roots(inner(x)),), lambda: (x,))[0]

    first = b.constant(0.5, float32)
    if looping:
        with loop(b, 0, n, init=[first]) as each:
            each.next = (step(each.carried[0]),)
        (last,) = each.results
    else:
        last = step(first)
    b.store(out, [i], last)
    b.yield_()
    return f


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("looping", [True, False])
@pytest.mark.parametrize("deep", [False, True])
def test_branches_take_fuel_where_they_run(lanes: int, looping: bool, deep: bool) -> None:
    """They take as much as they cost: no threads do if none goes there, all do if all go there."""
    length, trips, threads = 150, *((20, 320) if looping else (1, 1800))
    f = branching(length, deep, looping)
    kernel = Kernel(f if lanes == 1 else widen(f, lanes))
    polls = {}
    for way in (0, 1, 2):
        got = np.zeros(threads, "f")
        kernel.runtime.polls = 0
        kernel([np.full(threads, way, "i"), trips, got], (threads,))
        polls[way] = kernel.runtime.polls
        times = {0: 0, 1: 2 if deep else 1, 2: 1 if deep else 0}[way]
        x = np.float32(0.5)
        for _ in range(times * length * trips):
            x = np.sqrt(x + np.float32(1))
        np.testing.assert_allclose(got, x, rtol=1e-6)
        units = 16 * length * trips * times * threads // lanes
        assert units // FUEL <= polls[way] <= 2 * units // FUEL + 1
    assert polls[0] == 0
    assert polls[1] > 0


@pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="names x86's instructions")
def test_strips_are_vectorised() -> None:
    f, b = start("dot", x=Array(int32, 1), y=Array(int32, 1), n=int32, out=Array(int32, 1))
    x, y, n, out = f.params
    with loop(b, 0, n, init=[b.zero(int32)]) as each:
        each.next = (b.add(each.carried[0], b.mul(b.load(x, [each.i]), b.load(y, [each.i]))),)
    b.store(out, [b.index(0)], each.results[0])
    b.yield_()
    assert "pmulld" in to_asm(f, host_target(), DEFAULT.replace(contiguous=True))
