"""Array annotations: what ``wp.array(dtype=float)``, ``wp.array2d[float]`` and their like give."""

from __future__ import annotations

import typing
from typing import Any


class ArrayAnnotation:
    """Stands for arrays of ``ndim`` dimensions of ``dtype`` in a kernel's signature; holds no memory.

    ``dtype`` is a type as the user wrote it, or ``typing.Any`` for all of them.
    """

    __slots__ = ("dtype", "ndim")

    def __init__(self, dtype: Any = Any, ndim: int = 1) -> None:
        if not 1 <= ndim <= 4:
            raise ValueError(f"an array has 1 to 4 dimensions, got {ndim}")
        self.dtype = dtype
        self.ndim = ndim

    @property
    def is_generic(self) -> bool:
        """True when arrays of several dtypes fit."""
        return self.dtype is Any or isinstance(self.dtype, typing.TypeVar)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayAnnotation):
            return NotImplemented
        return (self.ndim, self.dtype) == (other.ndim, other.dtype)

    def __hash__(self) -> int:
        return hash((ArrayAnnotation, self.ndim, self.dtype))

    def __repr__(self) -> str:
        name = "Any" if self.dtype is Any else getattr(self.dtype, "__name__", str(self.dtype))
        return f"array(ndim={self.ndim}, dtype={name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: an annotation makes no arrays."""
        raise TypeError(f"{self!r} is an annotation; make an array with wp.zeros(), wp.empty() or wp.array(data)")
