"""Streams and events: what the driver is asked, in which order."""

import gc

import pytest

import warp_like as wp


def test_making_and_giving_back(fake):
    wp.get_stream("cuda:0")
    fake.forget()
    stream = wp.Stream("cuda:0", priority=-1)
    handle = stream.cuda_stream
    assert fake.calls == [("cuStreamCreateWithPriority", (0, -1))]
    assert stream.priority == -1
    assert stream.is_blocking
    assert stream.is_complete
    assert stream.device is wp.get_device("cuda:0")
    assert repr(stream) == f"<warp_like stream {handle:#x} of cuda:0>"
    assert stream == wp.Stream("cuda:0", cuda_stream=handle)
    assert stream != wp.Stream("cuda:1", cuda_stream=handle)
    del stream
    gc.collect()
    assert fake.names("cuStreamDestroy") == ["cuStreamDestroy"]


def test_streams_of_others_are_not_destroyed(fake):
    theirs = wp.Stream("cuda:0", cuda_stream=0x7777)
    assert not theirs.is_blocking
    del theirs
    gc.collect()
    assert fake.names("cuStreamDestroy") == []


def test_the_current_stream(fake):
    device = wp.get_device("cuda:0")
    first = wp.get_stream(device)
    assert first is device.stream is wp.get_stream("cuda:0")
    second = wp.Stream(device)
    fake.forget()
    with wp.ScopedStream(second) as current:
        assert current is second is device.stream
    assert fake.names() == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"]
    assert device.stream is first
    fake.forget()
    with wp.ScopedStream(second, sync_enter=False, sync_exit=True):
        pass
    assert [c.args[-1] for c in fake.calls if c.name == "cuEventRecord"] == [second.cuda_stream]
    assert [c.args[0] for c in fake.calls if c.name == "cuStreamWaitEvent"] == [first.cuda_stream]
    wp.set_stream(second)
    assert wp.get_stream("cuda:0") is second
    wp.set_stream(first, "cuda:0", sync=True)
    with pytest.raises(ValueError, match="is one of cuda:0, not of cuda:1"):
        wp.set_stream(first, "cuda:1")
    with wp.ScopedStream(None):
        assert wp.get_stream("cuda:0") is first


def test_waiting(fake):
    a, b = wp.Stream("cuda:0"), wp.Stream("cuda:1")
    fake.forget()
    b.wait_stream(a)
    event = a.cached_event.cuda_event
    assert fake.calls == [
        ("cuEventCreate", (2,)),
        ("cuEventRecord", (event, a.cuda_stream)),
        ("cuStreamWaitEvent", (b.cuda_stream, event)),
    ]
    fake.forget()
    b.wait_stream(a)
    assert fake.names() == ["cuEventRecord", "cuStreamWaitEvent"]
    with wp.ScopedDevice("cuda:1"):
        fake.forget()
        mark = wp.record_event()
        wp.wait_event(mark)
        wp.wait_stream(a)
        wp.synchronize_stream()
        wp.synchronize_event(mark)
    assert fake.names() == [
        *("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventRecord", "cuStreamWaitEvent"),
        *("cuStreamSynchronize", "cuEventSynchronize"),
    ]
    with pytest.raises(TypeError, match="a stream waits for a wp.Stream, got int"):
        a.wait_stream(3)
    with pytest.raises(TypeError, match="expected a wp.Event, got int"):
        a.wait_event(3)
    with pytest.raises(ValueError, match="the event is one of cuda:1, the stream one of cuda:0"):
        a.record_event(mark)


def test_memory_goes_back_when_all_streams_that_used_it_are_done(fake):
    own = wp.get_stream("cuda:0").cuda_stream
    first, second = wp.Stream("cuda:0"), wp.Stream("cuda:0")
    a, out = wp.empty(10, device="cuda:0"), wp.empty(10, device="cuda:0")
    for stream in (first, second, first, second):
        wp.copy(out, a, stream=stream)
    ptr = a.ptr
    fake.forget()
    del a
    *waits, free = fake.calls
    assert [c.name for c in waits if c.name != "cuEventCreate"] == ["cuEventRecord", "cuStreamWaitEvent"] * 2
    assert {c.args[1] for c in waits if c.name == "cuEventRecord"} == {own, first.cuda_stream}
    assert {c.args[0] for c in waits if c.name == "cuStreamWaitEvent"} == {second.cuda_stream}
    assert free == ("cuMemFreeAsync", (ptr, second.cuda_stream))
    theirs = wp.Stream("cuda:0", cuda_stream=0x7777)
    fake.forget()
    wp.copy(out, wp.zeros(10, device="cuda:0"), stream=theirs)
    waited = {c.args[1] for c in fake.calls if c.name == "cuEventRecord"}
    assert waited == {own, first.cuda_stream, second.cuda_stream}


def test_time(fake):
    start, end = (wp.Event("cuda:0", enable_timing=True) for _ in range(2))
    stream = wp.get_stream("cuda:0")
    stream.record_event(start)
    stream.record_event(end)
    fake.forget()
    assert wp.get_event_elapsed_time(start, end) == 1.5
    assert fake.names() == ["cuEventSynchronize", "cuEventElapsedTime"]
    fake.forget()
    assert wp.get_event_elapsed_time(start, end, synchronize=False) == 1.5
    assert fake.names() == ["cuEventElapsedTime"]
    with pytest.raises(ValueError, match="if it was made with enable_timing=True"):
        wp.get_event_elapsed_time(start, wp.Event("cuda:0"))
