"""Python's garbage collector while kernels are compiled, and while the package is imported."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

from warp_like.base.forking import Order, held_by_forks

RARELY = 100_000
"""Objects made between two collections. IR is many small objects that live until the code is made: a collector that
looks at them after every 700, and now and then at all that the process has imported, takes a tenth of the time."""

_lock = held_by_forks(threading.Lock(), Order.BRIEF)
_inside = 0
_usual = 0


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector run less often inside the ``with``; it may be entered by several threads, and more than once.

    A collector that is switched off stays off.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _usual
    with _lock:
        _inside += 1
        if _inside == 1:
            _usual, *older = gc.get_threshold()
            if 0 < _usual < RARELY:
                gc.set_threshold(RARELY, *older)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside == 0:
            now, *older = gc.get_threshold()
            if now == RARELY and 0 < _usual < RARELY:
                gc.set_threshold(_usual, *older)
