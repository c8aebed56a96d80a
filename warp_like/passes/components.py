"""Where the components of a large value are: in memory, or the same for all. What ``lower_large_values`` is made of.

A ``Buffer`` is an array of the thread's own that holds one value at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from warp_like.analysis.intervals import type_range
from warp_like.analysis.ranges import Ranges
from warp_like.base.frozen import Frozen
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import counted
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Array, Scalar, Type, element_count, element_shape, int32, int64, scalar_of


class InMemory(Frozen):
    """The components are the elements of ``array`` at ``leading`` and a number from 0 on."""

    array: Value
    leading: tuple[Value, ...] = ()


class Same(Frozen):
    """All components are ``component``."""

    component: Value


class Unset(Frozen):
    """Nobody reads the components."""


Place = InMemory | Same | Unset


class Buffers:
    """The arrays of the thread's own that values are put into, one after the other.

    Args:
        tight: Whether arrays have an element behind their value only if ``extend`` asks for it. Where memory is scarce
            that decides whether a kernel fits; elsewhere it keeps arrays apart in the cache.

    Attributes:
        made: The ops that make the arrays, for the start of the function.
    """

    def __init__(self, tight: bool = False) -> None:
        self.tight = tight
        self.made: list[Op] = []
        self._free: dict[tuple[Scalar, int], list[Value]] = {}
        self._owner: dict[Value, Value] = {}
        self._key: dict[Value, tuple[Scalar, int]] = {}

    def take(self, t: Type, owner: Value) -> InMemory:
        """Return memory for ``owner``, a value of type ``t``."""
        scalar = scalar_of(t)
        assert scalar is not None
        key = scalar, element_count(t)
        free = self._free.setdefault(key, [])
        if free:
            array = free.pop()
        else:
            block = Block()
            count = key[1] if self.tight else key[1] + 1
            made = Emitter(block).insert(ops.LocalArray((count,), zeroed=False), Array(scalar, 1))
            self.made.append(made)
            array = made.result
            self._key[array] = key
        self._owner[array] = owner
        return InMemory(array)

    def extend(self, place: InMemory) -> None:
        """Let the buffer at ``place`` have an element behind its value, for what is written nowhere."""
        made = place.array.op
        assert isinstance(made, ops.LocalArray)
        made.shape = (self._key[place.array][1] + 1,)

    def owns(self, v: Value, place: Place) -> bool:
        """Return whether ``place`` is a buffer that holds ``v`` and nothing else."""
        return isinstance(place, InMemory) and self._owner.get(place.array) is v

    def are_memory_of(self, place: InMemory) -> bool:
        """Return whether ``place`` is a buffer."""
        return place.array in self._key

    def hand_over(self, place: InMemory, owner: Value) -> None:
        """Let ``owner`` have the buffer at ``place``, whoever has it or had it."""
        self._claim(place.array, owner)

    def _claim(self, array: Value, owner: Value) -> None:
        free = self._free[self._key[array]]
        if array in free:
            free.remove(array)
        self._owner[array] = owner

    def owners(self) -> dict[Value, Value]:
        """Return who has which buffer."""
        return dict(self._owner)

    def restore(self, owners: dict[Value, Value]) -> None:
        """Let ``owners`` have their buffers, and nobody any other one, for the other side of a branch.

        Those that the first side took first are taken first again: where both sides do the same, their results agree.
        """
        for array in reversed([a for a in self._owner if a not in owners]):
            del self._owner[array]
            self._free[self._key[array]].append(array)
        for array, owner in owners.items():
            self._claim(array, owner)

    def release(self, v: Value, place: Place | None) -> None:
        """Make the buffer of ``v`` free, if it has one."""
        if place is not None and self.owns(v, place):
            assert isinstance(place, InMemory)
            del self._owner[place.array]
            self._free[self._key[place.array]].append(place.array)


def load(b: Emitter, place: Place, number: Value) -> Value:
    """Return the component at the flat position ``number``."""
    if isinstance(place, Same):
        return place.component
    assert isinstance(place, InMemory)
    return b.load(place.array, (*place.leading, number))


def store(b: Emitter, place: InMemory, number: Value, x: Value) -> None:
    """Replace the component at the flat position ``number``."""
    b.store(place.array, (*place.leading, number), x)


def each(b: Emitter, count: int, body: Callable[[Value], None]) -> None:
    """Run ``body`` for the numbers up to ``count``."""

    def step(i: Value) -> Sequence[Value]:
        body(i)
        return ()

    counted(b, 0, count, (), step)


def copy(b: Emitter, count: int, source: Place, target: InMemory) -> None:
    """Copy all components."""
    if source != target and not isinstance(source, Unset):
        each(b, count, lambda i: store(b, target, i, load(b, source, i)))


def copy_at_once(b: Emitter, moves: Sequence[tuple[int, Place, InMemory]], spare: Callable[[int], InMemory]) -> None:
    """Copy several values, each ``(count, source, target)``, as if at one time.

    ``spare(k)`` gives memory for the value of move ``k``, where each target is the source of another move.
    """
    left = [(k, *move) for k, move in enumerate(moves) if move[1] != move[2]]
    while left:
        sources = [source for _, _, source, _ in left]
        first = next((m for m in left if sources.count(m[3]) == 0), None)
        if first is not None:
            copy(b, *first[1:])
            left.remove(first)
            continue
        k, count, source, target = left[0]
        saved = spare(k)
        copy(b, count, source, saved)
        left[0] = k, count, saved, target


class Position(Frozen):
    """Where a component, or the first one of a row, is: its flat position, and how many follow each other."""

    number: Value
    width: int
    ok: Value | None  # whether it is inside, None if it surely is


def position(b: Emitter, ranges: Ranges, t: Type, indices: Sequence[Value], *, reads: bool) -> Position:
    """Return where ``indices`` point in a ``t``: an index out of range reads component 0."""
    shape = element_shape(t)
    number: Value | None = None
    ok: Value | None = None
    for k, i in enumerate(indices):
        stride = math.prod(shape[k + 1 :])
        low, high = ranges.of(i)
        index = b.cast(i, int64 if _bits(i) > 32 or i.type not in (int32, int64) else int32)
        if low < 0 or high >= shape[k]:
            inside = _is_inside(b, i, shape[k])
            ok = inside if ok is None else b.bit_and(ok, inside)
            index = b.select(inside, index, b.zero(index.type))
        step = b.mul(index, stride) if stride != 1 else index
        number = step if number is None else _sum(b, number, step)
    assert number is not None
    width = math.prod(shape[len(indices) :])
    return Position(number, width, None if reads else ok)


def _sum(b: Emitter, x: Value, y: Value) -> Value:
    if x.type != y.type:
        x, y = b.cast(x, int64), b.cast(y, int64)
    total: Value = b.add(x, y)
    return total


def _is_inside(b: Emitter, i: Value, n: int) -> Value:
    assert isinstance(i.type, Scalar)
    below: Value = b.lt(i, n) if n <= type_range(i.type)[1] else b.true()
    inside: Value = b.bit_and(b.ge(i, 0), below)
    return inside


def _bits(i: Value) -> int:
    assert isinstance(i.type, Scalar)
    return i.type.bits


__all__ = [
    "Buffers", "InMemory", "Place", "Position", "Same", "Unset", "copy", "copy_at_once", "each", "load", "position",
    "store",
]  # fmt: skip
