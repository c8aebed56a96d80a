"""Arrays of the thread's own: no other thread sees them, so atomics on them are plain updates.

Runs when no array is chosen by control flow. It is done again after passes that make such arrays or atomics on them
(the adjoint, blocks of one thread).

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = local (3,) : array1d[float32]
      %2 = load %x[%0] : float32
      %3 = atomic_add %1[%0], %2 : float32
      %4 = load %1[%0] : float32
      store %x[%0], %4
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = local (3,) : array1d[float32]
      %2 = load %x[%0] : float32
      %3 = load %1[%0] : float32
      %4 = add %3, %2 : float32
      store %1[%0], %4
      %5 = load %1[%0] : float32
      store %x[%0], %5
      yield
    }
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import find_ops
from warp_like.ir.types import Scalar
from warp_like.passes.rewriter import Rewriter, rewrite


def local_arrays(f: Function) -> list[Value]:
    """Return the local arrays of ``f``."""
    return [o.result for o in find_ops(f.body, ops.LocalArray)]


def lower_local_atomics(f: Function) -> Function:
    """Write the atomics of ``f`` on local arrays as loads and stores, in place."""
    return lower_exclusive_atomics(f, _is_local) if local_arrays(f) else f


def lower_exclusive_atomics(f: Function, is_exclusive: Callable[[Value], bool]) -> Function:
    """Write the atomics of ``f`` on arrays, or views of them, that no other thread touches as loads and stores."""
    return rewrite(f, _Lowerer(is_exclusive))


class _Lowerer(Rewriter):
    def __init__(self, is_exclusive: Callable[[Value], bool]) -> None:
        super().__init__()
        self.is_exclusive = is_exclusive

    def visit(self, o: Op) -> None:
        if not isinstance(o, (ops.Atomic, ops.AtomicCas)) or not self.is_exclusive(o.array):
            super().visit(o)
            return
        with at(o.loc):
            old = self.b.load(o.array, o.indices)
            self.b.store(o.array, o.indices, self.updated(o, old))
            self.replace(o, (old,))

    def updated(self, o: ops.Atomic | ops.AtomicCas, old: Value) -> Value:
        """What the update leaves of ``old``: each component on its own, unless that is the same for all at once."""
        if isinstance(o, ops.AtomicCas):
            return self.by_components(self.swapped, old, o.value, o.compare)
        kind = KINDS[o.kind]
        if kind.new is None:
            return o.value
        new = functools.partial(kind.new, self.b)
        return new(old, o.value) if kind.sign else self.by_components(new, old, o.value)

    def by_components(self, new: Callable[..., Value], *values: Value) -> Value:
        """``new`` of each component of ``values``."""
        made = [new(*parts) for parts in zip(*map(self.b.components, values), strict=True)]
        return made[0] if isinstance(values[0].type, Scalar) else self.b.make(values[0].type, made)

    def swapped(self, old: Value, value: Value, compare: Value) -> Value:
        """``value`` where ``old`` has the bits of ``compare``, else ``old``."""
        return self.b.select(self.b.eq(self.bits(old), self.bits(compare)), value, old)

    def bits(self, x: Value) -> Value:
        """The bits of a number, as an integer."""
        assert isinstance(x.type, Scalar)
        return self.b.bitcast(x, Scalar("int", x.type.bits)) if x.type.is_float else x


def _is_local(array: Value) -> bool:
    made = ops.base_array(array).op
    return isinstance(made, ops.LocalArray) and not made.shared
