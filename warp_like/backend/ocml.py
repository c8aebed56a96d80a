"""Finding AMD's library of math functions, OCML, on this machine.

It is a file of LLVM bitcode. What it may assume, it reads from constants that the program brings (``controls``).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from warp_like.backend.target import Target

_WHEELS = ("_rocm_sdk_core", "triton")


def _places() -> Iterator[Path]:
    """Iterate over the directories that may hold the library, best first."""
    for variable in ("ROCM_PATH", "HIP_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "amdgcn", "bitcode")
    yield Path("/opt/rocm/amdgcn/bitcode")
    for wheel in _WHEELS:
        try:
            spec = importlib.util.find_spec(wheel)
        except ValueError:  # a module that something made by hand
            continue
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(folder, "lib", "llvm", "amdgcn", "bitcode")
            yield Path(folder, "backends", "amd", "lib")


@functools.lru_cache(maxsize=1)
def find_ocml() -> Path | None:
    """Return the path of ``ocml.bc``, or None where there is none."""
    return next((place / "ocml.bc" for place in _places() if (place / "ocml.bc").is_file()), None)


def require_ocml(symbols: Iterable[str]) -> Path:
    """Return the path of the library, needed for its functions ``symbols``.

    Raises:
        RuntimeError: It is not on this machine.
    """
    path = find_ocml()
    if path is None:
        raise RuntimeError(
            f"compiling for AMD's GPUs needs ocml.bc for {', '.join(sorted(symbols))}, and it was not found; install "
            "ROCm or Triton, or set ROCM_PATH"
        )
    return path


def controls(target: Target, *, flushes: bool) -> str:
    """Return the constants, in LLVM IR, that tell the library what it may assume.

    Args:
        target: The architecture; its version is decimal digits for major and hexadecimal ones for minor and stepping.
        flushes: Denormal numbers of float32 become 0.
    """
    major, minor, step = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])", target.name).groups()  # type: ignore[union-attr]
    version = 1000 * int(major) + 100 * int(minor, 16) + int(step, 16)
    flags = {"finite_only_opt": 0, "unsafe_math_opt": 0, "daz_opt": int(flushes), "correctly_rounded_sqrt32": 1,
             "wavefrontsize64": 1}  # fmt: skip
    head = "linkonce_odr hidden unnamed_addr addrspace(4) constant"
    lines = [f"@__oclc_{name} = {head} i8 {value}\n" for name, value in flags.items()]
    numbers = {"ISA_version": version, "ABI_version": 500}
    return "".join(lines + [f"@__oclc_{name} = {head} i32 {value}\n" for name, value in numbers.items()])
