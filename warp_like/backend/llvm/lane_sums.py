"""Sums of several vectors over their lanes at once.

A sum over 16 lanes takes 4 shuffles and 4 additions. Sums of several vectors share them: two vectors are shuffled such
that one addition leaves half of the lanes with partial sums of the first, the other half with those of the second, and
so on. Sums of 16 vectors of 16 lanes take 30 shuffles and 15 additions instead of 64 and 64. It is a transposition that
adds on its way. The sums come side by side in one register, and stay there where they are added to a vector in
memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.shuffle import from_lanes, masked_load, masked_store, shuffle, split, to_lanes, typed
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, leaves, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.types import Scalar

BLOCK_BITS = 128
"""Shuffles of two registers are fastest within blocks of as many bits."""


def lane_sums(w: Writer, t: LaneScalar, vectors: Sequence[str]) -> list[str]:
    """Return the sum over the lanes of each of ``vectors`` of floats, in any order of additions."""
    width = min(t.width, max(w.target.vector_bits // t.bits, 1))
    narrow = LaneScalar(t.kind, t.bits, width)
    found: list[str] = []
    pieces = [_in_one_register(w, t, x, narrow) for x in vectors]
    for k in range(0, len(pieces), width):
        found += _of_registers(w, narrow, pieces[k : k + width])
    return found


def _in_one_register(w: Writer, t: LaneScalar, x: str, narrow: LaneScalar) -> str:
    """The sum of the registers that make up ``x``."""
    pieces = split(w, t, x, narrow.width)
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [_added(w, narrow, a, b) for a, b in pairs]
    return pieces[0]


def _of_registers(w: Writer, t: LaneScalar, vectors: Sequence[str]) -> list[str]:
    """The sums of no more vectors than these have lanes."""
    group, left = 1, list(vectors)
    while len(left) > 1:
        if len(left) % 2:
            left.append("poison")
        left = [_merged(w, t, a, b, group) for a, b in zip(left[::2], left[1::2], strict=True)]
        group *= 2
    (x,) = left
    while t.width > group:
        t = LaneScalar(t.kind, t.bits, t.width // 2)
        x = _added(w, t, *_halves(w, t, x))
    return [w.op(f"extractelement {register_type(t)} {x}, i32 {k}") for k in range(len(vectors))]


def _merged(w: Writer, t: LaneScalar, a: str, b: str, group: int) -> str:
    """Add groups of ``group`` lanes of ``a`` in pairs, and of ``b``; return them by turns.

    A pair are two groups of one block: group k, and the one half a block behind it.
    """
    groups = t.width // group
    block = min(groups, max(BLOCK_BITS // (t.bits * group), 2))
    picks: list[list[int]] = [[], []]
    for start in range(0, groups, block):
        for k in range(start, start + block // 2):
            for side, chosen in enumerate(picks):
                at = (k + side * (block // 2)) * group
                chosen += [*range(at, at + group), *range(t.width + at, t.width + at + group)]
    return _added(w, t, *(shuffle(w, register_type(t), a, b, p) for p in picks))


def _halves(w: Writer, half: LaneScalar, x: str) -> list[str]:
    whole = typed(half, 2 * half.width)
    return [shuffle(w, whole, x, "poison", range(k, k + half.width)) for k in (0, half.width)]


def _added(w: Writer, t: LaneScalar, a: str, b: str) -> str:
    return w.op(f"fadd {register_type(t)} {a}, {b}")


def update_element(w: Writer, o: ops.Atomic, array: ArrayRef, address: str, value: tuple[str, ...]) -> tuple[str, ...]:
    """Update the components of the element at ``address`` as ``o`` does; return the old ones."""
    if array.sum and _sums_of_lanes(w, o):
        return _add_side_by_side(w, o.kind, array, address, leaves(o.value.type)[0][0], value)
    return memory.atomic_element(w, o.kind, array, address, value)


def _sums_of_lanes(w: Writer, o: ops.Atomic) -> bool:
    """Whether ``o`` adds several sums over lanes, which fit one register."""
    parts, made = leaves(o.value.type), o.value.op
    if not (KINDS[o.kind].sign and isinstance(made, ops.LaneReduce) and made.kind in KINDS and KINDS[made.kind].sign):
        return False
    scalar, _ = parts[0]
    return scalar.is_float and scalar.bits >= 32 and 1 < len(parts) <= w.target.vector_bits // scalar.bits


def _add_side_by_side(
    w: Writer, kind: str, array: ArrayRef, address: str, scalar: Scalar, sums: Sequence[str]
) -> tuple[str, ...]:
    """Add ``sums`` by one load and store of a vector; neighbours of the element are neither read nor written.

    AVX-512 leaves lanes out for nothing. On AMD's processors without it, a masked store is a program of 18 or more
    micro-operations, so there the components are taken in pieces of a power of 2.
    """
    if "avx512f" in w.target.feature_set:
        return _add_under_mask(w, kind, array, address, scalar, sums)
    olds: list[str] = []
    while len(olds) < len(sums):
        first = len(olds)
        width = 1 << ((len(sums) - first).bit_length() - 1)
        at = w.op(f"getelementptr i8, ptr {address}, i64 {first * scalar.bits // 8}")
        olds += _add_piece(w, kind, array, at, LaneScalar(scalar.kind, scalar.bits, width), sums[first:][:width])
    return tuple(olds)


def _add_piece(
    w: Writer, kind: str, array: ArrayRef, address: str, t: LaneScalar, sums: Sequence[str]
) -> Sequence[str]:
    reg, rest = register_type(t), f"align {t.bits // 8}{memory.note_of(w, array)}"
    old = w.op(f"load {reg}, ptr {address}, {rest}")
    new = memory.added(w, kind, t, old, to_lanes(w, t, sums), array)
    w.do(f"store {reg} {new}, ptr {address}, {rest}")
    return from_lanes(w, t, old)


def _add_under_mask(
    w: Writer, kind: str, array: ArrayRef, address: str, scalar: Scalar, sums: Sequence[str]
) -> tuple[str, ...]:
    t = LaneScalar(scalar.kind, scalar.bits, 1 << (len(sums) - 1).bit_length())
    note = memory.note_of(w, array)
    mask = ", ".join(f"i1 {str(k < len(sums)).lower()}" for k in range(t.width))
    old = masked_load(w, t, address, f"<{mask}>", note)
    new = memory.added(w, kind, t, old, to_lanes(w, t, sums), array)
    masked_store(w, t, address, new, f"<{mask}>", note)
    return tuple(from_lanes(w, t, old)[: len(sums)])
