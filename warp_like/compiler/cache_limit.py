"""How much the kernel cache holds: files that were not used for longest are removed first.

The time of a file's last change is the time of its last use, which a read sets once a day. The folder is looked through
at most once an hour by all processes, and by a process that has written a sixteenth of the limit itself.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator

HOUR = 3600.0
DAY = 24 * HOUR

_written = 0


def note_use(path: str, changed: float) -> None:
    """Let a file that was read count as used now; ``changed`` is when it last counted so."""
    if time.time() - changed > DAY:
        with contextlib.suppress(OSError):  # of an administrator's cache, or gone
            os.utime(path)


def note_write(folder: str, nbytes: int, limit: int) -> None:
    """Remove what is too much in ``folder`` now that ``nbytes`` were written to it, if it is time to look.

    Args:
        folder: The folder of the files, each in a folder of its own name's beginning.
        nbytes: How many bytes were written.
        limit: How many bytes the files may have together; 0 for any number.
    """
    global _written
    _written += nbytes
    stamp = os.path.join(folder, ".trimmed")
    if _written <= limit // 16 and _age(stamp) < HOUR:
        return
    _written = 0
    with contextlib.suppress(OSError):
        with open(stamp, "wb"):
            os.utime(stamp)
        trim(folder, limit)


def trim(folder: str, limit: int) -> None:
    """Remove what killed processes have left, and the oldest files until three quarters of ``limit`` are left."""
    now = time.time()
    found = []
    for path, status in _files(folder):
        if not path.endswith(".part"):
            found.append((status.st_mtime, _size(status), path))
        elif now - status.st_mtime > HOUR:
            _remove(path)
    total = sum(size for _, size, _ in found)
    if not limit or total <= limit:
        return
    for _, size, path in sorted(found):
        if total <= limit * 3 // 4:
            break
        _remove(path)
        total -= size


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):  # removed meanwhile
                for file in os.scandir(entry.path):
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield file.path, status


def _size(status: os.stat_result) -> int:
    """The bytes that a file takes on the disk."""
    return int(getattr(status, "st_blocks", 0)) * 512 or status.st_size


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # another process was faster, or uses it (Windows)
        os.unlink(path)


def _age(path: str) -> float:
    try:
        return abs(time.time() - os.stat(path).st_mtime)
    except OSError:
        return HOUR
