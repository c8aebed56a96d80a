"""Elements that follow on each other in a row of each lane: vector loads of a few, transposed in registers.

A register of lanes is seen as blocks of as many lanes as there are elements. Of four elements, the lanes 0, 4, 8, ...
are loaded side by side into one register, 1, 5, 9, ... into the next, and so on; then the element ``k`` of all lanes is
the transposed of these registers, block by block, for which processors have instructions within 128 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm.lanes import Access, LaneIndex, if_full
from warp_like.backend.llvm.shuffle import interleaved, join, shuffle, splat, split, transposed, typed
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, one_lane, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.layout import align_of


class ConsecutiveAccess:
    """The elements of an array at one index a lane, and those that follow along the last dimension: ``count`` each.

    Numbers of 32 or 64 bits: as many as fill 128 bits, or a power of two up to the number of lanes, or as many as there
    are elements from lane to lane. As with ``Access``, the mask never has all lanes where ``partial``.
    """

    def __init__(
        self, w: Writer, array: ArrayRef, indices: Sequence[LaneIndex], width: int, mask: str, partial: bool, count: int
    ) -> None:
        self.w, self.array, self.indices, self.count, self.width = w, array, indices, count, width
        self.mask, self.partial = mask, partial
        self.first = self._at(0)
        ((t, _),) = self.first.leaves
        assert isinstance(t, LaneScalar)
        self.type = t

    def load(self) -> list[str]:
        """Return the elements: a register of all lanes for each place."""
        if self.first.is_full and not self.array.strides:
            return self._load_rows()
        if self.partial or self.array.strides:
            return self._load_apart()
        types = [register_type(self.type)] * self.count
        return if_full(self.w, self.width, self.mask, types, self._load_rows, self._load_apart)

    def store(self, values: Sequence[str]) -> None:
        """Write the elements."""

        def rows() -> list[str]:
            return self._store_rows(values)

        def apart() -> list[str]:
            for k, x in enumerate(values):
                self._at(k).store([x])
            return []

        if self.first.is_full and not self.array.strides:
            rows()
        elif self.partial or self.array.strides:
            apart()
        else:
            if_full(self.w, self.width, self.mask, [], rows, apart)

    def _at(self, k: int) -> Access:
        """The access to the elements that are ``k`` behind the first ones."""
        *outer, last = self.indices
        return Access(self.w, self.array, [*outer, self._moved(last, k)], self.width, self.mask, self.partial)

    def _moved(self, i: LaneIndex, k: int) -> LaneIndex:
        if not k:
            return i
        if i.stride is not None:
            return i.replace(first=self.w.op(f"add i64 {i.first}, {k}"))
        assert isinstance(i.type, LaneScalar)
        whole = register_type(i.type)
        return i.replace(registers=self.w.op(f"add {whole} {i.registers}, {splat(self.w, i.type, str(k))}"))

    def _load_apart(self) -> list[str]:
        return [self._at(k).load()[0] for k in range(self.count)]

    def _rows(self) -> list[str]:
        """The address of each lane's first element."""
        w, apart = self.w, self.first.apart
        if apart is None:
            found = self.first.pointers(0)
            return [w.op(f"extractelement <{self.width} x ptr> {found}, i32 {n}") for n in range(self.width)]
        rows = [self.first.base]
        for _ in range(1, self.width):
            rows.append(w.op(f"getelementptr i8, ptr {rows[-1]}, i64 {apart}"))
        return rows

    @property
    def _is_dense(self) -> bool:
        """Whether each lane's elements follow on those of the lane before."""
        return self.first.apart == self.count * self.array.element_size

    def _load_rows(self) -> list[str]:
        if self._is_dense:
            return self._load_side_by_side()
        w, piece = self.w, LaneScalar(self.type.kind, self.type.bits, self.count)
        given = f"align {align_of(one_lane(self.type))}{self.first.note}"
        pieces = [w.op(f"load {register_type(piece)}, ptr {row}, {given}") for row in self._rows()]
        return transposed(w, self.type, [join(w, piece, pieces[k :: self.count]) for k in range(self.count)])

    def _load_side_by_side(self) -> list[str]:
        w, kind = self.w, typed(self.type, self.width * self.count)
        x = w.op(f"load {kind}, ptr {self.first.base}, align {align_of(one_lane(self.type))}{self.first.note}")
        return [shuffle(w, kind, x, "poison", range(k, self.width * self.count, self.count)) for k in range(self.count)]

    def _store_side_by_side(self, values: Sequence[str]) -> list[str]:
        whole = interleaved(self.w, self.type, values)
        given = f"align {align_of(one_lane(self.type))}{self.first.note}"
        self.w.do(f"store {typed(self.type, self.width * self.count)} {whole}, ptr {self.first.base}, {given}")
        return []

    def _store_rows(self, values: Sequence[str]) -> list[str]:
        if self._is_dense:
            return self._store_side_by_side(values)
        w, rows = self.w, self._rows()
        kind, given = typed(self.type, self.count), f"align {align_of(one_lane(self.type))}{self.first.note}"
        for k, x in enumerate(transposed(w, self.type, values)):
            for n, part in enumerate(split(w, self.type, x, self.count)):
                w.do(f"store {kind} {part}, ptr {rows[k + n * self.count]}, {given}")
        return []
