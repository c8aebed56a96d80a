"""Which array a variable holds may depend on the path: in branches, loops, functions and structs; gradients, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define, everywhere

F32 = np.float32


@wp.struct
class Holder:
    values: wp.array(dtype=float)
    scale: float


@wp.func
def larger(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    if a.shape[0] > b.shape[0]:
        return a
    return b


@wp.func
def first_above(m: wp.array2d(dtype=float), limit: float):
    for i in range(m.shape[0]):
        if m[i, 0] > limit:
            return m[i]
    return m[0]


@wp.kernel
def chosen(
    a: wp.array(dtype=float), b: wp.array(dtype=float), m: wp.array2d(dtype=float), out: wp.array2d(dtype=float)
):
    i = wp.tid()
    x = a
    if i % 2 == 1:
        x = b
    out[i, 0] = x[i]
    out[i, 1] = float(x.shape[0])
    y = wp.where(i < 3, a, b)
    out[i, 2] = y[i] + y[0]
    z = a if i == 1 else m[i]
    out[i, 3] = z[1]
    out[i, 4] = larger(a, b)[i]
    out[i, 5] = first_above(m, 0.5 * float(i))[1]
    w = m[0]
    for k in range(i):
        if k == 2:
            w = b
        else:
            w = m[k + 1]
    out[i, 6] = w[2]
    out[i, 7] = x[1:4][1]
    h = Holder(a, 1.0)
    if i == 2:
        h = Holder(b, 2.0)
    if i == 3:
        h.values = m[3]
    out[i, 8] = h.values[3] * h.scale
    s = out[i, 9:]
    t = s
    if i > 2:
        t = out[i, 10:]
    t[0] = 7.0
    wp.atomic_add(t, 0, 1.0)


def arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    a, b = rng.random(5).astype(F32), rng.random(6).astype(F32)
    return [a, b, rng.random((5, 4)).astype(F32), np.zeros((4, 11), F32)]


def expected(a, b, m, out):
    for i in range(len(out)):
        x = b if i % 2 == 1 else a
        y = a if i < 3 else b
        z = a if i == 1 else m[i]
        above = next((row for row in m if row[0] > 0.5 * i), m[0])
        w = m[0]
        for k in range(i):
            w = b if k == 2 else m[k + 1]
        held, scale = (b, 2.0) if i == 2 else (m[3] if i == 3 else a, 1.0)
        out[i, :9] = [x[i], len(x), y[i] + y[0], z[1], b[i], above[1], w[2], x[2], held[3] * scale]
        out[i, 10 if i > 2 else 9] = 8.0
    return out


def test_a_variable_may_hold_one_of_several_arrays():
    a, b, m, out = everywhere(chosen, 4, *arrays())
    np.testing.assert_allclose(out, expected(a, b, m, np.zeros_like(out)), rtol=1e-6)


@wp.kernel
def ping_pong(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), n: int, out: wp.array2d(dtype=float)):
    i = wp.tid()
    src, dst = a, b
    for _ in range(n):
        for k in range(src.shape[1]):
            dst[i, k] = 0.5 * src[i, k] + wp.sin(src[i, (k + 1) % src.shape[1]])
        src, dst = dst, src
    for k in range(out.shape[1]):
        out[i, k] = src[i, k] * src[i, k]


@wp.kernel
def rounded(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), n: int, out: wp.array2d(dtype=float)):
    i = wp.tid()
    for _ in range(n):
        b[i, 0] = wp.floor(8.0 * a[i, 1]) - wp.rint(a[i, 2])
        a, b = b, a
    out[i, 0] = a[i, 0] + 1.0


def steps(a, n):
    src = a.astype(np.float64)
    for _ in range(n):
        src = 0.5 * src + np.sin(np.roll(src, -1, axis=1))
    return src * src


@pytest.mark.parametrize("n", [0, 1, 4, 5])
def test_ping_pong(n):
    a = np.random.default_rng(1).random((37, 3)).astype(F32)
    out = np.zeros_like(a)
    wp.launch(ping_pong, 37, inputs=[a.copy(), np.zeros_like(a), n], outputs=[out])
    np.testing.assert_allclose(out, steps(a, n), rtol=1e-5)
    wp.launch(rounded, 37, inputs=[a.copy(), np.zeros_like(a), n], outputs=[out])
    assert out.any()
    everywhere(rounded, 37, a, np.zeros_like(a), n, np.zeros_like(a))


@pytest.mark.parametrize("n", [0, 1, 4, 5])
def test_gradient_of_ping_pong(n):
    a = np.random.default_rng(1).random((7, 3))
    given = [wp.array(x.astype(F32), requires_grad=True) for x in (a, np.zeros_like(a), np.zeros_like(a))]
    x, work, out = given
    with wp.Tape() as tape:
        wp.launch(ping_pong, 7, inputs=[x, work, n], outputs=[out])
    tape.backward(grads={out: wp.ones_like(out)})
    h = 1e-6
    wanted = np.zeros_like(a)
    for at in np.ndindex(a.shape):
        d = np.zeros_like(a)
        d[at] = h
        wanted[at] = (steps(a + d, n) - steps(a - d, n)).sum() / (2 * h)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=2e-4, atol=1e-5)


def test_gradients_go_to_the_array_that_was_chosen():
    @wp.kernel
    def k(a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=int), out: wp.array(dtype=float)):
        i = wp.tid()
        x = a
        if c[i] > 0:
            x = b
        h = Holder(x, 3.0)
        y = wp.where(c[i] > 1, a, h.values)
        out[i] = h.scale * x[i] * x[i] + y[i]

    c = np.array([0, 1, 2, 0, 1], np.int32)
    a, b, out = (wp.array(np.arange(1, 6) * s, dtype=float, requires_grad=True) for s in (1, 10, 0))
    with wp.Tape() as tape:
        wp.launch(k, 5, inputs=[a, b, wp.array(c)], outputs=[out])
    tape.backward(grads={out: wp.ones_like(out)})
    x = np.where(c > 0, b.numpy(), a.numpy())
    of_x = np.where(c > 1, 6 * x, 6 * x + 1)
    np.testing.assert_allclose(b.grad.numpy(), np.where(c > 0, of_x, 0))
    np.testing.assert_allclose(a.grad.numpy(), np.where(c > 0, 0, of_x) + (c > 1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "x = a\n    if n > 0:\n        x = wp.zeros(shape=(4,), dtype=float)\n    x[0] = 1.0",
            "made inside of a branch or loop",
        ),
        ("x = a\n    if n > 0:\n        x = m\n    x[0] = 1.0", "`x` is an array1d[float32] since line"),
        ("x = wp.where(n > 0, a, m)", "where() needs a value"),
    ],
)
def test_refused(body, message):
    parameters = "a: wp.array(dtype=float), m: wp.array2d(dtype=float), n: int"
    k = define(f"@wp.kernel\ndef k({parameters}):\n    {body}\n")["k"]
    with pytest.raises(wp.WarpCodegenError) as caught:
        k.inspect("optimised")
    assert message in str(caught.value)


def test_a_struct_that_a_loop_carries_changes_its_array():
    @wp.kernel
    def k(a: wp.array(dtype=float), m: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        h = Holder(a, 1.0)
        for q in range(out.shape[1]):
            out[i, q] = h.values[i] * h.scale
            h.values = m[q]
            h.scale += 1.0

    a, m = np.arange(3, dtype=F32), np.arange(12, dtype=F32).reshape(4, 3)
    out = everywhere(k, 3, a, m, np.zeros((3, 4), F32))[-1]
    np.testing.assert_array_equal(out, np.stack([a, 2 * m[0], 3 * m[1], 4 * m[2]], axis=1))


def test_checks_name_the_array_that_was_chosen():
    @wp.kernel(mode="debug")
    def k(a: wp.array(dtype=float), b: wp.array(dtype=float), c: int):
        x = a
        if c > 0:
            x = b
        x[4] = 1.0

    wp.launch(k, 1, inputs=[wp.zeros(5, dtype=float), wp.zeros(3, dtype=float), 0])
    with pytest.raises(IndexError, match=r"index 4 is out of range for array `b` of shape \(3,\)"):
        wp.launch(k, 1, inputs=[wp.zeros(5, dtype=float), wp.zeros(3, dtype=float), 1])


# --- a name for arrays of several dimensions ---


@wp.kernel
def narrowed(a: wp.array(dtype=float, ndim=3), out: wp.array(dtype=float)):
    i = wp.tid()
    part = a[1:]
    out[i] = part[0, 1, i]
    part = part[0]
    out[i] += 10.0 * part[0, i]
    part = part[1]
    for k in range(2):
        out[i] += 100.0 * part[k]
    a = a[0]
    out[i] += 1000.0 * a[1, i]


def test_a_part_takes_the_place_of_its_array():
    a = wp.array(np.arange(8, dtype=np.float32).reshape(2, 2, 2), dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(narrowed, 2, inputs=[a, out])
    assert out.list() == [6 + 40 + 1300 + 2000, 7 + 50 + 1300 + 3000]
    tape.backward(grads={out: wp.ones(2, dtype=float)})
    assert a.grad.numpy().tolist() == [[[0, 0], [1000, 1000]], [[10, 10], [201, 201]]]


@wp.kernel
def narrowed_in_a_loop(a: wp.array(dtype=float, ndim=2), n: int, out: wp.array(dtype=float)):
    part = a[1:]
    for i in range(n):
        out[0] += part[0, 0]
        part = a[i]


@wp.kernel
def narrowed_in_a_branch(a: wp.array(dtype=float, ndim=2), n: int, out: wp.array(dtype=float)):
    part = a[1:]
    if n > 0:
        part = a[0]
    out[0] = part[0]


@pytest.mark.parametrize("k", [narrowed_in_a_loop, narrowed_in_a_branch])
def test_a_part_does_not_take_its_place_where_paths_meet(k):
    with pytest.raises(wp.WarpCodegenTypeError, match=r"`part` is an array2d\[float32\] since line"):
        wp.launch(k, 1, inputs=[wp.zeros((2, 2), dtype=float), 1, wp.zeros(1, dtype=float)])
