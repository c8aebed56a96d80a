"""Options of modules and kernels: settings that one module or one kernel has for itself.

The rows of ``base.settings`` say what there is. What a kernel does not set, its module decides; what the module does
not set, ``wp.config`` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from warp_like.base.settings import SETTINGS, Setting, checked, settings

OPTIONS: dict[str, Setting] = {s.name: s for s in SETTINGS if s.compiles or s.name in ("enable_backward", "block_dim")}
"""The settings that a module or a kernel may have for itself, by name."""


def checked_options(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return options with their values checked; those that are None, which leave a choice open, are left out.

    Args:
        given: Options by name.
        what: Whose options they are, for messages.

    Raises:
        ValueError: There is no such option, or it can't have that value.
        TypeError: The value is of another type.
    """
    return {name: checked(_setting(name, what), value) for name, value in given.items() if value is not None}


def _setting(name: str, what: str) -> Setting:
    found = OPTIONS.get(name)
    if found is None:
        import difflib  # for messages alone

        near = difflib.get_close_matches(str(name), OPTIONS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"they are {', '.join(OPTIONS)}"
        raise ValueError(f"{what} has no option `{name}`; {hint}")
    return found


class ModuleOptions(MutableMapping[str, Any]):
    """The options of a module: reading one gives what its kernels compile with, deleting one gives it back to config.

    ``changed`` is called after each change.
    """

    def __init__(self, module: str, changed: Callable[[], None]) -> None:
        self._what = f"module `{module}`"
        self._changed = changed
        self._own: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in OPTIONS:
            raise KeyError(name)
        return self._own[name] if name in self._own else getattr(settings, name)

    def __setitem__(self, name: str, value: Any) -> None:
        _setting(name, self._what)
        if value is None:
            self._own.pop(name, None)
        else:
            self._own.update(checked_options({name: value}, self._what))
        self._changed()

    def __delitem__(self, name: str) -> None:
        self[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter(OPTIONS)

    def __len__(self) -> int:
        return len(OPTIONS)

    def __repr__(self) -> str:
        return repr(dict(self))
