"""Arrays on CUDA devices given to other libraries and taken from them, against the fake: whose streams wait for whose.

The other libraries are objects with the protocols of CuPy, numba, PyTorch and Paddle.
"""

import ctypes
import gc
import sys
import types

import numpy as np
import pytest

import warp_like as wp
from tests.runtime.cuda.fake_driver import real
from warp_like.interop import view


class Producer:
    """What has CUDA memory and says so by one protocol; the memory is that of an array of ours."""

    def __init__(self, a, *protocols, **changes):
        self.array = a
        self.asked = []
        if "interface" in protocols:
            self.__cuda_array_interface__ = {**a.__cuda_array_interface__, **changes}
        if "dlpack" in protocols:
            self.__class__ = DLPackProducer


class DLPackProducer(Producer):
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self.array.__dlpack__(**{**asked, "stream": -1})


def events(fake):
    """Who waits for whom: (waiting stream, stream that was waited for)."""
    recorded, found = {}, []
    for name, args in fake.calls:
        if name == "cuEventRecord":
            recorded[args[0]] = args[1]
        elif name == "cuStreamWaitEvent":
            found.append((args[0], recorded[args[1]]))
    return found


def settle():
    """Let the interpreter drop what DLPack's deleters have left to it."""
    for _ in range(10):
        gc.collect()


class OfJax:
    """An array as JAX has them on CUDA, whose work the host need not wait for."""

    def __init__(self, a: wp.array) -> None:
        self.a, self.streams = a, []

    def is_deleted(self) -> bool:
        return False

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.a.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.a.__dlpack__(stream=stream, max_version=max_version)


def test_the_stream_waits_for_arrays_of_jax_and_not_the_host(fake, monkeypatch):
    monkeypatch.setattr(view, "_is_jax", lambda obj: isinstance(obj, OfJax))
    given = OfJax(wp.zeros(3, device="cuda:0"))
    taken = wp.from_dlpack(given)  # which has no `block_until_ready`
    assert given.streams == [wp.get_stream("cuda:0").cuda_stream]
    assert (taken.ptr, taken.readonly) == (given.a.ptr, True)
    on_host = OfJax(wp.zeros(3, device="cpu"))
    with pytest.raises(AttributeError, match="block_until_ready"):
        wp.from_dlpack(on_host)


# ---- out


@pytest.mark.parametrize("dtype", [wp.float32, wp.float16, wp.int64, wp.bool, wp.vec3, wp.mat22d])
def test_the_cuda_array_interface(fake, dtype):
    a = wp.zeros((4, 6), dtype=dtype, device="cuda:0")[:, ::2]
    host = wp.zeros((4, 6), dtype=dtype)[:, ::2].numpy()
    described = a.__cuda_array_interface__
    assert described["version"] == 3
    assert described["data"] == (a.ptr, False)
    assert described["shape"] == host.shape
    assert described["strides"] == host.strides
    assert described["typestr"] == host.dtype.str
    assert described["stream"] == wp.get_stream("cuda:0").cuda_stream


def test_the_interface_of_arrays_without_elements_and_of_the_legacy_stream(fake):
    assert wp.zeros(0, device="cuda:0").__cuda_array_interface__["data"] == (0, False)
    a = wp.zeros(3, device="cuda:0")
    with wp.ScopedStream(wp.Stream("cuda:0", cuda_stream=0)):
        a.fill_(2.0)
    assert a.__cuda_array_interface__["stream"] == 1


def test_what_has_no_cuda_array_interface(fake):
    assert not hasattr(wp.zeros(3), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="no bfloat16"):
        _ = wp.zeros(3, dtype=wp.bfloat16, device="cuda:0").__cuda_array_interface__
    assert not hasattr(wp.zeros(3, device="cuda:0"), "__array_interface__")


@pytest.mark.parametrize("stream", [0xABC0, 2])
def test_the_consumers_stream_waits(fake, stream):
    a = wp.zeros(3, device="cuda:0")
    ours = wp.get_stream("cuda:0").cuda_stream
    fake.forget()
    a.__dlpack__(stream=stream)
    assert events(fake) == [(stream, ours)]
    fake.forget()
    a.fill_(1.0)  # the consumer may have written it meanwhile
    assert events(fake) == [(ours, stream)]


@pytest.mark.parametrize("stream", [None, 1, -1])
def test_nothing_waits_where_the_driver_or_the_consumer_orders(fake, stream):
    a = wp.zeros(3, device="cuda:0")
    fake.forget()
    a.__dlpack__(stream=stream)
    assert events(fake) == []


@pytest.mark.parametrize("stream", [0, "1", 1.0, -2])
def test_what_is_no_stream(fake, stream):
    with pytest.raises(BufferError, match="a consumer's CUDA stream is -1, None, 1, 2 or the handle of a stream, got"):
        wp.zeros(3, device="cuda:0").__dlpack__(stream=stream)


def test_dlpack_to_the_host_is_a_copy(fake):
    a = wp.array([1.0, 2.0], device="cuda:1")
    assert a.__dlpack_device__() == (2, 1)
    back = wp.from_dlpack(a.__dlpack__(dl_device=(1, 0)))
    assert (back.device, back.list()) == ("cpu", [1.0, 2.0])
    with pytest.raises(BufferError, match="can't be exported"):
        a.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="can't be exported"):
        a.__dlpack__(dl_device=(2, 0))


def test_memory_does_not_die_under_a_capsule(fake):
    a = wp.zeros(3, device="cuda:0")
    capsule = a.__dlpack__(max_version=(1, 0), stream=-1)
    ptr = a.ptr
    del a
    assert ptr in fake.live
    b = wp.from_dlpack(capsule)
    assert b.ptr == ptr
    del b, capsule
    settle()
    assert ptr not in fake.live


# ---- in


def test_dlpack_in_tells_our_stream(fake):
    a = wp.array([1.0, 2.0], device="cuda:1")
    given = Producer(a, "dlpack")
    b = wp.from_dlpack(given)
    assert (b.ptr, b.device) == (a.ptr, "cuda:1")
    assert given.asked == [{"max_version": (1, 0), "stream": wp.get_stream("cuda:1").cuda_stream}]


def test_the_interface_in_waits_for_its_stream(fake):
    a = wp.array(np.ones((5, 3), np.float32), device="cuda:1")
    given = Producer(a, "interface", stream=0xABC0)
    fake.forget()
    b = wp.array(given, dtype=wp.vec3, copy=False, device="cuda:1")
    assert (b.ptr, b.shape, b.device) == (a.ptr, (5,), "cuda:1")
    assert events(fake) == [(wp.get_stream("cuda:1").cuda_stream, 0xABC0)]


def test_the_interface_in_without_a_stream_waits_for_nothing(fake):
    given = Producer(wp.zeros(3, device="cuda:0"), "interface", stream=None)
    fake.forget()
    wp.array(given, copy=False, device="cuda:0")
    assert events(fake) == []


@pytest.mark.parametrize("stream", [0, "1"])
def test_streams_that_the_interface_does_not_allow(fake, stream):
    given = Producer(wp.zeros(3, device="cuda:0"), "interface", stream=stream)
    with pytest.raises(ValueError, match=f"of the Producer object names stream {stream!r}, which is none"):
        wp.array(given, copy=False, device="cuda:0")


@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]


def test_a_launch_takes_what_has_the_interface(fake):
    a = wp.zeros(4, device="cuda:0")
    given = Producer(a, "interface")
    wp.launch(double, dim=4, inputs=[given], device="cuda:0")
    assert int.from_bytes(fake.launches[-1].args[:8], "little") == a.ptr
    with pytest.raises(Exception, match="`x`.*cuda:0.*cpu|`x`.*cpu.*cuda:0"):
        wp.launch(double, dim=4, inputs=[given], device="cpu")
    double.forget_programs()


class CupyArray(DLPackProducer):
    """Has DLPack as CuPy's arrays have."""


@pytest.fixture
def cupy(monkeypatch):
    """A module that says as CuPy does on which stream it works, by device."""
    module, now = types.ModuleType("cupy"), []

    class Device:
        def __init__(self, ordinal):
            self.ordinal = ordinal

        def __enter__(self):
            now.append(self.ordinal)

        def __exit__(self, *_):
            now.pop()

    module.ndarray, module.streams = CupyArray, {0: 0xABC0, 1: 0xDEF0}
    module.cuda = types.SimpleNamespace(
        Device=Device, get_current_stream=lambda: types.SimpleNamespace(ptr=module.streams[now[-1]])
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.mark.parametrize("protocols", [("dlpack",), ("interface",)])
def test_a_launch_runs_on_the_stream_of_cupy(fake, cupy, protocols):
    for ordinal in (1, 0):
        a = wp.zeros(4, device=f"cuda:{ordinal}")
        given = Producer(a, *protocols)
        given.__class__ = CupyArray if "dlpack" in protocols else Interfaced
        cupy.ndarray = type(given)
        wp.launch(double, dim=4, inputs=[given], device=a.device)
        assert fake.launches[-1].stream == cupy.streams[ordinal]
        b = wp.array(given, copy=False, device=a.device)
        wp.launch(double, dim=4, inputs=[b], device=a.device)
        assert fake.launches[-1].stream == cupy.streams[ordinal]
    cupy.streams[0] = 0xABC8
    wp.launch(double, dim=4, inputs=[b], device="cuda:0")
    assert fake.launches[-1].stream == 0xABC8
    chosen = wp.Stream("cuda:0")
    with wp.ScopedStream(chosen):
        wp.launch(double, dim=4, inputs=[given], device="cuda:0")
    assert fake.launches[-1].stream == chosen.cuda_stream
    double.forget_programs()


class Interfaced(Producer):
    """Has the interface alone."""


@wp.kernel
def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        *(("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32)),
        *(("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)),
        *(("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)),
    )


_READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class ExchangeApi(ctypes.Structure):
    _fields_ = (
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p)),
        *((name, ctypes.c_void_p) for name in ("allocate", "from_object", "to_object")),
        *(("read", _READ), ("stream", _STREAM)),
    )


@pytest.fixture
def tensor_class():
    """A class of tensors of one dimension, whose library says through DLPack's C interface on which stream it works."""
    streams = {0: 0xABC0, 1: 0xDEF0}

    @_READ
    def read(tensor, out):
        a = tensor.array
        tensor.extents = (ctypes.c_int64 * 2)(a.shape[0], 1)
        at = ctypes.addressof(tensor.extents)
        out[0] = DLTensor(a.ptr, 2, a.device.ordinal, 1, 2, 32, 1, at, at + 8, 0)
        return 0

    @_STREAM
    def stream(kind, ordinal, out):
        assert kind == 2
        out[0] = streams[ordinal]
        return 0

    api = ExchangeApi(1, 1, None, None, None, None, read, stream)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

    class Tensor:
        __dlpack_c_exchange_api__ = capsule(ctypes.addressof(api), b"dlpack_exchange_api", None)
        current, keeps = streams, api

        def __init__(self, n, device):
            self.array = wp.zeros(n, device=device)

        def __dlpack_device__(self):
            return 2, self.array.device.ordinal

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

    return Tensor


def test_a_launch_runs_on_the_stream_that_dlpack_tells(fake, tensor_class):
    for ordinal in (1, 0):
        tensor = tensor_class(4, f"cuda:{ordinal}")
        for _ in range(2):  # through Python, which compiles, and natively
            wp.launch(double, dim=4, inputs=[tensor], device=f"cuda:{ordinal}")
            assert fake.launches[-1].stream == tensor_class.current[ordinal]
    assert int.from_bytes(fake.launches[-1].args[:8], "little") == tensor.array.ptr
    tensor_class.current[0] = 0xABC8  # the library goes on elsewhere
    fake.forget()
    wp.launch(double, dim=4, inputs=[tensor], device="cuda:0")
    assert fake.launches[-1].stream == 0xABC8
    assert not {"cuStreamSynchronize", "cuCtxSynchronize"} & set(fake.names())
    ours = wp.zeros(4, device="cuda:0")
    own = wp.get_stream("cuda:0").cuda_stream
    wp.launch(scaled, dim=4, inputs=[tensor, ours], device="cuda:0")
    assert (events(fake), fake.launches[-1].stream) == ([(0xABC8, own)], 0xABC8)  # theirs waits for what ours had begun
    chosen = wp.Stream("cuda:0")
    wp.launch(double, dim=4, inputs=[tensor], stream=chosen)
    assert fake.launches[-1].stream == chosen.cuda_stream
    with wp.ScopedStream(chosen):
        wp.launch(double, dim=4, inputs=[tensor], device="cuda:0")
    assert fake.launches[-1].stream == chosen.cuda_stream
    double.forget_programs()
    scaled.forget_programs()


# ---- streams of other libraries


class TorchStream:
    def __init__(self, handle, index):
        self.cuda_stream = handle
        self.device = types.SimpleNamespace(type="cuda", index=index)


def test_a_stream_of_pytorch(fake):
    theirs = TorchStream(0xABC0, 1)
    ours = wp.stream_from_torch(theirs)
    assert (ours.cuda_stream, ours.device, ours.owned) == (0xABC0, "cuda:1", False)
    assert ours.keeper is theirs
    with wp.ScopedStream(ours):
        wp.zeros(3, device="cuda:1")
    assert ("cuMemAllocAsync", (12, 0xABC0)) in [(c.name, c.args[:2]) for c in fake.calls]
    del ours
    assert "cuStreamDestroy" not in fake.names()


def test_a_stream_of_paddle(fake):
    place = types.SimpleNamespace(get_device_id=lambda: 1)
    theirs = types.SimpleNamespace(stream_base=types.SimpleNamespace(cuda_stream=0xABC0, place=place))
    ours = wp.stream_from_paddle(theirs)
    assert (ours.cuda_stream, ours.device) == (0xABC0, "cuda:1")


def test_the_bytes_are_there(fake):
    a = wp.array([1.0, 2.0, 3.0], dtype=float, device="cuda:0")
    pointer, _ = a.__cuda_array_interface__["data"]
    held = (ctypes.c_float * 3).from_address(real(pointer))
    assert list(held) == [1.0, 2.0, 3.0]
