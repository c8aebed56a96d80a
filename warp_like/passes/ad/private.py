"""Arrays of which no two threads touch the same element.

The reverse of a store takes the adjoint of the element and leaves 0. Where other threads may store to the element too,
or add to its adjoint, that must be one atomic exchange: one thread alone gets the adjoint, as one store alone wins.
Where the element belongs to the thread, a load and a store do it, which vectorise.

An array is private when every access names the thread: all indices of the grid, each perhaps plus a constant, stand in
the same dimensions of the array in every access, as in ``y[i]``, ``y[i + 1]`` alone, or ``y[i, k]``. Arrays that stand
in elements of others, and what functions with a gradient of their own and native code reach, are taken for shared.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.analysis.indices import Own
from warp_like.analysis.memory import Access, Memory, Root


def private_roots(memory: Memory) -> set[Root]:
    """Return the parameters whose elements are each touched by one thread alone, of a grid of any extents."""
    return {root for root in memory.all_roots if root.kind == "parameter" and _is_private(memory.of(root))}


def _is_private(accesses: Sequence[Access]) -> bool:
    places = [_places(a) for a in accesses]
    same = {d: own for d, own in places[0].items() if all(p.get(d) == own for p in places)}
    named = {(own.axis, own.ndim) for own in same.values()}
    return any(named.issuperset((axis, ndim) for axis in range(ndim)) for _, ndim in named)


def _places(a: Access) -> dict[int, Own]:
    """The dimensions of the array in which an access has the thread's index plus a constant."""
    return {d: index for d, index in enumerate(a.indices or ()) if isinstance(index, Own)}
