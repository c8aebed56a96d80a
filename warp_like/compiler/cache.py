"""The cache of artifacts on disk.

Entries are named by the hash of everything that went into them, written under a temporary name and renamed into
place, and checked on reading. A cache that is damaged, read-only, full or shared costs time, never correctness: every
failure is logged and answered by compiling.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warp_like.base import log
from warp_like.base.hashing import checksum, digest
from warp_like.base.settings import settings
from warp_like.compiler.artifact import Artifact, Damaged

if TYPE_CHECKING:
    from pathlib import Path


def directory() -> Path:
    """Return the folder that holds the cache now."""
    from pathlib import Path  # not what a launch from the cache needs

    return Path(_directory())


def _directory() -> str:
    if settings.kernel_cache_dir:
        return os.path.expanduser(str(settings.kernel_cache_dir))
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "darwin":
        base = os.path.join(os.path.expanduser("~"), "Library", "Caches")
    elif not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), "AppData", "Local")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".cache"), "warp_like")


def read(key: str) -> Artifact | None:
    """Return the artifact stored under ``key``, or None."""
    data = _read(_path(key, "kernel"))
    try:
        return None if data is None else Artifact.from_bytes(data)
    except Damaged as e:
        log.info(f"cached kernel {key} can't be used and is compiled again: {e}")
        return None


def write(key: str, artifact: Artifact) -> None:
    """Store ``artifact`` under ``key`` if the folder allows it."""
    _write(lambda: _path(key, "kernel"), artifact.to_bytes())


def read_facts(key: str) -> tuple[Any, ...] | None:
    """Return what ``write_facts`` stored under ``key``, or None."""
    data = _read(_path(key, "facts"))
    if data is None or checksum(data[16:]) != data[:16]:
        return None  # never written, or damaged: the caller finds it out anew, and writes it anew
    found: tuple[Any, ...] = marshal.loads(data[16:])
    return found


def write_facts(key: str, facts: tuple[Any, ...]) -> None:
    """Store a tuple of plain values under ``key`` if the folder allows it."""
    body = marshal.dumps(facts, 2)
    _write(lambda: _path(key, "facts"), checksum(body) + body)


def _read(path: str) -> bytes | None:
    if not settings.cache_kernels:
        return None
    try:
        with open(path, "rb", buffering=0) as f:
            return f.read()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        log.info(f"an entry of the cache can't be read: {e}")
        return None


def _write(where: Callable[[], str], data: bytes) -> None:
    if not settings.cache_kernels:
        return
    import tempfile  # not what a launch from the cache needs

    temporary = None
    try:
        path = where()
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as e:
        log.info(f"an entry of the cache is not kept: {e}")
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def clear() -> None:
    """Remove every entry. Kernels that are loaded stay loaded."""
    import shutil

    shutil.rmtree(os.path.join(_directory(), "kernels"), ignore_errors=True)


def clear_lto_cache() -> None:
    """Do nothing: there are no link-time optimised libraries to keep. Called by programs written for Warp."""


def _path(key: str, kind: str) -> str:
    return f"{_directory()}/kernels/{key[:2]}/{key}.{kind}"


@functools.lru_cache(maxsize=1)
def compiler_fingerprint() -> str:
    """Return a hash that changes whenever the compiler does: Python, our files' sizes and times, and llvmlite's."""
    from importlib.machinery import PathFinder

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    facts = [fact for floor in _COMPILER_FLOORS for fact in _files(package, floor)]
    spec = PathFinder.find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        facts.append(_fact("llvmlite", os.stat(os.path.join(os.path.dirname(spec.origin), "_version.py"))))
    return digest(sys.version, *sorted(facts))


def _files(package: str, folder: str) -> list[str]:
    """Facts about the files in a folder of the package and below, which differ between versions of these files."""
    found = []
    with os.scandir(f"{package}/{folder}") as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".h")):
                found.append(_fact(f"{folder}/{entry.name}", entry.stat()))
            elif entry.name != "__pycache__" and entry.is_dir():
                found += _files(package, f"{folder}/{entry.name}")
    return found


def _fact(name: str, stat: os.stat_result) -> str:
    return f"{name} {stat.st_size} {stat.st_mtime_ns}"


_COMPILER_FLOORS = ("base", "ir", "values", "builtins", "frontend", "analysis", "passes", "backend", "compiler")
