"""The memory layout of IR types: the ABI between Python, the native extension and compiled kernels.

* A bool takes one byte. A vector, matrix (row-major), quaternion or transform is its scalars, packed, aligned as they.
* A struct has C layout: each field at its natural alignment, the size rounded up to the largest one.
* A kernel's arguments lie one after the other in a block, each in a slot aligned to 8 bytes. An array of ``n``
  dimensions is ``{ void* data; int64 shape[n]; int64 stride[n]; }`` with strides in bytes.
* An entry point is ``void entry(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context*)``:
  it runs the threads ``begin <= t < end`` of the flattened grid (last dimension fastest) whose extents are ``dims``.
* On CUDA it is ``.entry entry(args, CudaGrid dims, end, CudaContext* ctx)``: the block and the grid are passed by
  value, and the threads of a one-dimensional launch run all ``0 <= t < end`` (``backend/llvm/entry.py``). ``ctx`` is
  the address of a ``CudaContext`` (``base/contract.py``), or null for an artifact that has no ``faults`` and no stack.
  Where it saves values on a stack, ``char* stack, int64_t capacity`` follow: ``capacity`` bytes for each thread.
"""

from __future__ import annotations

from warp_like.base import contract
from warp_like.base.contract import (
    ALIGN_BIT,
    COLUMNS_BIT,
    KIND_BIT,
    NUMBER_BIT,
    ROWS_BIT,
    SLOT,
    STRUCT_CODE,
    ElementKind,
)
from warp_like.ir.types import (
    SCALARS,
    Aggregate,
    Array,
    Lanes,
    Mat,
    Quat,
    Scalar,
    Struct,
    Transform,
    Type,
    Vec,
    element_count,
    int64,
)

SCALAR_CODE: dict[Scalar, int] = {t: getattr(contract.Scalar, str(t).upper()) for t in SCALARS}
"""The number that stands for a scalar type in the native extension."""

_struct_numbers: dict[Struct, int] = {}

SAVED_RESULTS = Array(int64, 2)
"""The array in which a recorded launch saves what atomics return: a row for each atomic, a column for each thread."""


def size_of(t: Type) -> int:
    """Return the bytes that a value of ``t`` takes in an array or a struct."""
    if isinstance(t, Scalar):
        return t.bits // 8
    if isinstance(t, Aggregate):
        return element_count(t) * size_of(t.dtype)
    if isinstance(t, Lanes):
        return t.width * size_of(t.of)
    if isinstance(t, Array):
        return 8 + 16 * t.ndim
    if isinstance(t, Struct):
        end = 0
        for offset, (_, field) in zip(field_offsets(t), t.fields, strict=True):
            end = offset + size_of(field)
        return _align(end, align_of(t))
    raise TypeError(f"{t} has no layout")


def align_of(t: Type) -> int:
    """Return the alignment of ``t`` in bytes."""
    if isinstance(t, Scalar):
        return t.bits // 8
    if isinstance(t, Aggregate):
        return align_of(t.dtype)
    if isinstance(t, Array):
        return 8
    if isinstance(t, Struct):
        return max((align_of(f) for _, f in t.fields), default=1)
    raise TypeError(f"{t} has no layout")


def vector_align(t: Type) -> int:
    """Return the largest power of two, up to 16, to which all elements of an array are aligned if its first one is."""
    size = size_of(t)
    return min(size & -size, 16)


def field_offsets(t: Struct) -> list[int]:
    """Return the byte offset of each field of ``t``."""
    offsets: list[int] = []
    at = 0
    for _, field in t.fields:
        at = _align(at, align_of(field))
        offsets.append(at)
        at += size_of(field)
    return offsets


def param_offsets(params: list[Type]) -> tuple[list[int], int]:
    """Return each parameter's offset in the argument block, and the block's size."""
    offsets: list[int] = []
    at = 0
    for t in params:
        offsets.append(at)
        at = _align(at + size_of(t), SLOT)
    return offsets, at


def type_code(t: Type) -> int:
    """Return the number by which the native extension tells element types apart.

    The lowest byte holds the scalar code, the next ones the rows (0 for a scalar), the columns (0 unless a matrix) and
    the ``ElementKind``. A struct has ``STRUCT_CODE`` in the lowest byte, then the logarithm of its alignment, and above
    a number of its own, valid in this process.
    """
    match t:
        case Scalar():
            return SCALAR_CODE[t]
        case Vec(length, dtype):
            return SCALAR_CODE[dtype] | length << ROWS_BIT
        case Mat(rows, cols, dtype):
            return SCALAR_CODE[dtype] | rows << ROWS_BIT | cols << COLUMNS_BIT
        case Quat(dtype):
            return SCALAR_CODE[dtype] | 4 << ROWS_BIT | ElementKind.QUATERNION << KIND_BIT
        case Transform(dtype):
            return SCALAR_CODE[dtype] | 7 << ROWS_BIT | ElementKind.TRANSFORM << KIND_BIT
        case Struct():
            number = _struct_numbers.setdefault(t, len(_struct_numbers))
            return STRUCT_CODE | (align_of(t).bit_length() - 1) << ALIGN_BIT | number << NUMBER_BIT
    raise TypeError(f"{t} has no type code")


def _align(at: int, to: int) -> int:
    return (at + to - 1) // to * to
