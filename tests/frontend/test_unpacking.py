"""``f(*v)``: the parts of tuples, vectors, matrices and slices as arguments."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define, everywhere

F32 = np.float32


@wp.func
def decimal(a: float, b: float, c: float):
    return a + 10.0 * b + 100.0 * c


@wp.struct
class Pair:
    x: float
    y: float


def test_everything_that_has_a_length():
    @wp.kernel
    def k(out: wp.array(dtype=float), a: wp.array(dtype=float)):
        v = wp.vec3(1.0, 2.0, 3.0)
        t = (4.0, 5.0)
        m = wp.mat22(1.0, 2.0, 3.0, 4.0)
        out[0] = decimal(*v)
        out[1] = decimal(6.0, *t)
        out[2] = wp.dot(wp.vec4(*v, 9.0), wp.vec4(*t, *t))
        out[3] = wp.max(*a[1:3])
        out[4] = decimal(*a[0:5:2])
        rows = wp.matrix_from_rows(*m)
        out[5] = rows[1, 0]
        p = Pair(*v[1:])
        out[6] = p.x - p.y
        out[7] = wp.vec2(*a[:2])[1]
        out[8] = wp.vec4(*wp.quat(1.0, 2.0, 3.0, 4.0))[3]

    a = F32([1, 8, 2, 7, 3])
    out, _ = everywhere(k, 1, np.zeros(9, F32), a)
    v, t = [1, 2, 3], [4, 5]
    expected = [
        *(321, 6 + 40 + 500, np.dot([*v, 9], [*t, *t]), max(a[1:3]), a[0] + 10 * a[2] + 100 * a[4]),
        *(3, 2 - 3, 8, 4),
    ]
    np.testing.assert_array_equal(out, F32(expected))


def test_what_is_unpacked_is_evaluated_once():
    @wp.func
    def counted(a: wp.array(dtype=int)):
        wp.atomic_add(a, 0, 1)
        return wp.vec3(1.0, 2.0, 3.0)

    @wp.kernel
    def k(n: wp.array(dtype=int), out: wp.array(dtype=float)):
        out[0] = decimal(*counted(n))

    n, out = everywhere(k, 1, np.zeros(1, np.int32), np.zeros(1, F32))
    assert n[0] == 1
    assert out[0] == 321


def test_gradient_through_unpacked_arguments():
    @wp.kernel
    def k(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        out[0] = decimal(*v[0]) * v[0][0]

    v = wp.array([[2.0, 3.0, 4.0]], dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 1, inputs=[v], outputs=[out])
    tape.backward(loss=out)
    np.testing.assert_allclose(v.grad.numpy(), [[432 + 2, 20, 200]])


@pytest.mark.parametrize(
    ("unpacked", "message"),
    [
        ("a", "`*` unpacks a tuple, a vector, the rows of a matrix or a part of an array, got array1d[float32]"),
        ("a[0:n]", "between two constants"),
        ("a[1:]", "between two constants"),
        ("a[:-1]", "between two constants"),
        ("n", "got int32"),
    ],
)
def test_lengths_that_are_not_known_are_refused(unpacked, message):
    made = define(f"@wp.kernel\ndef k(a: wp.array(dtype=float), n: int):\n    x = wp.max(*{unpacked})\n")
    with pytest.raises(wp.WarpCodegenError) as caught:
        build(made["k"].func)
    assert message in str(caught.value)
