"""Moves the elements of shared arrays so that the lanes that load parts of a matrix ask different banks.

Shared memory has 32 banks of 4 bytes, and a bank answers one word at a time. Matrix units read neighbouring rows of a
factor at the same columns. If a row fills the banks a whole number of times, all rows begin at the same bank. So the
place of a *chunk* of elements within the 128 bytes of all banks is combined with the row's number, by "exclusive or":
element ``e`` is kept at ``e ^ ((e >> shift & mask) << chunk)``. That exchanges chunks within blocks of ``2**shift``
elements, so no element is lost, and a chunk stays together: a row of 16 bytes is still one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Scalar
from warp_like.passes.rewriter import Rewriter, rewrite

ALL_BANKS = 128
"""The bytes that all banks give at once."""

CHUNK_BYTES = {16: 16, 64: 32}
"""The bytes of a chunk by the bits of an element: a row of ``ldmatrix``, and what four lanes load of a row."""

_ACCESSES = (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)


class Swizzle(NamedTuple):
    """Where elements are kept: ``e ^ ((e >> shift & mask) << chunk)``."""

    shift: int
    mask: int
    chunk: int

    def place(self, e: int) -> int:
        """Return where element ``e`` is kept."""
        return e ^ ((e >> self.shift & self.mask) << self.chunk)

    def offset(self, b: Emitter, e: Value) -> Value:
        """Write what ``e`` is combined with."""
        shift, mask, chunk = (b.constant(n, e.type) for n in self)
        return b.lshift(b.bit_and(b.rshift(e, shift), mask), chunk)

    def keeps_inside(self, size: int) -> bool:
        """Whether no element leaves an array of ``size`` elements: at most those of a last, incomplete block would."""
        return all(self.place(e) < size for e in range(size >> self.shift << self.shift, size))


def swizzle_of(bits: int, columns: int) -> Swizzle | None:
    """Return how a matrix of elements of ``bits`` is kept, None where its rows ask different banks as it is.

    Only rows of a power of two of elements are moved: of others, the row's number would take a division.
    """
    chunk, line = CHUNK_BYTES[bits] * 8 // bits, ALL_BANKS * 8 // bits
    if columns & (columns - 1) or columns <= chunk:
        return None
    mask = min(columns, line) // chunk - 1
    return Swizzle(max(columns, line).bit_length() - 1, mask, chunk.bit_length() - 1)


def find_swizzles(body: Block, columns: dict[Value, int]) -> dict[Value, Swizzle]:
    """Return how those arrays in ``columns`` are kept that are the function's own: matrices of so many columns."""
    found = {}
    for array in columns.keys() - _seen_otherwise(body, columns):
        made, t = array.op, array.type
        if not isinstance(made, ops.LocalArray):
            continue
        assert isinstance(t, Array)
        assert isinstance(t.dtype, Scalar)
        of_array = swizzle_of(t.dtype.bits, columns[array])
        if of_array is not None and of_array.keeps_inside(made.shape[0]):
            found[array] = of_array
    return found


def _seen_otherwise(body: Block, arrays: Iterable[Value]) -> set[Value]:
    """Those of ``arrays`` that an op touches in another way than by an element's index, or as a factor."""
    known, found = set(arrays), set[Value]()
    for o in body.walk():
        if not isinstance(o, _ACCESSES):
            seen = [o.out] if isinstance(o, ops.ContractInMemory) else o.operands()
            found.update(v for v in seen if v in known)
    return found


def move_elements(f: Function, swizzles: dict[Value, Swizzle], placed: set[Op]) -> Function:
    """Let all accesses of swizzled arrays find their elements, in place; those that are ``placed`` do already."""
    return rewrite(f, _Mover(swizzles, placed)) if swizzles else f


class _Mover(Rewriter):
    def __init__(self, swizzles: dict[Value, Swizzle], placed: set[Op]) -> None:
        super().__init__()
        self.swizzles, self.placed = swizzles, placed

    def visit(self, o: Op) -> None:
        if isinstance(o, _ACCESSES) and o not in self.placed and (s := self.swizzles.get(o.array)) is not None:
            (index,) = o.indices
            o.indices = (self.b.bit_xor(index, s.offset(self.b, index)),)
        elif isinstance(o, ops.AsyncCopy) and (s := self.swizzles.get(o.out)) is not None:
            o.index = self.b.bit_xor(o.index, s.offset(self.b, o.index))  # what it copies is within a chunk
        super().visit(o)


__all__ = ["Swizzle", "find_swizzles", "move_elements", "swizzle_of"]
