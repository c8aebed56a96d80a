"""Recursion as deep as the user's code nests: what walks a program calls itself once a level.

Python's limit protects the stack of the thread that it runs on, which is small. Where it is met, the work is done again
on a thread whose stack is made for a higher limit; so shallow programs, which are almost all, cost nothing.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from warp_like.base.forking import Order, held_by_forks

LIMIT = 100_000
"""How deep calls may nest on the large stack. Some calls of Python functions pass through C, which takes the most."""

STACK_BYTES = 1 << 30
"""The size of the large stack: address space, of which only what is used becomes memory."""

_T = TypeVar("_T")
_running: contextvars.ContextVar[bool] = contextvars.ContextVar("warp_like_deep", default=False)
_lock = held_by_forks(threading.Lock(), Order.STACK)


def deeply(work: Callable[[], _T]) -> _T:
    """Return ``work()``, which may recurse far; it is begun again where Python's limit is met.

    Raises:
        RecursionError: It recurses further than the large stack allows, or there is no memory for one.
    """
    try:
        return work()
    except RecursionError:
        if _running.get():
            raise  # an outer call does it again as a whole
    found: list[_T] = []
    failed: list[BaseException] = []

    def run() -> None:
        _running.set(True)
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    with _lock:  # the limit and the size of new stacks belong to the whole process
        _on_a_large_stack(contextvars.copy_context().run, run)
    if failed and isinstance(failed[0], RecursionError):
        raise RecursionError("the large stack is too small as well")  # its traceback is as long as the stack
    if failed:
        raise failed[0]
    return found[0]


def _on_a_large_stack(call: Callable[..., Any], *args: Any) -> None:
    limit, size = sys.getrecursionlimit(), threading.stack_size()
    thread = threading.Thread(target=call, args=args, name="warp_like deep recursion", daemon=True)
    sys.setrecursionlimit(max(limit, LIMIT))
    try:
        try:
            threading.stack_size(STACK_BYTES)
            thread.start()
        except (RuntimeError, ValueError):
            raise RecursionError("there is no memory for a large stack") from None
        finally:
            threading.stack_size(size)
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
