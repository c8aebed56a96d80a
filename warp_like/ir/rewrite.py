"""Copying and transforming IR: what passes have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.ops import constant_value
from warp_like.ir.types import Type, scalar_of

_Kind = TypeVar("_Kind", bound=Op)

INTEGER_DIVISIONS = {"div": "/", "floordiv": "//", "mod": "%"}
"""Builtins that divide, and their operators."""

OUTLINED: set[str] = set()
"""The builtins whose calls stay calls (``ops.Outlined``); their rows add themselves. They run where they stand."""

MEETING: set[str] = set()
"""The builtins that all threads of a block or warp have to reach together; their rows add themselves."""


class Cloner:
    """Copies ops into other blocks, replacing values by the map it keeps."""

    def __init__(self, mapping: dict[Value, Value] | None = None) -> None:
        self.mapping = mapping if mapping is not None else {}

    def value(self, v: Value) -> Value:
        """The value for ``v`` in the copy; values from outside the copied code stay themselves."""
        return self.mapping.get(v, v)

    def op(self, o: Op) -> Op:
        """Return a copy of ``o``, nested blocks included, not yet inserted anywhere."""
        new = object.__new__(type(o))  # copy.copy, which is many times slower, would do the same
        new.__dict__.update(o.__dict__)
        new.map_operands(self.value)
        new.results = tuple(Value(r.type, r.hint, new) for r in o.results)
        for name in o._REGIONS:
            setattr(new, name, self.block(getattr(o, name)))
        self.mapping.update(zip(o.results, new.results, strict=True))
        return new

    def block(self, b: Block) -> Block:
        """Return a copy of ``b`` with parameters of its own."""
        new = Block([Value(p.type, p.hint) for p in b.params])
        self.mapping.update(zip(b.params, new.params, strict=True))
        new.ops = [self.op(o) for o in b.ops]
        return new


def without_body(f: Function) -> Function:
    """Return a function that agrees with ``f`` in everything but its body, which has no ops yet."""
    new = Function(f.name, [Value(p.type, p.hint) for p in f.params], f.results, f.role, f.loc)
    new.prelaunch_copies, new.schedule, new.tid_ndim = f.prelaunch_copies, f.schedule, f.tid_ndim
    new.gradient, new.replay, new.primal = f.gradient, f.replay, f.primal
    new.is_tiled, new.had_tiles, new.is_joined, new.team = f.is_tiled, f.had_tiles, f.is_joined, f.team
    return new


def clone_function(f: Function) -> Function:
    """Return an independent copy of ``f``."""
    new = without_body(f)
    cloner = Cloner(dict(zip(f.params, new.params, strict=True)))
    new.body.ops = [cloner.op(o) for o in f.body.ops]
    return new


def blocks(b: Block) -> Iterator[Block]:
    """Iterate over ``b`` and every block nested in it, outer ones first."""
    yield b
    for o in b.ops:
        if o._REGIONS:
            for r in o.regions():
                yield from blocks(r)


def has_op(f: Function, *kinds: type[Op]) -> bool:
    """Return whether an op of ``f`` is of one of these classes: many passes are for ops that few functions have."""
    return not op_classes(f.body).isdisjoint(kinds)


def op_classes(b: Block) -> set[type[Op]]:
    """Return the classes of all ops in ``b`` and below, in a fraction of the time that a walk over them takes."""
    found: set[type[Op]] = set()
    waiting = [b.ops]
    for sequence in waiting:  # which grows meanwhile
        classes: set[type[Op]] = set(map(type, sequence))
        found |= classes
        if any(c._REGIONS for c in classes):
            waiting += [r.ops for o in sequence if o._REGIONS for r in o.regions()]
    return found


def find_ops(b: Block, kind: type[_Kind]) -> list[_Kind]:
    """Return the ops of a class in ``b`` and below, in the order of ``walk``."""
    return [o for o in b.walk() if type(o) is kind] if kind in op_classes(b) else []


def has_regions(b: Block) -> bool:
    """Return whether an op in ``b`` holds blocks."""
    return any(c._REGIONS for c in op_classes(b))


def result_types(b: Block) -> list[Type]:
    """Return the types of the results of all ops in ``b`` and below, each once."""
    return list(dict.fromkeys([r.type for inner in blocks(b) for o in inner.ops for r in o.results]))


def count_ops(b: Block) -> int:
    """Return how many ops there are in ``b`` and below."""
    return sum(len(inner.ops) for inner in blocks(b))


def count_uses(b: Block) -> Counter[Value]:
    """Return how often each value is an operand in ``b`` and below."""
    uses: Counter[Value] = Counter()
    for o in b.walk():
        uses.update(o.operands())
    return uses


def substitute(b: Block, mapping: dict[Value, Value]) -> None:
    """Replace operands in ``b`` and below by ``mapping``, following chains."""
    if not mapping:
        return

    def final(v: Value) -> Value:
        while v in mapping:
            v = mapping[v]
        return v

    for o in b.walk():
        o.map_operands(final)


def free_values(b: Block, known: dict[Block, dict[Value, None]] | None = None) -> list[Value]:
    """Return the values that ``b`` uses but does not define, in order of first use.

    ``known`` keeps what has been found for the blocks inside, for further calls while these stay as they are.
    """
    return list(_free(b, {} if known is None else known))


def _free(b: Block, known: dict[Block, dict[Value, None]]) -> dict[Value, None]:
    found = known.get(b)
    if found is not None:
        return found
    defined, seen = set(b.params), dict[Value, None]()
    for o in b.ops:
        for v in o.operands():
            if v not in defined:
                seen.setdefault(v)
        for r in o.regions():
            for v in _free(r, known):
                if v not in defined:
                    seen.setdefault(v)
        defined.update(o.results)
    known[b] = seen
    return seen


def grid_ndim(f: Function) -> int:
    """Return how many dimensions the grid has for ``f``: the most that one of its ``Tid`` ops asks for, at least 1."""
    return max((o.ndim for o in find_ops(f.body, ops.Tid)), default=1)


def has_effects(o: Op) -> bool:
    """Return whether removing ``o`` could be seen: by memory, by the stack, by output, or by not terminating."""
    if isinstance(o, (ops.Load, ops.LoadConsecutive, ops.LoadFragments, ops.LocalArray, ops.AtAddress, ops.Outlined)):
        return False
    if isinstance(o, ops.While):
        return True
    if isinstance(o, (ops.If, ops.For)):
        return any(has_effects(inner) for r in o.regions() for inner in r.ops if not isinstance(inner, ops.Yield))
    if isinstance(o, ops.Call):
        return any(has_effects(inner) for inner in o.callee.body.ops if not isinstance(inner, ops.Yield))
    return not o.PURE


def is_always_defined(o: Op) -> bool:
    """Return whether ``o`` may run where the program does not evaluate it: it is pure, and debug mode reports nothing.

    Debug mode reports a division of integers by zero and an index that is out of range. Builtins that all threads of a
    block have to reach stay where they stand, so that conditions which part the threads are found.
    """
    match o:
        case ops.Apply() if is_integer_division(o):
            divisor = constant_value(o.args[1])
            return isinstance(divisor, int) and divisor != 0
        case ops.Apply(fn=fn):
            return fn not in OUTLINED and fn not in MEETING
        case ops.Extract() | ops.Insert():
            return all(constant_value(i) is not None for i in o.indices)
        case ops.View() | ops.NestedArray():
            return not o.indices
    return o.PURE


def is_counted_from_end(o: Op) -> bool:
    """Return whether ``o`` adds an array's extent to an index that is negative, as ``count_from_end`` writes it."""
    match o:
        case ops.Apply(fn="where", args=(test, moved, index)):
            below, total = test.op, moved.op
            return (
                isinstance(below, ops.Apply)
                and below.fn == "lt"
                and below.args[0] is index
                and constant_value(below.args[1]) == 0
                and isinstance(total, ops.Apply)
                and total.fn == "add"
                and total.args[0] is index
                and isinstance(total.args[1].op, ops.Dim)
            )
    return False


def is_integer_division(o: ops.Apply) -> bool:
    """Return whether ``o`` divides integers, which for a divisor of 0 has no result."""
    if o.fn not in INTEGER_DIVISIONS:
        return False
    scalar = scalar_of(o.args[-1].type)
    return scalar is not None and scalar.is_int
