"""Pickling by name, for kernels, functions and operators: another process finds the whole object under its name.

A name is only written where it leads to this very object, so that what is loaded is never another one of that name.
"""

from __future__ import annotations

import importlib
import operator
import pickle
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

Self = TypeVar("Self", bound="ByName")


class ByName:
    """An object that is pickled by its name, as functions are; copies of it are the object itself.

    A subclass sets ``__module__``, where it was made, and ``__qualname__``, the name of the definition that it was made
    of. The object may have another name: ``double = wp.torch_op(double_kernel)`` is found as ``double``.
    """

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        module, name = place_of(self)
        return name if module == self.__module__ else (find, (module, name))

    def __copy__(self: Self) -> Self:
        return self

    def __deepcopy__(self: Self, memo: Any) -> Self:
        return self


def calling_module() -> str:
    """Return the name of the module that called the caller."""
    name: str = sys._getframe(2).f_globals.get("__name__", "__main__")
    return name


def find(module: str, name: str) -> Any:
    """Return what a module has under a name, which may have dots."""
    return operator.attrgetter(name)(importlib.import_module(module))


def place_of(obj: Any) -> tuple[str, str]:
    """Return the module and the name under which an object is found.

    Raises:
        PicklingError: There is none.
    """
    if _is_at(obj, obj.__module__, obj.__qualname__):
        return obj.__module__, obj.__qualname__
    for module in _modules(obj.__module__):
        for name, value in list(vars(module).items()):
            if value is obj and _is_at(obj, module.__name__, name):
                return module.__name__, name
    raise pickle.PicklingError(
        f"{obj!r} can't be pickled: it is pickled by its name, and {_reason(obj)}; define it at the top level of a "
        "module, and keep it there under a name of its own"
    )


def _modules(first: str) -> Iterator[Any]:
    """The imported modules: the one of that name first, the program itself last, as other programs do not see it."""
    names = dict.fromkeys((first, *(name for name in list(sys.modules) if name != "__main__"), "__main__"))
    for name in names:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__name__", None) == name and hasattr(module, "__dict__"):
            yield module


def _is_at(obj: Any, module: str, name: str) -> bool:
    try:
        return operator.attrgetter(name)(sys.modules[module]) is obj
    except (KeyError, AttributeError):
        return False


def _reason(obj: Any) -> str:
    name = obj.__qualname__
    if name.endswith("<lambda>"):
        return "no module has a name for this lambda"
    if "<locals>" in name:
        return f"it was made inside a function (`{name}`), where other processes do not find it"
    try:
        other = operator.attrgetter(name)(sys.modules[obj.__module__])
    except (KeyError, AttributeError):
        return f"there is no `{name}` in module `{obj.__module__}`"
    return f"`{obj.__module__}.{name}` is another object, {other!r}"
