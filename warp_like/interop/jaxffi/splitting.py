"""Along which dimensions of its grid a kernel falls apart into kernels on parts of its arrays.

Where it does, several devices can each run it on the part of the arrays that they hold, and the parts of the result are
the result, or add up to it.
"""

from __future__ import annotations

from collections.abc import Container

from warp_like.analysis.indices import ThreadIndex
from warp_like.analysis.memory import Access, adds, analyse, writes
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import Array

Axes = dict[int, dict[int, int | None]]


def separable_axes(f: Function) -> tuple[int, Axes]:
    """Return how many dimensions ``f`` sees in its grid, and those along which it falls apart.

    With each of these, by position, the arrays that are split with it, and the dimension along which; None for arrays
    to which each part adds. That is so where the thread's index is used to name elements alone, always in the same
    place; where nothing asks for the extent of what is split; and where every array that is written is split or only
    added to.
    """
    body = list(f.body.walk())
    tids = {o.result: o for o in body if isinstance(o, ops.Tid)}
    ndims = {o.ndim for o in tids.values()}
    memory = analyse(f)
    arrays = {p: i for i, p in enumerate(f.params) if isinstance(p.type, Array)}
    if len(ndims) != 1 or memory.anywhere or not all(_is_direct(a, arrays) for a in memory.accesses):
        return 0, {}
    places = {i: [_named(a) for a in memory.of_parameter(i)] for i in arrays.values()}
    written = {i for i in places if any(map(writes, memory.of_parameter(i)))}
    # or read after additions
    overwritten = {i for i in places if not all(adds(a) and not a.used for a in memory.of_parameter(i))}
    blocked: set[int] = set()  # dimensions of the grid
    whole: set[tuple[int, int | None]] = set()  # arrays, and dimensions of arrays, that can't be split
    for o in body:
        if isinstance(o, ops.Dim) and o.array in arrays:
            whole.add((arrays[o.array], o.axis))
            continue
        elsewhere = _beyond_address(o)
        blocked.update(tids[v].axis for v in elsewhere if v in tids)
        whole.update((arrays[v], None) for v in elsewhere if v in arrays)
    (ndim,) = ndims
    found: Axes = {}
    for axis in set(range(ndim)) - blocked:
        split = _split(axis, places)
        if split is None or (written & overwritten) - split.keys():
            continue
        if not any((i, d) in whole or (i, None) in whole for i, d in split.items()):
            found[axis] = split | dict.fromkeys(written - split.keys())
    return ndim, found


def _is_direct(a: Access, arrays: Container[Value]) -> bool:
    """Whether an access names a parameter itself: it is through no view, and control flow does not choose the array."""
    return isinstance(a.op, (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)) and a.array in arrays


def _named(a: Access) -> list[int | None]:
    """The dimension of the grid whose index stands at each dimension of the array, if one does."""
    return [i.axis if isinstance(i, ThreadIndex) and i.offset == 0 else None for i in a.indices or ()]


def _beyond_address(o: Op) -> list[Value]:
    """Return the operands of an op that do not say which element of an array is meant."""
    match o:
        case ops.Load():
            return []
        case ops.Store() | ops.Atomic():
            return [o.value]
        case ops.AtomicCas():
            return [o.compare, o.value]
    return o.operands()


def _split(axis: int, places: dict[int, list[list[int | None]]]) -> dict[int, int] | None:
    """Return which dimension of each array the index along ``axis`` names; None where accesses differ in that."""
    split = {}
    for i, accesses in places.items():
        named = {tuple(d for d, a in enumerate(access) if a == axis) for access in accesses}
        if any(named):
            if len(named) > 1 or len(next(iter(named))) > 1:
                return None
            split[i] = next(iter(named))[0]
    return split
