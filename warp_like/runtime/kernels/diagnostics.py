"""``wp.print_diagnostics``: what a bug report should say of the installation."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Any

from warp_like import _native
from warp_like.backend.target import host_target
from warp_like.base.settings import SETTINGS, settings
from warp_like.runtime.memory.device import get_devices

_PACKAGES = ("numpy", "llvmlite", "torch", "jax", "paddlepaddle", "cuda-python")


def print_diagnostics() -> dict[str, Any]:
    """Print versions, the processor, the devices and the settings that differ from their defaults.

    Returns:
        The same as a dictionary.
    """
    facts = _facts()
    lines = ["warp_like"]
    for name, value in facts.items():
        shown = ", ".join(f"{k}={v!r}" for k, v in value.items()) if isinstance(value, dict) else value
        lines.append(f"  {name:<16} {shown if shown != '' else '(none)'}")
    sys.stdout.write("\n".join(lines) + "\n")
    return facts


def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = {"warp_like": _version("warp_like")}
    facts |= {name: _version(name) for name in _PACKAGES}
    facts["processor"] = host_target().name
    facts["python"] = sys.version.replace("\n", " ")
    facts["platform"] = platform.platform()
    facts["threads"] = _native.num_threads()
    facts["devices"] = ", ".join(map(str, get_devices()))
    values = {s: getattr(settings, s.name) for s in SETTINGS if s.is_for("process")}
    facts["settings"] = {s.name: value for s, value in values.items() if value != s.default}
    return facts


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        if package == "warp_like":
            return str(sys.modules["warp_like"].__version__)
        return "not installed"
