"""Number the threads of the whole grid: a function of a grid of several dimensions becomes one of a single dimension.

Lanes are neighbours along the last dimension, and where that is short, most lanes have no thread. Kernels on tiles
often run over grids such as ``(4096, 1)``, and what a lane computes there outweighs that indices come from divisions.

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
from warp_like.ir.types import int64
from warp_like.passes.rewriter import Rewriter, rewrite


def flatten_grid(f: Function) -> Function:
    """Return ``f`` for the same grid seen as one dimension; itself where it is one already."""
    ndim = grid_ndim(f)
    if ndim == 1:
        return f
    f = clone_function(f)
    start = Block()
    b = Emitter(start)
    indices = _indices(b, ndim)
    rewrite(f, _Flattener(b, indices))
    f.body.ops[:0] = start.ops
    return f


def _indices(b: Emitter, ndim: int) -> list[Value]:
    """The thread's index along each axis. Their number in the grid may exceed an int32, which each index fits."""
    number = b.insert(ops.Tid(0, 1), int64).result
    found = []
    for axis in range(ndim - 1, 0, -1):
        extent = b.insert(ops.GridDim(axis, ndim), int64).result
        before = b.apply("div", number, extent)
        found.append(b.sub(number, b.mul(before, extent)))
        number = before
    return [number, *reversed(found)]


class _Flattener(Rewriter):
    """Puts ``indices`` in place of the thread's."""

    def __init__(self, start: Emitter, indices: list[Value]) -> None:
        super().__init__()
        self.start, self.indices = start, indices

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.Tid):
            self.replace(o, (self.start.cast(self.indices[o.axis], o.result.type),))
        else:
            super().visit(o)


__all__ = ["flatten_grid"]
