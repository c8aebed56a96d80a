"""Loops in which the threads of a block take turns and meet: each begins with its own element and goes on by the block.

Such a loop begins at the thread's number, or its index along the axis of the block, and steps by a multiple of the
threads of a block. If its end is a multiple of that as well, all threads do the same number of iterations, so they may
meet in it. It becomes a loop over what the first thread takes, which is the same for all.

An end is known to be a multiple where it is a product with one, which may wrap around. Where that product is none, some
threads would go on alone; they do not. No thread does an iteration that it did not do before.

This is an example for blocks of 4 threads.

Before::

    kernel k(%x: array1d[float32], %n: int32) {
      %0 = block_thread  : int32
      %1 = constant 4 : int32
      %2 = mul %n, %1 : int32
      for %i in %0, %2, %1 {
        %3 = load %x[%i] : float32
        %4 = block_sum %3 : float32
        store %x[%i], %4
        yield
      }
      yield
    }

After::

    kernel k(%x: array1d[float32], %n: int32) {
      %0 = block_thread  : int32
      %1 = constant 4 : int32
      %2 = mul %n, %1 : int32
      %3 = constant 0 : int32
      %4 = gt %2, %3 : bool
      %5 = constant 3 : int32
      %6 = sub %2, %5 : int32
      %7 = where %4, %6, %3 : int32
      for %i in %3, %7, %1 {
        %8 = add %i, %0 : int32
        %9 = load %x[%8] : float32
        %10 = block_sum %9 : float32
        store %x[%8], %10
        yield
      }
      yield
    }
"""

from __future__ import annotations

from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.passes.meetings import has_meeting
from warp_like.passes.rewriter import Rewriter, rewrite


def align_strided_loops(f: Function, block_dim: int, axis: int) -> Function:
    """Let all threads of a block count alike in loops where they meet, in place.

    Args:
        f: The function, in which the number of threads of a block is a constant.
        block_dim: This number.
        axis: Along which the threads of a block lie side by side.
    """
    return rewrite(f, _Aligner(block_dim, axis))


class _Aligner(Rewriter):
    def __init__(self, block_dim: int, axis: int) -> None:
        super().__init__()
        self.block_dim, self.axis = block_dim, axis

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.For) and not o.together and self._is_strided(o) and has_meeting(o.body):
            with at(o.loc):
                self._align(o)
        super().visit(o)

    def _is_strided(self, o: ops.For) -> bool:
        step = ops.constant_value(o.step)
        if not isinstance(step, int) or step <= 0 or not (self._is_index(o.lo) or _is_number(o.lo)):
            return False
        return o.hi.type == o.lo.type and self._is_multiple(o.step) and self._is_multiple(o.hi)

    def _is_index(self, v: Value) -> bool:
        return isinstance(v.op, ops.Tid) and v.op.axis == self.axis

    def _is_multiple(self, v: Value) -> bool:
        """Whether ``v`` is a multiple of the threads of a block unless it wraps around."""
        match v.op:
            case ops.Constant(value=int() as n):
                return n % self.block_dim == 0
            case ops.Apply(fn="mul", args=args):
                return any(map(self._is_multiple, args))
            case ops.Apply(fn="add" | "sub" | "min" | "max", args=args):
                return all(map(self._is_multiple, args))
        return False

    def _align(self, o: ops.For) -> None:
        """Let ``o`` count what the first thread takes."""
        b, t = self.b, o.lo.type
        i, *carried = o.body.params
        first = Value(t, i.hint)
        if _is_number(o.lo):
            thread, begin = o.lo, b.constant(0, t)
        else:
            width = b.constant(self.block_dim, t)
            begin = b.mul(b.apply("div", o.lo, width), width)
            thread = b.sub(o.lo, begin)
        o.hi = b.select(b.gt(o.hi, begin), b.sub(o.hi, self.block_dim - 1), begin)
        o.lo = begin
        with b.into(Block()) as start:
            self.mapping[i] = b.add(first, thread)
        o.body.params = [first, *carried]
        o.body.ops[:0] = start.ops


def _is_number(v: Value) -> bool:
    return isinstance(v.op, ops.Apply) and v.op.fn == "block_thread"


__all__ = ["align_strided_loops"]
