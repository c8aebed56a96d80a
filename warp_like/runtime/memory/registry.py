"""Which kinds of devices there are, and what makes the backend of each (``runtime/memory/backend.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warp_like.runtime.memory.backend import Backend


class Unavailable(RuntimeError):
    """There are no devices of a kind; the message says what is missing."""


_makers: dict[str, Callable[[], Backend]] = {}
_backends: dict[str, Backend] = {}


def register(kind: str, make: Callable[[], Backend]) -> None:
    """Make a kind of device known; ``make`` is called once, when something is first asked of the kind."""
    _makers[kind] = make


def unregister(kind: str) -> None:
    """Forget a kind of device, of which no device may be in use."""
    del _makers[kind]
    _backends.pop(kind, None)


def backend_of(kind: str) -> Backend:
    """Return the backend of a kind of device that is registered."""
    if kind not in _backends:
        _backends[kind] = _makers[kind]()
    return _backends[kind]


def kinds() -> list[str]:
    """Return the names of all kinds, in the order of registration: the CPU first."""
    return list(_makers)
