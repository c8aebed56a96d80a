"""Launches of kernels that work on tiles: a block for each place of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warp_like.base.settings import settings
from warp_like.runtime.kernels.arguments import grid_dims
from warp_like.runtime.kernels.options import checked_block_dim
from warp_like.runtime.launching.blocks import place_of_launch
from warp_like.runtime.launching.launch import Launch, launch

if TYPE_CHECKING:
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.memory.device import Device


def launch_tiled(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Device | str | None = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    *,
    block_dim: int | None,
    options: Mapping[str, Any] | None = None,
) -> Launch | None:
    """Run ``kernel`` once for each block of threads of a grid of blocks.

    A kernel that works on tiles is written for a block. On CUDA, the threads of a block share the work. On the CPU, a
    block is one thread, and this is ``wp.launch`` over ``dim``; one more index that the kernel asks ``wp.tid()`` for,
    that of the thread in its block, is 0. The block's work runs in vectors, and blocks run on all cores. With
    ``wp.config.enable_cpu_blocks``, blocks on the CPU have ``block_dim`` threads.

    Args:
        kernel: A function decorated with ``wp.kernel``.
        dim: Number of blocks, or the extents of a grid of them.
        inputs: As for ``wp.launch``, like all arguments but ``block_dim``.
        outputs: See ``wp.launch``.
        adj_inputs: See ``wp.launch``.
        adj_outputs: See ``wp.launch``.
        device: See ``wp.launch``.
        stream: See ``wp.launch``.
        adjoint: See ``wp.launch``.
        record_tape: See ``wp.launch``.
        record_cmd: See ``wp.launch``.
        max_blocks: See ``wp.launch``.
        block_dim: The threads of a block, 1 to 1024, or None for one. It changes nothing where blocks have one thread.
        options: See ``wp.launch``.

    Raises:
        TypeError: See ``wp.launch``.
        ValueError: ``block_dim`` is above 1024; see ``wp.launch``.
        WarpCodegenError: The kernel can't be compiled.

    Example:
        >>> wp.launch_tiled(square, dim=n, inputs=[x], outputs=[y], block_dim=64)
    """
    key = getattr(kernel, "key", repr(kernel))
    threads = checked_block_dim(f"kernel `{key}`", block_dim)
    dims = grid_dims(key, dim)
    if not settings.enable_cpu_blocks and place_of_launch(key, device, stream).is_cpu:
        threads = None  # one, and a launch that says no more than is needed runs without Python
    elif threads and threads > 1:
        dims = (*dims, threads)
    given: dict[str, Any] = {
        "adj_inputs": adj_inputs, "adj_outputs": adj_outputs, "device": device, "stream": stream,
        "block_dim": threads, "options": options,
    }  # fmt: skip
    others = {name: value for name, value in given.items() if value is not None}
    flags = {"adjoint": adjoint, "record_cmd": record_cmd, "max_blocks": max_blocks}
    others |= {name: value for name, value in flags.items() if value}
    if not record_tape:
        others["record_tape"] = record_tape
    return launch(kernel, dims, inputs, outputs, **others)
