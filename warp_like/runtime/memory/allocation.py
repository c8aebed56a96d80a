"""Memory of arrays: allocation, element types, and conversion of host data with checks.

Nothing here converts silently: a number that does not fit the element type raises, or the user is warned.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.base.contract import MAX_DIMS
from warp_like.base.frozen import Frozen
from warp_like.base.settings import Setting, settings
from warp_like.base.warn import warn
from warp_like.ir import types as ir
from warp_like.ir.layout import size_of, type_code
from warp_like.runtime.memory.device import Device
from warp_like.values import bfloat, from_ir, numpy_dtype, to_ir
from warp_like.values.dtypes import item_of
from warp_like.values.struct import StructInstance, structured_dtype


class MemoryKind(enum.IntEnum):
    """What memory an array has; where it can be used, ``wp.can_access`` tells."""

    UNKNOWN = 0
    HOST = 1
    """The host's, as ``malloc`` gives it."""
    PINNED = 2
    """Page-locked memory of the host, that ``pinned=True`` asked for."""
    CUDA_DEVICE = 3
    """A device's, from the driver directly."""
    CUDA_MEMPOOL = 4
    """A device's, of a memory pool."""
    CUDA_MANAGED = 5
    """Memory that moves between host and devices."""


class ElementType(Frozen):
    """All that an array knows of its elements."""

    type: ir.Type
    scalar: ir.Scalar | None  # None for structs
    shape: tuple[int, ...]
    host: Any
    code: int
    itemsize: int
    holds: bool = False  # structs with arrays in them: runtime/arrays/nested.py

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of a component; of a struct its structured dtype."""
        if isinstance(self.type, ir.Struct):
            return structured_dtype(self.type)
        assert self.scalar is not None
        return numpy_dtype(self.scalar)

    @property
    def is_struct(self) -> bool:
        """Whether the elements are structs."""
        return self.scalar is None


# By everything that has named an element type so far: classes, NumPy dtypes, IR types. Not by classes of structs: these
# hold what is known of them, so that it goes with a class that is declared again.
_elements: dict[Any, ElementType] = {}


def element_type(dtype: Any) -> ElementType:
    """Return what is known of arrays whose elements are ``dtype``.

    Raises:
        TypeError: ``dtype`` is no type of elements.
    """
    known = _known(dtype)
    if known is not None:
        return known
    t = to_ir(dtype)
    scalar = None if t is None else ir.scalar_of(t)
    holds = isinstance(t, ir.Struct) and ir.holds_arrays(t)
    if t is None or (scalar is None and not isinstance(t, ir.Struct)):
        raise TypeError(f"the elements of an array need one concrete type such as wp.float32 or wp.vec3, got {dtype!r}")
    if 0 in ir.element_shape(t):
        raise TypeError(f"{from_ir(t).__name__} has no components, so that no array can hold it")
    made = ElementType(t, scalar, ir.element_shape(t), from_ir(t), type_code(t), size_of(t), holds)
    before = _elements.get(t)
    if before is None or before.host is not made.host:  # a struct that was declared again: the old class may go
        _elements[t] = made
    else:
        made = before
    for name in (dtype, t):
        _native.learn_element(name, made.host, made.code)
    if _is_struct_class(dtype):
        dtype._element_ = made
        return made
    return _elements.setdefault(dtype, made)


def _is_struct_class(dtype: Any) -> bool:
    return isinstance(dtype, type) and issubclass(dtype, StructInstance)


def _known(dtype: Any) -> ElementType | None:
    known: ElementType | None = _elements.get(dtype) if isinstance(dtype, (type, ir.Type, np.dtype)) else None
    if known is not None or not _is_struct_class(dtype):
        return known
    known = dtype._element_
    return known if known is not None and _elements.get(known.type) is known else None  # the last of equal structs


def allocate(nbytes: int, zero: bool, device: Device, pinned: bool = False) -> Any:
    """Return the owner of ``nbytes`` fresh bytes of the memory of ``device``, aligned to 64, at its ``ptr``.

    Args:
        nbytes: How many.
        zero: Whether they are zero.
        device: Where.
        pinned: Whether they are page-locked, where the device's memory is that of the host.

    Raises:
        MemoryError: There is no room for them.
        RuntimeError: Page-locked memory is asked for, and there is no CUDA device.
    """
    if pinned and device.backend.shares_host_memory:
        return device.backend.allocate_pinned(device, nbytes, zero)
    return device.backend.allocate(device, nbytes, zero)


def normalize_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple; one number stands for one dimension.

    Raises:
        TypeError: It does not consist of integers.
        ValueError: It has no or more than eight dimensions, or a negative one.
    """
    several = isinstance(shape, (tuple, list)) or (isinstance(shape, np.ndarray) and shape.ndim)
    parts = shape if several else (shape,)
    try:
        dims = tuple(operator.index(item_of(n)) for n in parts)
    except TypeError:
        raise TypeError(f"the shape of an array is an integer or a tuple of integers, got {shape!r}") from None
    if not 1 <= len(dims) <= MAX_DIMS:
        raise ValueError(f"an array has 1 to {MAX_DIMS} dimensions, got shape {dims}")
    if min(dims) < 0:
        raise ValueError(f"the dimensions of an array can't be negative, got shape {dims}")
    return dims


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of a C-contiguous array."""
    strides: list[int] = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def host_elements(data: Any, element: ElementType, listed: bool = False) -> np.ndarray[Any, Any]:
    """Return host data as a NumPy array of components, or of records where the elements are structs.

    ``listed`` says that a NumPy array holds what the user gave as a list.

    Raises:
        TypeError, OverflowError, ValueError: As ``host_scalars``; or records are due and ``data`` has other fields.
    """
    if element.scalar is not None:
        return host_scalars(data, element.scalar, listed)
    wanted = element.numpy
    if isinstance(data, StructInstance):
        data = [data]
    if element.holds and isinstance(data, np.ndarray):
        raise TypeError(
            f"an array of {element.type} is made of instances of it: NumPy shows the arrays in it as addresses, which "
            "keep no memory alive"
        )
    if isinstance(data, np.ndarray) and data.dtype == wanted:
        return data
    if isinstance(data, np.ndarray) and data.dtype.names is not None and data.dtype.kind == "V":
        if set(data.dtype.names) != set(wanted.names or ()):
            raise TypeError(f"an array of {element.type} has the fields {wanted.names}, got {data.dtype.names}")
        records = np.zeros(data.shape, wanted)
        for name in data.dtype.names:
            records[name] = data[name]
        return records
    if not isinstance(data, (list, tuple)) or not all(_is_one(x, element.type) for x in data):
        raise TypeError(f"an array of {element.type} is made of instances of it or of a structured NumPy array")
    return np.array([x.numpy_value() for x in data], dtype=wanted)


def _is_one(x: Any, t: ir.Type) -> bool:
    """Whether ``x`` is a struct of the type; its class may come from a second run of the same definition."""
    return isinstance(x, StructInstance) and x._ir_type_ == t


def host_scalars(data: Any, scalar: ir.Scalar, listed: bool = False) -> np.ndarray[Any, Any]:
    """Return host data as a NumPy array with the dtype of ``scalar`` in memory.

    Where that changes numbers, as NumPy's ``astype`` does, the user is warned: fractions are cut off, and integers of a
    NumPy array wrap around. A NumPy array of uint16 holds the bits of bfloat16, as ``array.numpy()`` gives them.

    Raises:
        TypeError: ``data`` holds something other than numbers.
        OverflowError: A number lies outside the range of ``scalar``, and is none of a NumPy array of integers.
        ValueError: An infinity or a NaN where integers are due, or a ragged sequence.
    """
    values = data if isinstance(data, np.ndarray) else np.array(data)
    if scalar == ir.bfloat16 and values is data and not listed and values.dtype == np.uint16:
        return values
    wanted = np.dtype("float32") if scalar == ir.bfloat16 else numpy_dtype(scalar)
    if values.dtype.kind == "O" or values.dtype.kind not in "biuf":
        if getattr(values.dtype, "name", "") != "bfloat16":
            raise TypeError(f"an array of {scalar} can't be made of data of NumPy type {values.dtype}")
        values = values.astype(np.float32)
    if values.dtype != wanted:
        values = _checked_cast(
            values, wanted, scalar, wraps=values is data and not listed and values.dtype.kind in "iu"
        )
    return bfloat.encode_array(values).reshape(values.shape) if scalar == ir.bfloat16 else values


def _checked_cast(
    values: np.ndarray[Any, Any], wanted: np.dtype[Any], scalar: ir.Scalar, wraps: bool
) -> np.ndarray[Any, Any]:
    if np.can_cast(values.dtype, wanted, "safe") or wanted.kind == "b" or values.size == 0:
        return values.astype(wanted)
    if wanted.kind in "iu":
        return _cast_to_integers(values, wanted, scalar, wraps)
    with np.errstate(over="ignore"):
        cast = values.astype(wanted)
    if not np.array_equal(np.isinf(cast), np.isinf(values)):
        raise OverflowError(f"a number of the data does not fit {scalar}")
    return cast


def _cast_to_integers(
    values: np.ndarray[Any, Any], wanted: np.dtype[Any], scalar: ir.Scalar, wraps: bool
) -> np.ndarray[Any, Any]:
    limits = np.iinfo(wanted)
    # Python's integers: the limits of uint64 are no exact float64 and no int64
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"an array of {scalar} can't hold an infinity or a NaN")
    low, high = values.min().item(), values.max().item()
    if low < limits.min or high > limits.max:
        text = f"{low if low < limits.min else high} does not fit {scalar}"
        if not wraps:
            raise OverflowError(text)
        warn(f"{text}: the integers of the NumPy array wrap around; give dtype=wp.{values.dtype} to keep them")
    elif values.dtype.kind == "f" and (fractions := values[values != np.trunc(values)]).size:
        warn(f"an array of {scalar} is made of {fractions[0]}: fractions are cut off; round the data first")
    return values.astype(wanted)


def outer_shape(shape: tuple[int, ...], element: ElementType) -> tuple[int, ...]:
    """Return the array shape of data of ``shape``: trailing dimensions become components.

    They are those of the element type, or have as many numbers together, or the last one holds several elements. Where
    no dimension is left, the array has one of one element.

    Raises:
        ValueError: The trailing dimensions are not those of the element type.
    """
    inner = len(element.shape)
    if inner == 0:
        return shape or (1,)
    if shape[-inner:] == element.shape:
        return shape[:-inner] or (1,)
    count = ir.element_count(element.type)
    if len(shape) > 1 and shape[-1] == count:
        return shape[:-1]
    if shape and shape[-1] % count == 0:
        return (*shape[:-1], shape[-1] // count)
    for k in range(2, len(shape) + 1):
        if math.prod(shape[-k:]) == count:
            return shape[:-k] or (1,)
    raise ValueError(
        f"data of shape {shape} does not divide into {element.host.__name__}, whose shape is {element.shape}"
    )


def _track(setting: Setting | None = None) -> None:
    """Follow ``config.track_memory``."""
    if settings.track_memory if setting is None else setting.name == "track_memory":
        from warp_like.runtime.memory import tracking  # not loaded unless somebody asks

        tracking.apply_setting()


_track()
settings.on_change(_track)
