"""Annotations: what ``wp.array(dtype=float)``, ``wp.array2d[float]``, ``wp.ref[float]`` and their like give."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from warp_like.base.contract import MAX_DIMS
from warp_like.base.frozen import Frozen
from warp_like.ir.types import Array, IndexedArray, Type, bool_, float32, indexed_array, int32
from warp_like.values.dtypes import SCALAR_CLASSES

_OF_PYTHON = {int: SCALAR_CLASSES[int32], float: SCALAR_CLASSES[float32], bool: SCALAR_CLASSES[bool_]}


def _warp_type(annotation: Any) -> Any:
    return _OF_PYTHON.get(annotation, annotation) if isinstance(annotation, type) else annotation


class ArrayAnnotation:
    """Stands for arrays of ``ndim`` dimensions of ``dtype`` in a kernel's signature; holds no memory.

    ``dtype`` is a type, or ``typing.Any`` for all of them; so may be ``ndim``, for 1 to 8. Python's ``float``, ``int``
    and ``bool`` become ``wp.float32``, ``wp.int32`` and ``wp.bool``.
    """

    __slots__ = ("dtype", "ndim")
    _kind = "array"

    def __init__(self, dtype: Any = Any, ndim: Any = 1) -> None:
        if get_origin(ndim) is Literal:  # for type checkers: wp.array[float, Literal[2]]
            (ndim,) = get_args(ndim)
        if ndim is not Any and not 1 <= ndim <= MAX_DIMS:
            raise ValueError(f"an array has 1 to {MAX_DIMS} dimensions, got {ndim}")
        self.dtype = _warp_type(dtype)
        self.ndim = ndim

    def of(self, dtype: Type) -> Type:
        """The IR type of such arrays with elements of ``dtype``."""
        return Array(dtype, self.ndim)

    def element_of(self, t: Type) -> Type | None:
        """The type of the elements of ``t`` where it is such an array, else None."""
        return t.dtype if isinstance(t, Array) and self.ndim in (Any, t.ndim) else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayAnnotation):
            return NotImplemented
        return (type(self), self.ndim, self.dtype) == (type(other), other.ndim, other.dtype)

    def __hash__(self) -> int:
        return hash((type(self), self.ndim, self.dtype))

    def __repr__(self) -> str:
        name = "Any" if self.dtype is Any else getattr(self.dtype, "__name__", str(self.dtype))
        return f"{self._kind}(ndim={'Any' if self.ndim is Any else self.ndim}, dtype={name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: an annotation makes no arrays."""
        raise TypeError(f"{self!r} is an annotation; make an array with wp.zeros(), wp.empty() or wp.array(data)")


class FixedArrayAnnotation(ArrayAnnotation):
    """Stands for arrays that kernels make: what ``wp.fixedarray(shape=(3,), dtype=float)`` gives.

    ``shape`` is a tuple of positive numbers, or one of them for one dimension.
    """

    __slots__ = ("shape",)
    _kind = "fixedarray"

    def __init__(self, dtype: Any = Any, shape: int | tuple[int, ...] = 1) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if not all(type(n) is int and n > 0 for n in self.shape):
            raise ValueError(f"the shape of a fixedarray is made of positive numbers, got {shape!r}")
        super().__init__(dtype, len(self.shape))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) is True and isinstance(other, FixedArrayAnnotation) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.shape))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, shape={self.shape})"


class IndexedArrayAnnotation(ArrayAnnotation):
    """Stands for indexed arrays: what ``wp.indexedarray(dtype=float)``, ``wp.indexedarray2d[float]`` give."""

    __slots__ = ()
    _kind = "indexedarray"

    def of(self, dtype: Type) -> Type:
        """The IR type of such arrays with elements of ``dtype``."""
        return indexed_array(dtype, self.ndim)

    def element_of(self, t: Type) -> Type | None:
        """The type of the elements of ``t`` where it is such an array, else None."""
        return t.dtype if isinstance(t, IndexedArray) and self.ndim in (Any, t.ndim) else None


class Parameter(Frozen):
    """A name with its type: a parameter of a kernel or function, a field of a struct.

    Attributes:
        label: The name.
        type: A class, or an annotation of an array.
    """

    label: str
    type: Any

    @classmethod
    def of(cls, label: str, annotation: Any) -> Parameter:
        """The one that ``annotation`` declares: ``wp.float32`` for Python's ``float``, and so on."""
        return cls(label, _warp_type(annotation))


class ref:
    """``wp.ref[T]`` in the signature of a function: what the function assigns to the parameter, its caller sees.

    The argument is a variable, an element of an array, or a component or field of one. It is read when the function is
    called and written when the function has returned, if the function's code assigns the parameter anywhere: two
    threads must not be given one element.

    Example:
        >>> @wp.func
        ... def advance(x: wp.ref[float], v: wp.ref[float], dt: float):
        ...     v -= 9.81 * dt
        ...     x += v * dt
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __class_getitem__(cls, dtype: Any) -> ref:
        return cls(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ref) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((ref, self.dtype))

    def __repr__(self) -> str:
        return f"wp.ref[{getattr(self.dtype, '__name__', self.dtype)}]"
