"""Which values carry a gradient: ``activity`` (reverse mode) and ``tangent_activity`` (forward mode) agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.analysis.memory import analyse
from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Struct, Vec, bool_, float32, int32
from warp_like.passes.ad.activity import carrying_local_arrays, nested_arrays, varied_values, written_arrays
from warp_like.passes.ad.tangent_activity import TangentActivity

X = Array(float32, 1)
CELL = Struct("Cell", (("items", X), ("mass", float32)))
Build = Callable[[Emitter, Value, Value, Value], Value]
"""A value made of a varied one, one that is constant, and the thread's index."""


def _with_branch(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    return branch(b, b.lt(i, 2), lambda: (c,), lambda: (v,))[0]


def _of_constants(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    return branch(b, b.lt(v, 2.0), lambda: (c,), lambda: (b.neg(c),))[0]


def _second_round(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    with loop(b, 0, i, init=[c, v]) as body:
        body.next = (body.carried[1], body.carried[1])
    return body.results[0]


def _while(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    return while_(b, [c], lambda a: b.lt(a, 3.0), lambda a: (b.add(a, v),))[0]


def _counted_by_it(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    with loop(b, 0, b.cast(v, int32), init=[c]) as body:
        body.next = (b.mul(body.carried[0], 2.0),)
    return body.results[0]


def _through_own_array(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    own = b.insert(ops.LocalArray((2,)), X).result
    b.store(own, [b.index(0)], v)
    return b.load(own, [b.index(1)])


def _vector(b: Emitter, v: Value, c: Value, i: Value) -> Value:
    return b.extract(b.make(Vec(2, float32), [v, c]), 1)


VARIED: dict[str, Build] = {
    "arithmetic": lambda b, v, c, i: b.mul(c, b.sin(v)),
    "one side of a branch": _with_branch,
    "from the second round of a loop on": _second_round,
    "added in a while loop": _while,
    "an array of the thread's own": _through_own_array,
    "a component of a vector": _vector,
    "a cast to other floats": lambda b, v, c, i: b.cast(v, float32),
}
CONSTANT: dict[str, Build] = {
    "of constants": lambda b, v, c, i: b.mul(c, c),
    "an integer": lambda b, v, c, i: b.cast(v, int32),
    "a float of an integer": lambda b, v, c, i: b.cast(b.cast(v, int32), float32),
    "a derivative of zero": lambda b, v, c, i: b.floor(v),
    "a comparison": lambda b, v, c, i: b.lt(v, c),
    "branches of constants": _of_constants,
    "a loop that it ends": _counted_by_it,
}


def _found(build: Build) -> tuple[bool, bool]:
    f, b = start(x=X, y=X)
    i, (x, y) = tid(b), f.params
    got = build(b, b.load(x, [i]), b.load(y, [i]), i)
    b.yield_()
    found = TangentActivity([x])
    found.block(f.body)
    return got in varied_values(f, [x]), got in found.varied


@pytest.mark.parametrize("build", VARIED.values(), ids=VARIED)
def test_values_that_carry_a_gradient(build: Build) -> None:
    assert _found(build) == (True, True)


@pytest.mark.parametrize("build", CONSTANT.values(), ids=CONSTANT)
def test_values_that_carry_none(build: Build) -> None:
    assert _found(build) == (False, False)


def test_what_is_saved_carries_its_tangent_by_slot() -> None:
    f, b = start(x=X, y=X)
    i, (x, y) = tid(b), f.params
    for slot, array in enumerate((x, y)):
        b.insert(ops.Push(slot, b.load(array, [i])))
    of_y, of_x = (b.insert(ops.Pop(slot), float32).result for slot in (1, 0))
    b.yield_()
    found = TangentActivity([x])
    found.block(f.body)
    assert found.slots == {0}
    assert [v in found.varied for v in (of_x, of_y)] == [True, False]


def test_atomics_give_old_values_that_carry_a_gradient() -> None:
    f, b = start(x=X, c=bool_)
    old = b.atomic("add", f.params[0], [tid(b)], b.constant(1.0, float32))
    b.yield_()
    assert old in varied_values(f, [f.params[0]])
    assert varied_values(f, []) == set()
    assert {root.array for root in written_arrays(f)} == {f.params[0]}


def test_an_own_array_carries_a_gradient_where_it_is_written_and_read() -> None:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    unread, empty, both = (b.insert(ops.LocalArray((3,)), X).result for _ in range(3))
    b.store(unread, [i], b.load(x, [i]))
    b.store(b.slice(both, [b.index(0)], [b.index(2)], [b.index(1)], (0,)), [i], b.load(empty, [i]))
    b.store(x, [i], b.load(both, [i]))
    b.yield_()
    assert carrying_local_arrays(analyse(f)) == [both]


def _cells(of: Function, b: Emitter) -> Value:
    i = tid(b)
    return b.nested(b.field_view(of.params[0], 0), [i])


def test_arrays_in_elements_of_a_differentiated_array_carry_a_gradient() -> None:
    f, b = start(cells=Array(CELL, 1), other=Array(CELL, 1))
    held = _cells(f, b)
    v = b.load(held, [b.index(0)])
    b.yield_()
    assert v in varied_values(f, [f.params[0]])
    assert v not in varied_values(f, [f.params[1]])
    assert len(nested_arrays(f, [f.params[0]])) == 1


def test_arrays_in_elements_of_such_arrays_are_refused() -> None:
    outer = Struct("Outer", (("cells", Array(CELL, 1)),))
    f, b = start(outers=Array(outer, 1))
    cells = b.nested(b.field_view(f.params[0], 0), [tid(b)])
    b.load(b.nested(b.field_view(cells, 0), [b.index(0)]), [b.index(0)])
    b.yield_()
    with pytest.raises(WarpCodegenError, match="the gradient does not reach"):
        nested_arrays(f, [f.params[0]])
