"""The memory layout, compared with NumPy's and C's."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from warp_like.ir.layout import (
    SCALAR_CODE,
    align_of,
    field_offsets,
    param_offsets,
    size_of,
    type_code,
)
from warp_like.ir.types import (
    SCALARS,
    Array,
    Mat,
    Quat,
    Struct,
    Type,
    Vec,
    bfloat16,
    bool_,
    element_shape,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    scalar_of,
    uint8,
    uint16,
)


def numpy_of(t: Type) -> np.dtype:
    """The NumPy dtype of the same layout, built by NumPy's rules for C structs."""
    if isinstance(t, Struct):
        return np.dtype([(name, numpy_of(f)) for name, f in t.fields], align=True)
    scalar = scalar_of(t)
    base = np.uint16 if scalar == bfloat16 else np.bool_ if scalar == bool_ else np.dtype(str(scalar))
    return np.dtype((base, element_shape(t)))


INNER = Struct("Inner", (("flag", bool_), ("p", Vec(3, float64))))
STRUCTS = [
    Struct("Plain", (("a", int8), ("b", int32), ("c", uint8))),
    Struct("Tail", (("x", float64), ("n", uint16))),
    Struct("Packed", (("v", Vec(3, uint8)), ("m", Mat(2, 3, float16)), ("q", Quat(float32)))),
    Struct("Nested", (("n", int8), ("inner", INNER), ("k", int8))),
    Struct("Bfloat", (("n", bool_), ("h", Vec(3, bfloat16)), ("k", int64))),
]
VALUES = [*SCALARS, Vec(3, float32), Vec(2, int8), Mat(3, 2, float64), Quat(float16)]


@pytest.mark.parametrize("t", [*VALUES, *STRUCTS], ids=str)
def test_sizes_are_numpys(t: Type) -> None:
    assert size_of(t) == numpy_of(t).itemsize
    assert align_of(t) == numpy_of(t).base.alignment


@pytest.mark.parametrize("t", STRUCTS, ids=str)
def test_field_offsets_are_numpys(t: Struct) -> None:
    fields = numpy_of(t).fields
    assert fields is not None
    assert field_offsets(t) == [fields[name][1] for name, _ in t.fields]


def test_struct_without_fields() -> None:
    assert (size_of(Struct("Empty", ())), align_of(Struct("Empty", ()))) == (0, 1)


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_array_descriptor_is_the_c_struct(ndim: int) -> None:
    class Descriptor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("shape", ctypes.c_int64 * ndim),
            ("stride", ctypes.c_int64 * ndim),
        )

    assert size_of(Array(float32, ndim)) == ctypes.sizeof(Descriptor)
    assert align_of(Array(float32, ndim)) == ctypes.alignment(Descriptor)


def test_parameters_lie_in_slots_of_eight_bytes() -> None:
    params = [int8, Array(float32, 2), Vec(3, float32), bool_, STRUCTS[1]]
    assert param_offsets(params) == ([0, 8, 48, 64, 72], 88)
    assert param_offsets([]) == ([], 0)


def test_type_codes() -> None:
    assert [SCALAR_CODE[t] for t in SCALARS] == list(range(13))
    assert type_code(float32) == 11
    assert type_code(Vec(3, float32)) == 11 | 3 << 8
    assert type_code(Mat(2, 4, float64)) == 12 | 2 << 8 | 4 << 16
    assert type_code(Quat(float32)) == 11 | 4 << 8 | 1 << 24
    assert len({type_code(t) for t in [*VALUES, Vec(4, float16), Mat(2, 3, float64)]}) == len(VALUES) + 2


def test_what_has_no_layout() -> None:
    for fn in (size_of, align_of, type_code):
        with pytest.raises(TypeError, match="has no"):
            fn(Type())
