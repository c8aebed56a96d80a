"""Objects of libraries that are not here: CuPy, numba, PIL and their like, by the protocols that they offer."""

import numpy as np
import pytest

import warp_like as wp
from warp_like import _native
from warp_like.interop.view import as_array, describe
from warp_like.ir import types as ir
from warp_like.runtime.memory.allocation import element_type


class DeviceArray:
    """What numba's device arrays offer."""

    def __init__(self, **changes):
        self.a = np.arange(6, dtype=np.float32).reshape(2, 3)
        interface = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (self.a.ctypes.data, False),
            "version": 3,
            "strides": None,
            **changes,
        }
        self.__cuda_array_interface__ = {k: v for k, v in interface.items() if v != "absent"}
        self.dtype, self.shape = self.a.dtype, self.a.shape

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("this would copy from the device")


class CupyArray(DeviceArray):
    """What CuPy's arrays offer: DLPack as well."""

    __module__ = "cupy"

    def __dlpack__(self, *, stream=None, max_version=None):
        on_device = _native.Array()
        on_device._bind(
            self.a.ctypes.data, (2, 3), None, element_type(wp.float32).code, 4, False, None, None, self, 2, 1
        )
        return _native.dlpack_capsule(on_device, max_version is not None)


@pytest.fixture
def reader():
    @wp.kernel
    def read(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i, 0]

    return lambda x: wp.launch(read, 2, [x], [np.zeros(2, np.float32)])


def test_the_cuda_array_interface_is_read():
    memory = describe(DeviceArray())
    assert (memory.shape, memory.strides, memory.scalar) == ((2, 3), (12, 4), ir.float32)
    assert (memory.device, memory.readonly) == ("cuda:0", False)
    strided = describe(DeviceArray(strides=(4, 8), typestr="<f2", data=(4096, True)))
    assert (strided.ptr, strided.strides, strided.scalar, strided.readonly) == (4096, (4, 8), ir.float16, True)


@pytest.mark.skipif(wp.is_cuda_available(), reason="there is such a device here")
@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            DeviceArray(),
            "the DeviceArray object lies on cuda:0, and the devices here are: cpu; copy it to one of them first",
        ),
        (CupyArray(), "the CuPy array lies on cuda:1, and the devices here are: cpu; copy it to one of them first"),
    ],
)
def test_memory_of_a_device_that_is_not_here(obj, message, reader):
    for use in (as_array, wp.array, wp.clone, wp.from_dlpack if hasattr(obj, "__dlpack__") else as_array):
        with pytest.raises(ValueError) as error:
            use(obj)
        assert str(error.value) == message
    with pytest.raises(ValueError, match="lies on cuda"):
        wp.copy(wp.zeros((2, 3)), obj)
    with pytest.raises(TypeError) as error:
        reader(obj)
    kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
    assert str(error.value).partition("\n  --> ")[0] == (
        "kernel `read`, argument 1 `x`: expected array2d[float32], "
        f"got {kind} of dtype float32 and shape (2, 3): {message}"
    )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mask": object()}, TypeError, "the DeviceArray object has a mask, which would be ignored"),
        ({"typestr": "<c8"}, TypeError, "the DeviceArray object's dtype complex64 has no counterpart"),
        ({"typestr": ">f4"}, TypeError, "has no counterpart"),
        ({"typestr": "nonsense"}, ValueError, "is malformed: TypeError"),
        (
            {"shape": "absent"},
            ValueError,
            "the __cuda_array_interface__ of the DeviceArray object is malformed: KeyError",
        ),
        ({"data": 3}, ValueError, "is malformed: TypeError"),
    ],
)
def test_what_is_wrong_with_an_interface(changes, error, message):
    with pytest.raises(error, match=message):
        as_array(DeviceArray(**changes))


def test_preference():
    """DLPack, then array interface, then CUDA's, then the buffer protocol, then ``__array__``."""
    asked = []

    class Everything(bytearray):
        def __init__(self, *missing):
            super().__init__(8)
            self.missing = missing
            self.data = np.zeros(2, np.float32)

        def __getattribute__(self, name):
            if (
                name.startswith("__")
                and name.endswith("__")
                and name
                in (
                    "__dlpack__",
                    "__array_interface__",
                    "__cuda_array_interface__",
                    "__array__",
                )
            ):
                if name in super().__getattribute__("missing"):
                    raise AttributeError(name)
                asked.append(name)
                data = super().__getattribute__("data")
                if name == "__cuda_array_interface__":
                    return {"shape": (2,), "typestr": "<f4", "data": (data.ctypes.data, False), "version": 3}
                return getattr(data, name)
            return super().__getattribute__(name)

    ways = ["__dlpack__", "__array_interface__", "__cuda_array_interface__"]
    for i, way in enumerate(ways):
        asked.clear()
        memory = describe(Everything(*ways[:i]))
        assert asked[0] == way
        assert memory.scalar == ir.float32
    asked.clear()
    assert describe(Everything(*ways)).scalar == ir.uint8
    assert asked == []  # the buffer protocol comes before __array__


def test_an_array_interface_that_holds_its_bytes():
    """As PIL's images have it: the memory is that of a bytes object, so it is read-only."""

    class Picture:
        @property
        def __array_interface__(self):
            return {"shape": (2, 2), "typestr": "|u1", "version": 3, "data": bytes(range(4))}

    a = as_array(Picture())
    assert a.readonly
    assert a.numpy().tolist() == [[0, 1], [2, 3]]


def test_capsules_of_either_version_once_each():
    for versioned in (False, True):
        a = wp.array([1.0, 2.0, 3.0], dtype=float)
        capsule = _native.dlpack_capsule(a, versioned)
        b = wp.from_dlpack(capsule)
        assert b.ptr == a.ptr
        del a
        assert b.list() == [1, 2, 3]
        with pytest.raises(ValueError, match="consumed already"):
            wp.from_dlpack(capsule)


def test_to_dlpack_serves_every_consumer():
    a = wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=float)
    x = np.from_dlpack(wp.to_dlpack(a))
    assert x.ctypes.data == a.ptr
    assert x.flags.writeable or np.lib.NumpyVersion(np.__version__) < "2.1.0"  # which takes all for read-only
    for name in ("torch", "paddle"):
        framework = pytest.importorskip(name)
        for given in (wp.to_dlpack(a), wp.to_dlpack(a).__dlpack__()):
            t = framework.utils.dlpack.from_dlpack(given)
            assert t.data_ptr() == a.ptr
    jax = pytest.importorskip("jax")
    assert jax.dlpack.from_dlpack(wp.to_dlpack(a)).unsafe_buffer_pointer() == a.ptr
    b = wp.from_dlpack(wp.to_dlpack(a))
    assert b.ptr == a.ptr
    with pytest.raises(TypeError, match="needs a warp_like array, got ndarray"):
        wp.to_dlpack(x)


def test_every_library_can_be_read_through_dlpack():
    for name in ("torch", "paddle", "jax"):
        pytest.importorskip(name)
    import jax
    import paddle
    import torch

    for make in (torch.ones, paddle.ones, jax.numpy.ones, np.ones):
        x = make((2, 3))
        a = wp.from_dlpack(x)
        assert a.shape == (2, 3)
        assert a.numpy().sum() == 6
        vectors = wp.from_dlpack(x, dtype=wp.vec3 if a.dtype is wp.float32 else wp.vec3d)
        assert vectors.shape == (2,)


def test_streams_of_the_cpu():
    a = wp.ones(3)
    for stream in (None, -1):
        assert wp.from_dlpack(a.__dlpack__(stream=stream)).ptr == a.ptr
    for stream in (0, 1, 2, 1742, "nope"):
        with pytest.raises(TypeError, match=r"cpu has no streams: __dlpack__\(\) takes stream=None or -1, got"):
            a.__dlpack__(stream=stream)


def test_devices_are_asked_for_before_a_capsule_is_made():
    class Elsewhere:
        def __dlpack_device__(self):
            return 123, 7

        def __dlpack__(self, **_):
            raise AssertionError("asked")

    with pytest.raises(ValueError, match=r"the Elsewhere object lies on DLPack device \(123, 7\), and kernels run on"):
        wp.from_dlpack(Elsewhere())


@pytest.mark.parametrize("given, wanted", [(wp.int32, wp.uint32), (wp.uint8, wp.int8), (wp.bool, wp.uint8)])
@pytest.mark.parametrize("make", [np.array, lambda x: wp.array(x), lambda x: jax_array(x), lambda x: tensor(x)])
def test_integers_are_read_as_those_of_the_same_size(make, given, wanted):
    held = np.array([0, 1, 1], dtype=wp.dtype_to_numpy(given))
    source = make(held)
    a = wp.from_dlpack(source, dtype=wanted)
    assert a.dtype is wanted
    assert a.list() == [0, 1, 1]
    assert a.numpy().ctypes.data == wp.from_dlpack(source).ptr
    with pytest.raises(TypeError, match="expected elements of"):
        wp.from_dlpack(source, dtype=wp.float32)
    with pytest.raises(TypeError, match="expected elements of int16"):
        wp.from_dlpack(source, dtype=wp.int16)


def jax_array(x):
    return pytest.importorskip("jax").numpy.asarray(x)


def tensor(x):
    return pytest.importorskip("torch").tensor(x)
