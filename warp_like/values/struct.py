"""``@wp.struct``: records of named, typed fields, as values on the host.

A field is checked when it is assigned. Assigning a vector, a matrix or a struct copies it, so two structs never share
one; what a field holds can be changed in place (``s.pos.x = 1.0``). An array field holds a reference, or None; another
library's array becomes one over the same memory.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from warp_like import _native, values
from warp_like.base.warn import warn
from warp_like.ir import types as ir
from warp_like.ir.layout import field_offsets, size_of
from warp_like.values import bfloat
from warp_like.values.annotation import Parameter
from warp_like.values.classes import STRUCT_CLASSES
from warp_like.values.dtypes import fitted, host_number, numpy_dtype

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Stand in for the decorator that only type checkers look at."""
        return lambda decorator: decorator


_Class = TypeVar("_Class")
_Find = Callable[["ir.Array | ir.IndexedArray", Any], Any]

array_of: Callable[[Any, Any], Any] | None = None
"""Makes an array with elements of a type of another library's array, without a copy; handed in by the runtime."""


class _NumpyDtype:
    """What NumPy asks a class for, from 2.4 on, that is given as a dtype: ``np.zeros(3, dtype=Particle)``."""

    def __get__(self, instance: object, cls: type[StructInstance]) -> np.dtype[Any]:
        return structured_dtype(cls._ir_type_)


class StructInstance:
    """Base of the classes that ``wp.struct`` makes."""

    __slots__ = ("_values",)

    _ir_type_: ClassVar[ir.Struct]
    _defaults_: ClassVar[dict[str, Any]]
    _element_: ClassVar[Any] = None  # what arrays of them know (runtime/memory/allocation.py), once there was one
    __numpy_dtype__ = _NumpyDtype()
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Set fields by position and by name; the others get their defaults: zero, or what the class says."""
        t = self._ir_type_
        names = [name for name, _ in t.fields]
        if len(args) > len(names):
            raise TypeError(f"{t.name}() takes at most {len(names)} fields, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{t.name}() got field `{name}` twice")
            if name not in names:
                raise TypeError(f"struct {_no_field(t, name)}")
            given[name] = value
        stored: dict[str, Any] = {}
        for name, field in t.fields:
            value = given.get(name, self._defaults_.get(name))
            unset = value is None and not (name in given and isinstance(field, ir.Scalar))
            stored[name] = _zero(field) if unset else _checked(t, name, field, value)
        object.__setattr__(self, "_values", stored)

    def __setattr__(self, name: str, value: Any) -> None:
        t = self._ir_type_
        field = t.field_type(name)
        if field is None:
            raise AttributeError(f"struct {_no_field(t, name)}")
        self._values[name] = _checked(t, name, field, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"struct {_no_field(self._ir_type_, name)}")

    @classmethod
    def numpy_dtype(cls) -> np.dtype[Any]:
        """Return the structured NumPy dtype of the same memory.

        A field that is an array is there as its address ``data``, ``shape``, and ``strides`` in bytes, one that is an
        indexed array as the arrays that it is made of.
        """
        return structured_dtype(cls._ir_type_)

    def numpy_value(self) -> tuple[Any, ...]:
        """Return the fields as a tuple that NumPy takes for an element of ``numpy_dtype()``."""
        return tuple(_to_numpy(self._values[name], field) for name, field in self._ir_type_.fields)

    def __ctype__(self) -> Any:
        """Return the fields as a structure of ``ctypes``, for C; arrays are what their ``__ctype__()`` gives.

        It is a copy, and does not keep the memory of arrays alive.

        Raises:
            TypeError: A field is an indexed array.
        """
        from warp_like.values.ctype import to_ctype

        return to_ctype(self, self._ir_type_)

    @classmethod
    def _from_numpy(cls, record: Any, find: _Find | None = None) -> Any:
        """The struct that a record shows; ``find`` gives the array of a type that stands at a place."""
        self = cls.__new__(cls)
        found = {name: _from_numpy(record[name], field, find) for name, field in cls._ir_type_.fields}
        object.__setattr__(self, "_values", found)
        return self

    @classmethod
    def _zero(cls) -> Any:
        """The struct that a field holds until one is assigned."""
        return cls()

    def _leaves(self) -> Iterator[Any]:
        """The values of the fields that are no structs, nested ones in place."""
        for (_, t), value in zip(self._ir_type_.fields, self._values.values(), strict=True):
            if value is None and isinstance(t, ir.IndexedArray):
                yield from (None for _ in t.fields)
            elif isinstance(t, ir.Struct):
                yield from value._leaves()
            else:
                yield value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StructInstance) or other._ir_type_ != self._ir_type_:
            return NotImplemented
        pairs = zip(self._leaves(), other._leaves(), strict=True)
        return all(a is b if isinstance(a, _native.Array) else a == b for a, b in pairs)

    def __copy__(self) -> Any:
        return type(self)(**self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._values)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"{self._ir_type_.name}({fields})"


def _rebuild(cls: type[StructInstance], fields: dict[str, Any]) -> StructInstance:
    return cls(**fields)


@dataclass_transform()
def struct(cls: type[_Class]) -> type[_Class]:
    """Declare a record of named fields, usable in kernels, as a kernel's argument and as the dtype of arrays.

    A field's annotation is a scalar, vector or matrix type, an array type, or another struct. A class attribute of the
    same name is its default; others start as zero, and arrays as None.

    Raises:
        TypeError: A field has no type of the kernel language, or a default that does not fit.

    Example:
        >>> @wp.struct
        ... class Particle:
        ...     pos: wp.vec3
        ...     mass: float = 1.0
        >>> p = Particle(pos=wp.vec3(0.0, 1.0, 0.0))
        >>> p.mass
        1.0
    """
    if cls.__bases__ != (object,):
        raise TypeError(f"struct {cls.__name__} can't inherit; give it a field of type {cls.__bases__[0].__name__}")
    declared = dict(_annotations(cls, sys._getframe(1).f_locals))
    fields = tuple((name, _field_type(cls, name, a)) for name, a in declared.items())
    t = ir.Struct(cls.__name__, fields)
    for name in _without_annotation(cls):
        warn(
            f"struct {cls.__name__}: `{name}` has no annotation, so it is no field, and kernels don't see it; "
            f"write {name}: {_type_name(vars(cls)[name])} = {_default_text(vars(cls)[name])}"
        )
    kept = ("__module__", "__qualname__", "__doc__")
    body = {k: v for k, v in vars(cls).items() if k in kept or not k.startswith("__")}
    defaults = {name: body.pop(name) for name, _ in fields if name in body}
    members = {name: _member(name) for name, _ in fields}
    made: Any = type(cls.__name__, (StructInstance,), {**body, "__slots__": (), **members, "_ir_type_": t})
    made._defaults_ = {name: _checked(t, name, dict(fields)[name], value) for name, value in defaults.items()}
    made.__annotations__ = inspect.get_annotations(cls)
    if "vars" not in declared:  # by this name programs ask for the fields
        made.vars = {name: Parameter.of(name, a) for name, a in declared.items()}
    STRUCT_CLASSES[t] = made
    return made


def _without_annotation(cls: type) -> list[str]:
    """The numbers, vectors and matrices in a class that no annotation makes fields; constants in capitals aside."""
    names = inspect.get_annotations(cls)
    public = (n for n in vars(cls) if n not in names and not n.startswith("_") and not n.isupper())
    return [n for n in public if _is_number(vars(cls)[n]) or values.constant_of(vars(cls)[n]) is not None]


def _is_number(x: Any) -> bool:
    return type(x) in (bool, int, float)


def _type_name(x: Any) -> str:
    return type(x).__name__ if _is_number(x) else f"wp.{type(x).__name__}"


def _default_text(x: Any) -> str:
    return repr(x) if _is_number(x) else "..."


def structured_dtype(t: ir.Struct) -> np.dtype[Any]:
    """Return the NumPy dtype with the fields of ``t`` where they lie in memory."""
    formats = [_numpy_format(f) for _, f in t.fields]
    names = [name for name, _ in t.fields]
    return np.dtype({"names": names, "formats": formats, "offsets": field_offsets(t), "itemsize": size_of(t)})


def _numpy_format(field: ir.Type) -> Any:
    if isinstance(field, ir.Struct):
        return structured_dtype(field)
    if isinstance(field, ir.Array):
        return np.dtype([("data", np.uint64), *((part, np.int64, (field.ndim,)) for part in ("shape", "strides"))])
    scalar = ir.scalar_of(field)
    assert scalar is not None
    return (numpy_dtype(scalar), ir.element_shape(field))


def _member(name: str) -> property:
    return property(lambda self: self._values[name], lambda self, value: self.__setattr__(name, value))


def _annotations(cls: type, names: Any) -> Iterator[tuple[str, Any]]:
    scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    for name, annotation in inspect.get_annotations(cls).items():
        if hasattr(StructInstance, name):
            raise TypeError(f"struct {cls.__name__}: the name `{name}` is taken, call the field something else")
        meaning = annotation
        try:
            for _ in range(2):  # twice where the text itself stands in quotes
                meaning = eval(meaning, dict(scope), dict(names)) if isinstance(meaning, str) else meaning
        except Exception as error:
            message = f"struct {cls.__name__}, field `{name}`: {annotation!r} means nothing here: {error}"
            raise TypeError(message) from error
        yield name, meaning


def _field_type(cls: type, name: str, annotation: Any) -> ir.Type:
    where = f"struct {cls.__name__}, field `{name}`"
    try:
        t = values.to_ir(annotation)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    if t is None:
        raise TypeError(f"{where}: expected one concrete type, got {annotation!r}")
    if ir.is_empty(t):
        raise TypeError(f"{where}: {t} has no components, so that no field can hold it")
    return t


def _no_field(t: ir.Struct, name: str) -> str:
    names = [n for n, _ in t.fields]
    import difflib  # for messages alone

    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; it has {', '.join(names)}"
    return f"{t.name} has no field `{name}`{hint}"


def _zero(t: ir.Type) -> Any:
    if isinstance(t, (ir.Array, ir.IndexedArray)):
        return None
    if isinstance(t, ir.Scalar):
        return host_number(fitted(0, t), t)
    cls = values.from_ir(t)
    return cls._zero() if isinstance(t, ir.Struct) else cls._from_bytes(bytes(cls._nbytes_))


def _checked(owner: ir.Struct, name: str, t: ir.Type, value: Any) -> Any:
    """``value`` as field ``name`` holds it."""
    if isinstance(t, ir.Scalar):
        try:
            return host_number(fitted(value, t, f"{owner.name}.{name}: "), t)
        except (TypeError, ValueError):
            raise _mismatch(owner, name, t, value) from None
    if isinstance(t, ir.Array):
        return _checked_array(owner, name, t, value)
    elif isinstance(t, ir.IndexedArray):
        if value is None or getattr(value, "ir_type", None) == t:
            return value
    elif isinstance(t, ir.Struct):
        if isinstance(value, StructInstance) and value._ir_type_ == t:
            return value.__copy__()
    elif isinstance(value, values.Composite):
        if value._ir_type_ == t:
            return value.__copy__()
    elif value is None:
        return _zero(t)
    elif isinstance(value, (list, tuple, np.ndarray)) and _fits(value, t):
        try:
            return values.from_ir(t)(*np.asarray(value, dtype=object).ravel())
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"{owner.name}.{name}: {error}") from None
    raise _mismatch(owner, name, t, value)


def _fits(value: Any, t: ir.Type) -> bool:
    """Whether a sequence has the shape of a ``t``, or is its numbers in a row."""
    return np.shape(value) in (ir.element_shape(t), (ir.element_count(t),))


def _checked_array(owner: ir.Struct, name: str, t: ir.Array, value: Any) -> Any:
    if value is None or isinstance(value, _native.Array) or array_of is None:
        if value is None or _array_type(value) == t:
            return value
        raise _mismatch(owner, name, t, value)
    try:
        made = array_of(value, values.from_ir(t.dtype))
    except (TypeError, ValueError) as error:
        raise _mismatch(owner, name, t, value, f": {error}") from error
    if _array_type(made) != t:
        raise _mismatch(owner, name, t, made)
    return made


def _mismatch(owner: ir.Struct, name: str, t: ir.Type, value: Any, why: str = "") -> TypeError:
    given = getattr(type(value), "__name__", str(type(value)))
    if isinstance(value, _native.Array):
        given = str(_array_type(value))
    elif isinstance(getattr(value, "ir_type", None), ir.IndexedArray):
        given = str(value.ir_type)
    elif isinstance(value, (values.Composite, StructInstance)):
        given = str(value._ir_type_)
    elif isinstance(value, (bool, int, float, str)):
        given = f"{given} {value!r}"
    elif isinstance(value, (list, tuple, np.ndarray)):
        given = f"{given} of shape {np.shape(value)}"
    return TypeError(f"field `{name}` of struct {owner.name} is {t}, got {given}{why}")


def _array_type(value: Any) -> ir.Array | None:
    if not isinstance(value, _native.Array):
        return None
    dtype = values.to_ir(value.dtype)
    return None if dtype is None else ir.Array(dtype, value.ndim)


def _to_numpy(value: Any, t: ir.Type) -> Any:
    if isinstance(t, ir.IndexedArray):
        parts = (None,) * len(t.fields) if value is None else value._leaves()
        return tuple(_to_numpy(part, field) for part, (_, field) in zip(parts, t.fields, strict=True))
    if isinstance(t, ir.Struct):
        return value.numpy_value()
    if isinstance(t, ir.Array):
        none = (0,) * t.ndim
        return (0, none, none) if value is None else (value.ptr, value.shape, value.strides)
    scalar = ir.scalar_of(t)
    assert scalar is not None
    if isinstance(t, ir.Scalar):
        return bfloat.encode(float(value)) if scalar == ir.bfloat16 else value
    return np.frombuffer(value._bytes(), numpy_dtype(scalar)).reshape(ir.element_shape(t))


def _from_numpy(raw: Any, t: ir.Type, find: _Find | None) -> Any:
    if isinstance(t, (ir.Array, ir.IndexedArray)):
        return None if find is None else find(t, raw)
    if isinstance(t, ir.Struct):
        return values.from_ir(t)._from_numpy(raw, find)
    if isinstance(t, ir.Scalar):
        number = raw.item()
        return host_number(bfloat.decode(number) if t == ir.bfloat16 else number, t)
    return values.from_ir(t)._from_bytes(np.ascontiguousarray(raw).tobytes())
