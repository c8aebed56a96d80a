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
from warp_like.base.contract import ARRAY_SHAPE, MAX_DIMS, HoleKind, HoleSource, HoleStart
from warp_like.base.hashing import digest
from warp_like.interop.jaxffi.target import TARGET, Code, jax_module
from warp_like.interop.jaxffi.varying import alike, result_type
from warp_like.ir.layout import SCALAR_CODE, param_offsets, size_of
from warp_like.ir.types import Array, Scalar, Type, bfloat16, element_shape, scalar_of
from warp_like.runtime.memory.allocation import contiguous_strides

_UNUSED_ADDRESS = 64  # of arrays that the code neither reads nor writes; not null, which kernels may ask about


def jax_dtype(t: Type) -> np.dtype[Any]:
    """Return the dtype of a JAX array of values of ``t``, or of an array of type ``t``."""
    scalar = scalar_of(t.dtype if isinstance(t, Array) else t)
    assert scalar is not None
    return np.dtype(jax_module().numpy.bfloat16) if scalar == bfloat16 else values.numpy_dtype(scalar)


@dataclass(frozen=True)
class Buffer:
    """An operand or a result of a call: its number among them."""

    is_result: bool
    index: int


@dataclass(frozen=True)
class Value:
    """What a buffer holds: its shape, without the dimensions of its elements, and these."""

    shape: tuple[int, ...]
    element: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the JAX array."""
        return (*self.shape, *self.element)

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.full_shape) * self.dtype.itemsize


@dataclass(frozen=True)
class View:
    """What fills an array parameter: a view of a buffer, or of nothing where the code uses no element."""

    buffer: Buffer | None
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None  # contiguous where None
    shift: int = 0


class Call:
    """A call of compiled code. Every parameter of the code is filled once, by one of the methods.

    Once that is done, it is a function of its operands.

    Attributes:
        code: The code.
        dims: The grid.
        views: What fills the array parameters, by position.
        scalars: What fills the others: a buffer, or bytes.
        sums: Positions of array parameters, as wide as their buffers, that the code only adds to, and not atomically.
        operands: What the operands hold.
        results: What the results hold.
        starts: For each result the operand that it holds before, or whether that is zeros or anything.
        vmap_method: As for ``jax.ffi.ffi_call``.
        has_side_effect: Whether the call stays when its results are not used.
        block_dim: On CUDA, the threads of a block; 0 for what the kernel's options say.
    """

    def __init__(
        self, code: Code, dims: Sequence[int], vmap_method: str, has_side_effect: bool, block_dim: int = 0
    ) -> None:
        self.code = code
        self.dims = (*dims, *[1] * (MAX_DIMS - len(dims)))
        self.vmap_method = vmap_method
        self.has_side_effect = has_side_effect
        self.block_dim = block_dim
        self.views: dict[int, View] = {}
        self.scalars: dict[int, Buffer | bytes] = {}
        self.sums: tuple[int, ...] = ()
        self.operands: list[Value] = []
        self.results: list[Value] = []
        self.starts: list[int] = []
        self._arrays: list[Any] = []

    def operand(self, x: Any, element: Type) -> Buffer:
        """Pass a JAX array, of elements of a type, to the call."""
        inner = element_shape(element)
        self.operands.append(Value(tuple(x.shape[: len(x.shape) - len(inner)]), inner, np.dtype(x.dtype)))
        self._arrays.append(x)
        return Buffer(False, len(self.operands) - 1)

    def result(self, shape: tuple[int, ...], element: Type, start: Any = None, *, zero: bool = True) -> Buffer:
        """Have the call return an array of ``element``.

        Args:
            shape: Its shape.
            element: The type of its elements.
            start: A JAX array of what it holds before.
            zero: Without ``start``, whether it holds zeros before.
        """
        self.results.append(Value(shape, element_shape(element), jax_dtype(element)))
        blank = HoleStart.ZEROED if zero else HoleStart.UNINITIALISED
        self.starts.append(blank if start is None else self.operand(start, element).index)
        return Buffer(True, len(self.results) - 1)

    def value(self, i: int, value: Any) -> None:
        """Fill a scalar, vector or matrix parameter with a JAX array of its components, or with bytes."""
        self.scalars[i] = value if isinstance(value, bytes) else self.operand(value, self.code.params[i])

    def take_operands(self) -> list[Any]:
        """Return the JAX arrays that were passed, which the call then holds no longer; they vary alike."""
        arrays, self._arrays = self._arrays, []
        return alike(arrays)

    def __call__(self, *operands: Any) -> list[Any]:
        """Put the call into the program that JAX traces, and return its results."""
        block, binds = self._packed()
        aliases = {start: n for n, start in enumerate(self.starts) if start >= 0}
        # What shares memory has one shape.
        vmap_method = "broadcast_all" if aliases and self.vmap_method == "expand_dims" else self.vmap_method
        call = jax_module().ffi.ffi_call(
            TARGET,
            [result_type(v.full_shape, v.dtype, operands) for v in self.results],
            vmap_method=vmap_method,
            has_side_effect=self.has_side_effect,
            input_output_aliases=aliases,
        )
        return list(
            call(
                *operands,
                plan=np.int64(self.code.key),
                dims=np.array(self.dims, np.int64),
                block=np.frombuffer(block, np.int64),
                binds=np.array(binds, np.int64),
                block_dim=np.int64(self.block_dim),
            )
        )

    def fingerprint(self) -> str:
        """Return a hash of all that the call says."""
        block, binds = self._packed()
        return digest(str(self.code.key), str(self.dims), block, str(binds), str(self.starts), str(self.block_dim))

    def _packed(self) -> tuple[bytes, list[int]]:
        """Return the argument block, and the words that say where buffers go into it."""
        offsets, size = param_offsets(list(self.code.params))
        block = bytearray(size)
        binds: list[int] = []
        started: set[Buffer] = set()
        for i, offset in enumerate(offsets):
            if i in self.views:
                view = self.views[i]
                strides = contiguous_strides(view.shape, size_of(self._element(i)))
                steps = strides if view.strides is None else view.strides
                struct.pack_into(f"={2 * len(view.shape)}q", block, offset + ARRAY_SHAPE, *view.shape, *steps)
                if view.buffer is None:
                    struct.pack_into("=Q", block, offset, _UNUSED_ADDRESS)
                else:
                    scalar = scalar_of(self._element(i))
                    summed = 1 + SCALAR_CODE[scalar] if i in self.sums and scalar is not None else 0
                    binds += (*self._bound(offset, HoleKind.POINTER, view.buffer, view.shift, started), summed)
                continue
            filler = self.scalars[i]
            if isinstance(filler, bytes):
                block[offset : offset + len(filler)] = filler
            else:
                binds += (*self._bound(offset, HoleKind.VALUE, filler, 0, started), 0)
        return bytes(block), binds

    def _bound(self, offset: int, kind: int, buffer: Buffer, shift: int, started: set[Buffer]) -> tuple[int, ...]:
        value = (self.results if buffer.is_result else self.operands)[buffer.index]
        init = self.starts[buffer.index] if buffer.is_result and buffer not in started else HoleStart.UNINITIALISED
        started.add(buffer)
        source = HoleSource.RESULT if buffer.is_result else HoleSource.OPERAND
        return offset, kind, source, buffer.index, len(value.full_shape), value.nbytes, init, shift

    def _element(self, i: int) -> Type:
        t = self.code.params[i]
        return t.dtype if isinstance(t, Array) else t


def constant(t: Type, value: Any) -> np.ndarray[Any, Any]:
    """Return a checked number, vector or matrix (as launches take them) as a NumPy array."""
    if isinstance(t, Scalar):
        return np.array(value, jax_dtype(t))
    return np.asarray(value.numpy()).view(jax_dtype(t)).reshape(element_shape(t))


def number(t: Type, data: bytes) -> Any:
    """Return the Python value of a number, vector or matrix from its bytes."""
    if isinstance(t, Scalar) and t != bfloat16:
        return np.frombuffer(data, jax_dtype(t))[0].item()
    return values.from_ir(t)._from_bytes(data)
