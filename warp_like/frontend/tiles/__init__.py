"""Builtins of tiles whose calls the frontend builds: they take shapes, functions, parts of tiles, or several forms."""

from __future__ import annotations

from warp_like.frontend.tiles import algebra, cooperation, making, maps, memory, parts

HANDLERS = {
    **making.HANDLERS,
    **memory.HANDLERS,
    **parts.HANDLERS,
    **maps.HANDLERS,
    **algebra.HANDLERS,
    **cooperation.HANDLERS,
}

__all__ = ["HANDLERS"]
