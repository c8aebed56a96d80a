"""Checkpointed loops: the same gradients from less memory."""

import numpy as np
import pytest

import warp_like as wp
from tests.ad import test_gradients
from tests.ad.gradients import check

f64 = wp.float64


@pytest.fixture
def checkpointed():
    wp.config.checkpoint_loops = True
    yield
    del wp.config.checkpoint_loops


@pytest.mark.parametrize("name", test_gradients.CASES)
def test_gradient(name, checkpointed):
    check(*test_gradients.CASES[name])


@wp.kernel(checkpoint_loops=True)
def long_loop(x: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = v + 0.001 * wp.sin(v) * v
    out[i] = v


@wp.kernel(checkpoint_loops=True)
def long_while(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    steps = 0
    while v < 2.0:
        v = v + 0.001 * wp.cos(0.1 * v)
        steps += 1
    out[i] = v * f64(steps % 7)


@pytest.mark.parametrize("n", [0, 1, 2, 99, 100, 101, 5000])
def test_any_length(n):
    check(long_loop, 2, [np.array([0.7, 0.9]), n], 2)


def test_a_loop_that_ends_on_a_condition():
    check(long_while, 3, [np.array([0.2, 1.99, 2.5])], 3)


def test_the_stack_stays_small():
    n = 1_000_000

    def gradient(kernel):
        x = wp.array(np.array([0.7]), dtype=f64, requires_grad=True)
        out = wp.zeros(1, dtype=f64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=1, inputs=[x, n, out])
        tape.backward(grads={out: wp.ones(1, dtype=f64)})
        return x.grad.numpy()[0]

    wp.config.adjoint_stack_limit = 64 << 10  # 8192 float64, where the loop has a million states
    try:
        checkpointed = gradient(long_loop)
        with pytest.raises(MemoryError, match="kernel `long_loop`.*65536 bytes.*checkpoint_loops=True"):
            gradient(wp.kernel(long_loop.func, checkpoint_loops=False))
    finally:
        del wp.config.adjoint_stack_limit
    np.testing.assert_allclose(checkpointed, gradient(wp.kernel(long_loop.func, checkpoint_loops=False)), rtol=1e-9)
