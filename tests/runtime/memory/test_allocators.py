"""Allocators of the user's own, on the CPU."""

import ctypes
import io

import numpy as np
import pytest

import warp_like as wp


class Logging:
    def __init__(self, device):
        self.inner, self.live, self.log = device.default_allocator, {}, []

    def allocate(self, size_in_bytes):
        ptr = self.inner.allocate(size_in_bytes)
        self.live[ptr] = size_in_bytes
        self.log.append(size_in_bytes)
        return ptr

    def deallocate(self, ptr, size_in_bytes):
        assert self.live.pop(ptr) == size_in_bytes
        self.inner.deallocate(ptr, size_in_bytes)


@pytest.fixture
def logging():
    made = Logging(wp.get_device("cpu"))
    wp.set_device_allocator("cpu", made)
    yield made
    wp.set_device_allocator("cpu", None)


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def test_all_arrays_come_from_it(logging):
    assert wp.get_device_allocator("cpu") is logging
    n = 1000
    x, y = wp.array(np.arange(n, dtype=np.float32)), wp.zeros(n, requires_grad=True)
    copied, filled, vectors = wp.clone(x), wp.full(3, 7.0), wp.empty((2, 3), dtype=wp.vec3d)
    made = wp.array([1, 2, 3], dtype=wp.int64)
    assert sorted(logging.log) == sorted([4 * n] * 4 + [12, 6 * 24, 24])
    wp.launch(double, dim=n, inputs=[copied, y])
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(n))
    assert filled.list() == [7.0] * 3
    assert made.list() == [1, 2, 3]
    view, shown = x[10:], copied.numpy()
    del x, y, copied, filled, vectors, made
    assert sorted(logging.live.values()) == [4 * n] * 2
    assert (view[0], shown[1]) == (10.0, 1.0)
    del view, shown
    assert not logging.live


def test_scopes_and_what_arrays_keep(logging):
    with wp.ScopedAllocator("cpu", None) as inside:
        assert inside is None
        a = wp.zeros(100)
        assert wp.get_device_allocator("cpu") is wp.get_device("cpu").default_allocator
    assert not logging.log
    b = wp.zeros(100)
    wp.set_device_allocator("cpu", None)
    c = wp.zeros(100)
    assert list(logging.live.values()) == [400]
    del b
    assert not logging.live
    assert a.list() == c.list() == [0.0] * 100


def test_zeros_are_zeros_whatever_the_allocator_gives():
    raw = (ctypes.c_char * 64)(*([b"x"] * 64))

    class Fixed:
        def allocate(self, size_in_bytes):
            return ctypes.addressof(raw)

        def deallocate(self, ptr, size_in_bytes):
            pass

    with wp.ScopedAllocator("cpu", Fixed()):
        assert wp.zeros(16).list() == [0.0] * 16
        assert wp.array(np.full(16, 3.0, np.float32)).list() == [3.0] * 16


def test_nothing_needs_no_memory(logging):
    assert wp.zeros(0).list() == []
    assert not logging.log


def test_errors_of_an_allocator_are_errors_of_the_array(logging):
    class Failing:
        def allocate(self, size_in_bytes):
            raise MemoryError(f"no room for {size_in_bytes}")

        def deallocate(self, ptr, size_in_bytes):
            raise AssertionError

    class Wrong(Failing):
        def allocate(self, size_in_bytes):
            return "here"

    for make in (lambda: wp.zeros(5), lambda: wp.array(np.zeros(5, np.float32)), lambda: wp.array([0.0] * 5, float)):
        with wp.ScopedAllocator("cpu", Failing()), pytest.raises(MemoryError, match="no room for 20"):
            make()
        with wp.ScopedAllocator("cpu", Wrong()), pytest.raises(TypeError) as caught:
            make()
        assert str(caught.value) == "Wrong.allocate(20) has to return an address, got 'here'"
    with pytest.raises(TypeError, match=r"an allocator has the methods allocate\(size_in_bytes\) and deallocate"):
        wp.set_device_allocator("cpu", object())


def test_the_built_in_allocator_by_itself():
    builtin = wp.get_device("cpu").default_allocator
    assert isinstance(builtin, wp.Allocator)
    assert wp.get_device("cpu").get_allocator() is builtin
    assert wp.get_device("cpu").mempool_allocator is None
    ptr = builtin.allocate(100)
    assert ptr % 64 == 0
    wp.array(ptr=ptr, shape=25, dtype=float, device="cpu").fill_(1.0)
    builtin.deallocate(ptr, 100)
    with pytest.raises(ValueError, match="has given out no memory at address"):
        builtin.deallocate(ptr, 100)


def test_memory_is_tracked_once(logging):
    report = io.StringIO()
    with wp.ScopedMemoryTracker("arrays", print=False) as tracker:
        a = wp.zeros(1000)
        tracker.report(file=report)
    assert "  allocated: 3.91 KiB in 1\n" in report.getvalue()
    assert logging.log == [a.size * 4]
