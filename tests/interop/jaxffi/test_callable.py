"""Python functions of several launches, called from JAX."""

import copy

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.jaxffi.kernels import advance, scale, stencil, stencil_np, total  # noqa: E402
from warp_like.interop.jaxffi import jax_callable  # noqa: E402

jnp = jax.numpy
random = np.random.default_rng(6)


def floats(*shape):
    return random.random(shape, dtype=np.float32)


def twice(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
    half = wp.zeros_like(x)
    wp.launch(stencil, dim=x.shape, inputs=[x], outputs=[half])
    wp.launch(scale, dim=x.shape[0], inputs=[half, a], outputs=[y])


@pytest.mark.parametrize("jit", [lambda f, **_: f, jax.jit])
def test_launches_follow_each_other(jit):
    f = jit(jax_callable(twice), static_argnums=1)
    x = floats(9)
    assert np.allclose(f(x, 3.0)[0], 3 * stencil_np(x))
    assert np.allclose(f(x, 2.0)[0], 2 * stencil_np(x))


def test_it_runs_once_for_each_shape_and_number():
    seen = []

    def watched(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
        seen.append((x.shape, a))
        wp.launch(scale, dim=len(x), inputs=[x, a], outputs=[y])

    f = jax_callable(watched)
    for _ in range(3):
        f(floats(4), 2.0)
    f(floats(5), 2.0)
    f(floats(5), 3.0)
    assert seen == [((4,), 2.0), ((5,), 2.0), ((5,), 3.0)]


def test_vmap_and_scan():
    f = jax_callable(twice)
    x = floats(3, 4, 7)
    y = jax.jit(jax.vmap(jax.vmap(lambda r: f(r, 2.0)[0])))(x)
    assert np.allclose(y, [[2 * stencil_np(r) for r in m] for m in x])
    last, _ = jax.lax.scan(lambda c, _: (f(c, 0.5)[0], None), x[0, 0], None, length=3)
    expected = x[0, 0]
    for _ in range(3):
        expected = 0.5 * stencil_np(expected)
    assert np.allclose(last, expected)


def test_in_out_arguments_written_twice():
    def steps(v: wp.array(dtype=float), x: wp.array(dtype=float), old: wp.array(dtype=float)):
        for _ in range(3):
            wp.launch(advance, dim=x.shape, inputs=[v, x, 0.5], outputs=[old])

    v, x = floats(5), floats(5)
    new, old = jax.jit(jax_callable(steps, num_outputs=2, in_out_argnames=["x"]))(v, x)
    for _ in range(3):
        before, x = x, x * x + np.float32(0.5) * v
    assert np.allclose(new, x)
    assert np.allclose(old, before)


def test_views_and_strides():
    def rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        for i in range(x.shape[0]):
            wp.launch(stencil, dim=x.shape[1], inputs=[x[i]], outputs=[y[i]])
        wp.launch(scale, dim=x.shape[0], inputs=[y[:, 0], 10.0], outputs=[y[:, 1]])

    x = floats(3, 6)
    (y,) = jax.jit(jax_callable(rows))(x)
    expected = np.stack([stencil_np(r) for r in x])
    expected[:, 1] = 10 * expected[:, 0]
    assert np.allclose(y, expected)
    batch = floats(2, 3, 6)
    z = jax.vmap(lambda m: jax_callable(rows)(m)[0])(batch)
    assert np.allclose(z[1], jax_callable(rows)(batch[1])[0])


def test_vectors_constants_and_sums():
    @wp.kernel
    def shift(x: wp.array(dtype=wp.vec3), by: wp.vec3, table: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        y[i] = x[i] + by * table[1]

    table = wp.array([1.0, 2.0, 3.0], dtype=float)

    def moved(x: wp.array(dtype=wp.vec3), by: wp.vec3, y: wp.array(dtype=wp.vec3), s: wp.array(dtype=float)):
        wp.launch(shift, dim=len(x), inputs=[x, by, table], outputs=[y])
        ones = wp.empty(len(x), dtype=float)
        ones.fill_(2.0)
        wp.launch(total, dim=len(x), inputs=[ones], outputs=[s])

    x = floats(4, 3)
    y, s = jax.jit(lambda x: jax_callable(moved, num_outputs=2, output_dims={"s": 1})(x, (1.0, 0.0, 2.0)))(x)
    assert np.allclose(y, x + 2 * np.array([1, 0, 2]))
    assert s.tolist() == [16]


def test_the_host_copies_and_fills():
    def shuffle(
        x: wp.array2d(dtype=float),
        v: wp.array(dtype=wp.vec3),
        y: wp.array2d(dtype=float),
        w: wp.array(dtype=wp.vec3),
        n: wp.array2d(dtype=float),
    ):
        half = wp.clone(x)
        y.fill_(4.0)
        y[1:, ::2] = 7.0
        wp.copy(y[0], half[1])
        y[:, 1] = [5.0, 6.0]
        wp.copy(half, y, dest_offset=1, src_offset=2, count=3)
        wp.copy(half, half, dest_offset=3, count=3)
        w.assign(v)
        w[1:2] = wp.vec3(1.0, 2.0, 3.0)
        w[:1].zero_()
        n.assign(half)
        n.view(wp.vec3)[:1].fill_(wp.vec3(9.0, 8.0, 7.0))

    x, v = floats(2, 3), floats(4, 3)
    y = np.full((2, 3), 4.0, np.float32)
    y[1:, ::2] = 7.0
    y[0] = x[1]
    y[:, 1] = [5.0, 6.0]
    half = x.ravel().copy()
    half[1:4] = y.ravel()[2:5]
    half[3:] = half[:3].copy()
    half[:3] = [9.0, 8.0, 7.0]
    w = v.copy()
    w[:2] = [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]
    f = jax_callable(shuffle, num_outputs=3, output_dims={"y": (2, 3), "w": 4, "n": (2, 3)})
    expected = y, w, half.reshape(2, 3)
    for got in (f(x, v), jax.jit(f)(x, v), [z[1] for z in jax.vmap(f)(np.stack([v[:2], x]), np.stack([0 * v, v]))]):
        for a, b in zip(got, expected, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "copied",
    [
        wp.clone,
        copy.deepcopy,
        wp.array,
        lambda t: t[::-1].contiguous(),
        lambda t: wp.indexedarray(t, wp.array([3, 2, 1, 0], dtype=int)).contiguous(),
        lambda t: wp.array([t, t])[1],
    ],
)
def test_copies_of_arrays_that_launches_write(copied):
    """A copy is made when JAX runs, after the launch."""

    def function(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        half = wp.zeros(4)
        wp.launch(scale, dim=4, inputs=[x, 2.0], outputs=[half])
        wp.launch(scale, dim=4, inputs=[copied(half), 3.0], outputs=[y])

    x = np.float32([1.0, 2.0, 2.0, 1.0])
    assert np.array_equal(jax_callable(function)(x)[0], 6.0 * x)


def test_derivatives_of_copies():
    def rotated(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.copy(y, x, src_offset=1, count=len(x) - 1)
        wp.copy(y, x, dest_offset=len(x) - 1, count=1)
        twice_more = wp.empty_like(y)
        twice_more.assign(y)
        wp.launch(stencil, dim=len(x), inputs=[twice_more], outputs=[y])

    f = jax_callable(rotated)
    same_derivatives(lambda x: f(x)[0], lambda x: stencil_jnp(jnp.roll(x, -1)), floats(5))


def test_refusals():
    def looks(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        if x.numpy()[0] > 0:
            wp.launch(stencil, dim=len(x), inputs=[x], outputs=[y])

    def peeks(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        float(x[0])

    def looks_between(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        between = wp.zeros_like(y)
        wp.launch(stencil, dim=len(x), inputs=[x], outputs=[between])
        between.numpy()

    def writes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.launch(stencil, dim=len(x), inputs=[y], outputs=[x])

    def sorts(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.utils.array_scan(x, y)

    def overwrites(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.copy(x, y)

    def returns(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        return y

    def bare(x, y: wp.array(dtype=float)):
        pass

    for f, error, text in (
        (looks, RuntimeError, "arrays have no elements on the host"),
        (peeks, RuntimeError, "arrays have no elements on the host"),
        (looks_between, RuntimeError, "arrays have no elements on the host"),
        (writes, ValueError, 'in_out_argnames=."x".'),
        (sorts, RuntimeError, "do this with a kernel"),
        (overwrites, ValueError, 'in_out_argnames=."x".'),
        (returns, TypeError, "its outputs are its last arguments"),
    ):
        with pytest.raises(error, match=text):
            jax_callable(f)(floats(3))
        x = wp.zeros(1)  # the launch path is as it was
        wp.launch(total, dim=1, inputs=[wp.array([3.0], dtype=float)], outputs=[x])
        assert x.numpy()[0] == 9
    with pytest.raises(TypeError, match="`x` of `bare` has no annotation"):
        jax_callable(bare)
    with pytest.raises(TypeError, match="a traced value; numbers are static here"):
        jax.jit(lambda x, a: jax_callable(twice)(x, a))(floats(3), 2.0)


@pytest.mark.parametrize(
    "look",
    [
        np.asarray,
        np.sum,
        memoryview,
        lambda a: a.__array_interface__,
        lambda a: wp.array(a, copy=False).numpy(),
        lambda a: a[1:].reshape((2, 2)).list(),
        wp.to_jax,
        lambda a: pytest.importorskip("torch") and wp.to_torch(a),
    ],
)
def test_elements_are_not_shown_before_they_are_computed(look):
    """Neither those of an argument nor those of an array between two launches."""

    def function(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        between = wp.zeros(5)
        wp.launch(stencil, dim=5, inputs=[x], outputs=[between])
        for a in (x, between):
            with pytest.raises(RuntimeError, match="arrays have no elements on the host"):
                look(a)
        wp.copy(y, between)

    x = floats(5)
    np.testing.assert_allclose(jax_callable(function)(x)[0], stencil_np(x), rtol=1e-6)


def tapes(x, y):
    with wp.Tape():
        wp.launch(stencil, dim=len(x), inputs=[x], outputs=[y])


def runs_an_adjoint(x, y):
    wp.launch(stencil, len(x), [x], [y], adj_inputs=[wp.zeros_like(x)], adj_outputs=[wp.ones_like(y)], adjoint=True)


def goes_forward(x, y):
    wp.autograd.jvp(stencil, len(x), [x, y], tangents=[wp.ones_like(x), None])


def captures(x, y):
    with wp.ScopedCapture():
        wp.launch(stencil, dim=len(x), inputs=[x], outputs=[y])


def widens(x, y):
    wp.utils.array_cast(x, wp.zeros(len(x), dtype=wp.float64))


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        (tapes, RuntimeError, "tapes record nothing, since JAX runs the launches later"),
        (runs_an_adjoint, RuntimeError, "no adjoints run, since JAX runs the launches later"),
        (goes_forward, RuntimeError, "forward mode gives nothing, since JAX runs the launches later"),
        (captures, RuntimeError, "nothing is captured, since JAX runs the launches later"),
        (widens, TypeError, "a launch takes an array of float64, and JAX has no 64-bit types unless"),
    ],
)
def test_what_would_run_at_once_is_refused(what, error, text):
    def function(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        what(x, y)

    with pytest.raises(error, match=text):
        jax_callable(function)(floats(4))


def stencil_jnp(x):
    padded = jnp.concatenate([x[:1], x, x[-1:]])
    return padded[:-2] * padded[2:] + x


def same_derivatives(ours, theirs, *args):
    def loss_of(f):
        return lambda *args: jnp.sum(jnp.sin(f(*args)))

    which = tuple(range(len(args)))
    for derivative in (jax.jacfwd, jax.jacrev, jax.hessian):
        got = jax.jit(derivative(loss_of(ours), which))(*args)
        expected = jax.jit(derivative(loss_of(theirs), which))(*args)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            assert np.allclose(a, b, rtol=1e-3, atol=1e-4)


def test_derivatives_of_launches_that_follow_each_other():
    f = jax_callable(twice)
    same_derivatives(lambda x: f(x, 3.0)[0], lambda x: 3 * stencil_jnp(x), floats(5))
    x = floats(3, 5)
    same_derivatives(jax.vmap(lambda x: f(x, 3.0)[0]), jax.vmap(lambda x: 3 * stencil_jnp(x)), x)


def test_derivatives_through_memory_that_changes():
    def steps(v: wp.array(dtype=float), x: wp.array(dtype=float), old: wp.array(dtype=float)):
        for _ in range(2):
            wp.launch(advance, dim=x.shape, inputs=[v, x, 0.5], outputs=[old])

    f = jax_callable(steps, num_outputs=2, in_out_argnames=["x"])

    def ours(v, x):
        new, old = f(v, x)
        return new + 3 * old

    def theirs(v, x):
        once = x * x + 0.5 * v
        return once * once + 0.5 * v + 3 * once

    same_derivatives(ours, theirs, floats(4), floats(4))


def test_derivatives_through_views():
    @wp.kernel
    def times(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
        i = wp.tid()
        z[i] = x[i] * y[i]

    def columns(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        n = x.shape[0]
        wp.launch(times, dim=n, inputs=[x[:, 0], x[:, 1]], outputs=[y[:, 2]])
        wp.launch(times, dim=n, inputs=[y[:, 2], x[:, 2]], outputs=[y[:, 0]])  # one memory, read and written
        wp.launch(times, dim=n, inputs=[x[:, 1], x[:, 1]], outputs=[y[:, 1]])  # one view for two arguments

    f = jax_callable(columns)

    def theirs(x):
        first = x[:, 0] * x[:, 1]
        return jnp.stack([first * x[:, 2], x[:, 1] ** 2, first], 1)

    same_derivatives(lambda x: f(x)[0], theirs, floats(4, 3))


def test_derivatives_that_are_refused():
    @wp.kernel(enable_backward=False)
    def off(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i]

    def launches_off(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.launch(off, dim=x.shape, inputs=[x], outputs=[y])

    @wp.kernel
    def square_beside(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[2 * i] = x[2 * i + 1] * x[2 * i + 1]

    def overlaps(x: wp.array(dtype=float)):
        wp.launch(square_beside, dim=2, inputs=[x], outputs=[x[1:]])

    def loss(f):
        return lambda x: f(x)[0].sum()

    x = floats(6)
    assert np.array_equal(jax_callable(launches_off)(x)[0], x)
    with pytest.raises(RuntimeError, match="kernel `off`: gradients are switched off"):
        jax.grad(loss(jax_callable(launches_off)))(x)
    with pytest.raises(RuntimeError, match="the gradient needs `x`, but the kernel wrote over its memory through `y`"):
        jax.grad(loss(jax_callable(overlaps, in_out_argnames=["x"])))(x)


def copier(element):
    def copied(x: "wp.array(dtype=element)", out: "wp.array(dtype=element)"):
        wp.copy(out, x)

    def captured(x: "wp.array(dtype=element)", out: "wp.array(dtype=element)"):
        assert element in (wp.float32, wp.int32)
        wp.copy(out, x)

    return jax_callable(copied), jax_callable(captured)


@pytest.mark.parametrize(("element", "dtype"), [(wp.float32, np.float32), (wp.int32, np.int32)])
def test_annotations_as_text_name_variables_around_the_function(element, dtype):
    for f in copier(element):
        assert f(jnp.arange(3, dtype=dtype))[0].tolist() == [0, 1, 2]


def test_an_annotation_as_text_that_names_nothing():
    def unknown(x: "wp.array(dtype=nothing_of_this_name)", y: wp.array(dtype=float)):  # noqa: F821
        pass

    with pytest.raises(NameError, match="nothing_of_this_name"):
        jax_callable(unknown)
