"""The frameworks that the benchmarks compare: where each is imported from, its package, and how it is made ready.

A column of a table is a framework, and one that is not installed shows "-". A kernel is written once, in a factory
``make(wp)``, and both warp_like and warp-lang compile this same text.
"""

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Framework:
    """What to import, and the package that it comes from where the name differs."""

    module: str
    package: str = ""


FRAMEWORKS = {
    "warp_like": Framework("warp_like"),
    "warp-lang": Framework("warp", "warp-lang"),
    "numba": Framework("numba"),
    "NumPy": Framework("numpy"),
    "SciPy": Framework("scipy"),
    "JAX": Framework("jax"),
    "PyTorch": Framework("torch"),
    "Paddle": Framework("paddle", "paddlepaddle"),
}
"""By the names of their columns."""

WARPS = ("warp_like", "warp-lang")
"""The columns that compile the same kernels."""


def find_frameworks(columns: Sequence[str]) -> dict[str, ModuleType]:
    """Import those of these columns' frameworks that are installed, each ready to run on the CPU."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = {}
    for column in columns:
        try:
            found[column] = importlib.import_module(FRAMEWORKS[column].module)
        except ImportError as error:
            print(f"{column}: not here ({error})", file=sys.stderr)
            continue
        if column in WARPS:
            prepare_warp(found[column])
    return found


def prepare_warp(wp: ModuleType) -> None:
    """Make the CPU the default device, and have no messages between the tables."""
    if hasattr(wp, "LOG_ERROR") and hasattr(wp.config, "log_level"):
        wp.config.log_level = wp.LOG_ERROR
    if hasattr(wp, "init"):
        wp.init()
    if hasattr(wp, "set_device"):
        wp.set_device("cpu")


def versions() -> dict[str, str]:
    """Return the version of Python and of every framework; "-" for one that is not installed."""
    found = {"Python": platform.python_version()}
    for column, framework in FRAMEWORKS.items():
        try:
            found[column] = importlib.metadata.version(framework.package or framework.module)
        except importlib.metadata.PackageNotFoundError:
            found[column] = getattr(sys.modules.get(framework.module), "__version__", "-")
    return found
