"""Warnings of launches that write where that rarely does what it should.

They are looked for when a launch is prepared: at the first launch of a kernel with arguments of some types, and again
for other strides. Launches that begin at the dispatcher pay nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp_like.base.warn import warn
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.array import array
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.memory.recorder import recorder


def warn_of_leaves(program: Program, given: Sequence[Any]) -> None:
    """Warn of a tensor that its own library would not let anybody write to, as it is a leaf with a gradient.

    On a tape the launch is part of the gradient, and an array that ``wp.from_torch`` made is meant to be written.

    Args:
        program: The compiled kernel.
        given: The arguments as the user gave them.
    """
    if recorder.active is not None:
        return
    kernel = program.kernel
    for i in program.effects.writes:
        position = kernel.positions[i] if i < len(kernel.parameter_names) else len(given)
        if position < len(given) and interop_hooks.is_guarded(given[position]):
            name = kernel.parameter_names[i]
            warn(
                f"kernel `{kernel.key}`, argument {position + 1} `{name}`: the kernel writes to a leaf tensor that "
                "requires a gradient, and no gradient knows of it; launch under torch.no_grad(), pass "
                f"{name}.detach(), or record the launch on a wp.Tape"
            )


def warn_of_shared_elements(program: Program, args: Sequence[Any]) -> None:
    """Warn of an array to store to whose elements lie in one place: with a stride of 0, as ``expand`` makes it."""
    kernel = program.kernel
    for i in program.effects.stores:
        a = args[i]
        if i >= len(kernel.parameter_names) or not isinstance(a, array) or a.is_contiguous:
            continue
        if any(n > 1 and stride == 0 for n, stride in zip(a.shape, a.strides, strict=True)):
            name = kernel.parameter_names[i]
            warn(
                f"kernel `{kernel.key}`, argument {kernel.positions[i] + 1} `{name}`: the kernel stores to an array of "
                f"shape {a.shape} with strides {a.strides}, whose elements share memory: one value stays; pass a copy, "
                f"such as {name}.contiguous()"
            )
