"""The floats in arrays of any dtype and strides, and recorded launches over them.

An optimizer treats each float alone, whatever it is a part of. So an array is, for each *field* of floats in its
elements, an array of scalars, with dimensions for the components of vectors and matrices. An array that is not of
structs is its only field, named "". Integers stay as they are.

A launch over several such arrays at once joins their dimensions where all strides allow it. So contiguous arrays of any
shape are one-dimensional to the kernel, whose code is then that of plain vectors.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import warp_like as wp
from warp_like.ir import types as ir
from warp_like.ir.layout import field_offsets
from warp_like.runtime.arrays.array import bind_foreign
from warp_like.runtime.memory.allocation import element_type

_BLOCK_DIMS = 4
"""The dimensions of the kernels over blocks. More of them are rare, and a launch for each index costs little."""


class Kernels(NamedTuple):
    """An algorithm as kernels over arrays of one and of four dimensions."""

    line: wp.Kernel
    block: wp.Kernel


class Field(NamedTuple):
    """Floats in the elements of an array: their dotted name, their offset in bytes, and their type."""

    name: str
    offset: int
    type: ir.Type

    def of(self, a: wp.array) -> wp.array:
        """Return the scalars of the field in all elements of an array that has some."""
        if isinstance(a.element.type, ir.Scalar):
            return a
        element = element_type(self.type)
        values = bind_foreign(element, a.ptr + self.offset, a.shape, a.strides, a.readonly, a.device, a)
        return values.view(self.scalar)

    @property
    def scalar(self) -> Any:
        """The dtype of the floats."""
        return element_type(ir.scalar_of(self.type)).host

    @property
    def accumulator(self) -> Any:
        """The dtype of what is kept from step to step: the field's own, with float32 in place of shorter floats."""
        scalar = ir.scalar_of(self.type)
        assert scalar is not None
        return element_type(ir.with_scalar(self.type, ir.float32) if scalar.bits < 32 else self.type).host


def of_array(a: wp.array, what: str = "the array") -> list[Field]:
    """Return the fields of floats in the elements of ``a``, which errors call ``what``.

    Raises:
        TypeError: There are none, or a field is an array.
    """
    found = list(_fields(a.element.type, "", 0, what))
    if not found:
        dtype = wp.types.type_repr(a.dtype)
        raise TypeError(f"{what} has dtype {dtype}; it takes floats, vectors or matrices of them, and structs of these")
    return found


def _fields(t: ir.Type, name: str, offset: int, what: str) -> Iterator[Field]:
    if isinstance(t, ir.Struct):
        for (part, inner), at in zip(t.fields, field_offsets(t), strict=True):
            yield from _fields(inner, f"{name}.{part}" if name else part, offset + at, what)
        return
    scalar = ir.scalar_of(t)
    if scalar is None:
        raise TypeError(f"{what}: the field `{name}` of its structs is an array; optimize that array by itself")
    if scalar.is_float:
        yield Field(name, offset, t)


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
    return bind_foreign(a.element, a.ptr + offset, shape, steps, a.readonly, a.device, a)
