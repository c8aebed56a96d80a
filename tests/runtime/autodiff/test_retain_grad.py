"""``retain_grad``: the gradient of an intermediate array stays to be seen, and nothing else changes by it."""

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def half(x: wp.array(dtype=float)):
    i = wp.tid()
    if i < 2:
        x[i] = x[i] * 0.5


def program(retain, steps):
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True, retain_grad=retain)
    z = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        steps(x, y, z)
    return x, y, z, tape


def straight(x, y, z):
    wp.launch(square, 3, inputs=[x, y])
    wp.launch(square, 3, inputs=[y, z])


def test_a_gradient_is_consumed_unless_retained():
    seen = {}
    for retain in (False, True):
        x, y, z, tape = program(retain, straight)
        tape.backward(grads={z: wp.ones(3, dtype=float)})
        seen[retain] = y.grad.numpy().copy()
        np.testing.assert_array_equal(x.grad.numpy(), [4, 32, 108])
        assert tape.gradients[y] is y.grad
    np.testing.assert_array_equal(seen[False], [0, 0, 0])
    np.testing.assert_array_equal(seen[True], [2, 8, 18])


def test_repeated_backward_adds_up():
    x, y, z, tape = program(True, straight)
    for k in (1, 2):
        tape.backward(grads={z: wp.ones(3, dtype=float)})
        np.testing.assert_array_equal(y.grad.numpy(), np.array([2, 8, 18]) * k)
        np.testing.assert_array_equal(x.grad.numpy(), np.array([4, 32, 108]) * k)
    tape.zero()
    assert not y.grad.numpy().any()
    tape.backward(grads={z: wp.ones(3, dtype=float)})
    np.testing.assert_array_equal(y.grad.numpy(), [2, 8, 18])
    np.testing.assert_array_equal(x.grad.numpy(), [4, 32, 108])


def test_an_adjoint_set_by_the_user_is_one_to_start_from():
    x, y, _z, tape = program(True, lambda x, y, z: wp.launch(square, 3, inputs=[x, y]))
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    y.grad.fill_(10.0)
    tape.backward(grads={y: y.grad})
    np.testing.assert_array_equal(x.grad.numpy(), [22, 44, 66])
    np.testing.assert_array_equal(y.grad.numpy(), [10, 10, 10])


@pytest.mark.parametrize("retain", [False, True])
def test_an_array_that_is_overwritten_twice(retain):
    """The retained gradient is that of what stands there last, and does not flow to the first writer."""

    def steps(x, y, z):
        wp.launch(square, 3, inputs=[x, y])
        wp.launch(square, 3, inputs=[y, z])
        wp.launch(square, 3, inputs=[z, y])

    x, y, _z, tape = program(retain, steps)
    tape.backward(grads={y: wp.array([1.0, 10.0, 100.0], dtype=float)})
    xs = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), 8 * xs**7 * [1, 10, 100])
    np.testing.assert_array_equal(y.grad.numpy(), [1, 10, 100] if retain else [0, 0, 0])


@pytest.mark.parametrize("retain", [False, True])
def test_an_array_that_is_changed_in_place(retain):
    def steps(x, y, z):
        wp.copy(y, x)
        wp.launch(half, 3, inputs=[y])
        wp.launch(square, 3, inputs=[y, z])

    x, y, z, tape = program(retain, steps)
    tape.backward(grads={z: wp.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), [0.5, 1.0, 6.0])
    np.testing.assert_allclose(y.grad.numpy(), [1.0, 2.0, 6.0] if retain else [0, 0, 0])


def test_writes_through_a_view():
    def steps(x, y, z):
        wp.launch(square, 3, inputs=[x, y])
        wp.launch(square, 1, inputs=[x[2:], y[1:2]])
        wp.launch(square, 3, inputs=[y, z])

    x, y, z, tape = program(True, steps)
    tape.backward(grads={z: wp.ones(3, dtype=float)})
    np.testing.assert_allclose(y.grad.numpy(), [2, 18, 18])
    np.testing.assert_allclose(x.grad.numpy(), [4, 0, 108 + 108])
