"""Which atomic additions need not be atomic where no other launch touches the arrays meanwhile.

Two kinds of array parameters, all of whose elements have at least 32 bits (shorter ones would round differently in
another order):

* *Summed*: the kernel only adds to them, and uses no old element. Additions may then happen anywhere, at any time, so
  each OS thread may add into a copy of its own.
* *Own*: every access is at the thread's own index in the grid, so no two threads share an element.
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import Array, scalar_of

_Access = ops.Load | ops.Store | ops.Atomic | ops.AtomicCas


def plain_additions(f: Function) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of the summed and of the own arrays of ``f`` that it adds to atomically."""
    accesses: dict[Value, list[_Access]] = {}
    for o in f.body.walk():
        if isinstance(o, (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)):
            accesses.setdefault(_root(o.array), []).append(o)
    if not accesses.keys() <= set(f.params):
        return (), ()  # an array that came through control flow: nobody knows which one it is
    used = {v for o in f.body.walk() for v in o.operands()}
    summed, own = [], []
    for i, p in enumerate(f.params):
        found = accesses.get(p, [])
        if not any(_adds(o) for o in found) or not _is_wide(p):
            continue
        if all(_is_own(o) for o in found):
            own.append(i)
        elif all(_adds(o) and o.results[0] not in used for o in found):
            summed.append(i)
    return tuple(summed), tuple(own)


def _root(v: Value) -> Value:
    while isinstance(v.op, ops.View):
        v = v.op.array
    return v


def _is_wide(p: Value) -> bool:
    scalar = scalar_of(p.type.dtype) if isinstance(p.type, Array) else None
    return scalar is not None and scalar.bits >= 32


def _adds(o: Op) -> bool:
    return isinstance(o, ops.Atomic) and o.kind in ("add", "sub")


def _is_own(o: _Access) -> bool:
    """Whether ``o`` is at the index of the thread in a grid of as many dimensions as the array has."""
    n = len(o.indices)
    if isinstance(o.array.op, ops.View):
        return False
    tids = [i.op for i in o.indices]
    return all(isinstance(t, ops.Tid) and t.axis == k and t.ndim == n for k, t in enumerate(tids))
