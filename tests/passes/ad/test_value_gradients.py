"""``wp.grad(f)`` in kernels: against finite differences, JAX's formulas written out, and Warp's meaning."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define


@wp.func
def cube(x: float):
    return x * x * x


@wp.func
def mixed(x: wp.float64, y: wp.vec2d, n: int):
    return x * x * y[0] * y[1] * wp.float64(n), y * x


@wp.func
def settled(x: wp.float64, n: int):
    s = x
    for _ in range(n):
        s = s * wp.sin(s) + x
    return s


@wp.func
def branching(x: wp.float64):
    if x > 1.0:
        return x * x
    return wp.exp(x)


@wp.func
def sample(table: wp.array(dtype=wp.float64), i: int, t: wp.float64):
    return table[i] * (1.0 - t) + table[i + 1] * t


@wp.func
def clipped(x: float):
    return wp.sqrt(x)


@wp.func_grad(clipped)
def adj_clipped(x: float, adj_ret: float):
    wp.adjoint[x] += 100.0 * adj_ret


@wp.func
def through(x: float):
    return 2.0 * clipped(x)


cube_slope = wp.grad(cube)


def test_one_argument_and_several():
    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        dx, dy, dn = wp.grad(mixed)(wp.float64(3.0), wp.vec2d(1.0, 2.0), 2)
        out[0] = dx  # of the sum of all components that the function returns
        out[1] = dy[0]
        out[2] = dy[1]
        out[3] = wp.float64(dn)  # an integer has none
        out[4] = wp.float64(wp.grad(cube)(2.0))
        out[5] = wp.grad(wp.cos)(wp.float64(0.5))
        db, da = wp.grad(wp.atan2)(wp.float64(1.0), wp.float64(2.0))
        out[6] = db
        out[7] = da

    out = np.zeros(8)
    wp.launch(k, 1, inputs=[out])
    np.testing.assert_allclose(out, [27.0, 39.0, 21.0, 0.0, 12.0, -np.sin(0.5), 0.4, -0.2], rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_a_loop_of_unknown_length_in_many_threads(n):
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), n: int, out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        for _ in range(2):
            dx, _dn = wp.grad(settled)(x[i], n)
            out[i] += dx

    def value(x: np.ndarray) -> np.ndarray:
        s = x
        for _ in range(n):
            s = s * np.sin(s) + x
        return s

    x = np.linspace(0.1, 0.5, 1000)
    out = np.zeros(1000)
    wp.launch(k, 1000, inputs=[x, n, out])
    h = 1e-7
    np.testing.assert_allclose(out, 2 * (value(x + h) - value(x - h)) / (2 * h), rtol=2e-6)


def test_branches_and_array_arguments():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), table: wp.array(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
        i = wp.tid()
        out[i, 0] = wp.grad(branching)(x[i])
        _di, dt = wp.grad(sample)(table, i, x[i])  # an array is a constant and has no result
        out[i, 1] = dt

    x, table, out = np.array([0.5, 2.0]), np.array([1.0, 4.0, 9.0]), np.zeros((2, 2))
    wp.launch(k, 2, inputs=[x, table, out])
    np.testing.assert_allclose(out, [[np.exp(0.5), 3.0], [4.0, 5.0]], rtol=1e-12)


def test_other_names_and_repeated_gradients():
    @wp.kernel
    def k(out: wp.array(dtype=float)):
        slope = wp.grad(cube)
        out[0] = slope(2.0)
        out[1] = cube_slope(2.0)
        out[2] = wp.grad(wp.grad(cube))(2.0)
        out[3] = wp.grad(cube_slope)(3.0)

    out = np.zeros(4, np.float32)
    wp.launch(k, 1, inputs=[out])
    assert out.tolist() == [12.0, 12.0, 12.0, 18.0]


def test_a_gradient_function_of_the_user_is_used():
    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = wp.grad(clipped)(4.0)
        out[1] = wp.grad(through)(4.0)

    out = np.zeros(2, np.float32)
    wp.launch(k, 1, inputs=[out])
    assert out.tolist() == [100.0, 200.0]


def test_in_a_gradient_function():
    module = define(
        """
        @wp.func
        def f(x: float):
            return x * x * x
        @wp.func
        def g(x: float):
            return f(x)
        @wp.func_grad(g)
        def adj_g(x: float, adj_ret: float):
            wp.adjoint[x] += 10.0 * wp.grad(f)(x) * adj_ret
        @wp.kernel
        def k(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = g(x[i])
        """
    )
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(module["k"], 2, inputs=[x, out])
    tape.backward(grads={out: wp.ones(2, dtype=float)})
    assert x.grad.numpy().tolist() == [30.0, 120.0]


def test_a_kernel_with_a_gradient_can_be_differentiated():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        out[i] = wp.grad(branching)(x[i]) * x[i]

    x = wp.array([0.5, 2.0], dtype=wp.float64, requires_grad=True)
    out = wp.zeros(2, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 2, inputs=[x, out])
    tape.backward(grads={out: wp.ones(2, dtype=wp.float64)})
    np.testing.assert_allclose(x.grad.numpy(), [np.exp(0.5) * 1.5, 8.0], rtol=1e-12)


def test_the_second_derivative_of_a_saving_loop_is_refused():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), n: int, out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        dx, _ = wp.grad(settled)(x[i], n)
        out[i] = dx

    x = wp.ones(1, dtype=wp.float64, requires_grad=True)
    out = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with pytest.raises(wp.WarpCodegenError, match=r"the gradient of a wp.grad\(\) of a function with a loop"):
        wp.launch(k, 1, inputs=[x, 3], outputs=[out], adjoint=True, adj_inputs=[None, None], adj_outputs=[None])


def test_a_tangent_through_a_saving_loop():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), n: int, out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        dx, _ = wp.grad(settled)(x[i], n)
        out[i] = dx

    def slope(x: float) -> float:
        got = np.zeros(1)
        wp.launch(k, 1, inputs=[np.array([x]), 3, got])
        return float(got[0])

    x, out = wp.array([0.4], dtype=wp.float64), wp.zeros(1, dtype=wp.float64)
    tangents = wp.autograd.jvp(k, 1, [x, 3], [out], tangents=[wp.ones(1, dtype=wp.float64), None])
    h = 1e-5
    (got,) = [t for t in tangents if t is not None]
    np.testing.assert_allclose(got.numpy(), [(slope(0.4 + h) - slope(0.4 - h)) / (2 * h)], rtol=1e-6)


def test_ptx_has_the_derivative():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = wp.grad(cube)(x[i])

    assert "mul" in k.inspect_ptx()


MISTAKES = {
    "writes": (
        "@wp.func\ndef f(a: wp.array(dtype=float), x: float):\n    a[0] = x\n    return x\n"
        "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    y = wp.grad(f)(a, 1.0)\n    a[1] = y\n",
        r"wp.grad\(\) takes a function that writes no memory, and `f` writes to `a`",
    ),
    "integers": (
        "@wp.func\ndef f(n: int):\n    return n\n@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    wp.grad(f)(3)\n",
        r"`f` has no gradient: it takes \(int32\) and returns int32",
    ),
    "nothing": (
        "@wp.func\ndef f(x: float):\n    pass\n@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    wp.grad(f)(3.0)\n",
        r"`f` has no gradient: it takes \(float32\) and returns nothing",
    ),
    "no function": (
        "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    wp.grad(a)(3.0)\n",
        r"grad\(\) takes a function, got array1d\[float32\]",
    ),
    "atomic": (
        "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    wp.grad(wp.atomic_add)(a, 0, 3.0)\n",
        r"grad\(\) can't differentiate atomic_add\(\)",
    ),
    "argument": (
        "@wp.func\ndef f(x: float):\n    return x\n@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    wp.grad(f)(3)\n",
        None,
    ),
    "wrong type": (
        "@wp.func\ndef f(x: float):\n    return x\n@wp.kernel\ndef k(n: int):\n    wp.grad(f)(n)\n",
        r"f\(\) needs a float32 for argument 1 `x`, got int32",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    source, message = MISTAKES[name]
    kernel = define(source)["k"]
    if message is None:  # a literal fits
        kernel.inspect("llvm")
        return
    with pytest.raises(wp.WarpCodegenError, match=message):
        kernel.inspect("llvm")


def test_on_the_host():
    with pytest.raises(TypeError, match=r"wp.grad\(cube\) is called in kernel code"):
        cube_slope(1.0)
    with pytest.raises(TypeError, match=r"grad\(\) takes a function made by @wp.func or a builtin, got function"):
        wp.grad(lambda x: x)
    assert repr(wp.grad(cube_slope)) == "wp.grad(wp.grad(cube))"


def test_the_cache_key_follows_the_function():
    source = """
    @wp.func
    def f(x: float):
        return {body}
    slope = wp.grad(f)
    @wp.kernel
    def k(a: wp.array(dtype=float)):
        a[0] = slope(a[0])
    """
    for body, expected in (("x * x", 6.0), ("x * x * x", 27.0)):
        a = np.array([3.0], np.float32)
        wp.launch(define(source.format(body=body))["k"], 1, inputs=[a])
        assert a[0] == expected
