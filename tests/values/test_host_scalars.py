"""Host scalars: numbers that know their type, convert as casts do, and compute in their type."""

import math
import operator
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
def test_integers_wrap_when_they_are_converted(t, cls):
    info = np.iinfo(values.numpy_dtype(t))
    lowest, highest = int(info.min), int(info.max)
    assert (cls(lowest), cls(highest)) == (lowest, highest)
    assert (cls(lowest - 1), cls(highest + 1)) == (highest, lowest)
    assert cls(-1) == (-1 if t.is_signed else highest)
    assert (cls(2.9), cls(1e30), cls(math.inf), cls(math.nan)) == (2, highest, highest, 0)
    assert cls(-1e30) == lowest


@pytest.mark.parametrize("value", ["3", None, [1], b"3"])
@pytest.mark.parametrize("cls", [wp.int32, wp.float32, wp.bool])
def test_scalars_are_made_of_numbers(cls, value):
    with pytest.raises(TypeError, match="needs a"):
        cls(value)


def test_what_is_stored_has_to_fit():
    """Calling a type is a cast; you are warned where what becomes a component or an element does not fit."""
    with pytest.warns(UserWarning, match="300 does not fit uint8"):
        assert wp.vec2ub(300, 0) == (44, 0)
    with pytest.raises(TypeError, match="int32 needs an integer, got float 1.5"):
        wp.vec2i(1.5, 0)
    a = wp.zeros(3, dtype=wp.uint8)
    with pytest.warns(UserWarning, match="-1 does not fit uint8.*Write `wp.uint8\\(-1\\)`"):
        a.fill_(-1)
    assert a.list() == [255] * 3
    a.zero_()
    a.fill_(wp.uint8(-1))
    assert a.list() == [255] * 3


BINARY = [operator.add, operator.sub, operator.mul]
BITS = [operator.and_, operator.or_, operator.xor]
EXAMPLES = [(7, 2), (-7, 2), (7, -2), (-128, -1), (100, 100), (-128, 127), (0, 3)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("t", "cls"), INTS)
def test_integers_compute_in_their_type(t, cls):
    d = values.numpy_dtype(t).type
    own = int if t == ir.int32 else cls
    for a, b in EXAMPLES:
        x, y = cls(a), cls(b)
        p, q = d(x.value), d(y.value)
        for op in BINARY + BITS:
            assert op(x, y) == int(op(p, q)), (op, a, b)
            assert type(op(x, y)) is own
        exact = abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1)
        assert x / y == int(np.array(exact).astype(d))
        assert x % y == int(p) - int(q) * exact
        assert x // y == int(np.array(int(p) // int(q)).astype(d))
        assert (-x, +x, ~x, abs(x)) == (int(-p), int(p), int(~p), int(np.abs(p)))
    zero = cls(0)
    assert (cls(5) / zero, cls(5) // zero, cls(5) % zero) == (0, 0, 0)
    assert cls(3) ** cls(4) == 81
    assert cls(1) << cls(t.bits - 1) == cls(1 << (t.bits - 1))
    assert cls(1) << cls(t.bits + 1) == 2
    assert cls(12) >> cls(2) == 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("cls", [wp.float16, wp.float32, wp.float64])
def test_floats_compute_in_their_type(cls):
    d = values.numpy_dtype(cls._ir_type_).type
    for a, b in [(1.5, 0.1), (-7.25, 2.0), (6e4, 6e4), (1.0, 0.0), (-1.0, 0.0), (0.0, 0.0), (math.inf, 2.0)]:
        x, y, p, q = cls(a), cls(b), d(a), d(b)
        for op in [*BINARY, operator.truediv]:
            np.testing.assert_equal(float(op(x, y)), float(op(p, q)))
        np.testing.assert_equal(float(x % y), float(np.fmod(p, q)))
        np.testing.assert_equal(float(x // y), float(np.floor(p / q)))
        assert type(-x) is (float if cls is wp.float32 else cls)
    assert cls(2.0) ** cls(0.5) == cls(2.0**0.5)
    assert math.isnan(cls(-2.0) ** cls(0.5))


def test_operators_mean_the_same_in_kernels():
    @wp.kernel
    def in_kernel(a: wp.int8, b: wp.int8, out: wp.array(dtype=wp.int8)):
        out[0] = a + b
        out[1] = a * b
        out[2] = a / b
        out[3] = a // b
        out[4] = a % b
        out[5] = a << b
        out[6] = wp.int8(wp.float64(a) * 2.6)

    for a, b in [(100, 100), (-7, 2), (-128, -1), (5, 0)]:
        out = wp.zeros(7, dtype=wp.int8)
        wp.launch(in_kernel, 1, inputs=[a, b], outputs=[out])
        x, y = wp.int8(a), wp.int8(b)
        cast = wp.int8(wp.float64(x) * wp.float64(2.6))
        assert out.list() == [x + y, x * y, x / y, x // y, x % y, x << y, cast]


def test_scalars_of_different_types_are_python_numbers():
    for x in (wp.int8(100) + wp.int16(100), wp.int8(100) + 100, 100 + wp.int8(100)):
        assert x == 200
        assert type(x) is int
    assert type(wp.float64(1) + wp.float32(2)) is float


def test_float_is_rounded_to_its_type():
    assert wp.float32(0.1) == float(np.float32(0.1))
    assert wp.float16(0.1) == float(np.float16(0.1))
    assert wp.bfloat16(math.pi) == 3.140625
    assert wp.bfloat16(1.00390625) == 1.0  # halfway, to even
    assert wp.float64(0.1) == 0.1


@pytest.mark.parametrize(("cls", "large"), [(wp.float16, 1e5), (wp.float32, 1e39), (wp.bfloat16, 3.4e38)])
def test_float_that_is_too_large(cls, large):
    assert cls(-large) == -math.inf
    with pytest.raises(OverflowError, match="does not fit"):
        as_number(large, cls._ir_type_)


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
