"""Warnings about kernel code, which point at the user's line."""

from __future__ import annotations

import warnings
from typing import Any

from warp_like.base.loc import current_loc
from warp_like.base.log import LOG_WARNING, shows

_shown: dict[Any, Any] = {}
"""What Python's filters remember: a kernel is compiled several times, for other types and strides."""


def warn(text: str, help: str | None = None) -> None:
    """Warn of the code that is being built; Python's filters show it once for each line."""
    loc = current_loc()
    if loc is None or not shows(LOG_WARNING):
        return
    where = f"{loc.role} `{loc.function}`: " if loc.function else ""
    message = f"{where}{text}" + (f" (help: {help})" if help else "")
    warnings.warn_explicit(message, UserWarning, loc.file, loc.line, registry=_shown)
