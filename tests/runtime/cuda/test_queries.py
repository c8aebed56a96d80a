"""Questions about CUDA and kernels, and the profiler's switches."""

import subprocess

import pytest

import warp_like as wp
from warp_like.backend.libdevice import find_ptxas


@wp.kernel
def scale(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = a * x[i]


@wp.kernel
def generic(x: wp.array(dtype=wp.Any)):
    x[wp.tid()] = x.dtype(1)


@pytest.fixture(autouse=True)
def kernels_are_compiled_anew():
    yield
    for kernel in wp.get_module(__name__).kernels.values():
        kernel.forget_programs()


def test_versions(fake):
    fake.cuda_version = 12080
    assert wp.get_cuda_driver_version() == (12, 8)
    assert {75, 80, 90, 120} <= set(wp.get_cuda_supported_archs())
    assert wp.get_cuda_supported_archs() == sorted(wp.get_cuda_supported_archs())


def test_the_version_of_the_assembler():
    found = wp.get_cuda_toolkit_version()
    if find_ptxas() is None:
        assert found is None
        return
    said = subprocess.run([str(find_ptxas()), "--version"], capture_output=True, text=True, check=True).stdout
    assert found is not None
    assert f"release {found[0]}.{found[1]}," in said


def test_without_a_driver():
    if not wp.is_cuda_available():
        assert wp.get_cuda_driver_version() is None
        wp.cuda_profiler_start()  # nothing happens
        wp.cuda_profiler_stop("cpu")


def test_what_the_driver_tells_of_a_kernel(fake):
    found = {"register_count": 32, "local_memory_size": 16, "shared_memory_size": 128}
    assert wp.get_cuda_kernel_properties(scale, "cuda:0") == found
    assert wp.get_suggested_block_size(scale, "cuda:0") == (1024, 264)
    assert wp.get_suggested_block_size(scale, "cpu") == (1, 1)
    fake.forget()
    wp.get_cuda_kernel_properties(scale, "cuda:0", block_dim=64)
    assert "cuModuleLoadDataEx" not in fake.names()
    overload = wp.overload(generic, [wp.array(dtype=float)])
    assert wp.get_cuda_kernel_properties(overload, "cuda:0")["register_count"] == 32


def test_what_is_refused(fake):
    with pytest.raises(TypeError, match=r"get_suggested_block_size\(\) takes a kernel made by @wp.kernel, got int"):
        wp.get_suggested_block_size(3)
    with pytest.raises(RuntimeError, match=r"get_cuda_kernel_properties\(\) asks a CUDA device, got cpu"):
        wp.get_cuda_kernel_properties(scale, "cpu")
    with pytest.raises(RuntimeError, match="kernel `generic` is generic; pass one of its overloads"):
        wp.get_cuda_kernel_properties(generic, "cuda:0")
    with pytest.raises(ValueError, match="a block has 1 to 1024 threads, got block_dim=0"):
        wp.get_cuda_kernel_properties(scale, "cuda:0", block_dim=0)


def test_a_profiler_looks_at_one_device(fake):
    with wp.ScopedCudaProfiler("cuda:1"):
        assert fake.names("cuProfilerStart", "cuProfilerStop") == ["cuProfilerStart"]
    stop = fake.calls[-1]
    assert (stop.name, stop.args) == ("cuProfilerStop", (1,))


def test_the_mode_of_a_capture_is_the_drivers(fake):
    for mode in wp.CaptureMode:
        with wp.ScopedCapture("cuda:0", capture_mode=mode):
            pass
    modes = [c.args[1] for c in fake.calls if c.name == "cuStreamBeginCapture"]
    assert modes == ["GLOBAL", "THREAD_LOCAL", "RELAXED"]
    with pytest.raises(ValueError, match="7 is not a valid CaptureMode"):
        wp.capture_begin("cuda:0", capture_mode=7)
