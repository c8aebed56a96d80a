"""Sums of 16-bit floats are rounded once: against float64, to the last bit of the result."""

from typing import Any

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


@wp.kernel
def own_sums(x: wp.array(dtype=Any), y: wp.array(dtype=Any)):
    i = wp.tid()
    for _ in range(3):
        wp.atomic_add(y, i, x[i])
    wp.atomic_sub(y, i, x[i])


def rounded(a, dtype):
    """Numbers of float32 as those of a half type, ties to even."""
    if dtype == wp.float16:
        return a.astype(np.float16).astype(np.float32)
    bits = a.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("count", [1, 37, 1000])
def test_additions_to_elements_of_threads_round_each_time(dtype, count):
    """They are no atomics, in lanes or not, and take no bits that an atomic would drop."""
    rng = np.random.default_rng(count)
    values = rounded(rng.normal(size=count).astype(np.float32), dtype)
    start = rounded(rng.normal(scale=100.0, size=count).astype(np.float32), dtype)
    x = wp.array(values, dtype=dtype)
    expected = start
    for _ in range(3):
        expected = rounded(expected + values, dtype)
    expected = rounded(expected - values, dtype)
    for width in (1, 0):
        y = wp.array(start, dtype=dtype)
        wp.launch(own_sums, dim=count, inputs=[x, y], options={"vector_width": width})
        np.testing.assert_array_equal(numbers(y), expected)
    every_other = wp.array(np.repeat(start, 2), dtype=dtype)
    wp.launch(own_sums, dim=count, inputs=[x, every_other[::2]])
    np.testing.assert_array_equal(numbers(every_other)[::2], expected)
    np.testing.assert_array_equal(numbers(every_other)[1::2], start)


@wp.kernel
def products(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i] * y[i]


@pytest.mark.parametrize("dtype", ROUNDING)
def test_gradients_of_elements_of_threads(dtype):
    rng = np.random.default_rng(2)
    a, b, g = (rounded(rng.normal(size=83).astype(np.float32), dtype) for _ in range(3))
    x, y = (wp.array(v, dtype=dtype, requires_grad=True) for v in (a, b))
    out = wp.zeros(83, dtype=dtype, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(products, dim=83, inputs=[x, y, out])
    for _ in range(2):  # the second adds to the first
        tape.backward(grads={out: wp.array(g, dtype=dtype)})
    for array, other in ((x, b), (y, a)):
        np.testing.assert_array_equal(numbers(array.grad), 2.0 * rounded(g * other, dtype))
