"""Folding: arithmetic of each type, identities, aggregates, views, branches and loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import apply, evaluate
from tests.interpreter_values import cast_scalar
from tests.ir_builder import branch, count, expect, false, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import (
    Array,
    Mat,
    Quat,
    Type,
    Vec,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from warp_like.passes.arithmetic import compute, convert
from warp_like.passes.dce import dce
from warp_like.passes.fold import fold

VEC, MAT = Vec(3, float32), Mat(2, 2, float32)


def folded(build: Callable[..., Value], **params: Type) -> tuple[Value, Function]:
    """What the value that ``build`` returns folds to."""
    f, b = start("f", "func", (), **params)
    made = build(b, *f.params)
    b.yield_(made)
    f.results = (made.type,)
    dce(fold(f))
    return f.body.yielded[0], f


def constant(build: Callable[..., Value], **params: Type) -> Any:
    return ops.constant_value(folded(build, **params)[0])


def stays(build: Callable[..., Value], **params: Type) -> bool:
    """Whether ``build``'s last op is still there."""
    made: list[Value] = []

    def keep(*args: Value) -> Value:
        made.append(build(*args))
        return made[0]

    return folded(keep, **params)[0] is made[0]


# --- constants ----------------------------------------------------------------------------------------------

INTS = {
    int8: [-128, -7, -1, 0, 1, 3, 127],
    uint8: [0, 1, 3, 128, 255],
    int32: [-(2**31), -5, 0, 2, 31, 2**31 - 1],
}
INTS |= {int64: [-(2**63), 0, 3, 2**63 - 1], uint32: [0, 5, 2**32 - 1], uint64: [0, 9, 2**64 - 1]}
FLOATS = [-math.inf, -2.5, -1.0, -0.0, 0.0, 0.1, 1.0, 3.0, 65504.0, math.inf]
BINARY = ["add", "sub", "mul", "div", "mod", "lt", "le", "gt", "ge", "eq", "ne", "min", "max"]
BITS = ["bit_and", "bit_or", "bit_xor", "lshift", "rshift"]
COMPARISONS = BINARY[5:11]


@pytest.mark.parametrize("t", INTS, ids=str)
def test_integer_arithmetic_is_that_of_the_interpreter(t: Any) -> None:
    with np.errstate(all="ignore"):
        for fn in BINARY + BITS:
            result = bool_ if fn in COMPARISONS else t
            for x in INTS[t]:
                for y in INTS[t]:
                    got = compute(fn, [x, y], [t, t], result)
                    args = [np.dtype(str(t)).type(v) for v in (x, y)]
                    assert got is None or got == apply(fn, (t, t), args, (result,))[0], (fn, x, y)
                    assert got is not None or fn in ("min", "max"), (fn, x, y)


@pytest.mark.parametrize("t", [float16, float32, float64], ids=str)
def test_float_arithmetic_is_that_of_the_interpreter(t: Any) -> None:
    with np.errstate(all="ignore"):
        for fn in BINARY:
            result = bool_ if fn in COMPARISONS else t
            for x in FLOATS:
                for y in FLOATS:
                    got = compute(fn, [x, y], [t, t], result)
                    args = [np.dtype(str(t)).type(v) for v in (x, y)]
                    if got is not None:
                        assert repr(got) == repr(apply(fn, (t, t), args, (result,))[0].item()), (fn, x, y)


def test_arithmetic_rounds_in_its_type() -> None:
    narrow = np.float32(0.1) + np.float32(0.2)
    assert constant(lambda b: b.add(b.constant(0.1, float32), 0.2)) == float(narrow)
    assert constant(lambda b: b.add(b.constant(0.1, float64), 0.2)) == 0.1 + 0.2
    assert constant(lambda b: b.mul(b.constant(2**31 - 1, int32), 2)) == -2
    assert constant(lambda b: b.div(b.constant(-7, int32), 2)) == -3
    assert constant(lambda b: b.div(b.constant(-7, int32), 0)) == 0
    assert constant(lambda b: b.neg(b.constant(1, uint8))) == 255


def test_what_targets_may_compute_differently_is_left() -> None:
    assert stays(lambda b: b.div(b.constant(0.0, float32), 0.0))  # NaN
    assert stays(lambda b: b.add(b.constant(0.1, bfloat16), 0.2))
    assert stays(lambda b: b.apply("sin", b.constant(0.1, float32)))


@pytest.mark.parametrize("source", [*INTS, float32, float64, bool_], ids=str)
def test_casts_are_those_of_the_interpreter(source: Any) -> None:
    values = INTS.get(source, [True, False] if source == bool_ else [*FLOATS, 1e30, -129.7, 4e9])
    with np.errstate(all="ignore"):
        for to in [*INTS, float16, float32, float64, bool_]:
            dtype = np.bool_ if source == bool_ else np.dtype(str(source)).type
            for x in values:
                assert repr(convert(x, source, to)) == repr(cast_scalar(dtype(x), source, to).item()), (to, x)


def test_cast_of_nan_is_zero() -> None:
    assert convert(math.nan, float32, int32) == 0


# --- identities ---------------------------------------------------------------------------------------------


def test_neutral_elements_go() -> None:
    for build in (
        lambda b, x: b.add(x, -0.0),
        lambda b, x: b.add(b.constant(-0.0, float32), x),
        lambda b, x: b.sub(x, 0.0),
        lambda b, x: b.mul(x, 1.0),
        lambda b, x: b.mul(b.constant(1.0, float32), x),
        lambda b, x: b.div(x, 1.0),
        lambda b, x: b.neg(b.neg(x)),
        lambda b, x: b.min(x, x),
        lambda b, x: b.where(b.true(), x, b.zero(float32)),
        lambda b, x: b.where(b.lt(x, 0.0), x, x),
        lambda b, x: b.cast(b.cast(x, float64), float32),
    ):
        got, f = folded(build, x=float32)
        assert got is f.params[0]


def test_neutral_elements_of_vectors_go() -> None:
    assert folded(lambda b, v: b.add(b.constant(-0.0, VEC), v), v=VEC)[0].hint == "v"
    assert folded(lambda b, v: b.mul(v, b.constant(1, float32)), v=VEC)[0].hint == "v"
    assert folded(lambda b, v: b.mul(b.constant(1, float32), v), v=VEC)[0].hint == "v"
    assert folded(lambda b, m: b.div(m, b.constant(1, float32)), m=MAT)[0].hint == "m"
    assert stays(lambda b, m: b.mul(m, b.constant(1, MAT)), m=MAT)  # the matrix of ones is not the identity


def test_zeros_that_change_the_sign_of_a_zero_stay() -> None:
    assert stays(lambda b, x: b.add(x, 0.0), x=float32)
    assert stays(lambda b, x: b.add(b.zero(float32), x), x=float32)
    assert stays(lambda b, x: b.sub(x, -0.0), x=float32)
    assert stays(lambda b, v: b.add(b.zero(VEC), v), v=VEC)
    for build in (lambda b, x: b.abs(x), lambda b, x: b.mul(x, x), lambda b, x: b.exp(x)):
        got, _ = folded(lambda b, x, build=build: b.add(build(b, x), 0.0), x=float32)
        assert got.op.fn != "add"
    assert folded(lambda b, i: b.add(i, 0), i=int32)[0].hint == "i"


@wp.kernel
def signs_of_zeros(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    total = 0.0
    for _ in range(2):
        total += x[i]
    out[i, 0] = x[i] + 0.0
    out[i, 1] = total
    out[i, 2] = x[i] - 0.0


def test_compiled_sums_of_zeros_have_the_right_sign() -> None:
    out = wp.zeros((20, 3))
    wp.launch(signs_of_zeros, dim=20, inputs=[wp.full(20, -0.0, dtype=float), out])
    assert np.signbit(out.numpy()).tolist() == [[False, False, True]] * 20


def test_float_zero_times_x_stays() -> None:
    assert stays(lambda b, x: b.mul(x, 0.0), x=float32)
    assert stays(lambda b, x: b.sub(x, x), x=float32)
    assert stays(lambda b, x: b.eq(x, x), x=float32)
    assert stays(lambda b, x: b.sub(0.0, x), x=float32)


def test_integer_identities() -> None:
    assert constant(lambda b, i: b.mul(i, 0), i=int32) == 0
    assert constant(lambda b, i: b.sub(i, i), i=int32) == 0
    assert constant(lambda b, i: b.le(i, i), i=int32) is True
    assert constant(lambda b, i: b.ne(i, i), i=int32) is False
    assert folded(lambda b, i: b.lshift(i, b.index(0)), i=int32)[0].hint == "i"
    assert folded(lambda b, i: b.invert(b.invert(i)), i=int32)[0].hint == "i"
    assert folded(lambda b, c: b.unot(b.unot(c)), c=bool_)[0].hint == "c"
    assert folded(lambda b, c: b.where(c, b.true(), false(b)), c=bool_)[0].hint == "c"


@pytest.mark.parametrize("t", [float32, float64])
def test_a_root_is_zero_where_its_argument_is(t: Any) -> None:
    for fn in ("eq", "ne"):
        for swapped in (False, True):

            def build(b: Emitter, x: Value, fn: str = fn, swapped: bool = swapped) -> Value:
                pair = [b.sqrt(x), b.constant(0.0, t)]
                return b.apply(fn, *(pair[::-1] if swapped else pair))

            got, _ = folded(build, x=t)
            assert isinstance(got.op, ops.Apply)
            assert got.op.fn == fn
            assert "x" in [a.hint for a in got.op.args], "the root is not needed"
    with np.errstate(invalid="ignore"):
        x = np.array([0.0, -0.0, 1e-45, 4.0, -1.0, np.inf, np.nan], str(t))
        np.testing.assert_array_equal(np.sqrt(x) == 0.0, x == 0.0)
    kept, _ = folded(lambda b, x: b.eq(b.sqrt(x), b.constant(1.0, t)), x=t)
    assert isinstance(kept.op, ops.Apply)
    assert "x" not in [a.hint for a in kept.op.args]


def _slope(b: Emitter, x: Value, c: Value, test: str = "gt", other: bool = False) -> Value:
    zero = b.constant(0.0, x.type)
    inner = b.select(b.eq(c if other else x, zero), zero, b.div(1.0, x))
    return b.select(b.apply(test, x, zero), b.mul(inner, c), zero)


@pytest.mark.parametrize("t", [float32, float64])
def test_what_is_chosen_for_zero_is_not_needed_for_positive_numbers(t: Any) -> None:
    _, f = folded(_slope, x=t, c=t)
    assert not [o for o in f.body.walk() if isinstance(o, ops.Apply) and o.fn == "eq"]
    _, g = folded(lambda b, x: b.select(b.gt(x, 0.0), b.select(b.eq(x, -0.0), b.constant(7.0, t), x), x), x=t)
    assert not [o for o in g.body.walk() if isinstance(o, ops.Apply) and o.fn == "eq"]
    unfolded, b = start("f", "func", (), x=t, c=t)
    b.yield_(_slope(b, *unfolded.params))
    unfolded.results = (t,)
    numbers = [np.dtype(str(t)).type(v) for v in (*FLOATS, math.nan, 1e-45)]
    with np.errstate(all="ignore"):
        for x in numbers:
            for c in numbers:
                np.testing.assert_array_equal(evaluate(f, [x, c]), evaluate(unfolded, [x, c]))
    assert stays(lambda b, x, c: _slope(b, x, c, other=True), x=t, c=t)
    assert stays(lambda b, x, c: _slope(b, x, c, "ge"), x=t, c=t)
    assert stays(lambda b, x, c: _slope(b, x, c, "lt"), x=t, c=t)


def test_casts_that_lose_nothing_cancel() -> None:
    assert folded(lambda b, i: b.cast(b.cast(i, int64), int32), i=int32)[0].hint == "i"
    assert folded(lambda b, i: b.cast(b.cast(i, int32), uint8), i=uint8)[0].hint == "i"
    assert folded(lambda b, i: b.cast(b.cast(i, float32), bfloat16), i=bfloat16)[0].hint == "i"
    assert stays(lambda b, i: b.cast(b.cast(i, float32), int32), i=int32)
    assert stays(lambda b, i: b.cast(b.cast(i, int8), int32), i=int32)
    assert folded(lambda b, i: b.cast(b.cast(i, uint32), int32), i=int32)[0].hint == "i"
    assert folded(lambda b, c: b.cast(b.cast(c, float32), bool_), c=bool_)[0].hint == "c"
    assert constant(lambda b: b.bitcast(b.constant(1.0, float32), int32)) == 0x3F800000


# --- aggregates ---------------------------------------------------------------------------------------------


def test_component_of_what_was_made() -> None:
    pair = Vec(2, float32)
    assert folded(lambda b, x, y: b.extract(b.make(pair, [x, y]), 1), x=float32, y=float32)[0].hint == "y"
    assert constant(lambda b: b.extract(b.constant((1, 2, 3, 4), MAT), 1, 0)) == 3.0
    assert constant(lambda b: b.extract(b.constant((1, 2, 3, 4), MAT), 1)) == (3.0, 4.0)
    assert folded(lambda b, x: b.extract(b.extract(b.make(MAT, [x] * 4), 1), 0), x=float32)[0].hint == "x"


def test_component_behind_insertions() -> None:
    def other(b: Emitter, v: Value, x: Value) -> Value:
        return b.extract(b.insert_component(v, x, 2), 0)

    got, f = folded(other, v=VEC, x=float32)
    assert count(f, ops.Insert) == 0
    assert isinstance(got.op, ops.Extract)
    assert got.op.x is f.params[0]
    assert folded(lambda b, v, x: b.extract(b.insert_component(v, x, 2), 2), v=VEC, x=float32)[0].hint == "x"
    assert stays(lambda b, v, x, i: b.extract(b.insert_component(v, x, i), 2), v=VEC, x=float32, i=int32)


def test_row_of_a_matrix_with_a_new_element_is_not_looked_through() -> None:
    def build(b: Emitter, m: Value, x: Value) -> Value:
        return b.extract(b.insert_component(m, x, 1, 0), 1)

    _, f = folded(build, m=MAT, x=float32)
    np.testing.assert_array_equal(evaluate(f, [[[1, 2], [3, 4]], 9]), [9, 4])
    assert count(f, ops.Insert) == 1


def test_filling_a_zero_vector_makes_it() -> None:
    def build(b: Emitter, x: Value, y: Value) -> Value:
        v = b.insert_component(b.zero(Vec(2, float32)), x, 0)
        return b.insert_component(v, y, 1)

    got, f = folded(build, x=float32, y=float32)
    assert isinstance(got.op, ops.Make)
    assert got.op.elements == tuple(f.params)


def test_taking_apart_and_putting_together() -> None:
    for t in (VEC, MAT, Quat(float32)):
        got, f = folded(lambda b, v: b.make(v.type, b.components(v)), v=t)
        assert got is f.params[0]
    assert stays(lambda b, v: b.make(v.type, b.components(v)[::-1]), v=VEC)
    assert constant(lambda b: b.make(VEC, [b.constant(i, float32) for i in range(3)])) == (0.0, 1.0, 2.0)


def test_insert_of_what_is_there() -> None:
    assert folded(lambda b, v: b.insert_component(v, b.extract(v, 1), 1), v=VEC)[0].hint == "v"


def test_component_out_of_range_stays() -> None:
    assert stays(lambda b, v: b.extract(v, 3), v=VEC)


# --- memory -------------------------------------------------------------------------------------------------


def test_accesses_go_through_views() -> None:
    f, b = start(m=Array(float32, 3), i=int32)
    m, i = f.params
    row = b.view(b.view(m, [i]), [b.index(1)])
    b.store(row, [b.dim(row, 0)], b.load(row, [i]))
    b.yield_()
    expect(
        dce(fold(f)),
        """
        kernel k(%m: array3d[float32], %i: int32) {
          %0 = constant 1 : int32
          %1 = dim %m, 2 : int32
          %2 = load %m[%i, %0, %i] : float32
          store %m[%i, %0, %1], %2
          yield
        }
        """,
    )


# --- control flow -------------------------------------------------------------------------------------------


def test_branch_not_taken_goes() -> None:
    f, b = start(x=Array(float32, 1))
    (x,) = f.params
    i = tid(b)
    one = b.constant(1.0, float32)

    def then() -> tuple[Value, ...]:
        b.store(x, [i], one)
        return (one,)

    (r,) = branch(b, b.lt(b.index(1), 2), then, lambda: (b.load(x, [i]),))
    b.store(x, [i], b.add(r, r))
    b.yield_()
    expect(
        dce(fold(f)),
        """
        kernel k(%x: array1d[float32]) {
          %0 = tid 0 of 1 : int32
          %1 = constant 1.0 : float32
          store %x[%0], %1
          %2 = constant 2.0 : float32
          store %x[%0], %2
          yield
        }
        """,
    )


def test_results_that_both_branches_agree_on() -> None:
    f, b = start("f", "func", (float32, float32, bool_), c=bool_, x=float32)
    c, x = f.params
    results = branch(b, c, lambda: (x, b.constant(2, float32), b.true()), lambda: (x, b.constant(2, float32), false(b)))
    b.yield_(*results)
    got = dce(fold(f)).body
    assert [type(o) for o in got.ops] == [ops.Constant, ops.Yield]
    assert got.yielded[0] is x
    assert got.yielded[2] is c


def test_condition_is_known_inside_its_branches() -> None:
    f, b = start(c=bool_, x=Array(int32, 1))
    c, x = f.params
    stop = b.unot(c)

    def store(value: int) -> Callable[[], tuple[Value, ...]]:
        def fn() -> tuple[Value, ...]:
            b.store(x, [b.index(0)], b.index(value))
            return ()

        return fn

    def then() -> tuple[Value, ...]:
        branch(b, c, store(1), store(2))  # c is not stop: known to be false
        return ()

    def orelse() -> tuple[Value, ...]:
        branch(b, stop, store(3), store(4))
        return ()

    branch(b, stop, then, orelse)
    b.yield_()
    fold(f)
    assert count(f, ops.If) == 1
    stored = [ops.constant_value(o.value) for o in f.body.walk() if isinstance(o, ops.Store)]
    assert stored == [2, 4]


def test_loop_without_iterations_and_unchanging_carried_values() -> None:
    f, b = start("f", "func", (float32, float32, int32), x=float32, n=int32)
    x, n = f.params
    with loop(b, 3, 3, init=[x]) as none:
        none.next = (b.mul(none.carried[0], none.carried[0]),)
    with loop(b, 0, n, init=[none.results[0], b.index(0), b.index(7)]) as some:
        kept, total, seven = some.carried
        again, _ = branch(b, b.lt(total, 5), lambda: (kept, kept), lambda: (kept, kept))
        some.next = (again, b.add(total, seven), b.index(7))
    b.yield_(some.results[0], none.results[0], some.results[1])
    expect(
        dce(fold(f)),
        """
        func f(%x: float32, %n: int32) -> (float32, float32, int32) {
          %0 = constant 0 : int32
          %1 = constant 7 : int32
          %2 = constant 0 : int32
          %3 = constant 1 : int32
          %4 = for %i in %2, %n, %3 (%5 = %0) : int32 {
            %6 = add %5, %1 : int32
            yield %6
          }
          yield %x, %x, %4
        }
        """,
    )


def test_while_that_never_runs_keeps_what_its_condition_does() -> None:
    f, b = start("f", "func", (int32,), x=Array(int32, 1))
    (x,) = f.params

    def cond(v: Value) -> Value:
        b.store(x, [b.index(0)], v)
        return b.lt(b.index(1), 0)

    b.yield_(*while_(b, [b.index(5)], cond, lambda v: (b.add(v, 1),)))
    dce(fold(f))
    assert count(f, ops.While) == 0
    a = np.zeros(1, np.int32)
    assert evaluate(f, [a]) == 5
    assert a[0] == 5
