"""Arrays in lanes: loads, stores and atomics of a vector of threads at once.

An access is told apart by how its address changes from lane to lane. Where an element follows on another, a load is
one wide load, of aggregates with the components shuffled apart; under a mask that lacks lanes, as the code finds out, a
load for each register that they fill, with a mask of its own. Otherwise it gathers, or loads aggregates of 32-bit
numbers as they lie and transposes them in registers. Atomics go lane by lane, but additions that need not be atomic and
hit different elements are loads, vector additions and stores.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.combining import INTRINSIC, combined
from warp_like.backend.llvm.shuffle import (
    from_lanes,
    gather,
    interleaved,
    iota,
    join,
    masked_load,
    masked_store,
    scatter,
    shuffle,
    splat,
    split,
    to_lanes,
    transposed,
    typed,
)
from warp_like.backend.llvm.taking import where_alone
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, constant, leaves, memory_type, one_lane, register_type
from warp_like.backend.llvm.values import suffix as suffix_of
from warp_like.backend.llvm.writer import Writer
from warp_like.base.frozen import Frozen
from warp_like.ir.atomics import KINDS
from warp_like.ir.layout import align_of
from warp_like.ir.types import Lanes, Scalar, int64

MOST_MASKED = 16
"""The most components of elements that are loaded under a mask as pieces of registers, and not one by one."""

ROWS = range(3, 17)
"""The numbers of components of elements that lie apart, of which each lane's is loaded as it lies, then transposed."""

LINE = 64
"""The bytes of a cache line."""

ANNOUNCED = 4096
"""How many bytes ahead of a store of aggregates its memory is asked for.

A processor reads a line before it writes to it in part. Where arrays exceed the caches, stores wait for that:
processors look ahead for loads, but hardly for stores. The line may lie behind the array's end, since such a request
can't fail.
"""

_Update = Callable[[str, tuple[str, ...]], tuple[str, ...]]
"""Updates the element at an address by scalars; returns the old ones."""


class LaneIndex(Frozen):
    """An index into an array.

    Attributes:
        first: The i64 register of the first lane's index; of all lanes' where ``stride`` is 0.
        stride: How much it grows from lane to lane; None where the lanes have ``registers``.
        registers: All lanes' indices.
        type: Their type.
    """

    first: str = "0"
    stride: int | None = 0
    registers: str = ""
    type: Scalar = int64


class Access:
    """The elements of an array at one index a lane, for the lanes of ``mask``; never all of them where ``partial``.

    ``base`` is the address of the first lane's element as far as it is known to be in line with the others;
    ``apart`` the bytes from lane to lane, as a number or a register, or None where ``pointers`` has to gather.
    """

    def __init__(
        self, w: Writer, array: ArrayRef, indices: Sequence[LaneIndex], width: int, mask: str, partial: bool = False
    ) -> None:
        self.w = w
        self.array = array
        self.width = width
        self.mask = mask
        self.partial = partial
        self.indices = indices
        self.size = array.element_size
        self.base, self.apart = self._where()
        self.leaves = leaves(Lanes(array.type.dtype, width))
        self.note = memory.note_of(w, array)
        self._addresses = ""
        self.gathers = False  # elements that lie apart are in the first cache, where gathers read them fastest

    @property
    def is_full(self) -> bool:
        """Whether every lane takes part, as is known when this is compiled."""
        return self.mask == full_mask(self.width)

    @property
    def is_dense(self) -> bool:
        """Whether each lane's element follows on that of the lane before."""
        return self.apart == self.size

    @property
    def is_packed(self) -> bool:
        """Whether an element is nothing but scalars of one type, one behind the other."""
        first = self.leaves[0][0]
        nbytes = first.bits // 8
        return self.size == nbytes * len(self.leaves) and all(
            s == first and offset == k * nbytes for k, (s, offset) in enumerate(self.leaves)
        )

    # --- addresses ---

    def _where(self) -> tuple[str, int | str | None]:
        """The address of the first lane's element, and the bytes from lane to lane, as in the attributes."""
        in_bounds = self.is_full or all(i.stride == 0 for i in self.indices)  # else the first lane may not be at work
        base = memory.element_address(self.w, self.array, [i.first for i in self.indices], in_bounds=in_bounds)
        return base, None if any(i.stride is None for i in self.indices) else self._distance()

    def _stride(self, axis: int) -> int | str:
        """The bytes between neighbours along ``axis``."""
        array = self.array
        if array.strides:
            return array.strides[axis]
        step: int | str = self.size
        for extent in array.shape[axis + 1 :]:
            step = self.w.op(f"mul nsw i64 {extent}, {step}")
        return step

    def _distance(self) -> int | str:
        total: int | str = 0
        for axis, i in enumerate(self.indices):
            if not i.stride:
                continue
            stride = self._stride(axis)
            if isinstance(stride, int):
                stride *= i.stride
            elif i.stride != 1:
                stride = self.w.op(f"mul i64 {stride}, {i.stride}")
            total = stride if total == 0 else self.w.op(f"add i64 {total}, {stride}")
        return total

    def pointers(self, offset: int) -> str:
        """The address of the scalar at ``offset`` of each lane's element."""
        w, pointers = self.w, f"<{self.width} x ptr>"
        if not self._addresses:
            self._addresses = self._element_pointers()
        if not offset:
            return self._addresses
        return w.op(f"getelementptr i8, {pointers} {self._addresses}, i64 {offset}")

    def _element_pointers(self) -> str:
        w = self.w
        varying = [(axis, i) for axis, i in enumerate(self.indices) if i.stride is None]
        strided = [i for i in self.indices if i.stride]
        if len(varying) == 1 and not strided:
            ((axis, index),) = varying
            if self._stride_is_size(axis):
                given = self._as_index(index)
                return w.op(f"getelementptr [{self.size} x i8], ptr {self.base}, {given}")
        wide = LaneScalar("int", 64, self.width)
        offset = ""
        for axis, index in varying:
            term = self._times(self._as_64(index), self._stride(axis))
            offset = term if not offset else w.op(f"add {register_type(wide)} {offset}, {term}")
        if strided or not varying:
            term = self._times(iota(wide), self._distance())
            offset = term if not offset else w.op(f"add {register_type(wide)} {offset}, {term}")
        return w.op(f"getelementptr i8, ptr {self.base}, {register_type(wide)} {offset}")

    def _stride_is_size(self, axis: int) -> bool:
        return not self.array.strides and axis == len(self.array.shape) - 1

    def _as_64(self, i: LaneIndex) -> str:
        return cast(self.w, i.registers, i.type, LaneScalar("int", 64, self.width))

    def _as_index(self, i: LaneIndex) -> str:
        """The lanes' indices with a signed type, as addresses take them: one of 32 bits reaches the gather as it is."""
        if i.type.is_signed:
            return f"{register_type(i.type)} {i.registers}"
        signed = LaneScalar("int", 32 if i.type.bits < 32 else 64, self.width)
        return f"{register_type(signed)} {cast(self.w, i.registers, i.type, signed)}"

    def _times(self, x: str, by: int | str) -> str:
        wide = LaneScalar("int", 64, self.width)
        factor = constant(by, wide) if isinstance(by, int) else splat(self.w, wide, by)
        return self.w.op(f"mul {register_type(wide)} {x}, {factor}")

    # --- values ---

    def load(self) -> tuple[str, ...]:
        """Return the elements' scalars."""
        if not (self.is_dense and self.is_packed):
            parts = self._load_apart()
        elif len(self.leaves) == 1 or self.is_full:
            parts = self._load_wide(self.is_full)
        else:
            masked = self._load_masked if self._has_masked_registers else self._load_apart
            parts = self._if_full(lambda: self._load_wide(True), masked, len(self.leaves), self._are_there())
        return tuple(self._to_register(s, x) for (s, _), x in zip(self.leaves, parts, strict=True))

    def store(self, values: Sequence[str]) -> None:
        """Write the elements."""
        parts = [self._to_memory(s, x) for (s, _), x in zip(self.leaves, values, strict=True)]
        if not (self.is_dense and self.is_packed):
            self._store_apart(parts)
        elif len(self.leaves) == 1 or self.is_full:
            self._store_wide(parts, self.is_full)
        else:
            masked = self._store_masked if self._has_masked_registers else self._store_apart
            self._if_full(lambda: self._store_wide(parts, True), lambda: masked(parts), 0)

    def _are_there(self) -> str:
        """Whether the array has the elements of all lanes, so that those out of the mask may be read; "" if unknown."""
        *outer, last = self.indices
        if self.partial or last.stride != 1 or self.array.strides or any(i.stride for i in outer):
            return ""
        w, most = self.w, self.w.op(f"sub i64 {self.array.shape[-1]}, {self.width}")
        begins, ends = w.op(f"icmp sge i64 {last.first}, 0"), w.op(f"icmp sle i64 {last.first}, {most}")
        return w.op(f"and i1 {begins}, {ends}")

    def _if_full(
        self, whole: Callable[[], list[str]], apart: Callable[[], list[str]], parts: int, test: str = ""
    ) -> list[str]:
        """Do ``whole`` where the mask has all lanes, as nearly all have, else ``apart``; return the parts they give.

        Another ``test`` may say where ``whole`` does.
        """
        if self.partial:
            return apart()
        types = [register_type(_stored(s)) for s, _ in self.leaves[:parts]]
        made = if_full(self.w, self.width, self.mask, types, whole, apart, test)
        self._addresses = ""  # they are known in their block alone
        return made

    def _to_register(self, s: Scalar, x: str) -> str:
        return self.w.op(f"icmp ne {memory_type(s)} {x}, zeroinitializer") if s.is_bool else x

    def _to_memory(self, s: Scalar, x: str) -> str:
        return self.w.op(f"zext {register_type(s)} {x} to {memory_type(s)}") if s.is_bool else x

    def _load_apart(self) -> list[str]:
        if self._has_rows:
            return self._load_rows()
        found: list[str] = []
        while len(found) < len(self.leaves):
            found += self._gathered(*self.leaves[len(found) : len(found) + 2])
        return found

    def _gathered(self, *parts: tuple[Scalar, int]) -> list[str]:
        """One or two scalars of each lane's element: by one access where they are neighbours of 32 bits."""
        w, (s, at) = self.w, parts[0]
        t = _stored(s)
        if len(parts) < 2 or parts[1][1] != at + 4 or {t.bits, parts[1][0].bits} != {32} or parts[1][0] != s:
            return [gather(w, t, self.pointers(at), self.mask, self.note)]
        both = gather(w, LaneScalar("uint", 64, self.width), self.pointers(at), self.mask, self.note, align=4)
        kind = typed(t, 2 * self.width)
        whole = w.op(f"bitcast <{self.width} x i64> {both} to {kind}")
        return [shuffle(w, kind, whole, "poison", range(k, 2 * self.width, 2)) for k in range(2)]

    @property
    def _has_masked_registers(self) -> bool:
        """Whether the processor loads and stores some scalars of a register, and such scalars fill whole ones."""
        bits, target = self.leaves[0][0].bits, self.w.target
        whole = self.width * bits % target.vector_bits == 0
        return target.vector_bits >= 256 and bits >= 32 and whole and len(self.leaves) <= MOST_MASKED

    def _masks(self) -> list[str]:
        """For each piece of the lanes' elements that has as many scalars as there are lanes, which of them count."""
        n, test = len(self.leaves), f"<{self.width} x i1>"
        lanes = ([(k * self.width + i) // n for i in range(self.width)] for k in range(n))
        return [shuffle(self.w, test, self.mask, "poison", picks) for picks in lanes]

    def _piece(self, k: int) -> str:
        """The address of such a piece. The first lane may not be at work, so it may be out of bounds."""
        return self.w.op(f"getelementptr i8, ptr {self.base}, i64 {k * self.width * self.leaves[0][0].bits // 8}")

    @property
    def _has_rows(self) -> bool:
        """Whether each lane's element is loaded as it lies: numbers of 32 bits, one of each lane fits a register."""
        whole = self.is_packed and self.width % 4 == 0
        fits = self.leaves[0][0].bits == 32 and 32 * self.width <= self.w.target.vector_bits
        return whole and fits and len(self.leaves) in ROWS and not self.gathers

    def _load_rows(self) -> list[str]:
        """Load each lane's element in pieces of up to 4 scalars and transpose these in registers."""
        w, n, s = self.w, len(self.leaves), _stored(self.leaves[0][0])
        piece = min(n, 4)
        found, quad = self._valid_pointers(), LaneScalar(s.kind, s.bits, 4)
        rows = [w.op(f"extractelement <{self.width} x ptr> {found}, i32 {k}") for k in range(self.width)]
        parts: dict[int, str] = {}
        for first in sorted({min(k, n - piece) for k in range(0, n, 4)}):
            pieces = [self._row(row, first, piece) for row in rows]
            made = transposed(w, s, [join(w, quad, pieces[k::4]) for k in range(4)])
            parts.update(zip(range(first, first + piece), made, strict=False))
        return [parts[k] for k in range(n)]

    def _valid_pointers(self) -> str:
        """The address of each lane's element; for lanes out of the mask that of one in it, as the mask has a lane."""
        w, found = self.w, self.pointers(0)
        if self.is_full:
            return found
        kind, test = f"<{self.width} x ptr>", f"<{self.width} x i1>"
        one = w.op(f"extractelement {kind} {found}, i64 {last_lane(w, self.width, self.mask)}")
        first = w.op(f"insertelement {kind} poison, ptr {one}, i32 0")
        all_ = w.op(f"shufflevector {kind} {first}, {kind} poison, <{self.width} x i32> zeroinitializer")
        return w.select(self.mask, kind, found, all_, test)

    def _row(self, row: str, first: int, count: int) -> str:
        """``count`` scalars of the element at ``row``, from ``first`` on, as a vector of 4."""
        w, s = self.w, self.leaves[0][0]
        kind, nbytes = typed(s, count), s.bits // 8
        at = w.op(f"getelementptr i8, ptr {row}, i64 {first * nbytes}")
        x = w.op(f"load {kind}, ptr {at}, align {nbytes}{self.note}")
        return x if count == 4 else shuffle(w, kind, x, "poison", [*range(count), *[0] * (4 - count)])

    def _load_masked(self) -> list[str]:
        w, n, s = self.w, len(self.leaves), _stored(self.leaves[0][0])
        pieces = [masked_load(w, s, self._piece(k), mask, self.note) for k, mask in enumerate(self._masks())]
        whole = join(w, s, [*pieces, *["poison"] * ((1 << (n - 1).bit_length()) - n)])
        kind = f"<{self.width << (n - 1).bit_length()} x {register_type(s.one)}>"
        return [shuffle(w, kind, whole, "poison", range(k, self.width * n, n)) for k in range(n)]

    def _store_masked(self, parts: Sequence[str]) -> list[str]:
        w, n, s = self.w, len(self.leaves), _stored(self.leaves[0][0])
        whole = interleaved(w, s, parts)
        kind = f"<{self.width * n} x {register_type(s.one)}>"
        for k, mask in enumerate(self._masks()):
            piece = shuffle(w, kind, whole, "poison", range(k * self.width, (k + 1) * self.width))
            masked_store(w, s, self._piece(k), piece, mask, self.note)
        return []

    def _load_wide(self, full: bool) -> list[str]:
        w, n = self.w, len(self.leaves)
        s = _stored(self.leaves[0][0])
        t = LaneScalar(s.kind, s.bits, self.width * n)
        align = align_of(one_lane(s))
        if full:
            x = w.op(f"load {register_type(t)}, ptr {self.base}, align {align}{self.note}")
        else:
            x = masked_load(w, t, self.base, self.mask, self.note)
        if n == 1:
            return [x]
        return [shuffle(w, register_type(t), x, "poison", range(k, self.width * n, n)) for k in range(n)]

    def _store_apart(self, parts: Sequence[str]) -> list[str]:
        for (s, offset), x in zip(self.leaves, parts, strict=True):
            scatter(self.w, _stored(s), self.pointers(offset), x, self.mask, self.note)
        return []

    def _store_wide(self, parts: Sequence[str], full: bool) -> list[str]:
        w, n = self.w, len(parts)
        s = _stored(self.leaves[0][0])
        t = LaneScalar(s.kind, s.bits, self.width * n)
        whole = interleaved(w, s, parts)
        if full:
            align = align_of(one_lane(s))
            if n > 1:
                self._announce(t.width * t.bits // 8)
            w.do(f"store {register_type(t)} {whole}, ptr {self.base}, align {align}{self.note}")
        else:
            masked_store(w, t, self.base, whole, self.mask, self.note)
        return []

    def _announce(self, nbytes: int) -> None:
        """Ask for the lines that a store of so many bytes will soon write to, if lanes go on to the next elements."""
        w = self.w
        w.declare("llvm.prefetch.p0", "void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for at in range(ANNOUNCED, ANNOUNCED + nbytes, LINE):
            line = w.op(f"getelementptr i8, ptr {self.base}, i64 {at}")
            w.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 1, i32 3, i32 1){self.note}")

    # --- atomics ---

    def atomic(self, kind: str, values: Sequence[str]) -> tuple[str, ...]:
        """Update each component atomically, lane by lane; return the old ones.

        What a lane may ``take`` the last lane takes that means the same element, as the last one's store wins.
        """
        w = self.w
        row = KINDS[kind]
        if row.takes:
            types = [register_type(s) for s, _ in self.leaves]
            self.pointers(0)  # which are kept, for either code
            return where_alone(w, types, lambda: self._take_plainly(values), lambda: self._take(kind, values))
        plain = row.sign and (self.array.sum or self.array.thread_private)
        if plain and isinstance(self.apart, int) and abs(self.apart) >= self.size:
            old = self.load()
            parts = zip(self.leaves, old, values, strict=True)
            self.store([memory.added(w, kind, s, a, b, self.array) for (s, _), a, b in parts])
            return old
        if self.array.counter and row.sign and not plain:
            self.pointers(0)
            types = [register_type(s) for s, _ in self.leaves]
            shared = self.array.replace(counter=False)
            return where_alone(
                w,
                types,
                lambda: self._lane_by_lane(values, lambda at, x: self._counted(kind, at, x)),
                lambda: self._lane_by_lane(values, lambda at, x: memory.atomic_element(w, kind, shared, at, x)),
            )
        return self._lane_by_lane(values, lambda at, x: memory.atomic_element(w, kind, self.array, at, x))

    def _counted(self, kind: str, at: str, x: Sequence[str]) -> tuple[str, ...]:
        """Add to an integer that no other OS thread touches."""
        s = one_lane(self.leaves[0][0])
        return (memory.count_plainly(self.w, kind, s, at, x[0]),)

    def _lane_by_lane(self, values: Sequence[str], update: _Update, backwards: bool = False) -> tuple[str, ...]:
        """Update the element of one lane after the other, or of the last one alone where all mean one."""
        w = self.w
        addresses = Spilled(w, LaneScalar("uint", 64, self.width), self.addresses_as_integers())
        given = [Spilled(w, s, x) for (s, _), x in zip(self.leaves, values, strict=True)]
        before = [Spilled(w, s, constant(0, s)) for s, _ in self.leaves]

        def visit(lane: str) -> None:
            at = w.op(f"inttoptr i64 {addresses.lane(lane)} to ptr")
            for slot, x in zip(before, update(at, tuple(g.lane(lane) for g in given)), strict=True):
                slot.set_lane(lane, x)

        if backwards and self.apart == 0:
            visit(last_lane(w, self.width, self.mask))
        else:
            for_each_lane(w, self.width, self.mask, visit, backwards)
        return tuple(slot.whole() for slot in before)

    def _take(self, kind: str, values: Sequence[str]) -> tuple[str, ...]:
        """Exchange elements that other OS threads may take meanwhile."""
        return self._lane_by_lane(values, lambda at, x: memory.exchange_element(self.w, kind, self.array, at, x), True)

    def _take_plainly(self, values: Sequence[str]) -> tuple[str, ...]:
        """Exchange elements that no other OS thread touches."""
        if isinstance(self.apart, int) and abs(self.apart) >= self.size:
            old = self.load()
            self.store(values)
            return old
        if self.apart == 0 or not self.is_full:
            return self._lane_by_lane(values, lambda at, x: memory.exchange_plainly(self.w, self.array, at, x), True)
        w, types = self.w, [_stored(s) for s, _ in self.leaves]  # of numbers that have gradients: of no bool
        given = zip(*(from_lanes(w, s, x) for s, x in zip(types, values, strict=True)), strict=True)
        places = (w.op(f"extractelement <{self.width} x ptr> {self.pointers(0)}, i32 {k}") for k in range(self.width))
        pairs = list(zip(places, given, strict=True))
        taken = [memory.exchange_plainly(w, self.array, at, x) for at, x in reversed(pairs)]
        return tuple(to_lanes(w, s, x) for s, x in zip(types, zip(*reversed(taken), strict=True), strict=True))

    def addresses_as_integers(self) -> str:
        """The addresses of the lanes' elements, as integers."""
        return self.w.op(f"ptrtoint <{self.width} x ptr> {self.pointers(0)} to <{self.width} x i64>")


class PrivateAccess(Access):
    """The elements of arrays of which each lane has its own, on the stack.

    What lies there can be read and written back for lanes out of the mask as well, but their indices mean nothing.
    """

    def __init__(
        self, w: Writer, array: ArrayRef, indices: Sequence[LaneIndex], width: int, mask: str, partial: bool = False
    ) -> None:
        super().__init__(w, array, indices, width, mask, partial)

    def load(self) -> tuple[str, ...]:
        return tuple(self._to_register(s, self._load_scalar(_stored(s), at)) for s, at in self.leaves)

    def store(self, values: Sequence[str]) -> None:
        for (s, at), x in zip(self.leaves, values, strict=True):
            self._store_scalar(_stored(s), at, self._to_memory(s, x))

    def _load_scalar(self, s: LaneScalar, offset: int) -> str:
        if self.apart == 0:
            return self.w.op(f"load {register_type(s)}, ptr {self._place(offset)}, align {self._align(s)}")
        return gather(self.w, s, self._lane_pointers(s, offset), self.mask)

    def _store_scalar(self, s: LaneScalar, offset: int, x: str) -> None:
        if self.apart != 0:
            scatter(self.w, s, self._lane_pointers(s, offset), x, self.mask)
            return
        if not self.is_full:
            x = self.w.select(self.mask, register_type(s), x, self._load_scalar(s, offset), f"<{self.width} x i1>")
        self.w.do(f"store {register_type(s)} {x}, ptr {self._place(offset)}, align {self._align(s)}")

    def _place(self, offset: int) -> str:
        """The address of all lanes' scalars at ``offset`` of the element."""
        return memory.component_address(self.w, self.base, offset * self.width)

    def _align(self, s: LaneScalar) -> int:
        return min(s.bits // 8 * self.width, 64)

    def _lane_pointers(self, s: LaneScalar, offset: int) -> str:
        """The address of each lane's own scalar at ``offset`` of its element."""
        own = ", ".join(f"i64 {offset * self.width + lane * (s.bits // 8)}" for lane in range(self.width))
        given = f"<{self.width} x ptr> {self.pointers(0)}, <{self.width} x i64> <{own}>"
        return self.w.op(f"getelementptr i8, {given}")


class Spilled:
    """A vector in stack memory, so that one lane of it can be picked at run time."""

    def __init__(self, w: Writer, t: Scalar, x: str) -> None:
        assert isinstance(t, LaneScalar)
        self.w, self.t, self.stored = w, t, _stored(t)
        self.align = self.stored.bits // 8 * t.width
        self.memory = w.alloca(register_type(self.stored), self.align)
        x = w.op(f"zext {register_type(t)} {x} to {register_type(self.stored)}") if t.is_bool else x
        w.do(f"store {register_type(self.stored)} {x}, ptr {self.memory}, align {self.align}")

    def _at(self, lane: str) -> str:
        return self.w.op(f"getelementptr inbounds {register_type(self.stored.one)}, ptr {self.memory}, i64 {lane}")

    def lane(self, lane: str) -> str:
        one = register_type(self.stored.one)
        x = self.w.op(f"load {one}, ptr {self._at(lane)}, align {self.stored.bits // 8}")
        return self.w.op(f"icmp ne i8 {x}, 0") if self.t.is_bool else x

    def set_lane(self, lane: str, x: str) -> None:
        one = register_type(self.stored.one)
        x = self.w.op(f"zext i1 {x} to i8") if self.t.is_bool else x
        self.w.do(f"store {one} {x}, ptr {self._at(lane)}, align {self.stored.bits // 8}")

    def whole(self) -> str:
        x = self.w.op(f"load {register_type(self.stored)}, ptr {self.memory}, align {self.align}")
        if self.t.is_bool:
            return self.w.op(f"icmp ne {register_type(self.stored)} {x}, zeroinitializer")
        return x


@functools.cache
def full_mask(width: int) -> str:
    """Return the mask of all lanes."""
    return constant(True, LaneScalar("bool", 8, width))


def mask_bits(w: Writer, width: int, mask: str) -> str:
    """Return a mask as an integer, the first lane its lowest bit."""
    return w.op(f"bitcast <{width} x i1> {mask} to i{width}")


def if_full(
    w: Writer,
    width: int,
    mask: str,
    types: Sequence[str],
    whole: Callable[[], list[str]],
    apart: Callable[[], list[str]],
    test: str = "",
) -> list[str]:
    """Do ``whole`` where ``mask`` has all lanes, else ``apart``; return what they give, registers of ``types``.

    Where there is another ``test``, ask this instead.
    """
    then, orelse, end = w.label("whole"), w.label("apart"), w.label("accessed")
    w.branch(test or w.op(f"icmp eq i{width} {mask_bits(w, width, mask)}, -1"), then, orelse, likely=True)
    sides = []
    for label, run in ((then, whole), (orelse, apart)):
        w.start(label)
        sides.append((run(), w.block))
        w.jump(end)
    w.start(end)
    phis = w.phis(types)
    for values, block in sides:
        phis.add(values, block)
    phis.finish()
    return list(phis.registers)


def any_lane(w: Writer, width: int, mask: str) -> str:
    """Return whether ``mask`` has a lane."""
    return w.op(f"icmp ne i{width} {mask_bits(w, width, mask)}, 0")


def as_bits(w: Writer, width: int, x: str, mask: str) -> str:
    """Return an i64 with the bits of the lanes of ``mask`` for which ``x`` holds."""
    held = w.op(f"and <{width} x i1> {x}, {mask}")
    return _as_lane(w, width, mask_bits(w, width, held))


def for_each_lane(w: Writer, width: int, mask: str, body: Callable[[str], None], backwards: bool = False) -> None:
    """Run ``body``, given the lane's number as i64, for the lanes of ``mask`` in order, or the last lane first."""
    i = f"i{width}"
    bits = mask_bits(w, width, mask)
    loop, done = w.label("lane"), w.label("lanes_done")
    before = w.block
    w.branch(w.op(f"icmp ne {i} {bits}, 0"), loop, done)
    w.start(loop)
    left = w.phis([i])
    (now,) = left.registers
    left.add([bits], before)
    number = _last_bit(w, width, now) if backwards else w.intrinsic(f"llvm.cttz.{i}", i, [i, "i1"], [now, "true"])
    body(_as_lane(w, width, number))
    if backwards:
        rest = w.op(f"xor {i} {now}, {w.op(f'shl {i} 1, {number}')}")
    else:
        rest = w.op(f"and {i} {now}, {w.op(f'sub {i} {now}, 1')}")
    left.add([rest], w.block)
    left.finish()
    w.branch(w.op(f"icmp ne {i} {rest}, 0"), loop, done)
    w.start(done)


def last_lane(w: Writer, width: int, mask: str) -> str:
    """Return the number, as i64, of the last lane of ``mask``, which has one."""
    return _as_lane(w, width, _last_bit(w, width, mask_bits(w, width, mask)))


def _last_bit(w: Writer, width: int, bits: str) -> str:
    """Return the number of the highest bit of ``bits``, as an integer of as many bits."""
    i = f"i{width}"
    zeros = w.intrinsic(f"llvm.ctlz.{i}", i, [i, "i1"], [bits, "false"])
    return w.op(f"sub {i} {width - 1}, {zeros}")


def _as_lane(w: Writer, width: int, number: str) -> str:
    return w.op(f"zext i{width} {number} to i64") if width < 64 else number


def reduce(w: Writer, kind: str, t: LaneScalar, x: str, mask: str) -> str:
    """Return one component reduced by ``kind`` over the lanes of ``mask``, in any order."""
    reg, one = register_type(t), register_type(t.one)
    x = masked(w, kind, t, x, mask)
    operation = KINDS[kind].operation.of(t)
    name = f"llvm.vector.reduce.{operation.removeprefix(INTRINSIC)}.{suffix_of(t)}"
    if not t.is_float:
        return w.intrinsic(name, one, [reg], [x])
    if operation.startswith(INTRINSIC):
        return _in_halves(w, kind, t, x)
    return w.intrinsic(name, one, [one, reg], [repr(float(neutral(kind, t.one))), x], "reassoc ")


def reduce_together(w: Writer, kind: str, t: LaneScalar, parts: Sequence[str], mask: str) -> list[str]:
    """Return what ``last`` or ``reduce`` gives for each of ``parts``."""
    if kind == "last":
        return [last(w, t, x, mask) for x in parts]
    if not KINDS[kind].sign or not t.is_float or len(parts) == 1:
        return [reduce(w, kind, t, x, mask) for x in parts]
    from warp_like.backend.llvm.lane_sums import lane_sums

    return lane_sums(w, t, [masked(w, kind, t, x, mask) for x in parts])


def masked(w: Writer, kind: str, t: LaneScalar, x: str, mask: str) -> str:
    """Return ``x``, where ``mask`` has no lane the number that changes nothing."""
    if mask == full_mask(t.width):
        return x
    return w.select(mask, register_type(t), x, constant(neutral(kind, t.one), t), f"<{t.width} x i1>")


def _in_halves(w: Writer, kind: str, t: LaneScalar, x: str) -> str:
    """Return the least or greatest number of all lanes: LLVM's reduction takes one lane after the other."""
    while t.width > 1:
        half = LaneScalar(t.kind, t.bits, t.width // 2)
        x = combined(w, kind, half, *split(w, t, x, half.width))
        t = half
    return w.op(f"extractelement {register_type(t)} {x}, i32 0")


def neutral(kind: str, t: Scalar) -> float:
    """Return the number that changes nothing in a reduction."""
    identity = KINDS[kind].identity
    assert identity is not None, kind
    return identity(t)


def last(w: Writer, t: LaneScalar, x: str, mask: str) -> str:
    """Return the value of the last lane in ``mask``."""
    return w.op(f"extractelement {register_type(t)} {x}, i64 {last_lane(w, t.width, mask)}")


def _stored(t: Scalar) -> LaneScalar:
    """The type of a scalar of type ``t`` in memory: a byte for a bool."""
    assert isinstance(t, LaneScalar)
    return LaneScalar("uint", 8, t.width) if t.is_bool else t
