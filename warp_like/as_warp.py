"""Runs programs written for Warp as they are: after ``import warp_like.as_warp``, ``import warp`` imports this package.

The same from the command line, with the program's own arguments after it: ``python -m warp_like.as_warp program.py``,
or ``python -m warp_like.as_warp -m package.module``.

``warp`` and its modules (``warp.types``, ``warp.utils``) are then other names of ``warp_like`` and its modules. Modules
that do not exist here, such as ``warp.fem`` and Warp's private ``warp._src``, raise ``ModuleNotFoundError``.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import warp_like

WARP, OURS = "warp", "warp_like"


class _Same(Loader):
    """Loads a module of Warp: the one of this package with that name."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(OURS + module.__name__.removeprefix(WARP))


class _Finder(MetaPathFinder):
    """Finds ``warp`` and its modules, before any other finder does."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        top, _, rest = name.partition(".")
        exists = top == WARP and (not rest or PathFinder.find_spec(f"{OURS}.{rest}", path) is not None)
        return ModuleSpec(name, _Same()) if exists else None


def install() -> None:
    """Let ``warp`` mean this package from now on; importing this module does it.

    Raises:
        ImportError: Another ``warp`` has been imported already.
    """
    other = sys.modules.get(WARP)
    if other not in (None, warp_like):
        raise ImportError(
            f"another `warp` is imported already, from {getattr(other, '__file__', None)}; "
            "import warp_like.as_warp before it"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def main(arguments: Sequence[str]) -> None:
    """Run a program, a file or a module, as ``python`` does."""
    if list(arguments) in ([], ["-m"]):
        raise SystemExit("usage: python -m warp_like.as_warp (PROGRAM.py | -m MODULE) [ARGUMENT ...]")
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


install()

if __name__ == "__main__":
    main(sys.argv[1:])
