"""Warnings of Python's that point at the user's code: at the call that came here, or at a line of a kernel."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from warp_like.base.loc import Loc

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line on the stack that is not of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def warn_at(text: str, loc: Loc, names: dict[str, Any], category: type[Warning] = UserWarning) -> None:
    """Warn at a place in the source of a kernel, once unless the user's filters say otherwise.

    Args:
        text: The message; the place and its source line are added.
        loc: The place.
        names: The names of the module that the kernel is in, which keep what was warned of.
        category: The kind of warning.
    """
    registry = names.setdefault("__warningregistry__", {})
    full = f"{text}\n{loc.frame()}"
    warnings.warn_explicit(full, category, loc.file, loc.line, names.get("__name__"), registry, names)
