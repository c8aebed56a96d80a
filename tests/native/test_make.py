"""Making arrays natively: what is made is what the checked path in Python makes, and the rest is declined."""

import gc
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warp_like as wp
from warp_like import _native
from warp_like.interop import view
from warp_like.runtime.arrays import indexing
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import get_device

CPU = get_device("cpu")
FACTS = ("ptr", "shape", "strides", "size", "itemsize", "type_code", "ndim", "readonly", "is_contiguous", "is_aligned")
FACTS += ("dtype", "device", "device_type", "device_id")


def facts(a):
    return {name: getattr(a, name) for name in FACTS}


DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
DTYPES += [np.float16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (0,), (7,), (3, 4), (2, 0, 3), (2, 3, 4, 5)])
def test_numpy_arrays_are_shared_as_the_checked_path_does(dtype, shape):
    x = np.zeros(shape, dtype)
    made = _native.share(x, None)
    assert type(made) is wp.array
    assert facts(made) == facts(view.as_array(x))
    assert made.owner is x


LAYOUTS = {
    "whole": lambda x: x,
    "every other": lambda x: x[::2],
    "backwards": lambda x: x[::-1],
    "turned": lambda x: x.T,
    "wide": lambda x: np.broadcast_to(x[:1], x.shape),
    "last column": lambda x: x[..., -1:],
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [None, wp.float32, float, wp.vec3, wp.mat22, wp.quat, np.dtype(np.float32)])
@pytest.mark.parametrize("shape", [(6, 3), (4, 2, 2), (3, 3, 3), (5, 4)])
def test_layouts_and_element_types(layout, dtype, shape):
    x = LAYOUTS[layout](np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    try:
        expected = view.as_array(x, dtype)
    except (TypeError, ValueError):
        assert _native.share(x, dtype) is None
        return
    made = _native.share(x, dtype)
    assert made is not None
    assert facts(made) == facts(expected)
    np.testing.assert_array_equal(made.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(()),
        np.zeros((2,) * 9),
        np.zeros(3, np.complex64),
        np.zeros(3, ">f4"),
        np.zeros(3, "f4,i4"),
        np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32),
        np.ma.zeros(3),
        np.matrix([[1.0]]),
        np.float32(1.0),
        [1.0],
        b"bytes",
        None,
        3,
    ],
    ids=repr,
)
def test_what_python_has_to_see_to(x):
    assert _native.share(x, None) is None


@pytest.mark.parametrize("dtype", [wp.float64, wp.vec2, wp.int32, "float32", [1], object, 3])
def test_another_or_no_element_type(dtype):
    assert _native.share(np.zeros((4, 3), np.float32), dtype) is None


def test_a_read_only_array_stays_so():
    x = np.zeros(3, np.float32)
    x.flags.writeable = False
    assert _native.share(x, None).readonly
    assert wp.from_numpy(x).readonly


def test_the_memory_lives_as_long_as_the_array():
    x = np.arange(1000.0)
    made = wp.from_numpy(x)
    before = sys.getrefcount(x)
    del made
    assert sys.getrefcount(x) == before - 1
    made = wp.from_numpy(np.arange(1000.0))
    gc.collect()
    assert made.numpy()[999] == 999.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_memoryviews(dtype):
    x = np.arange(12).astype(dtype).reshape(4, 3)
    for y in (x, x[::2], x[::-1], x.T):
        made = _native.share(memoryview(y), None)
        assert facts(made) == facts(view.as_array(y))
        assert type(made.owner) is memoryview
    assert _native.share(memoryview(x).toreadonly(), None).readonly
    assert _native.share(memoryview(x.astype(">f8")), None) is None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [None, float, wp.vec3, wp.mat22, wp.float64, wp.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (4, 2, 2), (2, 1, 3), (1, 3), (0, 3)])
def test_copies(layout, dtype, shape):
    x = LAYOUTS[layout](np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    made = _native.copied(x, dtype)
    if made is None:
        return
    expected = wp.array(x[...].view(Other), **({} if dtype is None else {"dtype": dtype}))
    assert {k: v for k, v in facts(made).items() if k != "ptr"} == {
        k: v for k, v in facts(expected).items() if k != "ptr"
    }
    np.testing.assert_array_equal(made.numpy(), expected.numpy())
    assert made.ptr % 64 == 0
    assert not made.size or not np.shares_memory(made.numpy(), x)


class Other(np.ndarray):
    """What the native path does not take."""


def test_what_is_copied_natively():
    wp.zeros(1, dtype=wp.vec3)  # native code learns of a class when it is first used
    assert _native.copied(np.zeros((4, 3), np.float32), wp.vec3).shape == (4,)
    assert _native.copied(np.zeros((4, 3), np.float32).T, None) is None
    assert _native.copied(np.zeros(3), float) is None
    assert _native.copied(torch.zeros(3), None) is None
    assert _native.copied([1.0], float) is None
    x = np.arange(3, dtype=np.float32)
    x.flags.writeable = False
    a = wp.array(x)
    assert not a.readonly
    a.fill_(5.0)
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_structs_go_through_python():
    @wp.struct
    class Pair:
        a: float
        b: wp.vec3

    x = np.zeros(4, Pair.numpy_dtype())
    assert _native.share(x, Pair) is None
    assert _native.make_array(4, Pair, CPU, True) is None
    assert wp.from_numpy(x, dtype=Pair).ptr == x.ctypes.data
    assert wp.zeros(4, dtype=Pair).shape == (4,)


@pytest.mark.parametrize("dtype", [float, int, wp.float64, wp.vec3, wp.mat33, wp.quat, wp.bfloat16, wp.bool])
@pytest.mark.parametrize("shape", [0, 1, 16, (3,), (2, 3), (2, 0), (1, 2, 3, 4)])
def test_new_arrays(dtype, shape):
    element_type(dtype)
    made = _native.make_array(shape, dtype, CPU, True)
    expected = wp.array(shape=shape, dtype=dtype)
    assert type(made) is wp.array
    assert {k: v for k, v in facts(made).items() if k != "ptr"} == {
        k: v for k, v in facts(expected).items() if k != "ptr"
    }
    assert made.ptr % 64 == 0
    assert made.owner.nbytes == made.capacity
    np.testing.assert_array_equal(made.numpy(), expected.numpy())


@pytest.mark.parametrize("shape", [-1, (2, -1), (), (1,) * 9, 2.0, (2.0,), [2], True, None, "3", 2**70, (2**40, 2**40)])
def test_shapes_that_python_has_to_see_to(shape):
    assert _native.make_array(shape, float, CPU, True) is None


def test_another_device_is_left_to_python():
    assert _native.make_array(3, float, "cpu", True) is None


def test_too_much_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        wp.zeros(2**59)


indices = st.one_of(
    st.integers(-5, 5),
    st.slices(6),
    st.just(slice(None)),
    st.just(Ellipsis),
    st.builds(slice, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -1, 1, 2, None])),
)


@given(key=st.one_of(indices, st.lists(indices, max_size=4).map(tuple)))
@settings(max_examples=400, deadline=None)
def test_slices_are_those_of_numpy(key):
    x = np.arange(60, dtype=np.float32).reshape(5, 4, 3)
    a = wp.from_numpy(x, dtype=float)
    a.grad = wp.from_numpy(-x, dtype=float)
    try:
        _, shape, _ = indexing.resolve(key, a.shape, a.strides)
    except (IndexError, TypeError):
        assert a._slice(key) is None
        return
    made = a._slice(key)
    if not shape or Ellipsis in (key if isinstance(key, tuple) else (key,)):
        assert made is None
        return
    np.testing.assert_array_equal(made.numpy(), x[key])
    np.testing.assert_array_equal(made.grad.numpy(), -x[key])
    assert made.owner is x
    expected = a._subview(*indexing.resolve(key, a.shape, a.strides))
    if made.size:
        assert facts(made) == facts(expected)


@pytest.mark.parametrize("key", [slice(None, None, 0), np.int64(1), True, 1.0, None, "x", (0, 0), 3, -4, 2**70])
def test_keys_that_python_has_to_see_to(key):
    assert wp.zeros(3)._slice(key) is None


def test_a_view_of_a_view_and_of_components():
    a = wp.from_numpy(np.arange(24, dtype=np.float32).reshape(8, 3), dtype=wp.vec3)
    b = a[1:7][::2]
    np.testing.assert_array_equal(b.numpy(), np.arange(24, dtype=np.float32).reshape(8, 3)[1:7:2])
    assert not b.is_contiguous
    assert b.grad is None


# ---- PyTorch

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32"]
)
def test_tensors_are_shared_as_the_checked_path_does(dtype):
    t = torch.zeros(4, 3, dtype=getattr(torch, dtype))
    for x in (t, t[::2], t.T, t[:0], t[:, 1]):
        made, expected = _native.share(x, None), view.as_array(x)
        assert facts(made) == facts(expected)
        assert type(made.owner) is type(expected.owner) is torch.Tensor
        assert made.owner.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "t",
    [
        torch.zeros(()),
        torch.zeros(3).to_sparse(),
        torch.zeros(3, device="meta"),
        torch.zeros(3, dtype=torch.complex64),
        torch.zeros(3, dtype=torch.complex64).conj().imag,
        torch.zeros([2] * 9),
    ],
    ids=["0-d", "sparse", "meta", "complex", "negated", "9-d"],
)
def test_tensors_that_python_has_to_see_to(t):
    assert _native.share(t, None) is None


def test_the_memory_stays_when_the_tensor_is_given_another():
    t = torch.arange(4.0)
    made = wp.from_torch(t)
    t.set_(torch.zeros(2))
    assert made.list() == [0.0, 1.0, 2.0, 3.0]


def test_writes_are_told_to_the_tensor():
    t = torch.zeros(4)
    made = wp.from_torch(t)
    before = t._version
    made.fill_(1.0)
    assert t._version > before
