"""Vectors on the host."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.values.classes import class_of
from warp_like.values.composite import Composite, InvalidKey, _quiet, flatten_argument, is_sequence, wrong_count

_COMPONENTS = frozenset("xyzw")


class Vec(Composite):
    """Base of all vector classes, e.g. ``wp.vec3``.

    An instance is made from as many numbers as it has components, from one number for all of them, or from
    sequences and other vectors that have as many together; without arguments it is zero.
    """

    __slots__ = ()

    @classmethod
    def _arrange(cls, args: tuple[Any, ...]) -> list[Any]:
        n = cls._length_
        numbers = [x for a in args for x in flatten_argument(a)]
        if len(numbers) == 1 == len(args) and not is_sequence(args[0]):
            return numbers * n
        if len(numbers) != n:
            raise ValueError(f"{cls.__name__} takes {n} numbers, or one for all components, got {len(numbers)}")
        return numbers

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a component, or an attribute of the user's whose name can't be taken for components."""
        if set(name) <= _COMPONENTS and not hasattr(type(self), name):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        return self._length_

    def __iter__(self) -> Iterator[Any]:
        return (self._get(i) for i in range(self._length_))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            numbers = self._numbers()[index]
            return class_of(ir.Vec(len(numbers), self._scalar_))._from_numbers(numbers)
        return self._get(_position(index, self._length_, type(self).__name__))

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            self._set(_position(index, self._length_, type(self).__name__), value)
            return
        at = range(*index.indices(self._length_))
        numbers = flatten_argument(value)
        if len(numbers) == 1 and not is_sequence(value):
            numbers = numbers * len(at)
        if len(numbers) != len(at):
            raise wrong_count(self, len(at), value, numbers)
        new = list(self._numbers())
        for i, x in zip(at, numbers, strict=True):
            new[i] = x
        self._write(new)

    def __matmul__(self, other: Any) -> Any:
        return self.__mul__(other) if _is_matrix(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if not _is_matrix(other):
            return super().__mul__(other)
        t = other._ir_type_
        if t.dtype != self._scalar_ or t.rows != self._length_:
            raise TypeError(f"{type(self).__name__} times {type(other).__name__}: rows or dtypes differ")
        return class_of(ir.Vec(t.cols, self._scalar_))._from_ndarray(_quiet(np.matmul, self, other))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self._numbers()))}]"


def component(i: int, name: str) -> property:
    """Return the property that reads and writes component ``i``."""

    def get(self: Vec) -> Any:
        return self._get(i)

    def put(self: Vec, value: Any) -> None:
        self._set(i, value)

    return property(get, put, doc=f"Component {name}.")


def _is_matrix(value: Any) -> bool:
    return isinstance(value, Composite) and isinstance(value._ir_type_, ir.Mat)


def _position(index: Any, n: int, what: str) -> int:
    try:
        i = operator.index(index)
    except TypeError:
        raise InvalidKey(f"an index into a {what} is an integer or a slice, got {type(index).__name__}") from None
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for a {what} of {n} components")
    return i % n
