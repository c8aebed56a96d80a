"""Immutable records compared by content: frozen dataclasses whose methods are inherited, not generated.

``dataclasses`` compiles half a dozen methods for each class when its module is imported, which is most of what
importing small modules costs. Here the classes that every process needs share theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Stand in for the marker that only type checkers read."""
        return lambda cls: cls


_F = TypeVar("_F", bound="Frozen")


@dataclass_transform(frozen_default=True)
class Frozen:
    """Base of records: the annotations of a subclass are its fields, class attributes of the same name their defaults.

    Example:
        >>> class Point(Frozen):
        ...     x: float
        ...     y: float = 0.0
        >>> Point(1.0), Point(1.0) == Point(1.0, y=0.0)
        (Point(x=1.0, y=0.0), True)
    """

    __slots__ = ("__dict__", "__weakref__", "_hash")
    _fields_: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:
        _hash: ClassVar[int]

    def __init_subclass__(cls) -> None:
        cls._fields_ += tuple(cls.__annotations__)
        cls.__match_args__ = cls._fields_  # type: ignore[misc, attr-defined]

    def __init__(self, *args: Any, **given: Any) -> None:
        values, names = self.__dict__, self._fields_
        values.update(zip(names, args))  # noqa: B905 (too many are refused below)
        if len(args) == len(names) and not given:
            return
        for name in names[len(args) :]:
            if name in given:
                values[name] = given.pop(name)
            elif hasattr(type(self), name):
                values[name] = getattr(type(self), name)
            else:
                raise TypeError(f"{type(self).__name__}() lacks `{name}`")
        if given or len(args) > len(names):
            raise TypeError(f"{type(self).__name__}() takes {', '.join(names)}; got {len(args)} and {list(given)}")

    def replace(self: _F, **changes: Any) -> _F:
        """Return the record with other values for some fields."""
        return type(self)(**dict(zip(self._fields_, self.as_tuple(), strict=True)) | changes)

    def as_tuple(self) -> tuple[Any, ...]:
        """Return the values in the order of the fields."""
        values = self.__dict__
        return tuple([values[name] for name in self._fields_])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return False
        mine, others = self.__dict__, other.__dict__
        if len(mine) == len(others) == len(self._fields_):
            return mine == others
        return self.as_tuple() == other.as_tuple()  # one of them holds a cached property, too

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash((type(self), self.as_tuple()))
            object.__setattr__(self, "_hash", found)
            return found

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in zip(self._fields_, self.as_tuple(), strict=True)]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:  # without the hash, which is another in every process
        return type(self), self.as_tuple()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: `{name}` can't be assigned")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: `{name}` can't be deleted")
