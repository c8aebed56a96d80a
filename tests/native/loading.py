"""Loads the native extension without the package around it: these tests say nothing about Python code."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType

NAME = "warp_like._native"


def load_native() -> ModuleType:
    """Return ``warp_like._native``."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    package = importlib.util.find_spec("warp_like")
    assert package is not None
    spec = importlib.machinery.PathFinder.find_spec(NAME, package.submodule_search_locations)
    assert spec is not None, "run `python build_lib.py` first"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[NAME] = module
    return module
