"""Merge ops that compute the same value: value numbering over dominance.

A pure op is replaced by an equal one before it in its own or an enclosing block. A load is replaced by an
equal one with no store between them, to whatever array, since arrays may overlap; loops that store forget all
loads at entry.

Relies on nothing. Leaves no two equal pure ops of which one dominates the other.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = load %x[%0] : float32
      %3 = add %1, %2 : float32
      store %x[%0], %3
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = add %1, %1 : float32
      store %x[%0], %2
      yield
    }
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable

from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import has_effects
from warp_like.ir.types import Scalar
from warp_like.passes.rewriter import Rewriter, rewrite

COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "bit_and", "bit_or", "bit_xor"})
"""Builtins whose two scalar arguments may be exchanged without changing a bit."""

_WRITING = (
    *(ops.Store, ops.StoreConsecutive, ops.Atomic, ops.AtomicCas, ops.ContractInMemory, ops.AsyncCopy),
    *(ops.Native, ops.Barrier, ops.Call),
)


def cse(f: Function) -> Function:
    """Merge equal ops of ``f`` in place."""
    return rewrite(f, _Numbering(_writers(f.body)))


def _writers(b: Block) -> set[Op]:
    """Return the control-flow ops that write memory."""
    found: set[Op] = set()

    def visit(block: Block) -> bool:
        writes = False
        for o in block.ops:
            if o._REGIONS:
                nested = [visit(r) for r in o.regions()]
                if any(nested):
                    found.add(o)
                    writes = True
            elif not o.PURE and _writes(o):
                writes = True
        return writes

    visit(b)
    return found


def _writes(o: Op) -> bool:
    return isinstance(o, _WRITING) and (not isinstance(o, ops.Call) or has_effects(o))


class _Numbering(Rewriter):
    def __init__(self, writers: set[Op]) -> None:
        super().__init__()
        self.writers = writers
        self.numbers: dict[Hashable, Value] = {}
        self.scope: list[Hashable] = []  # what the current block added
        self.states = itertools.count(1)
        self.memory = 0  # the state of memory: another number after every store

    def block(self, block: Block) -> None:
        outside, self.scope = self.scope, []
        super().block(block)
        for key in self.scope:
            del self.numbers[key]
        self.scope = outside

    def visit(self, o: Op) -> None:
        if not o._REGIONS:
            if not o.PURE and _writes(o):
                self.advance()
            self.merge(o)
        elif o in self.writers:
            before = self.memory if isinstance(o, ops.If) else self.advance()  # iterations see earlier stores
            for r in o.regions():
                self.memory = before
                self.block(r)
            self.advance()
            self.keep(o)
        else:
            super().visit(o)

    def advance(self) -> int:
        """Forget all loads."""
        self.memory = next(self.states)
        return self.memory

    def merge(self, o: Op) -> None:
        key = (ops.Load, self.memory, o.array, o.indices, o.mask) if type(o) is ops.Load else pure_key(o)
        if key is None:
            self.keep(o)
            return
        (result,) = o.results
        found = self.numbers.setdefault(key, result)
        if found is result:
            self.scope.append(key)
            self.keep(o)
        else:
            self.mapping[result] = found


def pure_key(o: Op, number: Callable[[Value], Value] | None = None) -> Hashable | None:
    """Return what is equal for pure ops that compute the same from their operands, or their ``number``, or None."""
    if not o.PURE or o._REGIONS or len(o.results) != 1:
        return None
    t = o.results[0].type
    if type(o) is ops.Constant:
        return ops.Constant, repr(o.value), t
    if type(o) is ops.Apply:
        given = o.args if number is None else tuple(map(number, o.args))
        if o.fn in COMMUTATIVE and type(o.args[0].type) is Scalar and o.args[0].type is o.args[1].type:
            return ops.Apply, o.fn, frozenset(given), t
        return ops.Apply, o.fn, given, t
    operands = o.operands()
    return (type(o), *o.attributes().values(), *(operands if number is None else map(number, operands)), t)
