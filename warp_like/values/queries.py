"""Questions about types and values: ``wp.types.type_is_vector(t)``, ``wp.types.is_vector(x)`` and their like.

``type_is_...`` asks about a type or an annotation, ``is_...`` about a value. Python's ``int``, ``float`` and ``bool``
count as int32, float32 and bool, and NumPy's dtypes as what they name. Anything that is no type is none of the kinds.
"""

from __future__ import annotations

from typing import Any

from warp_like import _native, values
from warp_like.ir import types as ir
from warp_like.ir.layout import size_of
from warp_like.values.annotation import ArrayAnnotation
from warp_like.values.dtypes import SCALAR_CLASSES
from warp_like.values.generic import GenericMatrix, GenericQuaternion, GenericTransformation, GenericVector
from warp_like.values.struct import StructInstance

__all__ = [
    *("is_array", "is_composite", "is_float", "is_int", "is_matrix", "is_quaternion", "is_scalar", "is_struct"),
    *("is_transformation", "is_value", "is_vector"),
    *("type_is_array", "type_is_composite", "type_is_float", "type_is_int", "type_is_matrix", "type_is_quaternion"),
    *("type_is_scalar", "type_is_struct", "type_is_transformation", "type_is_value", "type_is_vector"),
    *("type_ctype", "type_repr", "type_size", "type_size_in_bytes", "types_equal"),
]


def _type(t: Any) -> ir.Type | None:
    """The concrete type that ``t`` names, if it names one."""
    try:
        return None if isinstance(t, ir.Type) else values.to_ir(t)
    except TypeError:
        return None


def _of(x: Any) -> ir.Type | None:
    """The type of a value that is no array; that of a Python number is what it becomes in a kernel."""
    python = {bool: ir.bool_, int: ir.int32, float: ir.float32}.get(type(x))
    own = getattr(type(x), "_ir_type_", None)
    return own if isinstance(own, ir.Type) else python


def _is_number(t: ir.Type | None) -> bool:
    return isinstance(t, ir.Scalar) and not t.is_bool


def type_is_int(t: Any) -> bool:
    """Return whether ``t`` is an integer type."""
    found = _type(t)
    return isinstance(found, ir.Scalar) and found.is_int


def type_is_float(t: Any) -> bool:
    """Return whether ``t`` is a float type."""
    found = _type(t)
    return isinstance(found, ir.Scalar) and found.is_float


def type_is_scalar(t: Any) -> bool:
    """Return whether ``t`` is an integer or a float type."""
    return _is_number(_type(t))


def type_is_vector(t: Any) -> bool:
    """Return whether ``t`` is a vector type, of any length and dtype; generic ones count."""
    return isinstance(t, GenericVector) or isinstance(_type(t), ir.Vec)


def type_is_matrix(t: Any) -> bool:
    """Return whether ``t`` is a matrix type; generic ones count."""
    return isinstance(t, GenericMatrix) or isinstance(_type(t), ir.Mat)


def type_is_quaternion(t: Any) -> bool:
    """Return whether ``t`` is a quaternion type; generic ones count."""
    return isinstance(t, GenericQuaternion) or isinstance(_type(t), ir.Quat)


def type_is_transformation(t: Any) -> bool:
    """Return whether ``t`` is a type of rigid transformations; generic ones count."""
    return isinstance(t, GenericTransformation) or isinstance(_type(t), ir.Transform)


def type_is_composite(t: Any) -> bool:
    """Return whether ``t`` is a vector, matrix, quaternion or transformation type."""
    return type_is_vector(t) or type_is_matrix(t) or type_is_quaternion(t) or type_is_transformation(t)


def type_is_value(t: Any) -> bool:
    """Return whether ``t`` is a scalar type, bool included, or a composite one."""
    return isinstance(_type(t), ir.Scalar) or type_is_composite(t)


def type_is_struct(t: Any) -> bool:
    """Return whether ``t`` is a class made by ``wp.struct``."""
    found = _type(t)
    return isinstance(found, ir.Struct) and not isinstance(found, ir.IndexedArray)


def type_is_array(t: Any) -> bool:
    """Return whether ``t`` is a class of arrays, or the annotation of one."""
    return isinstance(getattr(t, "_annotation_", t), ArrayAnnotation)


def is_int(x: Any) -> bool:
    """Return whether ``x`` is an integer."""
    t = _of(x)
    return isinstance(t, ir.Scalar) and t.is_int


def is_float(x: Any) -> bool:
    """Return whether ``x`` is a float."""
    t = _of(x)
    return isinstance(t, ir.Scalar) and t.is_float


def is_scalar(x: Any) -> bool:
    """Return whether ``x`` is an integer or a float."""
    return _is_number(_of(x))


def is_vector(x: Any) -> bool:
    """Return whether ``x`` is a vector."""
    return isinstance(_of(x), ir.Vec)


def is_matrix(x: Any) -> bool:
    """Return whether ``x`` is a matrix."""
    return isinstance(_of(x), ir.Mat)


def is_quaternion(x: Any) -> bool:
    """Return whether ``x`` is a quaternion."""
    return isinstance(_of(x), ir.Quat)


def is_transformation(x: Any) -> bool:
    """Return whether ``x`` is a rigid transformation."""
    return isinstance(_of(x), ir.Transform)


def is_composite(x: Any) -> bool:
    """Return whether ``x`` is a vector, matrix, quaternion or transformation."""
    return isinstance(x, values.Composite)


def is_value(x: Any) -> bool:
    """Return whether ``x`` is a number, a bool, or a composite value."""
    return isinstance(_of(x), ir.Scalar) or is_composite(x)


def is_struct(x: Any) -> bool:
    """Return whether ``x`` is an instance of a class made by ``wp.struct``."""
    return isinstance(x, StructInstance)


def is_array(x: Any) -> bool:
    """Return whether ``x`` is an array of any kind, or the annotation of one."""
    return isinstance(x, _native.Array) or type_is_array(x) or hasattr(type(x), "_annotation_")


def type_size(dtype: Any) -> int:
    """Return the number of components of a type: 1 for scalars and structs, 3 for ``wp.vec3``, 9 for ``wp.mat33``.

    Raises:
        TypeError: ``dtype`` is no type of an array's elements.
    """
    t = _element(dtype)
    return 1 if isinstance(t, ir.Struct) else ir.element_count(t)


def type_size_in_bytes(dtype: Any) -> int:
    """Return the bytes of an array's element of type ``dtype``.

    Raises:
        TypeError: ``dtype`` is no type of an array's elements.
    """
    return size_of(_element(dtype))


def _element(dtype: Any) -> Any:
    t = _type(dtype)
    if t is None or isinstance(t, (ir.Array, ir.IndexedArray)):
        raise TypeError(f"{type_repr(dtype)} is no type of elements; those are float, wp.int8, wp.vec3, a struct, ...")
    return t


def type_ctype(dtype: Any) -> type:
    """Return the type of ``ctypes`` for ``dtype``: of a vector or another composite type an array of its components.

    float16 and bfloat16 are the ``c_uint16`` of their bits.

    Raises:
        TypeError: ``dtype`` is no scalar, vector, matrix, quaternion or transformation type.

    Example:
        >>> wp.types.type_ctype(wp.float64), wp.types.type_ctype(wp.vec3)._length_
        (<class 'ctypes.c_double'>, 3)
    """
    t = _element(dtype)
    scalar = ir.scalar_of(t)
    if scalar is None:
        raise TypeError(f"{type_repr(dtype)} has no type of ctypes; scalars, vectors and matrices have one")
    one: Any = SCALAR_CLASSES[scalar]._type_  # type: ignore[attr-defined]
    found: type = one if isinstance(t, ir.Scalar) else one * ir.element_count(t)
    return found


def type_repr(t: Any) -> str:
    """Return how ``t`` is written: ``vec3f``, ``array(dtype=float32, ndim=1)``."""
    if isinstance(t, type) and not type_is_array(t):
        return str(getattr(t, "__name__", t))
    return repr(t)


def types_equal(a: Any, b: Any) -> bool:
    """Return whether two annotations name the same type; those of arrays also if the dimensions agree.

    An array counts as its annotation, and generic types are equal to themselves alone.
    """
    first, second = (_annotation(x) for x in (a, b))
    t = _type(first)
    return bool(first == second) if t is None else t == _type(second)


def _annotation(x: Any) -> Any:
    """``x``, and for an array what annotates it."""
    if isinstance(x, _native.Array):
        return ArrayAnnotation(x.dtype, x.ndim)
    return values.from_ir(x.ir_type) if isinstance(getattr(x, "ir_type", None), ir.Type) else x
