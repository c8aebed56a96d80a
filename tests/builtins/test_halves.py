"""Sums of 16-bit floats are rounded once: against float64, to the last bit of the result."""

import numpy as np
import pytest

import warp_like as wp
from warp_like.values import bfloat

ROUNDING = {wp.float16: 2.0**-11, wp.bfloat16: 2.0**-8}


def numbers(a):
    raw = a.numpy()
    return (bfloat.decode_array(raw) if raw.dtype == np.uint16 else raw).astype(np.float64)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_lengths_and_directions_of_long_vectors(dtype):
    vec = wp.types.vector(4, dtype)

    @wp.kernel
    def measure(v: wp.array(dtype=vec), unit: wp.array(dtype=vec), size: wp.array(dtype=dtype)):
        i = wp.tid()
        unit[i] = wp.normalize(v[i])
        size[i] = wp.length(v[i])

    x = np.array([[300, 400, 0, 0], [256, 256, 256, 256], [3e4, 3e4, 1, 0], [1e-3, 2e-3, -2e-3, 0], [1e-4, 0, 0, 0]])
    v = wp.array(x, dtype=vec, requires_grad=True)
    unit, size = wp.zeros(5, dtype=vec, requires_grad=True), wp.zeros(5, dtype=dtype, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(measure, 5, inputs=[v], outputs=[unit, size])
    exact = numbers(v)
    length = np.linalg.norm(exact, axis=1)
    np.testing.assert_allclose(numbers(size), length, rtol=ROUNDING[dtype])
    np.testing.assert_allclose(numbers(unit), exact / length[:, None], rtol=ROUNDING[dtype], atol=2.0**-24)
    tape.backward(grads={size: wp.ones(5, dtype=dtype)})
    np.testing.assert_allclose(numbers(v.grad), exact / length[:, None], rtol=3 * ROUNDING[dtype], atol=2.0**-24)
    assert ".visible .entry" in measure.inspect("ptx", target="sm_80")


@pytest.mark.parametrize("dtype", ROUNDING)
def test_products_are_rounded_once(dtype):
    mat = wp.types.matrix((3, 3), dtype)
    vec = wp.types.vector(3, dtype)

    @wp.kernel
    def products(
        m: wp.array(dtype=mat),
        v: wp.array(dtype=vec),
        moved: wp.array(dtype=vec),
        dots: wp.array2d(dtype=dtype),
        squares: wp.array(dtype=mat),
    ):
        i = wp.tid()
        moved[i] = m[i] * v[i]
        dots[i, 0] = wp.dot(v[i], v[i])
        dots[i, 1] = wp.ddot(m[i], m[i])
        dots[i, 2] = wp.determinant(m[i])
        squares[i] = m[i] * m[i]

    rng = np.random.default_rng(5)
    m = wp.array(rng.standard_normal((100, 3, 3)), dtype=mat)
    v = wp.array(rng.standard_normal((100, 3)), dtype=vec)
    moved, dots, squares = wp.zeros_like(v), wp.zeros((100, 3), dtype=dtype), wp.zeros_like(m)
    wp.launch(products, 100, inputs=[m, v], outputs=[moved, dots, squares])
    a, x = numbers(m), numbers(v)
    close = {"rtol": ROUNDING[dtype], "atol": 1e-5}  # what cancels keeps the rounding of float32
    np.testing.assert_allclose(numbers(moved), np.einsum("nij,nj->ni", a, x), **close)
    np.testing.assert_allclose(numbers(squares), a @ a, **close)
    np.testing.assert_allclose(numbers(dots)[:, 0], (x * x).sum(1), **close)
    np.testing.assert_allclose(numbers(dots)[:, 1], (a * a).sum((1, 2)), **close)
    np.testing.assert_allclose(numbers(dots)[:, 2], np.linalg.det(a), **close)
