"""Hoist what a loop computes anew each time, though it stays the same.

Only pure ops of the loop's own blocks move, not those of a branch inside it, which might never run. A loop
that turns out to run zero times then computes them for nothing, which no pure op can make visible: none of
them traps. Views and nested arrays stay, since their indices are only known to be in range where the program makes
them.

Runs after ``cse``, which merges what would be hoisted twice. An op that moves out of an inner loop may move out of the
outer one as well.

Before::

    kernel k(%x: array1d[float32], %n: int32, %s: float32) {
      %0 = constant 0 : int32
      %1 = constant 1 : int32
      for %i in %0, %n, %1 {
        %2 = mul %s, %s : float32
        store %x[%i], %2
        yield
      }
      yield
    }

After::

    kernel k(%x: array1d[float32], %n: int32, %s: float32) {
      %0 = constant 0 : int32
      %1 = constant 1 : int32
      %2 = mul %s, %s : float32
      for %i in %0, %n, %1 {
        store %x[%i], %2
        yield
      }
      yield
    }
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import OUTLINED, blocks, has_op
from warp_like.passes.rewriter import Rewriter, rewrite


def licm(f: Function) -> Function:
    """Hoist loop-invariant ops of ``f`` in place, as far out as they go."""
    return rewrite(f, _Hoister()) if has_op(f, ops.For, ops.While) else f


class _Hoister(Rewriter):
    def visit(self, o: Op) -> None:
        for r in o.regions():
            self.block(r)  # inner loops first: what they give up may leave this one too
        if isinstance(o, (ops.For, ops.While)):
            inside = _defined(o)
            for r in o.regions():
                self.hoist(r, inside)
        self.keep(o)

    def hoist(self, b: Block, inside: set[Value]) -> None:
        stay: list[Op] = []
        for o in b.ops:
            if may_run_anywhere(o) and inside.isdisjoint(o.operands()):
                self.keep(o)
                inside.difference_update(o.results)
            else:
                stay.append(o)
        b.ops = stay


def may_run_anywhere(o: Op) -> bool:
    """Return whether ``o`` may run in front of a loop that makes no iterations, whatever its operands are then."""
    if isinstance(o, ops.Apply):
        return o.fn not in OUTLINED
    return o.PURE and not isinstance(o, (*ops.VIEWS, ops.NestedArray))


def _defined(loop: Op) -> set[Value]:
    found: set[Value] = set()
    for r in loop.regions():
        for b in blocks(r):
            found.update(b.params)
            for o in b.ops:
                found.update(o.results)
    return found
