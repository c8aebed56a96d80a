"""Warnings of Python's that point at the user's call, not at a line of this package.

``frontend/warn.py`` warns at a line of a kernel.
"""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line on the stack that is not of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
