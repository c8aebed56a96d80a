"""How far a kernel reaches into an array in every launch, as data: artifacts hold it, launches compare it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from warp_like.base.contract import REACH
from warp_like.base.frozen import Frozen
from warp_like.base.loc import Excerpt


class Reach(Frozen):
    """Accesses along one axis of an array that every launch with threads makes, whatever the kernel computes.

    The indices run over the thread's index along the axes ``begin`` to ``end`` (exclusive) of the grid, which are
    folded into one, moved by ``offset``. The axes are one, all from one to the last, or none: then ``offset`` is the
    only index.

    Attributes:
        param: The position of the array among the parameters of the entry.
        axis: The axis of the array.
        begin: The first of the grid's axes.
        end: The axis after the last one.
        offset: The greatest distance from the thread's index; the least one where that is negative.
        from_end: Whether the indices count from the array's end: 0 is its last element, 1 the one before.
        frames: Where in the source, outermost call first.
    """

    param: int
    axis: int
    begin: int
    end: int
    offset: int
    from_end: bool = False
    frames: tuple[Excerpt, ...] = ()

    def threads(self, dims: Sequence[int]) -> int:
        """Return how many indices the grid's axes give, at least 1: of a grid that has threads."""
        return math.prod((*dims, 1, 1, 1)[self.begin : self.end])

    def fits(self, dims: Sequence[int], extent: int) -> bool:
        """Return whether all these indices are in range of an axis with so many elements."""
        return 0 <= self.offset <= extent - self.threads(dims)


def pack_reaches(reaches: Iterable[Reach]) -> bytes:
    """Return what native code compares (``native/reach.h``)."""
    return b"".join(REACH.pack(r.param, r.axis, r.begin, r.end, r.offset) for r in reaches)
