"""Checkpointed loops: the same gradients from less memory."""

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import check
from tests.long_tail import crossed
from tests.passes.ad import test_kernel_gradients as test_gradients

f64 = wp.float64


@pytest.fixture
def checkpointed():
    wp.config.checkpoint_loops = True
    yield
    del wp.config.checkpoint_loops


@pytest.mark.parametrize("name", crossed(test_gradients.CASES, every=2))
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


# --- what a loop does not save ------------------------------------------------------------------------------


@wp.kernel
def counters(x: wp.array(dtype=f64), n: int, stride: int, out: wp.array(dtype=f64)):
    """Its state is three integers, of which the reverse sweep needs each at every iteration."""
    i = wp.tid()
    total = f64(0.0)
    at, down, steps = i, wp.int64(n), wp.uint8(250)
    while down > wp.int64(0):
        at += stride
        down -= wp.int64(2)
        steps += wp.uint8(3)
        total += wp.sin(x[at % 7]) * f64(steps) + x[int(down) % 5 + 5]
    for k in range(n, 1, -3):
        at = 2 + at
        total += x[at % 7] * x[k % 7]
    out[i] = total


@wp.kernel
def counters_over_state(a: wp.array(dtype=f64), n: int):
    """The same where the kernel overwrites what it reads, so that the forward sweep saves."""
    i = wp.tid()
    k = i
    for _ in range(n):
        k += 3
        a[i] = a[i] * wp.sin(a[i]) + f64(k % 4)


@wp.kernel
def counters_and_state(x: wp.array(dtype=f64), n: int, stride: int, out: wp.array(dtype=f64)):
    """What is computed again has to fit what is saved: iteration by iteration."""
    i = wp.tid()
    v = x[i]
    at, left = i, n
    while left > 0 and v < 5.0:
        v = wp.sin(v) * x[at % 12] + f64(left % 3)
        at += stride
        left -= 1
    for k in range(n, -4, -2):
        at -= stride
        v = v * x[(at % 12 + 12) % 12] + 0.01 * f64(k)
    out[i] = v


@pytest.mark.parametrize(
    ("program", "checkpoint", "n"), crossed([counters, counters_and_state], [False, True], [0, 1, 2, 5, 40], every=2)
)
def test_counters(n, checkpoint, program):
    rng = np.random.default_rng(n)
    kernel = wp.kernel(program.func, checkpoint_loops=checkpoint)
    check(kernel, 3, [rng.normal(size=12), n, 5], 3)


def test_counters_are_not_saved():
    x = wp.array(np.random.default_rng(0).normal(size=12), dtype=f64, requires_grad=True)
    out = wp.zeros(3, dtype=f64, requires_grad=True)
    wp.config.adjoint_stack_limit = 0
    try:
        with wp.Tape() as tape:
            wp.launch(counters, 3, [x, 1000, 3, out])
        tape.backward(grads={out: wp.ones(3, dtype=f64)})
    finally:
        del wp.config.adjoint_stack_limit
    assert x.grad.numpy().any()


@pytest.mark.parametrize("n", [0, 1, 6])
def test_counters_beside_saved_values(n):
    start = np.array([0.3, -0.8, 1.7])

    def final(a):
        a = a.copy()
        wp.launch(counters_over_state, 3, [a, n])
        return a.sum()

    a = wp.array(start, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(counters_over_state, 3, [a, n])
    tape.backward(grads={a: wp.ones(3, dtype=f64)})
    steps = 1e-6 * np.eye(3)
    expected = [(final(start + d) - final(start - d)) / 2e-6 for d in steps]
    np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.on_cpu("the stack is the CPU's")
@pytest.mark.parametrize("dtype, size", [(wp.float16, 2), (wp.float32, 4), (wp.float64, 8)])
def test_states_lie_on_the_stack_without_gaps(dtype, size):
    @wp.kernel
    def states(x: wp.array(dtype=dtype), n: int, out: wp.array(dtype=dtype)):
        v = x[0]
        even = True
        for _ in range(n):
            v = wp.sin(v) * v if even else wp.cos(v)
            even = v > dtype(0.5)
        out[0] = v

    def gradient(limit):
        x, out = wp.full(1, 0.7, dtype=dtype, requires_grad=True), wp.zeros(1, dtype=dtype, requires_grad=True)
        wp.config.adjoint_stack_limit = limit
        try:
            with wp.Tape() as tape:
                wp.launch(states, 1, [x, 100, out])
            tape.backward(grads={out: wp.ones(1, dtype=dtype)})
        finally:
            del wp.config.adjoint_stack_limit
        return float(x.grad.numpy()[0])

    wp.config.vector_width = 1
    try:
        enough = gradient(100 * (size + 1))
        assert enough == gradient(1 << 20)
        with pytest.raises(MemoryError):
            gradient(100 * (size + 1) - 1)
    finally:
        del wp.config.vector_width


# --- second derivatives -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 7, 30])
def test_hessian_vector_product(n):
    """Forward over a checkpointed reverse is forward over a saving one."""
    x, v = np.array([0.7, 0.9]), np.array([1.0, -2.0])

    def product(checkpoint):
        kernel = wp.kernel(long_loop.func, checkpoint_loops=checkpoint)
        found, _ = wp.autograd.hvp(kernel, 2, [x, n], [np.zeros(2)], tangents=[v], adj_outputs=[np.ones(2)])
        return found.numpy()

    def gradient(at):
        out = wp.zeros(2, dtype=f64, requires_grad=True)
        a = wp.array(at, dtype=f64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(long_loop, 2, [a, n, out])
        tape.backward(grads={out: wp.ones(2, dtype=f64)})
        return a.grad.numpy()

    np.testing.assert_allclose(product(True), product(False), rtol=1e-12)
    step = 1e-5
    differences = (gradient(x + step * v) - gradient(x - step * v)) / (2 * step)
    np.testing.assert_allclose(product(True), differences, rtol=1e-6, atol=1e-9)
