"""Devices, memory, arrays, kernels, launching, tapes; and which kinds of devices there are.

A target of one's own is registered here, beside these: see ``runtime/memory/backend.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_like.runtime.memory.registry import register

if TYPE_CHECKING:
    from warp_like.runtime.memory.backend import Backend


def _cpu() -> Backend:
    from warp_like.runtime.cpu.backend import CpuBackend

    return CpuBackend()


def _cuda() -> Backend:
    from warp_like.runtime.cuda.backend import CudaBackend

    return CudaBackend()


def _opencl() -> Backend:
    from warp_like.runtime.opencl.backend import OpenClBackend

    return OpenClBackend()


register("cpu", _cpu)
register("cuda", _cuda)
register("opencl", _opencl)
