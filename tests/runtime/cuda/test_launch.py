"""Launches on CUDA, against the fake: what the driver is given, in which order, on which stream."""

import gc
import struct

import numpy as np
import pytest

import warp_like as wp
from warp_like.base.contract import MAX_DIMS, MAX_NARROW


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def add_2d(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] += x[i, j]


@wp.kernel
def guarded(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    if i < x.shape[0]:
        y[i] = a * x[i]


@wp.kernel(launch_bounds=128)
def bounded(x: wp.array(dtype=float)):
    x[wp.tid()] = 1.0


@pytest.fixture
def pair(fake):
    x = wp.array(np.arange(1000, dtype=np.float32), device="cuda:0")
    y = wp.zeros(1000, device="cuda:0")
    wp.launch(saxpy, dim=1, inputs=[x, y, 2.0], device="cuda:0")  # compiled and loaded
    fake.forget()
    fake.args_size = 2 * 24 + 8
    held = [x, y]
    del x, y
    yield held
    held.clear()  # pytest keeps the list for longer
    saxpy.forget_programs()
    add_2d.forget_programs()
    guarded.forget_programs()
    bounded.forget_programs()


def test_what_the_driver_gets(fake, pair):
    x, y = pair
    wp.launch(saxpy, dim=1000, inputs=[x, y, 2.5], device="cuda:0")
    (launch,) = fake.launches
    assert launch.function == "wl_saxpy"
    assert (launch.grid, launch.block, launch.shared) == ((1, 1, 1), (256, 1, 1), 0)  # a thread takes four places
    assert launch.stream == wp.get_stream("cuda:0").cuda_stream
    assert launch.dims == (1000, 1, 1, 1, 1, 1, 1, 1)
    assert launch.count == 1000
    assert launch.context == 0
    assert struct.unpack("<3q3qf4x", launch.args) == (x.ptr, 1000, 4, y.ptr, 1000, 4, 2.5)
    assert fake.names() == ["cuLaunchKernel"]


@pytest.mark.parametrize(
    "extent", [1, 2, 3, 5, 7, 64, 641, 46341, 65535, 65537, 2**30 - 1, 2**30, 2**30 + 1, MAX_NARROW]
)
def test_threads_are_divided_by_extents_without_a_division(fake, pair, extent):
    x, y = pair
    wp.launch(guarded, dim=(MAX_NARROW // extent, extent), inputs=[x, y, 2.5], device="cuda:0")
    (launch,) = fake.launches
    multiplier, shift = launch.divisors[1], launch.divisors[MAX_DIMS + 1]
    edges = [k * extent + d for k in (0, 1, 2, MAX_NARROW // extent - 1, MAX_NARROW // extent) for d in (-1, 0, 1)]
    numbers = [*edges, *map(int, np.random.default_rng(extent).integers(0, 2**31, 1000)), 2**31 - 1]
    for n in numbers:
        if 0 <= n < 2**31:
            assert (2 * n * multiplier >> 32) >> shift == n // extent


def test_a_limit_on_blocks_needs_code_that_goes_over_the_grid(fake, pair):
    x, y = pair
    program = saxpy.program(saxpy.types, device=wp.get_device("cuda:0"))
    required = program.dispatcher.required_variant
    assert required(1000, [x, y, 2.5]) == required(1000, [x, y, 2.5], 0) == (True, False, True)
    assert required(1000, [x, y, 2.5], 3) == (True, False, False)
    assert "\n  br label %grid\n" not in saxpy.inspect_llvm(target="sm_90")


def test_the_kernel_is_compiled_for_the_device_and_loaded_once(fake):
    x = wp.zeros(8, device="cuda:0")
    wp.launch(bounded, dim=8, inputs=[x], device="cuda:0")
    wp.launch(bounded, dim=8, inputs=[x], device="cuda:0")
    assert fake.names("cuModuleLoadDataEx", "cuModuleGetFunction") == ["cuModuleLoadDataEx", "cuModuleGetFunction"]
    (image,) = fake.images.values()
    assert image.startswith(b"\x7fELF") or b".target sm_90" in image
    there = wp.zeros(8, device="cuda:1")
    wp.launch(bounded, dim=8, inputs=[there], device="cuda:1")
    assert len(fake.images) == 2
    bounded.forget_programs()
    del image
    gc.collect()
    assert fake.names("cuModuleUnload") == ["cuModuleUnload"] * 2


def test_blocks(fake, pair):
    x, y = pair

    def grid(kernel=guarded, dim=1000, inputs=(x, y, 1.0), **how):
        fake.launches.clear()
        wp.launch(kernel, dim=dim, inputs=list(inputs), device="cuda:0", **how)
        return fake.launches[0].grid[0], fake.launches[0].block[0]

    assert grid() == (4, 256)
    assert grid(block_dim=64) == (16, 64)
    assert grid(block_dim=1024) == (1, 1024)
    assert grid(max_blocks=2) == (2, 256)
    assert grid(max_blocks=2, block_dim=32) == (2, 32)
    assert grid(dim=1) == (1, 256)
    assert grid(dim=257) == (2, 256)
    assert grid(dim=2**40) == (2**31 - 1, 256)
    assert grid(saxpy) == (1, 256)  # a thread takes four places
    assert grid(saxpy, block_dim=64) == (4, 64)
    assert grid(saxpy, max_blocks=2) == (2, 256)
    fake.launches.clear()
    wp.launch(saxpy, dim=0, inputs=[x, y, 1.0], device="cuda:0")
    assert fake.launches == []


def test_the_usual_block_is_an_option(fake, pair, monkeypatch):
    x, y = pair

    def threads(**how):
        wp.launch(saxpy, dim=1000, inputs=[x, y, 1.0], device="cuda:0", **how)
        return fake.launches[-1].block[0]

    monkeypatch.setattr(wp.config, "block_dim", 128)
    assert threads() == 128
    assert threads(block_dim=64) == 64
    options = wp.get_module_options(saxpy.module)
    options["block_dim"] = 512
    try:
        assert threads() == 512
    finally:
        del options["block_dim"]
    assert threads() == 128
    with pytest.raises(ValueError, match="setting `block_dim` is at most 1024, got 2048"):
        wp.config.block_dim = 2048


def test_blocks_that_can_not_be(fake, pair, monkeypatch):
    x, y = pair
    with pytest.raises(ValueError, match="kernel `saxpy`: a block has 1 to 1024 threads, got block_dim=2048"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0", block_dim=2048)
    with pytest.raises(ValueError, match="max_blocks is 0"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0", max_blocks=-1)
    with pytest.raises(TypeError, match="kernel `saxpy`: block_dim takes an int, got float 2.5"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0", block_dim=2.5)
    monkeypatch.setattr(fake, "function_attribute", lambda function, name: 128)
    with pytest.raises(ValueError) as e:
        wp.launch(bounded, dim=10, inputs=[x], device="cuda:0", block_dim=256)
    assert str(e.value) == "kernel `bounded`: block_dim=256, and launch_bounds=128 allow at most 128"
    wp.launch(bounded, dim=1000, inputs=[x], device="cuda:0")
    assert fake.launches[-1].block == (128, 1, 1)


def test_grids_of_several_dimensions_and_strided_arrays(fake, pair):
    a = wp.zeros((6, 8), device="cuda:0")
    b = wp.zeros((8, 6), device="cuda:0")
    wp.launch(add_2d, dim=(6, 8), inputs=[a, b.transpose()], device="cuda:0")
    fake.args_size = 2 * 40
    wp.launch(add_2d, dim=(6, 8), inputs=[a, b.transpose()], device="cuda:0")
    launch = fake.launches[-1]
    assert launch.dims == (6, 8, 1, 1, 1, 1, 1, 1)
    assert launch.count == 48
    assert struct.unpack("<5q5q", launch.args) == (a.ptr, 6, 8, 32, 4, b.ptr, 6, 8, 4, 24)


def test_variants_by_overlap_and_alignment(fake, pair):
    x, y = pair
    whole = wp.zeros(2000, device="cuda:0")
    program = saxpy.program(saxpy.types, device=wp.get_device("cuda:0"))
    assert set(program.artifacts) == {(True, False, True)}
    wp.launch(saxpy, dim=10, inputs=[x, x, 1.0], device="cuda:0")
    assert set(program.artifacts) == {(True, False, True), (True, False, False)}
    required = program.dispatcher.required_variant
    assert required((10,), [x, y, 1.0]) == (True, False, True)
    assert required((10,), [whole[:1000], whole[1000:], 1.0]) == (True, False, True)
    assert required((10,), [whole[:1000], whole[500:], 1.0]) == (True, False, False)
    assert required((10,), [whole[1:500], y, 1.0]) == (True, False, False)
    assert required((10,), [whole[::2], y, 1.0]) == (False, False, False)


def test_large_grids_and_arrays_are_counted_in_64_bits(fake, pair):
    x, y = pair
    program = saxpy.program(saxpy.types, device=wp.get_device("cuda:0"))
    required = program.dispatcher.required_variant
    assert required((MAX_NARROW,), [x, y, 1.0]) == (True, False, True)
    assert required((MAX_NARROW + 1,), [x, y, 1.0]) == (True, True, False)
    assert required((2**32,), [x, y, 1.0]) == (True, True, False)
    for n, narrow in ((MAX_NARROW, True), (MAX_NARROW + 1, False)):
        large = wp.array(ptr=1 << 40, dtype=float, shape=(n,), device="cuda:0")
        assert required((10,), [large, y, 1.0]) == (True, False, narrow)
    empty = wp.array(ptr=1 << 40, dtype=float, shape=(MAX_NARROW + 1, 0), device="cuda:0")
    square = wp.array(ptr=1 << 40, dtype=float, shape=(2**16, 2**15), device="cuda:0")
    program = add_2d.program(add_2d.types, device=wp.get_device("cuda:0"))
    program.require(contiguous=True, wide=False)
    assert program.dispatcher.required_variant((10, 10), [empty, square[:1]]) == (True, False, False)
    other = wp.array(ptr=1 << 45, dtype=float, shape=(2**16, 2**15 - 1), device="cuda:0")
    assert program.dispatcher.required_variant((10, 10), [square, other]) == (True, False, False)
    assert program.dispatcher.required_variant((10, 10), [other, wp.zeros((2, 2), device="cuda:0")]) == (
        True,
        False,
        True,
    )


def test_streams(fake, pair):
    x, y = pair
    other = wp.Stream("cuda:0")
    fake.forget()
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], stream=other)
    assert fake.launches[-1].stream == other.cuda_stream
    assert fake.names() == ["cuLaunchKernel"]
    with wp.ScopedStream(other):
        assert wp.get_stream("cuda:0") is other
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    assert fake.launches[-1].stream == other.cuda_stream
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    assert fake.launches[-1].stream == wp.get_stream("cuda:0").cuda_stream
    with pytest.raises(ValueError, match="kernel `saxpy`: the launch is on cuda:1, the stream on cuda:0"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], stream=other, device="cuda:1")
    with pytest.raises(TypeError, match="kernel `saxpy`: stream takes a wp.Stream, got int"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], stream=7, device="cuda:0")


def test_explicit_adjoint_launches_go_where_they_are_told(fake):
    x, y = (wp.zeros(10, device="cuda:0", requires_grad=True) for _ in "xy")
    other = wp.Stream("cuda:0")
    where = {"stream": other, "block_dim": 64, "max_blocks": 1}
    for record_cmd in (False, True):
        for _ in range(2):  # compiled, then ready
            command = wp.launch(saxpy, 10, [x, y, 1.0], adjoint=True, record_cmd=record_cmd, **where)
            if command is not None:
                command.launch()
            launch = fake.launches[-1]
            assert (launch.stream, launch.block, launch.grid) == (other.cuda_stream, (64, 1, 1), (1, 1, 1))


def test_memory_used_on_another_library_s_stream_is_waited_for(fake, pair):
    x, y = pair
    theirs = wp.Stream("cuda:0", cuda_stream=0x7777)
    ours = wp.get_stream("cuda:0").cuda_stream
    fake.forget()
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], stream=theirs)
    assert fake.names() == ["cuEventCreate", *["cuEventRecord", "cuStreamWaitEvent"] * 2, "cuLaunchKernel"]
    assert [c.args[1] for c in fake.calls if c.name == "cuEventRecord"] == [ours, ours]
    assert [c.args[0] for c in fake.calls if c.name == "cuStreamWaitEvent"] == [0x7777, 0x7777]
    fake.forget()
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], stream=theirs)
    assert fake.names() == ["cuLaunchKernel"]
    y.numpy()
    assert [c.args[1] for c in fake.calls if c.name == "cuEventRecord"] == [0x7777]
    assert [c.args[0] for c in fake.calls if c.name == "cuStreamWaitEvent"] == [ours]


def test_the_legacy_default_stream_is_ordered_by_the_driver(fake, pair):
    x, y = pair
    fake.forget()
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], stream=wp.get_device("cuda:0").null_stream)
    assert fake.launches[-1].stream == 0
    assert fake.names() == ["cuLaunchKernel"]


def test_arguments_on_another_device(fake, pair):
    x, y = pair
    with pytest.raises(TypeError) as e:
        wp.launch(saxpy, dim=10, inputs=[x, wp.zeros(10), 1.0], device="cuda:0")
    assert str(e.value) == (
        "kernel `saxpy`, argument 2 `y`: the launch is on cuda:0, the array on cpu; launch with device='cpu', or pass "
        "a copy: wp.clone(a, device='cuda:0')"
    )
    with pytest.raises(TypeError, match="argument 1 `x`: the launch is on cpu, the array on cuda:0"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0])
    with pytest.raises(TypeError, match="argument 1 `x`: the launch is on cuda:1, the array on cuda:0"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:1")
    with pytest.raises(TypeError, match="argument 1 `x`: the launch is on cuda:0, the array on cpu"):
        wp.launch(saxpy, dim=10, inputs=[np.zeros(10, np.float32), y, 1.0], device="cuda:0")


def test_the_current_device(fake, pair):
    x, y = pair
    with wp.ScopedDevice("cuda:0"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0])
        assert len(fake.launches) == 1
        host = wp.zeros(10, device="cpu")
        wp.launch(saxpy, dim=10, inputs=[host, host, 1.0], device="cpu")
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0])
    assert len(fake.launches) == 2
    wp.launch(saxpy, dim=10, inputs=[host, host, 1.0])
    assert len(fake.launches) == 2


def test_recorded_launches(fake, pair):
    x, y = pair
    stream = wp.Stream("cuda:0")
    command = wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0", record_cmd=True, block_dim=64)
    assert fake.launches == []
    for _ in range(3):
        command.launch()
    assert [launch.block[0] for launch in fake.launches] == [64] * 3
    command.set_param_by_name("a", 3.0)
    command.launch(stream=stream)
    assert fake.launches[-1].stream == stream.cuda_stream
    assert struct.unpack("<3q3qf4x", fake.launches[-1].args)[-1] == 3.0


def test_contexts_stay_as_they_were(fake, pair):
    x, y = pair
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    assert fake.context_current() == 0
    fake.context_push(fake.devices[1].context)
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    assert fake.context_current() == fake.devices[1].context
    fake.context_pop()


def test_what_the_driver_refuses(fake, pair):
    from warp_like.runtime.cuda.errors import CudaError

    x, y = pair
    fake.fail("cuLaunchKernel", 701)
    with pytest.raises(CudaError, match="cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: .* smaller block_dim"):
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    fake.fail("cuModuleLoadDataEx", 222)
    with pytest.raises(CudaError, match="CUDA_ERROR_UNSUPPORTED_PTX_VERSION: .*; the driver is older"):
        wp.launch(bounded, dim=10, inputs=[x], device="cuda:0")


def test_print_launches(fake, pair, capsys):
    x, y = pair
    wp.config.print_launches = True
    try:
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    finally:
        wp.config.print_launches = False
    assert capsys.readouterr().out == "kernel: saxpy dim: (10,) device: cuda:0\n"


def test_what_launches_take(fake, pair):
    x, y = pair
    wp.timing_begin()
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    names = ["cuEventCreate", "cuEventCreate", "cuEventRecord", "cuLaunchKernel", "cuEventRecord"]
    assert fake.names()[-5:] == names
    (result,) = wp.timing_end()
    assert (result.device, result.name, result.elapsed) == ("cuda:0", "saxpy", 1.5)


def test_verify_cuda_waits_for_each_launch(fake, pair):
    from warp_like.runtime.cuda.errors import CudaError

    x, y = pair
    wp.config.verify_cuda = True
    try:
        wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
        assert fake.names()[-2:] == ["cuLaunchKernel", "cuStreamSynchronize"]
        fake.fail("cuStreamSynchronize", 716)
        with pytest.raises(CudaError, match="a kernel accessed memory at an address that is no multiple of"):
            wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    finally:
        wp.config.verify_cuda = False
    fake.forget()
    wp.launch(saxpy, dim=10, inputs=[x, y, 1.0], device="cuda:0")
    assert fake.names()[-1] == "cuLaunchKernel"


def test_explain(fake, pair):
    text = str(saxpy.explain())
    assert "forward on cuda:0, contiguous arrays, apart from each other, counted in 32 bits" in text
    assert "threads    up to 1024 in a block" in text


def test_loading_ahead(fake):
    wp.force_load("cuda:1", modules=[saxpy.module])
    assert "cuModuleLoadDataEx" in fake.names()
    for kernel in saxpy.module.kernels.values():
        kernel.forget_programs()
