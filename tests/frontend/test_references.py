"""Parameters that are ``wp.ref[T]``: what a function assigns to them, its caller sees."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define, everywhere

F32 = np.float32


@wp.struct
class Body:
    x: wp.vec3
    v: wp.vec3
    hits: int


@wp.func
def advance(x: wp.ref[float], v: wp.ref[float], dt: float):
    v -= 10.0 * dt
    x += v * dt


@wp.func
def swap(a: wp.ref[float], b: wp.ref[float]):
    a, b = b, a


@wp.func
def bounce(b: wp.ref[Body], floor: float) -> bool:
    if b.x[1] >= floor:
        return False
    b.v[1] = -b.v[1]
    b.hits += 1
    return True


@wp.func
def twice(x: wp.ref[float]):
    doubled(x)
    doubled(x=x)


@wp.func
def doubled(x: wp.ref[float]):
    x = x + x


@wp.func
def only_read(x: wp.ref[float]):
    return 2.0 * x


@wp.kernel
def kernel(a: wp.array2d(dtype=float), bodies: wp.array(dtype=Body), out: wp.array2d(dtype=float), n: int):
    i = wp.tid()
    x, v = a[i, 0], a[i, 1]
    for _ in range(n):
        advance(x, v, 0.5)
    out[i, 0] = x
    out[i, 1] = v
    if i > 0:
        swap(x, v)
    out[i, 2] = x
    p = wp.vec3(1.0, 2.0, 3.0)
    twice(p[1])
    swap(p.x, p[2])
    out[i, 3] = p[0] + 10.0 * p[1] + 100.0 * p[2]
    twice(a[i, 2])
    hit = bounce(bodies[i], 0.5)
    bodies[i].v = bodies[i].v * 2.0
    local = bodies[i]
    hit = bounce(local, 10.0) and hit
    if hit:
        out[i, 4] = float(local.hits)
    doubled(bodies[i].v[0])
    out[i, 5] = only_read(a[i, 3]) + only_read(a[0, 3])


def test_what_a_function_assigns_to_references():
    a = np.arange(12, dtype=F32).reshape(3, 4)
    bodies = wp.zeros(3, dtype=Body)
    given = bodies.numpy()
    given["x"][:, 1] = [0.0, 1.0, 0.25]
    given["v"] = 1.0
    bodies.assign(given)
    out = wp.zeros((3, 6), dtype=float)
    held = wp.array(a)
    wp.launch(kernel, 3, inputs=[held, bodies, out, 3])
    x, v = a[:, 0].copy(), a[:, 1].copy()
    for _ in range(3):
        v -= 5
        x += v * 0.5
    hits = np.array([1, 0, 1])
    wanted = np.stack(
        [x, v, np.where([False, True, True], v, x), np.full(3, 3 + 80 + 100.0), 2.0 * hits, 0 * x], axis=1
    )
    wanted[:, 5] = 2 * a[:, 3] + 2 * a[0, 3]
    np.testing.assert_allclose(out.numpy(), wanted)
    np.testing.assert_array_equal(held.numpy()[:, 2], 4 * a[:, 2])
    assert bodies.numpy()["hits"].tolist() == hits.tolist()
    np.testing.assert_array_equal(bodies.numpy()["v"][:, :2], np.stack([np.full(3, 4.0), 2.0 * (1 - 2 * hits)], axis=1))
    kernel.inspect_ptx()


def test_everywhere():
    @wp.kernel
    def k(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        x, v = a[i], 1.0
        while x < 10.0:
            doubled(x)
            advance(v, x, 0.0)
        swap(v, out[i])
        out[i] += x + v

    everywhere(k, 5, np.arange(1, 6, dtype=F32), np.zeros(5, F32))


def test_gradient():
    @wp.kernel
    def k(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        x, v = a[i, 0], a[i, 1]
        for _ in range(3):
            advance(x, v, 0.5)
            v = v * x
        out[i] = x

    a = wp.array([[1.0, 2.0], [0.5, -1.0]], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 2, inputs=[a], outputs=[out])
    tape.backward(grads={out: wp.ones_like(out)})

    def f(x, v):
        for _ in range(3):
            v = v - 5
            x = x + v * 0.5
            v = v * x
        return x

    h = 1e-6
    for row, g in zip(a.numpy().astype(float), a.grad.numpy(), strict=True):
        wanted = [(f(*(row + h * d)) - f(*(row - h * d))) / (2 * h) for d in np.eye(2)]
        np.testing.assert_allclose(g, wanted, rtol=1e-4)


def test_the_annotation():
    assert wp.ref[float] == wp.ref[float] != wp.ref[int]
    assert repr(wp.ref[wp.vec3]) == "wp.ref[vec3f]"
    assert len({wp.ref[float], wp.ref[float]}) == 1
    with pytest.raises(TypeError, match="doubled\\(\\) changes its argument `x`, which kernel code alone can do"):
        doubled(1.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("doubled(3.0)", "doubled() changes its argument `x`, so it takes a variable, an element or a part of one"),
        ("doubled(a[0] + 1.0)", "takes a variable, an element or a part of one"),
        (
            "x = float(1.0)\n    y = wp.grad(doubled)(x)",
            "grad() can't differentiate doubled(), which changes its argument",
        ),
        ("x = float(1.0)\n    b = x > 0.0 and flag(x)", "flag() changes an argument, so it can't stand after `and`"),
        ("x = 1\n    doubled(x)", "doubled() needs a float32 for argument 1 `x`, got int32"),
        ("doubled(LIMIT)", "`LIMIT` is a constant of the module"),
    ],
)
def test_refused(body, message):
    text = f"""
@wp.func
def flag(x: wp.ref[float]) -> bool:
    x += 1.0
    return True

@wp.kernel
def k(a: wp.array(dtype=float)):
    {body}
"""
    made = define(text, doubled=doubled, LIMIT=3.0)
    with pytest.raises(wp.WarpCodegenError) as caught:
        build(made["k"].func)
    assert message in str(caught.value)


def test_a_kernel_takes_no_references():
    made = define("@wp.kernel\ndef k(x: wp.ref[float]):\n    x = 1.0\n")
    with pytest.raises(wp.WarpCodegenError, match="x"):
        build(made["k"].func)
