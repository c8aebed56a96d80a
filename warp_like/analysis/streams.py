"""Kernels that stream: each thread reads and writes its own element of some arrays, and does a little arithmetic.

Memory bounds such a kernel, and a GPU moves 128 bits as fast as 32. So a thread may take several neighbouring places of
the grid, whose elements it loads and stores together (``backend/llvm/entry.py``). That asks of the kernel

- one dimension of the grid, and no control flow, so that nothing is done for some of the places alone;
- elements that are scalars, at the thread's own index: those of neighbours are side by side;
- plain loads and stores. An addition to an element that one thread alone touches is such a pair;
- few and cheap ops, as the registers and the code grow with the places.

Example, with ``i = wp.tid()``: ``y[i] = a * x[i] + y[i]`` streams; ``y[i] = x[i + 1]`` and ``y[i] = x[k[i]]`` do not.
"""

from __future__ import annotations

from collections.abc import Collection

from warp_like.analysis.indices import ThreadIndex
from warp_like.analysis.memory import Access, Memory
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.layout import size_of
from warp_like.ir.rewrite import grid_ndim
from warp_like.ir.types import Array, Scalar

MOST_PLACES = 4
WIDEST = 16
"""The most bytes of one access."""

MOST_OPS = 48
_CHEAP = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "min", "max", "fma", "select", "and", "or", "xor", "not", "invert"),
        *("bit_and", "bit_or", "bit_xor", "shl", "shr", "lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne"),
        *("floor", "ceil", "trunc", "rint", "sqrt"),
    )
)
_OTHERS = (ops.Constant, ops.Tid, ops.Cast, ops.Bitcast, ops.Dim, ops.Load, ops.Store, ops.Atomic, ops.Yield)


def places_a_thread(memory: Memory, private: Collection[int]) -> int:
    """Return how many neighbouring places of the grid a thread of a GPU takes at once; 1 for none but its own.

    Args:
        memory: Of the finished kernel.
        private: The array parameters, by position, to which additions need not be atomic.
    """
    f = memory.function
    if f.tid_ndim != 1 or grid_ndim(f) != 1 or len(f.body.ops) > MOST_OPS or not memory.accesses:
        return 1
    if not all(isinstance(o, _OTHERS) or (isinstance(o, ops.Apply) and o.fn in _CHEAP) for o in f.body.ops):
        return 1
    if memory.anywhere or not all(_streams(a, memory, private) for a in memory.accesses):
        return 1
    widest = max(size_of(a.array.type.dtype) for a in memory.accesses if isinstance(a.array.type, Array))
    return min(MOST_PLACES, WIDEST // widest)


def _streams(a: Access, memory: Memory, private: Collection[int]) -> bool:
    t = a.array.type
    if a.array not in memory.function.params or not isinstance(t, Array) or not isinstance(t.dtype, Scalar):
        return False
    if a.kind not in ("load", "store") and not (
        KINDS[a.kind].sign and not a.used and memory.function.params.index(a.array) in private
    ):
        return False
    return a.indices == (ThreadIndex(0, 1),)
