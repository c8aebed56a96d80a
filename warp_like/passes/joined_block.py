"""The threads of a block in the code of the block: what stands for their values, and a round of a loop over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Scalar, Tile, bool_, int32
from warp_like.passes.meetings import needs

_COMBINED = {
    "block_sum": "add",
    "block_min": "min",
    "block_max": "max",
    "block_any": "bit_or",
    "block_all": "bit_and",
}


@dataclass(eq=False)
class JoinedBlock:
    """The threads of a block, as the code of the block knows them.

    Attributes:
        b: Emits what the block does.
        block_dim: How many threads a whole block has.
        size: How many this one has.
        present: Which of them are still there, where some have left early.
        one_of_them: The number of one that is; None for the first one.
        uniform: What stands for a value that is the same for all threads.
        rows: The tile in which a value of the threads is kept.
        arrays: The array of the block in which an array of the thread's own is kept.
    """

    b: Emitter
    block_dim: int
    size: Value
    uniform: dict[Value, Value] = field(default_factory=dict)
    rows: dict[Value, Value] = field(default_factory=dict)
    arrays: dict[Value, Value] = field(default_factory=dict)
    present: Value | None = None
    one_of_them: Value | None = None

    def first_of(self, o: ops.Tid) -> Value:
        """Return the index of the block's first thread."""
        number = self.b.insert(ops.Tid(o.axis, o.ndim), o.result.type).result
        product: Value = self.b.mul(number, self.block_dim)
        return product

    def each(
        self, init: Sequence[Value], body: Callable[..., Sequence[Value]], *, in_any_order: bool = False
    ) -> tuple[Value, ...]:
        """Write a loop over the threads of the block; ``body(number, *carried)`` gives the next carried values."""
        b = self.b
        number, carried = Value(int32), [Value(v.type) for v in init]
        with b.into(Block([number, *carried])) as block:
            b.yield_(*self._if_present(number, carried, lambda: body(number, *carried)))
        loop = ops.For(b.index(0), self.size, b.index(1), tuple(init), block, threads=in_any_order)
        return b.insert(loop, *(v.type for v in init)).results

    def _if_present(
        self, number: Value, carried: Sequence[Value], body: Callable[[], Sequence[Value]]
    ) -> Sequence[Value]:
        """What ``body`` gives for a thread that is still there; for others what is ``carried``."""
        if self.present is None:
            return body()
        b = self.b
        with b.into(Block()) as then:
            b.yield_(*body())
        with b.into(Block()) as orelse:
            b.yield_(*carried)
        return b.if_(b.extract(self.present, number), then, orelse)

    def of_present(self, row: Value) -> Value:
        """Return the threads' values ``row`` with zeros for those that have left."""
        if self.present is None:
            return row
        b = self.b
        return self.each([b.zero(row.type)], lambda i, new: [b.insert_component(new, b.extract(row, i), i)])[0]

    def of_any(self, row: Value) -> Value:
        """Return the value of a thread that is still there, where all of them have the same in ``row``."""
        found: Value = self.b.extract(row, 0 if self.one_of_them is None else self.one_of_them)
        return found

    def staying(self, row: Value, where: bool) -> tuple[Value, Value, Value]:
        """Return who is still there whose value in ``row`` is ``where``, whether anybody is, and the last of them."""
        b = self.b

        def one(i: Value, mask: Value, some: Value, last: Value) -> Sequence[Value]:
            v = b.extract(row, i)
            stays = v if where else b.unot(v)
            return [b.insert_component(mask, stays, i), b.bit_or(some, stays), b.select(stays, i, last)]

        start = [b.zero(Tile((self.block_dim,), bool_)), b.constant(False, bool_), b.index(0)]
        mask, some, last = self.each(start, one)
        return mask, some, last

    def combined(self, name: str, row: Value) -> Value:
        """Return what the threads make of their values ``row`` by builtin ``name``."""
        b = self.b
        assert isinstance(row.type, Tile)
        if name == "block_sum" and isinstance(row.type.dtype, Scalar):
            return b.extract(b.apply("tile_sum", row), 0)

        def with_next(i: Value, total: Value) -> Sequence[Value]:
            got = b.apply(_COMBINED[name], total, b.extract(row, i))
            return [b.select(b.gt(i, 0), got, total) if name == "block_sum" else got]  # it begins with the first one

        return self.each([b.extract(row, 0)], with_next)[0]


class Thread:
    """One round of the loop over the threads of a block.

    What the piece needs from elsewhere is written in front of it.
    """

    def __init__(self, block: JoinedBlock, number: Value) -> None:
        self.block, self.number, self.b = block, number, block.b
        self.mapping: dict[Value, Value] = {}

    def run(self, piece: Sequence[Op]) -> None:
        """Write the ops of ``piece``."""
        defined = {r for o in piece for r in o.results}
        for o in piece:
            for v in needs(o):
                if v not in defined:
                    self.value(v)
        for o in piece:
            if isinstance(o, ops.LocalArray) and o.result in self.block.arrays:
                self.value(o.result)  # the block has it
            else:
                self.b.block.ops.append(Cloner(self.mapping).op(o))

    def value(self, v: Value) -> Value:
        """Return what the thread has for ``v``."""
        found = self.mapping.get(v)
        if found is None:
            with at(v.op.loc if v.op is not None else None):
                found = self.mapping[v] = self._made(v)
        return found

    def _made(self, v: Value) -> Value:
        block, b = self.block, self.b
        if v in block.uniform:
            return block.uniform[v]
        if v in block.rows:
            return b.extract(block.rows[v], self.number)
        if v in block.arrays:
            return b.view(block.arrays[v], [self.number])
        o = v.op
        match o:
            case ops.Tid():
                return b.add(block.first_of(o), b.cast(self.number, v.type))
            case ops.Apply(fn="block_thread"):
                return self.number
        assert o is not None
        for x in o.operands():
            self.value(x)
        new = Cloner(self.mapping).op(o)
        b.block.ops.append(new)
        return new.result


__all__ = ["JoinedBlock", "Thread"]
