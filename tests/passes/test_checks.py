"""Which checks stand where: assertions, debug mode, and floats that are not finite."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter import run
from tests.ir_builder import assert_same, start, tid
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Mat, Vec, bool_, float32, int32
from warp_like.passes.checks import debug_checks, finite_checks

X, N = Array(float32, 1), Array(int32, 1)


def _kinds(f: Function) -> list[str]:
    return [o.kind for o in f.body.walk() if isinstance(o, ops.Check)]


def _asserting() -> Function:
    f, b = start(x=N, n=int32)
    i, (x, n) = tid(b), f.params
    b.insert(ops.Check("assert", "never", b.constant(False, bool_), ()))
    b.store(x, [i], b.mod(b.load(x, [i]), n))
    b.yield_()
    return f


def test_release_drops_assertions_alone() -> None:
    f = _asserting()
    b_ops = [o for o in f.body.ops if not isinstance(o, ops.Check)]
    debug_checks(f, debug=False)
    assert f.body.ops == b_ops


def test_debug_keeps_assertions_and_checks_integer_division() -> None:
    f = debug_checks(_asserting(), debug=True)
    assert _kinds(f) == ["assert", "division"]


def test_division_of_floats_is_not_checked_and_each_component_of_a_vector_is() -> None:
    v = Vec(3, int32)
    f, b = start("f", "func", (float32, v), x=float32, v=v)
    b.yield_(b.div(f.params[0], f.params[0]), b.mod(f.params[1], f.params[1]))
    assert _kinds(debug_checks(f, debug=True)) == ["division"] * 3


def test_computed_component_indices_are_checked_once_for_each_axis() -> None:
    m = Mat(2, 3, float32)
    f, b = start("f", "func", (float32, float32), m=m, i=int32, j=int32)
    x, i, j = f.params
    b.yield_(b.extract(x, i, j), b.extract(x, 1, 2))
    debug_checks(f, debug=True)
    texts = [o.text for o in f.body.walk() if isinstance(o, ops.Check)]
    assert texts == [
        "row {0} is out of range: a mat2x3[float32] has 2",
        "column {0} is out of range: a mat2x3[float32] has 3",
    ]


def test_checks_that_hold_change_nothing() -> None:
    f, b = start(x=N, n=int32)
    i, (x, n) = tid(b), f.params
    b.store(x, [i], b.div(b.load(x, [i]), n))
    b.yield_()
    before = clone_function(f)
    debug_checks(f, debug=True)
    assert_same(before, f, [np.arange(4, dtype=np.int32), 3], (4,))
    with pytest.raises(Exception, match="divided by zero"):
        run(f, [np.arange(4, dtype=np.int32), 0], (4,))


def test_stored_floats_are_checked_and_integers_are_not() -> None:
    f, b = start(x=X, n=N)
    i, (x, n) = tid(b), f.params
    b.store(n, [i], i)
    b.store(x, [i], b.sqrt(b.load(x, [i])))
    b.atomic("add", x, [i], b.constant(1.0, float32))
    b.yield_()
    finite_checks(f)
    assert len(_kinds(f)) == 2
    run(f, [np.ones(2, np.float32), np.zeros(2, np.int32)], (2,))
    with pytest.raises(Exception, match="finite|nan"):
        run(f, [-np.ones(2, np.float32), np.zeros(2, np.int32)], (2,))
