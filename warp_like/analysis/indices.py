"""How integers depend on the thread: the classes of the indices by which a function reaches memory.

A value is followed as ``constant + uniform part + sum of coefficient * thread index``, where the uniform part is the
same in all threads. Arithmetic wraps at the width of its type, so all of this holds modulo two to the number of bits.
Two threads still get different values from the same constants: indices of threads differ by less than that modulus.
A conversion to a wider type is followed for the bare thread index alone, which does not wrap.

Example, with ``i = wp.tid()``, a scalar argument ``n`` and a loop counter ``k``::

    a[i - 1]            Own(axis=0, ndim=1, offset=-1)
    a[2 * i + n]        Affine(terms=((0, 1, 2),), offset=None, loops=False)
    a[i + k]            Affine(terms=((0, 1, 1),), offset=None, loops=True)
    a[n]                Uniform(value=None, loops=False)
    a[b[i]]             Unknown()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.base.frozen import Frozen
from warp_like.builtins.blocks import COOPERATIVE
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Scalar


class Own(Frozen):
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
    *(ops.AtAddress, ops.Bitcast, ops.Constant, ops.Extract, ops.GetField, ops.Inner, ops.Insert, ops.LocalArray),
    *(ops.Make, ops.Slice),
)
"""Ops whose results, of arrays the extents, are the same wherever their operands are."""

Index = Own | Affine | Uniform | Unknown
UNKNOWN = Unknown()


class Linear(Frozen):
    """What all classes but ``Unknown`` have in common.

    Attributes:
        terms: The coefficient, not 0, of each thread index, by axis and number of dimensions; sorted.
        offset: The constant; None where something uniform is added that is no constant.
        loops: The uniform part differs between iterations.
        bits: The width at which the value wraps.
    """

    terms: tuple[tuple[tuple[int, int], int], ...] = ()
    offset: int | None = None
    loops: bool = False
    bits: int = 64


_UNIFORM = Linear(), Linear(loops=True)
"""What is known of values that are the same in all threads: always, or at the same iteration."""


class Indices:
    """The classes of the values of a function, each found once when this is made.

    Args:
        f: A function of one thread, not of lanes.
    """

    def __init__(self, f: Function) -> None:
        # None stands for values of which nothing is known. For an array the class is that of its extents.
        self._known: dict[Value, Linear | None] = {p: Linear() for p in f.params}
        self._block(f.body)

    def of(self, v: Value) -> Index:
        """Return the class of an integer."""
        return index_class(self.linear(v))

    def linear(self, v: Value) -> Linear | None:
        """Return what is known of ``v``; None for nothing."""
        return self._known.get(v)

    def is_uniform(self, values: Iterable[Value]) -> bool:
        """Return whether ``values`` are the same in all threads that are at the same iteration of every loop."""
        return _uniform([self.linear(v) for v in values]) is not None

    # --- one visit of the function ---

    def _block(self, b: Block) -> None:
        for o in b.ops:
            match o:
                case ops.If():
                    self._if(o)
                case ops.For():
                    bounds = _uniform([self.linear(v) for v in (o.lo, o.hi, o.step)])
                    self._known[o.body.params[0]] = None if bounds is None else Linear(loops=True)
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
            self._known[r] = self.linear(yes) if yes is no else _uniform([self.linear(v) for v in (o.cond, yes, no)])

    def _result(self, o: Op, result: Value) -> Linear | None:
        """What is known of a result of an op without blocks."""
        match o:
            case ops.Tid():
                return Linear((((o.axis, o.ndim), 1),), 0, bits=_bits(result))
            case ops.Constant(value=int(number)) if not isinstance(number, bool):
                return Linear((), number, bits=_bits(result))
            case ops.Cast():
                return _converted(self.linear(o.x), result)
            case ops.Apply():
                return self._apply(o, result)
            case ops.Dim():
                return self.linear(o.array)
            case ops.View():
                return self.linear(o.array)  # its extents do not depend on the indices
        return _uniform([self.linear(v) for v in o.operands()]) if isinstance(o, _FUNCTIONS) else None

    def _apply(self, o: ops.Apply, result: Value) -> Linear | None:
        if o.fn in COOPERATIVE:  # differs between blocks at least
            return None
        given = [self.linear(a) for a in o.args]
        if isinstance(result.type, Scalar) and result.type.is_int and None not in given:
            known = [x for x in given if x is not None]
            match o.fn, known:
                case "add", [x, y]:
                    return total(x, y)
                case "sub", [x, y]:
                    return total(x, scaled(y, -1))
                case "neg", [x]:
                    return scaled(x, -1)
                case "mul", [x, y] if not y.terms and y.offset is not None:
                    return scaled(x, y.offset)
                case "mul", [x, y] if not x.terms and x.offset is not None:
                    return scaled(y, x.offset)
        return _uniform(given)


def index_class(x: Linear | None) -> Index:
    """Return the class of a value of which ``x`` is known."""
    if x is None:
        return UNKNOWN
    if not x.terms:
        return Uniform(x.offset if x.offset is not None and x.offset >= 0 else None, x.loops)
    ((axis, ndim), coefficient), *others = x.terms
    if not others and coefficient == 1 and x.offset is not None:
        return Own(axis, ndim, x.offset)
    return Affine(tuple((a, n, c) for (a, n), c in x.terms), x.offset, x.loops)


def total(x: Linear, y: Linear) -> Linear:
    """Return what is known of a sum."""
    bits = min(x.bits, y.bits)
    coefficients = dict(x.terms)
    for tid, c in y.terms:
        coefficients[tid] = coefficients.get(tid, 0) + c
    offset = None if x.offset is None or y.offset is None else _wrapped(x.offset + y.offset, bits)
    return Linear(_terms(coefficients, bits), offset, x.loops or y.loops, bits)


def scaled(x: Linear, factor: int) -> Linear:
    """Return what is known of a multiple."""
    offset = None if x.offset is None else _wrapped(x.offset * factor, x.bits)
    return Linear(_terms({tid: c * factor for tid, c in x.terms}, x.bits), offset, x.loops, x.bits)


def widened(x: Linear | None, bits: int) -> Linear | None:
    """Return what is known of ``x`` in a type of ``bits`` bits, no fewer than it has."""
    if x is None or x.bits == bits:
        return x
    if not x.terms:
        is_kept = x.offset is not None and x.offset >= 0  # else it depends on whether it has a sign
        return x.replace(bits=bits, offset=x.offset if is_kept else None)
    is_bare = len(x.terms) == 1 and x.terms[0][1] == 1 and x.offset == 0
    return x.replace(bits=bits) if is_bare else None  # else it may have wrapped before


def _converted(x: Linear | None, result: Value) -> Linear | None:
    if x is None:
        return None
    t, bits = result.type, _bits(result)
    if not isinstance(t, Scalar) or not t.is_int or (not x.terms and x.offset is None):
        return _uniform([x])
    if bits < x.bits:
        return None if x.terms else Linear((), None, x.loops, bits)
    return widened(x, bits)


def _terms(coefficients: dict[tuple[int, int], int], bits: int) -> tuple[tuple[tuple[int, int], int], ...]:
    wrapped = ((tid, _wrapped(c, bits)) for tid, c in coefficients.items())
    return tuple(sorted((tid, c) for tid, c in wrapped if c))


def _uniform(values: Sequence[Linear | None]) -> Linear | None:
    """What is known of a value that is made of ``values`` alone."""
    loops = False
    for x in values:
        if x is None or x.terms:
            return None
        loops |= x.loops
    return _UNIFORM[loops]


def _wrapped(number: int, bits: int) -> int:
    """``number`` as a signed integer of ``bits`` bits, the multiple of the modulus that is nearest to 0."""
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _bits(v: Value) -> int:
    t = v.type.dtype if isinstance(v.type, Array) else v.type
    return t.bits if isinstance(t, Scalar) else 64
