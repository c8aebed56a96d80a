"""Comparisons of integers that are decided by the ranges of both sides become constants.

The reverse of a read at an index checks that the index is in range, and a loop's counter is: ``fold`` then leaves no
check, and LLVM makes vectors of the loop. What one pass knows of ranges, LLVM knows too, unless bounds are clamped.

Relies on nothing. Leaves the constants to ``fold``.

Before::

    kernel k(%y: array1d[float32]) {
      %0 = constant 0 : int32
      %1 = constant 10 : int32
      %2 = constant 1 : int32
      for %i in %0, %1, %2 {
        %3 = constant 0 : int32
        %4 = ge %i, %3 : bool
        %5 = constant 10 : int32
        %6 = lt %i, %5 : bool
        %7 = bit_and %4, %6 : bool
        %8 = constant 0 : int32
        %9 = cast %i : float32
        %10 = constant 0.0 : float32
        %11 = where %7, %9, %10 : float32
        store %y[%8], %11
        yield
      }
      yield
    }

After::

    kernel k(%y: array1d[float32]) {
      %0 = constant 0 : int32
      %1 = constant 10 : int32
      %2 = constant 1 : int32
      for %i in %0, %1, %2 {
        %3 = constant 0 : int32
        %4 = constant True : bool
        %5 = constant 10 : int32
        %6 = constant True : bool
        %7 = bit_and %4, %6 : bool
        %8 = constant 0 : int32
        %9 = cast %i : float32
        %10 = constant 0.0 : float32
        %11 = where %7, %9, %10 : float32
        store %y[%8], %11
        yield
      }
      yield
    }
"""

from __future__ import annotations

from warp_like.analysis.intervals import Interval
from warp_like.analysis.ranges import Ranges, find_ranges
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Function, Op
from warp_like.ir.types import Scalar
from warp_like.passes.rewriter import Rewriter, rewrite


def fold_comparisons(f: Function) -> Function:
    """Decide comparisons of ``f`` in place."""
    return rewrite(f, _Decider(find_ranges(f)))


class _Decider(Rewriter):
    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self.ranges = ranges

    def visit(self, o: Op) -> None:
        found = self.outcome(o)
        if found is None:
            super().visit(o)
            return
        with at(o.loc):
            self.replace(o, [self.b.constant(found, o.result.type)])

    def outcome(self, o: Op) -> bool | None:
        """What a comparison gives; None where that depends on the launch."""
        if not isinstance(o, ops.Apply) or o.fn not in ("lt", "le", "gt", "ge"):
            return None
        if not all(isinstance(v.type, Scalar) and v.type.is_int for v in o.args):
            return None
        x, y = map(self.ranges.of, o.args)
        return _is_below(x, y, o.fn == "le") if o.fn in ("lt", "le") else _is_below(y, x, o.fn == "ge")


def _is_below(x: Interval, y: Interval, or_equal: bool) -> bool | None:
    """Whether a number of ``x`` is less than one of ``y``, ``or_equal`` to it."""
    if x[1] < y[0] + or_equal:
        return True
    return False if x[0] + (not or_equal) > y[1] else None


__all__ = ["fold_comparisons"]
