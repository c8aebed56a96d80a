"""CUDA C++ to PTX by NVIDIA's run-time compiler, a library that needs neither nvcc nor a host compiler.

It comes with the extra ``cuda`` (packages ``cuda-python`` and ``nvidia-cuda-nvrtc``) or with the CUDA Toolkit. It has
no header files of the C library, so what it compiles declares what it needs.
"""

from __future__ import annotations

import functools
from typing import Any


class NvrtcError(Exception):
    """The compiler refuses a text; the message is its log."""


@functools.lru_cache(maxsize=1)
def find_nvrtc() -> Any:
    """Return the bindings of the run-time compiler, or None where they or the library are missing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # which loads the library
    except (ImportError, RuntimeError):
        return None
    return nvrtc


def compile_with_nvrtc(source: str, name: str, arch: str) -> str:
    """Return the relocatable PTX of CUDA C++.

    Args:
        source: The text.
        name: What messages call it.
        arch: The architecture, such as ``sm_90``.

    Raises:
        NvrtcError: The compiler refuses it.
    """
    nvrtc = find_nvrtc()
    program = _checked(nvrtc, *nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    try:
        options = [f"--gpu-architecture=compute_{arch[3:]}", "--relocatable-device-code=true", "--std=c++17", "-w"]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise NvrtcError(_text(nvrtc, "ProgramLog", program).strip() or f"error {status.name}")
        return _text(nvrtc, "PTX", program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(nvrtc: Any, what: str, program: Any) -> str:
    size = _checked(nvrtc, *getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytes(size)
    _checked(nvrtc, *getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.rstrip(b"\0").decode(errors="replace")


def _checked(nvrtc: Any, status: Any, result: Any = None) -> Any:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise NvrtcError(f"error {status.name}")
    return result
