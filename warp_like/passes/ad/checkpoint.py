"""Checkpointing of long loops: memory against one more run of the loop.

A loop of ``n`` iterations becomes a loop over segments around a loop over the iterations of one segment. The reverse
sweep of the outer loop saves its state once a segment; the segment is run again when its reverse begins, and only then
saves each iteration. With segments of about ``sqrt(n)`` iterations the stack holds ``2 sqrt(n)`` states in place of
``n``. Loops that end on a condition have segments of a fixed length.

Source: Griewank and Walther, "Evaluating Derivatives" (2nd edition, 2008), chapter 12 (two-level checkpointing).

Relies on a prepared function, and comes before the reverse-mode transform, which saves what each of the two loops
carries.

Before::

    kernel k(%x: array1d[float32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = for %i in %2, %n, %3 (%5 = %1) : float32 {
        %6 = sin %5 : float32
        yield %6
      }
      store %x[%0], %4
      yield
    }

After::

    kernel k(%x: array1d[float32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = constant 0 : uint32
      %5 = constant 1 : uint32
      %6 = lt %2, %n : bool
      %7 = where %6, %n, %2 : int32
      %8 = cast %7 : uint32
      %9 = cast %2 : uint32
      %10 = sub %8, %9 : uint32
      %11 = cast %10 : float32
      %12 = sqrt %11 : float32
      %13 = cast %12 : uint32
      %14 = constant 1 : uint32
      %15 = max %13, %14 : uint32
      %16 = constant 0 : uint32
      %17 = for %segment in %16, %10, %15 (%18 = %1) : float32 {
        %19 = sub %10, %segment : uint32
        %20 = min %15, %19 : uint32
        %21 = cast %segment : int32
        %22 = add %2, %21 : int32
        %23 = cast %20 : int32
        %24 = add %22, %23 : int32
        %25 = for %i in %22, %24, %3 (%26 = %18) : float32 {
          %27 = sin %26 : float32
          yield %27
        }
        yield %25
      }
      store %x[%0], %17
      yield
    }
"""

from __future__ import annotations

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.builtins.trips import trip_count
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, substitute
from warp_like.ir.types import float32, int32

SEGMENT = 128
"""Iterations in a segment of a loop whose length nobody knows in advance."""


def split_loops(f: Function) -> Function:
    """Split every loop of ``f`` that carries values into segments, in place."""
    _block(f.body)
    return f


def _block(b: Block) -> None:
    kept: list[Op] = []
    for o in b.ops:
        for r in o.regions():
            _block(r)
        if isinstance(o, (ops.For, ops.While)) and o.init:
            front = Block()
            with at(o.loc):
                split = _split_for(Emitter(front), o) if isinstance(o, ops.For) else _split_while(Emitter(front), o)
            kept.extend(front.ops)
            # the new loop takes over the results of the old one, so that their users need no change
            split.results = o.results
            for result in split.results:
                result.op = split
        else:
            kept.append(o)
    b.ops = kept


def _split_for(b: Emitter, loop: ops.For) -> Op:
    lo, step, t = loop.lo, loop.step, loop.lo.type
    trips = trip_count(b, lo, loop.hi, step)
    counter = trips.type
    length = b.max(b.cast(b.sqrt(b.cast(trips, float32)), counter), b.constant(1, counter))
    body = Block([Value(counter, "segment"), *(Value(v.type) for v in loop.init)])
    with b.into(body):
        start, *carried = body.params
        count = b.min(length, b.sub(trips, start))
        if ops.is_scalar_constant(step, 1):
            first = b.add(lo, b.cast(start, t))
            results = b.for_(first, b.add(first, b.cast(count, t)), step, carried, loop.body)
        else:  # the index after the last segment might wrap
            one = b.constant(1, counter)
            results = b.for_(start, b.add(start, count), one, carried, _by_number(b, loop, Value(counter)))
        b.yield_(*results)
    b.for_(b.zero(counter), trips, length, loop.init, body)
    return b.block.ops[-1]


def _by_number(b: Emitter, loop: ops.For, number: Value) -> Block:
    """The body of ``loop`` as that of a loop over the numbers of its iterations."""
    index, *carried = loop.body.params
    body = Block([number, *carried])
    with b.into(body):
        made = b.add(loop.lo, b.mul(b.cast(number, index.type), loop.step))
    substitute(loop.body, {index: made})
    body.ops += loop.body.ops
    return body


def _split_while(b: Emitter, loop: ops.While) -> Op:
    types = [v.type for v in loop.init]
    inner_cond, inner_body = loop.cond, loop.body
    outer_cond = Block([Value(t) for t in types])
    with b.into(outer_cond):
        b.yield_(*_copy_of(b, inner_cond, outer_cond.params))
    outer_body = Block([Value(t) for t in types])
    with b.into(outer_body):
        _count(b, inner_cond, inner_body)
        results = b.while_([*outer_body.params, b.index(0)], inner_cond, inner_body)
        b.yield_(*results[:-1])
    b.while_(loop.init, outer_cond, outer_body)
    return b.block.ops[-1]


def _copy_of(b: Emitter, block: Block, args: list[Value]) -> list[Value]:
    """Emit the ops of ``block`` for other parameters; return what it yields."""
    cloner = Cloner(dict(zip(block.params, args, strict=True)))
    b.block.ops.extend(cloner.op(o) for o in block.ops[:-1])
    return [cloner.value(v) for v in block.yielded]


def _count(b: Emitter, cond: Block, body: Block) -> None:
    """Make a while loop carry a number of iterations, and end when that is a segment's."""
    n, m = Value(int32, "n"), Value(int32, "n")
    (goes_on,), next_values = cond.yielded, body.yielded
    cond.params.append(n)
    body.params.append(m)
    cond.ops.pop()
    with b.into(cond):
        b.yield_(b.bit_and(goes_on, b.lt(n, SEGMENT)))
    body.ops.pop()
    with b.into(body):
        b.yield_(*next_values, b.add(m, 1))
