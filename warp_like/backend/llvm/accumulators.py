"""Reductions over all threads of a chunk, in registers: minima, maxima and operations on bits; on CUDA sums, too.

An accumulator is a variable of the entry that begins with the number that changes nothing. Updates of the element that
it stands for go there, a vector of lanes at once; at the end its lanes are combined, and the element is updated once,
atomically, as other chunks do the same. It is not touched if nothing came: then it need not exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from warp_like.backend.llvm import memory
from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.combining import combined
from warp_like.backend.llvm.lanes import full_mask, neutral, reduce
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, constant, leaves, one_lane, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.atomics import KINDS
from warp_like.ir.types import Scalar, int64

Index = tuple[str, Scalar]
"""The register of an index, or a constant, and its type: something that is known where the entry begins."""

MOST_COMBINED = 16
"""The most scalars that a kernel combines over the grid on GPUs: each takes a register all the time."""


class Accumulator(NamedTuple):
    """What comes together for one element."""

    kind: str
    array: ArrayRef
    indices: Sequence[Index]
    parts: list[tuple[Scalar, str]]  # for each component, its type and the variable


class Accumulators:
    """The accumulators of one entry."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self._found: dict[object, Accumulator] = {}

    def add(
        self, kind: str, array: ArrayRef, indices: Sequence[Index], value: Sequence[tuple[Scalar, str]], mask: str
    ) -> None:
        """Combine ``value``, the components' types and registers, with what came for this element before."""
        types = [t for t, _ in value]
        key = kind, array.data, tuple(indices), tuple(types)
        if key not in self._found:
            variables = [(t, self._variable(kind, t)) for t in types]
            self._found[key] = Accumulator(kind, array, indices, variables)
        for (t, variable), (_, x) in zip(self._found[key].parts, value, strict=True):
            self._update(kind, t, variable, x, mask)

    def _variable(self, kind: str, t: Scalar) -> str:
        return self.w.alloca(register_type(t), _align(t), constant(neutral_of(kind, t), t))

    def _update(self, kind: str, t: Scalar, variable: str, x: str, mask: str) -> None:
        w, reg = self.w, register_type(t)
        old = w.op(f"load {reg}, ptr {variable}, align {_align(t)}")
        # x86 tests the first of two floats alone, so that the chain of one update after the other is short.
        how = KINDS[kind].reduction
        new = combined(w, how, t, x, old) if t.is_float else combined(w, how, t, old, x)
        if mask and isinstance(t, LaneScalar):
            new = w.select(mask, reg, new, old, f"<{t.width} x i1>")
        w.do(f"store {reg} {new}, ptr {variable}, align {_align(t)}")

    @property
    def found(self) -> list[Accumulator]:
        """All of them."""
        return list(self._found.values())

    def finish(self) -> None:
        """Update the elements."""
        for a in self.found:
            indices = [cast(self.w, x, t, int64) for x, t in a.indices]
            base = memory.element_address(self.w, a.array, indices)
            offsets = [offset for _, offset in leaves(a.array.type.dtype)]
            for (t, variable), offset in zip(a.parts, offsets, strict=True):
                self._flush(a.kind, t, variable, memory.component_address(self.w, base, offset))

    def _flush(self, kind: str, t: Scalar, variable: str, address: str) -> None:
        w, one = self.w, one_lane(t)
        x = w.op(f"load {register_type(t)}, ptr {variable}, align {_align(t)}")
        if isinstance(t, LaneScalar):
            x = reduce(w, kind, t, x, full_mask(t.width))
        some = differs(w, one, x, neutral(kind, one))
        update, done = w.label("flush"), w.label("flushed")
        w.branch(some, update, done)
        w.start(update)
        memory.update_atomically(w, kind, one, address, x)
        w.jump(done)
        w.start(done)


def neutral_of(kind: str, t: Scalar) -> float:
    """Return what changes nothing where updates of a kind are combined."""
    return neutral(KINDS[kind].reduction, one_lane(t))


def _align(t: Scalar) -> int:
    return min(t.bits // 8 * (t.width if isinstance(t, LaneScalar) else 1), 64)


def differs(w: Writer, t: Scalar, x: str, nothing: float) -> str:
    """Return whether ``x`` is another number than ``nothing``, which may be no number."""
    reg = register_type(t)
    if math.isnan(nothing):
        return w.op(f"fcmp ord {reg} {x}, {x}")
    return w.op(f"{'fcmp une' if t.is_float else 'icmp ne'} {reg} {x}, {constant(nothing, t)}")
