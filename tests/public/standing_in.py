"""What public packages touch while they are imported and warp_like lacks: stand-ins, for the harness alone.

``imported`` imports a package with ``warp`` as another name of warp_like. Names of missing subsystems exist until the
import is over: packages use them in annotations and call them at module level. A kernel that uses one afterwards is
refused as it is for users, and one that takes an object of a missing class has a parameter of a ``StandIn`` type.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
import tempfile
import types
import weakref
from collections.abc import Iterator
from typing import Any

import warp_like as wp
import warp_like.as_warp
from tests.public.packages import FOLDER
from warp_like.base.missing_names import MISSING
from warp_like.runtime.kernels import kernel as kernels

SKIPPED = ("test", "tests", "examples", "benchmark", "testdata")
"""Modules of a package that are programs of their own, or need what only its developers have."""


class Declared(weakref.WeakSet):  # type: ignore[type-arg]
    """The kernels in the order of their declaration, which tells apart those of one name; none is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[Any] = []

    def add(self, item: Any) -> None:
        super().add(item)
        self.order.append(item)


def private_modules() -> None:
    """Add the modules of ``warp._src`` that packages import at module level."""
    folder = tempfile.gettempdir()
    for name, members in {
        "warp._src": {},
        "warp._src.thirdparty": {},
        "warp._src.thirdparty.appdirs": {"user_cache_dir": lambda *args, **options: folder},
        "warp._src.types": {
            "Any": Any,
            "Int": wp.Int,
            "Vector": Any,
            "type_size_in_bytes": wp.types.type_size_in_bytes,
        },
        "warp._src.context": {"user_modules": {}},
    }.items():
        sys.modules[name] = module = types.ModuleType(name)
        vars(module).update(members)


def stand_in(name: str) -> Any:
    """A struct for a class, so that it can be an annotation; a function that does nothing for a function."""
    if not name[0].isupper():
        return lambda *args, **options: None
    return wp.struct(type(f"StandIn{name}", (), {"__annotations__": {"id": wp.uint64}, "__module__": __name__}))


@contextlib.contextmanager
def missing_names() -> Iterator[None]:
    """Let ``wp`` have the names that are missing in this release, while a package is imported."""
    found = [name for name in MISSING if not hasattr(wp, name)]
    for name in found:
        setattr(wp, name, stand_in(name))
    try:
        yield
    finally:
        for name in found:
            delattr(wp, name)


def imported(package: str) -> tuple[list[Any], list[str]]:
    """Import a package and all its modules: the kernels that it declares, and the modules that can't be imported."""
    sys.path.append(str(FOLDER))
    private_modules()
    kernels._kernels = declared = Declared()
    refused = []
    with missing_names():
        top = importlib.import_module(package)
        for module in sorted(m.name for m in pkgutil.walk_packages(top.__path__, f"{package}.", lambda name: None)):
            if any(part in SKIPPED or part.endswith("_test") for part in module.split(".")):
                continue
            try:
                importlib.import_module(module)
            except ImportError as e:
                refused.append(f"{module}: {e}")
    return [k for k in declared.order if k.func.__module__.partition(".")[0] == package], refused
