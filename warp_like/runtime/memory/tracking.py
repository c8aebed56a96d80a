"""Which memory arrays have, and who asked for it: what memory reports are made of.

The native allocator calls here for each allocation of an array while somebody follows. Memory of other libraries is not
counted.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from warp_like import _native
from warp_like.base.forking import Order, held_by_forks
from warp_like.base.settings import Setting, settings

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Allocation:
    """One allocation of memory of the host or of a CUDA device.

    Attributes:
        nbytes: Its size.
        place: The file, line and function outside of this package that asked for it.
        scope: The names of the trackers around it, from the outside in.
    """

    nbytes: int
    place: str
    scope: tuple[str, ...]


class _Scopes(threading.local):
    """The trackers that are open in this thread."""

    names: tuple[str, ...] = ()


class _Ledger:
    """All that is known since somebody began to follow."""

    def __init__(self) -> None:
        self.lock = held_by_forks(threading.RLock(), Order.BRIEF)  # a weak reference may end while it is held
        self.followers = 0
        self.clear()

    def clear(self) -> None:
        self.count = self.total = self.now = self.peak = 0
        self.live: dict[weakref.ref[_native.Buffer], Allocation] = {}
        self.by_scope: dict[tuple[str, ...], list[int]] = {}

    def allocated(self, buffer: _native.Buffer) -> None:
        made = Allocation(buffer.nbytes, _caller(), _scopes.names)
        with self.lock:
            self.live[weakref.ref(buffer, self.freed)] = made
            self.count += 1
            self.total += made.nbytes
            self.now += made.nbytes
            self.peak = max(self.peak, self.now)
            counts = self.by_scope.setdefault(made.scope, [0, 0])
            counts[0] += 1
            counts[1] += made.nbytes

    def freed(self, buffer: weakref.ref[_native.Buffer]) -> None:
        with self.lock:
            gone = self.live.pop(buffer, None)
            self.now -= gone.nbytes if gone is not None else 0

    def follow(self, change: int) -> None:
        """Note that somebody begins (1) or ends (-1) to follow; the first one starts from nothing."""
        with self.lock:
            if not self.followers and change > 0:
                self.clear()
            self.followers += change
            _native.track_allocations(self.allocated if self.followers else None)


_scopes = _Scopes()
_ledger = _Ledger()


def _caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class ScopedMemoryTracker:
    """Notes the allocations of arrays inside a ``with`` block, and reports them at its end.

    Trackers nest; the report names the scopes. What was allocated before the outermost one is not counted.

    Args:
        name: What to call the scope.
        active: If false, the tracker does nothing.
        print: Whether the report is printed at the end.
        report_func: Gets the report instead.

    Example:
        >>> with wp.ScopedMemoryTracker("setup"):
        ...     positions = wp.zeros(1000, dtype=wp.vec3)
        memory of arrays
          allocated: 11.72 KiB in 1
          at most at once: 11.72 KiB
          now: 11.72 KiB in 1
          scope setup: 11.72 KiB in 1
          11.72 KiB at ...
    """

    def __init__(
        self,
        name: str = "root",
        active: bool = True,
        print: bool = True,
        report_func: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.active = active
        self.print = print
        self.report_func = report_func

    def __enter__(self) -> ScopedMemoryTracker:
        if self.active:
            _ledger.follow(1)
            _scopes.names = (*_scopes.names, self.name)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.active:
            return
        _scopes.names = _scopes.names[:-1]
        if self.print or self.report_func is not None:
            self.report()
        _ledger.follow(-1)

    def report(self, file: TextIO | None = None, sort: str = "size", max_items: int = 10) -> None:
        """Print the report as it is now, or give it to ``report_func``.

        Args:
            file: Where to print; standard output when left out.
            sort: As in ``print_memory_report``.
            max_items: As there.

        Raises:
            ValueError: ``sort`` is neither ``size`` nor ``chronological``.
        """
        text = _report(sort, max_items)
        if self.report_func is not None:
            self.report_func(text)
        else:
            (file or sys.stdout).write(text)

    def clear(self) -> None:
        """Forget what has been noted so far."""
        with _ledger.lock:
            _ledger.clear()


def print_memory_report(file: TextIO | None = None, sort: str = "size", max_items: int = 10) -> None:
    """Print how much memory arrays have had, have now, and where it was asked for.

    Args:
        file: Where to print; standard output when left out.
        sort: Whether the allocations that still live are listed by ``size``, largest first, or as they came:
            ``chronological``.
        max_items: How many of them.

    Raises:
        ValueError: ``sort`` is something else.
        RuntimeError: Nobody follows: ``config.track_memory`` is off, and no ``ScopedMemoryTracker`` is open.
    """
    if not _ledger.followers:
        raise RuntimeError(
            "allocations are not tracked; set wp.config.track_memory = True, or use wp.ScopedMemoryTracker"
        )
    (file or sys.stdout).write(_report(sort, max_items))


def _report(sort: str, max_items: int) -> str:
    if sort not in ("size", "chronological"):
        raise ValueError(f'sort is "size" or "chronological", got {sort!r}')
    with _ledger.lock:
        live = list(_ledger.live.values())
        lines = [
            "memory of arrays",
            f"  allocated: {_size(_ledger.total)} in {_ledger.count}",
            f"  at most at once: {_size(_ledger.peak)}",
            f"  now: {_size(_ledger.now)} in {len(live)}",
        ]
        scopes = {scope: counts for scope, counts in sorted(_ledger.by_scope.items()) if scope}
    lines += [f"  scope {'/'.join(scope)}: {_size(total)} in {count}" for scope, (count, total) in scopes.items()]
    if sort == "size":
        live.sort(key=lambda a: -a.nbytes)
    lines += [f"  {_size(a.nbytes)} at {a.place}" for a in live[:max_items]]
    if len(live) > max_items:
        lines.append(f"  and {len(live) - max_items} more")
    return "\n".join(lines) + "\n"


def _size(nbytes: int) -> str:
    number, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{number:.2f} {unit}"


_following = False


def apply_setting(setting: Setting | None = None) -> None:
    """Begin or end to follow as ``config.track_memory`` says."""
    global _following
    if settings.track_memory != _following:
        _following = settings.track_memory
        _ledger.follow(1 if _following else -1)
