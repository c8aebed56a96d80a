"""Lower accesses to slices to accesses to the array that was sliced.

What is left of a slice then is arithmetic on indices, which is shared, hoisted and seen through like any other: by the
analysis of who owns an element, and by the lanes of threads side by side. An index out of the slice is then an index
into the array, so debug mode, which tells the two apart, keeps slices as they are.

Runs when no array is chosen by control flow (``lower_array_selects``). Views by a field stay, for they are arrays by a
name. Leaves no access through a slice; ``dce`` removes the slices themselves.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 1 : int64
      %2 = constant 2 : int64
      %3 = slice %x[%1 + %2 by %2] : array1d[float32]
      %4 = load %3[%0] : float32
      store %x[%0], %4
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 1 : int64
      %2 = constant 2 : int64
      %3 = slice %x[%1 + %2 by %2] : array1d[float32]
      %4 = cast %0 : int64
      %5 = mul %4, %2 : int64
      %6 = add %5, %1 : int64
      %7 = load %x[%6] : float32
      store %x[%0], %7
      yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import has_op
from warp_like.ir.types import int64
from warp_like.passes.rewriter import Rewriter, rewrite


def lower_slices(f: Function) -> Function:
    """Rewrite what accesses slices in ``f``, in place."""
    return rewrite(f, _Lowerer()) if has_op(f, ops.Slice) else f


class _Lowerer(Rewriter):
    def visit(self, o: Op) -> None:
        if isinstance(o, (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas, ops.NestedArray)):
            with at(o.loc):
                while isinstance(view := o.array.op, ops.VIEWS) and not _is_field(view):
                    o.indices = self.inside(view, o.indices)
                    o.array = view.array
        super().visit(o)

    def inside(self, view: ops.View | ops.Slice, indices: Sequence[Value]) -> tuple[Value, ...]:
        """The indices into the array of a view that ``indices`` into the view are."""
        if isinstance(view, ops.View):
            return (*view.indices, *indices)
        found = list(view.start)
        for axis, step, index in zip(view.kept, view.step, indices, strict=True):
            found[axis] = self.moved(view.start[axis], step, index)
        return tuple(found)

    def moved(self, start: Value, step: Value, index: Value) -> Value:
        """``start + step * index``."""
        first, by = ops.constant_value(start), ops.constant_value(step)
        if by != 1:
            index = self.b.mul(self.b.cast(index, int64), step)
        if first == 0:
            return index
        result: Value = self.b.add(self.b.cast(index, int64), self.b.cast(start, int64))
        return result


def _is_field(view: Op) -> bool:
    return isinstance(view, ops.View) and view.field is not None
