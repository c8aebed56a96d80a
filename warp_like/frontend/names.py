"""The meanings of names around a kernel: those of now, and those that were captured.

A kernel is compiled for the values that its names had. ``Names`` looks names up as they are now; ``Captured`` holds
what they meant at one moment, so that a gradient that is compiled later is that of the same values, and notices when
one of them has changed.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import types
from collections.abc import Mapping, Set
from typing import Any, ClassVar, NamedTuple

from warp_like import values
from warp_like.frontend.builtin import Builtin
from warp_like.values.struct import StructInstance

_PACKAGE = "warp_like"

MISSING = object()
"""The meaning of a name that means nothing."""

Owner = Any
"""Where a name is looked up: a dict of names, a cell of a closure, a module, a class, an object, a function."""

CELL = ""
"""The name of the content of a cell."""


class HasOwnNames:
    """A base class of objects of which kernel code takes the attributes that users give them.

    Attributes:
        INTERNAL: Attributes of an object that are not the user's.
    """

    INTERNAL: ClassVar[frozenset[str]] = frozenset()

    @property
    def own_names(self) -> dict[str, Any]:
        """The attributes that the user gave it."""
        return {n: x for n, x in vars(self).items() if n not in self.INTERNAL and not n.startswith("__")}


def is_namespace(obj: Any) -> bool:
    """Return whether kernel code may take attributes of ``obj``: a module, a class, a function, a plain object."""
    return isinstance(obj, (types.ModuleType, type, enum.Enum, HasOwnNames)) or _is_plain_object(obj)


_HOLDERS = (Mapping, Set, bytes, str, int, float, complex, list)
"""Objects that are values, or that kernel code indexes: also those of classes derived from them."""

_OF_ARRAYS = ("__array_interface__", "__cuda_array_interface__", "__array__", "__dlpack__")


def _is_plain_object(obj: Any) -> bool:
    """Whether ``obj`` is an instance of a class of the user's: no value, no container, no array, nothing of ours."""
    cls = type(obj)
    if isinstance(obj, tuple):
        return is_named_tuple(obj)
    if cls.__module__ == "builtins" or isinstance(obj, _HOLDERS) or any(hasattr(cls, name) for name in _OF_ARRAYS):
        return False
    return all(str(c.__module__).partition(".")[0] != _PACKAGE for c in cls.__mro__)


def is_named_tuple(obj: Any) -> bool:
    """Return whether ``obj`` is an instance of a named tuple."""
    return isinstance(obj, tuple) and hasattr(type(obj), "_fields") and hasattr(type(obj), "_make")


class Names:
    """Looks names up as they are now."""

    def look_up(self, owner: Owner, name: str) -> Any:
        """Return what ``name`` means in ``owner``, or ``MISSING``."""
        if isinstance(owner, Mapping):
            return owner.get(name, MISSING)
        if isinstance(owner, HasOwnNames):
            return owner.own_names.get(name, MISSING)
        if not isinstance(owner, types.CellType):
            return getattr(owner, name, MISSING)
        try:
            return owner.cell_contents
        except ValueError:  # captured, but assigned only later
            return MISSING

    def held(self, owner: Owner) -> Mapping[str, Any]:
        """Return the names in ``owner`` that mean something else here than they do now."""
        return {}


NOW = Names()


class Found(NamedTuple):
    """The captured meaning of a name.

    Attributes:
        owner: Where it was looked up.
        name: The name.
        meaning: A copy, where it can be changed in place; or ``MISSING``.
        checks: Where to look, to see whether the name still means the same.
    """

    owner: Owner
    name: str
    meaning: Any
    checks: list[tuple[Any, ...]]


class Recording(Names):
    """Looks names up as ``base`` does, and records what it finds: the first meaning stays.

    Another thread may change a value meanwhile. So what is described and compiled is the copy, and what is compared
    later is what was there before it was made.
    """

    def __init__(self, base: Names) -> None:
        self.base = base
        self.found: dict[tuple[int, str], Found] = {}

    def look_up(self, owner: Owner, name: str) -> Any:
        """Return what ``name`` means in ``owner``, or ``MISSING``."""
        if is_package(owner) and name not in vars(owner) and name not in owner._LOADED_WHEN_USED:
            return Builtin(name)  # asking the package for it would load the table of builtins
        key = id(owner), name
        if key in self.found:
            return self.found[key].meaning
        found = self.base.look_up(owner, name)
        if _never_changes(owner, name, found):
            return found
        checks = [_check(owner, name, found), *_content_checks(found)]
        self.found[key] = Found(owner, name, copied(found), checks)
        return self.found[key].meaning

    def held(self, owner: Owner) -> Mapping[str, Any]:
        """Return the names in ``owner`` that mean something else here than they do now."""
        return self.base.held(owner)


class Captured(Names):
    """The meanings, at one moment, of the names that a kernel reaches.

    Attributes:
        meanings: For each name a text that says what it means; equal texts mean equal code.
        places: The same for where the definitions stand, which changes code that names its lines.
    """

    def __init__(
        self, meanings: tuple[tuple[str, str], ...], places: tuple[tuple[str, str], ...], names: Recording
    ) -> None:
        self.meanings = meanings
        self.places = places
        self._found = names.found

    def look_up(self, owner: Owner, name: str) -> Any:
        """Return what ``name`` meant in ``owner``, or ``MISSING``."""
        key = id(owner), name
        return self._found[key].meaning if key in self._found else NOW.look_up(owner, name)

    def held(self, owner: Owner) -> Mapping[str, Any]:
        """Return the names in ``owner`` with what they meant, where that was recorded and is something."""
        here = (found for found in self._found.values() if found.owner is owner)
        return {found.name: found.meaning for found in here if found.meaning is not MISSING}

    def checks(self) -> list[tuple[Any, ...]]:
        """Return where to look, to see whether the names surely mean the same still: as a native ``Watch`` takes it."""
        return [check for found in self._found.values() for check in found.checks]

    def changed(self, now: Captured) -> str:
        """Return the names that mean something else ``now``, for a message."""
        before = dict(self.meanings)
        found = (re.sub(r".*#\d+\.", "", name) for name, text in now.meanings if before.get(name) != text)
        return " and ".join(dict.fromkeys(f"`{name}`" for name in found))


def follow(names: Names, obj: Any, attributes: tuple[str, ...]) -> tuple[Any, int]:
    """Take attributes of a Python object until it is a value or lacks one; also return how many."""
    for used, name in enumerate(attributes):
        if not is_namespace(obj):
            return obj, used
        obj = names.look_up(obj, name)
        if obj is MISSING:
            return MISSING, used + 1
    return obj, len(attributes)


def dotted(node: ast.AST) -> tuple[str, ...] | None:
    """Return a name and the attributes taken of it, ``a.b.c``, part by part; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else None


def is_package(obj: Any) -> bool:
    """Return whether ``obj`` is this package, the ``wp`` of programs."""
    return isinstance(obj, types.ModuleType) and obj.__name__ == _PACKAGE


_USUAL_NAMES = ("wp", "warp", _PACKAGE)
"""Of this package in modules: programs import it by these, and bind them to nothing else."""


def _never_changes(owner: Owner, name: str, found: Any) -> bool:
    """Whether nobody has to look again: names of this package, the members of an enum, and their plain values."""
    if is_package(owner):
        return True
    if is_package(found):
        return isinstance(owner, dict) and name in _USUAL_NAMES
    if isinstance(owner, enum.EnumMeta):
        return isinstance(found, owner) and owner.__members__.get(name) is found
    is_value = isinstance(owner, enum.Enum) and name == "value" and isinstance(found, (int, float, str))
    return is_value and inspect.getattr_static(type(owner), name) is enum.Enum.__dict__[name]


# --- values that can be changed in place ---


def copied(value: Any) -> Any:
    """Return ``value``, or a copy of one that can be changed in place."""
    if isinstance(value, list):
        return [copied(x) for x in value]
    if isinstance(value, tuple):
        items = [copied(x) for x in value]
        return type(value)._make(items) if is_named_tuple(value) else tuple(items)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {key: copied(x) for key, x in value.items()}
    return value.__copy__() if isinstance(value, (values.Composite, StructInstance)) else value


# --- what a Watch looks at ---


def _check(owner: Owner, name: str, found: Any) -> tuple[Any, ...]:
    given = () if found is MISSING else (found,)
    if isinstance(owner, types.CellType):
        return ("cell", owner, *given)
    if isinstance(owner, HasOwnNames) or (isinstance(owner, types.ModuleType) and name in vars(owner)):
        owner = vars(owner)
    return ("item" if isinstance(owner, dict) else "attribute", owner, name, *given)


def _content_checks(value: Any) -> list[tuple[Any, ...]]:
    """Whether a value that can be changed in place still holds what it does now."""
    if isinstance(value, values.Composite):
        return [("bytes", value, value._bytes())]
    if isinstance(value, StructInstance):
        return _content_checks(value._values)
    if isinstance(value, dict):
        pairs = tuple(value.items())
        checks: list[tuple[Any, ...]] = [("dict", value, pairs)]
        inner = tuple(x for _, x in pairs)
    elif isinstance(value, (list, tuple)):
        inner = tuple(value)
        checks = [("list", value, inner)] if isinstance(value, list) else []
    else:
        return []
    return checks + [check for x in inner for check in _content_checks(x)]
