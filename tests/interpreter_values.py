"""The values that the interpreters compute with.

Scalars are NumPy scalars, vec, mat and quat NumPy arrays that nobody changes in place, structs tuples. A bfloat16
is held as a float32 that is rounded after each operation; an array of bfloat16 may be given as uint16 (bits) or
float32. A tile of structs is an array of tuples.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from warp_like.ir.types import Array, Scalar, Struct, Tile, Type, bfloat16, element_shape, scalar_of


def numpy_dtype(t: Scalar) -> np.dtype[Any]:
    """The dtype that values of ``t`` are computed in (float32 for bfloat16)."""
    if t == bfloat16:
        return np.dtype(np.float32)
    return np.dtype(np.bool_) if t.is_bool else np.dtype(str(t))


@functools.lru_cache(maxsize=4096)
def form_of(t: Type) -> tuple[np.dtype[Any], tuple[int, ...], bool, bool]:
    """The dtype and shape of values of ``t``, whether they are rounded to bfloat16, and whether they are scalars."""
    scalar = scalar_of(t)
    if scalar is None:
        raise TypeError(f"the interpreter has no values of {t}")
    return numpy_dtype(scalar), element_shape(t), scalar == bfloat16, isinstance(t, Scalar)


def coerce(value: Any, t: Type) -> Any:
    """``value`` as a value of ``t``: the dtype, the shape, and bfloat16's rounding."""
    return value if has_fields(t) else formed(value, form_of(t))


def has_fields(t: Type) -> bool:
    """Whether ``t`` is a struct or a tile of these; values of such types are what they were made of."""
    return isinstance(t.dtype if isinstance(t, Tile) else t, Struct)


def uniform(value: Any, t: Type) -> Any:
    """A value of ``t``, a vector, matrix or tile, whose elements are all ``value``; of structs an array of tuples."""
    if not (isinstance(t, Tile) and isinstance(t.dtype, Struct)):
        return coerce(np.broadcast_to(value, element_shape(t)), t)
    made = np.empty(t.shape, object)
    for at in np.ndindex(t.shape):
        made[at] = value
    return made


def anything(t: Type) -> Any:
    """A value of ``t`` that no program may look at."""
    if isinstance(t, Struct):
        return tuple(anything(f) for _, f in t.fields)
    return uniform(anything(t.dtype) if isinstance(t, Tile) else 77, t)


def formed(value: Any, form: tuple[np.dtype[Any], tuple[int, ...], bool, bool]) -> Any:
    """``value`` in a form that ``form_of`` gives."""
    dtype, shape, rounds, is_scalar = form
    if is_scalar and type(value) is dtype.type and not rounds:
        return value
    made = np.asarray(value).astype(dtype).reshape(shape)
    if rounds:
        made = round_bfloat16(made)
    return made[()] if is_scalar else made


def cast_scalar(x: Any, source: Scalar, to: Scalar) -> Any:
    """Convert one number: saturating from float to integer, ``!= 0`` to bool, wrapping between integers."""
    if to.is_bool:
        return np.bool_(x != 0)
    if source.is_float and to.is_int:
        if np.isnan(x):
            return numpy_dtype(to).type(0)
        info = np.iinfo(numpy_dtype(to))
        whole = int(np.clip(np.trunc(np.float64(x)), -1e30, 1e30))
        return numpy_dtype(to).type(min(max(whole, info.min), info.max))
    return coerce(x, to)


def round_bfloat16(x: np.ndarray) -> np.ndarray:
    """Return ``x`` rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).reshape(x.shape).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded).astype(np.float32)


def bits_to_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Return the bfloat16 numbers of these bits."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def argument(a: Any, t: Type) -> Any:
    """``a``, which a kernel is given for a parameter of type ``t``, as a value; arrays are shared."""
    if not isinstance(t, Array):
        return coerce(a, t)
    a = a if isinstance(a, np.ndarray) else np.asarray(a)
    if isinstance(t.dtype, Struct):
        return a
    shape, scalar = element_shape(t.dtype), scalar_of(t.dtype)
    if scalar is None:
        raise TypeError(f"the interpreter has no arrays of {t.dtype}")
    fine = {numpy_dtype(scalar)} | ({np.dtype(np.uint16)} if scalar == bfloat16 else set())
    if a.dtype not in fine or a.ndim != t.ndim + len(shape) or a.shape[t.ndim :] != shape:
        raise TypeError(f"expected {t}, got an array of {a.dtype} with shape {a.shape}")
    return a
