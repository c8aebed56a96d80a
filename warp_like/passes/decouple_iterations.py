"""Iterations of a loop that each replace another element of a value do not depend on each other.

What such a loop reads where it writes is what was there before the loop. Reading it from the initial value makes a loop
of which the other passes see that it makes a value element by element (``tabulations``). And if the loop's value is not
used, as that of the adjoints that the reverse of a map takes and sets to zero, nothing has to be written at all.

A loop that makes all elements needs no initial value. And one that counts down, as reverse loops do, counts up where
the order can't be seen: LLVM makes better vectors of that.

Relies on ``fold_comparisons``, which leaves no checks of indices that are in range. Leaves reads of constants to
``fold``, and carried values that nobody needs to ``dce``.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = empty : vec100[float32]
      %1 = constant 0 : int32
      %2 = constant 100 : int32
      %3 = constant 1 : int32
      %4 = for %6 in %1, %2, %3 (%5 = %0) : vec100[float32] {
        %7 = load %x[%6] : float32
        %8 = insert %5[%6], %7 : vec100[float32]
        yield %8
      }
      %9 = constant 99 : int32
      %10 = constant -1 : int32
      %11 = constant -1 : int32
      %12 = for %i in %9, %10, %11 (%13 = %4) : vec100[float32] {
        %14 = extract %13[%i] : float32
        %15 = atomic_add %y[%i], %14 : float32
        %16 = constant 0.0 : float32
        %17 = insert %13[%i], %16 : vec100[float32]
        yield %17
      }
      yield
    }

After::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = empty : vec100[float32]
      %1 = constant 0 : int32
      %2 = constant 100 : int32
      %3 = constant 1 : int32
      %4 = for %6 in %1, %2, %3 (%5 = %0) : vec100[float32] {
        %7 = load %x[%6] : float32
        %8 = insert %5[%6], %7 : vec100[float32]
        yield %8
      }
      %9 = constant 99 : int32
      %10 = constant -1 : int32
      %11 = constant -1 : int32
      %12 = empty : vec100[float32]
      %13 = constant 1 : int32
      %14 = add %10, %13 : int32
      %15 = add %9, %13 : int32
      %16 = for %i in %14, %15, %13 (%17 = %12) : vec100[float32] {
        %18 = extract %4[%i] : float32
        %19 = atomic_add %y[%i], %18 : float32
        %20 = constant 0.0 : float32
        %21 = insert %17[%i], %20 : vec100[float32]
        yield %21
      }
      yield
    }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from warp_like.analysis.intervals import type_range
from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.builtins.loops import extents
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import count_uses, has_effects
from warp_like.ir.types import Scalar, Type, is_large
from warp_like.passes.rewriter import Rewriter, rewrite


def decouple_iterations(f: Function) -> Function:
    """Let loops of ``f`` read initial values where that is the same, in place."""
    return rewrite(f, _Decoupler(f))


class _Decoupler(Rewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.ranges = find_ranges(f)
        self.uses: Counter[Value] = count_uses(f.body)
        self.inner: set[Op] = set()  # loops of nests that have been looked at

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.For) and o not in self.inner:
            nests = [n for k, r in enumerate(o.results) if is_large(r.type) and (n := self.nest(o, k))]
            decoupled = [n for n in nests if self.decouple(o, n)]
            self.count_up(o, {p for n in decoupled for p in n.carried()})
        super().visit(o)

    def nest(self, o: ops.For, k: int) -> _Nest | None:
        """The loops that replace elements of what ``o`` carries at place ``k``, each iteration another one."""
        loops, places = [o], [k]
        while True:
            body, place = loops[-1].body, places[-1]
            carried, made = body.params[1 + place], body.yielded[place]
            if not (isinstance(made.op, ops.For) and made.op in body.ops):
                break
            if self.uses[carried] != 1 or self.uses[made] != 1:
                return None
            places.append(made.op.results.index(made))
            loops.append(made.op)
            if made.op.init[places[-1]] is not carried:
                return None
        put = made.op
        if not (isinstance(put, ops.Insert) and put.x is carried and put in body.ops and self.uses[made] == 1):
            return None
        reads = [x for x in body.walk() if isinstance(x, ops.Extract) and x.x is carried]
        same = all(x.indices == put.indices for x in reads) and self.uses[carried] == len(reads) + 1
        if not (same and self.is_inside(put) and all(loop.body.params[0] in put.indices for loop in loops)):
            return None
        return _Nest(loops, places, put, reads)

    def is_inside(self, put: ops.Insert) -> bool:
        shape = extents(put.x.type)
        found = [self.ranges.of(i) for i in put.indices]
        return len(found) == len(shape) and all(
            low >= 0 and high < n for (low, high), n in zip(found, shape, strict=True)
        )

    def decouple(self, o: ops.For, n: _Nest) -> bool:
        """Read the initial value, if the loop's is not used, or has one number elsewhere, or is made as a whole."""
        k = n.places[0]
        init = o.init[k]
        whole = n.makes_all()
        if self.uses[o.results[k]] and not isinstance(init.op, ops.Fill) and not whole:
            return not n.reads
        for x in n.reads:
            x.x = init
        if whole and not isinstance(init.op, ops.Empty):
            with at(o.loc):
                empty = self.b.insert(ops.Empty(), init.type).result
            o.init = (*o.init[:k], empty, *o.init[k + 1 :])

        return True

    def count_up(self, o: ops.For, decoupled: set[Value]) -> None:
        """Let loops that count down count up, if nobody can see it; ``decoupled`` may be carried."""
        loops = _perfect_nest(o)
        self.inner.update(loops)
        inside = {v for loop in loops for v in (*loop.body.params, *(r for x in loop.body.ops for r in x.results))}
        if not decoupled.issuperset(p for loop in loops for p in loop.body.params[1:]) or not _in_any_order(
            loops, inside
        ):
            return
        for loop in loops:
            known = inside.isdisjoint((loop.lo, loop.hi)) and ops.is_scalar_constant(loop.step, -1)
            if known and self.can_add_one(loop.lo) and self.can_add_one(loop.hi):
                with at(loop.loc):
                    one = self.b.constant(1, loop.lo.type)
                    loop.lo, loop.hi, loop.step = self.b.add(loop.hi, one), self.b.add(loop.lo, one), one

    def can_add_one(self, v: Value) -> bool:
        assert isinstance(v.type, Scalar)
        return self.ranges.of(v)[1] < type_range(v.type)[1]


class _Nest:
    """Loops, the outermost first, the places of a carried value in them, what replaces its elements, and its reads."""

    def __init__(
        self, loops: Sequence[ops.For], places: Sequence[int], put: ops.Insert, reads: Sequence[ops.Extract]
    ) -> None:
        self.loops, self.places, self.put, self.reads = loops, places, put, reads

    def carried(self) -> list[Value]:
        """What the loops carry."""
        return [loop.body.params[1 + place] for loop, place in zip(self.loops, self.places, strict=True)]

    def makes_all(self) -> bool:
        """Whether the loops replace all elements."""
        shape = extents(self.put.x.type)
        counters = {loop.body.params[0]: loop for loop in self.loops}
        return len(set(self.put.indices)) == len(shape) and all(
            i in counters and _goes_over(counters[i], n) for i, n in zip(self.put.indices, shape, strict=True)
        )


def _goes_over(loop: ops.For, n: int) -> bool:
    """Whether ``loop`` counts from 0 to ``n``, or back."""
    bounds = tuple(map(ops.constant_value, (loop.lo, loop.hi, loop.step)))
    return bounds in ((0, n, 1), (n - 1, -1, -1))


def _perfect_nest(o: ops.For) -> list[ops.For]:
    """``o`` and the loops in it, as long as a loop does nothing beside the one in it that could be seen."""
    loops = [o]
    while True:
        found = [x for x in loops[-1].body.ops if isinstance(x, ops.For)]
        beside = (x for x in loops[-1].body.ops if x not in found and not isinstance(x, ops.Yield))
        if len(found) != 1 or any(map(has_effects, beside)):
            return loops
        loops += found


def _in_any_order(loops: Sequence[ops.For], inside: set[Value]) -> bool:
    """Whether the iterations of ``loops``, which carry nothing, do the same in any order.

    They do if all that they do to memory is to update one element each, another one in each iteration.
    """
    all_ops = [x for x in loops[0].body.walk() if not isinstance(x, ops.Yield)]
    effects = [x for x in all_ops if not x._REGIONS and has_effects(x)]
    if not effects:
        return not any(isinstance(x, ops.While) for x in all_ops)
    only = effects[0]
    touching = [x for x in all_ops if isinstance(x, (ops.Load, ops.LocalArray, ops.While))]
    if len(effects) > 1 or touching or not isinstance(only, ops.Atomic) or only.array in inside:
        return False
    named = [_counter(i, inside) for i in only.indices]
    around = [x for x in all_ops if isinstance(x, ops.For)]  # a loop deeper inside would repeat the change
    return all(loop.body.params[0] in named for loop in (loops[0], *around))


def _counter(index: Value, inside: set[Value]) -> Value | None:
    """The counter of which ``index`` is the sum with a value from outside; None if it is something else."""
    match index.op:
        case None:
            return index
        case ops.Cast(x=x) if _is_wider(index.type, x.type):
            return _counter(x, inside) if x.op is None else None
        case ops.Apply(fn="add", args=(x, y)) if (x in inside) != (y in inside):
            return _counter(x if x in inside else y, inside)
    return None


def _is_wider(to: Type, t: Type) -> bool:
    return isinstance(to, Scalar) and isinstance(t, Scalar) and to.is_int and t.is_int and to.bits >= t.bits


__all__ = ["decouple_iterations"]
