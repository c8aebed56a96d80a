"""How far a kernel reaches into an array in every launch, as data: artifacts hold it, launches compare it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.base.contract import MAX_DIMS, REACH
from warp_like.base.frozen import Frozen
from warp_like.base.loc import Excerpt


class Reach(Frozen):
    """Accesses along one axis of an array that every launch with threads makes, whatever the kernel computes.

    The indices run over the thread's index along dimension ``dim`` of the grid, moved by ``offset``. Where that is
    None, ``offset`` is the only index.

    Attributes:
        param: The position of the array among the parameters of the entry.
        axis: The axis of the array.
        dim: The dimension of the grid, or None.
        offset: The greatest distance from the thread's index; the least one where that is negative.
        from_end: Whether the indices count from the array's end: 0 is its last element, 1 the one before.
        frames: Where in the source, outermost call first.
    """

    param: int
    axis: int
    dim: int | None
    offset: int
    from_end: bool = False
    frames: tuple[Excerpt, ...] = ()

    def threads(self, dims: Sequence[int]) -> int:
        """Return how many indices there are, at least 1: of a grid that has threads."""
        return 1 if self.dim is None or self.dim >= len(dims) else dims[self.dim]

    def fits(self, dims: Sequence[int], extent: int) -> bool:
        """Return whether all these indices are in range of an axis with so many elements."""
        return 0 <= self.offset <= extent - self.threads(dims)


def pack_reaches(reaches: Iterable[Reach]) -> bytes:
    """Return what native code compares (``native/reach.h``)."""
    return b"".join(REACH.pack(r.param, r.axis, MAX_DIMS if r.dim is None else r.dim, r.offset) for r in reaches)
