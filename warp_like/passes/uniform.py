"""Which values are the same for all threads of a block, or of a warp, on CUDA; and where such threads stay together.

A level says how far a value is the same: for the ``BLOCK``, for the ``WARP``, or for the ``THREAD`` alone. A place in
the program has the level of what decides whether a thread comes there.

What is the same follows from the program alone, and never from what threads write meanwhile: an element is the same for
all only where the kernel writes to no element of its array, as it never does to the memory of objects that it queries,
and never in memory that a block shares. That another argument, which is written, does not overlap the array is for the
launch to check (``blocks.relies_on_no_overlap``).

Example::

    kernel k(%x: array1d[float32], %y: array1d[float32], %n: int32) {
      # %x: block
      # %y: block
      # %n: block
      %0 = load %x[%n] : float32                # block
      %1 = block_thread  : int32                # thread
      %2 = warp_size  : int32                   # block
      %3 = div %1, %2 : int32                   # warp
      %4 = tid 0 of 1 : int32                   # thread
      %5 = mul %3, %n : int32                   # warp
      %6 = cast %5 : float32                    # warp
      %7 = add %0, %6 : float32                 # warp
      store %y[%4], %7
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.analysis.memory import analyse
from warp_like.builtins.spec import COOPERATIVE, Cooperative, resolve
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Tile
from warp_like.passes.effects import constant_arrays

BLOCK, WARP, THREAD = 0, 1, 2
LEVELS = {"block": BLOCK, "warp": WARP, "": THREAD}


def cooperative(o: Op) -> Cooperative | None:
    """Return the row's lowering where ``o`` asks something of the thread's warp or block."""
    if not isinstance(o, ops.Apply) or o.fn not in COOPERATIVE:
        return None
    lower = resolve(o.fn, [a.type for a in o.args]).overload.lower
    return lower if isinstance(lower, Cooperative) else None


class Uniformity:
    """The levels of the values of ``f``, and of its places.

    Args:
        f: The function.
        no_overlap: Whether no array that ``f`` writes overlaps one that it only reads.
        axis: Along which the threads of a block lie side by side, where that is known: tiles are the block's then.
        block_dim: How many they are.
        partings: Branches on whose one side all threads that still meet go on; they are together there.

    Attributes:
        levels: The level of each value.
        within: For each op, the level of its place, and the branch or loop that has led to it.
    """

    def __init__(
        self,
        f: Function,
        no_overlap: bool = True,
        axis: int | None = None,
        block_dim: int = 1,
        partings: Iterable[Op] = (),
    ) -> None:
        self.axis, self.block_dim, self.partings = axis, block_dim, frozenset(partings)
        self.levels: dict[Value, int] = dict.fromkeys(f.params, BLOCK)
        self.within: dict[Op, tuple[int, Op | None]] = {}
        self._constant = {f.params[i] for i in constant_arrays(analyse(f))} if no_overlap else set()
        self._place: tuple[int, Op | None] = (BLOCK, None)
        self._block(f.body)

    def _block(self, b: Block, under: tuple[int, Op] | None = None) -> list[int]:
        """Visit ``b``, reached by what has the level and op ``under``; return the levels of what it yields."""
        before = self._place
        if under is not None and under[0] > before[0]:
            self._place = under
        for o in b.ops[:-1]:
            self.within[o] = self._place
            self._visit(o)
        self._place = before
        return [self.levels[v] for v in b.yielded]

    def _set(self, values: Sequence[Value], levels: Sequence[int]) -> None:
        for v, level in zip(values, levels, strict=True):
            self.levels[v] = BLOCK if isinstance(v.type, Tile) and self.axis is not None else level

    def _visit(self, o: Op) -> None:
        match o:
            case ops.If():
                by = self.levels[o.cond]
                under = None if o in self.partings else (by, o)
                sides = [self._block(r, under) for r in o.regions()]
                self._set(o.results, [max(by, *pair) for pair in zip(*sides, strict=True)])
            case ops.For():
                by = max(self.levels[v] for v in (o.lo, o.hi, o.step))
                i, *params = o.body.params
                self.levels[i] = by
                self._loop(o, params, by)
            case ops.While():
                self._loop(o, o.body.params, BLOCK)
            case _:
                self._set(o.results, [self._level(o)] * len(o.results))

    def _loop(self, o: ops.For | ops.While, params: Sequence[Value], by: int) -> None:
        """Visit a loop until nothing changes; ``by`` is the level of its bounds."""
        carried = [max(by, self.levels[v]) for v in o.init]
        while True:
            self._set(params, carried)
            before = by
            if isinstance(o, ops.While):
                self._set(o.cond.params, carried)
                (by,) = self._block(o.cond, (by, o))
            found = [max(by, a, b) for a, b in zip(carried, self._block(o.body, (by, o)), strict=True)]
            if found == carried and by == before:
                break
            carried = found
        self._set(o.results, carried)

    def _is_constant(self, array: Value) -> bool:
        """Whether the function writes no element of an array; nor does any other write the memory of objects."""
        return array in self._constant or (isinstance(array.op, ops.AtAddress) and array.op.constant)

    def is_number_of_block(self, o: Op) -> bool:
        """Whether ``o`` divides the thread's index so that all threads of a block get the same."""
        match o:
            case ops.Apply(fn="div" | "floordiv", args=(Value(op=ops.Tid(axis=axis)), by)) if axis == self.axis:
                known = ops.constant_value(by)
                return isinstance(known, int) and known > 0 and known % self.block_dim == 0
        return False

    def _level(self, o: Op) -> int:
        """The level of the results of an op without blocks."""
        given = max((self.levels[v] for v in o.operands()), default=BLOCK)
        match o:
            case ops.Apply():
                lower = cooperative(o)
                if lower is not None:
                    return LEVELS[lower.agrees]
                if self.is_number_of_block(o):
                    return BLOCK
                return WARP if _is_number_of_warp(o) else given
            case ops.Tid() if self.axis is not None and o.axis != self.axis:
                return BLOCK
            case ops.Load():
                return given if self._is_constant(ops.base_array(o.array)) else THREAD
            case ops.NestedArray():
                return THREAD
            case ops.Tid() | ops.Atomic() | ops.AtomicCas() | ops.Native() | ops.Pop() | ops.Call() | ops.LocalArray():
                return THREAD
        return given


def _is_number_of_warp(o: ops.Apply) -> bool:
    """Whether ``o`` is ``block_thread() // warp_size()``, as it stands or as a division."""
    names = [a.op.fn if isinstance(a.op, ops.Apply) else "" for a in o.args]
    return o.fn in ("div", "floordiv") and names == ["block_thread", "warp_size"]
