"""Comparisons of numbers of different types."""

import itertools
import operator

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import sampled

VALUES = {
    wp.int8: [-128, -1, 0, 127],
    wp.uint8: [0, 1, 127, 255],
    wp.int32: [-(2**31), -1, 0, 5, 2**31 - 1],
    wp.uint32: [0, 5, 2**31, 2**32 - 1],
    wp.int64: [-(2**63), -1, 5, 2**32, 2**63 - 1],
    wp.uint64: [0, 5, 2**63 - 1, 2**63, 2**64 - 1],
    wp.float32: [-1.5, -1.0, 0.0, 5.0, 5.5, 3e38],
    wp.float64: [-1.0, 0.0, 5.0, 5.5, 0.1, 1e300],
}
SYMBOLS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@wp.kernel
def compare(a: wp.array(dtype=wp.Scalar), b: wp.array(dtype=wp.Scalar), out: wp.array2d(dtype=wp.bool)):
    i, j = wp.tid()
    x = a[i]
    y = b[j]
    k = i * b.shape[0] + j
    out[k, 0] = x < y
    out[k, 1] = x <= y
    out[k, 2] = x > y
    out[k, 3] = x >= y
    out[k, 4] = x == y
    out[k, 5] = x != y


@pytest.mark.parametrize(("first", "second"), sampled(list(itertools.permutations(VALUES, 2)), every=2))
def test_numbers_of_two_types(first, second):
    a, b = (wp.array(VALUES[t], dtype=t) for t in (first, second))
    out = wp.zeros((a.size * b.size, 6), dtype=wp.bool)
    wp.launch(compare, (a.size, b.size), inputs=[a, b], outputs=[out])
    pairs = itertools.product(a.numpy().tolist(), b.numpy().tolist())
    if wp.float32 in (first, second) and wp.float64 not in (first, second):  # an integer is compared as a float32
        pairs = ((float(np.float32(x)), float(np.float32(y))) for x, y in pairs)
    elif wp.float64 in (first, second):
        pairs = ((float(x), float(y)) for x, y in pairs)
    assert out.numpy().tolist() == [[s(x, y) for s in SYMBOLS] for x, y in pairs]


def test_chains_and_literals():
    @wp.kernel
    def k(n: int, x: float, out: wp.array(dtype=wp.bool)):
        out[0] = 0 < n < x
        out[1] = n < 2.5
        out[2] = x >= n > 2.5

    out = wp.zeros(3, dtype=wp.bool)
    wp.launch(k, 1, inputs=[2, 2.25], outputs=[out])
    assert out.numpy().tolist() == [True, True, False]


def test_a_literal_takes_the_type_of_a_float():
    @wp.kernel
    def k(a: wp.float16, b: wp.float64, out: wp.array(dtype=wp.bool)):
        out[0] = a == 0.1
        out[1] = b == 0.1

    out = wp.zeros(2, dtype=wp.bool)
    wp.launch(k, 1, inputs=[0.1, 0.1], outputs=[out])
    assert out.numpy().tolist() == [True, True]


def test_a_vector_is_compared_with_its_own_type_alone():
    @wp.kernel
    def k(a: wp.vec3, b: wp.vec3d, out: wp.array(dtype=wp.bool)):
        out[0] = a == b

    with pytest.raises(wp.WarpCodegenTypeError, match=r"`==` does not mix types: vec3\[float32\] and vec3\[float64\]"):
        wp.launch(k, 1, inputs=[wp.vec3(), wp.vec3d()], outputs=[wp.zeros(1, dtype=wp.bool)])


def test_bounds_of_gradients():
    """A condition of two types chooses a side as any other does."""

    @wp.kernel
    def k(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
        i = wp.tid()
        if x[i] < n:
            y[i] = x[i] * x[i]
        else:
            y[i] = -x[i]

    x = wp.array([0.5, 1.5, 2.5], dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(k, 3, inputs=[x, 2], outputs=[y])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert x.grad.numpy().tolist() == [1.0, 3.0, -1.0]
