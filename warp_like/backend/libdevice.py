"""Finding NVIDIA's device math library and tools on this machine."""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

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


def _package(name: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return []
    return [Path(p) for p in spec.submodule_search_locations or ()] if spec else []


@functools.lru_cache(maxsize=1)
def find_libdevice() -> Path | None:
    """Return the path of ``libdevice.10.bc``, or None where there is none."""
    return next((p for r in _roots() if (p := r / "nvvm" / "libdevice" / "libdevice.10.bc").is_file()), None)


@functools.lru_cache(maxsize=1)
def find_ptxas() -> Path | None:
    """Return the path of the PTX assembler, or None where there is none."""
    return _find_tool("ptxas")


@functools.lru_cache(maxsize=1)
def find_disassembler() -> Path | None:
    """Return the path of a disassembler of cubins, ``nvdisasm`` or ``cuobjdump``, or None where there is none."""
    return _find_tool("nvdisasm") or _find_tool("cuobjdump")


def _find_tool(tool: str) -> Path | None:
    for root in _roots():
        for name in (tool, f"{tool}.exe"):
            if (root / "bin" / name).is_file():
                return root / "bin" / name
    found = shutil.which(tool)
    return Path(found) if found else None


def require_libdevice(symbol: str) -> Path:
    """Return the path of libdevice, needed for ``symbol``.

    Raises:
        RuntimeError: It is not on this machine.
    """
    path = find_libdevice()
    if path is None:
        raise RuntimeError(
            f"compiling for CUDA needs libdevice.10.bc for {symbol}, and it was not found; install the "
            "nvidia-cuda-nvcc package or set CUDA_HOME to a CUDA toolkit"
        )
    return path


def require_ptxas() -> Path:
    """Return the path of the PTX assembler.

    Raises:
        RuntimeError: It is not on this machine.
    """
    path = find_ptxas()
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
