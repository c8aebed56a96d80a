"""One helper decides what is zero-copy: NumPy, the buffer protocol, array interface, DLPack objects."""

import array as python_array
import gc
import weakref

import numpy as np
import pytest

import warp_like as wp
from warp_like.interop.view import as_array
from warp_like.ir import types as ir

BASE = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
LAYOUTS = {
    "contiguous": BASE,
    "transposed": BASE.T,
    "step": BASE[:, ::2],
    "negative": BASE[::-1, :, ::-2],
    "broadcast": np.broadcast_to(np.arange(5, dtype=np.float32), (3, 4, 5)),
    "offset": BASE[1:, 2],
    "empty": BASE[:, 4:],
    "fortran": np.asfortranarray(BASE),
}


@pytest.mark.parametrize("a", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_is_shared(a):
    w = as_array(a)
    assert (w.shape, w.strides, w.readonly) == (a.shape, a.strides, not a.flags.writeable)
    assert w.ptr == a.ctypes.data
    assert np.array_equal(w.numpy(), a)
    assert w.is_contiguous == a.flags.c_contiguous


@pytest.mark.parametrize("t", [t for t in ir.SCALARS if t != ir.bfloat16], ids=str)
def test_every_dtype(t):
    a = np.ones(3, dtype="bool" if t.is_bool else str(t))
    w = as_array(a)
    assert w.dtype._ir_type_ == t
    assert w.list() == [1, 1, 1]
    assert w.ptr == a.ctypes.data
    assert wp.dtype_from_numpy(a.dtype) is w.dtype
    assert wp.dtype_to_numpy(w.dtype) is a.dtype.type


def test_trailing_dimensions_become_components():
    a = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    w = as_array(a, wp.vec3)
    assert w.shape == (2, 4)
    assert w.strides == (48, 12)
    assert w[1, 0] == (12, 13, 14)
    assert as_array(a[:, ::-1], wp.vec3)[0, 0] == (9, 10, 11)
    assert as_array(a[0, 0], wp.vec3).shape == (1,)
    six = np.zeros((2, 2, 2, 2, 3, 3), np.float32)
    assert as_array(six, wp.mat33).shape == (2, 2, 2, 2)


def test_zero_dimensions_are_an_array_of_one():
    a = np.array(5.0)
    w = as_array(a)
    w.fill_(7)
    assert w.shape == (1,)
    assert a[()] == 7


@pytest.mark.parametrize(
    ("obj", "dtype", "error", "message"),
    [
        (np.zeros(3), wp.float32, TypeError, "expected elements of float32, got a NumPy array of float64"),
        (np.zeros(3, np.uint8), bool, TypeError, "expected elements of bool"),
        (np.zeros((3, 4), np.float32), wp.vec3, ValueError, r"trailing dimensions \(3,\)"),
        (np.zeros((3, 4), np.float32).T, wp.vec3, ValueError, "lie side by side"),
        (np.zeros(3, ">f4"), None, TypeError, "foreign byte order"),
        (np.zeros(3, complex), None, TypeError, "complex128"),
        (np.zeros(3, [("x", "f4")]), None, TypeError, "no counterpart"),
        (np.zeros((1,) * 9), None, ValueError, "at most 8 dimensions"),
        (np.ma.masked_array(np.zeros(3), [1, 0, 0]), None, TypeError, "masked"),
        (np.zeros(9, np.uint8)[1:].view(np.float32), None, ValueError, "not aligned"),
        (np.zeros(3, [("a", "u1"), ("x", "f4")])["x"], None, ValueError, "not aligned"),
        ([1, 2, 3], None, TypeError, "expected an array, got list"),
        (3.0, None, TypeError, "expected an array, got float"),
        (np.float32(3), None, TypeError, "expected an array"),
        ("text", None, TypeError, "expected an array, got str"),
        (None, None, TypeError, "NoneType"),
    ],
)
def test_what_can_not_be_shared(obj, dtype, error, message):
    with pytest.raises(error, match=message):
        as_array(obj, dtype)


def test_memory_lives_as_long_as_any_view():
    a = np.arange(1000, dtype=np.float64)
    dead = weakref.ref(a)
    w = as_array(a)
    view = w[10:20]
    seen = view.numpy()
    del a, w, view
    gc.collect()
    assert dead() is not None
    assert seen.tolist() == list(range(10, 20))
    del seen
    gc.collect()
    assert dead() is None


def test_buffer_protocol():
    raw = bytearray(8)
    w = as_array(raw)
    w.fill_(1)
    assert w.dtype is wp.uint8
    assert raw == b"\x01" * 8
    assert as_array(b"abc").readonly
    assert as_array(python_array.array("d", [1, 2])).list() == [1, 2]
    assert as_array(memoryview(raw).cast("f")).dtype is wp.float32
    with pytest.raises(BufferError):
        raw.append(0)  # exported memory can't move


def test_array_interface():
    class Interface:
        def __init__(self, a):
            self.a = a
            self.__array_interface__ = a.__array_interface__

    a = np.arange(4, dtype=np.int32)[::2]
    w = as_array(Interface(a))
    assert w.ptr == a.ctypes.data
    assert w.strides == (8,)


def test_array_method_is_read_only():
    class Method:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    w = as_array(Method())
    assert w.readonly
    assert w.list() == [0, 1, 2]


def test_dlpack_object_and_capsule():
    class Legacy:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, stream=None):
            return self.a.__dlpack__()

    a = np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2]
    newer = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # NumPy's capsules have versions since then
    versioned = [a.__dlpack__(max_version=(1, 0))] if newer else []
    for source in (a.__dlpack__(), *versioned, Legacy(a), a):
        w = wp.from_dlpack(source)
        assert w.ptr == a.ctypes.data
        assert w.shape == (2, 2)
        assert w.strides == (6, 4)
        assert not w.readonly
    capsule = a.__dlpack__()
    wp.from_dlpack(capsule)
    with pytest.raises(ValueError, match="consumed already"):
        wp.from_dlpack(capsule)
    with pytest.raises(TypeError, match="expected a DLPack capsule"):
        wp.from_dlpack([1, 2])
    a.flags.writeable = False
    if newer:
        assert wp.from_dlpack(a.__dlpack__(max_version=(1, 0))).readonly


def test_arrays_out_to_numpy():
    w = wp.array(np.arange(12).reshape(2, 2, 3), dtype=wp.vec3)
    for a in (
        np.from_dlpack(w),
        np.asarray(w),
        np.asarray(memoryview(w)),
        w.numpy(),
        np.from_dlpack(wp.to_dlpack(w)),
    ):
        assert a.ctypes.data == w.ptr
        assert a.shape == (2, 2, 3)
        assert a.dtype == np.float32
    assert np.from_dlpack(w[:, ::-1]).strides == w[:, ::-1].numpy().strides
    shared = np.from_dlpack(w)
    del w
    gc.collect()
    assert shared.sum() == 66
    h = wp.full(3, 1.5, dtype=wp.bfloat16)
    assert np.asarray(h).tolist() == [1.5] * 3
    assert not hasattr(h, "__array_interface__")
    with pytest.raises(BufferError):
        memoryview(h)


def test_from_numpy():
    a = np.zeros((5, 3), np.float32)
    w = wp.from_numpy(a, dtype=wp.vec3)
    assert w.ptr == a.ctypes.data
    assert w.dtype is wp.vec3
    assert w.shape == (5,)
    assert wp.from_numpy(a).dtype is wp.vec3
    assert wp.from_numpy(a, dtype=float).shape == (5, 3)
    assert wp.from_numpy(np.zeros((5, 2, 4))).dtype is wp.types.matrix((2, 4), wp.float64)
    assert wp.from_numpy(np.zeros(5, np.int8)).dtype is wp.int8
    converted = wp.from_numpy(np.arange(3.0), dtype=float, requires_grad=True)
    assert converted.dtype is wp.float32
    assert converted.list() == [0, 1, 2]
    assert converted.grad.shape == (3,)
    assert wp.from_numpy(np.zeros(6, np.float32), dtype=wp.vec3).shape == (2,)
    assert wp.from_numpy(np.arange(6, dtype=np.float32), dtype=float, shape=(2, 3)).shape == (2, 3)


def test_dtype_conversions_refuse():
    with pytest.raises(TypeError):
        wp.dtype_from_numpy(np.complex64)
    with pytest.raises(TypeError):
        wp.dtype_to_numpy(wp.vec3)
