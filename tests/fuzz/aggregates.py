"""Vectors, matrices, quaternions and structs of the oracle: lists of numbers with the operators of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.fuzz import scalars
from tests.fuzz.scalars import InvalidProgram, ScalarType, binary, default


class AggregateType:
    """A type of vectors, matrices (``shape`` of two) or quaternions; called, it makes one."""

    def __init__(self, kind: str, shape: tuple[int, ...], dtype: ScalarType) -> None:
        self.kind, self.shape, self.dtype = kind, shape, dtype
        self.size = shape[0] * (shape[1] if len(shape) > 1 else 1)

    def __eq__(self, o: object) -> bool:
        return isinstance(o, AggregateType) and (self.kind, self.shape, self.dtype) == (o.kind, o.shape, o.dtype)

    def __hash__(self) -> int:
        return hash((self.kind, self.shape, self.dtype.name))

    def __call__(self, *parts: Any) -> Aggregate:
        if not parts:
            parts = (0,) * self.size
        if len(parts) == 1 and self.kind != "quat":
            parts = parts * self.size
        if len(parts) != self.size:
            raise InvalidProgram("too few components")
        return Aggregate(self, [component(p, self.dtype) for p in parts])


def component(x: Any, t: ScalarType) -> Any:
    """A number that is stored in something of type ``t``: of that type, or a literal."""
    if scalars.is_literal(x):
        return scalars.cast(x, t)
    if scalars.type_of(x) is not t:
        raise InvalidProgram(f"{x!r} where a {t} is stored")
    return x


class Aggregate:
    """A vector, a matrix (row by row) or a quaternion."""

    __slots__ = ("parts", "type")

    def __init__(self, t: AggregateType, parts: list[Any]) -> None:
        self.type, self.parts = t, parts

    def copy(self) -> Aggregate:
        return Aggregate(self.type, list(self.parts))

    def __len__(self) -> int:
        return self.type.shape[0]

    @property
    def dtype(self) -> ScalarType:
        return self.type.dtype

    def rows(self) -> list[list[Any]]:
        n = self.type.shape[-1]
        return [self.parts[i : i + n] for i in range(0, len(self.parts), n)]

    def row_type(self) -> AggregateType:
        return AggregateType("vec", self.type.shape[1:], self.type.dtype)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            parts = self.parts[at]
            return Aggregate(AggregateType("vec", (len(parts),), self.type.dtype), parts)
        if isinstance(at, tuple):
            return self.parts[self.place(at)]
        if len(self.type.shape) == 2:
            return Aggregate(self.row_type(), self.rows()[in_range(at, self.type.shape[0])])
        return self.parts[in_range(at, len(self.parts))]

    def place(self, at: tuple[Any, ...]) -> int:
        i, j = (in_range(k, n) for k, n in zip(at, self.type.shape, strict=True))
        return i * self.type.shape[1] + j

    def __setitem__(self, at: Any, x: Any) -> None:
        if isinstance(at, slice):
            self.parts[at] = x.parts if isinstance(x, Aggregate) else [x] * len(self.parts[at])
        elif isinstance(at, tuple):
            self.parts[self.place(at)] = component(x, self.type.dtype)
        elif len(self.type.shape) == 2:
            start = in_range(at, self.type.shape[0]) * self.type.shape[1]
            self.parts[start : start + self.type.shape[1]] = x.parts
        else:
            self.parts[in_range(at, len(self.parts))] = component(x, self.type.dtype)


def _named(i: int) -> property:
    return property(lambda self: self[i], lambda self, x: self.__setitem__(i, x))


for _k, _name in enumerate("xyzw"):
    setattr(Aggregate, _name, _named(_k))


def in_range(i: Any, n: int) -> int:
    """An index as it counts from the front; negative ones count from the end."""
    i = int(i)
    if not -n <= i < n:
        raise InvalidProgram(f"index {i} of {n}")
    return i % n


def arithmetic(op: str, a: Any, b: Any) -> Any:
    """``a op b`` where a vector, matrix or quaternion takes part."""
    if not isinstance(a, Aggregate) or not isinstance(b, Aggregate):
        return _with_number(op, a, b)
    if op != "Mult" or a.type.kind == b.type.kind == "vec":
        if a.type != b.type or op == "Mult":
            raise InvalidProgram(f"{op} of {a.type.kind} and {b.type.kind}")
        return each(lambda x, y: binary(op, x, y), a, b)
    if a.type.kind == "quat":
        return _hamilton(a, b)
    if b.type.kind == "vec":
        parts = [dot(row, b.parts) for row in a.rows()]
        return Aggregate(AggregateType("vec", (len(parts),), a.type.dtype), parts)
    columns = list(zip(*b.rows(), strict=True))
    if a.type.kind == "vec":
        parts = [dot(a.parts, column) for column in columns]
        return Aggregate(AggregateType("vec", (len(parts),), a.type.dtype), parts)
    parts = [dot(row, column) for row in a.rows() for column in columns]
    return Aggregate(AggregateType("mat", (a.type.shape[0], b.type.shape[1]), a.type.dtype), parts)


def _with_number(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, Aggregate) and op in ("Mult", "Div"):
        return each(lambda x: binary(op, x, b), a)
    if isinstance(b, Aggregate) and op in ("Mult", "Div"):
        return each(lambda x: binary(op, a, x), b)
    raise InvalidProgram(f"{op} of a number and a vector")


def each(fn: Callable[..., Any], a: Aggregate, *more: Aggregate) -> Aggregate:
    """``fn`` of the components."""
    return Aggregate(a.type, [fn(*xs) for xs in zip(a.parts, *(m.parts for m in more), strict=True)])


def dot(xs: Any, ys: Any) -> Any:
    """The sum of the products, from the first on."""
    total = None
    for x, y in zip(xs, ys, strict=True):
        product = binary("Mult", x, y)
        total = product if total is None else binary("Add", total, product)
    return total


def _hamilton(a: Aggregate, b: Aggregate) -> Aggregate:
    """The product of quaternions ``(x, y, z, w)``."""
    ax, ay, az, aw = a.parts
    bx, by, bz, bw = b.parts

    def total(*terms: tuple[int, Any, Any]) -> Any:
        s = binary("Mult", terms[0][1], terms[0][2])
        for sign, x, y in terms[1:]:
            s = binary("Add" if sign > 0 else "Sub", s, binary("Mult", x, y))
        return s

    parts = [
        total((1, aw, bx), (1, ax, bw), (1, ay, bz), (-1, az, by)),
        total((1, aw, by), (1, ay, bw), (1, az, bx), (-1, ax, bz)),
        total((1, aw, bz), (1, az, bw), (1, ax, by), (-1, ay, bx)),
        total((1, aw, bw), (-1, ax, bx), (-1, ay, by), (-1, az, bz)),
    ]
    return Aggregate(a.type, parts)


class Held:
    """A value that says itself what a variable gets which is assigned it."""

    def copy(self) -> Any:
        raise NotImplementedError


class Struct:
    """A value of a struct type; ``fields`` of its class gives the types in order."""

    fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, *values: Any) -> None:
        for k, (name, t) in enumerate(self.fields.items()):
            setattr(self, name, converted(values[k], t) if k < len(values) else t())

    def copy(self) -> Struct:
        return type(self)(*(copied(getattr(self, name)) for name in self.fields))


def converted(x: Any, t: Any) -> Any:
    """A value that a place of type ``t`` takes: of that type, or a literal."""
    if isinstance(t, ScalarType):
        return component(x, t)
    if isinstance(t, AggregateType) and (not isinstance(x, Aggregate) or x.type != t):
        raise InvalidProgram("another type is stored")
    return x


def copied(x: Any) -> Any:
    """What an assignment of ``x`` gives: values are copied, arrays are not; a literal gets its default type."""
    if isinstance(x, (Aggregate, Struct, Held)):
        return x.copy()
    return tuple(map(copied, x)) if isinstance(x, tuple) else default(x)
