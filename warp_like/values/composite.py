"""What the host's vectors, matrices, quaternions and transforms share: packed bytes, arithmetic, comparison, pickling.

An instance owns its bytes, laid out as in an array element, and gives them out through the writable buffer
protocol. Arithmetic keeps the dtype and means what it means in a kernel: integers wrap, integer division
truncates toward zero and gives 0 for a divisor of 0. You are warned where an instance is made of a number that
does not fit the dtype.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.ir.layout import size_of, type_code
from warp_like.values import bfloat
from warp_like.values.classes import class_of
from warp_like.values.dtypes import SCALAR_CLASSES, fitted, host_number, item_of, numpy_dtype, struct_format

_NO_ELEMENT = 0xFFFFFFFE
"""The type code of vectors without components, which no parameter has."""


class Composite(_native.Value):
    """Base of the classes of vectors and matrices; a concrete class is bound to one IR type by ``bind``."""

    __slots__ = ()

    _ir_type_: ClassVar[ir.Vec | ir.Mat | ir.Quat | ir.Transform]
    _type_code_: ClassVar[int]
    _shape_: ClassVar[tuple[int, ...]]
    _length_: ClassVar[int]
    _wp_scalar_type_: ClassVar[type]
    _type_: ClassVar[type]  # what ctypes calls a component
    _scalar_: ClassVar[ir.Scalar]
    _nbytes_: ClassVar[int]
    _struct_: ClassVar[struct.Struct]
    _direct_: ClassVar[bool]

    def __new__(cls, *args: Any) -> Any:
        """Make an instance of numbers, sequences and other instances; zero without arguments."""
        if not hasattr(cls, "_ir_type_"):
            raise TypeError(
                f"{cls.__name__} is the base of a family of types, use one of them, e.g. wp.vec3 or wp.mat33"
            )
        self: Any = super().__new__(cls, cls._nbytes_)
        if len(args) == cls._length_ and cls._direct_:
            try:
                cls._struct_.pack_into(self, 0, *args)
            except (
                struct.error,
                OverflowError,
                TypeError,
            ):  # not plain numbers, or too large: the long way says which
                self._write(cls._arrange(args))
        elif args:
            self._write(cls._arrange(args))
        return self

    @classmethod
    def _arrange(cls, args: tuple[Any, ...]) -> list[Any]:
        """Return the scalars that the constructor arguments stand for, in memory order."""
        raise NotImplementedError

    @classmethod
    def _from_numbers(cls, numbers: Iterable[Any]) -> Any:
        self = cls()
        self._write(numbers)
        return self

    @classmethod
    def _from_bytes(cls, data: bytes) -> Any:
        self = cls()
        struct.pack_into(f"{cls._nbytes_}s", self, 0, data)
        return self

    @classmethod
    def from_ptr(cls, ptr: int) -> Any:
        """Return a copy of the components at address ``ptr`` in the host's memory, laid out as in an array.

        Raises:
            RuntimeError: ``ptr`` is 0, where no memory is.

        Example:
            >>> a = wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3)
            >>> wp.vec3.from_ptr(a.ptr)
            vec3f([1.0, 2.0, 3.0])
        """
        if not ptr:
            raise RuntimeError(f"there is no {cls.__name__} at address 0")
        import ctypes  # for this alone

        return cls._from_bytes(ctypes.string_at(ptr, cls._nbytes_))

    @classmethod
    def from_buffer(cls, source: Any, offset: int = 0) -> Any:
        """Return a copy of the components that lie ``offset`` bytes into ``source``, laid out as in an array.

        Args:
            source: What has the buffer protocol, contiguous and writable: a NumPy array, a ``bytearray``. Later changes
                of it don't show in the copy, nor the other way round.
            offset: Where they begin.

        Raises:
            TypeError: ``source`` has no buffer, or it is not contiguous or not writable.
            ValueError: It is too small, or ``offset`` is negative.

        Example:
            >>> wp.vec3.from_buffer(np.arange(4, dtype=np.float32), 4)
            vec3f([1.0, 2.0, 3.0])
        """
        if memoryview(source).readonly:
            raise TypeError(f"{cls.__name__}.from_buffer() takes a writable buffer; from_buffer_copy() takes any")
        return cls.from_buffer_copy(source, offset)

    @classmethod
    def from_buffer_copy(cls, source: Any, offset: int = 0) -> Any:
        """Return a copy of the components in ``source``, as ``from_buffer``; the buffer may be read-only.

        Raises:
            TypeError: ``source`` has no buffer, or it is not contiguous.
            ValueError: It is too small, or ``offset`` is negative.
        """
        view = memoryview(source)
        if not view.c_contiguous:
            raise TypeError(f"{cls.__name__} is made from a contiguous buffer")
        if offset < 0 or view.nbytes < offset + cls._nbytes_:
            raise ValueError(
                f"{cls.__name__} needs {cls._nbytes_} bytes at offset {offset} of a buffer of {view.nbytes} bytes"
            )
        return cls._from_bytes(view.cast("B")[offset : offset + cls._nbytes_].tobytes())

    def _bytes(self) -> bytes:
        data: bytes = struct.unpack(f"{self._nbytes_}s", self)[0]
        return data

    def _write(self, numbers: Iterable[Any]) -> None:
        t = self._scalar_
        values = [fitted(x, t) for x in numbers]
        if t == ir.bfloat16:
            values = [bfloat.encode(x) for x in values]
        self._struct_.pack_into(self, 0, *values)

    def _numbers(self) -> tuple[Any, ...]:
        """The plain Python numbers in memory order."""
        values = self._struct_.unpack(self)
        return tuple(map(bfloat.decode, values)) if self._scalar_ == ir.bfloat16 else values

    def _set(self, position: int, value: Any) -> None:
        t = self._scalar_
        number = fitted(value, t)
        if t == ir.bfloat16:
            number = bfloat.encode(number)
        struct.pack_into("<" + struct_format(t), self, position * (t.bits // 8), number)

    def _get(self, position: int) -> Any:
        t = self._scalar_
        (raw,) = struct.unpack_from("<" + struct_format(t), self, position * (t.bits // 8))
        return host_number(bfloat.decode(raw) if t == ir.bfloat16 else raw, t)

    def _ndarray(self) -> np.ndarray[Any, Any]:
        """The components for arithmetic; bfloat16 ones as float32."""
        raw = np.frombuffer(self._bytes(), numpy_dtype(self._scalar_)).reshape(self._shape_)
        return bfloat.decode_array(raw) if self._scalar_ == ir.bfloat16 else raw

    @classmethod
    def _from_ndarray(cls, values: np.ndarray[Any, Any]) -> Any:
        if cls._scalar_ == ir.bfloat16:
            return cls._from_bytes(bfloat.encode_array(values).tobytes())
        return cls._from_bytes(values.astype(numpy_dtype(cls._scalar_)).tobytes())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(f"a NumPy array of a {type(self).__name__} is a copy")
        return np.array(self._ndarray(), dtype=dtype)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the components as a new NumPy array (float32 for bfloat16)."""
        return np.array(self._ndarray())

    def __eq__(self, other: object) -> bool:
        try:
            mine, theirs = self._ndarray(), np.asarray(_unwrap(other))
        except (TypeError, ValueError):
            return NotImplemented
        if theirs.dtype.kind not in "biuf" or mine.shape != theirs.shape:
            return NotImplemented
        return bool((mine == theirs).all())

    def __hash__(self) -> int:
        return hash(tuple(self._numbers()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._ir_type_, self._bytes())

    def __copy__(self) -> Any:
        return self._from_bytes(self._bytes())

    def __deepcopy__(self, memo: Any) -> Any:
        return self._from_bytes(self._bytes())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _same(self, other: Any) -> bool:
        return isinstance(other, Composite) and other._ir_type_ == self._ir_type_

    def _number(self, value: Any) -> Any:
        """Return ``value`` as a scalar operand of this dtype, or None where it is no number."""
        own = getattr(type(value), "_ir_type_", None)
        if isinstance(own, ir.Scalar) and own != self._scalar_:
            raise TypeError(
                f"{type(self).__name__} does not mix with {own}: convert the number to {self._scalar_} first"
            )
        if not isinstance(value, (bool, int, float, np.generic)):
            value = item_of(value)
            if not isinstance(value, (bool, int, float)):
                return None
        number = fitted(value, self._scalar_)
        working = np.dtype("float32") if self._scalar_ == ir.bfloat16 else numpy_dtype(self._scalar_)
        return working.type(number)

    def __add__(self, other: Any) -> Any:
        return self._from_ndarray(_quiet(np.add, self, other)) if self._same(other) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self._from_ndarray(_quiet(np.subtract, self, other)) if self._same(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        number = self._number(other)
        return NotImplemented if number is None else self._from_ndarray(_quiet(np.multiply, self, number))

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Any:
        number = self._number(other)
        return NotImplemented if number is None else self._from_ndarray(_quiet(self._divide, self, number))

    def __rtruediv__(self, other: Any) -> Any:
        number = self._number(other)
        return NotImplemented if number is None else self._from_ndarray(_quiet(self._divide, number, self))

    def __mod__(self, other: Any) -> Any:
        value = other if self._same(other) else self._number(other)
        return NotImplemented if value is None else self._from_ndarray(_quiet(np.fmod, self, value))

    def __neg__(self) -> Any:
        return self._from_ndarray(_quiet(np.negative, self))

    def __pos__(self) -> Any:
        return self.__copy__()

    def _divide(self, a: Any, b: Any) -> Any:
        if self._scalar_.is_float:
            return np.divide(a, b)
        quotient = np.floor_divide(a, b)
        inexact = np.multiply(quotient, b) != a
        truncated = quotient + (inexact & ((np.less(a, 0)) != (np.less(b, 0)))).astype(quotient.dtype)
        return np.where(np.equal(b, 0), np.zeros_like(truncated), truncated)


class InvalidKey(KeyError):
    """An index into a vector or matrix that is no integer or slice."""

    __str__ = Exception.__str__  # KeyError shows its text in quotes


def wrong_count(target: Composite, count: int, value: Any, numbers: list[Any]) -> Exception:
    """Return the error for ``count`` components of ``target`` that are set to other than as many numbers."""
    text = f"{count} components of a {type(target).__name__} can't be set to {len(numbers)} numbers"
    composites = isinstance(value, (list, tuple)) and any(isinstance(x, Composite) for x in value)
    return TypeError(text) if composites else ValueError(text)


def bind(base: type, name: str, t: ir.Vec | ir.Mat | ir.Quat | ir.Transform, members: dict[str, Any]) -> type:
    """Return a new class ``name`` derived from ``base`` for IR type ``t``."""
    shape = ir.element_shape(t)
    count = int(np.prod(shape))
    return type(
        name,
        (base,),
        {
            "__module__": "warp_like.values.families",
            "__qualname__": name,
            "__doc__": f"{'x'.join(map(str, shape))} components of {t.dtype}.",
            "_ir_type_": t,
            "_type_code_": type_code(t) if count else _NO_ELEMENT,
            "_shape_": shape,
            "_length_": count,
            "_wp_scalar_type_": SCALAR_CLASSES[t.dtype],
            "_type_": SCALAR_CLASSES[t.dtype]._type_,  # type: ignore[attr-defined]
            "_scalar_": t.dtype,
            "_nbytes_": size_of(t),
            "_struct_": struct.Struct(f"<{count}{struct_format(t.dtype)}"),
            **({} if t.dtype == ir.bfloat16 else {"__numpy_dtype__": np.dtype((numpy_dtype(t.dtype), shape))}),
            "_direct_": t.dtype not in (ir.bool_, ir.bfloat16),
            **members,
        },
    )


def _quiet(fn: Any, *args: Any) -> np.ndarray[Any, Any]:
    """Compute ``fn`` of instances and numbers without warnings: an infinity is a result like others."""
    with np.errstate(all="ignore"):
        return np.asarray(fn(*(_unwrap(a) for a in args)))


def _unwrap(value: Any) -> Any:
    return value._ndarray() if isinstance(value, Composite) else value


def _restore(t: ir.Vec | ir.Mat | ir.Quat | ir.Transform, data: bytes) -> Any:
    return class_of(t)._from_bytes(data)


def is_sequence(value: Any) -> bool:
    """Return whether a constructor argument has several parts: tensors without dimensions have ``__len__``, too."""
    return hasattr(value, "__len__") and getattr(value, "ndim", 1) != 0


def flatten_argument(value: Any) -> list[Any]:
    """Return the scalars of a constructor argument: a number, an instance, an array or a nested sequence."""
    if isinstance(value, Composite):
        return list(value._numbers())
    if isinstance(value, np.ndarray):
        return list(value.ravel())
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Iterable):
        return [value]
    if hasattr(value, "tolist"):  # other libraries' arrays, whose elements would be arrays again
        numbers = value.tolist()
        return flatten_argument(numbers) if isinstance(numbers, list) else [numbers]
    return [x for item in value for x in flatten_argument(item)]
