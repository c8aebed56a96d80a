"""Buffer, Value and Array: who owns what, and what other libraries see."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from tests.native import support as s
from tests.native.support import native

SIMPLE, WRITABLE, ND = 0, 1, 8
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x38, 0x58, 0x98


def PyObject_GetBuffer(obj: object, flags: int) -> None:
    """Ask `obj` for a buffer as C code does, and give it back."""
    view = (ctypes.c_char * 80)()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(obj), view, flags)
    ctypes.pythonapi.PyBuffer_Release(view)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 1000, 1 << 22])
@pytest.mark.parametrize("zero", [False, True])
def test_alloc(nbytes: int, zero: bool) -> None:
    buffers = [native.alloc(nbytes, zero) for _ in range(4)]
    assert all(b.ptr % 64 == 0 and b.ptr for b in buffers)
    assert len({b.ptr for b in buffers}) == 4
    assert all(b.nbytes == nbytes for b in buffers)
    if zero:
        array = s.Array()
        array._bind(buffers[0].ptr, (nbytes,), None, s.U8, 1, False, None, s.CPU, buffers[0])
        assert not np.asarray(array).any()


def test_alloc_failures() -> None:
    for size, error in (
        (-1, ValueError),
        (2**62, MemoryError),
        (2**63 - 1, MemoryError),
        (2**64, OverflowError),
    ):
        with pytest.raises(error):
            native.alloc(size, True)
    with pytest.raises(TypeError):
        native.alloc("4")


keeps_freed_memory = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="the address sanitizer keeps freed memory for a while"
)


@keeps_freed_memory
def test_large_blocks_are_used_again() -> None:
    size = 20 << 20  # larger than what other tests leave behind
    first = native.alloc(size, False)
    ctypes.memset(first.ptr, 0xA5, size)
    place = first.ptr
    del first
    second = native.alloc(size - size // 8, True)
    assert second.ptr == place
    assert not any(ctypes.string_at(second.ptr, size - size // 8))
    other = native.alloc(size, False)  # while the block is in use
    assert other.ptr != place
    del second
    small = native.alloc(size // 2, False)
    assert small.ptr != place  # which would waste half of it
    del small, other


@keeps_freed_memory
@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory is resident from /proc")
def test_few_blocks_are_kept() -> None:
    """Blocks that are given back lie neither in memory for ever nor below one that does."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    size, count = 8 << 20, 30
    before = resident()
    buffers = [native.alloc(size, False) for _ in range(count)]
    for buffer in buffers:
        ctypes.memset(buffer.ptr, 1, size)
    assert resident() - before > (size * count) // 2
    del buffers[-1]  # the last one is kept longest
    buffers.clear()
    del buffer
    assert resident() - before < 96 << 20


def test_wrap_calls_the_deleter_once() -> None:
    class Owner:
        pass

    calls: list[int] = []
    owner = Owner()
    alive = weakref.ref(owner)
    buffer = native.Buffer.wrap(4096, 8, calls.append, owner)
    del owner
    assert (buffer.ptr, buffer.nbytes, buffer.owner) == (4096, 8, alive())
    assert not calls
    del buffer
    assert calls == [4096]
    assert alive() is None


def test_wrap_deleter_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: seen.append(info.exc_type))
    native.Buffer.wrap(4096, 8, lambda _: 1 / 0)
    assert seen == [ZeroDivisionError]
    with pytest.raises(TypeError):
        native.Buffer.wrap(4096, 8, 5)


def test_value() -> None:
    v = native.Value(12)
    view = memoryview(v)
    assert (view.nbytes, view.readonly, view.tobytes()) == (12, False, bytes(12))
    view[3] = 7
    assert bytes(v)[3] == 7
    for bad in ((), (-1,), ("x",), (1, 2)):
        with pytest.raises((TypeError, ValueError)):
            native.Value(*bad)


def test_value_class_says_what_its_bytes_are() -> None:
    class Mat23(native.Value):
        _type_code_ = s.mat(2, 3, s.F64)
        _nbytes_ = 48

        def __init__(self, *values: float, scale: float = 1) -> None:
            np.asarray(self).reshape(-1)[:] = np.multiply(values, scale)

    m = Mat23(1, 2, 3, 4, 5, 6, scale=2)
    view = memoryview(m)
    assert (view.format, view.shape, view.strides) == ("d", (2, 3), (24, 8))
    assert np.asarray(m).tolist() == [[2, 4, 6], [8, 10, 12]]
    assert np.frombuffer(m, np.float64).tolist() == [2, 4, 6, 8, 10, 12]
    m.note = "values have a dict unless their class has slots"

    class Brain(native.Value):
        _type_code_ = s.vec(2, s.BF16)
        _nbytes_ = 4

    with pytest.raises(BufferError):
        np.asarray(memoryview(Brain()))


def test_array_properties() -> None:
    a = s.bound((2, 3), s.vec(3, s.F32), readonly=True)
    assert (a.ndim, a.shape, a.strides, a.size, a.itemsize) == (2, (2, 3), (36, 12), 6, 12)
    assert (a.type_code, a.is_contiguous, a.readonly) == (s.vec(3, s.F32), True, True)
    assert (a.dtype, a.device, a.grad_array) == ("dtype", s.CPU, None)
    a.grad_array = a
    for name in ("dtype", "device", "owner", "shape", "ptr"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(a, name, None)


def test_array_is_bound_once() -> None:
    a = s.bound((2,))
    with pytest.raises(RuntimeError, match="bound already"):
        a._bind(0, (1,), None, s.F32, 4, False, None, None, None)


@pytest.mark.parametrize(
    "shape, strides, code, itemsize",
    [
        ((1,) * 9, None, s.F32, 4),
        ((-1,), None, s.F32, 4),
        ((2,), (4, 4), s.F32, 4),
        ((2**62, 4), None, s.F32, 4),
        ((2,), None, s.F32, 8),
        ((2,), None, s.F32, 0),
        ((2,), None, 2**32 - 1, 4),
        ((2.0,), None, s.F32, 4),
        (3, None, s.F32, 4),
    ],
)
def test_bind_refuses(shape: object, strides: object, code: int, itemsize: int) -> None:
    a = s.Array()
    with pytest.raises((ValueError, TypeError)):
        a._bind(64, shape, strides, code, itemsize, False, None, None, None)
    assert (a.ndim, a.size, a.shape) == (0, 0, ())


@pytest.mark.parametrize(
    "shape, strides, contiguous",
    [
        ((), (), True),
        ((1,), (400,), True),
        ((0,), (7,), True),
        ((0, 5), (1, 1), True),
        ((5, 0), (1, 1), True),
        ((4, 1), (4, 999), True),
        ((1, 4), (0, 4), True),
        ((4,), (8,), False),
        ((4,), (-4,), False),
        ((2, 2), (4, 8), False),
        ((3,), (0,), False),
        ((2, 3, 4), (48, 16, 4), True),
    ],
)
def test_contiguity_is_numpys(shape: tuple[int, ...], strides: tuple[int, ...], contiguous: bool) -> None:
    a = s.bound(shape, strides=strides)
    assert a.is_contiguous is contiguous
    model = np.lib.stride_tricks.as_strided(np.zeros(100, "f"), shape, strides)
    assert model.flags.c_contiguous is contiguous


def test_subview() -> None:
    a = s.bound((4, 6))
    np.asarray(a)[:] = np.arange(24).reshape(4, 6)
    v = a._subview(4 * (6 + 2), (2, 2), (24, 8))
    assert type(v) is s.Array
    assert np.asarray(v).tolist() == [[8, 10], [14, 16]]
    assert (v.owner, v.device, v.dtype, v.is_contiguous) == (a.owner, a.device, a.dtype, False)
    with pytest.raises(ValueError):
        a._subview(0, (1, 1), (4,))
    with pytest.raises(RuntimeError):
        s.Array()._subview(0, (1,), (4,))


@pytest.mark.parametrize(
    "code, inner, dtype",
    [
        (s.F32, (), "f4"),
        (s.vec(3, s.F64), (3,), "f8"),
        (s.mat(2, 3, s.I16), (2, 3), "i2"),
        (s.BOOL, (), "?"),
        (s.F16, (), "f2"),
        (s.U64, (), "u8"),
    ],
)
def test_numpy_sees_the_memory(code: int, inner: tuple[int, ...], dtype: str) -> None:
    a = s.bound((2, 3, 4, 5), code)
    n = np.asarray(a)
    assert (n.shape, n.dtype, n.ctypes.data) == ((2, 3, 4, 5, *inner), np.dtype(dtype), a.ptr)
    assert n.flags.writeable
    strided = np.asarray(s.bound((4,), code, strides=(-2 * s.size_of(code),), offset=8 * s.size_of(code)))
    assert strided.strides[0] == -2 * s.size_of(code)


def test_buffer_refusals() -> None:
    for a in (s.bound((2,), s.BF16), s.bound((2,), 0xFE), s.Array()):
        with pytest.raises(BufferError):
            memoryview(a)
    on_gpu = s.Array()
    on_gpu._bind(64, (1,), None, s.F32, 4, False, None, None, None, 2, 1)
    assert (on_gpu.device_type, on_gpu.device_id) == (2, 1)
    with pytest.raises(BufferError):
        memoryview(on_gpu)
    assert memoryview(s.bound((2,), readonly=True)).readonly
    assert not np.asarray(s.bound((2,), readonly=True)).flags.writeable
    with pytest.raises(BufferError):
        PyObject_GetBuffer(s.bound((2,), readonly=True), WRITABLE)
    for flag in (SIMPLE, ND, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS):
        with pytest.raises(BufferError):
            PyObject_GetBuffer(s.bound((2, 2), strides=(16, 8)), flag)
    for flag in (SIMPLE, ND, C_CONTIGUOUS, ANY_CONTIGUOUS):
        PyObject_GetBuffer(s.bound((2, 2)), flag)


def test_memory_lives_as_long_as_a_view() -> None:
    a = s.bound((1000,))
    memory = weakref.ref(a.owner)
    n = np.asarray(a)
    alive = weakref.ref(a)
    del a
    gc.collect()
    assert alive() is not None
    assert memory() is not None
    del n
    assert alive() is None
    assert memory() is None


def test_cycles_are_collected() -> None:
    a = s.bound((4,))
    a.grad_array = s.bound((4,))
    a.grad_array.grad_array = a
    a.extra = a
    alive = weakref.ref(a.owner)
    del a
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("n", [0, 1, 5, 1 << 14, (1 << 18) + 3])
def test_setting_an_array_to_zero(n: int) -> None:
    a = s.bound((n,))
    memory = np.frombuffer((ctypes.c_uint8 * (4 * n + 8)).from_address(a.ptr), np.uint8) if n else np.zeros(0, np.uint8)
    memory[:] = 1
    assert a._try_zero() is True
    assert not memory[: 4 * n].any()
    assert memory[4 * n :].all()


def test_what_is_not_set_to_zero_natively() -> None:
    for a in (s.bound((4,), strides=(8,)), s.bound((4,), readonly=True), native.Array()):
        assert a._try_zero() is False
