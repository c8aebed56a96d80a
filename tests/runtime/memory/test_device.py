"""Devices."""

import pickle

import pytest

import warp_like as wp


def test_the_cpu():
    cpu = wp.get_device("cpu")
    assert (str(cpu), repr(cpu), cpu.alias) == ("cpu", "'cpu'", "cpu")
    assert cpu.is_cpu
    assert not cpu.is_cuda
    assert cpu == "cpu"
    assert cpu != "cuda:0"
    assert wp.get_device() is cpu is wp.get_device(cpu) is wp.get_preferred_device()
    assert wp.get_devices() == [cpu]
    assert pickle.loads(pickle.dumps(cpu)) is cpu
    assert 0 < cpu.free_memory <= cpu.total_memory
    assert {cpu: 1}["cpu"] == 1


def test_availability():
    assert wp.is_cpu_available()
    assert wp.is_cuda_available() == (wp.get_cuda_device_count() > 0)
    assert wp.is_device_available("cpu")
    assert not wp.is_device_available("tpu")


def test_current_device():
    with wp.ScopedDevice("cpu") as device:
        assert device is wp.get_device()
    wp.set_device("cpu")
    wp.synchronize()
    wp.synchronize_device("cpu")
    assert wp.zeros(1).device is wp.get_device()


@pytest.mark.skipif(wp.is_cuda_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_cuda_without_a_driver_is_one_clear_error(name):
    for use in (wp.get_device, wp.set_device, wp.ScopedDevice, wp.synchronize_device):
        with pytest.raises(RuntimeError, match=f"device '{name}' is not available here; the devices are: cpu"):
            use(name)


def test_names_that_are_none():
    with pytest.raises(ValueError, match="'gpu' is not the name of a device"):
        wp.get_device("gpu")
    with pytest.raises(TypeError, match="named by a string"):
        wp.get_device(3)
