"""Builtins of the language for the oracle's numbers, vectors and matrices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz import aggregates, scalars
from tests.fuzz.aggregates import Aggregate, AggregateType, each
from tests.fuzz.scalars import INT32, TYPES, InvalidProgram, ScalarType, alike, binary, default, rounded

SUFFIXES = {
    "": "float32",
    "h": "float16",
    "f": "float32",
    "d": "float64",
    "b": "int8",
    "ub": "uint8",
    "s": "int16",
    "us": "uint16",
    "i": "int32",
    "ui": "uint32",
    "l": "int64",
    "ul": "uint64",
}


@functools.cache
def aggregate_named(name: str) -> AggregateType | None:
    """The type ``vec3us``, ``mat22d`` or ``quat``."""
    for start, digits in (("vec", 1), ("mat", 2), ("quat", 0)):
        if name.startswith(start):
            rest = name[len(start) :]
            sizes, suffix = rest[:digits], rest[digits:]
            if suffix in SUFFIXES and (sizes.isdigit() or not digits):
                shape = tuple(map(int, sizes)) if digits else (4,)
                return AggregateType(start, shape, TYPES[SUFFIXES[suffix]])
    return None


def _number(fn: Callable[..., Any]) -> Any:
    """A builtin of numbers of one type, literals among them, which works on vectors by components, too."""

    def call(self: Any, *xs: Any) -> Any:
        if isinstance(xs[0], Aggregate) and fn in (_lesser, _greater) and len(xs) == 1:
            return functools.reduce(fn, xs[0].parts)
        if isinstance(xs[0], Aggregate):
            return each(lambda *ps: fn(*ps), *xs)
        known = next((t for t in map(scalars.type_of, xs) if t is not None), None)
        given = [alike(x, known(0))[0] if known is not None else default(x) for x in xs]
        return fn(*given)

    return call


def _float(fn: Callable[[Any], Any]) -> Any:
    """A function of one float, rounded to its type."""

    def call(x: Any) -> Any:
        t = scalars.type_of(x)
        if t is None or not t.is_float:
            raise InvalidProgram("a float is needed")
        return rounded(fn(np.float32(x) if t.bits == 16 else x), t)

    return _number(call)


def _lesser(a: Any, b: Any) -> Any:
    return b if b < a or a != a else a


def _greater(a: Any, b: Any) -> Any:
    return b if b > a or a != a else a


def _sign(x: Any) -> Any:
    t = scalars.type_of(x)
    assert t is not None
    return scalars.cast(-1 if x < 0 else 1, t)


def _abs(x: Any) -> Any:
    return scalars.unary("USub", x) if x < 0 else rounded(np.abs(x), t) if (t := scalars.type_of(x)).is_float else x  # type: ignore[union-attr]


def _round(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.copysign(np.float32(1), x) if abs(x - whole) >= 0.5 else whole


class Builtins:
    """The builtins; ``self`` is not used."""

    min, max = _number(_lesser), _number(_greater)
    clamp = _number(lambda x, low, high: _lesser(_greater(x, low), high))
    abs, sign = _number(_abs), _number(_sign)
    floor, ceil, trunc, rint, round = (_float(f) for f in (np.floor, np.ceil, np.trunc, np.rint, _round))
    frac = _float(lambda x: x - np.trunc(x))
    sqrt, sin, cos, exp, tanh, log = (_float(f) for f in (np.sqrt, np.sin, np.cos, np.exp, np.tanh, np.log))
    isnan, isinf, isfinite = (_number(lambda x, f=f: np.bool_(f(x))) for f in (np.isnan, np.isinf, np.isfinite))
    inf, nan, pi = float("inf"), float("nan"), float(np.pi)

    def where(self, cond: Any, a: Any, b: Any) -> Any:
        if not isinstance(a, (Aggregate, aggregates.Struct)):
            a, b = (
                alike(a, b)[:2] if not (scalars.is_literal(a) and scalars.is_literal(b)) else (default(a), default(b))
            )
        return a if cond else b

    def select(self, cond: Any, a: Any, b: Any) -> Any:
        return self.where(cond, b, a)

    def bit_count(self, x: Any) -> Any:
        t = scalars.type_of(x)
        if t is None or not t.is_int:
            raise InvalidProgram("bit_count")
        return INT32(bin(int(x) % (1 << t.bits)).count("1"))

    def lerp(self, a: Any, b: Any, t: Any) -> Any:
        return binary("Add", a, binary("Mult", binary("Sub", b, a), t))

    def dot(self, a: Aggregate, b: Aggregate) -> Any:
        return aggregates.dot(a.parts, b.parts)

    ddot = dot

    def length_sq(self, a: Aggregate) -> Any:
        return aggregates.dot(a.parts, a.parts)

    def cross(self, a: Aggregate, b: Aggregate) -> Aggregate:
        pairs = ((1, 2), (2, 0), (0, 1))
        xs, ys = a.parts, b.parts
        parts = [binary("Sub", binary("Mult", xs[i], ys[j]), binary("Mult", xs[j], ys[i])) for i, j in pairs]
        return Aggregate(a.type, parts)

    def outer(self, a: Aggregate, b: Aggregate) -> Aggregate:
        parts = [binary("Mult", x, y) for x in a.parts for y in b.parts]
        return Aggregate(AggregateType("mat", (len(a.parts), len(b.parts)), a.type.dtype), parts)

    def cw_mul(self, a: Aggregate, b: Aggregate) -> Aggregate:
        return each(lambda x, y: binary("Mult", x, y), a, b)

    def cw_div(self, a: Aggregate, b: Aggregate) -> Aggregate:
        return each(lambda x, y: binary("Div", x, y), a, b)

    def transpose(self, a: Aggregate) -> Aggregate:
        parts = [x for column in zip(*a.rows(), strict=True) for x in column]
        return Aggregate(AggregateType("mat", a.type.shape[::-1], a.type.dtype), parts)

    def trace(self, a: Aggregate) -> Any:
        return functools.reduce(lambda x, y: binary("Add", x, y), [a[i, i] for i in range(len(a))])

    def get_diag(self, a: Aggregate) -> Aggregate:
        return Aggregate(a.row_type(), [a[i, i] for i in range(len(a))])

    def cast(self, x: Any, t: ScalarType) -> Any:
        raise InvalidProgram("wp.cast")
