"""How integers depend on the thread: the classes of the indices by which a function reaches memory.

A value is followed as ``constant + uniform parts + sum of coefficient * thread index``, where a uniform part is the
same in all threads. Arithmetic wraps at the width of its type, so all of this holds modulo two to the number of bits.
Two threads still get different values from the same constants: indices of threads differ by less than that modulus.
A conversion to a wider type is followed for the bare thread index alone, which does not wrap.

``passes/spmd/strides.py`` asks another question, of neighbours alone: lanes that are at work together agree on what
they load from one place and on what they carry through a loop, of which all threads of a grid know nothing.

Example, with ``i = wp.tid()``, a scalar argument ``n`` and a loop counter ``k``::

    a[i - 1]            ThreadIndex(axis=0, ndim=1, offset=-1)
    a[2 * i + n]        Affine(terms=((0, 1, 2),), offset=None, loops=False)
    a[i + k]            Affine(terms=((0, 1, 1),), offset=None, loops=True)
    a[n]                Uniform(value=None, loops=False)
    a[b[i]]             Unknown()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.base.frozen import Frozen
from warp_like.builtins.spec import COOPERATIVE
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Scalar, int64


class ThreadIndex(Frozen):
    """The thread's index along ``axis`` of a grid of ``ndim`` dimensions, plus a constant."""

    axis: int
    ndim: int
    offset: int = 0


class Affine(Frozen):
    """Multiples of thread indices plus what is the same in all threads.

    Attributes:
        terms: Axis, number of dimensions of the grid, and coefficient, of each thread index.
        offset: What is added where that is a constant; else None.
        loops: Threads agree on what is added only where they are at the same iteration of a loop.
    """

    terms: tuple[tuple[int, int, int], ...]
    offset: int | None = None
    loops: bool = False


class Uniform(Frozen):
    """The same in all threads of the grid.

    Attributes:
        value: The value where it is a constant that is not negative; else None.
        loops: Threads agree on it only where they are at the same iteration of a loop.
    """

    value: int | None = None
    loops: bool = False


class Unknown(Frozen):
    """A value of which nothing is known."""


_FUNCTIONS = (
    *(ops.AtAddress, ops.Bitcast, ops.Constant, ops.Extract, ops.GetField, ops.NestedArray, ops.Insert, ops.LocalArray),
    *(ops.Make, ops.Slice),
)
"""Ops whose results, of arrays the extents, are the same wherever their operands are."""

Index = ThreadIndex | Affine | Uniform | Unknown
UNKNOWN = Unknown()


class Part(Frozen):
    """A value that is the same in all threads, times a constant.

    Attributes:
        value: The value.
        factor: The constant, not 0.
        loops: Threads agree on the value only where they are at the same iteration of a loop.
    """

    value: Value
    factor: int
    loops: bool


class Linear(Frozen):
    """The form that all classes but ``Unknown`` share.

    Attributes:
        terms: The coefficient, not 0, of each thread index, by axis and number of dimensions; sorted.
        offset: The constant.
        parts: What else is added, each value once.
        type: The type in which the sum wraps.
    """

    terms: tuple[tuple[tuple[int, int], int], ...] = ()
    offset: int = 0
    parts: frozenset[Part] = frozenset()
    type: Scalar = int64

    @property
    def loops(self) -> bool:
        """Whether the uniform parts differ between iterations."""
        return any(p.loops for p in self.parts)


class Indices:
    """The classes of the values of a function, each found once when this is made.

    Args:
        f: A function of one thread, not of lanes.
    """

    def __init__(self, f: Function) -> None:
        # None stands for values of which nothing is known. For an array the class is that of its extents.
        self._known: dict[Value, Linear | None] = {p: _part(p) for p in f.params}
        self._block(f.body)

    def of(self, v: Value) -> Index:
        """Return the class of an integer."""
        return index_class(self.linear(v))

    def linear(self, v: Value) -> Linear | None:
        """Return what is known of ``v``; None for nothing."""
        return self._known.get(v)

    def is_uniform(self, values: Iterable[Value]) -> bool:
        """Return whether ``values`` are the same in all threads that are at the same iteration of every loop."""
        return _are_uniform([self.linear(v) for v in values])

    # --- one visit of the function ---

    def _block(self, b: Block) -> None:
        for o in b.ops:
            match o:
                case ops.If():
                    self._if(o)
                case ops.For():
                    i = o.body.params[0]
                    self._known[i] = _part(i, loops=True) if self.is_uniform((o.lo, o.hi, o.step)) else None
                    self._block(o.body)
                case ops.While():
                    self._block(o.cond)
                    self._block(o.body)
                case _:
                    for r in o.results:
                        self._known[r] = self._result(o, r)

    def _if(self, o: ops.If) -> None:
        """Visit a branch: where all threads take the same side, its results are as uniform as the sides'."""
        self._block(o.then)
        self._block(o.orelse)
        for r, yes, no in zip(o.results, o.then.yielded, o.orelse.yielded, strict=True):
            self._known[r] = self.linear(yes) if yes is no else self._made_of((o.cond, yes, no), r)

    def _result(self, o: Op, result: Value) -> Linear | None:
        """The linear form of a result of an op without blocks, if it has one."""
        match o:
            case ops.Tid():
                return Linear((((o.axis, o.ndim), 1),), type=_int_type(result))
            case ops.Constant(value=int(number)) if not isinstance(number, bool):
                return Linear((), number, type=_int_type(result))
            case ops.Cast():
                return _converted(self.linear(o.x), result)
            case ops.Apply():
                return self._apply(o, result)
            case ops.Dim():
                return self._made_of((o.array,), result)
            case ops.View():
                return self.linear(o.array)  # its extents do not depend on the indices
        return self._made_of(o.operands(), result) if isinstance(o, _FUNCTIONS) else None

    def _made_of(self, values: Iterable[Value], result: Value) -> Linear | None:
        """What is known of ``result``, which is made of ``values`` alone."""
        return _uniform([self.linear(v) for v in values], result)

    def _apply(self, o: ops.Apply, result: Value) -> Linear | None:
        if o.fn in COOPERATIVE:  # differs between blocks at least
            return None
        given = [self.linear(a) for a in o.args]
        if None in given:
            return None
        if isinstance(result.type, Scalar) and result.type.is_int:
            known = [x for x in given if x is not None]
            match o.fn, known:
                case "add", [x, y]:
                    return total(x, y)
                case "sub", [x, y]:
                    return total(x, scaled(y, -1))
                case "neg", [x]:
                    return scaled(x, -1)
                case "mul", [x, y] if is_constant(y):
                    return scaled(x, y.offset)
                case "mul", [x, y] if is_constant(x):
                    return scaled(y, x.offset)
        return _uniform(given, result)


def index_class(x: Linear | None) -> Index:
    """Return the class of a value of which ``x`` is known."""
    if x is None:
        return UNKNOWN
    offset = None if x.parts else x.offset
    if not x.terms:
        return Uniform(offset if offset is not None and offset >= 0 else None, x.loops)
    ((axis, ndim), coefficient), *others = x.terms
    if not others and coefficient == 1 and offset is not None:
        return ThreadIndex(axis, ndim, offset)
    return Affine(tuple((a, n, c) for (a, n), c in x.terms), offset, x.loops)


def is_constant(x: Linear) -> bool:
    """Return whether a value of which ``x`` is known is the constant ``x.offset``."""
    return not x.terms and not x.parts


def total(x: Linear, y: Linear) -> Linear:
    """Return what is known of a sum."""
    return _sum(x, y, 1)


def scaled(x: Linear, factor: int) -> Linear:
    """Return what is known of a multiple."""
    return _sum(Linear(type=x.type), x, factor)


def widened(x: Linear | None, to: Scalar) -> Linear | None:
    """Return what is known of ``x`` in the type ``to``, which has no fewer bits than it."""
    if x is None or x.type.bits == to.bits:
        return None if x is None else x.replace(type=to)
    if not x.terms:
        is_kept = is_constant(x) and x.offset >= 0  # else it depends on whether it has a sign
        return x.replace(type=to) if is_kept else _part(Value(to), x.loops)
    is_bare = len(x.terms) == 1 and x.terms[0][1] == 1 and x.offset == 0 and not x.parts
    return x.replace(type=to) if is_bare else None  # else it may have wrapped before


def _converted(x: Linear | None, result: Value) -> Linear | None:
    if x is None:
        return None
    to = result.type
    if not isinstance(to, Scalar) or not to.is_int or (not x.terms and x.parts):
        return _uniform([x], result)
    if to.bits < x.type.bits:
        return _uniform([x], result)
    return widened(x, to)


def _sum(x: Linear, y: Linear, factor: int) -> Linear:
    """The linear form of ``x + factor * y``, in the shorter one of their types."""
    t = min(x.type, y.type, key=lambda t: t.bits)
    terms = dict(x.terms)
    for tid, c in y.terms:
        terms[tid] = terms.get(tid, 0) + factor * c
    parts = {(p.value, p.loops): p.factor for p in x.parts}
    for p in y.parts:
        parts[p.value, p.loops] = parts.get((p.value, p.loops), 0) + factor * p.factor
    kept = ((tid, _wrapped(c, t.bits)) for tid, c in terms.items())
    added = (Part(v, _wrapped(c, t.bits), loops) for (v, loops), c in parts.items())
    return Linear(
        tuple(sorted((tid, c) for tid, c in kept if c)),
        _wrapped(x.offset + factor * y.offset, t.bits),
        frozenset(p for p in added if p.factor),
        t,
    )


def _are_uniform(values: Sequence[Linear | None]) -> bool:
    return not any(x is None or x.terms for x in values)


def _uniform(values: Sequence[Linear | None], result: Value) -> Linear | None:
    """What is known of ``result``, which is made of ``values`` alone."""
    return _part(result, any(x is not None and x.loops for x in values)) if _are_uniform(values) else None


def _part(v: Value, loops: bool = False) -> Linear:
    """What is known of a uniform value by itself."""
    return Linear(parts=frozenset((Part(v, 1, loops),)), type=_int_type(v))


def _wrapped(number: int, bits: int) -> int:
    """``number`` as a signed integer of ``bits`` bits, the multiple of the modulus that is nearest to 0."""
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _int_type(v: Value) -> Scalar:
    """The type of an integer; the one of extents for what is none."""
    t = v.type.dtype if isinstance(v.type, Array) else v.type
    return t if isinstance(t, Scalar) and t.is_int else int64
