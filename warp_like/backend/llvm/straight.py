"""Kernels that LLVM's standard pipeline can do nothing for, so that a short one compiles them in much less time.

Our own passes have already folded, merged and removed what can be, and the lanes are chosen. In a body that is one
block over one dimension of the grid, LLVM can only choose instructions, and keep in registers what is the same for all
threads: its code generator does both. What remains are loads that could be saved, which is why no memory is accessed
again after it has been written, and uniform values worth computing once for all threads.
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import grid_ndim
from warp_like.ir.types import Lanes

_CHEAP = ("add", "sub", "mul")
"""Builtins that the code generator moves out of a loop where nothing in them changes."""

_PLAIN = (ops.Constant, ops.Make, ops.Extract, ops.Insert, ops.GetField, ops.Cast, ops.Bitcast)
_LANES = (ops.Tid, ops.Dim, ops.Broadcast, ops.Iota, ops.LaneReduce, ops.ActiveMask, ops.Yield)


def is_straight(f: Function) -> bool:
    """Return whether ``f``, in lanes, is one block without anything for LLVM's optimiser to improve."""
    if f.schedule.lanes == 1 or grid_ndim(f) != 1:
        return False
    written: set[Value] = set()
    return all(_is_plain(o, written) for o in f.body.ops)


def _is_plain(o: Op, written: set[Value]) -> bool:
    """Whether ``o`` may stand in such a block; ``written`` are the arrays that the ops before it store to."""
    match o:
        case ops.Load(array=a) | ops.Store(array=a):
            fresh = a.op is None and a not in written  # a parameter, no view of one
            if isinstance(o, ops.Store):
                written.add(a)
            return fresh
        case ops.Apply(fn=fn):
            return fn in _CHEAP or all(isinstance(r.type, Lanes) for r in o.results)
    return isinstance(o, _PLAIN + _LANES)


__all__ = ["is_straight"]
