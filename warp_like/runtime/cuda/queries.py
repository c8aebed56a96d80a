"""Questions about CUDA on this machine, and about kernels on a device; and when a profiler looks.

A profiler here is NVIDIA's, Nsight Systems or Nsight Compute, started so that it waits for ``cuda_profiler_start``.
What launches take without one is told by ``wp.timing_begin``.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from warp_like.backend.libdevice import find_ptxas, tool_version
from warp_like.backend.target import CUDA_ARCHITECTURES
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.driver import driver
from warp_like.runtime.kernels.argument_advice import not_a_kernel
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.memory.device import DeviceLike, get_device
from warp_like.runtime.memory.registry import Unavailable

Version = tuple[int, int]


def get_cuda_driver_version() -> Version | None:
    """Return the CUDA version that the driver supports, as ``(12, 4)``; None without a driver."""
    try:
        version = driver().version()
    except Unavailable:
        return None
    return version // 1000, version % 1000 // 10


def get_cuda_toolkit_version() -> Version | None:
    """Return the CUDA version of the assembler, ``ptxas``, that makes machine code; None where there is none.

    The package itself is built without a toolkit, so there is no other version to tell.
    """
    ptxas = find_ptxas()
    return None if ptxas is None else tool_version(ptxas)


def get_cuda_supported_archs() -> list[int]:
    """Return the architectures that kernels can be compiled for, on any machine: 80 for ``sm_80``, and so on."""
    return list(CUDA_ARCHITECTURES)


def get_cuda_kernel_properties(
    kernel: Kernel, device: DeviceLike = None, block_dim: int | None = None
) -> dict[str, int]:
    """Return what the driver tells of a kernel's code on a device, compiling it first where that is missing.

    Args:
        kernel: The kernel, or an overload of a generic one.
        device: The CUDA device; the current one when left out.
        block_dim: Changes nothing, as one code serves blocks of every size; checked if given.

    Returns:
        ``register_count``, the registers of a thread; ``local_memory_size``, the bytes of memory of its own that a
        thread has, for what registers do not hold; ``shared_memory_size``, the bytes that the threads of a block share.
        More may be added.

    Raises:
        TypeError: ``kernel`` is no kernel.
        ValueError: ``block_dim`` is no size of a block.
        RuntimeError: The kernel is generic, or the device is not a CUDA device.
    """
    if block_dim is not None and not (isinstance(block_dim, int) and 1 <= block_dim <= 1024):
        raise ValueError(f"get_cuda_kernel_properties(): a block has 1 to 1024 threads, got block_dim={block_dim!r}")
    place, function = _loaded("get_cuda_kernel_properties", kernel, device)
    attribute = place.driver.function_attribute
    with place.guard:
        return {
            "register_count": attribute(function, "NUM_REGS"),
            "local_memory_size": attribute(function, "LOCAL_SIZE_BYTES"),
            "shared_memory_size": attribute(function, "SHARED_SIZE_BYTES"),
        }


def get_suggested_block_size(kernel: Kernel, device: DeviceLike = None) -> Version:
    """Return the ``block_dim`` that keeps a multiprocessor busiest, and how many blocks then fill the device.

    Larger blocks are not faster as such: for a small grid, smaller ones spread over more multiprocessors. On the CPU,
    where threads have no blocks, both numbers are 1.

    Raises:
        TypeError: ``kernel`` is no kernel.
        RuntimeError: The kernel is generic.
    """
    if isinstance(kernel, Kernel) and get_device(device).is_cpu:
        return 1, 1
    place, function = _loaded("get_suggested_block_size", kernel, device)
    with place.guard:
        blocks, threads = place.driver.suggested_block(function)
    return threads, blocks


def _loaded(name: str, kernel: Any, device: DeviceLike) -> tuple[CudaDevice, int]:
    """The device, and the driver's handle of the kernel's code for contiguous arrays."""
    if not isinstance(kernel, Kernel):
        raise not_a_kernel(f"{name}()", kernel)
    place = get_device(device)
    if not isinstance(place, CudaDevice):
        raise RuntimeError(f"{name}() asks a CUDA device, got {place}")
    if kernel.is_generic:
        raise RuntimeError(f"{name}(): kernel `{kernel.key}` is generic; pass one of its overloads (wp.overload)")
    program = kernel.current().program(tuple(t for _, t in kernel.parameters if t is not None), device=place)
    if not program.loaded:
        program.require(contiguous=True, wide=False, sums=True)
    function: int = next(iter(program.loaded.values())).function
    return place, function


# ---- profilers


def cuda_profiler_start(device: DeviceLike = None) -> None:
    """Let a profiler that waits for it begin to look at a device; without one, and on the CPU, nothing happens.

    Nsight Systems waits with ``--capture-range=cudaProfilerApi``, Nsight Compute with ``--profile-from-start off``.
    """
    _profile(get_device(device), "profiler_start")


def cuda_profiler_stop(device: DeviceLike = None) -> None:
    """Let the profiler stop looking; see ``cuda_profiler_start``."""
    _profile(get_device(device), "profiler_stop")


def _profile(place: Any, method: str) -> None:
    if isinstance(place, CudaDevice):
        with place.guard:
            getattr(place.driver, method)()


class ScopedCudaProfiler:
    """Lets a profiler look at what a ``with`` block does on a device; see ``cuda_profiler_start``.

    Example:
        >>> with wp.ScopedCudaProfiler():
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
    """

    def __init__(self, device: DeviceLike = None) -> None:
        self.device = get_device(device)

    def __enter__(self) -> ScopedCudaProfiler:
        cuda_profiler_start(self.device)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        cuda_profiler_stop(self.device)
