"""Making arrays, and what they say of themselves."""

import ctypes
import gc
import inspect
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.ir import types as ir
from warp_like.values import ArrayAnnotation


def test_without_data_it_is_an_annotation():
    for made, dtype, ndim in [
        (wp.array(dtype=float), float, 1),
        (wp.array(dtype=wp.vec3, ndim=2), wp.vec3, 2),
        (wp.array2d(dtype=float), float, 2),
        (wp.array3d[wp.vec3], wp.vec3, 3),
        (wp.array[float], float, 1),
        (wp.array(), Any, 1),
    ]:
        assert made == ArrayAnnotation(dtype, ndim)
    assert repr(wp.array2d(dtype=wp.vec3)) == "array(ndim=2, dtype=vec3f)"
    with pytest.raises(TypeError, match="is an annotation"):
        wp.array(dtype=float)([1.0])


def test_zeros_and_its_description():
    a = wp.zeros((2, 3), dtype=wp.vec3)
    assert isinstance(a, wp.array)
    assert isinstance(a, wp.array2d)
    assert not isinstance(a, wp.array1d)
    assert (a.shape, a.ndim, a.size, a.strides, a.capacity, len(a)) == ((2, 3), 2, 6, (36, 12), 72, 2)
    assert a.dtype is wp.vec3
    assert a.device is wp.get_device("cpu")
    assert a.is_contiguous
    assert not a.readonly
    assert a.ptr % 64 == 0
    assert not a.requires_grad
    assert a.grad is None
    assert not a.retain_grad
    assert repr(a) == "array(shape=(2, 3), dtype=vec3f)"
    assert a.numpy().shape == (2, 3, 3)
    assert not a.numpy().any()


def test_other_constructors():
    assert wp.ones(3).numpy().tolist() == [1, 1, 1]
    assert wp.ones(2, dtype=wp.vec2i).list() == [wp.vec2i(1)] * 2
    assert wp.full(2, 7).dtype is wp.int32
    assert wp.full(2, 1.5).dtype is wp.float32
    assert wp.full(2, wp.vec2(1, 2)).list() == [wp.vec2(1, 2)] * 2
    assert wp.full((1, 2), (1, 2), dtype=wp.vec2).numpy().tolist() == [[[1, 2], [1, 2]]]
    assert wp.empty(n=3, dtype=int).shape == (3,)
    a = wp.full((2, 2), 3.0, dtype=wp.float64, requires_grad=True)
    for like, value in [
        (wp.zeros_like(a), 0),
        (wp.ones_like(a), 1),
        (wp.full_like(a, 4), 4),
        (wp.clone(a), 3),
    ]:
        assert like.shape == a.shape
        assert like.dtype is wp.float64
        assert (like.numpy() == value).all()
        assert like.requires_grad
        assert like.ptr != a.ptr
        assert not like.grad.numpy().any()
    assert not wp.zeros_like(a, requires_grad=False).requires_grad
    assert wp.zeros_like(np.zeros((4, 2), np.int16)).dtype is wp.int16


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "made"),
    [
        ([1, 2, 3], Any, (3,), wp.int64),
        ([1.0, 2], Any, (2,), wp.float64),
        ([1, 2, 3], float, (3,), wp.float32),
        ([[1, 2], [3, 4]], int, (2, 2), wp.int32),
        ([], float, (0,), wp.float32),
        ([(1, 2, 3)], wp.vec3, (1,), wp.vec3),
        ([wp.vec3(1, 2, 3), wp.vec3(0)], wp.vec3, (2,), wp.vec3),
        (np.zeros((5, 3)), wp.vec3, (5,), wp.vec3),
        (np.zeros((2, 5, 3)), wp.vec3, (2, 5), wp.vec3),
        (np.zeros(6), wp.vec3, (2,), wp.vec3),
        (np.zeros((5, 6)), wp.vec3, (5, 2), wp.vec3),
        (np.zeros((4, 3, 3)), wp.mat33, (4,), wp.mat33),
        (np.zeros((4, 9)), wp.mat33, (4,), wp.mat33),
        (np.zeros(3), wp.vec3, (1,), wp.vec3),
        (np.arange(3), Any, (3,), wp.int64),
        (np.array(5.0), Any, (1,), wp.float64),
        ([True, False], bool, (2,), wp.bool),
        ([1.5, 2.75], wp.bfloat16, (2,), wp.bfloat16),
        (np.zeros((0, 3)), wp.vec3, (0,), wp.vec3),
    ],
)
def test_from_data(data, dtype, shape, made):
    a = wp.array(data, dtype=dtype)
    assert a.shape == shape
    assert a.dtype is made
    assert np.array_equal(a._values().ravel(), np.array(data, dtype=np.float64).ravel())


def test_from_data_is_a_copy():
    source = np.arange(3, dtype=np.float32)
    a = wp.array(source)
    source[0] = 9
    assert a.numpy().tolist() == [0, 1, 2]
    b = wp.array(a)
    b.fill_(5)
    assert a.numpy().tolist() == [0, 1, 2]
    assert b.dtype is wp.float32


def test_copy_false_shares():
    source = np.arange(3, dtype=np.float32)
    a = wp.array(source, copy=False)
    source[0] = 9
    assert a.ptr == source.ctypes.data
    assert a.numpy()[0] == 9
    assert wp.array(a, copy=False).ptr == a.ptr
    with pytest.raises(TypeError, match="expected elements of float64, got a NumPy array of float32"):
        wp.array(source, dtype=wp.float64, copy=False)


def test_calls_on_numpy_arrays_give_what_the_constructor_gives():
    """Native code takes the usual ones; ``array.__new__`` is the reference."""
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    fixed = rows.copy()
    fixed.flags.writeable = False
    given = (
        rows,
        rows[::2],
        rows.T,
        fixed,
        rows.astype(np.int8),
        rows > 3,
        np.zeros((0, 3), np.float32),
        np.float32(3),
    )
    calls = ({}, {"copy": False}, {"dtype": float}, {"dtype": wp.vec3, "copy": False}, {"dtype": wp.vec3}, {"copy": 0})
    calls += (
        {"dtype": wp.float64},
        {"requires_grad": True},
        {"dtype": wp.bool, "copy": False},
        {"ndim": 2},
        {"what": 1},
    )

    def outcome(make, data, options):
        try:
            a = make(data, **options)
        except (TypeError, ValueError) as e:
            return type(e), str(e)
        shared = isinstance(data, np.ndarray) and np.shares_memory(a.numpy(), data)
        facts = a.shape, a.strides, a.dtype, a.readonly, a.requires_grad, a.retain_grad, shared
        return facts, a.numpy().tobytes()

    for data in given:
        for options in calls:
            slow = outcome(lambda d, **o: wp.array.__new__(wp.array, d, **o), data, options)
            assert outcome(wp.array, data, options) == slow, (data, options)

    class Mine(wp.array):
        pass

    assert type(Mine(rows)) is Mine
    assert wp.array(rows, float, copy=False).ptr == rows.ctypes.data
    with pytest.raises(TypeError, match="dtype"):
        wp.array(rows, float, dtype=float)


def test_data_with_a_shape():
    assert wp.array(range(6) and list(range(6)), dtype=float, shape=(2, 3)).shape == (2, 3)
    assert wp.array(np.arange(12.0), dtype=wp.vec3, shape=(2, 2)).shape == (2, 2)
    assert wp.array2d([[1.0]], dtype=float).shape == (1, 1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.array([300], dtype=wp.uint8), OverflowError, "300 does not fit uint8"),
        (lambda: wp.array([-1], dtype=wp.uint32), OverflowError, "-1 does not fit uint32"),
        (lambda: wp.array(np.array([1e20]), dtype=int), OverflowError, "1e\\+20 does not fit int32"),
        (lambda: wp.array([1e39], dtype=float), OverflowError, "float32"),
        (lambda: wp.array([2**64], dtype=wp.uint64), TypeError, "NumPy type object"),
        (lambda: wp.array([np.nan], dtype=int), ValueError, "NaN"),
        (lambda: wp.array(["a"], dtype=float), TypeError, "can't be made of data"),
        (lambda: wp.array([1j], dtype=float), TypeError, "complex128"),
        (lambda: wp.array([[1, 2], [3]], dtype=float), ValueError, "inhomogeneous"),
        (lambda: wp.array(3.0, dtype=float), TypeError, "sequence or an array, got float"),
        (lambda: wp.array(np.zeros((5, 4)), dtype=wp.vec3), ValueError, "does not divide into vec3f"),
        (lambda: wp.array([1, 2, 3], dtype=float, shape=2), ValueError, "does not fill"),
        (lambda: wp.array(np.zeros((1,) * 9)), ValueError, "1 to 8 dimensions"),
        (lambda: wp.array([1], dtype="float"), TypeError, "not a type"),
        (lambda: wp.array([1], dtype=str), TypeError, "not a type"),
        (lambda: wp.zeros(3, dtype=Any), TypeError, "one concrete type"),
        (lambda: wp.zeros(-1), ValueError, "can't be negative"),
        (lambda: wp.zeros((2,) * 9), ValueError, "1 to 8 dimensions"),
        (lambda: wp.zeros(()), ValueError, "1 to 8 dimensions"),
        (lambda: wp.zeros(2.0), TypeError, "shape of an array"),
        (lambda: wp.zeros(), TypeError, "needs a shape"),
        (lambda: wp.zeros(3, dtype=int, foo=1), TypeError, "foo"),
        (
            lambda: wp.zeros(3, device="cuda"),
            RuntimeError,
            "'cuda' is not available here; the devices are: cpu",
        ),
        (lambda: wp.zeros(3, device="tpu"), ValueError, "not the name of a device"),
        (lambda: wp.full(2, "a"), TypeError, "give `dtype`"),
        (lambda: wp.zeros((2**40, 2**40)), (ValueError, MemoryError, OverflowError), None),
    ],
)
def test_what_can_not_be_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_at_an_address():
    memory = (ctypes.c_float * 6)(*range(6))
    at = ctypes.addressof(memory)
    assert wp.array(ptr=at, shape=(2, 3), dtype=float).numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert wp.array(ptr=at, shape=3, strides=(8,), dtype=float).numpy().tolist() == [0, 2, 4]
    assert wp.array(ptr=at + 20, shape=6, strides=(-4,), dtype=float, capacity=4).numpy().tolist() == [
        5,
        4,
        3,
        2,
        1,
        0,
    ]
    assert wp.from_ptr(at, 2, dtype=wp.vec3).list() == [wp.vec3(0, 1, 2), wp.vec3(3, 4, 5)]
    with pytest.raises(ValueError, match=r"^an array of shape \(2,\) can't lie at `ptr` 0, where no memory is$"):
        wp.from_ptr(0, 2)
    assert wp.array(ptr=0, shape=0, dtype=float).list() == []
    with pytest.raises(ValueError, match="needs 28 bytes at `ptr`, `capacity` is 24"):
        wp.array(ptr=at, shape=7, dtype=float, capacity=24)


def test_deleter_runs_once_all_views_are_gone():
    memory = (ctypes.c_float * 6)()
    calls = []
    a = wp.array(ptr=ctypes.addressof(memory), shape=6, dtype=float, deleter=lambda p, n: calls.append((p, n)))
    view, seen = a[2:4], a[2:4].numpy()
    del a
    gc.collect()
    assert not calls
    del view
    seen[0] = 1
    del seen
    gc.collect()
    assert calls == [(ctypes.addressof(memory), 24)]
    assert memory[2] == 1


class Cycle:
    """Keeps itself alive, and what it holds."""

    def __init__(self, held):
        self.held, self.itself = held, self


@pytest.mark.parametrize("kind", ["default", "closure", "method"])
def test_the_garbage_collector_leaves_deleters_whole(kind):
    """A deleter that is garbage like its array is older than the cycle around both: it would be cleared first."""
    memory, gone = (ctypes.c_float * 6)(), []

    class Pool:
        def __init__(self):
            self.gone = gone

        def take_back(self, ptr, size):
            self.gone.append(size)

    def make():
        kept = [gone]
        deleters = {
            "default": lambda ptr, size, kept=kept: kept[0].append(size),
            "closure": lambda ptr, size: kept[0].append(size),
            "method": Pool().take_back,
        }
        a = wp.array(ptr=ctypes.addressof(memory), shape=6, dtype=float, deleter=deleters[kind])
        return Cycle(a)

    for count in range(1, 4):
        made = weakref.ref(make())
        gc.collect()
        assert made() is None
        assert gone == [24] * count


def test_the_garbage_collector_leaves_allocators_whole():
    given = []

    class Allocator:
        def __init__(self):
            self.inner = wp.get_device("cpu").default_allocator

        def allocate(self, size_in_bytes):
            given.append(ptr := self.inner.allocate(size_in_bytes))
            return ptr

        def deallocate(self, ptr, size_in_bytes):
            given.remove(ptr)
            self.inner.deallocate(ptr, size_in_bytes)

    for _ in range(3):
        wp.set_device_allocator("cpu", Allocator())
        try:
            held = [wp.zeros(4), wp.ones(3, requires_grad=True)]
        finally:
            wp.set_device_allocator("cpu", None)
        assert len(given) == 3
        made = weakref.ref(Cycle(held))
        del held
        gc.collect()
        assert made() is None
        assert given == []


def test_memory_outlives_the_array():
    view = wp.full(1000, 7.0).numpy()
    gc.collect()
    wp.zeros(1000)
    assert (view == 7).all()


def test_pickle_and_deepcopy():
    a = wp.array(np.arange(6).reshape(2, 3), dtype=wp.bfloat16, requires_grad=True)
    a.grad.fill_(2)
    for b in (pickle.loads(pickle.dumps(a[:, ::2])), __import__("copy").deepcopy(a[:, ::2])):
        assert b.shape == (2, 2)
        assert b.dtype is wp.bfloat16
        assert b.list() == [0, 2, 3, 5]
        assert b.requires_grad


def test_array_types_of_every_scalar():
    for t in ir.SCALARS:
        a = wp.full(3, 1, dtype=t)
        assert a.dtype._ir_type_ == t
        assert a.list() == [1, 1, 1]
        assert a.itemsize * 8 == t.bits


def test_signatures_of_the_functions_that_make_arrays():
    """Those that hand their arguments on show which ones they take, and name themselves in errors."""
    made = inspect.signature(wp.zeros)
    assert list(made.parameters) == ["shape", "dtype", "device", "requires_grad", "pinned", "retain_grad", "kwargs"]
    assert inspect.signature(wp.empty) == inspect.signature(wp.ones) == made
    like = inspect.signature(wp.zeros_like)
    assert list(like.parameters) == ["src", "device", "requires_grad", "pinned", "retain_grad"]
    for function in (wp.empty_like, wp.ones_like, wp.clone):
        assert inspect.signature(function) == like
        with pytest.raises(TypeError, match=rf"{function.__name__}\(\) missing 1 required positional argument: 'src'"):
            function()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4)])
def test_elements_apart(shape: tuple[int, ...]) -> None:
    """Against NumPy's arrays of the same strides: columns first, with gaps, and both."""
    values = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    for strides in (values.T.copy().T.strides, tuple(3 * s for s in values.strides)):
        a = wp.zeros(shape, dtype=wp.int32, strides=strides)
        assert (a.shape, a.strides, a.is_contiguous) == (shape, strides, False)
        assert not a.numpy().any()
        a.assign(values)
        np.testing.assert_array_equal(a.numpy(), values)
        np.testing.assert_array_equal((a + 1).numpy(), values + 1)
        assert wp.utils.array_sum(a) == values.sum()
        assert wp.full(shape, 7, dtype=wp.int32, strides=strides).list() == [7] * values.size
    assert wp.empty((0, 3), dtype=int, strides=(4, 16)).shape == (0, 3)
    for wrong in [(4,), (16, -4)]:
        with pytest.raises(ValueError, match="has as many strides, none of them negative"):
            wp.empty((3, 3), dtype=int, strides=wrong)


def test_full_of_a_sequence() -> None:
    cases = [([1, 2, 3], wp.vec3i), ((1.0, 2.0), wp.vec2), (np.eye(2), wp.mat22d), (np.ones((2, 3), "f4"), None)]
    for value, dtype in cases:
        a = wp.full(2, value)
        assert a.dtype is (dtype or wp.types.matrix((2, 3), float))
        np.testing.assert_array_equal(a.numpy(), [value, value])
    with pytest.raises(TypeError, match="the dtype can't be told from a value of type list"):
        wp.full(2, [])


def test_rows_of_numbers_become_matrices() -> None:
    numbers = np.arange(12.0)
    shapes = {(12,): (3,), (3, 4): (3,), (3, 2, 2): (3,), (1, 12): (1, 3), (1, 3, 4): (1, 3)}
    for given, shape in shapes.items():
        data = numbers.reshape(given)
        a = wp.array(data, dtype=wp.mat22)
        assert a.shape == shape
        np.testing.assert_array_equal(a.numpy().ravel(), data.ravel())
    assert wp.array(np.arange(24.0).reshape(3, 8), dtype=wp.mat22).shape == (3, 2)


def test_integers_beyond_int64_are_exact() -> None:
    """NumPy alone would make floats of these, and round them."""
    numbers = [[0, 2**63 - 1], [2**63, 2**64 - 1]]
    assert wp.array(numbers, dtype=wp.uint64).numpy().tolist() == numbers
    assert wp.array(numbers).dtype is wp.uint64
    assert wp.array([1.5, 2.0**63]).dtype is wp.float64
    with pytest.raises(OverflowError, match="does not fit uint64"):
        wp.array([-1, 2**63], dtype=wp.uint64)


@pytest.mark.parametrize(
    "data, dtype, kept, message",
    [
        (
            np.array([2**32 + 5, -1]),
            wp.int32,
            [5, -1],
            "4294967301 does not fit int32: the integers of the NumPy array",
        ),
        (np.array([-1, 300]), wp.uint8, [255, 44], "-1 does not fit uint8: .* give dtype=wp.int64 to keep them"),
        (np.array([2.0, -3.7]), wp.int32, [2, -3], "an array of int32 is made of -3.7: fractions are cut off"),
        ([1.5], int, [1], "fractions are cut off; round the data first"),
    ],
)
def test_numbers_that_change_are_warned_of(data, dtype, kept, message) -> None:
    with pytest.warns(UserWarning, match=message) as caught:
        a = wp.array(data, dtype=dtype)
    assert a.numpy().tolist() == kept
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("make", [wp.empty, wp.zeros, wp.ones, lambda shape, **more: wp.full(shape, 1.0, **more)])
def test_a_number_of_dimensions_beside_the_shape(make, recwarn) -> None:
    assert make((2, 3), dtype=float, ndim=2).shape == (2, 3)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"a new array of shape \(4,\) does not have ndim=2; the shape counts"):
        assert make(4, dtype=float, ndim=2).shape == (4,)


def test_a_number_of_dimensions_beside_data(recwarn) -> None:
    assert wp.array(np.array([]), dtype=int, ndim=2).shape == (0,)
    assert wp.array2d(np.ones((2, 3)), dtype=float).shape == (2, 3)
    assert not recwarn.list
    for make in (lambda: wp.array2d([1.0], dtype=float), lambda: wp.array(np.ones(1), ndim=2, copy=False)):
        with pytest.warns(UserWarning, match=r"an array of shape \(1,\), which does not have ndim=2; the data counts"):
            assert make().shape == (1,)


@pytest.mark.skipif(wp.is_cuda_available(), reason="there is a CUDA device")
def test_pinned_memory_needs_a_device() -> None:
    with pytest.raises(
        RuntimeError, match="^pinned memory serves copies to and from a CUDA device: device 'cuda' is not"
    ):
        wp.zeros(3, pinned=True)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((4, 2, 1), wp.vec2, (4,)),
        ((2, 1), wp.vec2, (1,)),
        ((4, 1, 2), wp.vec2, (4, 1)),
        ((3, 2, 2, 1), wp.mat22, (3,)),
        ((3, 1, 4), wp.mat22, (3, 1)),
    ],
)
def test_trailing_dimensions_that_together_are_one_element(shape, dtype, expected):
    numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    made = wp.array(numbers, dtype=dtype)
    assert made.shape == expected
    assert made.numpy().ravel().tolist() == numbers.ravel().tolist()


@pytest.mark.parametrize("dtype", [wp.bfloat16, wp.types.vector(2, wp.bfloat16)])
@pytest.mark.parametrize("named", [False, True])
def test_an_array_of_bfloat16_is_made_of_another(dtype, named):
    a = wp.array([[1.5, -2.0]] if dtype is not wp.bfloat16 else [1.5, -2.0], dtype=dtype)
    b = wp.array(a, dtype=dtype) if named else wp.array(a)
    assert b.dtype is dtype
    assert b.ptr != a.ptr
    np.testing.assert_array_equal(b.numpy(), a.numpy())


@pytest.mark.parametrize("dtype", [wp.bfloat16, wp.types.vector(3, wp.bfloat16)])
def test_the_bits_of_bfloat16_come_back(dtype):
    a = wp.array([[1.5, -2.0, 3.25]] if dtype is not wp.bfloat16 else [1.5, -2.0, 3.25], dtype=dtype)
    b, c = wp.array(a.numpy(), dtype=dtype), wp.zeros(a.shape, dtype=dtype)
    c.assign(a.numpy())
    assert a.list() == b.list() == c.list()
    c.zero_()
    c.from_numpy(a.numpy())
    assert a.list() == c.list()


def test_integers_that_are_no_bits_become_bfloat16():
    for data in ([np.uint16(1), np.uint16(5)], np.array([1, 5], np.int16), wp.array([1, 5], dtype=wp.uint16)):
        assert wp.array(data, dtype=wp.bfloat16).list() == [1.0, 5.0]
