"""Arrays of which no two threads touch the same element.

The reverse of a store takes the adjoint of the element and leaves 0. Where other threads may store to the element too,
or add to its adjoint, that must be one atomic exchange: one thread alone gets the adjoint, as one store alone wins.
Where the element belongs to the thread, a load and a store do it, which vectorise.

An array is private when every access names the thread: each index of the grid can be read off one dimension of the
array, in the same way for every access. It can where all indices there are ``c * i + rest``, with the same ``c`` and

* the same rest in all threads and accesses, and an odd ``c``: such multiples differ modulo a power of two
  (``y[i]``, ``y[n - 1 - i]``);
* rests that lie closer together than ``c``, if no index wraps (``y[4 * i]`` and ``y[4 * i + k]``, ``k`` from 0 to 3).

Arrays that stand in elements of others, and what functions with a gradient of their own and native code reach, are
taken for shared.

**Why no index wraps.** The type may be wide enough for every grid. Else the accesses that every thread makes prove it:
from thread to thread such an index moves by less than 2 ``c``, which is little beside the range of its type. So if the
index of some thread wrapped, that of a thread before it would have left the range by little and be negative, which is
out of the array. What is in range for the last thread then limits the other accesses as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warp_like.analysis.indices import Linear, Part
from warp_like.analysis.intervals import Interval, hull, type_range, within
from warp_like.analysis.memory import Access, Memory, Root
from warp_like.analysis.ranges import Ranges, find_ranges
from warp_like.ir import ops

_Tid = tuple[int, int]


def private_roots(memory: Memory) -> set[Root]:
    """Return the parameters whose elements are each touched by one thread alone, of a grid of any extents."""
    finder = _Finder(memory)
    return {root for root in memory.all_roots if root.kind == "parameter" and finder.is_private(memory.of(root))}


class _Place(NamedTuple):
    """The index of one access along one dimension."""

    sum: Linear
    always_executed: bool


class _Finder:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._ranges: Ranges | None = None

    def is_private(self, accesses: Sequence[Access]) -> bool:
        """Return whether two threads never touch one element by ``accesses``, which are all of an array's."""
        places = [[None if x is None else _Place(x, a.always_executed) for x in a.sums or ()] for a in accesses]
        columns = ([p for p in column if p is not None] for column in zip(*places, strict=False))
        named = {self._named(column) for column in columns if len(column) == len(accesses)}
        return any(named.issuperset((axis, ndim) for axis in range(ndim)) for _, ndim in filter(None, named))

    def _named(self, places: Sequence[_Place]) -> _Tid | None:
        """The thread index that follows from an index along one dimension, whichever access it is of."""
        first, *others = (p.sum for p in places)
        if len(first.terms) != 1 or any(x.terms != first.terms for x in others):
            return None
        ((tid, factor),) = first.terms
        same = not first.loops and all((x.offset, x.parts) == (first.offset, first.parts) for x in others)
        return tid if (same and factor % 2) or (abs(factor) > 1 and self._is_apart(places, factor)) else None

    def _is_apart(self, places: Sequence[_Place], factor: int) -> bool:
        """Whether the rests lie closer together than ``factor``, and no index wraps."""
        common = frozenset.intersection(*(p.sum.parts for p in places))
        fixed = {part for part in common if not part.loops}
        rests = [self._rest(p.sum, p.sum.parts - fixed) for p in places]
        low, high = min(r[0] for r in rests), max(r[1] for r in rests)
        return high - low < abs(factor) and self._none_wraps(places, factor)

    def _none_wraps(self, places: Sequence[_Place], factor: int) -> bool:
        size, rests = abs(factor), [self._rest(p.sum, p.sum.parts) for p in places]
        most = self._largest_thread() * size  # of what is added to, or taken from, the rest
        left = []
        for place, rest in zip(places, rests, strict=True):
            whole = type_range(place.sum.type)
            small = -whole[0] // 8 >= size  # and the type has a sign
            if place.always_executed and small and whole[0] <= rest[0] and rest[1] < whole[1] + size:
                most = min(most, ((whole[1] - rest[0]) if factor > 0 else rest[1]) // size * size)
            else:
                left.append((rest, whole))
        moved = (0, most) if factor > 0 else (-most, 0)
        return all(within((rest[0] + moved[0], rest[1] + moved[1]), whole) for rest, whole in left)

    def _rest(self, x: Linear, parts: Iterable[Part]) -> Interval:
        """The interval of the constant of ``x`` plus ``parts``."""
        low = high = x.offset
        for part in parts:
            ends = [part.factor * end for end in self._known.of(part.value)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @property
    def _known(self) -> Ranges:
        if self._ranges is None:
            self._ranges = find_ranges(self._memory.function)
        return self._ranges

    def _largest_thread(self) -> int:
        """The largest index of a thread of any grid."""
        found = (0, 0)
        for o in self._memory.function.body.walk():
            if isinstance(o, ops.Tid):
                found = hull(found, self._known.of(o.result))
        return found[1]
