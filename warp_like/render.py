"""Writing scenes to files: ``import warp_like.render``, as ``warp.render``.

``UsdRenderer`` needs the package usd-core, which is imported when one is made.
"""

from __future__ import annotations

from warp_like.library.usd import UsdRenderer

__all__ = ["UsdRenderer"]
