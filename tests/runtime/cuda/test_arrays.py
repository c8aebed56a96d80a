"""Arrays on CUDA devices, against the fake: what their bytes are, and which calls made them so."""

import sys

import numpy as np
import pytest

import warp_like as wp

DTYPES = [wp.bool, wp.int8, wp.uint16, wp.int32, wp.uint64, wp.float16, wp.bfloat16, wp.float32, wp.float64]


@wp.struct
class Particle:
    position: wp.vec3
    mass: wp.float64


@pytest.mark.parametrize("shape", [0, 1, 7, (3, 5), (2, 0, 3), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [wp.float32, wp.vec3, wp.mat22d, wp.uint8])
def test_zeros(fake, shape, dtype):
    a = wp.zeros(shape, dtype=dtype, device="cuda:0")
    assert a.device is wp.get_device("cuda:0")
    assert (a.device_type, a.device_id) == (2, 0)
    assert a.shape == (shape if isinstance(shape, tuple) else (shape,))
    host = a.numpy()
    assert not host.any()
    assert host.shape[: a.ndim] == a.shape
    if a.size:
        assert fake.names()[-4:] == ["cuMemAllocAsync", "cuMemsetD8Async", "cuMemcpyDtoHAsync", "cuStreamSynchronize"]


def test_memory_goes_back_on_the_stream_that_used_it_last(fake):
    stream = wp.get_stream("cuda:0").cuda_stream
    a = wp.empty(10, device="cuda:0")
    ptr = a.ptr
    other = wp.Stream("cuda:0")
    wp.copy(a, wp.zeros(10, device="cuda:0"), stream=other)
    del a
    assert ("cuMemFreeAsync", (ptr, other.cuda_stream)) in fake.calls
    b = wp.empty(10, device="cuda:0")
    ptr = b.ptr
    del b
    assert ("cuMemFreeAsync", (ptr, stream)) in fake.calls


def test_empty_and_clone_are_not_zeroed(fake):
    a = wp.array([1.0, 2.0], device="cuda:0")
    fake.forget()
    wp.empty(5, device="cuda:0")
    b = wp.clone(a)
    assert fake.names("cuMemsetD8Async", "cuMemsetD32Async") == []
    assert b.list() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_data_there_and_back(fake, dtype):
    data = [0, 1, 1, 0, 1]
    a = wp.array(data, dtype=dtype, device="cuda:1")
    assert a.list() == data
    assert a.numpy().tolist() == wp.array(data, dtype=dtype).numpy().tolist()
    assert wp.clone(a, device="cpu").list() == data
    assert a.to("cuda:1") is a
    back = a.to("cpu")
    assert back.device.is_cpu
    assert back.list() == data


def test_host_copies_wait_unless_the_memory_is_page_locked(fake):
    a = wp.zeros(100, device="cuda:0")
    host, pinned = wp.zeros(100), wp.zeros(100, pinned=True)
    assert pinned.pinned
    assert not host.pinned
    for to, source, waits in ((a, host, True), (host, a, True), (a, pinned, False), (pinned, a, False)):
        fake.forget()
        wp.copy(to, source)
        assert fake.names("cuStreamSynchronize") == (["cuStreamSynchronize"] if waits else [])


def test_page_locked_memory_is_given_back_when_copies_are_done(fake):
    pinned = wp.full(100, 3.0, pinned=True)
    a = wp.clone(pinned, device="cuda:0")
    fake.forget()
    del pinned
    assert fake.names() == ["cuStreamSynchronize", "cuMemFreeHost"]
    assert a.list() == [3.0] * 100


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[1:3],
        lambda x: x[::2],
        lambda x: x[:, 1:3],
        lambda x: x[:, ::2, 1],
        lambda x: x[::-1],
        lambda x: x.transpose(),
        lambda x: x.transpose((1, 0, 2)),
        lambda x: x[2],
        lambda x: x[1:4, 2:5, 1:3],
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_strided_copies(fake, make, dtype):
    data = np.arange(5 * 6 * 4).reshape(5, 6, 4).astype(dtype)
    a = wp.array(data, device="cuda:0")
    part = make(a)
    expected = make(data)
    assert np.array_equal(part.numpy(), expected)
    assert np.array_equal(part.contiguous().numpy(), expected)
    new = np.arange(expected.size).reshape(expected.shape).astype(dtype) + 100
    for source in (new, wp.array(new), wp.array(new, device="cuda:0"), wp.array(new, device="cuda:1")):
        a.assign(data)
        part.assign(source)
        wanted = data.copy()
        make(wanted)[...] = new
        assert np.array_equal(a.numpy(), wanted)
    host = wp.array(data)
    make(host).assign(part)
    assert np.array_equal(host.numpy(), wanted)


def test_regular_strides_are_one_call(fake):
    a = wp.array(np.zeros((6, 8, 10), np.float32), device="cuda:0")
    for part, calls in ((a[1:3], 1), (a[:, 2:5], 1), (a[:, :, 3:7], 1), (a[1:5, 2:5, 3:7], 1), (a[:, ::2, 3:7], 1)):
        fake.forget()
        wp.clone(part)
        assert len(fake.names("cuMemcpyDtoDAsync", "cuMemcpy3DAsync")) == calls


def test_a_copy_onto_itself_reads_before_it_writes(fake):
    a = wp.array(np.arange(10, dtype=np.float32), device="cuda:0")
    wp.copy(a[1:], a[:-1])
    assert a.list() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "dtype, value, call",
    [
        (wp.float32, 1.5, "cuMemsetD32Async"),
        (wp.float32, 0.0, "cuMemsetD8Async"),
        (wp.int16, 1000, "cuMemsetD16Async"),
        (wp.uint8, 7, "cuMemsetD8Async"),
        (wp.bfloat16, 2.0, "cuMemsetD16Async"),
        (wp.vec3, 2.0, "cuMemsetD32Async"),
        (wp.float64, 1.25, "cuMemcpyDtoDAsync"),
        (wp.vec3, wp.vec3(1.0, 2.0, 3.0), "cuMemcpyDtoDAsync"),
        (wp.vec3h, wp.vec3h(1.0, 2.0, 3.0), "cuMemcpyDtoDAsync"),
        (wp.types.vector(3, wp.uint8), [1, 2, 3], "cuMemcpyDtoDAsync"),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 37])
def test_fill(fake, dtype, value, call, n):
    value = dtype(*value) if isinstance(value, list) else value
    a = wp.empty(n, dtype=dtype, device="cuda:0")
    fake.forget()
    a.fill_(value)
    assert fake.names("cuStreamSynchronize", "cuMemcpyHtoDAsync") == []
    if n > 1:
        assert call in fake.names()
    expected = wp.empty(n, dtype=dtype)
    expected.fill_(value)
    assert np.array_equal(a.numpy(), expected.numpy())
    strided = wp.zeros(2 * n, dtype=dtype, device="cuda:0")
    strided[::2].fill_(value)
    assert np.array_equal(strided.numpy()[::2], expected.numpy())
    assert not strided.numpy()[1::2].any()


def test_elements_slices_and_printing(fake):
    a = wp.array([[1.0, 2.0], [3.0, 4.0]], device="cuda:0")
    assert len(a) == 2
    assert a[1, 0] == 3.0
    assert a[1].list() == [3.0, 4.0]
    assert str(a) == "[[1. 2.]\n [3. 4.]]"
    a[0] = 7.0
    a[1, 1] = 9.0
    assert a.list() == [7.0, 7.0, 3.0, 9.0]
    a[:, 0] = wp.array([5.0, 6.0])
    assert a.list() == [5.0, 7.0, 6.0, 9.0]
    assert [row.list() for row in a] == [[5.0, 7.0], [6.0, 9.0]]


def test_gradients_lie_beside_their_arrays(fake):
    a = wp.zeros(4, device="cuda:1", requires_grad=True)
    assert a.grad.device is a.device
    assert a[1:].grad.ptr == a.grad.ptr + 4
    with pytest.raises(ValueError, match="the gradient lies on cpu, the array on cuda:1"):
        a.grad = wp.zeros(4)
    assert a.to("cpu").grad.device.is_cpu


def test_structs(fake):
    one = Particle()
    one.position = wp.vec3(1.0, 2.0, 3.0)
    one.mass = 4.0
    a = wp.array([one, one], dtype=Particle, device="cuda:0")
    assert a[1].mass == 4.0
    assert a.numpy()["position"].tolist() == [[1.0, 2.0, 3.0]] * 2
    a.zero_()
    assert a[0].mass == 0.0


def test_between_devices(fake):
    a = wp.array(np.arange(6.0), device="cuda:0")
    here, there = wp.get_stream("cuda:0").cuda_stream, wp.get_stream("cuda:1").cuda_stream
    b = wp.zeros(6, dtype=wp.float64, device="cuda:1")
    fake.forget()
    wp.copy(b, a)
    called = [c for c in fake.calls if c.name in ("cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync")]
    assert [(c.name, c.args[-1] if c.name != "cuStreamWaitEvent" else c.args[0]) for c in called] == [
        ("cuEventRecord", here),
        ("cuStreamWaitEvent", there),
        ("cuMemcpyPeerAsync", there),
        ("cuEventRecord", there),
        ("cuStreamWaitEvent", here),
    ]
    assert b.list() == list(range(6))


def test_data_of_a_device_stays_there(fake):
    a = wp.array([1.0, 2.0], device="cuda:1")
    assert wp.array(a).device is a.device
    assert wp.array(a, device="cpu").device.is_cpu
    assert wp.array(a, copy=False).ptr == a.ptr
    with pytest.raises(ValueError, match=r"wp.array\(copy=False\): the data lies on cuda:1, .* on cpu"):
        wp.array(a, copy=False, device="cpu")
    assert wp.zeros_like(a).device is a.device
    assert wp.zeros_like(a, device="cpu").device.is_cpu


def test_memory_at_an_address(fake):
    a = wp.array([1.0, 2.0, 3.0], dtype=wp.float32, device="cuda:0")
    b = wp.array(ptr=a.ptr + 4, shape=2, dtype=wp.float32, device="cuda:0")
    assert b.list() == [2.0, 3.0]
    c = wp.from_ptr(a.ptr, 2, dtype=wp.float32, device="cuda:0")
    assert c.list() == [1.0, 2.0]


def test_out_of_memory_says_how_much_there_is(fake):
    wp.zeros(1, device="cuda:0")
    fake.devices[0].limit = 100 << 20
    with pytest.raises(MemoryError) as e:
        wp.zeros(60 << 20, dtype=wp.float32, device="cuda:0")
    assert isinstance(e.value, RuntimeError)
    assert str(e.value) == (
        "cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY: cuda:0 has no room for 240.00 MiB; 100.00 MiB of 141.00 GiB are "
        "free; drop arrays that are not needed, or make the work smaller; memory that PyTorch or JAX keep for "
        "themselves counts as used"
    )
    assert fake.names("cuMemAllocAsync", "cuMemPoolTrimTo")[-3:] == [
        "cuMemAllocAsync",
        "cuMemPoolTrimTo",
        "cuMemAllocAsync",
    ]


def test_an_allocation_that_fails_once_is_tried_again(fake):
    fake.fail("cuMemAllocAsync", 2)
    assert wp.zeros(3, device="cuda:0").list() == [0.0] * 3


def test_numpy_does_not_look_at_device_memory(fake):
    a = wp.zeros(3, device="cuda:0")
    with pytest.raises(BufferError, match="the array's memory is not the host's"):
        memoryview(a)
    assert not hasattr(a, "__array_interface__")


def test_pickling(fake):
    import pickle

    a = wp.array([1.0, 2.0], device="cuda:1", requires_grad=True)
    b = pickle.loads(pickle.dumps(a))
    assert b.device is a.device
    assert b.list() == [1.0, 2.0]
    assert b.grad.list() == [0.0, 0.0]


@pytest.mark.parametrize(("code", "told"), [(700, 0), (719, 0), (4, 0), (1, 1)])
def test_memory_of_a_device_that_has_failed_goes_without_a_word(fake, monkeypatch, code, told):
    a = wp.zeros(4, device="cuda:0")
    address = a.ptr
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    fake.fail("cuMemFreeAsync", code)
    del a
    assert [type(e.exc_value).__name__ for e in said] == ["CudaError"] * told
    said.clear()
    fake.live.pop(address)
