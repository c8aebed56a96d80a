"""Vectors and matrices on the host."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import warp_like as wp
from warp_like.ir import types as ir
from warp_like.ir.layout import size_of, type_code

v = wp.vec3(1.0, 2.0, 3.0)
m = wp.mat22(1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    "made",
    [
        wp.vec3(1, 2, 3),
        wp.vec3([1, 2, 3]),
        wp.vec3((1.0, 2.0, 3.0)),
        wp.vec3(np.array([1, 2, 3])),
        wp.vec3(np.array([3.0, 2.0, 1.0])[::-1]),
        wp.vec3(wp.vec2(1, 2), 3),
        wp.vec3(wp.vec3d(1, 2, 3)),
        wp.vec3(wp.float64(1), np.float32(2), True + 2),
    ],
)
def test_ways_to_make_a_vector(made):
    assert type(made) is wp.vec3
    assert made == v


@pytest.mark.parametrize(
    "made",
    [
        wp.mat22([1, 2, 3, 4]),
        wp.mat22([[1, 2], [3, 4]]),
        wp.mat22(wp.vec2(1, 2), wp.vec2(3, 4)),
        wp.mat22(np.array([[1, 3], [2, 4]]).T),
        wp.mat22(wp.mat22d(1, 2, 3, 4)),
    ],
)
def test_ways_to_make_a_matrix(made):
    assert type(made) is wp.mat22
    assert made == m


def test_splat_and_zero():
    assert wp.vec3(2.5) == (2.5, 2.5, 2.5)
    assert wp.vec3() == (0, 0, 0)
    assert wp.mat22(1.0) == [[1, 1], [1, 1]]
    assert wp.mat33() == np.zeros((3, 3))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.vec3(1, 2), ValueError, "vec3f takes 3 numbers, or one for all components, got 2"),
        (lambda: wp.vec3([1]), ValueError, "got 1"),
        (lambda: wp.vec3i(1.5, 1, 1), TypeError, "int32 needs an integer, got float 1.5"),
        (lambda: wp.vec2("a", "b"), TypeError, "needs a number"),
        (lambda: wp.mat22([[1, 2, 3, 4]]), ValueError, "mat22f is 2 by 2"),
        (lambda: wp.mat22(1, 2), ValueError, "takes 4 numbers or 2 rows"),
        (lambda: wp.mat22(wp.vec3(), 1), TypeError, "2 rows of 2"),
        (lambda: wp.types.vector(-1, float), ValueError, "between 0 and 255"),
        (lambda: wp.types.vector(2, str), TypeError, "scalar type"),
        (lambda: wp.types.matrix((2,), float), ValueError, "pair"),
    ],
)
def test_what_can_not_be_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_classes_are_made_once():
    assert wp.types.vector(3, float) is wp.vec3 is wp.vec3f is wp.types.vector(length=3, dtype=wp.float32)
    assert wp.types.matrix((2, 2), np.float64) is wp.mat22d
    assert wp.vec2b._ir_type_ == ir.Vec(2, ir.int8)
    assert wp.vec4ul._ir_type_ == ir.Vec(4, ir.uint64)
    assert wp.types.matrix(shape=(2, 3), dtype=float).__name__ == "mat23f"


@pytest.mark.parametrize("t", [wp.vec3, wp.vec3d, wp.mat23 if hasattr(wp, "mat23") else wp.mat33h, wp.vec4ub, wp.vec2l])
def test_class_describes_its_layout(t):
    assert t._type_code_ == type_code(t._ir_type_)
    assert memoryview(t(1)).nbytes == size_of(t._ir_type_)
    assert np.array(t(1)).shape == t._shape_
    assert np.array(t(1)).dtype == t._wp_scalar_type_._ir_type_.__str__()


def test_buffer_is_writable_and_the_own_memory():
    x = wp.vec3(1, 2, 3)
    np.asarray(memoryview(x))[1] = 7
    assert x == (1, 7, 3)


def test_reading_components():
    assert (v[0], v[-1], v.x, v.z, len(v), list(v)) == (1, 3, 1, 3, 3, [1, 2, 3])
    assert v[0:2] == wp.vec2(1, 2)
    assert type(v[::2]) is wp.vec2
    assert v[::-1] == (3, 2, 1)
    assert type(v[0]) is float
    assert type(wp.vec3i(1)[0]) is int
    assert type(wp.vec3d(1)[0]) is wp.float64
    assert m[0] == wp.vec2(1, 2)
    assert m[1, 0] == 3
    assert m[:, 1] == wp.vec2(2, 4)
    assert m[0:1]._shape_ == (1, 2)
    assert list(m) == [wp.vec2(1, 2), wp.vec2(3, 4)]
    assert len(m) == 2
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            v[wrong]
    with pytest.raises(KeyError) as told:
        v[1.0]
    assert str(told.value) == "an index into a vec3f is an integer or a slice, got float"
    with pytest.raises(KeyError, match="a mat22f is indexed by one or two integers or slices, got None"):
        m[None]
    with pytest.raises(AttributeError):
        wp.vec2(1, 2).z


def test_writing_components():
    x = wp.vec4(0)
    x[0], x.y, x[-1] = 1, 2, 4
    x[2:3] = [3]
    assert x == (1, 2, 3, 4)
    x[1:] = 0
    assert x == (1, 0, 0, 0)
    a = wp.mat22()
    a[0] = wp.vec2(1, 2)
    a[1, 1] = 5
    a[:, 0] = 9
    assert a == [[9, 2], [9, 5]]
    x.name, a.name = "x", "a"
    assert (x.name, a.name) == ("x", "a"), "instances take attributes of the user's"
    with pytest.raises(AttributeError, match="'vec2f' object has no attribute 'z'"):
        wp.vec2().z = 1.0
    with pytest.raises(AttributeError, match="has no attribute 'xy'"):
        x.xy = wp.vec2(1, 2)
    with pytest.raises(ValueError, match="can't be set to 2 numbers"):
        x[0:3] = [1, 2]
    with pytest.raises(TypeError, match="can't be set to 2 numbers"):
        x[:1] = (wp.vec2(1, 2),)
    with pytest.raises(TypeError, match="can't be set to 4 numbers"):
        a[0] = (a,)
    assert m[0] is not m[0], "a row is a copy"


def test_numbers_that_do_not_fit_wrap_with_a_warning():
    with pytest.warns(UserWarning, match="300 does not fit uint8, which holds 0 to 255; it is stored as 44") as told:
        v = wp.vec3ub(300, 0, 0)
    assert v == (44, 0, 0)
    assert told[0].filename == __file__, "the warning points at the user's line"
    with pytest.warns(UserWarning, match="it is stored as inf. Write `wp.float16"):
        assert wp.vec2h(1e6, 0) == (np.inf, 0)
    with pytest.warns(UserWarning, match="stored as 0"):
        v[0] = 256
    with pytest.warns(UserWarning, match="stored as 255"):
        v[1:] = (-1, 2)
    assert v == (0, 255, 2)
    with pytest.warns(UserWarning, match="stored as -1"):
        assert wp.types.matrix((2, 2), wp.int8)(255) == [[-1, -1], [-1, -1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wp.vec3ub(wp.uint8(300), 0, 0) == (44, 0, 0), "a cast says that it is meant"
        assert -wp.vec3ub(1, 0, 2) == (255, 0, 254), "arithmetic wraps as in kernels"


def test_float_arithmetic_keeps_the_dtype():
    for got, expected in [
        (v + v, (2, 4, 6)),
        (v - wp.vec3(1), (0, 1, 2)),
        (v * 2, (2, 4, 6)),
        (2 * v, (2, 4, 6)),
        (v / 2, (0.5, 1, 1.5)),
        (6 / v, (6, 3, 2)),
        (-v, (-1, -2, -3)),
        (+v, (1, 2, 3)),
        (v % 2, (1, 0, 1)),
        (v / 0, (np.inf, np.inf, np.inf)),
    ]:
        assert type(got) is wp.vec3
        assert got == expected
    assert wp.vec3(0.1) * 3 == np.float32(0.1) * np.full(3, 3, np.float32)


def test_integer_arithmetic_is_the_kernels():
    a = wp.vec3i(7, -8, 9)
    assert a / 2 == (3, -4, 4)
    assert a % 4 == (3, 0, 1)
    assert wp.vec3i(-7) % 4 == (-3, -3, -3)
    assert a / 0 == (0, 0, 0)
    assert a % 0 == (0, 0, 0)
    assert wp.vec2ub(250) + wp.vec2ub(10) == (4, 4)
    assert -wp.vec2ub(1) == (255, 255)
    assert type(a / 2) is wp.vec3i


def test_matrix_products():
    assert m @ m == m * m == [[7, 10], [15, 22]]
    assert m * wp.vec2(1, 1) == m @ wp.vec2(1, 1) == (3, 7)
    assert wp.vec2(1, 1) * m == wp.vec2(1, 1) @ m == (4, 6)
    wide = wp.types.matrix((2, 3), float)(1, 2, 3, 4, 5, 6)
    assert wide @ v == (14, 32)
    assert type(wide @ v) is wp.vec2
    assert type(wp.vec2(1) @ wide) is wp.vec3
    assert m * 2 == 2 * m == m + m == [[2, 4], [6, 8]]


@pytest.mark.parametrize(
    "compute",
    [
        lambda: v * v,
        lambda: v @ v,
        lambda: v + 1,
        lambda: v + wp.vec3d(1),
        lambda: v * wp.float64(2),
        lambda: wp.vec3i(1) * 1.5,
        lambda: m * wp.vec3(1),
        lambda: m @ wp.mat22d(),
        lambda: wp.vec3(1) * m,
        lambda: v * "a",
    ],
)
def test_arithmetic_that_is_refused(compute):
    with pytest.raises(TypeError):
        compute()


def test_comparison_and_hash():
    assert v == wp.vec3d(1, 2, 3)
    assert v == (1, 2, 3)
    assert v != (1, 2)
    assert v != wp.vec2(1, 2)
    assert v != "abc"
    assert hash(wp.vec3(1, 2, 3)) == hash(v)
    assert len({v, wp.vec3(1, 2, 3), wp.vec3(0)}) == 2
    assert wp.vec2(0.0) == wp.vec2(-0.0)
    assert hash(wp.vec2(0.0)) == hash(wp.vec2(-0.0))
    assert wp.vec2(np.nan) != wp.vec2(np.nan)


def test_text():
    assert repr(v) == "vec3f([1.0, 2.0, 3.0])"
    assert str(v) == "[1.0, 2.0, 3.0]"
    assert repr(m) == "mat22f([[1.0, 2.0], [3.0, 4.0]])"
    assert str(m) == "[[1.0, 2.0],\n [3.0, 4.0]]"


@pytest.mark.parametrize(
    "x", [v, m, wp.vec3h(0.5), wp.types.vector(5, wp.bfloat16)(1.5), wp.types.vector(2, bool)(1, 0)]
)
def test_pickle_and_copy(x):
    for back in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert type(back) is type(x)
        assert back == x
        assert back is not x


@pytest.mark.parametrize("dtype", [wp.bool, wp.int8, wp.uint64, wp.float16, wp.float32, wp.float64])
def test_numpy_round_trip(dtype):
    cls = wp.types.matrix((2, 3), dtype)
    x = cls(*(i % 2 for i in range(6)))
    assert cls(np.array(x)) == x
    assert np.array(x).dtype == np.array(x.numpy()).dtype


def test_bfloat16_components():
    cls = wp.types.vector(3, wp.bfloat16)
    x = cls(1.0, 2.7, -3.0)
    assert list(x) == [1.0, 2.703125, -3.0]
    assert x + cls(1.0) == (2.0, 3.703125, -2.0)
    assert np.array(x).dtype == np.float32
    with pytest.warns(UserWarning, match="it is stored as inf"):
        assert cls(1e39, 0, 0) == (np.inf, 0, 0)


def test_user_class_derived_from_a_vector():
    class Point(wp.types.vector(2, float)):
        pass

    p = Point(1, 2)
    assert p == (1, 2)
    assert p._ir_type_ == ir.Vec(2, ir.float32)
    assert type(p + p) is Point


def test_rows_and_columns_of_a_matrix():
    m = wp.types.matrix((2, 3), float)(1, 2, 3, 4, 5, 6)
    assert (m.get_row(1), m.get_col(2)) == (wp.vec3(4, 5, 6), wp.vec2(3, 6))
    m.set_row(0, wp.vec3(7, 8, 9))
    m.set_col(1, [0, 1])
    m.set_row(-1, 2.0)
    np.testing.assert_array_equal(m, [[7, 0, 9], [2, 2, 2]])
    with pytest.raises(IndexError):
        m.get_row(2)
    with pytest.raises(ValueError, match="2 components of a mat23f can't be set to 3 numbers"):
        m.set_col(0, wp.vec3(1, 2, 3))


def test_matrices_by_their_short_name() -> None:
    assert wp.mat((3, 4), wp.float16) is wp.types.matrix((3, 4), wp.float16)
    assert wp.mat(shape=(2, 2), dtype=float) is wp.mat22


def test_values_in_buffers():
    numbers = np.arange(16, dtype=np.float32)
    assert wp.vec3.from_buffer(numbers) == wp.vec3(0, 1, 2)
    assert wp.vec3.from_buffer(numbers, 4) == wp.vec3(1, 2, 3)
    assert wp.mat44.from_buffer(numbers.reshape(4, 4)) == wp.mat44(*range(16))
    assert wp.transform.from_buffer(bytearray(numbers.tobytes())) == wp.transform(*range(7))
    readonly = numbers.tobytes()
    assert wp.quat.from_buffer_copy(readonly, offset=8) == wp.quat(2, 3, 4, 5)
    copied = wp.vec2.from_buffer(numbers)
    numbers[0] = 5.0
    assert copied == wp.vec2(0, 1)
    with pytest.raises(TypeError, match="takes a writable buffer"):
        wp.quat.from_buffer(readonly)
    with pytest.raises(TypeError, match="contiguous"):
        wp.vec3.from_buffer(np.zeros(8, np.float32)[::2])
    with pytest.raises(ValueError, match="needs 12 bytes at offset 56 of a buffer of 64 bytes"):
        wp.vec3.from_buffer(numbers, 56)
    with pytest.raises(ValueError, match="offset -4"):
        wp.vec3.from_buffer(numbers, -4)
    with pytest.raises(TypeError):
        wp.vec3.from_buffer([1.0, 2.0, 3.0])


def test_vectors_without_components():
    empty = wp.types.vector(length=0, dtype=float)
    assert empty is wp.types.vector(0, wp.float32)
    assert (len(empty()), list(empty()), str(empty())) == (0, [], "[]")
    assert empty() == wp.vec3(1.0, 2.0, 3.0)[1:1] == wp.vec2()[5:]
    assert empty() + empty() == empty()
    with pytest.raises(ValueError, match="takes 0 numbers"):
        empty(1.0, 2.0)
    with pytest.raises(TypeError, match="vec0f has no components, so that no array can hold it"):
        wp.zeros(3, dtype=empty)
    with pytest.raises(TypeError, match=r"struct Pair, field `a`: vec0\[float32\] has no components"):

        @wp.struct
        class Pair:
            a: empty
