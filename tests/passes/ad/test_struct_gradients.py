"""Gradients through structs against central differences: in arrays, as loop state, and of arrays in arguments."""

import numpy as np
import pytest

import warp_like as wp

f64 = wp.float64


@wp.struct
class Inner:
    w: wp.mat22d
    k: int


@wp.struct
class State:
    pos: wp.vec3d
    vel: wp.vec3d
    s: f64
    tag: int
    inner: Inner


@wp.struct
class Model:
    a: wp.array(dtype=f64)
    b: wp.array2d(dtype=wp.vec3d)
    scale: f64
    inner: Inner


def states(n, seed):
    rng = np.random.default_rng(seed)
    made = np.zeros(n, dtype=State.numpy_dtype())
    for name in ("pos", "vel", "s"):
        made[name] = rng.normal(size=made[name].shape)
    made["inner"]["w"] = rng.normal(size=(n, 2, 2))
    made["inner"]["k"] = np.arange(n) + 2
    return made


def floats(records):
    """All float fields of a structured array, as views on its memory."""
    return [records["pos"], records["vel"], records["s"], records["inner"]["w"]]


def differences(forward, arrays, step=1e-6):
    """Central differences of ``forward()`` with respect to all elements of NumPy arrays that it reads."""
    found = []
    for a in arrays:
        g = np.zeros(a.shape)
        for at in np.ndindex(a.shape):
            old = a[at]
            a[at] = old + step
            plus = forward()
            a[at] = old - step
            g[at] = (plus - forward()) / (2 * step)
            a[at] = old
        found.append(g)
    return found


def check(kernel, n, model=None, seed=0):
    """Compare the gradients of a random combination of the resulting states."""
    start = states(n, seed)
    weights = states(n, seed + 100)

    def loss():
        out = np.zeros(n, dtype=State.numpy_dtype())
        wp.launch(kernel, dim=n, inputs=[start, *model_args], outputs=[out])
        return sum(float(np.sum(x * w)) for x, w in zip(floats(out), floats(weights), strict=True))

    model_args = [] if model is None else [model]
    x = wp.array(start, dtype=State, requires_grad=True)
    out = wp.zeros(n, dtype=State, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=n, inputs=[x, *model_args], outputs=[out])
    tape.backward(grads={out: wp.array(weights, dtype=State)})
    arrays, got = floats(start), floats(x.grad.numpy())
    if model is not None:
        arrays = [*arrays, model.a.numpy(), model.b.numpy()]
        got = [*got, model.a.grad.numpy(), model.b.grad.numpy()]
        assert all(any(a is g for g in tape.gradients) for a in (model.a, model.b))
    for mine, expected in zip(got, differences(loss, arrays), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=2e-6, atol=2e-7)
    assert not x.grad.numpy()["tag"].any()
    return x, tape


def model(n, seed=5):
    rng = np.random.default_rng(seed)
    return Model(
        a=wp.array(rng.normal(size=n), dtype=f64, requires_grad=True),
        b=wp.array(rng.normal(size=(n, 2, 3)), dtype=wp.vec3d, requires_grad=True),
        scale=0.7,
        inner=Inner(w=((1.0, 2.0), (3.0, 4.0))),
    )


@wp.kernel
def fields(x: wp.array(dtype=State), out: wp.array(dtype=State)):
    i = wp.tid()
    s = x[i]
    s.pos = wp.cw_mul(s.pos, s.vel) * s.s
    s.vel.y = s.pos[0] * s.inner.w[1, 0]
    s.inner.w[0, 1] *= x[i].s
    out[i] = s
    out[i].s = s.s * s.s + x[(i + 1) % 3].pos.z


def test_fields_of_an_array_of_structs():
    check(fields, 3)


@wp.func
def step(s: State, dt: f64):
    s.vel = s.vel - s.pos * dt * s.s
    s.pos += s.vel * dt
    s.s = wp.sin(s.s) * s.s + s.inner.w[0, 0]
    return s


@wp.kernel
def loop(x: wp.array(dtype=State), out: wp.array(dtype=State)):
    i = wp.tid()
    s = x[i]
    for _j in range(s.inner.k):
        s = step(s, f64(0.3))
        if s.pos.x > f64(0.2):
            s.vel *= f64(0.5)
            s.inner.w *= s.s
            continue
        if s.pos.y > f64(3.0):
            break
    out[i] = s


def test_state_carried_by_a_loop():
    check(loop, 5, seed=1)


@wp.kernel
def with_model(x: wp.array(dtype=State), m: Model, out: wp.array(dtype=State)):
    i = wp.tid()
    s = x[i]
    n = m
    n.scale = n.scale * s.s
    for j in range(3):
        s.pos = wp.cw_mul(s.pos, n.b[i, j % 2]) * n.a[i] + s.vel
        n.scale = n.scale * m.a[(i + j) % 4]
    while s.s < f64(4.0):
        s.s = s.s * s.s + m.a[i] * m.a[i] + f64(1.0)
    s.vel = s.vel * n.scale * n.inner.w[1, 1]
    out[i] = s


def test_arrays_in_struct_arguments():
    check(with_model, 4, model(4), seed=2)


@wp.kernel
def in_place(x: wp.array(dtype=State)):
    i = wp.tid()
    x[i].pos.x *= x[i].s
    x[i].s = x[i].s * x[i].pos.x


def test_elements_overwritten_in_place():
    start = states(3, 4)
    weights = states(3, 9)

    def loss():
        out = start.copy()
        wp.launch(in_place, dim=3, inputs=[out])
        return sum(float(np.sum(x * w)) for x, w in zip(floats(out), floats(weights), strict=True))

    x = wp.array(start, dtype=State, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(in_place, dim=3, inputs=[x])
    tape.backward(grads={x: wp.array(weights, dtype=State)})
    for mine, expected in zip(floats(x.grad.numpy()), differences(loss, floats(start)), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=2e-6, atol=2e-7)


@wp.kernel
def gather(x: wp.array(dtype=State), index: wp.array(dtype=int), out: wp.array(dtype=f64)):
    i = wp.tid()
    s = x[index[i]]
    out[i] = s.pos.x * s.pos.x * s.s


def test_gathered_elements_sum_their_gradients():
    start = states(2, 6)
    x = wp.array(start, dtype=State, requires_grad=True)
    n = 4000
    out = wp.zeros(n, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(gather, dim=n, inputs=[x, np.zeros(n, dtype=np.int32)], outputs=[out])
    tape.backward(grads={out: wp.ones(n, dtype=f64)})
    p, s = start["pos"][0, 0], start["s"][0]
    np.testing.assert_allclose(x.grad.numpy()["pos"][:, 0], [n * 2 * p * s, 0.0])
    np.testing.assert_allclose(x.grad.numpy()["s"], [n * p * p, 0.0])


def test_repeated_backward_zero_and_copies_on_the_tape():
    x = wp.array(states(3, 7), dtype=State, requires_grad=True)
    mid, out = [wp.zeros(3, dtype=State, requires_grad=True) for _ in range(2)]
    with wp.Tape() as tape:
        wp.copy(mid, x)
        wp.launch(fields, dim=3, inputs=[mid], outputs=[out])
    seed = wp.array(states(3, 8), dtype=State)
    tape.backward(grads={out: seed})
    once = x.grad.numpy().copy()
    assert np.abs(once["pos"]).max() > 0
    direct, _ = check(fields, 3, seed=7)
    assert direct.shape == x.shape
    tape.backward(grads={out: seed})
    np.testing.assert_allclose(x.grad.numpy()["pos"], 2 * once["pos"])
    tape.zero()
    assert not x.grad.numpy()["pos"].any()


def test_explicit_adjoint_launch_with_a_struct_of_adjoints():
    n = 4
    m, x = model(n), wp.array(states(n, 2), dtype=State, requires_grad=True)
    out = wp.zeros(n, dtype=State, requires_grad=True)
    wp.launch(with_model, dim=n, inputs=[x, m], outputs=[out])
    adjoint = Model(a=wp.zeros(n, dtype=f64), b=wp.zeros((n, 2), dtype=wp.vec3d))
    seed = wp.array(states(n, 102), dtype=State)
    wp.launch(
        with_model, dim=n, inputs=[x, m], outputs=[out], adj_inputs=[None, adjoint], adj_outputs=[seed], adjoint=True
    )
    check(with_model, n, expected := model(n), seed=2)
    np.testing.assert_allclose(adjoint.a.numpy(), expected.a.grad.numpy())
    np.testing.assert_allclose(adjoint.b.numpy(), expected.b.grad.numpy())
    assert not m.a.grad.numpy().any()


def test_forward_mode_agrees_with_reverse():
    n = 3
    x = wp.array(states(n, 1), dtype=State, requires_grad=True)
    out = wp.zeros(n, dtype=State, requires_grad=True)
    t, c = wp.array(states(n, 20), dtype=State), wp.array(states(n, 21), dtype=State)
    (jt,) = wp.autograd.jvp(loop, n, [x], [out], tangents=[t])
    with wp.Tape() as tape:
        wp.launch(loop, dim=n, inputs=[x], outputs=[out])
    tape.backward(grads={out: c})
    left = sum(np.sum(a * b) for a, b in zip(floats(t.numpy()), floats(x.grad.numpy()), strict=True))
    right = sum(np.sum(a * b) for a, b in zip(floats(jt.numpy()), floats(c.numpy()), strict=True))
    assert left == pytest.approx(right, rel=1e-12)


def test_a_tape_keeps_what_a_struct_held():
    @wp.struct
    class Scale:
        by: wp.vec3d

    @wp.kernel
    def scaled(s: Scale, x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[i] * s.by[0]

    s = Scale(by=(3.0, 0.0, 0.0))
    x, y = [wp.ones(2, dtype=f64, requires_grad=True) for _ in range(2)]
    with wp.Tape() as tape:
        wp.launch(scaled, dim=2, inputs=[s, x], outputs=[y])
    s.by.x = 100.0
    tape.backward(grads={y: wp.ones(2, dtype=f64)})
    assert x.grad.numpy().tolist() == [3.0, 3.0]


@wp.kernel
def pairs(x: wp.array(dtype=State), out: wp.array(dtype=State)):
    i = wp.tid()
    s = x[i]
    for j in range(3):
        s.pos += x[j].vel * (s.pos.x - x[i].s)
    out[i] = s


def test_loads_of_fields_that_a_loop_repeats():
    check(pairs, 3, seed=13)
