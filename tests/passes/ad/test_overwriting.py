"""Gradients where arrays are overwritten: by the kernel that reads them, through aliases, and by later launches."""

import numpy as np
import pytest

import warp_like as wp

f64 = wp.float64
RNG = np.random.default_rng(11)


def gradient(program, x, *, step=1e-6):
    """Return the gradient of ``sum(w * program(x))`` by a tape, and by central differences.

    ``program(a)`` works on the array ``a`` and returns the array that holds the result.
    """
    a = wp.array(x, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        out = program(a)
    w = RNG.normal(size=out.shape)
    tape.backward(grads={out: wp.array(w, dtype=f64)})

    def value(y):
        return float(np.sum(program(wp.array(y, dtype=f64, requires_grad=True)).numpy() * w))

    expected = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        plus, minus = x.copy(), x.copy()
        plus[k] += step
        minus[k] -= step
        expected[k] = (value(plus) - value(minus)) / (2 * step)
    return a.grad.numpy(), expected


def check(program, x, tolerance=2e-6):
    got, expected = gradient(program, x)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


def copied(a):
    b = wp.zeros(a.shape, dtype=f64, requires_grad=True)
    wp.copy(b, a)
    return b


@wp.kernel
def in_place(y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.sin(y[i]) * y[i]


@wp.kernel
def read_after_write(y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = y[i] * y[i]
    if y[i] > f64(0.2):
        y[i] = wp.exp(y[i]) + y[i]
    z[i] = y[i] * wp.cos(y[i])


@wp.kernel
def in_place_loop(y: wp.array(dtype=f64), n: int):
    i = wp.tid()
    for _j in range(n):
        y[i] = wp.sin(y[i]) + f64(0.5) * y[i] * y[i]
        y[i] *= f64(1.1)


@wp.kernel
def in_place_while(y: wp.array(dtype=f64)):
    i = wp.tid()
    while y[i] < f64(2.0):
        if y[i] > f64(1.0):
            y[i] = y[i] * y[i]
        else:
            for _ in range(2):
                y[i] = y[i] + f64(0.3) * wp.exp(-y[i])


@wp.kernel
def cholesky(a: wp.array2d(dtype=f64)):
    n = a.shape[0]
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= a[j, k] * a[j, k]
        d = wp.sqrt(s)
        a[j, j] = d
        for i in range(j + 1, n):
            t = a[i, j]
            for k in range(j):
                t -= a[i, k] * a[j, k]
            a[i, j] = t / d


@wp.kernel
def prefix_products(a: wp.array(dtype=f64)):
    for i in range(1, a.shape[0]):
        a[i] = a[i] * a[i - 1]


@wp.kernel
def square_into(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i] + wp.sin(x[i])


@wp.kernel
def twice(x: wp.array(dtype=f64), y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * f64(2.0)
    z[i] = x[i] * y[i] * x[i]


@wp.kernel
def product(x: wp.array(dtype=f64), y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    z[i] = x[i] * y[i]


def test_in_place():
    def program(a):
        y = copied(a)
        wp.launch(in_place, dim=5, inputs=[y])
        return y

    check(program, RNG.normal(size=5))


def test_read_after_write():
    def program(a):
        y, z = copied(a), wp.zeros(6, dtype=f64, requires_grad=True)
        wp.launch(read_after_write, dim=6, inputs=[y, z])
        return z

    check(program, np.linspace(-1, 1, 6))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_in_place_in_a_loop(n):
    def program(a):
        y = copied(a)
        wp.launch(in_place_loop, dim=4, inputs=[y, n])
        return y

    check(program, np.linspace(-0.5, 0.5, 4))


def test_in_place_in_nested_control_flow():
    def program(a):
        y = copied(a)
        wp.launch(in_place_while, dim=4, inputs=[y])
        return y

    check(program, np.array([0.1, 0.45, 1.2, 2.5]))


def test_cholesky_in_an_array():
    def program(a):
        y = wp.zeros((4, 4), dtype=f64, requires_grad=True)
        wp.copy(y, a)
        wp.launch(cholesky, dim=1, inputs=[y])
        return y

    m = RNG.normal(size=(4, 4))
    check(program, m @ m.T + 4 * np.eye(4), tolerance=1e-5)


def test_prefix_products_by_one_thread():
    def program(a):
        y = copied(a)
        wp.launch(prefix_products, dim=1, inputs=[y])
        return y

    check(program, RNG.uniform(0.5, 1.5, size=6))


def test_one_array_as_input_and_output():
    def program(a):
        y = copied(a)
        wp.launch(square_into, dim=4, inputs=[y, y])
        return y

    check(program, RNG.normal(size=4))


def test_one_array_as_input_and_output_read_again():
    def program(a):
        y, z = copied(a), wp.zeros(4, dtype=f64, requires_grad=True)
        wp.launch(twice, dim=4, inputs=[y, y, z])
        return z

    check(program, RNG.normal(size=4))


def test_one_array_passed_twice_to_be_read():
    def program(a):
        z = wp.zeros(4, dtype=f64, requires_grad=True)
        wp.launch(product, dim=4, inputs=[a, a, z])
        return z

    check(program, RNG.normal(size=4))


def test_overlapping_views_that_are_only_read():
    def program(a):
        z = wp.zeros(4, dtype=f64, requires_grad=True)
        wp.launch(product, dim=4, inputs=[a[:4], a[1:], z])
        return z

    check(program, RNG.normal(size=5))


def test_views_of_one_array_that_do_not_overlap():
    def program(a):
        y = copied(a)
        wp.launch(square_into, dim=3, inputs=[y[::2], y[1::2]])
        return y

    check(program, RNG.normal(size=6))


def test_overlapping_views_are_refused_where_the_gradient_needs_them():
    a = wp.array(np.arange(5.0), dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square_into, dim=4, inputs=[a[:4], a[1:]])
    with pytest.raises(
        RuntimeError, match="kernel `square_into`: the gradient needs `x`, and the kernel wrote over a part"
    ):
        tape.backward(grads={a: wp.ones(5, dtype=f64)})


@wp.kernel
def one_thread_through_two_views(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    x[1] = x[0] * x[1]
    y[0] = wp.sin(y[0]) * y[0]
    x[2] = x[1] * x[2]


def test_views_that_overlap_and_are_both_updated():
    """``y[0]`` is ``x[1]``: the copy that is kept of ``x`` does not see what is written through ``y``."""
    a = wp.array(np.arange(1.0, 6.0), dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(one_thread_through_two_views, dim=1, inputs=[a[:4], a[1:]])
    with pytest.raises(
        RuntimeError, match="the gradient needs `x`, and the kernel wrote over a part of its memory through `y`"
    ):
        tape.backward(grads={a: wp.ones(5, dtype=f64)})
    t = wp.zeros(5, dtype=f64)
    views = [a[:4], a[1:]]
    with pytest.raises(RuntimeError, match="the gradient needs `x`, but the kernel wrote over its memory"):
        wp.autograd.hvp(one_thread_through_two_views, 1, outputs=views, adj_outputs=[t[:4], t[1:]])

    def apart(a):
        y = copied(a)
        wp.launch(one_thread_through_two_views, dim=1, inputs=[y[:3], y[3:]])
        return y

    check(apart, RNG.normal(size=5))


@wp.kernel
def linear_through_two_shapes(
    rows: wp.array2d(dtype=f64), flat: wp.array(dtype=f64), x: wp.array(dtype=f64), out: wp.array(dtype=f64)
):
    i = wp.tid()
    before = flat[i]
    rows[i // 3, i % 3] = 2.0 * x[i] - before
    out[i] = before + 3.0 * flat[i]


def test_one_memory_in_two_shapes_where_the_gradient_needs_no_elements():
    def program(a):
        y, x, out = copied(a), copied(a), wp.zeros(6, dtype=f64, requires_grad=True)
        for _ in range(2):
            wp.launch(linear_through_two_shapes, dim=6, inputs=[y.reshape((2, 3)), y, x, out])
            wp.launch(in_place, dim=6, inputs=[x])
        wp.launch(linear_through_two_shapes, dim=6, inputs=[y.reshape((2, 3)), y, out, x])
        return x

    check(program, RNG.normal(size=6))


def test_a_state_overwritten_by_every_launch():
    def program(a):
        y, z = copied(a), wp.zeros(3, dtype=f64, requires_grad=True)
        for _ in range(4):
            wp.launch(square_into, dim=3, inputs=[y, z])
            wp.launch(in_place, dim=3, inputs=[z])
            wp.copy(y, z)
        return y

    check(program, RNG.uniform(-0.6, 0.6, size=3))


def test_overwritten_by_the_host():
    def program(a):
        y, z, w = copied(a), *(wp.zeros(3, dtype=f64, requires_grad=True) for _ in range(2))
        wp.launch(square_into, dim=3, inputs=[y, z])
        y.fill_(7.0)
        wp.launch(product, dim=3, inputs=[y, z, w])
        y.assign(w)
        y[1:2] = z[2:3]
        z.zero_()
        return y

    check(program, RNG.normal(size=3))


def test_what_no_adjoint_needs_is_not_copied():
    y, z = (wp.zeros(3, dtype=f64, requires_grad=True) for _ in range(2))

    @wp.kernel
    def shift(y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
        i = wp.tid()
        z[i] = y[i] + f64(1.0)

    with wp.Tape() as tape:
        for _ in range(3):
            wp.launch(shift, dim=3, inputs=[y, z])
            wp.launch(shift, dim=3, inputs=[z, y])
    assert all(not r.saved and not r.prelaunch_copies for r in tape.launches)
    tape.backward(grads={y: wp.ones(3, dtype=f64)})
    np.testing.assert_array_equal(y.grad.numpy(), 1)


def test_copies_do_not_serve_another_run():
    x = wp.array(np.array([0.3, 0.4]), dtype=f64, requires_grad=True)
    y = wp.zeros(2, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.copy(y, x)
        wp.launch(in_place, dim=2, inputs=[y])
    tape.backward(grads={y: wp.ones(2, dtype=f64)})
    x.assign(np.array([0.5, 0.6]))
    wp.copy(y, x)
    wp.launch(in_place, dim=2, inputs=[y])
    before = x.grad.numpy().copy()
    with pytest.raises(RuntimeError, match="holds copies of .* record the forward pass again"):
        tape.backward(grads={y: wp.ones(2, dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), before)


def test_backward_twice_gives_the_same():
    x = wp.array(np.array([0.3, 0.4]), dtype=f64, requires_grad=True)
    y = wp.zeros(2, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.copy(y, x)
        wp.launch(in_place_loop, dim=2, inputs=[y, 3])
    tape.backward(grads={y: wp.ones(2, dtype=f64)})
    first = x.grad.numpy().copy()
    tape.zero()
    tape.backward(grads={y: wp.ones(2, dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), first)


def test_an_explicit_adjoint_launch_that_needs_earlier_elements_is_refused():
    y, g = np.ones(2), np.ones(2)
    with pytest.raises(RuntimeError, match="needs the elements of `y` from before the launch.* Tape"):
        wp.launch(in_place, dim=2, inputs=[y], adj_inputs=[g], adjoint=True)


def test_a_source_that_is_repeated_is_refused():
    x, y = wp.ones(1, dtype=f64, requires_grad=True), wp.zeros((2, 1), dtype=f64, requires_grad=True)
    with wp.Tape(), pytest.raises(RuntimeError, match="the gradient does not pass"):
        y[:] = x


@wp.kernel
def adds_to_what_it_reads(y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] += wp.sin(y[i])
    y[i] -= y[i] * y[i]
    z[i] += y[i] * wp.exp(y[i])


def test_in_place_operators_on_what_the_kernel_reads():
    def program(a):
        y, z = copied(a), wp.zeros(4, dtype=f64, requires_grad=True)
        wp.launch(adds_to_what_it_reads, dim=4, inputs=[y, z])
        return z

    check(program, RNG.uniform(-1, 1, size=4))


@wp.struct
class Particle:
    mass: f64
    place: wp.vec3d


@wp.func_native(snippet="return y[i] * 3.0;", adj_snippet="adj_y[i] += 3.0 * adj_ret;")
def three_times(y: wp.array(dtype=f64), i: int) -> f64: ...


@wp.kernel
def two_rewritten(parts: wp.array2d(dtype=Particle), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = parts[i, 0].mass * f64(parts[i].shape[0])
    parts[i, 1].mass = f64(2.0)
    y[i] = wp.sin(y[i]) * y[i]


@wp.kernel
def read_by_native_code_alone(y: wp.array(dtype=f64), x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    s = three_times(y, i)
    y[i] = x[i]
    out[i] = wp.sin(s)


def test_of_two_overwritten_arrays_the_gradient_needs_one():
    numbers = RNG.normal(size=(3, 2, 4))
    parts = wp.array(numbers.view(np.dtype(Particle.numpy_dtype()))[..., 0], dtype=Particle, requires_grad=True)
    y = RNG.normal(size=3)
    a, out = wp.array(y, dtype=f64, requires_grad=True), wp.zeros(3, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(two_rewritten, dim=3, inputs=[parts, a, out])
    assert list(tape.launches[0].prelaunch_copies) == [1]  # of the particles no copy is kept
    tape.backward(grads={out: wp.ones(3, dtype=f64), a: wp.ones(3, dtype=f64)})
    np.testing.assert_allclose(a.grad.numpy(), np.cos(y) * y + np.sin(y))
    assert parts.grad.numpy()["mass"].tolist() == [[2.0, 0.0]] * 3


def test_native_code_alone_reads_what_the_kernel_overwrites():
    def program(a):
        y, x, out = copied(a), copied(a), wp.zeros(3, dtype=f64, requires_grad=True)
        wp.launch(read_by_native_code_alone, dim=3, inputs=[y, x, out])
        return out

    check(program, RNG.normal(size=3))


@wp.kernel
def one_decides_and_one_scales(y: wp.array(dtype=f64), turns: wp.array(dtype=int), out: wp.array(dtype=f64)):
    i = wp.tid()
    old = y[i]
    factor = f64(2.0)
    if turns[i] > 0:
        for _ in range(turns[i]):
            factor = factor * f64(0.7) + f64(0.1)
    turns[i] = 0
    y[i] = f64(0.0)
    out[i] = factor * old * old


def test_an_overwritten_array_that_decides_alone():
    def program(a):
        y, turns, out = copied(a), wp.array([0, 1, 3], dtype=int), wp.zeros(3, dtype=f64, requires_grad=True)
        wp.launch(one_decides_and_one_scales, dim=3, inputs=[y, turns, out])
        return out

    check(program, RNG.normal(size=3))
