"""``wp.paddle_op``: values and gradients against Paddle's own, and what it refuses."""

import copy

import numpy as np
import pytest

import warp_like as wp
from tests.interop.operator_kernels import MATRIX, both, square, square_here, two_steps, wave, weighted
from warp_like.interop.op_body import KernelBody

paddle = pytest.importorskip("paddle")
f64 = wp.float64


@wp.kernel
def turn(
    v: wp.array(dtype=wp.vec3d),
    m: wp.mat33d,
    index: wp.array(dtype=wp.int32),
    out: wp.array(dtype=wp.vec3d),
    following: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    out[i] = m * v[index[i]]
    following[i] = index[i] + 1


@wp.kernel
def square_float(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


square_op = wp.paddle_op(square)
wave_op = wp.paddle_op(wave)
both_op = wp.paddle_op(both, outputs=["y", "z"])
weighted_op = wp.paddle_op(weighted, shapes={"total": 1})
here_op = wp.paddle_op(square_here, in_out="x")
steps_op = wp.paddle_op(two_steps, outputs="y")
length = {
    "dim": lambda v, m, index: index.shape[0],
    "shapes": {n: lambda v, m, index: index.shape[0] for n in ("out", "following")},
}
turn_op = wp.paddle_op(turn, **length)


def rand(*shape, grad=True):
    t = paddle.to_tensor(np.asarray(np.random.default_rng(0).random(shape)))
    t.stop_gradient = not grad
    return t


def gradients(function, tensors):
    for t in tensors:
        t.clear_gradient(False)
        t.grad = None
    results = function(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    weights = [paddle.cos(paddle.arange(r.size, dtype="float64")).reshape(r.shape) for r in results]
    sum((r * w).sum() for r, w in zip(results, weights, strict=True)).backward()
    return [r.numpy() for r in results], [t.grad.numpy() for t in tensors]


@pytest.mark.parametrize(
    ("op", "reference", "make"),
    [
        (square_op, lambda x: x * x, lambda: [rand(4)]),
        (lambda x: wave_op(x, 0.5), lambda x: paddle.sin(x) * 0.5, lambda: [rand(4)]),
        (lambda x: both_op(x, 2.0), lambda x: (2 * x * x, 4 * x**4), lambda: [rand(4)]),
        (weighted_op, lambda x, w: (x * w * w).sum().reshape([1]), lambda: [rand(4, 3), rand(3)]),
        (
            lambda x, w: weighted_op(x.T, w),
            lambda x, w: (x.T * w * w).sum().reshape([1]),
            lambda: [rand(3, 4), rand(3)],
        ),
        (here_op, lambda x: x * x, lambda: [rand(4)]),
        (lambda x: steps_op(x, 3.0), lambda x: paddle.sin(x * x) * 3, lambda: [rand(4)]),
        (lambda x: square_op(square_op(x)), lambda x: x**4, lambda: [rand(3)]),
        (lambda x: square_op(x[::2]), lambda x: x[::2] ** 2, lambda: [rand(5)]),
    ],
)
def test_values_and_gradients(op, reference, make):
    got, expected = gradients(op, make()), gradients(reference, make())
    for a, b in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_gradient_for_some_arguments_only():
    x, w = rand(4, 3, grad=False), rand(3)
    weighted_op(x, w).sum().backward()
    assert x.grad is None
    np.testing.assert_allclose(w.grad.numpy(), (2 * x.numpy() * w.numpy()).sum(0))
    x, w = rand(4, 3), rand(3, grad=False)
    weighted_op(x, w).sum().backward()
    assert w.grad is None
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(w.numpy() ** 2, (4, 3)))


def test_components_integers_and_names():
    v, index = rand(3, 3), paddle.to_tensor([0, 2, 2, 1], dtype="int32")
    out, following = turn_op(v, wp.mat33d(*MATRIX), index=index)
    np.testing.assert_allclose(out.numpy(), v.numpy()[index.numpy()] @ np.reshape(MATRIX, (3, 3)).T)
    assert following.tolist() == [1, 3, 3, 2]
    assert following.stop_gradient
    assert not out.stop_gradient
    out.sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), np.outer([1, 1, 2], np.reshape(MATRIX, (3, 3)).sum(0)))
    with pytest.raises(TypeError, match=r"<warp_like paddle_op turn> takes \(v, m, index\)"):
        turn_op(v, index)


def test_gradients_add_up_and_parameters_train():
    layer = paddle.nn.Linear(3, 3)
    data = rand(3, grad=False).astype("float32")
    op = wp.paddle_op(square_float)
    opt = paddle.optimizer.Adam(learning_rate=0.05, parameters=layer.parameters())
    losses = []
    for _ in range(60):
        loss = op(layer(data)).sum() + op(layer(data)).sum()
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.01 * losses[0]


def test_no_grad_and_stop_gradient():
    with paddle.no_grad():
        assert square_op(rand(3)).stop_gradient
    assert square_op(rand(3, grad=False)).stop_gradient
    assert not square_op(rand(3)).stop_gradient


def test_arguments_stay_as_they_are():
    x = rand(4)
    before, version = x.numpy().copy(), x._inplace_version()
    y = here_op(x)
    grad = paddle.ones([4], dtype="float64")
    y.backward(grad)
    assert np.array_equal(x.numpy(), before)
    assert x._inplace_version() == version
    assert grad.tolist() == [1, 1, 1, 1]
    assert y.data_ptr() != x.data_ptr()


def test_saved_arguments_are_watched():
    x = rand(3)
    leaf = x * 1.0
    y = square_op(leaf)
    leaf.add_(paddle.ones_like(leaf))
    with pytest.raises(OSError, match=r"RuntimeError: operator `square`: a tensor of shape \(3,\) .* changed in place"):
        y.sum().backward()

    leaf = x * 1.0
    y = square_op(leaf)
    wp.launch(square_here, 3, [leaf])  # a kernel's write counts as well
    with pytest.raises(OSError, match="changed in place"):
        y.sum().backward()


@pytest.mark.parametrize("make", [lambda x: square_op(x), lambda x: square_op(x) * x, lambda x: square_op(x * x)])
def test_second_derivatives_are_refused(make):
    x = rand(3)
    y = make(x)
    (g,) = paddle.grad(y.sum(), x, create_graph=True)
    assert np.isfinite(g.numpy()).all()
    with pytest.raises(OSError, match="operator `square` has no second derivative"):
        paddle.grad(g.sum(), x)


def test_a_tape_of_the_caller_records_nothing():
    with wp.Tape() as tape:
        steps_op(rand(3), 1.0).sum().backward()
    assert tape.launches == []


def test_empty_and_layers_that_hold_an_operator():
    x = rand(0)
    assert square_op(x).shape == [0]
    layer = paddle.nn.Layer()
    layer.op = square_op
    assert copy.deepcopy(layer).op is square_op


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wp.paddle_op(3), TypeError, r"paddle_op\(\) takes a kernel or a function, got int"),
        (lambda: wp.paddle_op(both), ValueError, r"paddle_op\(both\): the kernel both reads and writes `y`"),
        (lambda: wp.paddle_op(weighted), ValueError, "the shape of `total` does not follow from `x`"),
        (lambda: wp.paddle_op(two_steps, outputs="y", dim=3), ValueError, "gives dim to the launches"),
        (
            lambda: square_op(np.zeros(3)),
            TypeError,
            "operator `square`, argument `x`: expected a tensor .* got ndarray",
        ),
        (
            lambda: square_op(paddle.ones([3])),
            TypeError,
            r"expected a tensor of .*float64 with 1 dimensions .*, got .*float32",
        ),
        (lambda: square_op(rand(3, 3)), TypeError, r"of shape \(3, 3\)"),
        (
            lambda: turn_op(rand(3, 2), MATRIX, paddle.to_tensor([0], dtype="int32")),
            ValueError,
            r"trailing dimensions \(3,\)",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_static_graphs_of_the_older_kind_are_refused():
    paddle.enable_static()
    try:
        with paddle.pir_utils.OldIrGuard():
            x = paddle.static.data("x", [3], "float64")
            with pytest.raises(RuntimeError, match="operator `square` was called while Paddle builds a static graph"):
                square_op(x)
    finally:
        paddle.disable_static()


def test_kernels_without_gradient():
    @wp.kernel(enable_backward=False)
    def plain(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[i]

    op = wp.paddle_op(plain)
    assert op(rand(3, grad=False)).shape == [3]
    with pytest.raises(RuntimeError, match="gradients are switched off"):
        op(rand(3))


@wp.kernel
def oscillate(x: wp.array(dtype=f64), stiffness: f64, axis: wp.vec3d, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = stiffness * wp.sin(x[i]) + wp.dot(axis, axis) * x[i]


def test_numbers_as_tensors_have_gradients():
    op = wp.paddle_op(oscillate, as_tensors=["stiffness", "axis"])

    def reference(x, k, axis):
        return k * paddle.sin(x) + (axis * axis).sum() * x

    got, expected = (gradients(f, [rand(4), rand(), rand(3)]) for f in (op, reference))
    for a, b in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-12)
    with pytest.raises(TypeError, match="argument `s`: expected float64, got a tensor; give numbers"):
        wave_op(rand(3), rand())


def test_only_what_the_gradient_reads_is_watched():
    @wp.kernel
    def triple(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = f64(3.0) * x[i]

    x = rand(3)
    leaf = x * 1.0
    y = wp.paddle_op(triple)(leaf)
    leaf.add_(paddle.ones_like(leaf))  # nobody minds
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_under_autocast_arguments_get_the_dtypes_that_are_declared(monkeypatch):
    """Paddle's own autocast does nothing on the CPU, so the operator is told that it is on."""
    op = wp.paddle_op(square_float)
    x = paddle.to_tensor([1.0, 2.0, 3.0], dtype="float16", stop_gradient=False)
    with pytest.raises(TypeError, match="expected a tensor of paddle.float32 with 1 dimensions"):
        op(x)
    monkeypatch.setattr(paddle.amp, "is_autocast_enabled", lambda: True)
    y = op(x)
    assert y.dtype == paddle.float32
    y.sum().backward()
    assert x.grad.dtype == paddle.float16
    assert x.grad.astype("float32").tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(TypeError, match="expected a tensor of paddle.float32"):
        op(x.astype("float64"))


def test_later_calls_are_one_native_function(monkeypatch):
    """They give what NumPy computes, and no longer go the general way."""
    rng = np.random.default_rng(7)
    wave_op(paddle.to_tensor(rng.normal(size=3)), 2.0)

    def general(*_):
        raise AssertionError("the general way")

    for n in (4, 1, 0, 17):
        x = paddle.to_tensor(rng.normal(size=n), stop_gradient=False)
        weights = np.arange(1.0, n + 1)
        for again in (False, True):
            with monkeypatch.context() as patch:
                if again:
                    patch.setattr(KernelBody, "forward", general)
                    patch.setattr(KernelBody, "_backward", general)
                x.clear_gradient(False)
                y = wave_op(x, 0.5)
                y.backward(paddle.to_tensor(weights))
            np.testing.assert_allclose(y.numpy(), np.sin(x.numpy()) * 0.5, rtol=1e-14)
            np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()) * 0.5 * weights, rtol=1e-14)
    with pytest.raises(TypeError, match=r"expected a tensor of paddle\.float64"):
        wave_op(paddle.arange(3, dtype="float32"), 2.0)
