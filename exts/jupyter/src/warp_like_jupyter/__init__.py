"""Pictures of warp_like's arrays, tapes and kernels in notebooks: ``%load_ext warp_like_jupyter``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp_like as wp
from warp_like.runtime.autodiff.visualize import Drawing
from warp_like_jupyter.graph import bundle
from warp_like_jupyter.picture import pixels, png_url

__all__ = ["load_ipython_extension", "show_array", "show_drawing", "show_tape", "unload_ipython_extension"]

WIDTH = 256
"""How wide small pictures are shown, in CSS pixels."""


def show_array(a: Any) -> str:
    """Return HTML for an array: a table, and a picture where the array can be seen as one."""
    table: str = a._repr_html_()
    image = pixels(a)
    if image is None:
        return table
    height, width = image.shape[:2]
    shown = max(width, min(WIDTH, 16 * width))
    style = f"image-rendering: pixelated; width: {shown}px; height: {round(shown * height / width)}px"
    return f'{table}<img src="{png_url(image)}" alt="picture of the array" style="{style}">'


def show_tape(tape: Any) -> dict[str, str]:
    """Return what was recorded on a tape as a picture, by type of data."""
    return bundle(tape.visualize(format="dot"), tape.visualize(format="mermaid"))


def show_drawing(drawing: Any) -> dict[str, str]:
    """Return what ``tape.visualize()`` returned as a picture, by type of data."""
    dot = drawing.language == "dot"
    return bundle(drawing if dot else None, None if dot else drawing)


_BUNDLES = ((wp.Tape, show_tape), (Drawing, show_drawing))


def _bundled(show: Callable[[Any], dict[str, str]]) -> Callable[..., dict[str, str]]:
    """``show`` as IPython calls it, with what it includes and excludes."""
    return lambda shown, **_: show(shown)


def load_ipython_extension(shell: Any) -> None:
    """Let a notebook show arrays, tapes and explanations."""
    shell.display_formatter.formatters["text/html"].for_type(wp.array, show_array)
    for cls, show in _BUNDLES:
        shell.display_formatter.mimebundle_formatter.for_type(cls, _bundled(show))


def unload_ipython_extension(shell: Any) -> None:
    """Show them as without the extension."""
    shell.display_formatter.formatters["text/html"].pop(wp.array, None)
    for cls, _ in _BUNDLES:
        shell.display_formatter.mimebundle_formatter.pop(cls, None)
