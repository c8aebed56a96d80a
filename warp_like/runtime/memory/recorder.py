"""Who takes part in the operations of a thread: the tape that records them, and the capture that takes them over."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from warp_like import _native

recorder = _native.Recorder()
"""What takes part in the operations of the thread that asks: ``active`` is a Tape or a Capture, ``graph`` the Graph
that is being captured, and both are None at first. It is native so that launches can ask without Python."""


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Record nothing meanwhile."""
    active, recorder.active = recorder.active, None
    try:
        yield
    finally:
        recorder.active = active


stream_captures: list[Any] = []
"""The graphs that streams of devices are being captured into, each with the ``thread`` that began it."""


def stream_capture() -> Any:
    """Return the graph into which this thread captures a stream, a ``StreamGraph``; None where it doesn't."""
    if not stream_captures:  # the usual case, which each call of an operator asks about
        return None
    return next((graph for graph in stream_captures if graph.thread == threading.get_ident()), None)


def refuse_capture(what: str) -> None:
    """Refuse what needs the results of launches at once.

    Raises:
        RuntimeError: A capture is running in this thread.
    """
    if recorder.graph is not None or stream_capture() is not None:
        raise RuntimeError(f"{what} needs results at once, which a capture does not give; do it outside of the capture")
