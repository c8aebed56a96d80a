"""Hoisting out of loops."""

from __future__ import annotations

import numpy as np

from tests.ir_builder import assert_same, branch, expect, loop, start, while_
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32, int32
from warp_like.passes.licm import licm

X = Array(float32, 1)


def test_invariants_go_as_far_out_as_they_can() -> None:
    f, b = start(x=Array(float32, 2), n=int32, s=float32)
    x, n, s = f.params
    with loop(b, 0, n) as outer:
        with loop(b, 0, n) as inner:
            per_row = b.mul(b.cast(outer.i, float32), s)
            b.store(x, [outer.i, inner.i], b.add(b.mul(s, s), per_row))
        outer.next = ()
    b.yield_()
    before = clone_function(f)
    expect(
        licm(f),
        """
        kernel k(%x: array2d[float32], %n: int32, %s: float32) {
          %0 = constant 0 : int32
          %1 = constant 1 : int32
          %2 = constant 0 : int32
          %3 = constant 1 : int32
          %4 = mul %s, %s : float32
          for %i in %0, %n, %1 {
            %5 = cast %i : float32
            %6 = mul %5, %s : float32
            %7 = add %4, %6 : float32
            for %i.1 in %2, %n, %3 {
              store %x[%i, %i.1], %7
              yield
            }
            yield
          }
          yield
        }
        """,
    )
    assert_same(before, f, [np.zeros((3, 3), np.float32), 3, 2.0], (1,))


def test_branches_loads_views_and_carried_values_stay() -> None:
    f, b = start(x=Array(float32, 2), n=int32, s=float32)
    x, n, s = f.params
    with loop(b, 0, n, init=[s]) as body:
        row = b.view(x, [n])
        branch(b, b.lt(body.i, 0), lambda: (b.div(s, 3.0),), lambda: (s,))
        body.next = (b.add(b.neg(body.carried[0]), b.load(row, [n])),)
    b.store(x, [n, n], body.results[0])
    b.yield_()
    licm(f)
    (found,) = [o for o in f.body.ops if isinstance(o, ops.For)]
    names = [o.fn if isinstance(o, ops.Apply) else o.NAME for o in found.body.walk()]
    assert names == ["view", "lt", "if", "constant", "div", "yield", "yield", "neg", "load", "add", "yield"]


def test_both_blocks_of_a_while() -> None:
    f, b = start("f", "func", (int32,), n=int32)
    (n,) = f.params

    def cond(i: Value) -> Value:
        return b.lt(i, b.mul(n, n))

    b.yield_(*while_(b, [b.index(0)], cond, lambda i: (b.add(i, b.add(n, n)),)))
    licm(f)
    (found,) = [o for o in f.body.ops if isinstance(o, ops.While)]
    assert [o.fn for o in found.body.walk() if isinstance(o, ops.Apply)] == ["add"]
    assert [o.fn for o in found.cond.walk() if isinstance(o, ops.Apply)] == ["lt"]
    assert [o.fn for o in f.body.ops if isinstance(o, ops.Apply)] == ["mul", "add"]
