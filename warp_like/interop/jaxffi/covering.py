"""Which outputs a kernel overwrites as a whole, so that they need not be zeroed before: half of the memory traffic."""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array
from warp_like.passes.effects import array_accesses


def elementwise_stores(f: Function) -> frozenset[int]:
    """Return the positions of the arrays of which every thread stores the element that its own indices name.

    If the grid has the shape of such an array, all of it is stored. An array that is read as well is not among them.
    Only stores at the top level count, which no condition guards.
    """
    accesses = array_accesses(f)
    axes: dict[Value, tuple[int, int]] = {}
    stored: set[Value] = set()
    for op in f.body.ops:
        if isinstance(op, ops.Tid):
            axes[op.result] = (op.axis, op.ndim)
        elif isinstance(op, ops.Store):
            n = len(op.indices)
            if [axes.get(v) for v in op.indices] == [(d, n) for d in range(n)]:
                stored.add(op.array)
    return frozenset(
        i for i, p in enumerate(f.params) if isinstance(p.type, Array) and p in stored and not accesses[i].read
    )
