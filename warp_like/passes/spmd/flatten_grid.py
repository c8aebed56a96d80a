"""Number the threads of the whole grid: a function of a grid of several dimensions becomes one of a single dimension.

Lanes are neighbours along the last dimension, and where that is short, most lanes have no thread. Kernels on tiles
often run over grids such as ``(4096, 1)``, others with loops over ``(100000, 3)``, and what a lane computes there
outweighs that indices come from divisions.

Relies on a finished function.

Before::

    kernel k(%x: array1d[float32], %out: array2d[float32]) {
      %0 = tid 1 of 2 : int32
      %1 = tid 0 of 2 : int32
      %2 = load %x[%0] : float32
      store %out[%1, %0], %2
      yield
    }

After::

    kernel k(%x: array1d[float32], %out: array2d[float32]) {
      %0 = tid 0 of 1 : int64
      %1 = grid_dim 1 of 2 : int64
      %2 = div %0, %1 : int64
      %3 = mul %2, %1 : int64
      %4 = sub %0, %3 : int64
      %5 = cast %4 : int32
      %6 = cast %2 : int32
      %7 = load %x[%5] : float32
      store %out[%6, %5], %7
      yield
    }
"""

from __future__ import annotations

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import clone_function, grid_ndim
from warp_like.ir.types import Scalar, int32, int64
from warp_like.passes.rewriter import Rewriter, rewrite


def flatten_grid(f: Function, *, narrow: bool = False) -> Function:
    """Return ``f`` for the same grid seen as one dimension; itself where it is one already.

    ``narrow`` says that the grid has no more threads than ``contract.MAX_NARROW``: an int32 numbers them.
    """
    ndim = grid_ndim(f)
    if ndim == 1:
        return f
    f = clone_function(f)
    start = Block()
    rewrite(f, _Flattener(Emitter(start), ndim, int32 if narrow else int64))
    f.body.ops[:0] = start.ops
    return f


class _Flattener(Rewriter):
    """Puts what follows from the thread's number, which ``start`` computes, in place of its indices.

    The number, of ``type``, may exceed an int32, which each index along an axis fits.
    """

    def __init__(self, start: Emitter, ndim: int, type: Scalar) -> None:
        super().__init__()
        self.start, self.ndim = start, ndim
        number = start.insert(ops.Tid(0, 1), type).result
        extents = [start.insert(ops.GridDim(axis, ndim), int64).result for axis in range(1, ndim)]
        self.extents = [start.cast(n, type) for n in extents]
        found = []
        for extent in reversed(self.extents):
            before = start.apply("div", number, extent)
            found.append(start.sub(number, start.mul(before, extent)))
            number = before
        self.indices = [number, *reversed(found)]

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.Tid):
            self.replace(o, (self.start.cast(self._index(o.axis, o.ndim), o.result.type),))
        else:
            super().visit(o)

    def _index(self, axis: int, ndim: int) -> Value:
        """The index along an axis of the grid seen as one of ``ndim`` dimensions, into whose last the others fold."""
        found = self.indices[axis]
        if axis == ndim - 1:
            for index, extent in zip(self.indices[ndim:], self.extents[axis:], strict=True):
                found = self.start.add(self.start.mul(found, extent), index)
        return found


__all__ = ["flatten_grid"]
