"""Host scalars: numbers that know their type and refuse what does not fit."""

import math
import pickle

import numpy as np
import pytest

import warp_like as wp
from warp_like import values
from warp_like.ir import types as ir
from warp_like.values.dtypes import SCALAR_CLASSES, as_number

INTS = [(t, c) for t, c in SCALAR_CLASSES.items() if t.is_int]
FLOATS = [(t, c) for t, c in SCALAR_CLASSES.items() if t.is_float]


def test_scalar_behaves_as_the_python_number():
    x = wp.float32(3.5)
    assert x == 3.5
    assert x + 1 == 4.5
    assert float(x) == 3.5
    assert x.value == 3.5
    n = wp.int16(7)
    assert [10, 20, 30, 40, 50, 60, 70, 80][n] == 80
    assert n // 2 == 3
    assert hash(n) == hash(7)
    assert (repr(x), str(x), repr(n), repr(wp.bool(1)), str(wp.bool(0))) == (
        "float32(3.5)",
        "3.5",
        "int16(7)",
        "bool(True)",
        "False",
    )


@pytest.mark.parametrize(("t", "cls"), INTS)
def test_integer_range(t, cls):
    info = np.iinfo(values.numpy_dtype(t))
    assert (cls(info.min), cls(info.max)) == (info.min, info.max)
    for outside in (int(info.min) - 1, int(info.max) + 1):
        with pytest.raises(OverflowError, match=f"does not fit {t}"):
            cls(outside)


@pytest.mark.parametrize("value", [1.5, 2.0, "3", None, [1]])
def test_integer_takes_no_other_things(value):
    with pytest.raises(TypeError, match="int32 needs"):
        wp.int32(value)


def test_float_is_rounded_to_its_type():
    assert wp.float32(0.1) == float(np.float32(0.1))
    assert wp.float16(0.1) == float(np.float16(0.1))
    assert wp.bfloat16(math.pi) == 3.140625
    assert wp.bfloat16(1.00390625) == 1.0  # halfway, to even
    assert wp.float64(0.1) == 0.1


@pytest.mark.parametrize(("cls", "large"), [(wp.float16, 1e5), (wp.float32, 1e39), (wp.bfloat16, 3.4e38)])
def test_float_that_is_too_large(cls, large):
    with pytest.raises(OverflowError, match="does not fit"):
        cls(-large)


@pytest.mark.parametrize(("t", "cls"), FLOATS)
def test_float_keeps_what_is_not_finite(t, cls):
    assert cls(math.inf) == math.inf
    assert cls(-math.inf) == -math.inf
    assert math.isnan(cls(math.nan))


def test_scalars_pickle():
    for cls in SCALAR_CLASSES.values():
        back = pickle.loads(pickle.dumps(cls(1)))
        assert type(back) is cls
        assert back == 1


def test_numpy_dtypes_both_ways():
    for t in ir.SCALARS:
        d = values.numpy_dtype(t)
        assert d.itemsize * 8 == t.bits
        assert values.scalar_from_numpy(d) == (ir.uint16 if t == ir.bfloat16 else t)
    assert values.scalar_from_numpy(np.longlong) == values.scalar_from_numpy(np.int64) == ir.int64
    assert values.scalar_from_numpy(">f4") is None
    assert values.scalar_from_numpy(np.complex64) is None


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, ir.int32),
        (float, ir.float32),
        (bool, ir.bool_),
        (wp.uint8, ir.uint8),
        (np.float64, ir.float64),
        (np.dtype("int16"), ir.int16),
        (wp.vec3, ir.Vec(3, ir.float32)),
        (wp.mat22d, ir.Mat(2, 2, ir.float64)),
        (wp.array(dtype=float), ir.Array(ir.float32, 1)),
        (wp.array(dtype=wp.vec3, ndim=3), ir.Array(ir.Vec(3, ir.float32), 3)),
        (wp.array2d[wp.int64], ir.Array(ir.int64, 2)),
        (wp.array[wp.mat33], ir.Array(ir.Mat(3, 3, ir.float32), 1)),
        (wp.array4d(dtype=np.uint8), ir.Array(ir.uint8, 4)),
    ],
)
def test_annotation_to_ir_and_back(annotation, expected):
    assert values.to_ir(annotation) == expected
    assert values.to_ir(values.from_ir(expected)) == expected
    assert values.is_type(annotation)
    assert values.accepts(annotation, expected)


def test_generic_annotations():
    from typing import Any

    for generic in (Any, values.dtypes.Float, wp.array(dtype=Any), wp.array2d, wp.array):
        assert values.to_ir(generic) is None
        assert values.is_type(generic)
    assert values.accepts(wp.array(dtype=Any), ir.Array(ir.int8, 1))
    assert not values.accepts(wp.array(dtype=Any), ir.Array(ir.int8, 2))
    assert values.accepts(values.dtypes.Float, ir.float16)
    assert not values.accepts(values.dtypes.Int, ir.float16)


@pytest.mark.parametrize("wrong", [str, 3, "float", complex, np.complex64, list])
def test_annotation_that_is_no_type(wrong):
    assert not values.is_type(wrong)
    with pytest.raises(TypeError, match="not a type of the kernel language"):
        values.to_ir(wrong)


def test_constants():
    assert values.constant_of(wp.float64(2)) == (ir.float64, 2.0)
    assert values.constant_of(wp.bool(True)) == (ir.bool_, True)
    assert values.constant_of(np.float64(2)) == (ir.float64, 2.0)
    assert values.constant_of(np.uint8(5)) == (ir.uint8, 5)
    assert values.constant_of(wp.vec2i(1, 2)) == (ir.Vec(2, ir.int32), (1, 2))
    assert values.constant_of(3) is values.constant_of(2.5) is values.constant_of(True) is None


def test_as_number_of_numpy_scalars():
    assert as_number(np.int64(5), ir.int8) == 5
    with pytest.raises(OverflowError):
        as_number(np.int64(500), ir.int8)
