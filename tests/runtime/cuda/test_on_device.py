"""What ``pytest --device`` does: a launch on the CPU runs on the device as well, and the device's results count."""

import numpy as np
import pytest

import warp_like as wp
from tests.on_device import on_device


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def speak(x: wp.array(dtype=float)):
    print(x[wp.tid()])


def test_a_launch_runs_on_the_device(device):
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    with on_device(device) as counts:
        wp.launch(double, dim=10, inputs=[x, y])
    np.testing.assert_array_equal(y, 2 * x)
    assert (counts.on_device, counts.left_out) == (1, 0)
    wp.launch(double, dim=10, inputs=[x, y])
    assert counts.on_device == 1


def test_the_device_has_the_last_word(device, monkeypatch):
    driver = wp.get_device(device).driver
    if not hasattr(driver, "_kernel"):
        pytest.skip("the device can't be made to compute wrong results")
    monkeypatch.setattr(driver, "_kernel", lambda *_: lambda: None)
    x, y = np.arange(10, dtype=np.float32), np.full(10, 5.0, np.float32)
    with on_device(device):
        wp.launch(double, dim=10, inputs=[x, y])
    np.testing.assert_array_equal(y, np.full(10, 5.0))


def test_arguments_that_share_memory_do_so_there(device):
    data = np.arange(12, dtype=np.float32)
    with on_device(device) as counts:
        wp.launch(double, dim=4, inputs=[data[1:9:2], data[2:10:2]])
    wanted = np.arange(12, dtype=np.float32)
    wanted[2:10:2] = 2 * wanted[1:9:2]
    np.testing.assert_array_equal(data, wanted)
    assert counts.on_device == 1


def test_gradients_come_from_the_device(device):
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with on_device(device) as counts:
        with wp.Tape() as tape:
            wp.launch(double, dim=2, inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert x.grad.list() == [2.0, 2.0]
    assert counts.on_device == 2


def test_empty_arrays_and_what_is_left_out(device, capfd):
    with on_device(device) as counts:
        wp.launch(double, dim=0, inputs=[np.zeros(0, np.float32), np.zeros(0, np.float32)])
        wp.launch(speak, dim=1, inputs=[np.ones(1, np.float32)])
    assert (counts.on_device, counts.left_out) == (1, 1)
    assert capfd.readouterr().out == "1.0\n"
