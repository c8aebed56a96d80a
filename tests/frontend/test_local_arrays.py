"""Arrays that kernels make: on the thread's stack, and at an address."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import everywhere
from tests.gradients import check
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble

RNG = np.random.default_rng(11)


@wp.func
def total(a: wp.fixedarray(shape=(4,), dtype=float)):
    s = 0.0
    for x in a:
        s += x
    return s


@wp.func
def fill(a: wp.array(dtype=float), by: float):
    for i in range(len(a)):
        a[i] += by


@wp.kernel
def histogram(xs: wp.array2d(dtype=int), out: wp.array2d(dtype=float), k: int):
    i = wp.tid()
    counts = wp.zeros(shape=(4,), dtype=float)
    for x in xs[i]:
        counts[x] += 1.0
    out[i, 0] = total(counts)
    out[i, 1] = counts[k]
    fill(counts, 0.5)
    out[i, 2] = counts[-1]
    same = counts
    same[0] = 9.0
    out[i, 3] = counts[0]
    part = counts[1:3]
    part[1] = 7.0
    out[i, 4] = counts[2]
    out[i, 5] = float(counts.shape[0] + len(part) * 10)
    old = wp.atomic_add(counts, 2, 1.0)
    out[i, 6] = old + counts[2]


def test_a_local_array():
    xs = RNG.integers(0, 4, (5, 30)).astype(np.int32)
    _, out, _ = everywhere(histogram, 5, xs, np.zeros((5, 7), np.float32), 2)
    for row, x in zip(out, xs, strict=True):
        counts = np.bincount(x, minlength=4)
        np.testing.assert_array_equal(row, [30, counts[2], counts[3] + 0.5, 9, 7, 24, 15])


@wp.kernel
def fresh(out: wp.array(dtype=int), n: int):
    i = wp.tid()
    for k in range(n):
        a = wp.zeros(3, dtype=int)
        a[k % 3] += i
        out[i] += a[0] + a[1] + a[2]
        if k > 1:
            b = wp.zeros(shape=3, dtype=int)
            b[0] += 1
            out[i] += b[0] * 100


def test_it_is_zero_each_time():
    out, _ = everywhere(fresh, 4, np.zeros(4, np.int32), 5)
    np.testing.assert_array_equal(out, np.arange(4) * 5 + 300)


@wp.kernel
def of_vectors(out: wp.array(dtype=float), j: int):
    a = wp.zeros(shape=(2, 3), dtype=wp.vec3)
    a[1, 2].x = 4.0
    a[1][2][1] = 5.0
    row = a[1]
    row[0] = wp.vec3(9.0, 8.0, 7.0)
    a[j, j] += wp.vec3(1.0, 2.0, 3.0)
    out[0] = a[1, 2].x + a[1, 2][1]
    out[1] = a[1, 0].z
    out[2] = a[j, j][2]
    m = wp.zeros(shape=(2,), dtype=wp.mat22)
    m[j][1, 0] = 6.0
    out[3] = m[1][1, 0]
    h = wp.zeros(shape=(2,), dtype=wp.float16)
    h[0] = wp.float16(0.1)
    out[4] = float(h[0])
    b = wp.zeros(shape=(2,), dtype=bool)
    b[1] = True
    out[5] = 1.0 if b[1] and not b[0] else 0.0


def test_elements_of_many_types():
    out, _ = everywhere(of_vectors, 1, np.zeros(6, np.float32), 1)
    np.testing.assert_array_equal(out, [9, 7, 3, 6, np.float32(np.float16(0.1)), 1])


@wp.kernel
def polynomial(x: wp.array(dtype=wp.float64), c: wp.array2d(dtype=wp.float64), n: int, out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    powers = wp.zeros(shape=(6,), dtype=wp.float64)
    powers[0] = wp.float64(1.0)
    for k in range(1, n):
        powers[k] = powers[k - 1] * x[i]
    for k in range(n):
        powers[k] *= c[i, k]
        if powers[k] > wp.float64(0.0):
            powers[k] = wp.sin(powers[k])
    for k in range(n):
        for j in range(n):
            scratch = wp.zeros(shape=(2,), dtype=wp.float64)
            scratch[j % 2] = powers[j] * powers[k]
            scratch[(j + 1) % 2] += scratch[0] * x[i]
            out[i] = out[i] + scratch[0] * scratch[1] + powers[k]


def test_gradients():
    check(polynomial, 3, [RNG.normal(size=3), RNG.normal(size=(3, 6)), 6], 3)


@wp.func
def accumulate(a: wp.array(dtype=wp.float64), i: int, x: wp.float64):
    a[i] += x * x
    return a[i]


@wp.kernel
def branches(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    a = wp.zeros(shape=(2, 2), dtype=wp.float64)
    row = a[1]
    if x[i] > wp.float64(0.0):
        row[0] = wp.exp(x[i])
        accumulate(row, 1, x[i])
    else:
        row[i % 2] = x[i] * x[i]
    k = 0
    while k < 3:
        a[1, 0] = a[1, 0] * a[1, 1] + x[i]
        k += 1
    wp.atomic_max(a, 0, 0, x[i] * wp.float64(2.0))
    out[i] = a[1, 0] + accumulate(a[1], 1, x[i]) * a[0, 0]


def test_gradients_through_branches_functions_and_while():
    check(branches, 6, [RNG.normal(size=6)], 6)


def test_forward_mode():
    x, c, dx = RNG.normal(size=3), RNG.normal(size=(3, 6)), RNG.normal(size=3)
    bound = wp.array(x, dtype=wp.float64, requires_grad=True)
    weights = wp.array(c, dtype=wp.float64)
    out = wp.zeros(3, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(polynomial, dim=3, inputs=[bound, weights, 6, out])
    tape.backward(grads={out: wp.ones(3, dtype=wp.float64)})
    (dy,) = wp.autograd.jvp(polynomial, 3, [x, c, 6], [np.zeros(3)], [dx, None, None])
    np.testing.assert_allclose(np.asarray(dy), bound.grad.numpy() * dx, rtol=1e-10)


def test_indices_are_checked_in_debug_mode():
    wp.config.mode = "debug"
    try:
        with pytest.raises(IndexError, match=r"index 4 is out of range for array `counts` of shape \(4,\) in thread 0"):
            wp.launch(histogram, dim=1, inputs=[np.full((1, 1), 4, np.int32), np.zeros((1, 7), np.float32), 0])
    finally:
        del wp.config.mode


def test_constant_indices_out_of_range_are_refused():
    @wp.kernel
    def one(out: wp.array(dtype=float)):
        a = wp.zeros(shape=(3,), dtype=float)
        out[0] = a[3]

    @wp.kernel
    def row(out: wp.array(dtype=float)):
        a = wp.zeros(shape=(3, 2), dtype=float)
        r = a[-3]
        r[-1] = 2.0
        r[-3] = 1.0

    @wp.kernel
    def part(out: wp.array(dtype=float)):
        a = wp.zeros(shape=(3, 2), dtype=float)
        out[0] = a[2:9, 5][0]  # the bounds of a slice are clamped, as in Python

    message = {
        one: "index 3 is out of range: an array of shape (3,) has 3 elements",
        row: "index -3 is out of range: axis 1 of an array of shape (3, 2) has 2 elements",
        part: "index 5 is out of range: axis 1 of an array of shape (3, 2) has 2 elements",
    }
    for kernel, text in message.items():
        with pytest.raises(wp.WarpCodegenIndexError) as error:
            wp.launch(kernel, 1, inputs=[wp.zeros(1, dtype=float)])
        assert error.value.reason == text


@wp.kernel
def pointed(a: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    whole = wp.array(ptr=a.ptr, shape=(2, n / 2), dtype=float)
    out[0] = whole[1, 0] + float(whole.shape[1])
    tail = wp.array(ptr=a.ptr + wp.uint64(4), shape=3, dtype=wp.vec2)
    tail[1].y = 50.0
    if a.ptr == out.ptr:
        out[1] = 1.0


def test_arrays_at_an_address():
    a, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    wp.launch(pointed, dim=1, inputs=[a, 8, out])
    np.testing.assert_array_equal(out, [8.0, 0.0])
    assert a[4] == 50.0
    ptx = pointed.inspect("ptx", target="sm_80")
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"


def test_a_fixedarray_is_no_argument_of_a_kernel():
    @wp.kernel
    def k(a: wp.fixedarray(shape=3, dtype=float)):
        a[0] = 1.0

    with pytest.raises(wp.WarpCodegenTypeError, match="is a fixedarray, which only kernel code makes"):
        wp.launch(k, dim=1, inputs=[np.zeros(3, np.float32)])
    assert repr(wp.fixedarray(shape=(2, 3), dtype=float)) == "fixedarray(ndim=2, dtype=float32, shape=(2, 3))"
    with pytest.raises(ValueError, match="positive numbers"):
        wp.fixedarray(shape=(0,), dtype=float)


@wp.func
def first(a: wp.array(dtype=wp.float64)):
    return a[0]


@wp.func_grad(first)
def adj_first(a: wp.array(dtype=wp.float64), adj_ret: wp.float64):
    wp.adjoint[a][0] += adj_ret


def test_functions_with_a_gradient_of_their_own_take_arguments_of_the_kernel():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        a = wp.zeros(shape=(1,), dtype=wp.float64)
        a[0] = x[0]
        out[0] = first(a)

    x = wp.ones(1, dtype=wp.float64, requires_grad=True)
    out = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, dim=1, inputs=[x, out])
    assert out.numpy()[0] == 1.0
    with pytest.raises(wp.WarpCodegenError, match="is given an array that the kernel makes"):
        tape.backward(grads={out: wp.ones(1, dtype=wp.float64)})


@wp.struct
class Inner:
    v: wp.vec2


@wp.struct
class Pair:
    a: float
    inner: Inner
    n: int


@wp.func
def sum_of_pairs(pairs: wp.array(dtype=Pair)):
    found = 0.0
    for p in pairs:
        found += p.a + p.inner.v[1]
    return found


@wp.kernel
def of_structs(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    pairs = wp.zeros(shape=(3,), dtype=Pair)
    for i in range(3):
        pairs[i].a = x[i] * x[i]
        pairs[i].inner.v = wp.vec2(0.0, x[i])
        pairs[i].n += i
    pairs[2] = pairs[1]
    copied = pairs[0]
    copied.a = 100.0
    out[0] = sum_of_pairs(pairs) + float(pairs[2].n)


def test_a_local_array_of_structs():
    x = np.array([1, 2, 3], np.float32)
    _, out = everywhere(of_structs, 1, x, np.zeros(1, np.float32))
    assert out[0] == 2 + 6 + 6 + 1
    given = wp.array(x, requires_grad=True)
    result = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(of_structs, dim=1, inputs=[given, result])
    tape.backward(result)
    np.testing.assert_array_equal(given.grad.numpy(), [2 * 1 + 1, 2 * (2 * 2 + 1), 0])  # pairs[2] is a copy


@wp.kernel
def addressed(a: wp.array2d(dtype=float), s: wp.array(dtype=Pair), i: int, out: wp.array(dtype=wp.uint64)):
    out[0] = wp.address_of(a[i, -1]) - a.ptr
    row = a[i]
    out[1] = wp.address_of(row[2]) - a.ptr
    out[2] = wp.address_of(s[i].inner.v) - s.ptr
    local = wp.zeros(shape=(2,), dtype=float)
    alias = wp.array(ptr=wp.address_of(local[1]), shape=(1,), dtype=float)
    alias[0] = 5.0
    out[3] = wp.uint64(local[1])


def test_the_address_of_an_element():
    a, out = np.zeros((3, 4), np.float32), np.zeros(4, np.uint64)
    wp.launch(addressed, dim=1, inputs=[a, wp.zeros(3, dtype=Pair), 1, out])
    np.testing.assert_array_equal(out, [4 * 7, 4 * 6, 16 + 4, 5])  # a Pair takes 16 bytes, 4 in front of `inner`
    wp.launch(addressed, dim=1, inputs=[a[:, ::-1], wp.zeros(3, dtype=Pair), 1, out])
    np.testing.assert_array_equal(out[:2].astype(np.int64), [16 - 12, 16 - 8])
    ptx = addressed.inspect("ptx", target="sm_80")
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"
