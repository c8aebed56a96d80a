"""Recorded launches over arrays of scalars of any strides, which the fields of structs are.

A launch over several arrays at once joins their dimensions where all strides allow it. So contiguous arrays of any
shape are one-dimensional to the kernel, whose code is then that of plain vectors.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import warp_like as wp
from warp_like.runtime.arrays.float_fields import part_of

_BLOCK_DIMS = 4
"""The dimensions of the kernels over blocks. More of them are rare, and a launch for each index costs little."""


class Kernels(NamedTuple):
    """An algorithm as kernels over arrays of one and of four dimensions."""

    line: wp.Kernel
    block: wp.Kernel


class Launches:
    """Launches of kernels with their arguments. They are recorded (``wp.Launch``) when they run for the second time.

    To record a launch takes as long as several launches, and some programs have new gradients in each step. Tapes do
    not see them.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[wp.Kernel, tuple[int, ...], list[Any]]] = []
        self._recorded: list[wp.Launch] | None = None
        self._ran = False

    def add(self, kernels: Kernels, arrays: Sequence[wp.array], *more: Any) -> None:
        """Add the launch of a kernel over arrays of scalars of one shape, with ``more`` arguments.

        It is one launch, unless the arrays keep more than four dimensions when those that lie behind each other in all
        of them are joined. Then there is one for each index of the first dimensions.
        """
        shape, strides = _joined(arrays[0].shape, tuple(a.strides for a in arrays))
        if len(shape) <= 1:
            kernel, outer, inner = kernels.line, 0, shape or (1,)
        else:
            kernel, outer = kernels.block, max(len(shape) - _BLOCK_DIMS, 0)
            inner = (1,) * (_BLOCK_DIMS - len(shape)) + shape[outer:]
        for index in itertools.product(*map(range, shape[:outer])):
            parts = [_part(a, steps, index, inner) for a, steps in zip(arrays, strides, strict=True)]
            self._calls.append((kernel, inner, [*parts, *more]))

    def run(self) -> None:
        """Run them in their order."""
        if self._recorded is None and self._ran:
            self._recorded = [_launch(*call, record_cmd=True) for call in self._calls]
        if self._recorded is None:
            for call in self._calls:
                _launch(*call)
        else:
            for launch in self._recorded:
                launch.launch()
        self._ran = True


def _launch(kernel: wp.Kernel, dim: tuple[int, ...], inputs: list[Any], record_cmd: bool = False) -> Any:
    return wp.launch(kernel, dim, inputs, device=inputs[0].device, record_tape=False, record_cmd=record_cmd)


@functools.lru_cache(maxsize=1024)
def _joined(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the shape of fewest dimensions, and the strides of each array in it."""
    extents: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        here = [of[axis] for of in strides]
        if extents and all(of[-1] == step * extent for of, step in zip(steps, here, strict=True)):
            extents[-1] *= extent
            for of, step in zip(steps, here, strict=True):
                of[-1] = step
        else:
            extents.append(extent)
            for of, step in zip(steps, here, strict=True):
                of.append(step)
    return tuple(extents), tuple(map(tuple, steps))


def _part(a: wp.array, strides: tuple[int, ...], index: tuple[int, ...], shape: tuple[int, ...]) -> wp.array:
    """Return the elements of ``a`` at ``index`` of its first dimensions, as an array of ``shape``."""
    inner = strides[len(index) :]
    steps = (a.itemsize,) * (len(shape) - len(inner)) + inner
    if (shape, steps) == (a.shape, a.strides):
        return a
    offset = sum(k * step for k, step in zip(index, strides, strict=False))
    return part_of(a, offset, shape, steps)
