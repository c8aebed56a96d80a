"""If, For and While: every shape of loop, nesting, carried values of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.running import Kernel, check
from tests.ir_builder import branch, loop, start, tid, while_
from tests.long_tail import crossed, name
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import (
    Array,
    Mat,
    Scalar,
    Vec,
    bool_,
    float32,
    int8,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)

INTS1 = Array(int32, 1)


def counting(t: Scalar, lo: int | None, hi: int | None, step: int | None) -> Function:
    """Sums the indices and counts the trips of a loop; a bound that is None comes from memory."""
    f, b = start("counting", bounds=Array(t, 2), out=Array(t, 2))
    bounds, out = f.params
    i = tid(b)
    given = [b.load(bounds, [i, b.index(k)]) if v is None else b.constant(v, t) for k, v in enumerate((lo, hi, step))]
    zero = b.zero(t)
    with loop(b, *given, init=[zero, zero]) as each:
        total, trips = each.carried
        each.next = (b.add(b.mul(total, 3), each.i), b.add(trips, 1))
    for k, v in enumerate(each.results):
        b.store(out, [i, b.index(k)], v)
    b.yield_()
    return f


@pytest.mark.parametrize(
    ("step", "t"), crossed([1, 3, None], [int32, int64, uint32, uint64, int8, uint8], every=2), ids=name
)
def test_counted_loop(t: Scalar, step: int | None) -> None:
    top = np.iinfo(str(t)).max
    rows = [
        (0, 10, 1),
        (5, 5, 1),
        (7, 3, 2),
        (2, 11, 3),
        (top - 5, top, 1),
        (top - 4, top, 3),
        (top - 4, top - 1, 3),
    ]
    bounds = np.array(rows, str(t))
    check(counting(t, None, None, step), [bounds, np.zeros((len(rows), 2), str(t))], (len(rows),))


@pytest.mark.parametrize("t", [int32, int64, int8], ids=str)
@pytest.mark.parametrize("step", [-1, -3, None])
def test_loop_counts_down(t: Scalar, step: int | None) -> None:
    low = np.iinfo(str(t)).min
    rows = [(10, 0, -1), (5, 5, -1), (3, 7, -2), (11, -2, -3), (low + 4, low, -1), (low + 4, low, -3)]
    check(
        counting(t, None, None, step),
        [np.array(rows, str(t)), np.zeros((len(rows), 2), str(t))],
        (len(rows),),
    )


def test_step_of_zero_runs_never() -> None:
    out = np.full((2, 2), 9, "i")
    Kernel(counting(int32, None, None, None))([np.array([(0, 5, 0), (5, 0, 0)], "i"), out], (2,))
    np.testing.assert_array_equal(out, 0)


def test_constant_bounds() -> None:
    check(counting(int32, 2, 9, 2), [np.zeros((3, 3), "i"), np.zeros((3, 2), "i")], (3,))


def test_nested_loops_carry_aggregates() -> None:
    v, m = Vec(3, float32), Mat(2, 2, float32)
    f, b = start("nested", x=Array(v, 2), n=int32, out=Array(v, 1), outm=Array(m, 1))
    x, n, out, outm = f.params
    i = tid(b)
    with loop(b, 0, n, init=[b.zero(v), b.zero(m)]) as outer:
        acc, mat = outer.carried
        with loop(b, outer.i, n, init=[acc]) as inner:
            inner.next = (b.add(inner.carried[0], b.load(x, [i, inner.i])),)
        (s,) = inner.results
        outer.next = (s, b.insert_component(mat, b.extract(s, 1), b.mod(outer.i, 2), 0))
    b.store(out, [i], outer.results[0])
    b.store(outm, [i], outer.results[1])
    b.yield_()
    x_ = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("f")
    check(f, [x_, 5, np.zeros((4, 3), "f"), np.zeros((4, 2, 2), "f")], (4,), rtol=1e-5)


def test_if_yields_values_of_every_kind() -> None:
    v = Vec(2, float32)
    f, b = start("choices", x=Array(float32, 1), v=Array(v, 1), flags=Array(bool_, 1))
    x, w, flags = f.params
    i = tid(b)
    value = b.load(x, [i])
    positive = b.gt(value, 0.0)
    a, vec, flag = branch(
        b,
        positive,
        lambda: (b.sqrt(value), b.load(w, [i]), b.true()),
        lambda: branch(
            b, b.lt(value, -1.0), lambda: (b.neg(value), b.zero(v), b.constant(False, bool_)),
            lambda: (value, b.constant((1.0, 2.0), v), b.true()),
        ),
    )  # fmt: skip
    b.store(x, [i], a)
    b.store(w, [i], vec)
    b.store(flags, [i], flag)
    b.yield_()
    rng = np.random.default_rng(1)
    check(
        f,
        [rng.normal(size=50).astype("f") * 2, rng.normal(size=(50, 2)).astype("f"), np.zeros(50, bool)],
        (50,),
    )


def test_if_without_results_stores_in_one_branch() -> None:
    f, b = start("one_branch", x=Array(float32, 1))
    i = tid(b)
    value = b.load(f.params[0], [i])

    def store() -> tuple[()]:
        b.store(f.params[0], [i], b.constant(7.0, float32))
        return ()

    branch(b, b.gt(value, 0.0), store)
    b.yield_()
    check(f, [np.random.default_rng(2).normal(size=100).astype("f")], (100,))


def test_while_with_break_flag() -> None:
    """The Collatz length, by a loop with two carried values and a flag."""
    f, b = start("collatz", n=INTS1, out=INTS1)
    i = tid(b)
    n0 = b.load(f.params[0], [i])

    def body(n, steps, going):
        even = b.eq(b.mod(n, 2), 0)
        following = b.select(even, b.div(n, 2), b.add(b.mul(n, 3), 1))
        return following, b.add(steps, 1), b.gt(following, 1)

    _, steps, _ = while_(b, [n0, b.index(0), b.gt(n0, 1)], lambda n, s, g: g, body)
    b.store(f.params[1], [i], steps)
    b.yield_()
    check(f, [np.arange(1, 60, dtype="i"), np.zeros(59, "i")], (59,))


def test_while_carries_an_array_index() -> None:
    """A linked list: the index of the next element is the one carried."""
    f, b = start("chain", link=INTS1, out=INTS1)
    link, out = f.params
    i = tid(b)

    def body(at, n):
        return b.load(link, [at]), b.add(n, 1)

    _, n = while_(b, [i, b.index(0)], lambda at, n: b.ge(at, 0), body)
    b.store(out, [i], n)
    b.yield_()
    check(f, [np.array([2, 0, 4, -1, 3], "i"), np.zeros(5, "i")], (5,))


def test_views_as_results_of_if() -> None:
    f, b = start("views", x=Array(float32, 2), y=Array(float32, 1))
    x, y = f.params
    i = tid(b)
    even = b.eq(b.mod(i, 2), 0)
    (row,) = branch(b, even, lambda: (b.view(x, [i]),), lambda: (b.view(x, [b.index(0)]),))
    b.store(y, [i], b.add(b.load(row, [b.index(1)]), b.cast(b.dim(row, 0), float32)))
    b.yield_()
    x_ = np.arange(12, dtype="f").reshape(4, 3)
    check(f, [x_, np.zeros(4, "f")], (4,))
    check(f, [x_[:, ::-1], np.zeros(4, "f")], (4,))


def test_loop_carried_array() -> None:
    f, b = start("carried_view", x=Array(float32, 2), y=Array(float32, 1))
    x, y = f.params
    first = b.view(x, [b.index(0)])
    with loop(b, 0, 3, init=[first]) as each:
        each.next = (b.view(x, [each.i]),)
    b.store(y, [tid(b)], b.load(each.results[0], [tid(b)]))
    b.yield_()
    check(f, [np.arange(6, dtype="f").reshape(3, 2), np.zeros(2, "f")], (2,))


def test_index_arithmetic_wraps() -> None:
    """An int32 index expression that wraps on the way, there and back, addresses the right element."""
    f, b = start("wide_index", x=INTS1, k=int32)
    x, k = f.params
    far = b.mul(k, 4)
    b.store(x, [b.sub(far, far)], b.index(1))
    b.store(x, [b.add(b.sub(b.mul(k, k), b.mul(k, b.sub(k, 1))), b.sub(1, k))], b.index(2))
    b.yield_()
    x_ = np.zeros(3, "i")
    Kernel(f)([x_, 2_000_000_000], (1,))
    np.testing.assert_array_equal(x_, [1, 2, 0])


def test_unknown_lowering_is_a_bug_of_the_compiler() -> None:
    f, b = start("call", x=float32)
    b.clamp(f.params[0], 0.0, 1.0)
    b.yield_()
    with pytest.raises(AssertionError, match="clamp"):
        Kernel(f)
    assert isinstance(f.body.ops[-2], ops.Apply)
