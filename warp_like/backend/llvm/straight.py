"""Kernels that LLVM's standard pipeline can do nothing for, so that a short one compiles them in much less time.

Our own passes have already folded, merged and removed what can be, and the lanes are chosen. In a body that is one
block over one dimension of the grid, LLVM can only choose instructions, and keep in registers what is the same for all
threads: its code generator does both. What remains are loads that could be saved, which is why no memory is accessed
again after it has been written, and uniform values worth computing once for all threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import grid_ndim
from warp_like.ir.types import Lanes

_CHEAP = ("add", "sub", "mul")
"""Builtins that the code generator moves out of a loop where nothing in them changes."""

_SMALL = 64
"""The most ops beside additions to elements. Gradients of larger functions compute some things twice, which LLVM
merges; and there its passes take little of the time."""

_PLAIN = (ops.Constant, ops.Make, ops.Extract, ops.Insert, ops.GetField, ops.Cast, ops.Bitcast)
_LANES = (ops.Tid, ops.Dim, ops.Broadcast, ops.Iota, ops.LaneReduce, ops.ActiveMask, ops.Yield)


def is_straight(f: Function, private: Sequence[int] = ()) -> bool:
    """Return whether ``f``, in lanes, is one block without anything for LLVM's optimiser to improve.

    Of the arrays at the positions ``private`` each thread touches its own element alone, so that additions at indices
    a fixed step apart are loads and stores.
    """
    if f.schedule.lanes == 1 or grid_ndim(f) != 1:
        return False
    written: set[Value] = set()
    own = {f.params[i] for i in private} if len(f.body.ops) <= _SMALL else set()
    return all(_is_plain(o, written, own) for o in f.body.ops)


def _is_plain(o: Op, written: set[Value], private: set[Value]) -> bool:
    """Whether ``o`` may stand in such a block; ``written`` are the arrays that the ops before it store to."""
    match o:
        case ops.Atomic(array=a, kind=kind, indices=indices) if (
            a not in private or not KINDS[kind].sign or not all(isinstance(i.op, ops.Iota) for i in indices)
        ):
            return False
        case ops.Load(array=a) | ops.Store(array=a) | ops.Atomic(array=a):
            fresh = a.op is None and a not in written  # a parameter, no view of one
            if not isinstance(o, ops.Load):
                written.add(a)
            return fresh
        case ops.Apply(fn=fn):
            return fn in _CHEAP or all(isinstance(r.type, Lanes) for r in o.results)
    return isinstance(o, _PLAIN + _LANES)


__all__ = ["is_straight"]
