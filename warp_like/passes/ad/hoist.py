"""Move loads that every iteration of a loop repeats in front of the loop.

The reverse sweep adds to an adjoint array wherever the primal loads from its array. A load in front of the loop turns
those additions into one: inside the loop the adjoint is summed in a register. That is sound here because an adjoint's
forward sweep writes none of the arrays that ``f`` only reads. A loop that does not run must not load either, so a
hoisted load stands under the condition of the first iteration.

Runs on the function that is about to be differentiated.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = constant 0.0 : float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = for %i in %2, %n, %3 (%5 = %1) : float32 {
        %6 = load %x[%0] : float32
        %7 = add %5, %6 : float32
        yield %7
      }
      store %y[%0], %4
      yield
    }

After::

    kernel k(%x: array1d[float32], %y: array1d[float32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = constant 0.0 : float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = lt %2, %n : bool
      %5 = if %4 : float32 {
        %6 = load %x[%0] : float32
        yield %6
      } else {
        %7 = constant 0.0 : float32
        yield %7
      }
      %8 = for %i in %2, %n, %3 (%9 = %1) : float32 {
        %10 = add %9, %5 : float32
        yield %10
      }
      store %y[%0], %8
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterable

from warp_like.analysis.memory import Root, root_of
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, free_values, substitute
from warp_like.ir.types import Array, Struct
from warp_like.passes.ad.activity import written_arrays


def hoist_loads(f: Function) -> Function:
    """Hoist loads out of the loops of ``f``, in place; innermost loops first."""
    _block(f.body, written_arrays(f))
    return f


def _block(b: Block, written: set[Root]) -> None:
    kept: list[Op] = []
    for o in b.ops:
        for r in o.regions():
            _block(r, written)
        if isinstance(o, (ops.For, ops.While)):
            kept.extend(_in_front(o, written))
        kept.append(o)
    b.ops = kept


def _in_front(loop: ops.For | ops.While, written: set[Root]) -> list[Op]:
    """Take what can be hoisted out of ``loop``; return the ops to put in front of it."""
    inside = set(loop.body.params)
    pure: list[Op] = []
    moved: list[Op] = []  # only if the loop runs
    for o in loop.body.ops:
        if not _movable(o, inside, written):
            inside.update(o.results)
        elif isinstance(o, (ops.Load, ops.If)):
            moved.append(o)
            inside.update(o.results)  # what is computed from it follows with the next pass over pure ops
        else:
            pure.append(o)
    if not moved:
        return []
    front = Block()
    b = Emitter(front)
    with at(loop.loc):
        runs = _first_condition(b, loop)
        if runs is None:
            return []
        front.ops[:0] = pure
        gone = {*pure, *moved}
        loop.body.ops = [o for o in loop.body.ops if o not in gone]
        results = [r for o in moved for r in o.results]
        then, orelse = Block(), Block()
        then.ops = list(moved)
        with b.into(then):
            b.yield_(*results)
        with b.into(orelse):
            b.yield_(*(b.zero(r.type) for r in results))
        found = b.if_(runs, then, orelse)
        substitute(loop.body, dict(zip(results, found, strict=True)))
    return front.ops


def _movable(o: Op, inside: set[Value], written: set[Root]) -> bool:
    """Whether ``o`` gives the same in every iteration, and may run before the first."""
    if any(isinstance(r.type, (Array, Struct)) for r in o.results) or not o.results:
        return False
    match o:
        case ops.Load():
            fixed: Iterable[Value] = o.operands()
            if root_of(o.array) in written:
                return False
        case ops.If():
            fixed = [o.cond, *free_values(o.then), *free_values(o.orelse)]
            if not all(_repeatable(x, written) for r in o.regions() for x in r.ops):
                return False
        case _:
            fixed = o.operands()
            if not o.PURE or o.regions():
                return False
    return not any(v in inside for v in fixed)


def _repeatable(o: Op, written: set[Root]) -> bool:
    if isinstance(o, ops.Load):
        return root_of(o.array) not in written
    return isinstance(o, ops.Yield) or (o.PURE and not o.regions())


def _first_condition(b: Emitter, loop: ops.For | ops.While) -> Value | None:
    """Emit whether the loop runs at all; None where that would cost a second look at memory or a step unknown."""
    if isinstance(loop, ops.For):
        step = ops.constant_value(loop.step)
        if not step:
            return None
        result: Value = b.lt(loop.lo, loop.hi) if step > 0 else b.gt(loop.lo, loop.hi)
        return result
    if any(not o.PURE or o.regions() for o in loop.cond.ops[:-1]):
        return None
    cloner = Cloner(dict(zip(loop.cond.params, loop.init, strict=True)))
    b.block.ops.extend(cloner.op(o) for o in loop.cond.ops[:-1])
    return cloner.value(loop.cond.yielded[0])
