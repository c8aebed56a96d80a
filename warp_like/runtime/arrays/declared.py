"""Annotations that are arrays: ``wp.array(dtype=float, ndim=2)`` is an instance of ``wp.array`` without elements.

Programs written for Warp use such objects as descriptions of arrays: they ask ``isinstance(x, wp.array)``, read
``dtype`` and ``ndim``, and set ``shape`` to what the array is to have, names of extents included. A set attribute
describes; the memory stays empty.
"""

from __future__ import annotations

from typing import Any

from warp_like.values import ArrayAnnotation


def _settable(name: str, doc: str) -> property:
    def get(self: Any) -> Any:
        own = self.__dict__
        return own[name] if name in own else getattr(super(Declared, self), name)

    def set_to(self: Any, value: Any) -> None:
        self.__dict__[name] = value

    return property(get, set_to, doc=doc)


class Declared:
    """The part of an array's class that makes its instances annotations; stands before the array's own class."""

    __slots__ = ()
    shape = _settable("shape", "The extents: zeros, until they are set.")
    strides = _settable("strides", "The strides: zeros, until they are set.")
    dtype = _settable("dtype", "The type of the elements; ``typing.Any`` and its like for generic ones.")
    ndim = _settable("ndim", "The number of dimensions, or ``typing.Any``.")

    def _declare(self, made: ArrayAnnotation) -> None:
        """Take over what ``made`` says."""
        zeros = (0,) * (made.ndim if isinstance(made.ndim, int) else 1)
        self.__dict__.update(dtype=made.dtype, ndim=made.ndim, shape=zeros, strides=zeros)

    def _means(self) -> ArrayAnnotation:
        """What it means in a signature."""
        return ArrayAnnotation(self.dtype, self.ndim)

    _annotation_: Any = property(lambda self: self._means())

    def __eq__(self, other: object) -> bool:
        return self._annotation_ == getattr(other, "_annotation_", other)

    def __hash__(self) -> int:
        return hash(self._annotation_)

    def __repr__(self) -> str:
        return repr(self._annotation_)

    __str__ = __repr__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: an annotation makes no arrays."""
        raise TypeError(f"{self!r} is an annotation; make an array with wp.zeros(), wp.empty() or wp.array(data)")

    def __reduce__(self) -> tuple[Any, ...]:
        return declared, (type(self), self._annotation_), dict(self.__dict__)

    def __copy__(self) -> Any:
        made = declared(type(self), self._annotation_)
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()


def declared(cls: type, annotation: ArrayAnnotation) -> Any:
    """Return an instance of ``cls``, a class with ``Declared`` in front, that means ``annotation``."""
    made = cls._made(annotation)  # type: ignore[attr-defined]
    made._declare(annotation)
    return made
