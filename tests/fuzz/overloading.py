"""The oracle's choice between functions of one name, and the annotations that several types fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz import scalars
from tests.fuzz.aggregates import Aggregate, AggregateType
from tests.fuzz.scalars import InvalidProgram, ScalarType, default


class Family:
    """An annotation that several types fit: wp.Scalar, wp.Int, wp.Float, or vectors."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fits(self, x: Any) -> bool:
        t = scalars.type_of(default(x))
        if self.name == "vector":
            return isinstance(x, Aggregate) and x.type.kind == "vec"
        return t is not None and (self.name == "Scalar" or (t.is_float if self.name == "Float" else t.is_int))


class Types:
    """``wp.types``."""

    def vector(self, length: Any, dtype: Any) -> Family | AggregateType:
        return AggregateType("vec", (length,), dtype) if isinstance(length, int) else Family("vector")

    def matrix(self, shape: tuple[int, int], dtype: Any) -> AggregateType:
        return AggregateType("mat", shape, dtype)


def chosen(overloads: list[tuple[Any, list[Any]]], args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The overload that fits the arguments, and the types of its parameters."""
    if len(overloads) == 1:
        return overloads[0]

    def rank(x: Any, t: Any) -> int:
        """How special a fitting type is; 0 where it does not fit."""
        if isinstance(t, Family):
            return 2 * t.fits(x)
        if isinstance(t, (ScalarType, AggregateType)):
            return 3 * (t == (x.type if isinstance(x, Aggregate) else scalars.type_of(default(x))))
        return 1

    ranked = [(min(map(rank, args, types)), k) for k, (_, types) in enumerate(overloads)]
    best, k = max(ranked)
    if not best:
        raise InvalidProgram("no overload fits")
    return overloads[k]
