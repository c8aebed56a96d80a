"""The project's logger: warnings and errors by default, more with ``config.verbose``, less with ``config.quiet``."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from warp_like.base.settings import Setting, settings

if TYPE_CHECKING:
    import logging


@functools.cache
def logger() -> logging.Logger:
    """Return the logger named ``warp_like``; logging is imported when there is something to log."""
    import logging

    found = logging.getLogger("warp_like")

    def apply(setting: Setting | None = None) -> None:
        found.setLevel(logging.ERROR if settings.quiet else logging.INFO if settings.verbose else logging.WARNING)

    if found.level == logging.NOTSET:  # else the user's program has chosen one
        apply()
    settings.on_change(apply)
    return found


def info(message: str, *args: object) -> None:
    """Log something that only ``config.verbose`` shows, or a program that has set up logging."""
    if settings.verbose or "logging" in sys.modules:
        logger().info(message, *args)


def dump(stage: str, title: str, text: str) -> None:
    """Write one compiler stage to standard error when ``config.dump`` names it."""
    wanted = settings.dump.split(",")
    if stage in wanted or "all" in wanted:
        sys.stderr.write(f"--- {stage}: {title}\n{text}\n")
        sys.stderr.flush()


def dumps(stage: str) -> bool:
    """Return whether ``config.dump`` names ``stage``, so that its text is worth making."""
    wanted = settings.dump.split(",")
    return stage in wanted or "all" in wanted
