"""``wp.func_native`` with structs: as arguments, nested, with arrays in them, as results, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.gradients import check
from warp_like.backend import snippets

pytestmark = pytest.mark.skipif(snippets.host_compiler() is None, reason="there is no C++ compiler")


@wp.struct
class Inner:
    v: wp.vec3d
    flag: bool


@wp.struct
class Body:
    mass: wp.float64
    inner: Inner
    n: wp.int8
    weights: wp.array(dtype=wp.float64)
    half: wp.float16


@wp.struct
class Pair:
    first: wp.float64
    second: Inner


@wp.func_native(
    """
    double found = s.mass * s.inner.v[1] + s.n + (double)s.half;
    if (s.inner.flag) found += s.weights[1] * x;
    return found;
    """,
    adj_snippet="""
    adj_s.mass += s.inner.v[1] * adj_ret;
    adj_s.inner.v[1] += s.mass * adj_ret;
    if (s.inner.flag) {
        wp::atomic_add(adj_s.weights, 1, x * adj_ret);
        adj_x += s.weights[1] * adj_ret;
    }
    """,
    writes=[],
)
def energy(s: Body, x: wp.float64) -> wp.float64: ...


@wp.func_native(
    "Pair p{}; p.first = x * x; p.second.v[2] = 3.0 * x; p.second.flag = x > 0.0; return p;",
    adj_snippet="adj_x += 2.0 * x * adj_ret.first + 3.0 * adj_ret.second.v[2];",
)
def both(x: wp.float64) -> Pair: ...


@wp.func_native("s.weights[i] = x;", writes=["s.weights"])
def put(s: Body, i: int, x: wp.float64): ...


@wp.kernel
def energies(x: wp.array(dtype=wp.float64), weights: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    s = Body(x[0] * x[1], Inner(wp.vec3d(1.0, x[1], 3.0), True), wp.int8(7), weights, wp.float16(0.5))
    p = both(x[1])
    out[i] = energy(s, x[2]) + p.first * p.second.v[2] + wp.float64(p.second.flag)


def test_values_and_gradients():
    x, weights, out = np.array([2.0, 3.0, 5.0]), np.array([1.0, 4.0]), np.zeros(1)
    wp.launch(energies, 1, inputs=[x, weights, out])
    assert out[0] == 6 * 3 + 7 + 0.5 + 4 * 5 + 9 * 9 + 1
    check(energies, 2, [x, weights], 2)


def test_a_field_is_written():
    @wp.kernel
    def k(s: Body):
        put(s, wp.tid(), wp.float64(wp.tid()) + s.mass)

    s = Body(mass=10.0, weights=wp.zeros(4, dtype=wp.float64))
    wp.launch(k, 4, inputs=[s])
    np.testing.assert_array_equal(s.weights.numpy(), [10, 11, 12, 13])
    constant = np.zeros(4)
    constant.flags.writeable = False
    with pytest.raises(ValueError, match=r"`s.weights`: .*the kernel writes this array"):
        wp.launch(k, 4, inputs=[Body(weights=constant)])


def test_wp_grad_of_native_code():
    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        s = Body()
        s.mass = wp.float64(2.0)
        s.inner.v = wp.vec3d(0.0, 5.0, 0.0)
        by_s, by_x = wp.grad(energy)(s, wp.float64(1.0))
        out[0] = by_s.mass
        out[1] = by_s.inner.v[1]
        out[2] = by_x

    out = np.zeros(3)
    wp.launch(k, 1, inputs=[out])
    np.testing.assert_array_equal(out, [5.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("field", "call", "message"),
    [
        ("a: wp.indexedarray(dtype=float)", "f(s)", "is struct S, which native code can't take"),
        ("a: wp.array(dtype=T)", "f(s)", "is struct S, which native code can't take"),
        ("a: wp.array(dtype=float)", "f(s).a[0] = 1.0", "of one type, got struct S"),
    ],
)
def test_what_can_not_be_passed(field, call, message):
    result = "-> S" if "array" in field and ".a" in call else ""
    source = f"""
@wp.struct
class T:
    x: float
@wp.struct
class S:
    {field}
@wp.func_native("")
def f(s: S) {result}: ...
@wp.kernel
def k(s: S):
    {call}
"""
    with pytest.raises(wp.WarpCodegenError, match=message):
        wp.launch(define(source)["k"], 1, inputs=[define(source)["S"]()])
