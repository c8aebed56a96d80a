"""Which arrays the elements of arrays of structs hold is the host's to say: kernels work on them, and can't swap them.

So nothing that a kernel does changes which array a ``NestedArray`` is, and the memory of the arrays is kept alive by
the host. A struct that was read from an element may be written back there, with its other fields changed: what that
says of arrays is what holds already. Runs where equal indices are one value.

Runs after ``flatten_structs`` and ``cse``. Leaves no store of an array.

Before::

    kernel k(%cells: array1d[struct Cell]) {
      %0 = tid 0 of 1 : int32
      %1 = view %cells.items : array1d[array1d[float32]]
      %cells[...].items = nested %1[%0] : array1d[float32]
      store %1[%0], %cells[...].items
      %2 = view %cells.mass : array1d[float32]
      %3 = constant 1.0 : float32
      store %2[%0], %3
      yield
    }

After::

    kernel k(%cells: array1d[struct Cell]) {
      %0 = tid 0 of 1 : int32
      %1 = view %cells.items : array1d[array1d[float32]]
      %cells[...].items = nested %1[%0] : array1d[float32]
      %2 = view %cells.mass : array1d[float32]
      %3 = constant 1.0 : float32
      store %2[%0], %3
      yield
    }
"""

from __future__ import annotations

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Function, Op
from warp_like.ir.types import Array
from warp_like.passes.rewriter import Rewriter, rewrite


def keep_nested_arrays(f: Function) -> Function:
    """Drop what writes an array to the element that holds it, in place.

    Raises:
        WarpCodegenTypeError: Another array is written.
    """
    stores = (o for o in f.body.walk() if isinstance(o, ops.Store))
    return rewrite(f, _Keeper()) if any(isinstance(o.value.type, Array) for o in stores) else f


class _Keeper(Rewriter):
    def visit(self, o: Op) -> None:
        if not isinstance(o, ops.Store) or not isinstance(o.value.type, Array):
            super().visit(o)
            return
        held = o.value.op
        if isinstance(held, ops.NestedArray) and held.array is o.array and held.indices == o.indices:
            return
        with at(o.loc):
            raise WarpCodegenTypeError(
                f"which array `{self.b.nested(o.array, o.indices).hint}` is can't be changed by a kernel",
                help="assign the other fields one by one; on the host, a[i] = S(...) sets the arrays of an element",
            )
