"""CUDA devices: finding, naming, asking and choosing them; contexts; what is said where there are none."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warp_like as wp
from tests.runtime.cuda.fake_driver import FakeDriver
from warp_like.runtime.cuda import errors
from warp_like.runtime.cuda.driver import install
from warp_like.runtime.memory.registry import Unavailable


def test_what_a_device_is(fake):
    device = wp.get_device("cuda:1")
    assert (str(device), repr(device), device.alias, device.ordinal) == ("cuda:1", "'cuda:1'", "cuda:1", 1)
    assert device.is_cuda
    assert not device.is_cpu
    assert device == "cuda:1"
    assert device.name == "NVIDIA H200"
    assert device.arch == 90
    assert device.sm_count == 132
    assert device.uuid == "GPU-00000000-0000-0000-0000-000000000001"
    assert device.pci_bus_id == "0000:01:00.0"
    assert device.max_shared_memory_per_block == 232448
    assert device.is_uva
    assert device.is_primary
    assert device.is_mempool_supported
    assert device.is_mempool_enabled
    assert device.total_memory == 141 << 30
    assert pickle.loads(pickle.dumps(device)) is device
    assert "cuDevicePrimaryCtxRetain" not in fake.names()
    assert not device.has_context
    assert device.free_memory == 141 << 30
    assert device.has_context
    assert device.context == fake.devices[1].context


def test_devices_by_name(fake):
    first, second = wp.get_cuda_devices()
    assert wp.get_devices() == [wp.get_device("cpu"), first, second]
    assert wp.get_cuda_device_count() == 2
    assert wp.is_cuda_available()
    assert wp.get_preferred_device() is first is wp.get_device("cuda") is wp.get_cuda_device()
    assert wp.get_cuda_device(1) is second
    assert wp.is_device_available("cuda:1")
    assert not wp.is_device_available("cuda:2")
    with pytest.raises(RuntimeError, match="'cuda:2' is not available here; the devices are: cpu, cuda:0, cuda:1$"):
        wp.get_device("cuda:2")
    with pytest.raises(ValueError, match="'gpu' is not the name of a device; the devices are: cpu, cuda:0, cuda:1"):
        wp.get_device("gpu")
    with wp.ScopedDevice("cuda:1"):
        assert wp.get_device("cuda") is second
        assert wp.zeros(3).device is second
    assert wp.zeros(3).device.is_cpu


def test_cuda_is_the_device_that_another_library_chose(fake):
    fake.context_push(fake.devices[1].context)
    assert wp.get_device("cuda").ordinal == 1
    fake.context_pop()
    assert wp.get_device("cuda").ordinal == 0


def test_one_context_a_device_and_none_left_current(fake):
    wp.zeros(3, device="cuda:0")
    wp.zeros(3, device="cuda:0")
    assert fake.names("cuDevicePrimaryCtxRetain") == ["cuDevicePrimaryCtxRetain"]
    assert fake.context_current() == 0
    with wp.get_device("cuda:1").context_guard:
        assert fake.context_current() == fake.devices[1].context
        wp.zeros(3, device="cuda:0")
        assert fake.context_current() == fake.devices[1].context


def test_waiting(fake):
    wp.synchronize()
    assert fake.names("cuCtxSynchronize") == []
    wp.zeros(1, device="cuda:1")
    fake.forget()
    wp.synchronize()
    wp.synchronize_device("cuda:0")
    assert [c.args for c in fake.calls if c.name == "cuCtxSynchronize"] == [(1,), (0,)]


def test_contexts_of_others_get_names(fake):
    device = wp.get_device("cuda:1")
    assert device.context
    assert wp.map_cuda_device("second", device.context) is device
    assert wp.get_device("second") is device
    assert str(device) == "second"
    assert wp.zeros(2, device="second").device is device
    with pytest.raises(ValueError, match="there is a device 'cuda:0' already"):
        wp.map_cuda_device("cuda:0", device.context)
    wp.unmap_cuda_device("second")
    assert wp.get_device("cuda:1") is device
    with pytest.raises(RuntimeError, match="the thread has no current CUDA context; pass `context`"):
        wp.map_cuda_device("third")
    with pytest.raises(RuntimeError, match="'third' is not the name of a CUDA device"):
        wp.unmap_cuda_device("third")


def test_no_device(fake):
    install(FakeDriver(0))
    with pytest.raises(RuntimeError, match=r"'cuda:0' is not available here; .* cpu \(the NVIDIA driver sees no dev"):
        wp.get_device("cuda:0")


@pytest.mark.skipif(wp.is_cuda_available(), reason="there is a CUDA device")
def test_no_driver():
    with pytest.raises(RuntimeError, match=r"the devices are: cpu \((there is no NVIDIA driver|cuda-python is not)"):
        wp.get_device("cuda:0")
    with pytest.raises(RuntimeError, match="is not available here"):
        wp.zeros(3, pinned=True)


def test_nothing_of_cuda_is_imported_unless_asked_for():
    code = (
        "import sys, warp_like as wp\n"
        "wp.synchronize(); wp.zeros(3); wp.get_device('cpu')\n"
        "found = [m for m in sys.modules if m.startswith(('cuda.', 'warp_like.runtime.cuda'))]\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_say_what_to_do(fake):
    assert errors.message("cuModuleLoadDataEx", 218, "ptxas error: bad") == (
        "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: ptxas error: bad; the driver rejects the PTX: its log is above; "
        "please report this as a bug"
    )
    fake.fail("cuCtxSynchronize", 700)
    wp.zeros(1, device="cuda:0")
    with pytest.raises(errors.CudaError) as e:
        wp.synchronize()
    assert e.value.is_sticky
    assert str(e.value) == (
        "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: a kernel accessed memory that is not its own (an index out of "
        "bounds, or an array that was freed); an earlier kernel or this one failed on the device, all memory there is "
        "lost, and every further CUDA call of this process fails: start the process again, with wp.config.mode = "
        "'debug' to be told kernel, line and thread"
    )
    again = pickle.loads(pickle.dumps(e.value))
    assert (str(again), again.code) == (str(e.value), 700)
    assert errors.message("cuMemcpyDtoHAsync", 214).startswith(
        "cuMemcpyDtoHAsync: CUDA_ERROR_ECC_UNCORRECTABLE: memory of the device has failed and could not be corrected"
    )
    assert errors.message("cuFoo", 12345) == "cuFoo: error 12345"
    assert issubclass(Unavailable, RuntimeError)


@pytest.mark.parametrize("code", errors.NAMES)
def test_every_error_says_what_to_do(code):
    said = errors.message("cuFoo", code)
    start = f"cuFoo: {errors.NAMES[code]}: "
    assert said.startswith(start)
    assert len(said) > len(start) + 20


def test_the_names_of_errors_are_the_drivers():
    api = pytest.importorskip("cuda.bindings.driver")
    assert {code: api.CUresult(code).name for code in errors.NAMES} == errors.NAMES
    assert {code for code in errors.GONE if code not in errors.NAMES} == set()


def test_the_same_errors_mean_in_native_code_that_memory_is_gone():
    source = (Path(__file__).resolve().parents[3] / "native" / "cuda.cpp").read_text()
    listed = re.search(r"kGone\[\] = \{([^}]*)\}", source)[1]
    assert {int(code) for code in listed.split(",")} == errors.GONE
