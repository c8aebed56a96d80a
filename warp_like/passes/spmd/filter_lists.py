"""Lists of what loops look through: filled, sifted by lanes, and run in their order; see ``filter_loops.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Lanes, bool_, int32, int64, uint64
from warp_like.passes.spmd.filter_conditions import Condition

LISTED = 512
"""How many iterations, or items of rows, are listed before they run."""


class Filtering:
    """Builds the code of one loop; ``listed`` is the memory of a list of iterations, or of items."""

    def __init__(self, b: Emitter, mapping: dict[Value, Value], condition: Condition, listed: Value) -> None:
        self.b, self.mapping, self.condition, self.listed = b, mapping, condition, listed

    def value(self, v: Value) -> Value:
        return self.mapping.get(v, v)

    # --- loops ---

    def loop(self, o: ops.For) -> list[Value]:
        """Run a loop in parts that the list has room for."""
        b = self.b
        first, *carried = (Value(p.type, p.hint) for p in o.body.params)
        with b.into(Block([first, *carried])) as block:
            count = self.sift(self.limited(o.hi, first, LISTED), first, b.constant(0, int32))
            b.yield_(*self.iterations(count, carried))
        return list(b.for_(o.lo, o.hi, b.constant(LISTED, o.lo.type), o.init, block))

    # --- the list ---

    def sift(self, size: Value, first: Value | None, listed: Value) -> Value:
        """Write those that do something behind ``listed`` others in the list; return how many these are together.

        There are ``size`` iterations from ``first`` on, or items in the list.
        """
        b = self.b
        k, count = Value(int32), Value(int32)
        with b.into(Block([k, count])) as block:
            found = self.sift_one if self.condition.width == 1 else self.sift_vector
            b.yield_(b.add(count, found(size, first, k, count)))
        return b.for_(b.constant(0, int32), size, b.constant(self.condition.width, int32), [listed], block)[0]

    def sift_one(self, _: Value, first: Value | None, k: Value, count: Value) -> Value:
        """Write the one at ``k`` behind ``count`` others; return 1 if it stays there. No branch has to be guessed."""
        b = self.b
        given = b.load(self.listed, [k]) if first is None else b.add(first, k)
        held = self.condition.emit(b, self.value, given)
        self.store_one(count, given)
        return b.cast(held, int32)

    def sift_vector(self, size: Value, first: Value | None, k: Value, count: Value) -> Value:
        """Write those of a vector from ``k`` on that do something behind ``count`` others; return how many."""
        b, width = self.b, self.condition.width
        mask, everywhere = self.first_lanes(size, width, k), self.everywhere(width)
        if first is None:  # lanes without an item take the first one, so that loads need no mask
            listed = self.load(self.listed, k, everywhere)
            one = b.insert(ops.Broadcast(b.load(self.listed, [k])), listed.type).result
            given = lanes = b.insert(ops.Apply("where", (mask, listed, one)), listed.type).result
            held = self.condition.emit(b, self.value, given, everywhere)
        else:
            given = b.add(first, k)
            lanes = b.insert(ops.Iota(given, 1), Lanes(int32, width)).result
            held = self.condition.emit(b, self.value, given, mask)
        return self.write(count, lanes, held, mask)

    def write(self, count: Value, lanes: Value, held: Value, mask: Value) -> Value:
        """Write those of ``lanes`` for which ``held`` and ``mask`` hold behind ``count`` others; return how many."""
        b = self.b
        held = b.insert(ops.Apply("bit_and", (held, mask)), held.type).result
        self.store(count, b.insert(ops.Compress(lanes, held), lanes.type).result)
        return b.bit_count(b.insert(ops.LaneReduce("bits", held), uint64).result)

    def iterations(self, count: Value, carried: Sequence[Value]) -> list[Value]:
        """Run the iterations of the list, in order."""
        b, body, item = self.b, self.condition.found.loop.body, self.condition.item
        k, *params = (Value(v.type, v.hint) for v in (count, *carried))
        with b.into(Block([k, *params])) as block:
            cloner = Cloner({**self.mapping, **dict(zip(body.params[1:], params, strict=True))})
            cloner.mapping[body.params[0] if item is None else item.result] = b.load(self.listed, [k])
            cloner.mapping.update(self.at_row(k))
            b.block.ops += [cloner.op(x) for x in body.ops[:-1] if x is not item]
            b.yield_(*map(cloner.value, body.yielded))
        return list(b.for_(b.constant(0, int32), count, b.constant(1, int32), carried, block))

    def at_row(self, k: Value) -> Mapping[Value, Value]:
        """What else stands for values in the iteration at ``k`` of the list."""
        return {}

    # --- vectors ---

    def limited(self, end: Value, begin: Value, most: int) -> Value:
        """``end - begin``, but ``most`` at most."""
        b = self.b
        left = b.sub(b.cast(end, int64), b.cast(begin, int64))
        return b.cast(b.select(b.lt(left, most), left, b.constant(most, int64)), int32)

    def first_lanes(self, count: Value, width: int, first: Value | None = None) -> Value:
        """The mask of those of ``width`` lanes, numbered from ``first`` on or from 0, that lie below ``count``."""
        b, t = self.b, Lanes(int32, width)
        number = b.insert(ops.Iota(b.constant(0, int32) if first is None else first, 1), t).result
        end = b.insert(ops.Broadcast(count), t).result
        return b.insert(ops.Apply("lt", (number, end)), Lanes(bool_, width)).result

    def load(self, array: Value, first: Value, mask: Value) -> Value:
        assert isinstance(mask.type, Lanes)
        t = Lanes(int32, mask.type.width)
        return self.b.insert(ops.Load(array, (self.b.insert(ops.Iota(first, 1), t).result,), (mask,)), t).result

    def store(self, first: Value, lanes: Value) -> None:
        """Write a vector to the list, whose last lanes nobody reads."""
        b = self.b
        assert isinstance(lanes.type, Lanes)
        place = b.insert(ops.Iota(first, 1), lanes.type).result
        b.insert(ops.Store(self.listed, (place,), lanes, (self.everywhere(lanes.type.width),)))

    def store_one(self, count: Value, given: Value) -> None:
        """Write one number to the list."""
        self.b.store(self.listed, [count], given)

    def everywhere(self, width: int) -> Value:
        """The mask of all of ``width`` lanes."""
        return self.b.insert(ops.ActiveMask(), Lanes(bool_, width)).result


__all__ = ["LISTED", "Filtering"]
