"""Along which dimensions of its grid a kernel falls apart into kernels on parts of its arrays.

Where it does, several devices can each run it on the part of the arrays that they hold, and the parts of the result are
the result, or add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import Array

Axes = dict[int, dict[int, int | None]]
_ACCESSES = (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)


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
    if len(ndims) != 1 or any(isinstance(o, ops.Native) for o in body):  # which may access any element
        return 0, {}
    arrays = {p: i for i, p in enumerate(f.params) if isinstance(p.type, Array)}
    places: dict[int, list[list[int | None]]] = {i: [] for i in arrays.values()}
    written: set[int] = set()
    overwritten: set[int] = set()  # or read after additions
    used = {v for o in body for v in o.operands()}
    blocked: set[int] = set()  # dimensions of the grid
    whole: set[tuple[int, int | None]] = set()  # arrays, and dimensions of arrays, that can't be split
    for o in body:
        elsewhere: Sequence[Value] = o.operands()
        if isinstance(o, _ACCESSES):
            if o.array not in arrays:
                return 0, {}  # a view, or chosen by control flow
            i = arrays[o.array]
            places[i].append([tids[v].axis if v in tids else None for v in o.indices])
            if not isinstance(o, ops.Load):
                written.add(i)
            if not (isinstance(o, ops.Atomic) and o.kind in ("add", "sub") and o.result not in used):
                overwritten.add(i)
            elsewhere = _beyond_address(o)
        elif isinstance(o, ops.Dim) and o.array in arrays:
            whole.add((arrays[o.array], o.axis))
            continue
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


def _beyond_address(o: Op) -> list[Value]:
    """Return the operands of an access that do not say which element is meant."""
    match o:
        case ops.Store() | ops.Atomic():
            return [o.value]
        case ops.AtomicCas():
            return [o.compare, o.value]
    return []


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
