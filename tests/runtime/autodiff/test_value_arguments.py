"""The gradient of a number or vector that is passed to a kernel, in an explicit adjoint launch."""

import numpy as np
import pytest

import warp_like as wp

f64 = wp.float64


@wp.kernel
def oscillate(x: wp.array(dtype=f64), k: f64, v: wp.vec3d, m: wp.mat22d, n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    s = x[i] * k
    for j in range(n):
        if j % 2 == 0:
            s = wp.sin(s * k) + v[j % 3]
        else:
            s = s * m[1, 0] + wp.dot(v, v)
    out[i] = s * m[0, 1]


ARGS = (0.7, np.array([0.3, -0.2, 0.5]), np.array([[0.1, 0.9], [0.4, -0.3]]), 5)


def forward(x, k, v, m, n):
    out = np.zeros(len(x))
    wp.launch(oscillate, len(x), [x, k, wp.vec3d(*v), wp.mat22d(*m.ravel()), n], [out])
    return out


def difference(f, a, h=1e-6):
    found = np.zeros(np.shape(a))
    for at in np.ndindex(np.shape(a)):
        step = np.zeros(np.shape(a))
        step[at] = h
        found[at] = (f(a + step) - f(a - step)) / (2 * h)
    return found


def test_gradients_of_values():
    x = np.linspace(-1, 1, 70)
    weights = np.cos(np.arange(70.0))
    k, v, m, n = ARGS
    adj_x, adj_k = np.zeros(70), np.zeros(1)
    adj_v, adj_m = wp.zeros(1, dtype=wp.vec3d), wp.ones(1, dtype=wp.mat22d)
    wp.launch(
        oscillate, 70, [x, k, wp.vec3d(*v), wp.mat22d(*m.ravel()), n], [np.zeros(70)],
        adj_inputs=[adj_x, adj_k, adj_v, adj_m, None], adj_outputs=[weights], adjoint=True,
    )  # fmt: skip
    loss = lambda *args: float(weights @ forward(*args))  # noqa: E731
    np.testing.assert_allclose(adj_k, [difference(lambda a: loss(x, float(a), v, m, n), k)], rtol=1e-6)
    np.testing.assert_allclose(adj_v.numpy()[0], difference(lambda a: loss(x, k, a, m, n), v), rtol=1e-6)
    # gradients are added to what is there
    np.testing.assert_allclose(adj_m.numpy()[0] - 1, difference(lambda a: loss(x, k, v, a, n), m), rtol=1e-6, atol=1e-9)
    seventh = difference(lambda a: loss(np.r_[x[:7], a, x[8:]], k, v, m, n), x[7])
    np.testing.assert_allclose(adj_x[7], seventh, rtol=1e-6)


@wp.kernel
def fill(value: float, out: wp.array(dtype=float)):
    out[wp.tid()] = value * value


def test_a_value_alone():
    adj, out, adj_out = np.zeros(1, np.float32), np.zeros(3, np.float32), np.ones(3, np.float32)
    wp.launch(fill, 3, [3.0], [out], adj_inputs=[adj], adj_outputs=[adj_out], adjoint=True)
    assert adj[0] == 18.0


@wp.kernel
def in_place(a: wp.array(dtype=f64), k: f64, n: int):
    i = wp.tid()
    for _ in range(n):
        a[i] = a[i] * k + wp.sin(a[i])


def test_with_saved_values():
    start, k = np.array([0.3, 0.8]), 0.9

    def final(k):
        a = start.copy()
        wp.launch(in_place, 2, [a, k, 4])
        return a.sum()

    from warp_like.runtime.arrays.recording import Record
    from warp_like.runtime.autodiff.adjoint_launch import run_adjoint

    a = wp.array(start, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(in_place, 2, [a, k, 4])
    (record,) = tape.launches
    assert isinstance(record, Record)
    a.grad.fill_(1.0)
    adj = wp.zeros(1, dtype=f64)
    run_adjoint(record, {0: a.grad, 1: adj})
    np.testing.assert_allclose(adj.numpy(), [difference(lambda k: final(float(k)), k)], rtol=1e-6)


def test_numbers_and_vectors_stand_for_no_gradient():
    x, out = np.ones(2), np.zeros(2)
    rest = [wp.vec3d(), wp.mat22d(), 1]
    found = []
    for nothing in ([None, None, None], [0.0, wp.vec3d(), wp.mat22d()], [np.float64(3.0), wp.vec3d(1.0), wp.mat22d()]):
        adj_x = np.zeros(2)
        for _ in range(2):  # checked, then by the native path
            wp.launch(
                oscillate, 2, [x, ARGS[0], *rest], [out], adj_inputs=[adj_x, *nothing, 0], adj_outputs=[x], adjoint=True
            )
        found.append(adj_x)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_refusals():
    x, g, k = np.ones(2), np.zeros(2), ARGS[0]
    rest = [wp.vec3d(), wp.mat22d(), 1]

    def adjoint(*adjoints):
        wp.launch(oscillate, 2, [x, k, *rest], [g], adj_inputs=[None, *adjoints], adj_outputs=[x], adjoint=True)

    with pytest.raises(TypeError, match="`n` is int32, which has no gradient; pass None"):
        adjoint(None, None, None, np.zeros(1))
    with pytest.raises(TypeError, match=r"argument 2 `adj_k`: expected array1d\[float64\], got .*float32"):
        adjoint(np.zeros(1, np.float32))
    with pytest.raises(TypeError, match=r"`adj_k`: expected array1d\[float64\], got str"):
        adjoint("0.0")
    with pytest.raises(ValueError, match=r"`adj_k` takes an array of one element, got shape \(2,\)"):
        adjoint(np.zeros(2))


def test_inspect_shows_the_adjoint_of_a_value():
    text = oscillate.inspect(wrt=["k", "out"])
    assert "%adj_k: array1d[float64]" in text
    assert "atomic_add %adj_k[" in text
