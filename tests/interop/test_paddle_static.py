"""``wp.paddle_op`` inside Paddle's static graphs, beside the same operator in dynamic mode."""

import gc

import numpy as np
import pytest

import warp_like as wp

paddle = pytest.importorskip("paddle")


@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


@wp.kernel
def several(
    x: wp.array(dtype=float),
    k: float,
    at: wp.array(dtype=int),
    power: int,
    y: wp.array(dtype=float),
    w: wp.array(dtype=wp.vec2),
    found: wp.array(dtype=int),
):
    i = wp.tid()
    y[i] = k * x[at[i]]
    w[i] = wp.vec2(wp.pow(x[i], float(power)), 1.0)
    found[i] = at[i] + 1


@wp.kernel
def damp(v: wp.array(dtype=float), r: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = v[i] * v[i] * r[i]


cube_op = wp.paddle_op(cube)
several_op = wp.paddle_op(several, as_tensors=["k"])
damp_op = wp.paddle_op(damp, in_out=["v"])


def tensor(values, dtype="float32"):
    made = paddle.to_tensor(values, dtype=dtype)
    made.stop_gradient = not dtype.startswith("float")
    return made


def loss_of_cube(x):
    return (cube_op(x * 1.0) * 2.0).sum()


def loss_of_several(x, k, at):
    y, w, found = several_op(x, k, at, 2)
    return (y * y).sum() + (w * w).sum(), found


def loss_of_one_result(x, k, at):
    y, _, _ = several_op(x, k, at, power=3)
    return y.sum()


def loss_of_damped(v, r):
    return (damp_op(damp_op(v, r), r) * r).sum()


@pytest.fixture(autouse=True)
def dynamic_mode():
    yield
    paddle.disable_static()


@pytest.mark.parametrize("full_graph", [False, True])
@pytest.mark.parametrize(
    "loss, given",
    [
        (loss_of_cube, [[1.0, 2.0, 3.0]]),
        (loss_of_several, [[1.0, 2.0, 3.0], 2.0, ([2, 0, 0], "int32")]),
        (loss_of_one_result, [[1.0, 2.0, 3.0], 2.0, ([2, 0, 0], "int32")]),
        (loss_of_damped, [[1.0, 2.0, 3.0], [0.5, 0.25, 2.0]]),
    ],
)
def test_to_static(loss, given, full_graph):
    def run(f):
        args = [tensor(*g) if isinstance(g, tuple) else tensor(g) for g in given]
        result = f(*args)
        first, rest = (result[0], result[1:]) if isinstance(result, tuple) else (result, ())
        gradients = paddle.grad(first, [a for a in args if not a.stop_gradient])
        return [np.asarray(t) for t in (first, *rest, *gradients)]

    static = paddle.jit.to_static(loss, full_graph=full_graph)
    wanted = run(loss)
    for _ in range(2):
        for got, expected in zip(run(static), wanted, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        gc.collect()  # the graph keeps what it calls


@pytest.mark.parametrize("full_graph", [False, True])
def test_without_gradients_and_of_another_shape(full_graph):
    static = paddle.jit.to_static(loss_of_cube, full_graph=full_graph)
    assert static(paddle.ones([3])).item() == 6.0
    assert static(paddle.ones([4])).item() == 8.0
    with paddle.no_grad():
        assert static(tensor([2.0])).item() == 16.0


def test_a_program_with_an_open_dimension():
    paddle.enable_static()
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        x = paddle.static.data("x", [-1], "float32")
        x.stop_gradient = False
        loss = loss_of_cube(x)
        (gradient,) = paddle.static.gradients([loss], [x])
    executor = paddle.static.Executor()
    for n in (3, 2):
        values = np.arange(1, n + 1, dtype=np.float32)
        got = executor.run(program, feed={"x": values}, fetch_list=[loss, gradient])
        np.testing.assert_allclose(got[0], 2 * (values**3).sum())
        np.testing.assert_allclose(got[1], 6 * values**2)


def test_what_is_refused():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [3], "float32")
        x.stop_gradient = False
        flat = paddle.static.data("flat", [3, 2], "float32")
        exact = paddle.static.data("exact", [3], "float64")
        for given in (flat, exact):
            with pytest.raises(
                TypeError, match=r"operator `cube`, argument `x`: expected a tensor of .*float32 with 1 dim"
            ):
                cube_op(given)
        with pytest.raises(TypeError, match=r"argument `power`: expected int32, got a tensor"):
            several_op(x, x.sum(), x.astype("int32"), x)
        (g,) = paddle.static.gradients([cube_op(x).sum()], [x])
        with pytest.raises(ValueError, match="backward function id of pylayer"):  # Paddle's: no second derivative
            paddle.static.gradients([g.sum()], [x])
