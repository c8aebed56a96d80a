"""The cache of artifacts on disk.

Entries are named by the hash of everything that went into them, written under a temporary name and renamed into
place, and checked on reading. The checksum covers the name, so that an entry is not taken for another one. A cache that
is damaged, read-only, full or shared costs time, never correctness: every failure is logged and answered by compiling.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from warp_like import _native
from warp_like.base import log
from warp_like.base.hashing import digest, seal, unseal
from warp_like.base.settings import settings
from warp_like.base.version import VERSION
from warp_like.compiler import cache_folders, cache_limit
from warp_like.compiler.artifact import Artifact, Damaged

if TYPE_CHECKING:
    from pathlib import Path


def directory() -> Path | None:
    """Return the folder that holds the cache now; None where the user has no home folder and named no other."""
    from pathlib import Path  # not what a launch from the cache needs

    own = cache_folders.own_folder()
    return None if own is None else Path(own)


def read(key: str) -> Artifact | None:
    """Return the artifact stored under ``key``, or None."""
    for data in _found(f"{key}.kernel"):
        try:
            return Artifact.from_bytes(data, key)
        except Damaged as e:
            log.info(f"cached kernel {key} can't be used: {e}")
    return None


def write(key: str, artifact: Artifact) -> None:
    """Store ``artifact`` under ``key`` if the folder allows it."""
    _write(f"{key}.kernel", artifact.to_bytes(key))


def read_facts(key: str) -> tuple[Any, ...] | None:
    """Return what ``write_facts`` stored under ``key``, or None."""
    for data in _found(f"{key}.facts"):
        body = unseal(data, key)
        if body is not None:  # else it is damaged: the caller finds it out anew, and writes it anew
            found: tuple[Any, ...] = marshal.loads(body)
            return found
    return None


def write_facts(key: str, facts: tuple[Any, ...]) -> None:
    """Store a tuple of plain values under ``key`` if the folder allows it."""
    _write(f"{key}.facts", seal(marshal.dumps(facts, 2), key))


def _found(name: str) -> Iterator[bytes]:
    """The contents of the files ``name``: of the user's own cache, then of shared ones."""
    if not settings.cache_kernels:
        return
    own = cache_folders.own_folder()
    for folder, shared in [(own, False), *((folder, True) for folder in cache_folders.shared_folders())]:
        if folder is None:
            continue
        try:
            data = cache_folders.read_file(folder, _place(name), shared)
        except (OSError, ValueError) as e:
            log.info(f"an entry of the cache can't be read: {e}")
            continue
        if data is not None:
            yield data


def _write(name: str, data: bytes) -> None:
    folder = cache_folders.own_folder()
    if not settings.cache_kernels or folder is None:
        return
    path, temporary = os.path.join(folder, _place(name)), None
    try:
        mode = cache_folders.make_folder(folder, _place(name))
        unique = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.part")
        handle = os.open(unique, _NEW, 0o600)
        temporary = unique
        with open(handle, "wb") as f:
            f.write(data)
        if mode != 0o600:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except (OSError, ValueError) as e:
        log.info(f"an entry of the cache is not kept: {e}")
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    else:
        cache_limit.note_write(os.path.join(folder, "kernels"), len(data), settings.kernel_cache_limit << 20)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | sum(getattr(os, flag, 0) for flag in ("O_BINARY", "O_CLOEXEC"))


def clear() -> None:
    """Remove every entry. Kernels that are loaded stay loaded."""
    import shutil

    own = cache_folders.own_folder()
    if own is not None:
        shutil.rmtree(os.path.join(own, "kernels"), ignore_errors=True)


def clear_lto_cache() -> None:
    """Do nothing: there are no link-time optimised libraries to keep. Called by programs written for Warp."""


def _place(name: str) -> str:
    return f"kernels/{name[:2]}/{name}"


@functools.lru_cache(maxsize=1)
def compiler_fingerprint() -> str:
    """Return a hash that changes with the compiler: Python, our files' sizes and times, and llvmlite's version.

    The native extension is one of the files: it has LLVM's passes for objects. Where all of our files have one time, as
    in packages that are built reproducibly, another version may have the same sizes: then their contents count.
    """
    from importlib.machinery import PathFinder

    facts = _facts_about(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), _native.__file__)
    spec = PathFinder.find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        facts.append(_content("llvmlite", os.path.join(os.path.dirname(spec.origin), "_version.py")))
    return digest(VERSION, sys.version, *sorted(facts))


def _facts_about(package: str, extension: str) -> list[str]:
    """Facts about the compiler's files in the folder ``package`` and about the native extension."""
    times: set[int] = set()
    facts = [fact for floor in _COMPILER_FLOORS for fact in _files(package, floor, times)]
    if len(times) == 1:
        facts += [_content(name, f"{package}/{name}") for name in [fact.split(" ")[0] for fact in facts]]
        facts.append(_content("native", extension))
    facts.append(_fact("native", os.stat(extension)))
    return facts


def _files(package: str, folder: str, times: set[int]) -> list[str]:
    """Facts about the files in a folder of the package and below, which differ between versions of these files.

    The times of their last changes are added to ``times``.
    """
    found = []
    with os.scandir(f"{package}/{folder}") as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".h")):
                status = entry.stat()
                times.add(status.st_mtime_ns)
                found.append(_fact(f"{folder}/{entry.name}", status))
            elif entry.name != "__pycache__" and entry.is_dir():
                found += _files(package, f"{folder}/{entry.name}", times)
    return found


def _fact(name: str, stat: os.stat_result) -> str:
    return f"{name} {stat.st_size} {stat.st_mtime_ns}"


def _content(name: str, path: str) -> str:
    with open(path, "rb") as file:
        return f"{name} {digest(file.read())}"


_COMPILER_FLOORS = ("base", "ir", "values", "builtins", "frontend", "analysis", "passes", "backend", "compiler")
