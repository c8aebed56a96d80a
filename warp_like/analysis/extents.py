"""How far every launch of a function reaches into its arrays, so that arrays that are too small are refused before it.

Only accesses count that every thread makes, whatever it computes (``analysis/memory.py``). The index must be

* a constant, or a constant from the array's end (``a[-1]``, ``a[a.shape[0] - 1]``),
* the thread's index along one axis of the grid, plus a constant, or from the array's end (``a[a.shape[0] - 1 - i]``),

plus loop variables times constants, of loops whose bounds are constants::

    %i = tid 0 of 1
    for %k in 0, 3, 1 {              # 3 * k + 1: at most 7
      %0 = mul %k, 3
      %1 = add %0, 1
      %2 = add %i, %1                # reaches as far as 7 beyond the thread's index
      store %x[%2], ...

Numbers here are exact, while kernels compute in 32 or 64 bits. That makes no difference. A thread's index has at most
31 bits where it is an int32, and so have offsets, so an index that wraps becomes negative: it is out of range, as the
exact one is when it is refused. Unsigned numbers count only where they can't be negative.
"""

from __future__ import annotations

from typing import NamedTuple

from warp_like.analysis.memory import Memory, counted_range
from warp_like.base.loc import Loc
from warp_like.base.reach import Reach
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import find_ops, grid_ndim
from warp_like.ir.types import Array, Scalar

_MOST = 2**31 - 1

_Access = ops.Load | ops.Store | ops.Atomic | ops.AtomicCas | ops.NestedArray


def reaches(memory: Memory) -> tuple[Reach, ...]:
    """Return how far accesses that every thread makes reach into a function's arrays, in the program's order."""
    finder = _Finder(memory.function)
    for a in memory.accesses:
        if a.always_executed and isinstance(a.op, _Access):
            finder.access(a.op)
    return tuple(finder.found.values())


class _Index(NamedTuple):
    """An integer as the sum of a constant, loop variables times constants, and at most one thread index or extent.

    Attributes:
        constant: The constant.
        loops: The factor of each loop variable.
        dim: The dimension of the grid along which the thread's index is added, or subtracted where there is an extent.
        extent: The parameter and axis whose extent is added.
        bits: How many bits the thread's index or the extent has; 0 where there is none.
    """

    constant: int
    loops: dict[Value, int]
    dim: int | None = None
    extent: tuple[int, int] | None = None
    bits: int = 0


class _Finder:
    def __init__(self, f: Function) -> None:
        self.positions = {p: i for i, p in enumerate(f.params) if isinstance(p.type, Array)}
        loops = find_ops(f.body, ops.For)
        self.counted = {o.body.params[0]: trips for o in loops if (trips := counted_range(o))}
        self.found: dict[tuple[int, int, int | None, bool, bool], Reach] = {}
        self.grid_ndim = grid_ndim(f)

    def access(self, o: _Access) -> None:
        """Note how far an access reaches along each axis."""
        array, indices = o.array, o.indices
        if isinstance(array.op, ops.Components):
            array, indices = array.op.array, indices[:-1]
        param, leading = self.place(array)
        if param is None:
            return
        for axis, value in enumerate((*leading, *indices)):
            index = self.index(value)
            reach = None if index is None else self.reach(param, axis, index)
            if reach is not None:
                self.note(reach, o.loc)

    def note(self, reach: Reach, loc: Loc | None) -> None:
        """Keep a reach unless a greater one is known that is the same otherwise."""
        key = (reach.param, reach.axis, reach.dim, reach.from_end, reach.offset < 0)
        known = self.found.get(key)
        if known is None or reach.offset > known.offset >= 0:
            self.found[key] = reach.replace(
                frames=() if loc is None else tuple(place.excerpt() for place in loc.chain())
            )

    def place(self, array: Value) -> tuple[int | None, tuple[Value, ...]]:
        """Return the parameter that ``array`` is a part of, None if it is no such part, and the leading indices."""
        leading: tuple[Value, ...] = ()
        while isinstance(array.op, ops.View):
            leading = (*array.op.indices, *leading)
            array = array.op.array
        return self.positions.get(array), leading

    def reach(self, param: int, axis: int, index: _Index) -> Reach | None:
        """Return how far an index reaches along an axis, from its end where the axis' extent is part of the sum."""
        if index.extent is not None:
            if index.extent != (param, axis):
                return None
            turned = {v: -factor for v, factor in index.loops.items()}
            index = index._replace(constant=-1 - index.constant, loops=turned)
        low, high = self.span(index)
        return Reach(param, axis, index.dim, low if low < 0 else high, index.extent is not None)

    def span(self, index: _Index) -> tuple[int, int]:
        """Return the least and the greatest value of the constant and the loop variables together."""
        low = high = index.constant
        for v, factor in index.loops.items():
            ends = factor * self.counted[v][0], factor * self.counted[v][-1]
            low, high = low + min(ends), high + max(ends)
        return low, high

    # --- expressions ---

    def index(self, v: Value) -> _Index | None:
        """Return an integer as a sum; None where it is none, or may differ from the exact one and be in range."""
        found = self.sum(v)
        if found is None or not isinstance(v.type, Scalar):
            return None
        low, high = self.span(found)
        if max(-low, high) > _MOST:
            return None
        if not v.type.is_signed and (low < 0 or found.extent is not None):
            return None
        return found

    def sum(self, v: Value) -> _Index | None:
        if v in self.counted:
            return _Index(0, {v: 1})
        match v.op:
            case ops.Constant(value=int() as number) if not isinstance(number, bool):
                return _Index(number, {})
            case ops.Tid(axis=axis, ndim=ndim) if ndim == self.grid_ndim:  # else the thread's number
                return _Index(0, {}, dim=axis, bits=_bits(v))
            case ops.Dim(array=array, axis=axis):
                param, leading = self.place(array)
                return None if param is None else _Index(0, {}, extent=(param, axis + len(leading)), bits=_bits(v))
            case ops.Cast(x=x):
                found = self.index(x)
                return found if found is not None and _bits(v) >= max(found.bits, 32) else None
            case ops.Apply(fn="add" | "sub" | "mul" as fn, args=(x, y)) if _bits(v) >= 32:
                a, b = self.index(x), self.index(y)
                return None if a is None or b is None else _combined(fn, a, b)
        return None


def _combined(fn: str, a: _Index, b: _Index) -> _Index | None:
    """The sum, the difference or the product of two sums, where it has the form of a sum itself."""
    if fn == "mul":
        a, b = (b, a) if _is_constant(a) else (a, b)
        if not _is_constant(b) or a.bits:
            return None
        return _Index(a.constant * b.constant, {v: factor * b.constant for v, factor in a.loops.items()})
    sign = 1 if fn == "add" else -1
    loops = dict(a.loops)
    for v, factor in b.loops.items():
        loops[v] = loops.get(v, 0) + sign * factor
    total = _Index(a.constant + sign * b.constant, loops, bits=max(a.bits, b.bits))
    if not b.bits:
        return total._replace(dim=a.dim, extent=a.extent)
    if not a.bits and sign > 0:
        return total._replace(dim=b.dim, extent=b.extent)
    if a.extent is not None and a.dim is None and b.extent is None and sign < 0:
        return total._replace(dim=b.dim, extent=a.extent)
    return None


def _is_constant(a: _Index) -> bool:
    return not a.bits and not a.loops


def _bits(v: Value) -> int:
    """The bits of an integer; 0 for what is none."""
    return v.type.bits if isinstance(v.type, Scalar) and v.type.is_int else 0


__all__ = ["reaches"]
