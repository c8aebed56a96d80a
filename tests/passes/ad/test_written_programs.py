"""Gradients of the programs that people write: integrators, ray marching, factorisations, training loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import check
from tests.long_tail import crossed
from tests.passes.ad.test_overwriting import check as check_program

f64 = wp.float64
RNG = np.random.default_rng(5)


@wp.func
def pendulum(s: wp.vec2d, damping: f64):
    return wp.vec2d(s[1], -wp.sin(s[0]) - damping * s[1] * wp.abs(s[1]))


@wp.kernel
def runge_kutta(start: wp.array(dtype=wp.vec2d), damping: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    s = start[i]
    h = f64(0.02)
    for _ in range(n):
        k1 = pendulum(s, damping[0])
        k2 = pendulum(s + 0.5 * h * k1, damping[0])
        k3 = pendulum(s + 0.5 * h * k2, damping[0])
        k4 = pendulum(s + h * k3, damping[0])
        s = s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    out[i] = s[0] * s[0] + s[1]


@wp.func
def distance(p: wp.vec3d, radius: f64):
    q = wp.vec3d(p[0], p[1] + 0.1 * wp.sin(5.0 * p[0]), p[2])
    return wp.length(q) - radius


@wp.kernel
def ray_march(direction: wp.array(dtype=wp.vec3d), radius: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    d = wp.normalize(direction[i])
    origin = wp.vec3d(f64(0.0), f64(0.0), f64(-3.0))
    t = f64(0.0)
    hit = False
    for _ in range(200):
        step = distance(origin + t * d, radius[0])
        if step < 1.0e-9:
            hit = True
            break
        t += 0.8 * step
        if t > 20.0:
            break
    if hit:
        p = origin + t * d
        out[i] = t + wp.dot(p, p)
    else:
        out[i] = wp.exp(-t * 0.1) * radius[0]


@wp.kernel
def lu_solve(a: wp.array(dtype=wp.mat44d), b: wp.array(dtype=wp.vec4d), out: wp.array(dtype=f64)):
    i = wp.tid()
    m = a[i]
    v = b[i]
    for k in range(4):
        for r in range(k + 1, 4):
            f = m[r, k] / m[k, k]
            for c in range(k, 4):
                m[r, c] = m[r, c] - f * m[k, c]
            v[r] = v[r] - f * v[k]
    for back in range(4):
        r = 3 - back
        s = v[r]
        for c in range(r + 1, 4):
            s -= m[r, c] * v[c]
        v[r] = s / m[r, r]
    out[i] = wp.dot(v, v)


@wp.kernel
def lu_by_size(a: wp.array(dtype=wp.mat44d), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    m = a[i]
    for k in range(n):
        for r in range(k + 1, n):
            m[r, k] /= m[k, k]
            for c in range(k + 1, n):
                m[r, c] -= m[r, k] * m[k, c]
    d = f64(1.0)
    for k in range(n):
        d *= m[k, k]
    out[i] = d + m[1, 0]


@wp.kernel
def cholesky(a: wp.array(dtype=wp.mat44d), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    m = a[i]
    for j in range(n):
        s = m[j, j]
        for k in range(j):
            s -= m[j, k] * m[j, k]
        m[j, j] = wp.sqrt(s)
        for r in range(j + 1, n):
            t = m[r, j]
            for k in range(j):
                t -= m[r, k] * m[j, k]
            m[r, j] = t / m[j, j]
    total = f64(0.0)
    for j in range(n):
        total += wp.log(m[j, j]) * f64(j + 1) + m[j, 0]
    out[i] = total


@wp.kernel
def newton_in_two_unknowns(x: wp.array(dtype=f64), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    u = wp.vec2d(f64(1.0), f64(1.5))
    while True:
        r = wp.vec2d(u[0] * u[0] + u[1] - x[i], u[0] + u[1] * u[1] * u[1] - y[i])
        if wp.length(r) < 1.0e-11:
            break
        j = wp.mat22d(2.0 * u[0], f64(1.0), f64(1.0), 3.0 * u[1] * u[1])
        u = u - wp.inverse(j) * r
    out[i] = u[0] * wp.sin(u[1])


@wp.kernel
def result_used_nonlinearly(x: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    s = f64(0.0)
    for j in range(n):
        s += x[j] * x[i]
    s = s * s
    out[i] = s * wp.sin(s) + x[i] / (s + 2.0)


@wp.kernel
def rotating_state(x: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    a = x[i]
    b = x[(i + 1) % 3]
    for j in range(n):
        a, b = b, a * b + f64(j) * 0.1
    out[i] = a * b


@wp.kernel
def short_circuits(x: wp.array(dtype=f64), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    a = x[i]
    b = y[i]
    if a > 0.0 and (b > 0.3 or a * b < -0.2):
        a = a * a if b > 0.0 else wp.exp(b)
    elif not (a < -0.5) or b > 1.0:
        b = b * a
    out[i] = a * b + (a if a > b else b * b)


RAYS = np.array([[0.05, 0.1, 1.0], [0.2, -0.1, 1.0], [3.0, 1.0, 1.0]])

CASES = {
    "RK4 over 400 steps": (runge_kutta, 2, [RNG.normal(size=(2, 2)), np.array([0.15]), 400], 2),
    "ray marching": (ray_march, 3, [RAYS, np.array([1.0])], 3),
    "LU in a local matrix": (lu_solve, 2, [RNG.normal(size=(2, 4, 4)) + 4 * np.eye(4), RNG.normal(size=(2, 4))], 2),
    "LU, size at run time": (lu_by_size, 2, [RNG.normal(size=(2, 4, 4)) + 4 * np.eye(4), 4], 2),
    "Cholesky in a local matrix": (cholesky, 1, [np.full((1, 4, 4), 0.3) + 3 * np.eye(4), 4], 1),
    "Newton's method": (newton_in_two_unknowns, 3, [np.array([2.5, 3.0, 2.0]), np.array([4.5, 5.0, 4.0])], 3),
    "a sum used nonlinearly": (result_used_nonlinearly, 3, [RNG.normal(size=3), 3], 3),
    "state that changes places": (rotating_state, 3, [RNG.normal(size=3), 7], 3),
    "and, or, not, ternaries": (short_circuits, 40, [RNG.normal(size=40), RNG.normal(size=40)], 40),
}


@pytest.mark.parametrize("name", crossed(CASES, every=2))
def test_gradient(name: str) -> None:
    check(*CASES[name], tolerance=5e-6)


# --- programs on a tape -----------------------------------------------------------------------------------------


@wp.kernel
def smooth(x: wp.array2d(dtype=f64), y: wp.array2d(dtype=f64)):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, (j + 1) % x.shape[1]] + wp.sin(x[i, j])


@wp.kernel
def square_loss(x: wp.array(dtype=f64), loss: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def zeros(*shape: int) -> Any:
    return wp.zeros(shape, dtype=f64, requires_grad=True)


def test_slices_and_views() -> None:
    def program(a: Any) -> Any:
        y, z = zeros(4, 6), zeros(4, 3)
        wp.launch(smooth, dim=(2, 6), inputs=[a[1:3], y[::2]])
        wp.launch(smooth, dim=(4, 3), inputs=[y[:, 1::2], z])
        wp.launch(smooth, dim=(2, 6), inputs=[z.flatten().reshape((2, 6)), y[1:3]])
        return y

    check_program(program, RNG.normal(size=(4, 6)), tolerance=5e-6)


def test_transposed_and_strided() -> None:
    def program(a: Any) -> Any:
        y = zeros(6, 4)
        wp.launch(smooth, dim=(6, 4), inputs=[a.transpose(), y])
        wp.copy(y[0], a[:, 2])
        return y

    check_program(program, RNG.normal(size=(4, 6)), tolerance=5e-6)


def test_copies_and_writes_of_the_host_between_launches() -> None:
    def program(a: Any) -> Any:
        y, z = zeros(2, 3), zeros(2, 3)
        wp.copy(y, a)
        wp.launch(smooth, dim=(2, 3), inputs=[y, z])
        y.assign(z)
        z[0].fill_(0.25)
        wp.launch(smooth, dim=(2, 3), inputs=[z, y])
        y[1].zero_()
        wp.launch(smooth, dim=(2, 3), inputs=[y, z])
        z[1:] = a[:1]
        return z

    check_program(program, RNG.normal(size=(2, 3)), tolerance=5e-6)


def test_a_training_loop_with_one_tape() -> None:
    """The arrays change in place; nothing is recorded anew."""
    x, loss = wp.array(np.array([1.0, -2.0]), dtype=f64, requires_grad=True), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square_loss, dim=2, inputs=[x, loss])
    for _ in range(40):
        tape.zero()
        tape.backward(loss=loss)
        x.assign(x.numpy() - 0.2 * x.grad.numpy())
    np.testing.assert_allclose(x.numpy(), np.array([1.0, -2.0]) * 0.6**40, rtol=1e-12)


def test_repeated_backward_adds_up() -> None:
    x, loss = wp.array(np.array([1.0, -2.0]), dtype=f64, requires_grad=True), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square_loss, dim=2, inputs=[x, loss])
    for k in range(1, 4):
        tape.backward(loss=loss)
        np.testing.assert_array_equal(x.grad.numpy(), [2.0 * k, -4.0 * k])
    tape.zero()
    np.testing.assert_array_equal(x.grad.numpy(), 0)


def test_an_inner_tape_records_for_itself() -> None:
    x, y, loss = (wp.array(np.array([v, -v]), dtype=f64, requires_grad=True) for v in (3.0, 5.0, 0.0))
    with wp.Tape() as outer:
        wp.launch(square_loss, dim=2, inputs=[x, loss])
        with wp.Tape() as inner:
            wp.launch(square_loss, dim=2, inputs=[y, loss[1:]])
        inner.backward(grads={loss: wp.array([0.0, 1.0], dtype=f64)})
    np.testing.assert_array_equal(y.grad.numpy(), [10.0, -10.0])
    np.testing.assert_array_equal(x.grad.numpy(), 0)
    assert len(outer.launches) == len(inner.launches) == 1
    outer.backward(grads={loss: wp.array([1.0, 0.0], dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, -6.0])


def test_a_kernel_without_gradient_stays_undifferentiated() -> None:
    """A kernel whose gradient would be refused is no obstacle where none is asked for."""

    @wp.kernel
    def exchange(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        wp.atomic_exch(y, 0, x[wp.tid()])

    x, last, loss = wp.array(np.array([1.0, -2.0]), dtype=f64, requires_grad=True), wp.zeros(1, dtype=f64), zeros(1)
    with wp.Tape() as tape:
        wp.launch(exchange, dim=2, inputs=[x, last])
        wp.launch(square_loss, dim=2, inputs=[x, loss])
    tape.backward(loss=loss)
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, -4.0])
    assert not [key for key in exchange._programs if key[1] is not None]


@pytest.mark.parametrize("name", ["atomic_min", "atomic_max"])
def test_ties_of_atomics_go_to_every_winner(name: str) -> None:
    source = {"atomic_min": lowest, "atomic_max": highest}[name]
    x = wp.array(np.array([2.0, -1.0, 2.0, -1.0]), dtype=f64, requires_grad=True)
    out = wp.full(1, 0.0, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(source, dim=4, inputs=[x, out])
    tape.backward(loss=out)
    winners = x.numpy() == (-1.0 if name == "atomic_min" else 2.0)
    np.testing.assert_array_equal(x.grad.numpy(), np.where(winners, 1.0, 0.0))


@wp.kernel
def lowest(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    wp.atomic_min(out, 0, x[wp.tid()])


@wp.kernel
def highest(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    wp.atomic_max(out, 0, x[wp.tid()])


def test_a_start_value_that_wins_takes_the_gradient() -> None:
    x = wp.array(np.array([2.0, 3.0]), dtype=f64, requires_grad=True)
    out = wp.full(1, 7.0, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(highest, dim=2, inputs=[x, out])
    tape.backward(loss=out)
    np.testing.assert_array_equal(x.grad.numpy(), 0.0)
    np.testing.assert_array_equal(out.grad.numpy(), 1.0)


@wp.kernel
def double(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


def test_a_start_value_with_a_gradient_is_refused_by_atomic_max() -> None:
    x, z = (wp.array(np.array([v]), dtype=f64, requires_grad=True) for v in (7.0, 1.0))
    out = zeros(1)
    with wp.Tape() as tape:
        wp.launch(double, dim=1, inputs=[z, out])
        wp.launch(highest, dim=1, inputs=[x, out])
    with pytest.raises(
        RuntimeError, match="kernel `highest`: .* can't tell what they replaced, and `out` held results"
    ):
        tape.backward(loss=out)


def test_atomic_max_starts_from_numbers() -> None:
    x, z = (wp.array(np.array([v]), dtype=f64, requires_grad=True) for v in (7.0, 1.0))
    out = zeros(1)
    with wp.Tape() as tape:
        wp.launch(double, dim=1, inputs=[z, out])
        out.fill_(-1.0)
        wp.launch(highest, dim=1, inputs=[x, out])
    tape.backward(loss=out)
    np.testing.assert_array_equal(x.grad.numpy(), 1.0)
    np.testing.assert_array_equal(z.grad.numpy(), 0.0)
