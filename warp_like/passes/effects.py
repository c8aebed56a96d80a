"""Which arrays a function touches, and how; the runtime checks arguments and orders launches by it."""

from __future__ import annotations

from collections.abc import Iterator

from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Struct

Roots = frozenset[int]


class Access(Frozen):
    """What a function does to an array parameter.

    An atomic update reads and writes, an ``extreme`` one by a minimum or maximum; ``loaded`` means read otherwise,
    ``stored`` overwritten.
    """

    read: bool = False
    written: bool = False
    atomic: bool = False
    stored: bool = False
    loaded: bool = False
    extreme: bool = False

    def __or__(self, other: Access) -> Access:
        return Access(
            self.read or other.read,
            self.written or other.written,
            self.atomic or other.atomic,
            self.stored or other.stored,
            self.loaded or other.loaded,
            self.extreme or other.extreme,
        )


READ = Access(read=True, loaded=True)
WRITE = Access(written=True, stored=True)
UPDATE = Access(read=True, written=True, atomic=True)
EXTREME = Access(read=True, written=True, atomic=True, extreme=True)


def array_accesses(f: Function) -> dict[int, Access]:
    """Return how ``f`` uses each array parameter, by position; through views, branches and calls as well."""
    positions = [i for i, p in enumerate(f.params) if isinstance(p.type, Array)]
    finder = _Finder({f.params[i]: frozenset([i]) for i in positions})
    while finder.grown:  # again only where a loop carries arrays
        finder.grown = False
        finder.block(f.body)
    return {i: finder.found.get(i, Access()) for i in positions}


def certain_accesses(f: Function) -> tuple[int, ...]:
    """Return the positions of the array parameters of which every thread accesses an element, whatever it computes."""
    positions = {p: i for i, p in enumerate(f.params) if isinstance(p.type, Array)}
    found = set()
    for o in f.body.ops:
        match o:
            case ops.View() | ops.Slice() if o.array in positions:
                positions[o.result] = positions[o.array]
            case ops.Load() | ops.Store() | ops.Atomic() | ops.AtomicCas() | ops.Inner() if o.array in positions:
                found.add(positions[o.array])
    return tuple(sorted(found))


def constant_arrays(f: Function) -> tuple[int, ...]:
    """Return the positions of the arrays that ``f`` only reads, if none of its arguments overlaps another."""
    if any(isinstance(o, (ops.AtAddress, ops.Native, ops.Inner)) for o in f.body.walk()):
        return ()  # which may be written anywhere
    return tuple(i for i, a in array_accesses(f).items() if a.read and not a.written)


def inner_accesses(f: Function) -> dict[tuple[int, str], Access]:
    """Return how ``f`` uses the arrays that the elements of its array parameters hold: by position and field.

    Of arrays in the elements of such an array the field that it stands in counts.
    """
    found: dict[tuple[int, str], Access] = {}
    positions = {p: i for i, p in enumerate(f.params)}
    for o in f.body.walk():
        for array, access in _touched(o):
            place, inner = "", None
            while isinstance(array.op, (*ops.VIEWS, ops.Inner)):
                if isinstance(array.op, ops.Inner):
                    inner, place = array.op, ""
                elif isinstance(array.op, ops.View) and array.op.field is not None:
                    place = f"{_field_name(array.op)}.{place}" if place else _field_name(array.op)
                array = array.op.array
            if inner is not None and array in positions:
                key = positions[array], place
                found[key] = found.get(key, Access()) | access
    return found


def _field_name(view: ops.View) -> str:
    t = view.array.type
    assert isinstance(t, Array)
    assert isinstance(t.dtype, Struct)
    assert view.field is not None
    return t.dtype.fields[view.field][0]


def _touched(o: Op) -> Iterator[tuple[Value, Access]]:
    """The arrays that ``o`` itself accesses."""
    match o:
        case ops.Load():
            yield o.array, READ
        case ops.Store():
            yield o.array, WRITE
        case ops.Atomic() | ops.AtomicCas():
            yield o.array, EXTREME if isinstance(o, ops.Atomic) and o.kind in ("min", "max") else UPDATE
        case ops.Native():
            for (name, _), array in zip(o.code.params, o.args, strict=True):
                yield array, READ | WRITE if name in o.code.written else READ
        case ops.Inner():
            yield o.array, READ


class _Finder:
    def __init__(self, roots: dict[Value, Roots]) -> None:
        self.roots = roots  # the parameters that a value of array type may be (a view of)
        self.found: dict[int, Access] = {}
        self.grown = True

    def touch(self, array: Value, access: Access) -> None:
        for i in self.roots.get(array, ()):
            self.found[i] = self.found.get(i, Access()) | access

    def bind(self, to: Value, *sources: Value) -> None:
        if not isinstance(to.type, Array):
            return
        before = self.roots.get(to, frozenset())
        after = before.union(*(self.roots.get(s, frozenset()) for s in sources))
        if after != before:
            self.roots[to] = after
            self.grown = True

    def block(self, b: Block) -> None:
        for o in b.ops:
            self.op(o)

    def op(self, o: Op) -> None:
        for r in o.regions():
            self.block(r)
        for array, access in _touched(o):
            self.touch(array, access)
        match o:
            case ops.View() | ops.Slice():
                self.bind(o.result, o.array)
            case ops.Call():
                self.call(o)
            case ops.If():
                for result, yes, no in zip(o.results, o.then.yielded, o.orelse.yielded, strict=True):
                    self.bind(result, yes, no)
            case ops.For():
                counted = zip(o.results, o.body.params[1:], o.init, o.body.yielded, strict=True)
                for result, p, first, last in counted:
                    self.bind(p, first, last)
                    self.bind(result, p)
            case ops.While():
                carried = zip(o.results, o.cond.params, o.body.params, o.init, o.body.yielded, strict=True)
                for result, p, q, first, last in carried:
                    self.bind(p, first, last)
                    self.bind(q, p)
                    self.bind(result, p)

    def call(self, o: ops.Call) -> None:
        for i, access in array_accesses(o.callee).items():
            self.touch(o.args[i], access)
        for result in o.results:
            self.bind(result, *(a for a in o.args if isinstance(a.type, Array)))
