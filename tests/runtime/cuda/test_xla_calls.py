"""Kernels that XLA calls on CUDA, against the fake: what the driver is asked for a call, on XLA's stream."""

import ctypes
import itertools
import struct

import numpy as np
import pytest

import warp_like as wp
from tests.runtime.cuda.xla_frames import XlaCall
from warp_like.base.contract import CUDA_CONTEXT
from warp_like.ir.types import Array, float32
from warp_like.runtime.cuda.driver import connect

pytest.importorskip("jax")

import jax

from warp_like.interop.jaxffi import jax_kernel
from warp_like.interop.jaxffi.call import Call, View
from warp_like.interop.jaxffi.target import compiled

_numbers = itertools.count()


def saxpy():
    """A kernel that XLA has not called yet: what it has loaded stays loaded, and each test has its own driver."""
    number = float(next(_numbers))

    @wp.kernel
    def saxpy(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = a * x[i] + y[i] + wp.static(number)

    return saxpy


@wp.kernel
def looping(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    k = 0
    while k < n[i]:
        v = wp.sin(v) * v
        k += 1
    y[i] = v


@pytest.fixture
def stream(fake):
    """A stream of XLA on the second device, and native code that knows the fake's functions."""
    wp.get_device("cuda:1").native  # its context is there, as XLA would have made it
    connect()
    fake.streams[0xABC0] = (1, 0)
    fake.args_size = 2 * 24 + 8
    yield 0xABC0
    fake.streams.pop(0xABC0)


def traced(n, a, start=False, sums=False):
    """The call of ``saxpy`` that a program with arrays of ``n`` elements makes."""
    kernel = saxpy()
    code = compiled(kernel, tuple(t for _, t in kernel.parameters), sums=sums)
    call = Call(code, [n], "broadcast_all", False)
    like = wp.zeros(n).numpy()
    call.views[0] = View(call.operand(like, float32), (n,))
    if isinstance(a, bytes):
        call.value(1, a)
    else:
        call.value(1, np.zeros((), np.float32))
    result = call.result((n,), float32, like if start else None)
    call.views[2] = View(result, (n,))
    return call


def device_array(*shape):
    return wp.array(np.ones(shape, np.float32), device="cuda:1")


def test_a_call(fake, stream):
    x, y = device_array(1000), device_array(1000)
    site = XlaCall(traced(1000, struct.pack("<f", 2.5)), [x], [y])
    fake.forget()
    assert site.run(stream) is None
    (launch,) = fake.launches
    assert (launch.function, launch.grid, launch.block) == ("wl_saxpy", (4, 1, 1), (256, 1, 1))
    assert (launch.stream, launch.dims, launch.count) == (stream, (1000, 1, 1, 1, 1, 1, 1, 1), 1000)
    assert struct.unpack("<3qf4x3q", launch.args) == (x.ptr, 1000, 4, 2.5, y.ptr, 1000, 4)
    assert not y.numpy().any()  # results start as zeros
    fills = [c.args for c in fake.calls if c.name == "cuMemsetD8Async"]
    assert fills[0][:2] == (y.ptr, 0)
    fake.forget()
    assert site.run(stream) is None  # now nothing is compiled or loaded
    assert [n for n in fake.names() if not n.startswith("cuCtx")] == [
        *("cuStreamGetCtx", "cuMemsetD8Async", "cuLaunchKernel")
    ]


def test_calls_whose_arrays_are_apart_run_the_shorter_code(fake, stream):
    """There a thread takes four places; arrays that overlap, or lie between vectors, are for the general code."""
    a = struct.pack("<f", 2.5)
    call, both = traced(1000, a, sums=True), device_array(2000)
    x, y = device_array(1000), device_array(1000)
    odd = wp.array(ptr=both.ptr + 4, shape=1000, dtype=float, device="cuda:1")
    behind = wp.array(ptr=both.ptr + 4000, shape=1000, dtype=float, device="cuda:1")
    before = wp.array(ptr=both.ptr, shape=1000, dtype=float, device="cuda:1")
    within = wp.array(ptr=both.ptr + 2000, shape=1000, dtype=float, device="cuda:1")
    for operand, result, blocks in (
        (x, y, 1),
        (before, behind, 1),
        (y, y, 4),
        (before, within, 4),
        (odd, y, 4),
        (x, odd, 4),
        (x, y, 1),
    ):
        fake.forget()
        assert XlaCall(call, [operand], [result]).run(stream) is None
        (launch,) = fake.launches
        assert (launch.grid, launch.block, launch.count) == ((blocks, 1, 1), (256, 1, 1), 1000)
    for n, blocks in ((1000, 1), (1001, 4)):  # the second element of the batch is not aligned where rows are odd
        fake.forget()
        site = XlaCall(traced(n, a, sums=True), [device_array(3, n)], [device_array(3, n)])
        assert site.run(stream) is None
        assert [launch.grid for launch in fake.launches] == [(blocks, 1, 1)] * 3
    fake.forget()
    assert XlaCall(traced(1000, a), [x], [y]).run(stream) is None  # what was not found to be apart when traced
    assert fake.launches[0].grid == (4, 1, 1)


def test_sums_of_all_threads_are_launched_as_often_as_the_device_runs_them(fake, stream):
    number = float(next(_numbers))

    @wp.kernel
    def total(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.atomic_add(y, 0, x[wp.tid()] * wp.static(number + 1.0))

    n = 1 << 22
    code = compiled(total, tuple(t for _, t in total.parameters), sums=True)
    call = Call(code, [n], "broadcast_all", False)
    call.views[0] = View(call.operand(np.zeros(n, np.float32), float32), (n,))
    call.views[1] = View(call.result((1,), float32, None), (1,))
    fake.args_size = 2 * 24
    assert XlaCall(call, [device_array(n)], [device_array(1)]).run(stream) is None
    (launch,) = fake.launches
    device = wp.get_device("cuda:1")
    assert 0 < launch.grid[0] * launch.block[0] <= device.sm_count * device.max_threads_per_multiprocessor < n


def test_the_usual_block_is_an_option(fake, stream, monkeypatch):
    monkeypatch.setattr(wp.config, "block_dim", 128)
    x, y = device_array(1000), device_array(1000)
    assert XlaCall(traced(1000, struct.pack("<f", 2.5)), [x], [y]).run(stream) is None
    assert (fake.launches[0].grid, fake.launches[0].block) == ((8, 1, 1), (128, 1, 1))
    call = traced(1000, struct.pack("<f", 2.5))
    call.block_dim = 64
    assert XlaCall(call, [x], [y]).run(stream) is None
    assert (fake.launches[1].grid, fake.launches[1].block) == ((16, 1, 1), (64, 1, 1))


def test_a_block_for_each_place_of_a_tile_kernel(fake, stream, monkeypatch):
    number = float(next(_numbers))

    @wp.kernel
    def centred(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] - wp.tile_sum(wp.tile(x[i] + wp.static(number)))[0]

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    f = jax_kernel(centred, block_dim=8)
    kernel, dims, asked = f._in_blocks(centred, (30,))
    assert (kernel.cpu_block_dim, dims, asked) == (8, (4,), 0)
    assert f._in_blocks(saxpy(), (30,))[1:] == ((30,), 8)
    code = compiled(kernel, tuple(t for _, t in kernel.parameters))
    call = Call(code, dims, "broadcast_all", False)
    call.views[0] = View(call.operand(np.zeros(30, np.float32), float32), (30,))
    call.views[1] = View(call.result((30,), float32, None), (30,))
    fake.args_size = 2 * 24
    assert XlaCall(call, [device_array(30)], [device_array(30)]).run(stream) is None
    (launch,) = fake.launches
    assert (launch.grid, launch.block, launch.count) == ((4, 1, 1), (8, 1, 1), 4)


def test_a_result_starts_as_an_operand(fake, stream):
    x, before, y = device_array(8), device_array(8), device_array(8)
    y.fill_(7.0)
    call = traced(8, struct.pack("<f", 2.0), start=True)
    site = XlaCall(call, [x, before], [y])
    assert site.run(stream) is None
    assert y.numpy().tolist() == [1.0] * 8
    assert ("cuMemcpyDtoDAsync", (y.ptr, before.ptr, 32, stream)) in fake.calls
    fake.forget()
    shared = XlaCall(call, [x, y], [y])  # XLA let them share memory
    assert shared.run(stream) is None
    assert "cuMemcpyDtoDAsync" not in fake.names()


def test_numbers_in_buffers_are_fetched_first(fake, stream):
    x, y = device_array(8), device_array(8)
    a = wp.array([3.5], dtype=float, device="cuda:1").reshape(1)
    site = XlaCall(traced(8, None), [x, a], [y])
    site.frame.args.size = 2
    rank = site.kept  # a JAX scalar has no dimensions
    for kept in rank:
        if getattr(kept, "data", None) == a.ptr:
            kept.rank = 0
    fake.forget()
    assert site.run(stream) is None
    order = [n for n in fake.names() if n in ("cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuLaunchKernel")]
    assert order == ["cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuLaunchKernel"]
    assert struct.unpack_from("<f", fake.launches[0].args, 24) == (3.5,)


def test_a_batch_is_a_launch_for_each_element(fake, stream):
    x, y = device_array(3, 8), device_array(3, 8)
    call = traced(8, struct.pack("<f", 2.0))
    site = XlaCall(call, [x], [y])
    assert site.run(stream) is None
    pointers = [struct.unpack("<3qf4x3q", launch.args) for launch in fake.launches]
    assert [p[0] for p in pointers] == [x.ptr, x.ptr + 32, x.ptr + 64]
    assert [p[4] for p in pointers] == [y.ptr, y.ptr + 32, y.ptr + 64]
    fake.forget()
    one = device_array(1, 8)  # not batched: the same for all
    assert XlaCall(call, [one], [y]).run(stream) is None
    assert {struct.unpack_from("<q", launch.args)[0] for launch in fake.launches} == {one.ptr}


def test_no_threads_no_launch(fake, stream):
    x, y = device_array(0), device_array(0)
    assert XlaCall(traced(0, struct.pack("<f", 2.0)), [x], [y]).run(stream) is None
    assert fake.launches == []


def test_each_device_loads_its_own(fake, stream):
    call = traced(8, struct.pack("<f", 2.0))
    for ordinal, handle in ((0, 0xABD0), (1, stream)):
        wp.get_device(f"cuda:{ordinal}").native
        fake.streams[handle] = (ordinal, 0)
        x, y = (wp.zeros(8, device=f"cuda:{ordinal}") for _ in range(2))
        assert XlaCall(call, [x], [y]).run(handle) is None
    fake.streams.pop(0xABD0)
    assert len({launch.stream for launch in fake.launches}) == 2


def test_errors_of_the_driver_are_xlas(fake, stream):
    x, y = device_array(8), device_array(8)
    site = XlaCall(traced(8, struct.pack("<f", 2.0)), [x], [y])
    assert site.run(stream) is None
    fake.fail("cuLaunchKernel", 700)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in site.run(stream)
    fake.fail("cuMemsetD8Async", 1)
    assert "cuMemsetD8Async" in site.run(stream)


def test_buffers_of_another_shape(fake, stream):
    x, y = device_array(8), device_array(2, 2, 8)
    call = traced(8, struct.pack("<f", 2.0))
    error = XlaCall(call, [x], [y]).run(stream)
    assert error == "warp_like: the buffers of a kernel's call are not those it was traced with"


def gradient_call(kernel, numbers=()):
    """The call of a kernel's adjoint, for arrays of 4 elements."""
    types = tuple(t for _, t in kernel.parameters)
    code = compiled(kernel, types, wrt=tuple(i for i, t in enumerate(types) if str(t) == "array1d[float32]"))
    call = Call(code, [4], "broadcast_all", False)
    floats, ints, left = np.zeros(4, np.float32), np.zeros(4, np.int32), iter(numbers)
    for i, t in enumerate(code.params):
        if not isinstance(t, Array):
            call.value(i, next(left))
        elif code.roles[i] == ("adjoint", 0):
            call.views[i] = View(call.result((4,), float32), (4,))
        else:
            call.views[i] = View(call.operand(ints if "int" in str(t.dtype) else floats, t.dtype), (4,))
    operands = [wp.zeros(4, dtype=int if v.dtype.kind == "i" else float, device="cuda:1") for v in call.operands]
    return XlaCall(call, operands, [wp.zeros(4, device="cuda:1")])


def test_a_gradient_whose_stack_depends_on_data_is_refused(fake, stream):
    error = gradient_call(looping).run(stream)
    assert "kernel `looping`: its gradient saves the state of loops whose length depends on data" in error


def test_a_gradient_whose_stack_the_arguments_tell(fake, stream, monkeypatch):
    number = float(next(_numbers))

    @wp.kernel
    def counted(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
        i = wp.tid()
        v = x[i] + wp.static(number)
        for _ in range(n):
            v = wp.sin(v) * v
        y[i] = v

    fake.stacks.add("wl_counted")
    site = gradient_call(counted, [struct.pack("<i", 50)])
    assert site.run(stream) is None
    (launch,) = fake.launches
    assert (launch.grid, launch.block, launch.stream) == ((1, 1, 1), (256, 1, 1), stream)
    assert launch.arena == (site.room, 200)  # 50 states of 4 bytes
    assert site.allocated == [(256 * 200, 256)]
    record = wp.get_device("cuda:1").reports
    assert launch.context in [r.address for r in record._known]
    assert not {"cuStreamSynchronize", "cuCtxSynchronize"} & set(fake.names())
    site.room = None
    assert site.run(stream) == "RESOURCE_EXHAUSTED"
    monkeypatch.setattr(wp.config, "adjoint_stack_limit", 196)
    assert "a thread needs more than 196 bytes to save the state of its loops" in site.run(stream)
    assert len(fake.launches) == 1
    fake.live.pop(launch.context)  # XLA does not say when it is done with the code, whose record stays


def test_a_gradient_whose_stack_depends_on_data_is_given_one(fake, stream):
    number = float(next(_numbers))

    @wp.kernel(adjoint_stack_size=66)
    def by_data(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
        i = wp.tid()
        v = x[i] + wp.static(number)
        for _ in range(n[i]):
            v = wp.sin(v) * v
        y[i] = v

    fake.stacks.add("wl_by_data")
    site = gradient_call(by_data)
    assert site.run(stream) is None
    (launch,) = fake.launches
    assert launch.arena == (site.room, 64)
    assert site.allocated == [(256 * 64, 256)]
    at = CUDA_CONTEXT.offsets["stack_needed"]

    def overflow(launch):
        struct.pack_into("<q", (ctypes.c_uint8 * 64).from_address(launch.context + at), 0, 80)

    fake.on_launch = overflow
    assert "a thread needed 80 bytes of stack, and adjoint_stack_size gives it 64" in site.run(stream)
    fake.on_launch = None
    assert site.run(stream) is None
    fake.live.pop(launch.context)  # see above


def test_deterministic_mode_is_kept(fake, stream):
    fake.args_size = 2 * 24
    number = float(next(_numbers))

    @wp.kernel(module="unique")
    def total(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.atomic_add(y, 0, x[wp.tid()] + wp.static(number))

    code = compiled(total, tuple(t for _, t in total.parameters))
    call = Call(code, [8], "broadcast_all", False)
    like = wp.zeros(8).numpy()
    call.views[0] = View(call.operand(like, float32), (8,))
    call.views[1] = View(call.result((8,), float32, None), (8,))
    site = XlaCall(call, [device_array(8)], [device_array(8)])
    wp.config.deterministic = True
    try:
        error = site.run(stream)
    finally:
        del wp.config.deterministic
    assert error.startswith("warp_like: WarpDeterminismError: kernel `total`: deterministic mode is on")
    assert not fake.launches
    assert site.run(stream) is None
    assert len(fake.launches) == 1
