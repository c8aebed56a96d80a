"""Launches that use other devices' memory, and memory of the host: what is taken, in which order, against the fake."""

import gc

import numpy as np
import pytest

import warp_like as wp
from warp_like import _native


@wp.kernel
def add(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] + x[i]


@pytest.fixture(autouse=True)
def kernels_are_compiled_anew(fake):
    yield
    for kernel in wp.get_module(__name__).kernels.values():
        kernel.forget_programs()


@pytest.fixture
def x():
    held = [wp.zeros(8, device="cuda:1")]
    yield held
    held.clear()


@pytest.fixture
def y():
    held = [wp.zeros(8, device="cuda:0")]
    yield held
    held.clear()


def addresses(launch):
    return [int.from_bytes(launch.args[at : at + 8], "little") for at in (0, 24)]


def test_memory_that_can_not_be_reached_is_refused(fake, x, y):
    message = r"argument 1 `x`.*: the launch is on cuda:0, the array on cuda:1; launch with device='cuda:1', or pass"
    with pytest.raises(TypeError, match=message):
        wp.launch(add, dim=8, inputs=[x[0], y[0]], device="cuda:0")
    with pytest.raises(TypeError, match="the launch is on cuda:0, the array on cpu"):
        wp.launch(add, dim=8, inputs=[wp.zeros(8, device="cpu"), y[0]], device="cuda:0")
    wp.set_peer_access_enabled("cuda:1", "cuda:0", True)  # which opens memory that is not of the pool
    with pytest.raises(TypeError, match="the array on cuda:1"):
        wp.launch(add, dim=8, inputs=[x[0], y[0]], device="cuda:0")
    wp.set_peer_access_enabled("cuda:1", "cuda:0", False)


def test_a_pool_that_was_opened(fake, x, y):
    fake.args_size = 32
    other, here = (wp.get_stream(d).cuda_stream for d in ("cuda:1", "cuda:0"))
    with wp.ScopedMempoolAccess("cuda:1", "cuda:0", True):
        for _ in range(2):
            fake.forget()
            wp.launch(add, dim=8, inputs=[x[0], y[0]], device="cuda:0")
            (launch,) = fake.launches
            assert addresses(launch) == [x[0].ptr, y[0].ptr]
            order = [c for c in fake.calls if c.name in ("cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel")]
            assert [(c.name, c.args[1] if c.name == "cuEventRecord" else c.args[0]) for c in order] == [
                *(("cuEventRecord", other), ("cuStreamWaitEvent", here)),
                ("cuLaunchKernel", "wl_add"),
                *(("cuEventRecord", here), ("cuStreamWaitEvent", other)),
            ]


def test_it_goes_back_on_its_own_device(fake, x, y):
    other = wp.get_stream("cuda:1").cuda_stream
    with wp.ScopedMempoolAccess("cuda:1", "cuda:0", True):
        wp.launch(add, dim=8, inputs=[x[0], y[0]], device="cuda:0")
    address = x[0].ptr
    fake.forget()
    x.clear()
    gc.collect()
    assert [c.args for c in fake.calls if c.name == "cuMemFreeAsync"] == [(address, other)]


def test_memory_of_the_driver_that_was_opened(fake, y):
    with wp.ScopedMempool("cuda:1", False):
        x = wp.zeros(8, device="cuda:1")
    assert x.memory_kind is wp.MemoryKind.CUDA_DEVICE
    with wp.ScopedPeerAccess("cuda:1", "cuda:0", True):
        wp.launch(add, dim=8, inputs=[x, y[0]], device="cuda:0")
    assert len(fake.launches) == 1


def test_page_locked_and_managed_memory(fake, y):
    pinned = wp.zeros(8, device="cpu", pinned=True)
    wp.launch(add, dim=8, inputs=[pinned, y[0]], device="cuda:0")
    with wp.ScopedAllocator("cuda:1", wp.CudaManagedAllocator()):
        managed = wp.zeros(8, device="cuda:1")
    wp.launch(add, dim=8, inputs=[managed, y[0]], device="cuda:0")
    assert len(fake.launches) == 2
    kinds = [a.memory_kind for a in (pinned, managed, y[0], wp.zeros(3, device="cpu"), wp.zeros(0, device="cuda:0"))]
    assert kinds == [
        *(wp.MemoryKind.PINNED, wp.MemoryKind.CUDA_MANAGED, wp.MemoryKind.CUDA_MEMPOOL, wp.MemoryKind.HOST),
        wp.MemoryKind.UNKNOWN,
    ]


def test_the_cpu_uses_managed_memory(fake, y):
    with wp.ScopedAllocator("cuda:1", wp.CudaManagedAllocator()):
        managed = wp.array(np.arange(8), dtype=float, device="cuda:1")
        more = wp.ones(8, device="cuda:1")
    there, plain = np.ones(8, np.float32), wp.zeros(8, device="cuda:1")
    for _ in range(2):
        fake.forget()
        wp.launch(add, dim=8, inputs=[managed, there])
        assert fake.names("cuCtxSynchronize", "cuLaunchKernel") == ["cuCtxSynchronize"]
    wp.launch(add, dim=8, inputs=[there, more])
    np.testing.assert_array_equal(there, 1 + 2 * np.arange(8))
    assert more.list() == (2 + 2 * np.arange(8)).tolist()
    assert wp.can_access("cpu", managed)
    assert not wp.can_access("cpu", plain)
    with pytest.raises(TypeError, match="the launch is on cpu, the array on cuda:1"):
        wp.launch(add, dim=8, inputs=[plain, there], device="cpu")
    with wp.ScopedCapture("cuda:1"), pytest.raises(RuntimeError, match="a capture is running on cuda:1"):
        wp.launch(add, dim=8, inputs=[managed, there], device="cpu")


def test_indexed_arrays_are_used_where_all_of_them_is(fake, y):
    indices = wp.array([1, 0], dtype=int, device="cuda:0")
    with wp.ScopedAllocator("cuda:1", wp.CudaManagedAllocator()):
        managed = wp.zeros((8, 2), device="cuda:1")
        its_indices = wp.array([1, 0], dtype=int, device="cuda:1")
    for data, by, places in (
        (y[0], indices, {"cuda:0"}),
        (wp.zeros(8, pinned=True), wp.array([1, 0], dtype=int, pinned=True), {"cpu", "cuda:0", "cuda:1"}),
        (wp.zeros(8, pinned=True), wp.array([1, 0], dtype=int), {"cpu"}),
        (managed, [its_indices, its_indices], {"cpu", "cuda:0", "cuda:1"}),
        (managed, [its_indices, None], {"cuda:1"}),  # a kernel gets indices for all of a dimension as well
    ):
        some = wp.indexedarray(data, by)
        assert {d for d in ("cpu", "cuda:0", "cuda:1") if wp.can_access(d, some)} == places


@wp.kernel
def double_rows(rows: wp.indexedarray2d(dtype=float)):
    i, j = wp.tid()
    rows[i, j] = 2.0 * rows[i, j]


def test_a_dimension_that_is_taken_whole_lies_with_the_data(fake):
    data = wp.ones((3, 2), device="cuda:0")
    rows = wp.indexedarray(data, [wp.array([2], dtype=int, device="cuda:0"), None])
    wp.launch(double_rows, dim=(1, 2), inputs=[rows], device="cuda:0")
    assert [launch.function for launch in fake.launches] == ["wl_double_rows"]


def test_a_capture_keeps_it(fake, x, y):
    with wp.ScopedMempoolAccess("cuda:1", "cuda:0", True):
        wp.launch(add, dim=8, inputs=[x[0], y[0]], device="cuda:0")
        with wp.ScopedCapture("cuda:0") as capture:
            wp.launch(add, dim=8, inputs=[x[0], y[0]], device="cuda:0")
        address = x[0].ptr
        x.clear()
        gc.collect()
        assert address in fake.live
    assert len(capture.graph) == 1


def test_a_tape_takes_no_gradient_from_elsewhere(fake, y):
    x = wp.zeros(8, device="cuda:1", requires_grad=True)
    with (
        wp.ScopedMempoolAccess("cuda:1", "cuda:0", True),
        wp.Tape(),
        pytest.raises(TypeError, match="the launch is on cuda:0, the array on cuda:1"),
    ):
        wp.launch(add, dim=8, inputs=[x, y[0]], device="cuda:0")


def test_numpy_has_no_part_in_it(fake, y):
    with pytest.raises(TypeError, match="the launch is on cuda:0, the array on cpu"):
        wp.launch(add, dim=8, inputs=[np.zeros(8, np.float32), y[0]], device="cuda:0")


def test_launches_that_go_from_device_to_device(fake, x, y, monkeypatch):
    """Each device has its prepared program: from the second round on, none takes the checked path."""
    arrays = {"cuda:0": y[0], "cuda:1": x[0], "cpu": wp.zeros(8, device="cpu")}
    for device, a in arrays.items():
        wp.launch(add, dim=8, inputs=[a, a], device=device)
    monkeypatch.setattr("warp_like.runtime.launching.launch.bind_arguments", None)
    fake.forget()
    for _ in range(3):
        for device, a in arrays.items():
            wp.launch(add, dim=8, inputs=[a, a], device=device)
    assert [launch.stream for launch in fake.launches] == 3 * [
        wp.get_stream(d).cuda_stream for d in ("cuda:0", "cuda:1")
    ]
    monkeypatch.undo()
    add.forget_programs()
    for device, a in arrays.items():
        wp.launch(add, dim=8, inputs=[a, a], device=device)
    assert len(fake.launches) == 8
    arrays.clear()
    del a


def test_memory_that_another_devices_stream_used_last(fake, x):
    """It goes back on a stream of its own device, which waits for the other one."""
    away, home = wp.get_stream("cuda:0"), wp.get_stream("cuda:1")
    with wp.get_device("cuda:0").guard:
        _native.use_memory(wp.get_device("cuda:0").native, x[0].owner, away)
    address = x[0].ptr
    fake.forget()
    x.clear()
    gc.collect()
    done = [c for c in fake.calls if c.name in ("cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync")]
    assert [(c.name, c.args[1] if c.name == "cuEventRecord" else c.args[0]) for c in done[-3:-1]] == [
        ("cuEventRecord", away.cuda_stream),
        ("cuStreamWaitEvent", home.cuda_stream),
    ]
    assert done[-1].args == (address, home.cuda_stream)
