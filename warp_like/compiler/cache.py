"""The cache of artifacts on disk.

Entries are named by the hash of everything that went into them, written under a temporary name and renamed into
place, and checked on reading. A cache that is damaged, read-only, full or shared costs time, never correctness: every
failure is logged and answered by compiling.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from warp_like.base.hashing import digest
from warp_like.base.log import logger
from warp_like.base.settings import settings
from warp_like.compiler.artifact import Artifact, Damaged


def directory() -> Path:
    """Return the folder that holds the cache now."""
    if settings.kernel_cache_dir:
        return Path(settings.kernel_cache_dir).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        base = Path(os.environ["XDG_CACHE_HOME"])
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    else:
        base = Path.home() / ".cache"
    return base / "warp_like"


def read(key: str) -> Artifact | None:
    """Return the artifact stored under ``key``, or None."""
    if not settings.cache_kernels:
        return None
    try:
        return Artifact.from_bytes(_path(key).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, Damaged, RuntimeError) as e:
        logger.info("cached kernel %s can't be used and is compiled again: %s", key, e)
        return None


def write(key: str, artifact: Artifact) -> None:
    """Store ``artifact`` under ``key`` if the folder allows it."""
    _write(lambda: _path(key), artifact.to_bytes())


def read_note(name: str) -> str | None:
    """Return a small text stored by ``write_note``, or None; nothing vouches for its content."""
    if not settings.cache_kernels:
        return None
    try:
        return _note(name).read_text(encoding="utf-8")
    except (OSError, RuntimeError, UnicodeDecodeError):
        return None  # as if it had never been written


def write_note(name: str, text: str) -> None:
    """Store a small text if the folder allows it."""
    _write(lambda: _note(name), text.encode())


def _write(where: Callable[[], Path], data: bytes) -> None:
    if not settings.cache_kernels:
        return
    temporary = None
    try:
        path = where()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as e:
        logger.info("an entry of the cache is not kept: %s", e)
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def clear() -> None:
    """Remove every entry. Kernels that are loaded stay loaded."""
    shutil.rmtree(directory() / "kernels", ignore_errors=True)


def _note(name: str) -> Path:
    return directory() / "notes" / name


def _path(key: str) -> Path:
    return directory() / "kernels" / key[:2] / f"{key}.kernel"


@functools.lru_cache(maxsize=1)
def compiler_fingerprint() -> str:
    """Return a hash that changes whenever the compiler does: its files' sizes and times, and llvmlite's."""
    import importlib.util

    package = Path(__file__).resolve().parent.parent
    files = [p for floor in _COMPILER_FLOORS for p in sorted((package / floor).rglob("*.py"))]
    spec = importlib.util.find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        files.append(Path(spec.origin).with_name("_version.py"))
    facts = []
    for path in files:
        stat = path.stat()
        facts.append(f"{path.name} {stat.st_size} {stat.st_mtime_ns}")
    return digest(*facts)


_COMPILER_FLOORS = ("base", "ir", "values", "builtins", "frontend", "passes", "backend", "compiler")
