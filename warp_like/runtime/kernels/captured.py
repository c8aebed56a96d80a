"""What a kernel has captured, in a form that launches can look at."""

from __future__ import annotations

from warp_like import _native
from warp_like.frontend.names import Captured


class Watched:
    """What the names that a kernel reaches meant at one moment, and whether they surely mean the same now.

    Attributes:
        names: What they meant.
        watch: What launches look at; None where no name can change.
    """

    def __init__(self, names: Captured) -> None:
        self.names = names
        checks = names.checks()
        self.watch = _native.Watch(checks) if checks else None

    def is_current(self) -> bool:
        """Return whether all names surely mean the same now: they name the same, unchanged objects."""
        return self.watch is None or self.watch.is_current()
