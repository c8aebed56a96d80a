"""Host-side scalar types: ``wp.int32``, ``wp.float32`` and the others, and what NumPy calls them.

Each class is an annotation in kernels and a number on the host: an instance behaves as the Python number it
is derived from, holds exactly a value of its type, and computes with others of its type as kernels do.
Calling a class converts, while what becomes a component or an element has to fit, see ``as_number``.
Python's ``int``, ``float`` and ``bool`` stand for int32, float32 and bool.
"""

from __future__ import annotations

import builtins
import ctypes
import operator
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import numpy as np

from warp_like.base.warn import warn
from warp_like.ir import types as ir
from warp_like.ir.literal import int_range
from warp_like.values.arithmetic import converted, rounded, typed_operators

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
} | {
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "bfloat16": "H",
    "float32": "f",
    "float64": "d",
}


def struct_format(t: ir.Scalar) -> str:
    """Return the format character of ``t`` for ``struct``; that of its bits for bfloat16."""
    return _FORMATS[str(t)]


def item_of(value: Any) -> Any:
    """Return the number in an array without dimensions or a tensor of one element; anything else as it is.

    Their own conversions can't be used: ``operator.index`` of a Paddle tensor truncates it.
    """
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else value
    shape = getattr(value, "shape", None)
    if not isinstance(shape, Iterable) or isinstance(value, np.generic) or not hasattr(value, "item"):
        return value
    return value.item() if all(n == 1 for n in shape) else value


def as_number(value: Any, t: ir.Scalar) -> builtins.bool | float:
    """Return ``value`` as a Python number that ``t`` holds exactly (floats are rounded to it).

    Raises:
        TypeError: ``value`` is no number, or a float where an integer is due.
        OverflowError: It lies outside the range of ``t``.
    """
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{t} needs a number, got {type(value).__name__} {value!r}")
    if not isinstance(value, (int, float)):
        value = item_of(value)
    if t.is_bool:
        return _as_bool(value)
    if t.is_int:
        return _as_int(value, t)
    return _as_float(value, t)


def fitted(value: Any, t: ir.Scalar, where: str = "") -> builtins.bool | float:
    """Return ``as_number(value, t)``, or with a warning what a cast to ``t`` gives where the number does not fit.

    Args:
        value: The number.
        t: The type of the component or element that it becomes.
        where: What the warning's text begins with, for example the field's name.

    Raises:
        TypeError: ``value`` is no number, or a float where an integer is due.
    """
    try:
        return as_number(value, t)
    except OverflowError as error:
        stored = _cast(value, t)
        warn(f"{where}{error}; it is stored as {stored}. Write `wp.{t}({value})` if you mean that")
        return stored


def _cast(value: Any, t: ir.Scalar) -> builtins.bool | float:
    """Return a number as ``t`` holds it after a cast.

    Raises:
        TypeError: ``value`` is no number.
    """
    if isinstance(value, (int, float)):
        return converted(value, t)
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{t} needs a number, got {type(value).__name__} {value!r}")
    value = item_of(value)
    if isinstance(value, float):
        return converted(value, t)
    try:
        return converted(operator.index(value), t)
    except TypeError:
        return converted(_as_float(value, ir.float64), t)


def _as_bool(value: Any) -> builtins.bool:
    if isinstance(value, (builtins.bool, int, float, np.generic)):
        return builtins.bool(value)
    raise TypeError(f"bool needs a number, got {type(value).__name__}")


def _as_int(value: Any, t: ir.Scalar) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{t} needs an integer, got {type(value).__name__} {value!r}") from None
    lo, hi = int_range(t)
    if not lo <= number <= hi:
        raise OverflowError(f"{number} does not fit {t}, which holds {lo} to {hi}")
    return number


def _as_float(value: Any, t: ir.Scalar) -> float:
    try:
        number = float(value)
    except TypeError:
        raise TypeError(f"{t} needs a number, got {type(value).__name__} {value!r}") from None
    try:
        return rounded(number, t)
    except OverflowError:
        raise OverflowError(f"{number!r} does not fit {t}") from None


def host_number(value: builtins.bool | float, t: ir.Scalar) -> Any:
    """Return a component as the host sees it: plain for bool, int32 and float32, else with its type."""
    return value if t in (ir.bool_, ir.int32, ir.float32) else SCALAR_CLASSES[t](value)


@typed_operators(host_number)
class _Integer(int):
    _ir_type_: ClassVar[ir.Scalar]

    def __new__(cls, x: Any = 0) -> Any:
        return super().__new__(cls, _cast(x, cls._ir_type_))

    @property
    def value(self) -> int:
        """The plain Python number."""
        return int(self)

    def __repr__(self) -> str:
        return f"{self._ir_type_}({int(self)})"

    def __str__(self) -> str:
        return str(int(self))


@typed_operators(host_number)
class _Float(float):
    _ir_type_: ClassVar[ir.Scalar]

    def __new__(cls, x: Any = 0.0) -> Any:
        return super().__new__(cls, _cast(x, cls._ir_type_))

    @property
    def value(self) -> float:
        """The plain Python number."""
        return float(self)

    def __repr__(self) -> str:
        return f"{self._ir_type_}({float(self)})"

    def __str__(self) -> str:
        return str(float(self))


class bool(_Integer):
    """A truth value, one byte in memory."""

    _ir_type_ = ir.bool_

    @property
    def value(self) -> builtins.bool:
        """The plain Python bool."""
        return builtins.bool(int(self))

    def __repr__(self) -> str:
        return f"bool({self.value})"

    def __str__(self) -> str:
        return str(self.value)


class int8(_Integer):
    """An 8-bit signed integer."""

    _ir_type_ = ir.int8


class uint8(_Integer):
    """An 8-bit unsigned integer."""

    _ir_type_ = ir.uint8


class int16(_Integer):
    """A 16-bit signed integer."""

    _ir_type_ = ir.int16


class uint16(_Integer):
    """A 16-bit unsigned integer."""

    _ir_type_ = ir.uint16


class int32(_Integer):
    """A 32-bit signed integer; ``int`` in annotations means this."""

    _ir_type_ = ir.int32


class uint32(_Integer):
    """A 32-bit unsigned integer."""

    _ir_type_ = ir.uint32


class int64(_Integer):
    """A 64-bit signed integer."""

    _ir_type_ = ir.int64


class uint64(_Integer):
    """A 64-bit unsigned integer."""

    _ir_type_ = ir.uint64


class float16(_Float):
    """A 16-bit IEEE float."""

    _ir_type_ = ir.float16


class bfloat16(_Float):
    """A 16-bit float with the range of float32."""

    _ir_type_ = ir.bfloat16


class float32(_Float):
    """A 32-bit IEEE float; ``float`` in annotations means this."""

    _ir_type_ = ir.float32


class float64(_Float):
    """A 64-bit IEEE float."""

    _ir_type_ = ir.float64


Scalar = TypeVar("Scalar")
"""In annotations of generic functions: any number type."""
Int = TypeVar("Int")
"""In annotations of generic functions: any integer type."""
Float = TypeVar("Float")
"""In annotations of generic functions: any float type."""

SCALAR_CLASSES: dict[ir.Scalar, type] = {
    c._ir_type_: c
    for c in (
        bool,
        int8,
        uint8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        uint64,
        float16,
        bfloat16,
        float32,
        float64,
    )
}

_NUMPY: dict[ir.Scalar, np.dtype[Any]] = {
    t: np.dtype("uint16") if t == ir.bfloat16 else np.dtype("bool" if t.is_bool else str(t)) for t in ir.SCALARS
}
_FROM_NUMPY: dict[np.dtype[Any], ir.Scalar] = {d: t for t, d in _NUMPY.items() if t != ir.bfloat16}


_CTYPES: dict[str, builtins.type] = {"float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool} | {
    "float16": ctypes.c_uint16,  # C has neither of the two: their bits
    "bfloat16": ctypes.c_uint16,
}

for _t, _class in SCALAR_CLASSES.items():
    _class._type_ = _CTYPES.get(str(_t)) or getattr(ctypes, f"c_{_t}")  # type: ignore[attr-defined]
    if _t != ir.bfloat16:  # by this NumPy, from 2.4 on, takes the classes for its dtypes: np.zeros(3, dtype=wp.float32)
        _class.__numpy_dtype__ = _NUMPY[_t]  # type: ignore[attr-defined]


def numpy_dtype(t: ir.Scalar) -> np.dtype[Any]:
    """Return the NumPy dtype of the same memory; uint16 for bfloat16, which NumPy does not have."""
    return _NUMPY[t]


def scalar_from_numpy(dtype: Any) -> ir.Scalar | None:
    """Return the scalar type of a NumPy dtype, or None (complex, foreign byte order, records).

    ``ml_dtypes.bfloat16``, which JAX brings, counts as bfloat16.
    """
    dtype = np.dtype(dtype)
    found = _FROM_NUMPY.get(dtype) if dtype.isnative else None
    if found is None and dtype.name == "bfloat16" and dtype.itemsize == 2:
        return ir.bfloat16
    if found is None and dtype.isnative and dtype.kind in "iu":  # e.g. long and long long, which are one type here
        return _FROM_NUMPY.get(np.dtype(f"{dtype.kind}{dtype.itemsize}"))
    return found
