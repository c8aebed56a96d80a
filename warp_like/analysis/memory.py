"""The memory model: what a function does to memory, access by access; computed once, asked by passes and backends.

Each access has the memory that it may reach, its *roots*; what it does there; and for each dimension the class of its
index (``analysis/indices.py``). Views and slices are seen through: an access to ``m[i]`` at ``j`` is one to ``m`` at
``i, j``. What a call does counts as done where the call stands, at indices of which nothing is known.

Two roots are different names, not different memory. Parameters may overlap, unless the launch has checked that they
do not, and so may arrays that stand in elements of others, or at an address. Arrays that threads make for themselves
overlap nothing.

Example, ``i, j = wp.tid(); out[j] += m[i, j] * s[0]``::

    Access(Load,   roots={m},   kind="load", indices=(ThreadIndex(0, 2), ThreadIndex(1, 2)))
    Access(Load,   roots={s},   kind="load", indices=(Uniform(0),))
    Access(Atomic, roots={out}, kind="add",  indices=(ThreadIndex(1, 2),))  # threads of two rows collide
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from warp_like.analysis.indices import (
    Index,
    Indices,
    Linear,
    ThreadIndex,
    index_class,
    is_constant,
    scaled,
    total,
    widened,
)
from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS, AtomicKind
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Scalar, Struct, int64

_ACCESSING = (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas, ops.NestedArray, ops.Native, ops.Call, ops.AsyncCopy)
"""Ops that access memory."""

_GIVING = (*ops.PARTS, ops.NestedArray, ops.LocalArray, ops.Table, ops.AtAddress, ops.Call, ops.If, ops.For, ops.While)
"""Ops that may give an array, and ops with blocks."""

_MAY_END = (ops.Check, ops.Call, ops.If, ops.For, ops.While)
"""Ops at which, or in whose blocks, a thread may end."""


class Root(Frozen):
    """Memory by its name.

    Attributes:
        kind: ``parameter``; ``local``, an array of the thread's own; ``shared``, one of a block; ``element``, all
            arrays that stand in elements of ``array``; ``address``, an array at an address; or ``object``, memory of a
            mesh or the like, which kernels only read and nothing else overlaps.
        array: The array, or for ``element`` the one that holds the elements.
        path: For ``element``, the field in which the arrays stand, as ``a.b``. Of arrays in elements of such arrays it
            is the same one.
    """

    kind: str
    array: Value
    path: str = ""


class Access(Frozen):
    """One thing that an op does to memory.

    Attributes:
        op: The op; for what a callee does, the call.
        array: The array as the op has it.
        roots: The memory that it may reach.
        kind: ``load``, ``store``, ``cas``, or the kind of an atomic update.
        indices: The class of the index along each dimension of the root; None where any element may be meant, or where
            threads may mean elements of different arrays.
        sums: What each of these indices is the sum of; None with ``indices``.
        used: Whether the result is used.
        always_executed: Whether every thread comes here, whatever it computes.
    """

    op: Op
    array: Value
    roots: frozenset[Root]
    kind: str
    indices: tuple[Index, ...] | None
    sums: tuple[Linear | None, ...] | None
    used: bool
    always_executed: bool


class Memory:
    """The accesses of a function.

    Attributes:
        function: The function.
        accesses: All accesses, in the order of the ops.
        indices: How its values depend on the thread.
        anywhere: Whether something may reach any memory by an address that no root stands for.
    """

    def __init__(self, f: Function) -> None:
        self.function = f
        self.indices = Indices(f)
        self._places = _Places(f)
        self._used = {v for o in f.body.walk() for v in o.operands()}
        self._callees: dict[Function, Memory] = {}
        self.anywhere = False
        self.accesses = tuple(self._found(f))
        self._of: dict[Root, list[Access]] = {}
        for a in self.accesses:
            for root in a.roots:
                self._of.setdefault(root, []).append(a)

    def roots(self, array: Value) -> frozenset[Root]:
        """Return the memory that an array may be a part of; nothing for one that stands where none is given."""
        return frozenset(place.root for place in self._places.of(array))

    def of(self, root: Root) -> Sequence[Access]:
        """Return the accesses that may reach ``root``."""
        return self._of.get(root, ())

    def of_parameter(self, position: int) -> Sequence[Access]:
        """Return the accesses to the parameter at ``position``, those to arrays in its elements not among them."""
        return self.of(Root("parameter", self.function.params[position]))

    @property
    def all_roots(self) -> Sequence[Root]:
        """The roots that are accessed, in the order of their first access."""
        return tuple(self._of)

    def is_used(self, v: Value) -> bool:
        """Return whether an op takes ``v``."""
        return v in self._used

    # --- finding accesses ---

    def _found(self, f: Function) -> Iterator[Access]:
        """All accesses, in the order of the ops."""
        always_executed = set(_always_executed(f.body))
        for o in f.body.walk():
            if isinstance(o, _ACCESSING) and not _reads_a_value(o):
                yield from self._of_op(o, o in always_executed)

    def _of_op(self, o: Op, always_executed: bool) -> Iterator[Access]:
        match o:
            case ops.Load():
                yield self._element(o, "load", always_executed)
            case ops.NestedArray():
                yield self._element(o, "load", always_executed)
            case ops.Store():
                yield self._element(o, "store", always_executed)
            case ops.Atomic():
                yield self._element(o, o.kind, always_executed)
            case ops.AtomicCas():
                yield self._element(o, "cas", always_executed)
            case ops.AsyncCopy():
                yield Access(o, o.array, self.roots(o.array), "load", None, None, True, False)
            case ops.Native():
                yield from self._native(o)
            case ops.Call():
                yield from self._call(o)

    def _element(
        self, o: ops.Load | ops.NestedArray | ops.Store | ops.Atomic | ops.AtomicCas, kind: str, always_executed: bool
    ) -> Access:
        used = any(r in self._used for r in o.results)
        roots = self.roots(o.array)
        self.anywhere |= any(r.kind == "address" for r in roots)
        sums = self._whole_indices(o.array, o.indices)
        indices = None if sums is None else tuple(map(index_class, sums))
        return Access(o, o.array, roots, kind, indices, sums, used, always_executed)

    def _whole_indices(self, array: Value, given: Sequence[Value]) -> tuple[Linear | None, ...] | None:
        """The indices into the array that ``array`` is a view of, as far as they are known."""
        found = [self.indices.linear(v) for v in given]
        while isinstance(view := array.op, ops.PARTS):
            if isinstance(view, ops.View):
                found = [*(self.indices.linear(v) for v in view.indices), *found]
            elif isinstance(view, ops.Components):
                found.pop()  # one component counts as the whole element
            else:
                inside = [self.indices.linear(v) for v in view.start]
                for axis, step, index in zip(view.kept, view.step, found, strict=True):
                    inside[axis] = _moved(inside[axis], self.indices.linear(step), index)
                found = inside
            array = view.array
        same = self.indices.linear(array)
        if same is None or same.loops or len(self.roots(array)) > 1:
            return None  # threads may mean different arrays
        return tuple(found)

    def _native(self, o: ops.Native) -> Iterator[Access]:
        used = any(r in self._used for r in o.results)
        for (name, t), array in zip(o.code.params, o.args, strict=True):
            if isinstance(t, Scalar) and t.is_int and t.bits == 64:
                self.anywhere = True  # it may be an address
            if not isinstance(array.type, Array):
                continue
            for kind in ("load", "store") if name in o.code.written else ("load",):
                yield Access(o, array, self.roots(array), kind, None, None, used, False)

    def _call(self, o: ops.Call) -> Iterator[Access]:
        """The callee's accesses to its arguments, and to arrays in their elements."""
        if o.callee not in self._callees:
            self._callees[o.callee] = Memory(o.callee)
        callee = self._callees[o.callee]
        self.anywhere |= callee.anywhere
        for a in callee.accesses:
            roots = frozenset(_roots_of_caller(a, o, self._places.of))
            if roots:
                yield Access(o, o.args[0], roots, a.kind, None, None, a.used, False)


def _reads_a_value(o: Op) -> bool:
    """Whether ``o`` reads a component of a parameter that is no array, which nothing writes to."""
    return isinstance(o, ops.Load) and not isinstance(ops.base_array(o.array).type, Array)


def analyse(f: Function) -> Memory:
    """Return what ``f``, a function of one thread, does to memory."""
    return Memory(f)


# --- questions about accesses ---


def kind_of(access: Access) -> AtomicKind | None:
    """Return the row of an atomic update; None for a load or a store."""
    return KINDS.get(access.kind)


def is_update(access: Access) -> bool:
    """Return whether an access is atomic: it reads and writes."""
    return access.kind in KINDS


def writes(access: Access) -> bool:
    """Return whether an access may change memory."""
    return access.kind != "load"


def adds(access: Access) -> bool:
    """Return whether an access is an atomic addition or subtraction."""
    kind = kind_of(access)
    return kind is not None and kind.sign != 0


def is_thread_private(access: Access) -> bool:
    """Return whether an access is at the index of the thread in a grid of as many dimensions as the array has."""
    found = access.indices
    return found is not None and found == tuple(ThreadIndex(axis, len(found)) for axis in range(len(found)))


def offsets(access: Access) -> tuple[int, ...] | None:
    """Return how far an access is from the element at the thread's index, where that is a constant; else None."""
    found = []
    for axis, index in enumerate(access.indices or ()):
        if not isinstance(index, ThreadIndex) or (index.axis, index.ndim) != (axis, len(access.indices or ())):
            return None
        found.append(index.offset)
    return tuple(found) if found else None


def leading_offsets(access: Access) -> tuple[int, ...]:
    """Return the same along the first axes of the grid, as far as indices are such; the last axis is not among them.

    Threads that access one element are then in one row of the grid, or in rows that are near to each other.
    """
    found: list[int] = []
    for axis, index in enumerate(access.indices or ()):
        if not isinstance(index, ThreadIndex) or index.axis != axis or index.ndim <= axis + 1:
            break
        found.append(index.offset)
    return tuple(found)


# --- roots ---


def root_of(array: Value) -> Root:
    """Return the root of an array that no branch, loop or call gives."""
    return _place_of(array).root


def roots_written(o: Op) -> list[Root]:
    """Return the roots that ``o`` stores to or updates, itself or by a call; no control flow chooses its arrays."""
    match o:
        case ops.Store() | ops.Atomic() | ops.AtomicCas():
            return [root_of(o.array)]
        case ops.Native():
            return [root_of(a) for (p, _), a in zip(o.code.params, o.args, strict=True) if p in o.code.written]
        case ops.Call():
            writing = (a for a in Memory(o.callee).accesses if writes(a))
            found = (root for a in writing for root in _roots_of_caller(a, o, lambda v: [_place_of(v)]))
            return list(dict.fromkeys(found))
    return []


def _roots_of_caller(a: Access, call: ops.Call, places: Callable[[Value], Iterable[_Place]]) -> Iterator[Root]:
    """What the roots of ``a``, an access of the callee, are to the caller; ``places`` gives those of its arrays."""
    arguments = dict(zip(call.callee.params, call.args, strict=True))
    for root in a.roots:
        if root.array in arguments:
            for place in places(arguments[root.array]):
                yield _held(place, root.path) if root.kind == "element" else place.root


class _Place(Frozen):
    """The place of an array: its root, and the field of the root's elements that a view selects."""

    root: Root
    path: str = ""


def _held(place: _Place, path: str) -> Root:
    """The root of arrays that stand in field ``path`` of the elements at ``place``."""
    if place.root.kind == "element":
        return place.root
    return Root("element", place.root.array, ".".join(filter(None, (place.path, path))))


def _place_of(array: Value) -> _Place:
    if isinstance(array.op, (*ops.PARTS, ops.NestedArray)):
        return _derived(array.op, _place_of(array.op.array))
    return _Place(_made(array))


def _made(array: Value) -> Root:
    """The root that begins with ``array``, no part of another one."""
    match array.op:
        case ops.LocalArray(shared=shared):
            return Root("shared" if shared else "local", array)
        case ops.Table():
            return Root("object", array)
        case ops.AtAddress(constant=constant):
            return Root("object" if constant else "address", array)
    return Root("parameter", array)


def _derived(o: ops.View | ops.Slice | ops.Components | ops.NestedArray, place: _Place) -> _Place:
    """The place of the result of ``o``, whose array has ``place``."""
    if isinstance(o, ops.NestedArray):
        return _Place(_held(place, ""))
    if isinstance(o, ops.View) and o.field is not None:
        name = _field_name(o.array, o.field)
        return place.replace(path=f"{place.path}.{name}" if place.path else name)
    return place


class _Places:
    """The places of the arrays of a function, through views, branches, loops and calls."""

    def __init__(self, f: Function) -> None:
        arrays = (p for p in f.params if isinstance(p.type, Array))
        self._of: dict[Value, frozenset[_Place]] = {p: frozenset([_Place(_made(p))]) for p in arrays}
        self._grown = True
        while self._grown:  # again only where a loop carries arrays
            self._grown = False
            self._block(f.body)

    def of(self, array: Value) -> frozenset[_Place]:
        """The places that ``array`` may have."""
        return self._of.get(array, frozenset())

    def _set(self, v: Value, places: Iterable[_Place]) -> None:
        before = self.of(v)
        after = before.union(places)
        if after != before:
            self._of[v] = after
            self._grown |= v.op is None or bool(v.op.regions())  # what is used before it is known as a whole

    def _join(self, to: Value, *sources: Value) -> None:
        if isinstance(to.type, Array):
            for s in sources:
                self._set(to, self.of(s))

    def _block(self, b: Block) -> None:
        for o in b.ops:
            if isinstance(o, _GIVING):
                for r in o.regions():
                    self._block(r)
                self._op(o)

    def _op(self, o: Op) -> None:
        match o:
            case ops.View() | ops.Slice() | ops.Components() | ops.NestedArray():
                self._set(o.result, (_derived(o, place) for place in self.of(o.array)))
            case ops.LocalArray() | ops.Table() | ops.AtAddress():
                self._set(o.result, [_Place(_made(o.result))])
            case ops.Call():
                for result in o.results:
                    self._join(result, *(a for a in o.args if isinstance(a.type, Array)))
            case ops.If():
                for result, yes, no in zip(o.results, o.then.yielded, o.orelse.yielded, strict=True):
                    self._join(result, yes, no)
            case ops.For():
                counted = zip(o.results, o.body.params[1:], o.init, o.body.yielded, strict=True)
                for result, p, first, last in counted:
                    self._join(p, first, last)
                    self._join(result, p)
            case ops.While():
                carried = zip(o.results, o.cond.params, o.body.params, o.init, o.body.yielded, strict=True)
                for result, p, q, first, last in carried:
                    self._join(p, first, last)
                    self._join(q, p)
                    self._join(result, p)


def counted_range(o: ops.For) -> range:
    """Return the values of the loop variable where its bounds are constants; else none."""
    lo, hi, step = (ops.constant_value(v) for v in (o.lo, o.hi, o.step))
    return range(lo, hi, step) if None not in (lo, hi, step) and step else range(0)


def _always_executed(b: Block) -> Iterator[Op]:
    """The ops that every thread comes by, whatever it computes.

    They stand in the function's own block, in loops that surely run, or in the condition of a ``while``, which is asked
    at least once, and before anything that may end a thread. A thread that loops for ever does not get to what follows,
    but then the launch has no result.
    """
    for o in b.ops:
        yield o
        if not isinstance(o, _MAY_END):
            continue
        match o:
            case ops.For() if counted_range(o):
                yield from _always_executed(o.body)
            case ops.While():
                yield from _always_executed(o.cond)
        if _may_end(o):
            return


def _may_end(o: Op) -> bool:
    """Whether a thread may end at ``o``, or in its blocks."""
    if isinstance(o, ops.Call):
        return any(map(_may_end, o.callee.body.ops))
    inside = (x for r in o.regions() for x in r.ops if isinstance(x, _MAY_END))
    return isinstance(o, ops.Check) or any(map(_may_end, inside))


def _moved(start: Linear | None, step: Linear | None, index: Linear | None) -> Linear | None:
    """``start + step * index``, evaluated in 64 bits."""
    start, index = widened(start, int64), widened(index, int64)
    if start is None or index is None or step is None or not is_constant(step):
        return None
    return total(start, scaled(index, step.offset))


def _field_name(array: Value, field: int) -> str:
    assert isinstance(array.type, Array)
    assert isinstance(array.type.dtype, Struct)
    return array.type.dtype.fields[field][0]
