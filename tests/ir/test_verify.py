"""The verifier accepts what is valid and names the rule that broken IR breaks."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Value
from warp_like.ir.types import Array, Mat, Quat, Vec, bool_, float32, float64, int8, int32
from warp_like.ir.verify import InvalidIR, verify

X = Array(float32, 2)
Breaker = Callable[[Emitter, Function], None]

CASES: dict[str, tuple[str, Breaker]] = {}


def broken(rule: str) -> Callable[[Breaker], Breaker]:
    def register(fn: Breaker) -> Breaker:
        CASES[fn.__name__] = (rule, fn)
        return fn

    return register


@broken("operand <Value i: int32> is not defined here")
def value_from_inside_a_loop(b: Emitter, f: Function) -> None:
    with loop(b, 0, f.params[1]) as body:
        pass
    b.add(body.i, 1)


@broken("is not defined here")
def value_used_before_its_definition(b: Emitter, f: Function) -> None:
    b.add(b.index(1), b.index(2))
    b.block.ops.reverse()


@broken("is not defined here")
def value_of_the_other_branch(b: Emitter, f: Function) -> None:
    inside: list[Value] = []

    def then() -> tuple[Value, ...]:
        inside.append(b.index(1))
        return (inside[0],)

    branch(b, b.true(), then, lambda: (inside[0],))


@broken("a value defined twice")
def op_twice(b: Emitter, f: Function) -> None:
    b.index(1)
    b.block.ops *= 2


@broken("a result that does not point back to its op")
def result_of_another_op(b: Emitter, f: Function) -> None:
    b.index(1)
    b.block.ops[-1].results = (Value(int32),)


@broken("a block parameter is defined outside the block")
def parameter_defined_outside(b: Emitter, f: Function) -> None:
    n = f.params[1]
    with b.into(Block([n])) as body:
        b.yield_()
    b.for_(n, n, n, [], body)


@broken("a block does not end in a yield")
def branch_without_yield(b: Emitter, f: Function) -> None:
    block = Block()
    with b.into(block):
        b.yield_()
    b.insert(ops.If(b.true(), block, Block()))


@broken("in the middle of a block")
def yield_in_the_middle(b: Emitter, f: Function) -> None:
    b.yield_()


@broken("condition is not a bool")
def integer_condition(b: Emitter, f: Function) -> None:
    branch(b, f.params[1])


@broken("a branch with parameters")
def branch_with_parameters(b: Emitter, f: Function) -> None:
    branch(b, b.true())
    b.block.ops[-1].regions()[0].params.append(Value(int32))


@broken("a branch yields other types than the results")
def branches_that_differ(b: Emitter, f: Function) -> None:
    branch(b, b.true(), lambda: (b.index(1),), lambda: (b.true(),))


@broken("bounds are not integers")
def float_bounds(b: Emitter, f: Function) -> None:
    x = b.constant(1, float32)
    with loop(b, x, x, x):
        pass


@broken("bounds differ in type")
def mixed_bounds(b: Emitter, f: Function) -> None:
    with loop(b, 0, b.constant(3, int8)):
        pass


@broken("body parameters do not match")
def loop_body_without_index(b: Emitter, f: Function) -> None:
    with loop(b, 0, 3):
        pass
    b.block.ops[-1].regions()[0].params.clear()


@broken("carried types differ")
def loop_that_changes_a_type(b: Emitter, f: Function) -> None:
    with loop(b, 0, 3, init=[b.index(0)]) as body:
        body.next = (b.true(),)


@broken("condition does not yield one bool")
def while_without_condition(b: Emitter, f: Function) -> None:
    while_(b, [b.index(0)], lambda v: v, lambda v: (v,))


@broken("block parameters do not match")
def while_with_another_parameter(b: Emitter, f: Function) -> None:
    while_(b, [b.index(0)], lambda v: b.true(), lambda v: (v,))
    b.block.ops[-1].regions()[1].params.append(Value(int32))


@broken("carried types differ")
def while_that_changes_a_type(b: Emitter, f: Function) -> None:
    while_(b, [b.index(0)], lambda v: b.true(), lambda v: (b.true(),))


@broken("arguments do not match the callee")
def call_with_wrong_arguments(b: Emitter, f: Function) -> None:
    callee, inner = start("g", "func", (), x=float32)
    inner.yield_()
    b.insert(ops.Call(callee, (f.params[1],)))


@broken("results do not match the callee")
def call_with_wrong_results(b: Emitter, f: Function) -> None:
    callee, inner = start("g", "func", ())
    inner.yield_()
    b.insert(ops.Call(callee, ()), int32)


@broken("int32 is not an array")
def load_from_a_number(b: Emitter, f: Function) -> None:
    b.insert(ops.Load(f.params[1], (f.params[1],)), int32)


@broken("needs one index a dimension")
def load_with_too_few_indices(b: Emitter, f: Function) -> None:
    b.load(f.params[0], [f.params[1]])


@broken("an index is not an integer")
def load_at_a_float(b: Emitter, f: Function) -> None:
    b.load(f.params[0], [f.params[1], b.constant(0, float32)])


@broken("result is not the element type")
def load_of_another_type(b: Emitter, f: Function) -> None:
    n = f.params[1]
    b.insert(ops.Load(f.params[0], (n, n)), float64)


@broken("value is not of the element type")
def store_of_another_type(b: Emitter, f: Function) -> None:
    n = f.params[1]
    b.store(f.params[0], [n, n], n)


@broken("value is not of the element type")
def atomic_of_another_type(b: Emitter, f: Function) -> None:
    n = f.params[1]
    b.atomic("add", f.params[0], [n, n], n)


@broken("value is not of the element type")
def atomic_cas_of_another_type(b: Emitter, f: Function) -> None:
    n, x = f.params[1], b.constant(1, float32)
    b.insert(ops.AtomicCas(f.params[0], (n, n), n, x), float32)


@broken("view with a wrong number of indices")
def view_of_an_element(b: Emitter, f: Function) -> None:
    n = f.params[1]
    b.view(f.params[0], [n, n])


@broken("no such axis")
def extent_of_a_missing_axis(b: Emitter, f: Function) -> None:
    b.dim(f.params[0], 2)


@broken("no such axis")
def thread_index_of_a_missing_axis(b: Emitter, f: Function) -> None:
    tid(b, 2, 2)


@broken("elements do not fit the type")
def vector_of_too_few(b: Emitter, f: Function) -> None:
    b.make(Vec(3, int32), [f.params[1]] * 2)


@broken("elements do not fit the type")
def matrix_of_another_type(b: Emitter, f: Function) -> None:
    b.make(Mat(2, 2, float32), [f.params[1]] * 4)


@broken("result is not the component type")
def component_of_another_type(b: Emitter, f: Function) -> None:
    v = b.zero(Vec(3, float32))
    b.insert(ops.Extract(v, (f.params[1],)), float64)


@broken("2 indices into vec3[float32]")
def component_with_too_many_indices(b: Emitter, f: Function) -> None:
    b.insert(ops.Extract(b.zero(Vec(3, float32)), (b.index(0), b.index(0))), float32)


@broken("an index is not an integer")
def component_at_a_float(b: Emitter, f: Function) -> None:
    b.extract(b.zero(Quat(float32)), b.constant(0, float32))


@broken("value is not the component type")
def insertion_of_another_type(b: Emitter, f: Function) -> None:
    b.insert_component(b.zero(Mat(2, 2, float32)), b.constant(1, float32), 0)


@broken("result type differs")
def insertion_that_changes_the_type(b: Emitter, f: Function) -> None:
    v = b.zero(Vec(3, float32))
    b.insert(ops.Insert(v, b.constant(1, float32), (f.params[1],)), Vec(2, float32))


@broken("shapes differ")
def cast_that_changes_the_shape(b: Emitter, f: Function) -> None:
    b.cast(b.zero(Vec(3, float32)), Vec(2, float32))


@broken("shapes differ")
def cast_from_scalar_to_vector(b: Emitter, f: Function) -> None:
    b.cast(f.params[1], Vec(1, int32))


@broken("widths differ")
def bitcast_to_another_width(b: Emitter, f: Function) -> None:
    b.bitcast(f.params[1], float64)


@broken("(0, 0) is not a vec3[int32]")
def constant_of_too_few(b: Emitter, f: Function) -> None:
    b.constant((0, 0), Vec(3, int32))


@broken("1 is not a float32")
def constant_of_another_kind(b: Emitter, f: Function) -> None:
    b.insert(ops.Constant(1), float32)


@broken("slot 4 holds int32 elsewhere")
def pop_of_another_type(b: Emitter, f: Function) -> None:
    b.insert(ops.Push(4, f.params[1]))
    b.insert(ops.Pop(4), float32)


@pytest.mark.parametrize("name", CASES)
def test_broken_ir_is_rejected_with_its_rule(name: str) -> None:
    rule, fn = CASES[name]
    f, b = start(x=X, n=int32)
    fn(b, f)
    b.yield_()
    with pytest.raises(InvalidIR, match=re.escape(rule)):
        verify(f)


def test_function_that_yields_other_types_than_it_returns() -> None:
    f, b = start("f", "func", (float32,), n=int32)
    b.yield_(f.params[0])
    with pytest.raises(InvalidIR, match=re.escape("yields (int32), the function returns (float32)")):
        verify(f)


def test_valid_ir_is_accepted() -> None:
    f, b = start("f", "func", (bool_, int32), x=X, n=int32)
    x, n = f.params
    with loop(b, 0, n, init=[n]) as body:
        (r,) = branch(b, b.lt(body.i, n), lambda: (body.carried[0],), lambda: (b.dim(x, 1),))
        body.next = (r,)
    count, _ = while_(b, [n, b.true()], lambda i, go: go, lambda i, go: (b.add(i, n), b.lt(i, 9)))
    b.insert(ops.Push(0, count))
    row = b.view(x, [n])
    b.store(row, [n], b.extract(b.zero(Vec(3, float32)), n))
    b.yield_(b.lt(count, n), b.insert(ops.Pop(0), int32).result)
    verify(f)
