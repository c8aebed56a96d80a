"""The folders of the kernel cache: where they are, and whether their code may run here.

A cached file holds machine code. Whoever can write it decides what this process runs, so a file is read only if it
belongs to this user or to root and nobody else can write it. The same holds for the folders. ``kernel_cache_path``
names further folders, which are only read: there the owner of the folder is trusted, who may be another user.
"""

from __future__ import annotations

import os
import stat
import sys

from warp_like.base import log
from warp_like.base.settings import settings
from warp_like.compiler.cache_limit import note_use

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HAS_OWNERS = hasattr(os, "geteuid")  # Windows keeps access lists instead, and gives each user a folder

_warned: set[str] = set()


def own_folder() -> str | None:
    """Return the folder that this process writes to; None where the user has no home folder and named none."""
    if settings.kernel_cache_dir:
        return os.path.abspath(os.path.expanduser(str(settings.kernel_cache_dir)))
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "darwin":
        base = os.path.join(os.path.expanduser("~"), "Library", "Caches")
    elif not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), "AppData", "Local")
    base = base or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "warp_like") if os.path.isabs(base) else None


def shared_folders() -> list[str]:
    """Return the folders that are only read, in their order."""
    named = str(settings.kernel_cache_path).split(os.pathsep)
    return [os.path.abspath(os.path.expanduser(folder)) for folder in named if folder]


def read_file(folder: str, name: str, shared: bool = False) -> bytes | None:
    """Return the content of a file; None if it is not there or not to be trusted.

    Args:
        folder: The cache's folder.
        name: The path of the file in it.
        shared: The owner of ``folder`` is trusted, whoever it is.

    Raises:
        OSError: The file can't be read.
    """
    path = os.path.join(folder, name)
    try:
        # A pipe would wait for its writer, and a link may lead anywhere.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | _BINARY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(folder, name, status, shared):
            return None
        if not shared:
            note_use(path, status.st_mtime)
        return file.read()


def make_folder(folder: str, name: str) -> int:
    """Make what is missing of the folders of file ``name``; return the mode of files there.

    The cache's folder is made for its user alone. If the user lets others read it, they can read all below it.

    Raises:
        OSError: A folder can't be made.
        PermissionError: Others can write to a folder.
    """
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.makedirs(folder, 0o700, exist_ok=True)
    readable = os.stat(folder).st_mode & 0o755 | 0o700
    path = folder
    for part in os.path.dirname(name).split("/"):
        path = os.path.join(path, part)
        if not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, readable)
    if not _are_trusted(folder, name, shared=False):
        raise PermissionError(f"others can write to {path}")
    return readable & 0o644


_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _is_trusted(folder: str, name: str, status: os.stat_result, shared: bool) -> bool:
    if not _are_trusted(folder, name, shared):
        return False
    fault = _fault(status, os.stat(folder).st_uid if shared else None)
    if fault:
        _warn(folder, os.path.join(folder, name), fault, shared)
    return not fault


def _are_trusted(folder: str, name: str, shared: bool) -> bool:
    """Whether nobody else can put a file in the place of ``name``; warns otherwise."""
    if not _HAS_OWNERS:
        return True
    trusted = os.stat(folder).st_uid if shared else None
    parts = os.path.dirname(name).split("/")
    for depth in range(len(parts) + 1):
        path = os.path.join(folder, *parts[:depth])
        fault = _fault(os.stat(path), trusted)
        if fault:
            _warn(folder, path, fault, shared)
            return False
    return True


def _fault(status: os.stat_result, trusted: int | None) -> str:
    """Say who else can write to a file or folder; empty if nobody can."""
    if not _HAS_OWNERS:
        return ""
    if status.st_uid not in (os.geteuid(), 0, trusted):
        return f"belongs to user {status.st_uid}"
    return "can be written by its group or by others" if status.st_mode & _OTHERS_WRITE else ""


def _warn(folder: str, path: str, fault: str, shared: bool) -> None:
    if folder in _warned:
        log.info(f"not used from the cache: {path} {fault}")
        return
    _warned.add(folder)
    from warp_like.base.warn import warn

    if not fault.startswith("belongs"):
        remedy = f"run `chmod -R go-w {folder}`"
    elif shared:
        remedy = f"let all in it belong to the owner of {folder}"
    else:
        remedy = (
            "name a folder of your own in wp.config.kernel_cache_dir (WARP_LIKE_CACHE_DIR); if you trust this one's "
            "owner, name it in wp.config.kernel_cache_path (WARP_LIKE_CACHE_PATH)"
        )
    warn(f"the kernel cache {folder} is not used: {path} {fault}, who could make this process run their code; {remedy}")
