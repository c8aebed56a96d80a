"""What XLB needs besides Warp: names of the Warp that it was written for, and a package for pictures."""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
import types
from typing import Any


def install() -> None:
    """Give ``warp``, Warp 1.19 or this package, the names that Warp had before; must run before ``import xlb``.

    Warp starts with an empty kernel cache: the kernels of one text differ by the values around them, and in another
    process, Warp computed something else with those that it found.
    """
    module: Any = importlib.import_module("warp")
    utils: Any = importlib.import_module("warp.utils")
    if module.__name__ == "warp":
        module.config.kernel_cache_dir = folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    module.vec, module.mat = module.types.vector, module.types.matrix
    utils.ScopedTimer = module.ScopedTimer
    sys.modules.setdefault("pyvista", types.ModuleType("pyvista"))
