"""Launches on CUDA that would surely access an array out of range: refused on the host, before the driver sees them."""

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def shift(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i + 1]


def pair(device, *lengths, grad=False):
    return [wp.array(np.arange(n, dtype=np.float32), device=device, requires_grad=grad) for n in lengths]


def test_launches(device):
    x, y = pair(device, 5, 4)
    for _ in range(2):
        with pytest.raises(IndexError, match=r"argument 1 `x`: index 5 is out of range for an array of shape \(5,\)"):
            wp.launch(shift, 5, [x, y], device=device)
        wp.launch(shift, 4, [x, y], device=device)
        assert y.list() == [1.0, 2.0, 3.0, 4.0]
    command = wp.launch(shift, 4, [x, y], device=device, record_cmd=True)
    command.launch()
    command.set_dim(5)
    with pytest.raises(IndexError, match="index 5"):
        command.launch()


def test_gradients(device):
    x, y = pair(device, 5, 4, grad=True)
    with wp.Tape() as tape:
        wp.launch(shift, 4, [x, y], device=device)
        with pytest.raises(IndexError, match="index 5"):
            wp.launch(shift, 5, [x, y], device=device)
    tape.backward(grads={y: wp.ones(4, device=device)})
    assert x.grad.list() == [0.0, 1.0, 1.0, 1.0, 1.0]
    with pytest.raises(IndexError, match="`adj_y`: index 4"):
        wp.launch(shift, 5, [x], [y], [x.grad], [y.grad], adjoint=True, device=device)


def test_nothing_is_handed_to_the_driver(fake):
    x, y = pair("cuda:0", 5, 4)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 5"):
            wp.launch(shift, 5, [x, y], device="cuda:0")
    assert not fake.launches
    shift.forget_programs()


def test_captures(device):
    x, y = pair(device, 5, 4)
    with pytest.raises(IndexError, match="index 5"), wp.ScopedCapture(device=device):
        wp.launch(shift, 5, [x, y], device=device)
    with wp.ScopedCapture(device=device) as capture:
        wp.launch(shift, 4, [x, y], device=device)
    wp.capture_launch(capture.graph)
    assert y.list() == [1.0, 2.0, 3.0, 4.0]
