"""Inlining of calls: nesting, locations, recursion."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, count, expect, loop, start, tid
from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import Loc, at
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32
from warp_like.passes.inline import inline

X = Array(float32, 1)


def _call(b, callee: Function, *args):
    results = b.insert(ops.Call(callee, args), *callee.results).results
    return results[0] if len(results) == 1 else results


def _square() -> Function:
    f, b = start("square", "func", (float32,), v=float32)
    with at(Loc("f.py", 2, 4, 2, 9, "func", "square")):
        b.yield_(b.mul(f.params[0], f.params[0]))
    return f


def _quartic(square: Function) -> Function:
    f, b = start("quartic", "func", (float32,), v=float32)
    with at(Loc("f.py", 6, 4, 6, 9, "func", "quartic")):
        b.yield_(_call(b, square, _call(b, square, f.params[0])))
    return f


def _kernel(callee: Function) -> Function:
    f, b = start(x=X)
    (x,) = f.params
    with at(Loc("k.py", 9, 0, 9, 3, "kernel", "k")):
        i = tid(b)
        b.store(x, [i], _call(b, callee, b.load(x, [i])))
    b.yield_()
    return f


def test_nested_calls_become_their_bodies() -> None:
    f = inline(_kernel(_quartic(_square())))
    expect(
        f,
        """
        kernel k(%x: array1d[float32]) {
          %0 = tid 0 of 1 : int32
          %1 = load %x[%0] : float32
          %2 = mul %1, %1 : float32
          %3 = mul %2, %2 : float32
          store %x[%0], %3
          yield
        }
        """,
    )


def test_location_holds_the_chain_of_callers() -> None:
    f = inline(_kernel(_quartic(_square())))
    product = next(o for o in f.body.ops if isinstance(o, ops.Apply))
    assert product.loc is not None
    assert [(c.function, c.line) for c in product.loc.chain()] == [("k", 9), ("quartic", 6), ("square", 2)]


def test_callee_stays_as_it_was_and_serves_again() -> None:
    callee = _quartic(_square())
    f, g = _kernel(callee), _kernel(callee)
    inline(f)
    assert count(callee, ops.Call) == 2
    x = np.float32([1, 2, -3])
    assert_same(g, f, [x], (3,))


def test_call_inside_a_loop_uses_its_values() -> None:
    callee, b = start("twice", "func", (float32, float32), v=float32)
    with loop(b, 0, 2, init=[callee.params[0]]) as body:
        body.next = (b.add(body.carried[0], callee.params[0]),)
    b.yield_(body.results[0], callee.params[0])
    f, b = start(x=X)
    (x,) = f.params
    with loop(b, 0, 3, init=[b.constant(1.0, float32)]) as outer:
        total, same = _call(b, callee, outer.carried[0])
        outer.next = (b.add(total, same),)
    b.store(x, [tid(b)], outer.results[0])
    b.yield_()
    inlined = inline(clone_function(f))
    assert count(inlined, ops.Call) == 0
    assert_same(f, inlined, [np.zeros(1, np.float32)], (1,))


def test_recursion_is_refused_with_its_place() -> None:
    f, b = start("endless", "func", (float32,), v=float32)
    with at(Loc("f.py", 3, 4, 3, 14, "func", "endless")):
        b.yield_(_call(b, f, f.params[0]))
    with pytest.raises(WarpCodegenError, match="function `endless` calls itself") as caught:
        inline(_kernel(f))
    assert caught.value.loc is not None
    assert caught.value.loc.line == 3
