"""How a launch is cut into blocks, and where it goes. On the CPU blocks are something that kernels may ask about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from warp_like.base.settings import settings
from warp_like.runtime.kernels.options import checked_block_dim
from warp_like.runtime.memory.device import Device, DeviceLike, get_device

if TYPE_CHECKING:
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.kernels.program import Program


class Blocks(NamedTuple):
    """What the native dispatcher takes beside the grid.

    Attributes:
        stream: A ``wp.Stream``, or None for the rules for streams.
        most: The most blocks; 0 for as many as the grid has.
        threads: The threads of a block; None for the option ``block_dim``, or what the kernel allows.
    """

    stream: Any = None
    most: int = 0
    threads: int | None = None


USUAL = Blocks()


def place_of_launch(kernel: str, device: DeviceLike, stream: Any) -> Device:
    """Return where a launch runs: the device of its stream, or the one that it names.

    Raises:
        TypeError: ``stream`` is no stream.
        ValueError: It is one of another device.
    """
    if stream is None:
        return get_device(device)
    from warp_like.runtime.memory.stream import Stream

    if not isinstance(stream, Stream):
        raise TypeError(f"kernel `{kernel}`: stream takes a wp.Stream, got {type(stream).__name__}")
    if device is not None and get_device(device) is not stream.device:
        raise ValueError(f"kernel `{kernel}`: the launch is on {get_device(device)}, the stream on {stream.device}")
    return stream.device


def checked_blocks(kernel: str, stream: Any, max_blocks: Any, block_dim: Any) -> Blocks:
    """Return what a launch says about its blocks.

    Raises:
        TypeError: A number is none.
        ValueError: ``max_blocks`` is negative, or a block has more than 1024 threads.
    """
    if max_blocks is not None and (isinstance(max_blocks, bool) or not isinstance(max_blocks, int)):
        raise TypeError(f"kernel `{kernel}`: max_blocks takes an int, got {type(max_blocks).__name__} {max_blocks!r}")
    if max_blocks is not None and max_blocks < 0:
        raise ValueError(f"kernel `{kernel}`: max_blocks is 0 (no limit) or the most blocks, got {max_blocks}")
    return Blocks(stream, max_blocks or 0, checked_block_dim(f"kernel `{kernel}`", block_dim))


def cpu_threads(subject: str, block_dim: Any) -> int | None:
    """Return the threads of a block on the CPU where ``subject`` asks for so many, as the settings are; None for one.

    Raises:
        TypeError: The number is none.
        ValueError: It is more than 1024.
    """
    threads = checked_block_dim(subject, block_dim)
    return threads if settings.enable_cpu_blocks else None


def in_blocks(
    kernel: Kernel, device: Device, blocks: Blocks, dims: tuple[int, ...]
) -> tuple[Kernel, Blocks, tuple[int, ...]]:
    """Return the kernel for blocks of the size that a launch says, the blocks that it gets on its device, and its grid.

    Where the threads of a block work together on the CPU, or on tiles, the grid is one of blocks.
    """
    if kernel.cpu_block_axis >= 0:
        return kernel, blocks, dims
    if not device.is_cpu:
        if blocks.threads in (None, 1) or not kernel.works_on_tiles:
            return kernel, blocks, dims
        kernel, dims = over_blocks(kernel, blocks.threads, dims)
        return kernel, blocks._replace(threads=None), dims
    if not settings.enable_cpu_blocks:
        return kernel, blocks._replace(threads=None), dims
    kernel, dims = over_blocks(kernel, blocks.threads or 1, dims)
    return kernel, blocks, dims


def over_blocks(kernel: Kernel, threads: int, dims: tuple[int, ...]) -> tuple[Kernel, tuple[int, ...]]:
    """Return the kernel for blocks of ``threads`` threads on the CPU, and the grid over which it runs for ``dims``.

    Blocks lie along the grid's last dimension and do not go on in its next row.
    """
    kernel = kernel.in_blocks(threads, len(dims) - 1, dims[-1] % threads)
    return kernel, dims if kernel.cpu_block_axis < 0 else (*dims[:-1], -(-dims[-1] // threads))


def require_fitting(program: Program, loaded: Any, blocks: Blocks) -> None:
    """Refuse blocks of more threads than the compiled kernel can have.

    Raises:
        ValueError: It can't have so many.
    """
    if blocks.threads is not None and blocks.threads > loaded.max_threads:
        bounds = program.kernel.launch_bounds
        why = f"launch_bounds={bounds[0]}" if bounds else "the registers that a thread needs"
        raise ValueError(
            f"kernel `{program.kernel.key}`: block_dim={blocks.threads}, and {why} allow at most {loaded.max_threads}"
        )


__all__ = [
    "USUAL", "Blocks", "checked_blocks", "cpu_threads", "in_blocks", "over_blocks", "place_of_launch",
    "require_fitting",
]  # fmt: skip
