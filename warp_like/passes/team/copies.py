"""Loads of tiles that go to shared memory by themselves, while the threads do other work: asynchronous copies.

A nest that only copies elements of an array which nobody writes to into a tile, in the order of the tile, becomes
``AsyncCopy`` ops: of 16 bytes where rows are long enough, else of an element. Of a tile that may reach beyond its array
the zeros are written by the same ops, in the place of the loop that fills the tile before.
"""

from __future__ import annotations

from typing import NamedTuple

from warp_like.analysis.ranges import Ranges
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar
from warp_like.passes.team.accesses import WRITE, Access, Accesses, is_own, linear
from warp_like.passes.team.sharing import Nest, Sharing, defined_in

BYTES = 16
"""The most bytes that a copy moves."""

ALONE = (4, 8)
"""The bytes of elements that can be copied alone."""


class Copy(NamedTuple):
    """A nest that copies: ``load`` and ``store`` are in its innermost loop, ``width`` elements are copied at once."""

    nest: Nest
    load: ops.Load
    store: ops.Store
    width: int


class Copies:
    """Finds the nests that copy.

    Args:
        accesses: What the function touches.
        sharing: Which nests there are.
        ranges: What its integers may be.
    """

    def __init__(self, accesses: Accesses, sharing: Sharing, ranges: Ranges) -> None:
        self._accesses, self._sharing, self._ranges = accesses, sharing, ranges

    def of(self, nest: Nest) -> Copy | None:
        """Return ``nest`` as a copy, if it is one whose elements are those of a tile in their order."""
        if any(level.step != 1 or level.down or level.loop.results for level in nest.levels):
            return None
        inner = nest.levels[-1].loop
        effects = [[o for o in level.loop.body.ops[:-1] if not o.PURE] for level in nest.levels]
        if any(found != [nest.levels[k + 1].loop] for k, found in enumerate(effects[:-1])) or len(effects[-1]) != 2:
            return None
        load, store = effects[-1]
        if not isinstance(load, ops.Load) or not isinstance(store, ops.Store) or store.value is not load.result:
            return None
        root = self._accesses.root(store.array)
        place = Access(root, WRITE, store.array, store.indices)
        if not is_own(root) or self._accesses.uses(load.result) != 1 or self._sharing.width(nest, [place]) != 1:
            return None
        width = self._width(nest, load, inner) if self._is_source(load.array, nest) else 0
        return Copy(nest, load, store, width) if width else None

    def _is_source(self, array: Value, nest: Nest) -> bool:
        """Whether an array is an argument, or a row of one, that nobody writes to."""
        is_part = array.op is None or (isinstance(array.op, ops.View) and array.op.field is None)
        is_argument = ops.base_array(array).op is None and self._accesses.is_constant(array)
        return is_part and is_argument and array not in defined_in(nest.levels[0].loop)

    def _width(self, nest: Nest, load: ops.Load, inner: ops.For) -> int:
        """How many elements can be copied at once; 0 if not even one."""
        t = load.result.type
        if not isinstance(t, Scalar) or t.is_bool:
            return 0
        size = t.bits // 8
        most = BYTES // size
        if nest.levels[-1].trips % most == 0 and self._accesses.contiguous and self._are_neighbours(load, inner):
            return most
        return 1 if size in ALONE else 0

    def _are_neighbours(self, load: ops.Load, inner: ops.For) -> bool:
        """Whether the iterations of ``inner`` read neighbours: its number is added to the last index, and no other."""
        inside, i = defined_in(inner), inner.body.params[0]
        *others, last = (linear(v, self._ranges).terms for v in load.indices)
        steps = last.get(i, 0)
        return steps == 1 and inside & last.keys() == {i} and all(inside.isdisjoint(terms) for terms in others)


__all__ = ["Copies", "Copy"]
