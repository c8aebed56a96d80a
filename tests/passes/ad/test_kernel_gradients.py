"""Gradients of kernels with every kind of control flow and array traffic, against central differences in float64."""

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import check

f64 = wp.float64
RNG = np.random.default_rng(3)


@wp.func
def poly(x: f64):
    return x * x * x - f64(2.0) * x


@wp.func
def early(x: f64):
    if x > f64(0.5):
        return wp.sin(x)
    y = x * x
    if x < f64(-0.5):
        return y * y
    return y


@wp.kernel
def straight(x: wp.array(dtype=f64), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = wp.sin(x[i]) * wp.exp(y[i]) + poly(x[i]) / (y[i] * y[i] + 1.0)


@wp.kernel
def branches(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    if v > 0.3:
        v = v * v
    elif v > -0.3:
        v = wp.cos(v)
    else:
        v = -v * x[0]
    out[i] = v if i % 2 == 0 else early(v)


@wp.kernel
def plain_sum(x: wp.array2d(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    s = f64(0.0)
    for j in range(x.shape[1]):
        s += x[i, j] * x[i, j]
    out[i] = s


@wp.kernel
def stateful(x: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    for j in range(n):
        v = wp.sin(v) * v + x[j % 3]
    out[i] = v


@wp.kernel
def nested(x: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    s = f64(0.0)
    for j in range(n):
        u = v
        for k in range(j + 1):
            if k % 2 == 0:
                u = wp.sin(u) * v
            else:
                u = u * u + f64(0.1)
        v = v + u * f64(0.25)
        s += u * v
    out[i] = s + v


@wp.kernel
def newton(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    a = x[i] * x[i] + 1.0
    r = a
    steps = 0
    while wp.abs(r * r - a) > 1.0e-12 and steps < 50:
        r = 0.5 * (r + a / r)
        steps += 1
    out[i] = r * f64(steps)


@wp.kernel
def breaks(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    s = f64(0.0)
    for j in range(20):
        if j == 3:
            continue
        v = v * 1.1 + 0.1
        if v > 3.0:
            break
        s += v * v
    out[i] = s * v


@wp.kernel
def downwards(x: wp.array(dtype=f64), n: int, step: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    for j in range(n, -3, step):
        v = v * x[wp.abs(j) % 4] + wp.cos(v)
    out[i] = v


@wp.kernel
def gather_scatter(x: wp.array(dtype=f64), index: wp.array(dtype=int), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, index[i], x[index[i]] * x[i])
    wp.atomic_sub(out, 0, wp.sin(x[i]))


@wp.kernel
def winner(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_max(out, i % 2, x[i] * x[i] * 3.0)


@wp.kernel
def vectors(p: wp.array(dtype=wp.vec3d), q: wp.array(dtype=wp.vec3d), out: wp.array(dtype=f64)):
    i = wp.tid()
    a = p[i]
    b = wp.cross(a, q[i]) + 2.0 * a
    b[1] = b.x * a[i % 3]
    c = wp.normalize(b) - wp.min(a, q[i])
    out[i] = wp.dot(c, b) + wp.length(a)


@wp.kernel
def matrices(m: wp.array(dtype=wp.mat33d), v: wp.array(dtype=wp.vec3d), out: wp.array(dtype=f64)):
    i = wp.tid()
    a = m[i]
    b = wp.transpose(a) * a + wp.inverse(a)
    w = b * v[i]
    b[0, 1] = w[2] * w[0]
    out[i] = wp.determinant(b) + wp.trace(a) + w[1] * b[0, 1]


@wp.kernel
def vector_state(p: wp.array(dtype=wp.vec3d), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    v = p[i]
    for j in range(n):
        v = wp.cross(v, p[0]) * 0.5 + v
        v[j % 3] = wp.sin(v[j % 3])
    out[i] = wp.dot(v, v)


@wp.kernel
def overwrites(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = x[i] * x[i]
    out[i] = wp.sin(x[i])
    out[i] += x[i] * 3.0


@wp.kernel
def loads_in_loops(x: wp.array(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    for j in range(out.shape[1]):
        out[i, j] = x[j] * x[i] * x[i]


@wp.kernel
def views(x: wp.array2d(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    row = x[i]
    out[i] = row[0] * row[1] + wp.exp(x[i][2])


def data(*shape):
    return RNG.uniform(-1.5, 1.5, shape)


CASES = {
    "straight": (straight, 5, [data(5), data(5)], 5),
    "branches": (branches, 9, [np.linspace(-1, 1, 9)], 9),
    "plain_sum": (plain_sum, 3, [data(3, 7)], 3),
    "no iterations": (plain_sum, 3, [data(3, 0)], 3),
    "stateful": (stateful, 4, [data(4), 6], 4),
    "stateful, long": (stateful, 3, [data(3) * 0.1, 300], 3),
    "stateful, zero trips": (stateful, 4, [data(4), 0], 4),
    "nested": (nested, 3, [data(3), 5], 3),
    "while": (newton, 4, [data(4)], 4),
    "break and continue": (breaks, 5, [data(5)], 5),
    "negative step": (downwards, 4, [data(4), 5, -2], 4),
    "negative step, odd": (downwards, 4, [data(4), 4, -3], 4),
    "no trips downwards": (downwards, 4, [data(4), -9, -1], 4),
    "gather and scatter": (gather_scatter, 6, [data(6), np.array([1, 1, 2, 0, 3, 1], dtype=np.int32)], 4),
    "atomic max": (winner, 6, [data(6)], 2),
    "vectors": (vectors, 4, [data(4, 3), data(4, 3)], 4),
    "matrices": (matrices, 2, [data(2, 3, 3) + 2 * np.eye(3), data(2, 3)], 2),
    "vector state": (vector_state, 2, [data(2, 3), 7], 2),
    "overwritten output": (overwrites, 3, [data(3)], 3),
    "stores in a loop": (loads_in_loops, 4, [data(4)], (4, 4)),
    "views": (views, 3, [data(3, 3)], 3),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    check(*CASES[name])


def test_gradient_of_a_large_grid():
    x, y = data(2000), data(2000)
    out = wp.zeros(2000, dtype=f64, requires_grad=True)
    a, b = (wp.array(v, dtype=f64, requires_grad=True) for v in (x, y))
    with wp.Tape() as tape:
        wp.launch(straight, dim=2000, inputs=[a, b], outputs=[out])
    tape.backward(grads={out: wp.ones(2000, dtype=f64)})
    q = y * y + 1
    np.testing.assert_allclose(a.grad.numpy(), np.cos(x) * np.exp(y) + (3 * x * x - 2) / q, rtol=1e-12, atol=1e-12)
    expected = np.sin(x) * np.exp(y) - (x**3 - 2 * x) * 2 * y / (q * q)
    np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_ten_thousand_iterations():
    @wp.kernel
    def decay(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        v = x[0]
        for _ in range(10_000):
            v = v - 1.0e-4 * v * v
        out[0] = v

    check(decay, 1, [np.array([1.3])], 1)


def test_a_plain_sum_saves_nothing():
    text = plain_sum.inspect("optimised", wrt=("x", "out"))
    assert "for" in text
    assert "push" not in text
    assert "push" in stateful.inspect("optimised", wrt=("x", "out"))


def test_float32_and_mixed_precision():
    @wp.kernel
    def mixed(x: wp.array(dtype=float), out: wp.array(dtype=f64)):
        i = wp.tid()
        out[i] = wp.sin(f64(x[i])) * f64(int(x[i]))

    x = wp.array(np.array([1.5, -2.25, 3.0]), dtype=float, requires_grad=True)
    out = wp.zeros(3, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(mixed, dim=3, inputs=[x], outputs=[out])
    tape.backward(grads={out: wp.ones(3, dtype=f64)})
    np.testing.assert_allclose(x.grad.numpy(), np.cos([1.5, -2.25, 3.0]) * [1, -2, 3], rtol=1e-6)


# --- refusals ---------------------------------------------------------------------------------------------------


def adjoint_error(kernel, dim, args):
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=args)
    out = args[-1]
    before = [a.grad.numpy().copy() for a in args]
    with pytest.raises((wp.WarpCodegenError, RuntimeError)) as caught:
        tape.backward(grads={out: wp.ones(out.shape, dtype=f64)})
    for a, b in zip(args, before, strict=False):
        np.testing.assert_array_equal(a.grad.numpy(), b)
    return str(caught.value)


def array(*values):
    return wp.array(np.array(values), dtype=f64, requires_grad=True)


def test_reading_what_other_threads_update_is_refused():
    @wp.kernel
    def mixed(y: wp.array(dtype=f64), x: wp.array(dtype=f64)):
        i = wp.tid()
        wp.atomic_add(y, 0, x[i])
        x[i] = wp.sin(y[0])

    message = adjoint_error(mixed, 2, [array(1.0), array(1.0, 2.0)])
    assert message.startswith("the gradient needs this element of `y`, which the same kernel updates by atomics\n")
    assert "x[i] = wp.sin(y[0])" in message
    assert "else read `y` in a second kernel" in message


def test_linear_in_place_updates_are_right():
    @wp.kernel
    def scale(y: wp.array(dtype=f64), x: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = 3.0 * y[i] + x[i]

    y, x = array(1.0, 2.0), array(5.0, 6.0)
    with wp.Tape() as tape:
        wp.launch(scale, dim=2, inputs=[y, x])
    tape.backward(grads={y: array(10.0, 20.0)})
    np.testing.assert_array_equal(y.grad.numpy(), [30, 60])
    np.testing.assert_array_equal(x.grad.numpy(), [10, 20])


def test_exchange_has_no_gradient():
    @wp.kernel
    def exchange(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        wp.atomic_exch(y, 0, x[wp.tid()])

    message = adjoint_error(exchange, 2, [array(1.0, 2.0), array(0.0)])
    assert "atomic_exch() on `y` has no gradient" in message


def test_backward_switched_off():
    @wp.kernel(enable_backward=False)
    def copy(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[i]

    x, y = array(1.0, 2.0), array(0.0, 0.0)
    with pytest.raises(RuntimeError, match="gradients are switched off"):
        wp.launch(copy, 2, [x, y], adjoint=True, adj_inputs=[None, None])


def test_component_indices_out_of_range_have_the_gradient_of_what_happened():
    @wp.kernel
    def pick(p: wp.array(dtype=wp.vec3d), at: wp.array(dtype=int), out: wp.array(dtype=f64)):
        i = wp.tid()
        v = p[i]
        v[at[i]] = v[at[i]] * v[1] * 2.0
        out[i] = v[at[i]] * v[0] + v[2]

    check(pick, 5, [data(5, 3), np.array([0, 1, 2, 3, -7], dtype=np.int32)], 5)
