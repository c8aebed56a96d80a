"""Locks that a fork waits for.

A child has one thread, the one that forked, and finds locks as they were: what another thread held stays held, and what
that thread was changing stays half changed. So a fork takes the locks first, and both processes let go of them.
"""

from __future__ import annotations

import os
import threading
from enum import IntEnum
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


def _take() -> None:
    taken = [lock for _, lock in _locks]
    for lock in taken:
        lock.acquire()
    _held[:] = taken  # after the first of them, so that threads that fork at one time do not meet here


def _let_go() -> None:
    taken = _held[::-1]
    _held.clear()
    for lock in taken:
        lock.release()


_order = held_by_forks(threading.Lock(), Order.PROGRAM)  # among several threads that fork
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_let_go, after_in_child=_let_go)
