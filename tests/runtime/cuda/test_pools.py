"""Memory pools, access between devices, allocators, and what processes share."""

import pytest

import warp_like as wp


class Counting:
    """An allocator of a user's."""

    def __init__(self, fake):
        self.fake, self.live = fake, {}

    def allocate(self, size_in_bytes):
        assert self.fake.contexts
        address = self.fake.mem_alloc(size_in_bytes)
        self.live[address] = size_in_bytes
        return address

    def deallocate(self, ptr, size_in_bytes):
        assert self.fake.contexts
        assert self.live.pop(ptr) == size_in_bytes
        self.fake.mem_free(ptr)


def test_with_and_without_the_pool(fake):
    assert wp.is_mempool_supported("cuda:0")
    assert wp.is_mempool_enabled("cuda:0")
    assert not wp.is_mempool_supported("cpu")
    assert not wp.is_mempool_enabled("cpu")
    a = wp.zeros(3, device="cuda:0")
    with wp.ScopedMempool("cuda:0", False):
        b = wp.zeros(3, device="cuda:0")
        assert not wp.get_device("cuda:0").is_mempool_enabled
    assert fake.names("cuMemAllocAsync", "cuMemAlloc") == ["cuMemAllocAsync", "cuMemAlloc"]
    assert (a.list(), b.list()) == ([0.0] * 3, [0.0] * 3)
    fake.forget()
    del a, b
    assert fake.names() == ["cuMemFreeAsync", "cuMemFree"]
    fake.devices[1].attributes["MEMORY_POOLS_SUPPORTED"] = 0
    with pytest.raises(RuntimeError, match="device 'cuda:1' has no memory pool: the device or its driver does not"):
        wp.set_mempool_enabled("cuda:1", True)
    wp.zeros(3, device="cuda:1")
    assert fake.names("cuMemAllocAsync", "cuMemAlloc") == ["cuMemAlloc"]
    with pytest.raises(ValueError, match="device 'cpu' has no memory pool"):
        wp.set_mempool_enabled("cpu", False)


def test_what_a_pool_keeps_and_holds(fake):
    wp.set_mempool_release_threshold("cuda:0", 1 << 30)
    assert wp.get_mempool_release_threshold("cuda:0") == 1 << 30
    wp.set_mempool_release_threshold("cuda:0", 0.5)
    assert wp.get_mempool_release_threshold("cuda:0") == (141 << 30) // 2
    with pytest.raises(ValueError, match="got -1"):
        wp.set_mempool_release_threshold("cuda:0", -1)
    a = wp.zeros(1000, device="cuda:0")
    assert wp.get_mempool_used_mem_current("cuda:0") == 4000
    del a
    with wp.ScopedDevice("cuda:0"):
        assert wp.get_mempool_used_mem_current() == 0
        assert wp.get_mempool_used_mem_high() == 4000


def test_access_to_another_device_s_pool(fake):
    assert wp.is_mempool_access_supported("cuda:0", "cuda:1")
    assert not wp.is_mempool_access_supported("cpu", "cuda:1")
    assert wp.is_mempool_access_enabled("cuda:0", "cuda:0")
    a = wp.zeros(3, device="cuda:0")
    assert not wp.can_access("cuda:1", a)
    with wp.ScopedMempoolAccess("cuda:0", "cuda:1", True):
        assert wp.is_mempool_access_enabled("cuda:0", "cuda:1")
        assert not wp.is_mempool_access_enabled("cuda:1", "cuda:0")
        assert wp.can_access("cuda:1", a)
    assert not wp.is_mempool_access_enabled("cuda:0", "cuda:1")
    assert wp.can_access("cuda:0", a)
    assert not wp.can_access("cpu", a)
    assert not wp.can_access("cuda:0", wp.zeros(3))
    assert wp.can_access("cuda:0", wp.zeros(3, pinned=True))
    with pytest.raises(TypeError, match="can_access"):
        wp.can_access("cuda:0", "cuda:1")


def test_access_to_another_device(fake, monkeypatch):
    assert wp.is_peer_access_supported("cuda:0", "cuda:1")
    assert not wp.is_peer_access_supported("cuda:0", "cpu")
    with wp.ScopedPeerAccess("cuda:0", "cuda:1", True):
        assert wp.is_peer_access_enabled("cuda:0", "cuda:1")
        assert not wp.is_peer_access_enabled("cuda:1", "cuda:0")
        assert fake.devices[1].peers == {fake.devices[0].context}
    assert fake.devices[1].peers == set()
    fake.devices[1].peers.add(fake.devices[0].context)  # by another library
    wp.set_peer_access_enabled("cuda:0", "cuda:1", True)
    assert wp.is_peer_access_enabled("cuda:0", "cuda:1")
    monkeypatch.setattr(fake, "can_access_peer", lambda device, peer: False)
    with pytest.raises(RuntimeError, match="device 'cuda:0' can't reach the memory of 'cuda:1'"):
        wp.set_peer_access_enabled("cuda:1", "cuda:0", True)


def test_allocators(fake):
    mine = Counting(fake)
    with wp.ScopedAllocator("cuda:0", mine) as allocator:
        assert allocator is mine is wp.get_device_allocator("cuda:0")
        a = wp.zeros(10, device="cuda:0")
        b = wp.zeros(10, device="cuda:1")
        view = a[2:]
    assert wp.get_device_allocator("cuda:0") is wp.get_device("cuda:0").mempool_allocator
    assert list(mine.live.values()) == [40]
    del a
    assert mine.live
    del view, b
    assert not mine.live
    wp.set_cuda_allocator(mine)
    c = wp.zeros(10, device="cuda:1")
    assert mine.live
    wp.set_cuda_allocator(None)
    del c
    assert not mine.live
    with pytest.raises(TypeError, match="an allocator has the methods allocate"):
        wp.set_device_allocator("cuda:0", 3)


@pytest.mark.parametrize("name", ["default_allocator", "mempool_allocator"])
def test_allocators_that_build_on_ours(fake, name):
    inner = getattr(wp.get_device("cuda:0"), name)
    ours = {
        "default_allocator": ("cuMemAlloc", "cuMemFree"),
        "mempool_allocator": ("cuMemAllocAsync", "cuMemFreeAsync"),
    }

    class Handing:
        def allocate(self, size_in_bytes):
            return inner.allocate(size_in_bytes)

        def deallocate(self, ptr, size_in_bytes):
            inner.deallocate(ptr, size_in_bytes)

    with wp.ScopedAllocator("cuda:0", Handing()):
        a = wp.full(3, 2.0, device="cuda:0")
    assert a.list() == [2.0] * 3
    del a
    assert fake.names(*ours[name]) == list(ours[name])


def test_managed_memory(fake):
    with wp.ScopedAllocator("cuda:0", wp.CudaManagedAllocator()):
        a = wp.full(10, 2.0, device="cuda:0")
    assert a.list() == [2.0] * 10
    fake.forget()
    del a
    assert fake.names() == ["cuMemFree"]


def test_memory_of_other_processes(fake):
    with wp.ScopedMempool("cuda:0", False):
        a = wp.array([1.0, 2.0, 3.0, 4.0], dtype=wp.float32, device="cuda:0")
    handle = a.ipc_handle()
    assert len(handle) == 64
    b = wp.from_ipc_handle(handle, dtype=wp.float32, shape=(2, 2), device="cuda:0")
    assert b.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    del b
    assert "cuIpcCloseMemHandle" in fake.names()
    with pytest.raises(RuntimeError, match="it begins 4 bytes into its memory"):
        a[1:].ipc_handle()
    fake.fail("cuIpcGetMemHandle", 1)
    with pytest.raises(RuntimeError, match=r"allocate it inside of wp.ScopedMempool\('cuda:0', False\)"):
        a.ipc_handle()
    with pytest.raises(RuntimeError, match="device 'cpu' shares nothing by handles"):
        wp.from_ipc_handle(handle, dtype=wp.float32, shape=4)


def test_allocations_are_tracked(fake):
    reports = []
    with wp.ScopedMemoryTracker("step", print=False, report_func=reports.append):
        kept = wp.zeros(1000, device="cuda:0")
        wp.zeros(500, device="cuda:1")
    assert "  allocated: 5.86 KiB in 2\n" in reports[0]
    del kept


def test_events_of_other_processes(fake):
    event = wp.Event("cuda:0", interprocess=True)
    wp.get_stream("cuda:0").record_event(event)
    opened = wp.event_from_ipc_handle(event.ipc_handle(), device="cuda:0")
    wp.get_stream("cuda:0").wait_event(opened)
    handle = opened.cuda_event
    del opened
    assert ("cuEventDestroy", (handle,)) in fake.calls
    with pytest.raises(ValueError, match="tells no time"):
        wp.Event("cuda:0", interprocess=True, enable_timing=True)


def test_the_cpu_has_no_part_in_access(fake):
    for enable in (wp.set_peer_access_enabled, wp.set_mempool_access_enabled):
        for pair in (("cpu", "cuda:0"), ("cuda:0", "cpu")):
            with pytest.raises(ValueError, match="device 'cpu' has no"):
                enable(*pair, True)
            enable(*pair, False)  # it is not
    cpu, cuda = wp.get_device("cpu"), wp.get_device("cuda:0")
    assert (cpu.is_mempool_supported, cpu.is_mempool_enabled, cpu.is_uva, cpu.arch, cpu.uuid) == (False,) * 3 + (
        0,
        None,
    )
    assert cuda.is_concurrent_managed_access_supported
    assert not cuda.is_cpu_gpu_atomic_supported
