"""The project's logger: warnings and errors by default, more with ``config.verbose``, less with ``config.quiet``."""

from __future__ import annotations

import logging
import sys

from warp_like.base.settings import Setting, settings

logger = logging.getLogger("warp_like")


def _apply(setting: Setting | None = None) -> None:
    level = logging.ERROR if settings.quiet else logging.INFO if settings.verbose else logging.WARNING
    logger.setLevel(level)


_apply()
settings.on_change(_apply)


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
