"""The types of the IR.

Types are small frozen values that hold no analysis facts. Vectors, matrices and structs stay whole in the IR until the
backend lowers them. Equal types are one object: passes compare types and look them up for each op.
"""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from warp_like.base.frozen import Frozen

_T = TypeVar("_T", bound="Type")

_made: dict[tuple[Any, ...], Any] = {}
"""All types, by class and fields. They stay: programs have few."""


class Type(Frozen):
    """Base of all IR types. To make one that there is gives the same object."""

    def __new__(cls: type[_T], *args: Any, **given: Any) -> _T:
        found: _T | None = None if given else _made.get((cls, args))
        if found is not None:
            return found
        new = object.__new__(cls)
        Frozen.__init__(new, *args, **given)
        fields = new.__dict__
        for name, value in fields.items():
            fields[name] = _plain(value)
        made: _T = _made.setdefault((cls, new.as_tuple()), new)  # another thread may have been faster
        if not given:
            _made[cls, args] = made  # without the fields that have defaults, it is found as quickly
        return made

    def __init__(self, *args: Any, **given: Any) -> None:
        pass  # `__new__` has set the fields, which may be those of a type that others use

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def _plain(value: Any) -> Any:
    """Return a field with NumPy's integers as those of Python: equal types have one text, whichever came first."""
    if isinstance(value, tuple):
        return tuple([_plain(v) for v in value])
    return value if isinstance(value, (str, Type)) else int(operator.index(value))


class Scalar(Type):
    """A number: ``kind`` is ``bool``, ``int``, ``uint``, ``float`` or ``bfloat``; ``bits`` its width in memory."""

    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "bfloat")

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, false for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    def __str__(self) -> str:
        return "bool" if self.kind == "bool" else f"{self.kind}{self.bits}"


bool_ = Scalar("bool", 8)
int8 = Scalar("int", 8)
uint8 = Scalar("uint", 8)
int16 = Scalar("int", 16)
uint16 = Scalar("uint", 16)
int32 = Scalar("int", 32)
uint32 = Scalar("uint", 32)
int64 = Scalar("int", 64)
uint64 = Scalar("uint", 64)
float16 = Scalar("float", 16)
bfloat16 = Scalar("bfloat", 16)
float32 = Scalar("float", 32)
float64 = Scalar("float", 64)

SCALARS: tuple[Scalar, ...] = (
    bool_,
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
"""Every scalar type, in the order of the codes that ``base.contract.Scalar`` gives them."""

INTS = tuple(t for t in SCALARS if t.is_int)
FLOATS = tuple(t for t in SCALARS if t.is_float)


class Vec(Type):
    """A vector of ``length`` scalars."""

    length: int
    dtype: Scalar

    def __str__(self) -> str:
        return f"vec{self.length}[{self.dtype}]"


class Mat(Type):
    """A matrix of ``rows`` by ``cols`` scalars, row-major."""

    rows: int
    cols: int
    dtype: Scalar

    def __str__(self) -> str:
        return f"mat{self.rows}x{self.cols}[{self.dtype}]"


class Quat(Type):
    """A quaternion stored as ``x, y, z, w``."""

    dtype: Scalar

    def __str__(self) -> str:
        return f"quat[{self.dtype}]"


class Transform(Type):
    """A rigid transformation: a translation ``p`` of three numbers, then a rotation ``q``, a quaternion."""

    dtype: Scalar

    @property
    def parts(self) -> dict[str, tuple[range, Type]]:
        """The parts by name: which components they are, and of which type."""
        return {"p": (range(3), Vec(3, self.dtype)), "q": (range(3, 7), Quat(self.dtype))}

    def __str__(self) -> str:
        return f"transform[{self.dtype}]"


class Tile(Type):
    """A block of values of ``dtype``, of 1 to 4 dimensions, that a kernel computes with as a whole.

    It is a value like a matrix: whatever changes a tile makes a new one. Its components are those of its elements.
    """

    shape: tuple[int, ...]
    dtype: Type

    def __str__(self) -> str:
        return f"tile{list(self.shape)} of {self.dtype}"


class Struct(Type):
    """A record of named fields."""

    name: str
    fields: tuple[tuple[str, Type], ...]

    def field_type(self, name: str) -> Type | None:
        """Return the type of field ``name``, or None when there is no such field."""
        return dict(self.fields).get(name)

    def __str__(self) -> str:
        return f"struct {self.name}"


class Array(Type):
    """An array of ``ndim`` dimensions with elements of any type that has a layout."""

    dtype: Type
    ndim: int

    def __str__(self) -> str:
        return f"array{self.ndim}d[{self.dtype}]"


class IndexedArray(Struct):
    """An array seen through arrays of indices: element ``i, j`` is ``data[index0[i], index1[j]]``.

    It is a struct of these arrays to all but the frontend, which gives it the syntax of an array.
    """

    @property
    def data(self) -> Array:
        """The type of the array that is indexed."""
        t = self.fields[0][1]
        assert isinstance(t, Array)
        return t

    @property
    def dtype(self) -> Type:
        """The type of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.data.ndim

    def __str__(self) -> str:
        return self.name


def indexed_array(dtype: Type, ndim: int) -> IndexedArray:
    """Return the type of indexed arrays of ``ndim`` dimensions of ``dtype``."""
    indices = ((f"index{axis}", Array(int32, 1)) for axis in range(ndim))
    return IndexedArray(f"indexedarray{ndim}d[{dtype}]", (("data", Array(dtype, ndim)), *indices))


class TileStack(Struct):
    """A stack of values, which the threads of a block have together: a tile, and how many of its elements it holds.

    It is a struct of these to all but the frontend, which changes it through builtins alone.
    """

    @property
    def elements(self) -> Tile:
        """The type of the tile."""
        t = self.fields[0][1]
        assert isinstance(t, Tile)
        return t

    def __str__(self) -> str:
        return self.name


def tile_stack(capacity: int, dtype: Type) -> TileStack:
    """Return the type of stacks of at most ``capacity`` values of ``dtype``."""
    return TileStack(f"tile_stack[{capacity}] of {dtype}", (("elements", Tile((capacity,), dtype)), ("count", int32)))


class Lanes(Type):
    """One value of ``of`` for each of ``width`` threads that run side by side; ``passes.spmd`` makes values of it.

    Arrays of lanes are the lanes' own, and lie element by element side by side. Those that are ``scattered`` may be any
    arrays in memory: several lanes may have the same one, and others may be parts of it.
    """

    of: Type
    width: int
    scattered: bool = False

    def __str__(self) -> str:
        return f"{'scattered ' * self.scattered}{self.of} x {self.width}"


def lane_type(t: Type) -> Type:
    """Return the type of one lane: ``t`` itself unless it is ``Lanes``."""
    return t.of if isinstance(t, Lanes) else t


def is_private(t: Type) -> bool:
    """Return whether arrays of ``t`` are the lanes' own: one for each, which no other lane can reach."""
    return isinstance(t, Lanes) and not t.scattered


def is_scattered(t: Type) -> bool:
    """Return whether arrays of ``t`` are one for each lane, which may be any in memory."""
    return isinstance(t, Lanes) and t.scattered


Aggregate = (Vec, Mat, Quat, Transform)
"""The types whose elements all have one scalar type, and that memory can hold."""


def element_shape(t: Type) -> tuple[int, ...]:
    """Return the dimensions of the components of ``t``: ``()``, ``(n,)`` or ``(rows, cols)``, of tiles more."""
    match t:
        case Vec(length, _):
            return (length,)
        case Mat(rows, cols, _):
            return (rows, cols)
        case Quat():
            return (4,)
        case Transform():
            return (7,)
        case Tile(shape, dtype):
            return (*shape, *element_shape(dtype))
    return ()


def is_empty(t: Type) -> bool:
    """Return whether ``t`` is a vector or matrix without components, made by slices such as ``v[1:1]``."""
    return isinstance(t, (Vec, Mat)) and element_count(t) == 0


def element_count(t: Type) -> int:
    """Return the number of scalars in a value of ``t``."""
    if type(t) is Scalar:
        return 1
    count = 1
    for n in element_shape(t):
        count *= n
    return count


MOST_IN_REGISTERS = 64
"""The most components of an aggregate whose components are registers of their own. Code for more of them is made of
loops over memory, so that its size does not follow their number."""


def is_large(t: Type) -> bool:
    """Return whether a value of ``t`` lives in memory: a tile, or a vector or matrix of many components."""
    return isinstance(t, Tile) or (isinstance(t, (Vec, Mat)) and element_count(t) > MOST_IN_REGISTERS)


def scalar_of(t: Type) -> Scalar | None:
    """Return the scalar type that ``t`` is or is made of; None for structs and arrays."""
    if isinstance(t, Scalar):
        return t
    if isinstance(t, Tile):
        return scalar_of(t.dtype)
    if isinstance(t, Aggregate):
        return t.dtype
    return None


def with_scalar(t: Type, dtype: Scalar) -> Type:
    """Return ``t`` with its scalar type replaced by ``dtype``."""
    match t:
        case Scalar():
            return dtype
        case Vec(length, _):
            return Vec(length, dtype)
        case Mat(rows, cols, _):
            return Mat(rows, cols, dtype)
        case Quat():
            return Quat(dtype)
        case Transform():
            return Transform(dtype)
        case Tile(shape, element):
            return Tile(shape, with_scalar(element, dtype))
    raise TypeError(f"{t} has no single scalar type")


def component_type(t: Type, indices: int) -> Type:
    """Return the type of what so many indices name in a ``t``: a component, a row, an element of a tile.

    Raises:
        TypeError: They name nothing that has a type.
    """
    match t:
        case Tile(shape, dtype) if indices > len(shape):
            return component_type(dtype, indices - len(shape))
        case Tile(shape, dtype):
            return dtype if indices == len(shape) else Tile(shape[indices:], dtype)
        case Mat(_, cols, dtype) if indices == 1:
            return Vec(cols, dtype)
    scalar = scalar_of(t)
    if scalar is None or indices != len(element_shape(t)):
        raise TypeError(f"{t} has no part that {indices} indices name")
    return scalar


def adjoint_type(t: Type) -> Type:
    """Return the type of the array that collects the adjoint of a kernel's parameter: for a value, one element."""
    return t if isinstance(t, Array) else Array(t, 1)


def is_differentiable(t: Type) -> bool:
    """Return whether a value of ``t`` carries a gradient."""
    if isinstance(t, Struct):
        return any(is_differentiable(f) for _, f in t.fields)
    if isinstance(t, Array):
        return is_differentiable(t.dtype)
    s = scalar_of(t)
    return s is not None and s.is_float


def leaf_fields(t: Struct, prefix: str = "") -> list[tuple[str, Type]]:
    """Return the fields of ``t`` that are no structs, nested ones in place, as dotted path and type."""
    found: list[tuple[str, Type]] = []
    for name, field in t.fields:
        path = f"{prefix}{name}"
        found += leaf_fields(field, f"{path}.") if isinstance(field, Struct) else [(path, field)]
    return found


def holds_arrays(t: Type) -> bool:
    """Return whether ``t`` is an array or a struct with an array in it."""
    return isinstance(t, Array) or (isinstance(t, Struct) and any(holds_arrays(f) for _, f in t.fields))
