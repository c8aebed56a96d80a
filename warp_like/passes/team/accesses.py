"""Which memory the ops of a function touch, and at which index: what a team has to know of it.

Accesses of different roots touch no common element. An array of the function's own is a root by itself. So is each
parameter where the launch has seen that none overlaps another; else all of them are one root.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warp_like.analysis.memory import analyse
from warp_like.analysis.ranges import Ranges
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import count_uses
from warp_like.ir.types import Array, Scalar
from warp_like.passes.effects import constant_arrays, names_its_memory

Root = Value | None
"""An array, or None for all memory that is not the function's own."""

READ, WRITE = "read", "write"
"""What an access does. An atomic update of which nobody uses the old value is called by its kind: updates of one kind
may be done in any order."""


class Access(NamedTuple):
    """What an op does to a root, by way of ``array``; ``indices`` is None where it may be any element."""

    root: Root
    kind: str
    array: Value | None
    indices: tuple[Value, ...] | None


class Accesses:
    """The accesses of the ops of ``f``.

    Args:
        f: The function.
        apart: Whether no argument of a launch overlaps another.
        contiguous: Whether all arguments are contiguous: then elements at different indices are different.
    """

    def __init__(self, f: Function, apart: bool, contiguous: bool) -> None:
        self.contiguous = contiguous
        memory = analyse(f)
        self._apart = apart and names_its_memory(memory)
        self._constant = {f.params[i] for i in constant_arrays(memory)} if apart else set()
        self._constant |= {p for p in f.params if not isinstance(p.type, Array)}
        self._uses = count_uses(f.body)

    def is_constant(self, array: Value) -> bool:
        """Return whether nobody writes to ``array`` while the function runs."""
        base = ops.base_array(array)
        return isinstance(base.op, ops.Table) or base in self._constant

    def uses(self, v: Value) -> int:
        """Return how often ``v`` is an operand."""
        return self._uses[v]

    def of(self, o: Op) -> Iterator[Access]:
        """Iterate over what ``o`` and the ops in it do, without reads of what nobody writes."""
        match o:
            case ops.Load():
                if not self.is_constant(o.array):
                    yield self._at(o.array, o.indices, READ)
            case ops.Store():
                yield self._at(o.array, o.indices, WRITE)
            case ops.Atomic():
                in_any_order = KINDS[o.kind].reduction and not self._uses[o.result]
                yield self._at(o.array, o.indices, o.kind if in_any_order else WRITE)
            case ops.AtomicCas():
                yield self._at(o.array, o.indices, WRITE)
            case ops.ContractInMemory():
                yield from (Access(self.root(v), READ, v, None) for v in (o.x, o.y))
                yield Access(self.root(o.out), WRITE, o.out, None)
            case ops.NestedArray():
                yield Access(None, READ, None, None)
            case ops.Native() | ops.Call():
                yield Access(None, WRITE, None, None)
        for r in o.regions():
            for inner in r.ops:
                yield from self.of(inner)

    def _at(self, array: Value, indices: tuple[Value, ...], kind: str) -> Access:
        at: tuple[Value, ...] | None = indices
        while isinstance(array.op, ops.PARTS):
            if isinstance(array.op, ops.Slice):
                at = None
            elif isinstance(array.op, ops.View) and at is not None:
                at = (*array.op.indices, *at)
            array = array.op.array
        return Access(self.root(array), kind, array, at)

    def root(self, array: Value) -> Root:
        """Return what ``array`` is a part of."""
        base = ops.base_array(array)
        is_own = isinstance(base.op, ops.LocalArray) or (base.op is None and self._apart)
        return base if is_own else None


def is_own(root: Root) -> bool:
    """Whether a root is memory of the function's own."""
    return root is not None and isinstance(root.op, ops.LocalArray)


class Linear(NamedTuple):
    """A sum of values times constants, plus a constant, modulo ``2**bits``; equal integers have equal sums."""

    terms: dict[Value, int]
    constant: int
    bits: int


def linear(v: Value, ranges: Ranges) -> Linear:
    """Return the sum that ``v``, an index, is."""
    while isinstance(v.op, ops.Cast) and _is_wider(v.op):
        v = v.op.x
    assert isinstance(v.type, Scalar)
    terms: dict[Value, int] = {}
    constant = _add(terms, v, 1, ranges, exact=False)
    return Linear(terms, constant, v.type.bits)


def _decided(v: Value, ranges: Ranges) -> Value:
    """The side that ``v`` always is, where it is a choice."""
    while isinstance(v.op, ops.Apply) and v.op.fn == "where" and (truth := _truth(v.op.args[0], ranges)) is not None:
        v = v.op.args[1 if truth else 2]
    return v


def _truth(cond: Value, ranges: Ranges) -> bool | None:
    """What a condition on integers always is, None where that is not known: an index may be sure to be in range."""
    match cond.op:
        case ops.Constant(value=bool(x)):
            return x
        case ops.Apply(fn="bit_and", args=(x, y)):
            sides = _truth(x, ranges), _truth(y, ranges)
            return False if False in sides else None if None in sides else True
        case ops.Apply(fn="ge" | "le" | "gt" | "lt" as fn, args=(x, y)) if _is_int(x) and _is_int(y):
            first, second = (ranges.of(_decided(v, ranges)) for v in (x, y))
            a, b = (first, second) if fn in ("ge", "gt") else (second, first)
            strict = fn in ("gt", "lt")  # then a > b is asked, else a >= b
            return True if a[0] >= b[1] + strict else False if a[1] < b[0] + strict else None
    return None


def _is_int(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int


def _is_wider(o: ops.Cast) -> bool:
    """Whether a cast gives other numbers for others."""
    a, b = o.x.type, o.result.type
    return _is_int(o.x) and _is_int(o.result) and isinstance(a, Scalar) and isinstance(b, Scalar) and a.bits <= b.bits


def _add(terms: dict[Value, int], v: Value, factor: int, ranges: Ranges, *, exact: bool) -> int:
    """Add ``factor * v`` to ``terms``; return the constant that is left. ``exact``: no part of it may wrap."""
    v = _decided(v, ranges)
    o, known = v.op, ops.constant_value(v)
    if isinstance(known, int):
        return factor * known
    if isinstance(o, ops.Apply) and (not exact or ranges.cannot_wrap(o)):
        match o.fn, o.args:
            case "add", (x, y):
                return _add(terms, x, factor, ranges, exact=exact) + _add(terms, y, factor, ranges, exact=exact)
            case "sub", (x, y):
                return _add(terms, x, factor, ranges, exact=exact) + _add(terms, y, -factor, ranges, exact=exact)
            case "neg", (x,):
                return _add(terms, x, -factor, ranges, exact=exact)
            case "mul", (x, y):
                for a, b in ((x, y), (y, x)):
                    by = ops.constant_value(b)
                    if isinstance(by, int):
                        return _add(terms, a, factor * by, ranges, exact=exact)
    if isinstance(o, ops.Cast) and _is_wider(o) and ranges.cannot_wrap(o):
        return _add(terms, o.x, factor, ranges, exact=True)
    terms[v] = terms.get(v, 0) + factor
    return 0


__all__ = ["READ", "WRITE", "Access", "Accesses", "Linear", "Root", "is_own", "linear"]
