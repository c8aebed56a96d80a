"""What the project tells while it runs: messages of four levels to a logger that the user may replace.

Warnings and errors are shown by default, more with ``config.verbose`` or a lower ``config.log_level``, less with
``config.quiet``. The default logger hands them to Python's ``logging``, which is imported when there is something to
say, under the name ``warp_like``; where the program has not configured it, they go to standard error.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol, runtime_checkable

from warp_like.base.passes import dump_words
from warp_like.base.settings import settings

LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR = 10, 20, 30, 40


@runtime_checkable
class Logger(Protocol):
    """What ``set_logger`` takes: any object with these four methods; it gets messages of the level shown and above."""

    def debug(self, message: str) -> None:
        """Take a message on what happens inside."""

    def info(self, message: str) -> None:
        """Take a message on what is done, such as a kernel that is compiled."""

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """Take a warning. With a ``category`` it is one of Python's, for ``warnings.warn``."""

    def error(self, message: str) -> None:
        """Take an error that is no exception."""


class DefaultLogger:
    """Hands messages to the logger ``warp_like`` of Python's ``logging``."""

    def debug(self, message: str) -> None:
        """See ``Logger``."""
        self._log(LOG_DEBUG, message)

    def info(self, message: str) -> None:
        """See ``Logger``."""
        self._log(LOG_INFO, message)

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """See ``Logger``."""
        if category is None:
            self._log(LOG_WARNING, message)
        else:
            import warnings

            warnings.warn(message, category, stacklevel + 1)

    def error(self, message: str) -> None:
        """See ``Logger``."""
        self._log(LOG_ERROR, message)

    def _log(self, level: int, message: str) -> None:
        import logging  # not what a launch from the cache needs

        found = logging.getLogger("warp_like")
        if found.hasHandlers():
            if found.level == logging.NOTSET:  # else the user's program has chosen one
                found.setLevel(logging.DEBUG)  # `config` decides
            found.log(level, "%s", message)
        else:
            sys.stderr.write(f"warp_like: {message}\n")


_default = DefaultLogger()
_active: Logger = _default


def set_logger(logger: Logger | None) -> None:
    """Let ``logger`` take all messages from now on; None stands for the default one.

    Raises:
        TypeError: It does not have the methods of ``Logger``.

    Example:
        >>> wp.set_logger(None)  # the default one again
    """
    global _active
    if logger is not None and not isinstance(logger, Logger):
        raise TypeError(f"a logger has the methods debug, info, warning and error, got {type(logger).__name__}")
    _active = _default if logger is None else logger


def get_logger() -> Logger:
    """Return the logger that takes the messages now."""
    return _active


class ScopedLogger:
    """Lets a logger take all messages inside a ``with`` block; None stands for the default one.

    Example:
        >>> class Quiet:
        ...     def debug(self, message, *args): ...
        ...     info = warning = error = debug
        >>> with wp.ScopedLogger(Quiet()):
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
    """

    def __init__(self, logger: Logger | None) -> None:
        self.logger = logger

    def __enter__(self) -> ScopedLogger:
        self._saved = get_logger()
        set_logger(self.logger)
        return self

    def __exit__(self, *_: object) -> None:
        set_logger(self._saved)


class ScopedLogLevel:
    """Sets ``config.log_level`` inside a ``with`` block.

    Example:
        >>> with wp.ScopedLogLevel(wp.LOG_ERROR):
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
    """

    def __init__(self, log_level: int) -> None:
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self._saved = settings.log_level
        settings.log_level = self.log_level
        return self

    def __exit__(self, *_: object) -> None:
        settings.log_level = self._saved


def shows(level: int) -> bool:
    """Return whether messages of ``level`` are shown."""
    lowest = LOG_ERROR if settings.quiet else LOG_INFO if settings.verbose else settings.log_level
    return bool(level >= min(lowest, LOG_ERROR))  # errors always


def show(message: str) -> None:
    """Tell what a setting asks to be printed: to a logger of the user's own, else on standard output."""
    if _active is _default:
        sys.stdout.write(f"{message}\n")
    else:
        _active.info(message)


def debug(message: str) -> None:
    """Tell what happens inside."""
    if shows(LOG_DEBUG):
        _active.debug(message)


def info(message: str) -> None:
    """Tell what is done."""
    if shows(LOG_INFO):
        _active.info(message)


def warning(message: str, category: Any = None, stacklevel: int = 1) -> None:
    """Warn; with a ``category`` through Python's ``warnings``."""
    if shows(LOG_WARNING):
        _active.warning(message, category, stacklevel + 1)


def error(message: str) -> None:
    """Tell of an error that is no exception."""
    if shows(LOG_ERROR):
        _active.error(message)


def dump(stage: str, title: str, text: str) -> None:
    """Write one compiler stage to standard error; ask ``dumps`` or ``dumps_pass`` first."""
    sys.stderr.write(f"--- {stage}: {title}\n{text}\n")
    sys.stderr.flush()


def dumps(stage: str) -> bool:
    """Return whether ``config.dump`` names ``stage``, so that its text is worth making."""
    wanted = dump_words(settings.dump)
    return stage in wanted or "all" in wanted


def dumps_a_pass() -> bool:
    """Return whether ``config.dump`` names any pass."""
    return dumps("passes") or ":" in settings.dump


def dumps_pass(moment: str) -> bool:
    """Return whether ``config.dump`` asks for the function at ``moment``: ``before:PASS`` or ``after:PASS``."""
    return moment in dump_words(settings.dump) or (moment.startswith("after:") and dumps("passes"))
