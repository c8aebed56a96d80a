"""Arrays that differ from lane to lane: those that elements hold, of which each lane looks up its own.

Such an ``ArrayRef`` has vectors in its registers: a pointer, an extent and a stride for each lane. Lanes that were off
when it was looked up have a null pointer and extents of 0, so addresses are computed without promises about them. What
the arrays are is not known, nor whether some are one: accesses say to LLVM no more than those of one thread do.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.lanes import Access, LaneIndex, any_lane, if_full
from warp_like.backend.llvm.shuffle import iota, splat
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, constant, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Array, Vec, int64


class ScatteredAccess(Access):
    """The elements of arrays that differ from lane to lane: ``arrays``, of which ``array`` is any."""

    def __init__(
        self, w: Writer, array: ArrayRef, indices: Sequence[LaneIndex], width: int, mask: str, partial: bool = False
    ) -> None:
        self.arrays = array
        super().__init__(w, array.replace(scattered=0), indices, width, mask, partial)

    def _where(self) -> tuple[str, None]:
        return "", None

    def _element_pointers(self) -> str:
        w, array = self.w, self.arrays
        whole = register_type(LaneScalar("int", 64, self.width))
        offset, last = "", len(array.strides) - 1
        for axis, (index, stride) in enumerate(zip(self.indices, array.strides, strict=True)):
            if index.stride == 0 and index.first == "0":
                continue
            along = self._along_last if axis == last and array.adjacent else self._along
            term = along(self._in_lanes(index), stride)
            offset = term if not offset else w.op(f"add {whole} {offset}, {term}")
        if not offset:
            return array.data
        return w.op(f"getelementptr i8, {memory.pointer(w, array)} {array.data}, {whole} {offset}")

    def _along(self, index: str, stride: str) -> str:
        return self.w.op(f"mul {register_type(LaneScalar('int', 64, self.width))} {index}, {stride}")

    def _along_last(self, index: str, stride: str) -> str:
        """The same by a constant where elements are adjacent, as mostly: products of vectors take as long as loads."""
        made = if_full(
            self.w,
            self.width,
            self.mask,
            [register_type(LaneScalar("int", 64, self.width))],
            lambda: [self._along(index, f"splat (i64 {self.size})")],
            lambda: [self._along(index, stride)],
            self.arrays.adjacent,
        )
        return made[0]

    def _in_lanes(self, index: LaneIndex) -> str:
        """All lanes' indices in 64 bits."""
        if index.stride is None:
            return self._as_64(index)
        w, wide = self.w, LaneScalar("int", 64, self.width)
        first, whole = splat(w, wide, index.first), register_type(wide)
        if not index.stride:
            return first
        return w.op(f"add {whole} {first}, {w.op(f'mul {whole} {iota(wide)}, {constant(index.stride, wide)}')}")


def arrays_at(
    t: Array, w: Writer, array: ArrayRef, indices: Sequence[LaneIndex], width: int, mask: str, partial: bool
) -> ArrayRef:
    """Return the arrays, each a ``t``, that the elements of ``array`` hold, one for each lane of ``mask``."""
    numbers = Array(Vec(1 + 2 * t.ndim, int64), array.type.ndim)
    place = ArrayRef(numbers, array.data, array.shape, array.strides, scattered=array.scattered)
    kind = ScatteredAccess if array.scattered else Access
    address, *found = kind(w, place, indices, width, mask, partial).load()
    data = w.op(f"inttoptr <{width} x i64> {address} to <{width} x ptr>")
    made = ArrayRef(t, data, tuple(found[: t.ndim]), tuple(found[t.ndim :]), scattered=width)
    differ = w.op(f"icmp ne <{width} x i64> {found[-1]}, splat (i64 {made.element_size})")
    some = any_lane(w, width, w.op(f"and <{width} x i1> {differ}, {mask}"))
    return made.replace(adjacent=w.op(f"xor i1 {some}, true"))
