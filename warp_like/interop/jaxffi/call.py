"""One call of compiled code inside a JAX program: which buffer fills which parameter.

Shapes are known when JAX traces, so the argument block is made then, with holes for pointers and for scalars that
come in buffers. A result is zeroed, or starts as a copy of an operand; JAX lets the two share memory where the operand
is not needed any more. Buffers may have leading batch dimensions (``vmap``), over which the native side repeats the
kernel.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warp_like import values
from warp_like.interop.jaxffi.target import TARGET, Code, jax_module
from warp_like.interop.jaxffi.varying import alike, result_type
from warp_like.ir.layout import MAX_DIMS, param_offsets, size_of
from warp_like.ir.types import Array, Scalar, Type, bfloat16, element_shape, scalar_of
from warp_like.runtime.memory import contiguous_strides

_POINTER, _VALUE = 0, 1
_OPERAND, _RESULT = 0, 1
_UNINITIALISED, _ZEROED = -1, -2
_UNUSED_ADDRESS = 64  # of arrays that the code neither reads nor writes; not null, which kernels may ask about


def jax_dtype(t: Type) -> np.dtype[Any]:
    """Return the dtype of a JAX array of values of ``t``, or of an array of type ``t``."""
    scalar = scalar_of(t.dtype if isinstance(t, Array) else t)
    assert scalar is not None
    return np.dtype(jax_module().numpy.bfloat16) if scalar == bfloat16 else values.numpy_dtype(scalar)


@dataclass(frozen=True)
class Buffer:
    """An operand or a result of a call: its number among them, dimensions and size, and what it holds before."""

    source: int
    index: int
    rank: int
    nbytes: int
    init: int


class Call:
    """A call under construction. Every parameter of the code is filled once, by one of the methods."""

    def __init__(self, code: Code, dims: Sequence[int]) -> None:
        self.code = code
        self.dims = (*dims, *[1] * (MAX_DIMS - len(dims)))
        self._offsets, size = param_offsets(list(code.params))
        self._block = bytearray(size)
        self._binds: list[int] = []
        self._operands: list[Any] = []
        self._results: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self._aliases: dict[int, int] = {}
        self._bound: set[Buffer] = set()

    def operand(self, x: Any) -> Buffer:
        """Pass a JAX array to the call."""
        self._operands.append(x)
        size = math.prod(x.shape) * np.dtype(x.dtype).itemsize
        return Buffer(_OPERAND, len(self._operands) - 1, len(x.shape), size, _UNINITIALISED)

    def result(self, shape: tuple[int, ...], element: Type, start: Any = None, *, zero: bool = True) -> Buffer:
        """Have the call return an array of ``element``.

        Args:
            shape: Its shape.
            element: The type of its elements.
            start: A JAX array of what it holds before.
            zero: Without ``start``, whether it holds zeros before.
        """
        index = len(self._results)
        full = (*shape, *element_shape(element))
        self._results.append((full, jax_dtype(element)))
        init = _ZEROED if zero else _UNINITIALISED
        if start is not None:
            init = self.operand(start).index
            self._aliases[init] = index
        return Buffer(_RESULT, index, len(full), math.prod(shape) * size_of(element), init)

    def array(
        self,
        i: int,
        buffer: Buffer,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        shift: int = 0,
    ) -> None:
        """Fill an array parameter with a buffer, or with a view into it that starts ``shift`` bytes from its start."""
        self._describe(i, shape, strides)
        self._bind(i, _POINTER, buffer, shift)

    def unused(self, i: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
        """Fill an array parameter of which the code uses no element, but perhaps the shape."""
        self._describe(i, shape, strides)
        struct.pack_into("=Q", self._block, self._offsets[i], _UNUSED_ADDRESS)

    def value(self, i: int, value: Any) -> None:
        """Fill a scalar, vector or matrix parameter with a JAX array of its components, or with bytes."""
        if isinstance(value, bytes):
            self._block[self._offsets[i] : self._offsets[i] + len(value)] = value
        else:
            self._bind(i, _VALUE, self.operand(value))

    def run(self, *, vmap_method: str, has_side_effect: bool = False) -> list[Any]:
        """Put the call into the program that JAX traces, and return its results."""
        jax = jax_module()
        operands = alike(self._operands)
        results = [result_type(shape, dtype, operands) for shape, dtype in self._results]
        if self._aliases and vmap_method == "expand_dims":
            vmap_method = "broadcast_all"  # what shares memory has one shape
        call = jax.ffi.ffi_call(
            TARGET,
            results,
            vmap_method=vmap_method,
            has_side_effect=has_side_effect,
            input_output_aliases=self._aliases,
        )
        return list(
            call(
                *operands,
                plan=np.int64(self.code.key),
                dims=np.array(self.dims, np.int64),
                block=np.frombuffer(bytes(self._block), np.int64),
                binds=np.array(self._binds, np.int64),
            )
        )

    def _element(self, i: int) -> Type:
        t = self.code.params[i]
        return t.dtype if isinstance(t, Array) else t

    def _describe(self, i: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
        steps = contiguous_strides(shape, size_of(self._element(i))) if strides is None else strides
        struct.pack_into(f"={2 * len(shape)}q", self._block, self._offsets[i] + 8, *shape, *steps)

    def _bind(self, i: int, kind: int, buffer: Buffer, shift: int = 0) -> None:
        init = buffer.init if buffer not in self._bound else _UNINITIALISED
        self._bound.add(buffer)
        words = (self._offsets[i], kind, buffer.source, buffer.index, buffer.rank, buffer.nbytes, init, shift)
        self._binds += words


def constant(t: Type, value: Any) -> np.ndarray[Any, Any]:
    """Return a checked number, vector or matrix (as launches take them) as a NumPy array."""
    if isinstance(t, Scalar):
        return np.array(value, jax_dtype(t))
    return np.asarray(value.numpy()).view(jax_dtype(t)).reshape(element_shape(t))
