"""Options of modules and kernels: settings that one module or one kernel has for itself.

The rows of ``base.settings`` say what there is. What a kernel does not set, its module decides; what the module does
not set, ``wp.config`` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from warp_like.base.settings import ACCEPTED, SETTINGS, Setting, checked, settings

OPTIONS: dict[str, dict[str, Setting]] = {
    level: {s.name: s for s in (*SETTINGS, *ACCEPTED) if s.is_for(level)} for level in ("module", "kernel")
}
"""The settings that a module, and those that a kernel may have for itself, by name."""

_OTHER_NAMES = {"cuda_max_registers": "max_registers"}  # what Warp's decorator of kernels calls them


def checked_block_dim(subject: str, block_dim: Any) -> int | None:
    """Return the threads of a block that a launch of ``subject`` asks for; None for what it gets by itself.

    Raises:
        TypeError: It is no number.
        ValueError: It is more than 1024.
    """
    if block_dim is not None and (isinstance(block_dim, bool) or not isinstance(block_dim, int)):
        raise TypeError(f"{subject}: block_dim takes an int, got {type(block_dim).__name__} {block_dim!r}")
    if block_dim is not None and block_dim > 1024:
        raise ValueError(f"{subject}: a block has 1 to 1024 threads, got block_dim={block_dim}")
    return block_dim if block_dim is not None and block_dim > 0 else None


class OwnOptions(MutableMapping[str, Any]):
    """The options that a kernel has for itself, a mapping. Assigning checks, and None leaves the choice to the module.

    Args:
        level: Whose options they are: `kernel` or `module`.
        name: Its name, for messages.
        changed: Called when one has another value.
    """

    def __init__(self, level: str, name: str, changed: Callable[[], None]) -> None:
        self._what = f"{level} `{name}`"
        self._settings = OPTIONS[level]
        self._changed = changed
        self._own: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._own[_OTHER_NAMES.get(name, name)]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, given: Any = (), /, **more: Any) -> None:
        """Set several options.

        Raises:
            ValueError: There is no such option, or it can't have that value.
            TypeError: The value is of another type.
        """
        options: dict[str, Any] = dict(given, **more)
        values = {_OTHER_NAMES.get(name, name): value for name, value in options.items()}
        checked_values = {
            n: value if value is None else checked(self._setting(n), value) for n, value in values.items()
        }
        own = {name: v for name, v in (self._own | checked_values).items() if v is not None}
        if own != self._own:
            self._own = own
            self._changed()

    def __delitem__(self, name: str) -> None:
        del self._own[_OTHER_NAMES.get(name, name)]
        self._changed()

    def clear(self) -> None:
        """Leave all choices to the module, those of a module to ``wp.config``."""
        self._own = {}
        self._changed()

    def copy(self) -> dict[str, Any]:
        """The options as a dict of their own."""
        return dict(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def __repr__(self) -> str:
        return repr(dict(self))

    def _setting(self, name: str) -> Setting:
        found = self._settings.get(name)
        if found is None:
            import difflib  # for messages alone

            near = difflib.get_close_matches(str(name), self._settings, n=1)
            names = ", ".join(n for n in self._settings if all(n != s.name for s in ACCEPTED))
            hint = f"did you mean `{near[0]}`?" if near else f"they are {names}"
            raise ValueError(f"{self._what} has no option `{name}`; {hint}")
        return found


class ModuleOptions(OwnOptions):
    """The options of a module: reading one gives what holds, deleting one gives it back to ``wp.config``."""

    def __init__(self, module: str, changed: Callable[[], None]) -> None:
        super().__init__("module", module, changed)

    def __getitem__(self, name: str) -> Any:
        setting = self._settings[name]
        return self._own[name] if name in self._own else getattr(settings, name, setting.default)

    def __delitem__(self, name: str) -> None:
        self[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)
