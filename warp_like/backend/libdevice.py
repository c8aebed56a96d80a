"""Finding NVIDIA's device math library and tools on this machine.

Uses the standard library alone: ``.ci/environment.py`` runs this file before the package is built.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

Version = tuple[int, int]

_WHEELS = ("nvidia.cu13", "nvidia.cu12", "nvidia.cuda_nvcc", "nvidia.cuda_nvdisasm", "nvidia.cuda_cuobjdump")


def _roots() -> Iterator[Path]:
    """Iterate over the directories that may hold a CUDA toolkit, best first."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    for wheel in _WHEELS:
        yield from _package(wheel)
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
    yield from (Path(p) for p in sorted(glob.glob("/usr/local/cuda-*"), reverse=True))
    yield Path("/usr/lib/cuda")
    yield from (p / "backends" / "nvidia" for p in _package("triton"))
    yield from _package("torch")


def _package(name: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # not there, or a module that something made by hand
        return []
    return [Path(p) for p in spec.submodule_search_locations or ()] if spec else []


@functools.lru_cache(maxsize=1)
def find_libdevice() -> Path | None:
    """Return the path of ``libdevice.10.bc``, or None where there is none."""
    places = (Path(r, folder, "libdevice.10.bc") for r in _roots() for folder in ("nvvm/libdevice", "lib"))
    return next((p for p in places if p.is_file()), None)


@functools.lru_cache(maxsize=8)
def find_ptxas(oldest: Version | None = None, newest: int = 0) -> Path | None:
    """Return the path of the PTX assembler, or None where there is none.

    Args:
        oldest: The oldest version of CUDA that it may be of; None for any.
        newest: The newest major version; 0 for any.
    """
    found = _find_tools("ptxas")
    if oldest is None and not newest:
        return next(found, None)
    return next((path for path in found if _fits(tool_version(path), oldest or (0, 0), newest)), None)


def _fits(version: Version | None, oldest: Version, newest: int) -> bool:
    return version is not None and oldest <= version and version[0] <= (newest or version[0])


@functools.lru_cache(maxsize=16)
def tool_version(path: Path) -> Version | None:
    """Return the version of CUDA that a tool is of, as ``(12, 4)``; None where it does not run."""
    try:
        said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return None
    found = re.search(r"release (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None


def describe_tool(path: Path) -> str:
    """Return a tool's path and version, for messages."""
    version = tool_version(path)
    return f"{path} of {'CUDA {}.{}'.format(*version) if version else 'an unknown version'}"


def describe_ptxas(oldest: Version | None, newest: int) -> str:
    """Say which assembler is taken between two versions, and which ones there are if none is."""
    chosen = find_ptxas(oldest, newest)
    if chosen is not None:
        return f"the assembler is {describe_tool(chosen)}"
    there = _listed_assemblers()
    return f"no assembler fits both, but there is {there}" if there else "there is no assembler (ptxas)"


def _listed_assemblers() -> str:
    return ", ".join(describe_tool(path) for path in dict.fromkeys(_find_tools("ptxas")))


@functools.lru_cache(maxsize=1)
def find_disassembler() -> Path | None:
    """Return the path of a disassembler of cubins, ``nvdisasm`` or ``cuobjdump``, or None where there is none."""
    return next(itertools.chain(_find_tools("nvdisasm"), _find_tools("cuobjdump")), None)


def _find_tools(tool: str) -> Iterator[Path]:
    """Iterate over the places where a tool is, best first."""
    for root in _roots():
        for name in (tool, f"{tool}.exe"):
            if (root / "bin" / name).is_file():
                yield root / "bin" / name
    found = shutil.which(tool)
    if found:
        yield Path(found)


def require_libdevice(symbols: Iterable[str]) -> Path:
    """Return the path of libdevice, needed for its functions ``symbols``.

    Raises:
        RuntimeError: It is not on this machine.
    """
    path = find_libdevice()
    if path is None:
        raise RuntimeError(
            f"compiling for CUDA needs libdevice.10.bc for {', '.join(sorted(symbols))}, and it was not found; install "
            "the nvidia-cuda-nvcc package or Triton, or set CUDA_HOME to a CUDA toolkit"
        )
    return path


def require_ptxas(oldest: Version | None = None, newest: int = 0) -> Path:
    """Return the path of the PTX assembler; see ``find_ptxas``.

    Raises:
        RuntimeError: It is not on this machine, or only in versions that don't fit.
    """
    path = find_ptxas(oldest, newest)
    if path is None and find_ptxas() is not None:
        first = "{}.{} or later".format(*oldest) if oldest else ""
        last = f"{newest} at most, as the driver is" if newest else ""
        raise RuntimeError(
            f"assembling PTX for this device needs ptxas of CUDA {', but of '.join(filter(None, (first, last)))}; "
            f"there is {_listed_assemblers()}; install the nvidia-cuda-nvcc package in a version that fits"
        )
    if path is None:
        raise RuntimeError(
            "assembling PTX needs ptxas, and it was not found; install the nvidia-cuda-nvcc package or "
            "set CUDA_HOME to a CUDA toolkit"
        )
    return path


def require_disassembler() -> Path:
    """Return the path of a disassembler of cubins.

    Raises:
        RuntimeError: There is none on this machine.
    """
    path = find_disassembler()
    if path is None:
        raise RuntimeError(
            "showing SASS needs nvdisasm or cuobjdump, and neither was found; they are part of the CUDA Toolkit "
            "(conda: conda install cuda-nvdisasm): put its folder bin on PATH, or set CUDA_HOME to the toolkit"
        )
    return path
