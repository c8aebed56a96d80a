"""Structs become their fields: in memory, in control flow, in choices, and nowhere else."""

from __future__ import annotations

import numpy as np

from tests.ir_builder import assert_same, branch, count, loop, start, tid, while_
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Struct, bool_, float32, int32
from warp_like.ir.verify import verify
from warp_like.passes.flatten_structs import flatten_structs
from warp_like.passes.stages import NO_STRUCTS
from warp_like.values.struct import structured_dtype

X = Array(float32, 1)
POINT = Struct("Point", (("a", float32), ("n", int32)))
LINE = Struct("Line", (("first", POINT), ("last", POINT)))
ARRAYS = Struct("Arrays", (("x", X), ("scale", float32)))


def _points(n: int = 4) -> np.ndarray:
    points = np.zeros(n, structured_dtype(POINT))
    points["a"], points["n"] = np.arange(1, n + 1), np.arange(n) * 3
    return points


def _flat(f: Function) -> tuple[Function, Function]:
    before = clone_function(f)
    flatten_structs(f)
    verify(f, [NO_STRUCTS])
    return before, f


def test_without_structs_nothing_changes() -> None:
    f, b = start(x=X)
    b.store(f.params[0], [tid(b)], b.constant(1.0, float32))
    b.yield_()
    text, body = print_function(f), f.body.ops
    assert flatten_structs(f) is f
    assert print_function(f) == text
    assert f.body.ops is body


def test_elements_are_read_and_written_field_by_field() -> None:
    f, b = start(p=Array(POINT, 1), lines=Array(LINE, 1))
    i, (p, lines) = tid(b), f.params
    point = b.load(p, [i])
    b.store(lines, [i], b.make(LINE, [b.with_field(point, 1, i), point]))
    b.store(p, [i], b.get_field(b.load(lines, [i]), 1))
    b.yield_()
    before, after = _flat(f)
    assert count(after, ops.Make, ops.GetField) == 0
    assert [o.field for o in after.body.ops if isinstance(o, ops.View)].count(None) == 0
    assert_same(before, after, [_points(), np.zeros(4, structured_dtype(LINE))], (4,))


def test_loops_and_branches_carry_fields() -> None:
    f, b = start(p=Array(POINT, 1), c=bool_, n=int32)
    i, (p, c, n) = tid(b), f.params
    with loop(b, 0, n, init=[b.load(p, [i])]) as body:
        (point,) = body.carried
        a = b.add(b.get_field(point, 0), 1.0)
        (picked,) = branch(b, c, lambda: (b.with_field(point, 0, a),), lambda: (point,))
        body.next = (picked,)
    (last,) = while_(
        b,
        body.results,
        lambda q: b.lt(b.get_field(q, 1), n),
        lambda q: (b.with_field(q, 1, b.add(b.get_field(q, 1), 2)),),
    )
    b.store(p, [i], last)
    b.yield_()
    before, after = _flat(f)
    (counted,) = [o for o in after.body.walk() if isinstance(o, ops.For)]
    assert [r.type for r in counted.results] == [float32, int32]
    for c in (True, False):
        assert_same(before, after, [_points(), c, 5], (4,))


def test_where_chooses_each_field_and_branches_for_arrays() -> None:
    f, b = start(c=bool_, x=X, y=X)
    i, (c, x, y) = tid(b), f.params
    one, two = b.constant(1.0, float32), b.constant(2.0, float32)
    both = [b.make(ARRAYS, [x, one]), b.make(ARRAYS, [y, two])]
    chosen = b.apply("where", c, *both)
    b.store(b.get_field(chosen, 0), [i], b.get_field(chosen, 1))
    b.yield_()
    _, after = _flat(f)
    (made,) = [o for o in after.body.walk() if isinstance(o, ops.If)]
    assert [r.type for r in made.results] == [X]
    assert [o.fn for o in after.body.walk() if isinstance(o, ops.Apply)] == ["where"]


def test_parameters_and_results_of_functions_are_fields() -> None:
    f, b = start("f", "func", (LINE,), line=LINE)
    (line,) = f.params
    b.yield_(b.make(LINE, [b.get_field(line, 1), b.get_field(line, 0)]))
    flatten_structs(f)
    assert print_function(f) == (
        "func f(%line.first.a: float32, %line.first.n: int32, %line.last.a: float32, %line.last.n: int32)"
        " -> (float32, int32, float32, int32) {\n"
        "  yield %line.last.a, %line.last.n, %line.first.a, %line.first.n\n"
        "}\n"
    )


def test_callees_are_flattened_in_copies() -> None:
    g, b = start("g", "func", (float32,), p=POINT)
    b.yield_(b.get_field(g.params[0], 0))
    g.replay = g
    f, b = start(p=Array(POINT, 1), x=X)
    i = tid(b)
    b.store(f.params[1], [i], b.insert(ops.Call(g, (b.load(f.params[0], [i]),)), float32).result)
    b.yield_()
    text = print_function(g)
    flatten_structs(f)
    (call,) = [o for o in f.body.walk() if isinstance(o, ops.Call)]
    assert print_function(g) == text
    assert [p.type for p in call.callee.params] == [float32, int32]
    assert [v.type for v in call.args] == [float32, int32]
