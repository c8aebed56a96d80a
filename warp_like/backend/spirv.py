"""LLVM IR to SPIR-V, which OpenCL drivers compile for their device.

LLVM ends the process where it can't translate a module to SPIR-V. So a process of its own translates each: it runs
``spirv_process.py``, which imports nothing but llvmlite.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warp_like.base.errors import WarpCodegenError

MAGIC = (0x07230203).to_bytes(4, "little")
"""The first word of every module."""

_PROGRAM = Path(__file__).with_name("spirv_process.py")


def compile_spirv(text: str) -> bytes:
    """Return the SPIR-V of the LLVM module ``text``.

    Raises:
        WarpCodegenError: LLVM can't translate it.
    """
    made = _translated(text, "object")
    if not made.startswith(MAGIC):
        raise WarpCodegenError("LLVM made no SPIR-V of this kernel")
    return made


def disassembled(text: str) -> str:
    """Return the SPIR-V of the LLVM module ``text`` as LLVM writes it for people.

    Raises:
        WarpCodegenError: LLVM can't translate it.
    """
    return _translated(text, "assembly").decode()


def _translated(text: str, form: str) -> bytes:
    command = [sys.executable, "-S", "-E", str(_PROGRAM), form, *_folders_of_llvmlite()]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = next((line for line in said if "error" in line.lower()), f"exit status {done.returncode}")
        raise WarpCodegenError(f"LLVM can't translate this kernel to SPIR-V: {why}")
    return done.stdout


def _folders_of_llvmlite() -> list[str]:
    import llvmlite

    return [str(Path(llvmlite.__file__).parents[1])]
