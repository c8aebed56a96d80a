"""Host-side values, and the way between annotations, host classes and IR types."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.values import dtypes
from warp_like.values.annotation import ArrayAnnotation, IndexedArrayAnnotation
from warp_like.values.classes import class_of
from warp_like.values.composite import Composite
from warp_like.values.dtypes import numpy_dtype, scalar_from_numpy
from warp_like.values.families import NAMED, matrix, quaternion, scalar_type, transformation, vector
from warp_like.values.generic import GENERIC_VALUES, accepts_scalar, is_generic_scalar, matches, name_of
from warp_like.values.mat import Mat
from warp_like.values.quat import Quat
from warp_like.values.transform import Transform
from warp_like.values.vec import Vec

__all__ = [
    "NAMED",
    "ArrayAnnotation",
    "Composite",
    "IndexedArrayAnnotation",
    "Mat",
    "Quat",
    "Transform",
    "Vec",
    "class_of",
    "constant_of",
    "from_ir",
    "is_type",
    "matrix",
    "numpy_dtype",
    "quaternion",
    "scalar_from_numpy",
    "shown",
    "to_ir",
    "transformation",
    "vector",
]


def to_ir(annotation: Any) -> ir.Type | None:
    """Return the IR type that an annotation or dtype stands for.

    None stands for a generic one: ``typing.Any``, ``wp.Scalar``, ``wp.Int``, ``wp.Float``, vectors and matrices of
    these or of any size, or an array of these or of any number of dimensions.

    Raises:
        TypeError: ``annotation`` is not a type of the kernel language.
    """
    if isinstance(annotation, ir.Type):
        return annotation
    if is_generic_scalar(annotation) or isinstance(annotation, GENERIC_VALUES):
        return None
    annotation = getattr(annotation, "_annotation_", annotation)  # wp.array, wp.array2d without a dtype
    if isinstance(annotation, ArrayAnnotation):
        element = to_ir(annotation.dtype)
        return None if element is None or annotation.ndim is Any else annotation.of(element)
    own = getattr(annotation, "_ir_type_", None)
    if isinstance(annotation, type) and isinstance(own, ir.Type):
        return own
    scalar = scalar_type(annotation)
    if scalar is not None:
        return scalar
    plain = isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias)  # tuple[int] is one in 3.10
    shown = annotation.__name__ if plain else repr(annotation)
    raise TypeError(
        f"{shown} is not a type of the kernel language; those are int, float, bool, wp.float64, wp.vec3, ..."
    )


def accepts(annotation: Any, t: ir.Type) -> bool:
    """Return whether a value of type ``t`` fits ``annotation``, generic ones included."""
    if is_generic_scalar(annotation):
        return accepts_scalar(annotation, t)
    if isinstance(annotation, GENERIC_VALUES):
        return matches(annotation, t)
    annotation = getattr(annotation, "_annotation_", annotation)
    if isinstance(annotation, ArrayAnnotation):
        element = annotation.element_of(t)
        return element is not None and accepts(annotation.dtype, element)
    return to_ir(annotation) == t


def shown(annotation: Any) -> str:
    """Return how messages name an annotation: a concrete one by its type, a generic one as it is written."""
    t = to_ir(annotation)
    if t is not None:
        return str(t)
    annotation = getattr(annotation, "_annotation_", annotation)
    return name_of(annotation) if is_generic_scalar(annotation) else repr(annotation)


def from_ir(t: ir.Type) -> Any:
    """Return the host class of ``t``; an ``ArrayAnnotation`` for an array type."""
    if isinstance(t, ir.Array):
        return ArrayAnnotation(from_ir(t.dtype), t.ndim)
    return IndexedArrayAnnotation(from_ir(t.dtype), t.ndim) if isinstance(t, ir.IndexedArray) else class_of(t)


def is_type(obj: Any) -> bool:
    """Return whether ``obj`` names a concrete or generic type of the kernel language."""
    if isinstance(obj, types.ModuleType):  # whose attributes may be costly to ask for
        return False
    try:
        to_ir(obj)
    except TypeError:
        return False
    return True


def constant_of(obj: Any) -> tuple[ir.Type, Any] | None:
    """Return the IR type and the number (or flat tuple of numbers) of a typed host value.

    None for anything else, plain Python numbers included, which take their type from where they are used.
    """
    if isinstance(obj, Composite):
        return obj._ir_type_, obj._numbers()
    if isinstance(obj, (dtypes._Integer, dtypes._Float)):
        return obj._ir_type_, obj.value
    if isinstance(obj, np.generic):
        t = scalar_from_numpy(obj.dtype)
        return None if t is None else (t, dtypes.as_number(obj, t))
    return None
