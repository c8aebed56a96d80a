"""What C is given of arrays and structs, by ``ctypes``: ``array.__ctype__()``, ``struct.__ctype__()``, and back.

The layout is the one that C code written for Warp knows. Kernels don't use it: they are given arrays by their address,
with extents and strides of 64 bits.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.values import bfloat
from warp_like.values.classes import class_of
from warp_like.values.dtypes import SCALAR_CLASSES

_DIMS = 4  # of the layout that C code knows


class array_t(ctypes.Structure):
    """An array for C: the addresses of data and gradient, extents, strides in bytes, the number of dimensions."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("grad", ctypes.c_uint64),
        ("shape", ctypes.c_int32 * _DIMS),
        ("strides", ctypes.c_int32 * _DIMS),
        ("ndim", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
    )


def of_array(ptr: int, grad: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> array_t:
    """Return the description of an array.

    Raises:
        OverflowError: An extent or a stride needs more than 32 bits.
    """
    large = next((n for n in (*shape, *strides) if not -(2**31) <= n < 2**31), None)
    if large is not None:
        raise OverflowError(f"__ctype__() has extents and strides of 32 bits, the array has {large}")
    made = array_t(data=ptr, grad=grad, ndim=len(shape))
    made.shape[: len(shape)], made.strides[: len(shape)] = shape, strides
    return made


def ctype_of(t: ir.Type) -> Any:
    """Return the class of ``ctypes`` for values of type ``t``.

    Raises:
        TypeError: There is none, as for indexed arrays.
    """
    if isinstance(t, ir.IndexedArray):
        raise TypeError("an indexed array has no type of ctypes")
    if isinstance(t, ir.Struct):
        return _structure(t)
    if isinstance(t, ir.Array):
        return array_t
    scalar = ir.scalar_of(t)
    assert scalar is not None
    one: Any = SCALAR_CLASSES[scalar]._type_  # type: ignore[attr-defined]
    return one if isinstance(t, ir.Scalar) else one * ir.element_count(t)


@functools.lru_cache(maxsize=64)
def _structure(t: ir.Struct) -> type[ctypes.Structure]:
    return type(t.name, (ctypes.Structure,), {"_fields_": [(name, ctype_of(field)) for name, field in t.fields]})


def to_ctype(value: Any, t: ir.Type) -> Any:
    """Return ``value``, a field of type ``t``, for C."""
    if isinstance(t, ir.Struct):
        return _structure(t)(*(to_ctype(value._values[name], field) for name, field in t.fields))
    if isinstance(t, ir.Array):
        return array_t() if value is None else value.__ctype__()
    if isinstance(t, ir.Scalar):
        return _bits(value, t) if t in _HALVES else value
    return ctype_of(t).from_buffer_copy(value._bytes())


def from_ctype(value: Any, t: ir.Type, array_at: Callable[[array_t, ir.Array], Any]) -> Any:
    """Return the host value of type ``t`` for what C is given; what is no object of ``ctypes`` is returned as it is.

    ``array_at`` makes an array of its description.
    """
    if isinstance(t, ir.Struct) and isinstance(value, ctypes.Structure):
        return class_of(t)(**{name: _from_field(getattr(value, name), f, array_at) for name, f in t.fields})
    if isinstance(t, ir.Array) and isinstance(value, array_t):
        return array_at(value, t) if value.data else None
    if isinstance(t, ir.Scalar) and isinstance(value, ctypes._SimpleCData):
        return _from_field(value.value, t, array_at)
    return class_of(t).from_buffer_copy(value) if isinstance(value, ctypes.Array) else value


def _from_field(value: Any, t: ir.Type, array_at: Callable[[array_t, ir.Array], Any]) -> Any:
    """As ``from_ctype`` for what a field of a structure gives, where a number is one of Python's."""
    if t == ir.bfloat16:
        return bfloat.decode(value)
    if t == ir.float16:
        return float(np.uint16(value).view(np.float16))
    return from_ctype(value, t, array_at)


_HALVES = (ir.float16, ir.bfloat16)


def _bits(value: Any, t: ir.Scalar) -> int:
    return bfloat.encode(value) if t == ir.bfloat16 else int(np.float16(value).view(np.uint16))
