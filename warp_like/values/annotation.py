"""Array annotations: what ``wp.array(dtype=float)``, ``wp.array2d[float]`` and their like give."""

from __future__ import annotations

from typing import Any

from warp_like.ir.types import Array, IndexedArray, Type, indexed_array


class ArrayAnnotation:
    """Stands for arrays of ``ndim`` dimensions of ``dtype`` in a kernel's signature; holds no memory.

    ``dtype`` is a type as the user wrote it, or ``typing.Any`` for all of them.
    """

    __slots__ = ("dtype", "ndim")
    _kind = "array"

    def __init__(self, dtype: Any = Any, ndim: int = 1) -> None:
        if not 1 <= ndim <= 4:
            raise ValueError(f"an array has 1 to 4 dimensions, got {ndim}")
        self.dtype = dtype
        self.ndim = ndim

    def of(self, dtype: Type) -> Type:
        """The IR type of such arrays with elements of ``dtype``."""
        return Array(dtype, self.ndim)

    def element_of(self, t: Type) -> Type | None:
        """The type of the elements of ``t`` where it is such an array, else None."""
        return t.dtype if isinstance(t, Array) and t.ndim == self.ndim else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayAnnotation):
            return NotImplemented
        return (type(self), self.ndim, self.dtype) == (type(other), other.ndim, other.dtype)

    def __hash__(self) -> int:
        return hash((type(self), self.ndim, self.dtype))

    def __repr__(self) -> str:
        name = "Any" if self.dtype is Any else getattr(self.dtype, "__name__", str(self.dtype))
        return f"{self._kind}(ndim={self.ndim}, dtype={name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: an annotation makes no arrays."""
        raise TypeError(f"{self!r} is an annotation; make an array with wp.zeros(), wp.empty() or wp.array(data)")


class IndexedArrayAnnotation(ArrayAnnotation):
    """Stands for indexed arrays: what ``wp.indexedarray(dtype=float)``, ``wp.indexedarray2d[float]`` give."""

    __slots__ = ()
    _kind = "indexedarray"

    def of(self, dtype: Type) -> Type:
        """The IR type of such arrays with elements of ``dtype``."""
        return indexed_array(dtype, self.ndim)

    def element_of(self, t: Type) -> Type | None:
        """The type of the elements of ``t`` where it is such an array, else None."""
        return t.dtype if isinstance(t, IndexedArray) and t.ndim == self.ndim else None
