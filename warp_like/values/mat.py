"""Matrices on the host, row-major."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.values.classes import class_with_shape
from warp_like.values.composite import Composite, InvalidKey, _quiet, flatten_argument, is_sequence, wrong_count


class Mat(Composite):
    """Base of all matrix classes, e.g. ``wp.mat33``.

    An instance is made from its numbers in row-major order, from its rows, from a nested sequence or an
    array of its shape, or from one number for all components; without arguments it is zero. ``*`` and ``@``
    of two matrices, or of a matrix and a vector, are the matrix product.
    """

    __slots__ = ()

    @classmethod
    def _arrange(cls, args: tuple[Any, ...]) -> list[Any]:
        rows, cols = cls._shape_
        if len(args) == 1 and is_sequence(args[0]):
            shape = np.shape(args[0]) if not isinstance(args[0], Composite) else args[0]._shape_
            if len(shape) > 1 and shape != cls._shape_:
                raise ValueError(f"{cls.__name__} is {rows} by {cols}, got data of shape {shape}")
        elif len(args) == 1:
            return [args[0]] * (rows * cols)
        elif any(is_sequence(a) for a in args) and [len(flatten_argument(a)) for a in args] != [cols] * rows:
            raise TypeError(f"{cls.__name__} takes {rows} rows of {cols} numbers")
        numbers = [x for a in args for x in flatten_argument(a)]
        if len(numbers) != rows * cols:
            raise ValueError(f"{cls.__name__} takes {rows * cols} numbers or {rows} rows, got {len(numbers)} numbers")
        return numbers

    def __len__(self) -> int:
        return int(self._shape_[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        picked = _positions(self)[_checked(self, index)]
        if picked.ndim == 0:
            return self._get(int(picked))
        if picked.size == 0:
            raise IndexError(f"{index} selects no component of a {type(self).__name__}")
        numbers = self._numbers()
        return class_with_shape(picked.shape, self._scalar_)._from_numbers(numbers[i] for i in picked.ravel())

    def __setitem__(self, index: Any, value: Any) -> None:
        picked = _positions(self)[_checked(self, index)]
        numbers = flatten_argument(value)
        if len(numbers) == 1 and not is_sequence(value):
            numbers = numbers * picked.size
        if len(numbers) != picked.size:
            raise wrong_count(self, picked.size, value, numbers)
        new = list(self._numbers())
        for i, x in zip(picked.ravel(), numbers, strict=True):
            new[i] = x
        self._write(new)

    def get_row(self, r: int) -> Any:
        """Return row ``r`` as a vector; ``m[r]``."""
        return self[operator.index(r)]

    def get_col(self, c: int) -> Any:
        """Return column ``c`` as a vector; ``m[:, c]``."""
        return self[:, operator.index(c)]

    def set_row(self, r: int, v: Any) -> None:
        """Set row ``r`` to a vector, a sequence, or one number for all components."""
        self[operator.index(r)] = v

    def set_col(self, c: int, v: Any) -> None:
        """Set column ``c`` to a vector, a sequence, or one number for all components."""
        self[:, operator.index(c)] = v

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Composite):
            return super().__mul__(other)
        return self.__matmul__(other)

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Composite) or isinstance(other._ir_type_, (ir.Quat, ir.Transform)):
            return NotImplemented
        t = other._ir_type_
        rows = t.length if isinstance(t, ir.Vec) else t.rows
        if t.dtype != self._scalar_ or rows != self._shape_[1]:
            raise TypeError(f"{type(self).__name__} times {type(other).__name__}: dimensions or dtypes differ")
        shape = self._shape_[:1] if isinstance(t, ir.Vec) else (self._shape_[0], t.cols)
        return class_with_shape(shape, self._scalar_)._from_ndarray(_quiet(np.matmul, self, other))

    def __str__(self) -> str:
        rows, cols = self._shape_
        numbers = list(map(str, self._numbers()))
        return "[" + ",\n ".join(f"[{', '.join(numbers[r * cols : (r + 1) * cols])}]" for r in range(rows)) + "]"

    def __repr__(self) -> str:
        rows, cols = self._shape_
        numbers = list(map(str, self._numbers()))
        inner = ", ".join(f"[{', '.join(numbers[r * cols : (r + 1) * cols])}]" for r in range(rows))
        return f"{type(self).__name__}([{inner}])"


def _positions(m: Mat) -> np.ndarray[Any, Any]:
    return np.arange(m._length_).reshape(m._shape_)


def _checked(m: Mat, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > 2 or not all(isinstance(p, slice) or hasattr(type(p), "__index__") for p in parts):
        raise InvalidKey(f"a {type(m).__name__} is indexed by one or two integers or slices, got {index!r}")
    return index
