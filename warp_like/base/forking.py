"""Locks and imports that a fork waits for.

A child has one thread, the one that forked, and finds locks as they were: what another thread held stays held, and what
that thread was changing stays half changed. So a fork takes the locks first, and both processes let go of them.

Python has a lock for each module that is being imported, which a child would wait for, too. The first launch imports
the compiler. So a fork waits until no other thread imports what belongs to this package or what it imports.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from enum import IntEnum
from importlib import _bootstrap
from typing import Any


class Order(IntEnum):
    """What a lock is held around; who holds one may take those that come after it, never one before."""

    PROGRAM = 0
    """Compiling and loading what a launch needs."""
    STACK = 1
    """Working on a larger stack."""
    LLVM = 2
    BRIEF = 3
    """A few statements that take no other lock."""


_locks: list[tuple[Order, Any]] = []
_held: list[Any] = []


def held_by_forks(lock: Any, order: Order) -> Any:
    """Return ``lock``, a ``threading.Lock`` or ``RLock``, which forks take from now on."""
    _locks.append((order, lock))
    _locks.sort(key=lambda known: known[0])
    return lock


_PACKAGES = frozenset({"warp_like", "llvmlite", "numpy"}) | sys.stdlib_module_names
"""Whose imports a fork waits for: these end. Others may not, as that of a module which is a program."""

_PATIENCE = 10.0
"""Seconds that a fork waits for imports: one may need what the thread that forks holds, such as a lock of `logging`."""


def _imported_by_others() -> bool:
    """Whether another thread is importing a module of ``_PACKAGES``."""
    me = threading.get_ident()
    for name, known in list(getattr(_bootstrap, "_module_locks", {}).items()):
        lock = known() if name.partition(".")[0] in _PACKAGES else None
        if lock is not None and lock.owner not in (None, me):
            return True
    return False


def _take() -> None:
    """Take all locks while no other thread imports. Who imports may need one of them to come to an end."""
    taken = [lock for _, lock in _locks]
    end = time.monotonic() + _PATIENCE
    while True:
        while _imported_by_others() and time.monotonic() < end:
            time.sleep(0.001)
        for lock in taken:
            lock.acquire()
        if time.monotonic() > end or not _imported_by_others():  # nothing may run between this and the fork
            break
        for lock in reversed(taken):
            lock.release()
    _held[:] = taken  # after the first of them, so that threads that fork at one time do not meet here


def _let_go() -> None:
    taken = _held[::-1]
    _held.clear()
    for lock in taken:
        lock.release()


_order = held_by_forks(threading.Lock(), Order.PROGRAM)  # among several threads that fork
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_let_go, after_in_child=_let_go)
