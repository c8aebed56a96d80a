"""How IR values look in LLVM.

A scalar, vec, mat, quat, transform or struct is the tuple of its scalars, one register each (row-major, fields in
order), so that LLVM's vectorisers see scalars only; an array is an ``ArrayRef``. Registers and constants are
written as text without their type. A bool is ``i1`` in a register and one byte in memory; a bfloat16 is its
bits, ``i16``, and computes in float32.

A ``Lanes`` value looks the same, each register a vector of LLVM; its scalars' types are ``LaneScalar``, which the
functions here and the lowering of builtins take wherever they take a ``Scalar``.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence

from warp_like.base.frozen import Frozen
from warp_like.ir.layout import field_offsets, size_of
from warp_like.ir.types import (
    Array,
    Lanes,
    Scalar,
    Struct,
    Type,
    bfloat16,
    element_count,
    float16,
    float32,
    scalar_of,
)

_REGISTER_FLOATS = {"float16": "half", "float32": "float", "float64": "double", "bfloat16": "i16"}


class ArrayRef(Frozen):
    """An array in registers: its address and, as i64, extents and byte strides (none if contiguous).

    Where each of ``lanes`` lanes has an array of its own, an element takes the memory of all lanes' elements, and a
    scalar in it that of all lanes' scalars, one behind the other.
    """

    type: Array
    data: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    sum: str = ""  # for an array that is summed into without atomics: the name of its alias scope
    thread_private: bool = False  # each thread touches its own element alone
    counter: bool = False  # additions, whose results are used, are plain where no other OS thread is at work
    reduced: bool = False  # all threads only reduce into the same elements
    local: bool = False  # on the thread's stack
    note: str = ""  # more metadata of accesses, of which the alias scope of the array is a part
    shared: bool = False  # in a block's shared memory
    lanes: int = 1
    scattered: int = 0  # so many lanes have arrays of which nothing is known, and each register a number for each
    adjacent: str = ""  # of these: an i1, whether elements follow on each other along the last axis in all arrays
    constant: bool = False  # nothing writes to it during the launch
    narrow: bool = False  # it has at most ``contract.MAX_NARROW`` elements
    align: int = 0  # what the address of each element is a multiple of; 0 for what its scalars need
    partials: ArrayRef | None = None  # for an array that is summed into: the partial sums of each lane

    @property
    def element_size(self) -> int:
        """The bytes of an element, those of all lanes together."""
        return size_of(self.type.dtype) * self.lanes

    @property
    def parts(self) -> tuple[str, ...]:
        """All registers, address first."""
        return (self.data, *self.shape, *self.strides)

    def with_parts(self, parts: tuple[str, ...]) -> ArrayRef:
        """Return an array of this form made of other registers, which control flow has chosen.

        What is known of this array is not known of that one.
        """
        n = 1 + len(self.shape)
        chosen = {"data": parts[0], "shape": tuple(parts[1:n]), "strides": tuple(parts[n:])}
        return self.replace(
            **chosen, constant=False, narrow=False, sum="", thread_private=False, counter=False, reduced=False,
            align=0, partials=None,
        )  # fmt: skip


Rep = tuple[str, ...] | ArrayRef
"""An IR value in LLVM."""


def flatten(reps: Sequence[Rep]) -> list[str]:
    """Return all registers of ``reps`` in order."""
    return [x for rep in reps for x in (rep.parts if isinstance(rep, ArrayRef) else rep)]


class LaneScalar(Scalar):
    """A scalar type in ``width`` lanes."""

    width: int

    @property
    def one(self) -> Scalar:
        """The type of one lane."""
        return _scalar(self.kind, self.bits)

    def __str__(self) -> str:
        return f"{self.one} x {self.width}"


@functools.cache
def _scalar(kind: str, bits: int) -> Scalar:
    return Scalar(kind, bits)


@functools.cache
def beside(t: Scalar, like: Scalar) -> Scalar:
    """Return ``t`` in as many lanes as ``like`` has."""
    return LaneScalar(t.kind, t.bits, like.width) if isinstance(like, LaneScalar) else t


def one_lane(t: Scalar) -> Scalar:
    """Return the type of one lane of ``t``."""
    return t.one if isinstance(t, LaneScalar) else t


def vector(text: str, like: Scalar) -> str:
    """Return the LLVM type ``text`` in as many lanes as ``like`` has."""
    return f"<{like.width} x {text}>" if isinstance(like, LaneScalar) else text


def suffix(t: Scalar) -> str:
    """Return how the names of LLVM's intrinsics end that work on ``t``: ``f32``, ``v16f32``."""
    base = f"{'f' if t.kind == 'float' else 'i'}{t.bits}"
    return f"v{t.width}{base}" if isinstance(t, LaneScalar) else base


@functools.cache
def register_type(t: Scalar) -> str:
    """Return the LLVM type of ``t`` in a register."""
    if t.is_bool:
        return vector("i1", t)
    return vector(f"i{t.bits}" if t.is_int else _REGISTER_FLOATS[str(one_lane(t))], t)


def memory_type(t: Scalar) -> str:
    """Return the LLVM type of ``t`` in memory."""
    return vector("i8", t) if t.is_bool else register_type(t)


def is_half(t: Scalar) -> bool:
    """Return whether ``t`` is a 16-bit float, which computes in float32."""
    return t.is_float and t.bits == 16


@functools.cache
def leaves(t: Type) -> tuple[tuple[Scalar, int], ...]:
    """Return the scalars that a value of ``t`` is made of, each with its byte offset in memory."""
    if isinstance(t, Lanes):
        return tuple((LaneScalar(s.kind, s.bits, t.width), offset) for s, offset in leaves(t.of))
    if isinstance(t, Struct):
        parts = zip(field_offsets(t), t.fields, strict=True)
        return tuple((s, offset + at) for offset, (_, f) in parts for s, at in leaves(f))
    scalar = scalar_of(t)
    if scalar is None:
        raise TypeError(f"{t} is not made of scalars")
    return tuple((scalar, i * size_of(scalar)) for i in range(element_count(t)))


def constant(value: float, t: Scalar) -> str:
    """Return the text of a scalar constant, the same in all lanes."""
    if isinstance(t, LaneScalar):
        return f"splat ({register_type(t.one)} {constant(value, t.one)})"
    if t.is_bool:
        return "true" if value else "false"
    if t.is_int:
        return str(int(value))
    x = float(value)
    if t == float16:
        return f"0xH{_pack('e', 'H', x):04X}"
    if t == bfloat16:
        return str(_bfloat16_bits(x))
    if t == float32:
        (x,) = struct.unpack("=f", struct.pack("=I", _pack("f", "I", x)))
    return f"0x{_pack('d', 'Q', x):016X}"


def _pack(form: str, bits: str, x: float) -> int:
    try:
        raw = struct.pack(f"={form}", x)
    except OverflowError:
        raw = struct.pack(f"={form}", math.copysign(math.inf, x))
    (got,) = struct.unpack(f"={bits}", raw)
    return int(got)


def _bfloat16_bits(x: float) -> int:
    bits = _pack("f", "I", x)
    if x != x:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
