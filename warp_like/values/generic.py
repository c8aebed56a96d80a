"""Generic types in annotations: several scalars, and vectors, matrices and quaternions of any size or dtype."""

from __future__ import annotations

import typing
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.ir import types as ir
from warp_like.values import dtypes

_SCALARS = {dtypes.Scalar: ir.INTS + ir.FLOATS, dtypes.Int: ir.INTS, dtypes.Float: ir.FLOATS}


def is_generic_scalar(annotation: Any) -> bool:
    """Return whether ``annotation`` is one of ``Any``, ``wp.Scalar``, ``wp.Int`` and ``wp.Float``."""
    return annotation is Any or (isinstance(annotation, typing.TypeVar) and annotation in _SCALARS)


def accepts_scalar(annotation: Any, t: ir.Type) -> bool:
    """Return whether a generic scalar annotation takes a value of type ``t``; ``Any`` takes everything."""
    return annotation is Any or t in _SCALARS.get(annotation, ())


def name_of(annotation: Any) -> str:
    """Return how a part of an annotation is written; None stands for any number."""
    return "Any" if annotation is None or annotation is Any else getattr(annotation, "__name__", str(annotation))


class GenericVector(Frozen):
    """Stands for vectors of any length (``length`` None), any dtype (``typing.Any``, ``wp.Float``, ...), or both."""

    length: int | None
    dtype: Any

    def __repr__(self) -> str:
        return f"vector(length={name_of(self.length)}, dtype={name_of(self.dtype)})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there are no values of a generic type."""
        raise TypeError(f"{self!r} is generic and makes no vectors; give it a length and a dtype")


class GenericMatrix(Frozen):
    """Stands for matrices of any shape, where a dimension is None, any dtype, or both."""

    shape: tuple[int | None, int | None]
    dtype: Any

    def __repr__(self) -> str:
        rows, cols = map(name_of, self.shape)
        return f"matrix(shape=({rows}, {cols}), dtype={name_of(self.dtype)})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there are no values of a generic type."""
        raise TypeError(f"{self!r} is generic and makes no matrices; give it a shape and a dtype")


class GenericQuaternion(Frozen):
    """Stands for quaternions of any dtype."""

    dtype: Any

    def __repr__(self) -> str:
        return f"quaternion(dtype={name_of(self.dtype)})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there are no values of a generic type."""
        raise TypeError(f"{self!r} is generic and makes no quaternions; give it a dtype")


class GenericTransformation(Frozen):
    """Stands for rigid transformations of any dtype."""

    dtype: Any

    def __repr__(self) -> str:
        return f"transformation(dtype={name_of(self.dtype)})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there are no values of a generic type."""
        raise TypeError(f"{self!r} is generic and makes no transformations; give it a dtype")


GENERIC_VALUES = (GenericVector, GenericMatrix, GenericQuaternion, GenericTransformation)
"""The classes of generic values that are no scalars."""


def matches(annotation: Any, t: ir.Type) -> bool:
    """Return whether a value of type ``t`` is one of those that a generic vector, matrix or quaternion stands for."""
    match annotation, t:
        case GenericVector(length, dtype), ir.Vec():
            return length in (None, t.length) and _has_dtype(dtype, t.dtype)
        case GenericMatrix((rows, cols), dtype), ir.Mat():
            return rows in (None, t.rows) and cols in (None, t.cols) and _has_dtype(dtype, t.dtype)
        case GenericQuaternion(dtype), ir.Quat():
            return _has_dtype(dtype, t.dtype)
        case GenericTransformation(dtype), ir.Transform():
            return _has_dtype(dtype, t.dtype)
    return False


def _has_dtype(dtype: Any, t: ir.Scalar) -> bool:
    return accepts_scalar(dtype, t) if is_generic_scalar(dtype) else dtype == t
