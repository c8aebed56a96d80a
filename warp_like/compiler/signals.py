"""Signal handlers in Python while the compiler works.

They may launch kernels, and so they may compile. A handler that begins in the middle of an import on the main thread
would find modules that are half there, and in the middle of a compilation one that is half done.
"""

from __future__ import annotations

import threading

from warp_like import _native


def deferred_signals() -> _native.DeferredSignals:
    """Return a context at whose end the handlers of signals run that have come meanwhile, each once.

    It changes nothing on threads other than the main one, where handlers do not run, and for Ctrl-C's own handler.
    """
    return _native.DeferredSignals(threading.current_thread() is threading.main_thread())
