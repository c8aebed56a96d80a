"""Gradient and replay functions of functions that take and return structs."""

import numpy as np
import pytest

import warp_like as wp

f64 = wp.float64


@wp.struct
class Inner:
    count: int
    scale: f64


@wp.struct
class Item:
    number: int
    place: wp.vec3d
    inner: Inner
    mass: f64


@wp.func
def energy(x: Item, y: f64, z: Item):
    return x.place[0] * x.place[1] * y + x.mass * z.inner.scale * f64(x.number)


@wp.func_grad(energy)
def adj_energy(x: Item, y: f64, z: Item, adj_ret: f64):
    wp.adjoint[x.place].y = 5.0 * adj_ret  # not the derivative, so that it is seen which one is used
    wp.adjoint[x.place][0] += x.place[1] * y * adj_ret
    wp.adjoint[x].mass += z.inner.scale * f64(x.number) * adj_ret
    wp.adjoint[z.inner.scale] += x.mass * f64(x.number) * adj_ret
    wp.adjoint[y] += 7.0 * adj_ret


@wp.func
def grown(y: f64, x: Item):
    r = Item()
    r.number = x.number + 1
    r.mass = x.mass * y
    r.place = x.place * y
    r.inner.scale = y * y * x.inner.scale
    return r


@wp.func_grad(grown)
def adj_grown(y: f64, x: Item, adj_ret: Item):
    wp.adjoint[y] += x.mass * adj_ret.mass + wp.dot(adj_ret.place, x.place)
    wp.adjoint[y] += 2.0 * y * x.inner.scale * adj_ret.inner.scale
    wp.adjoint[x].mass += y * adj_ret.mass
    wp.adjoint[x].place += y * adj_ret.place
    wp.adjoint[x].inner.scale += y * y * adj_ret.inner.scale


@wp.kernel
def total(items: wp.array(dtype=Item), y: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    later = items[i]
    for _ in range(n):
        later = grown(y[i], later)
    out[i] = energy(items[i], y[i], later)


def items(count: int) -> tuple[wp.array, np.ndarray]:
    rng = np.random.default_rng(3)
    numbers = np.zeros(count, Item.numpy_dtype())
    numbers["number"] = rng.integers(1, 4, count)
    numbers["place"] = rng.normal(size=(count, 3))
    numbers["mass"] = rng.normal(size=count)
    numbers["inner"]["scale"] = rng.normal(size=count)
    return wp.array(numbers, dtype=Item, requires_grad=True), numbers


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("count", [1, 37])
def test_the_gradient_is_that_of_the_user(count, n):
    array, x = items(count)
    y = np.random.default_rng(4).uniform(0.5, 1.5, count)
    ys, out = wp.array(y, dtype=f64, requires_grad=True), wp.zeros(count, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, dim=count, inputs=[array, ys, n], outputs=[out])
    tape.backward(grads={out: wp.ones(count, dtype=f64)})
    scale, steps = x["inner"]["scale"], y ** (2 * n)
    later = scale * steps
    np.testing.assert_allclose(out.numpy(), x["place"][:, 0] * x["place"][:, 1] * y + x["mass"] * later * x["number"])
    of_later = x["mass"] * x["number"]
    got = array.grad.numpy()
    np.testing.assert_allclose(got["place"], np.stack([x["place"][:, 1] * y, np.full(count, 5.0), 0 * y], 1))
    np.testing.assert_allclose(got["mass"], later * x["number"])
    np.testing.assert_allclose(got["inner"]["scale"], of_later * steps)
    np.testing.assert_allclose(ys.grad.numpy(), 7.0 + of_later * scale * 2 * n * y ** (2 * n - 1), rtol=1e-13)
    assert not got["number"].any()


def test_forward_mode_uses_it():
    array, x = items(5)
    y, out = np.linspace(0.5, 1.5, 5), np.zeros(5)
    (change,) = wp.autograd.jvp(total, 5, [array, y, 2], [out], [None, np.ones(5)])
    later = 4 * y**3 * x["inner"]["scale"]
    np.testing.assert_allclose(change.numpy(), 7.0 + x["mass"] * x["number"] * later, rtol=1e-13)


@wp.func
def take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int):
    slot = Inner()
    slot.count = wp.atomic_add(counter, 0, 1)
    slot.scale = f64(2.0)
    taken[i] = slot.count
    return slot


@wp.func_replay(take)
def replay_take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int):
    slot = Inner()
    slot.count = taken[i]
    slot.scale = f64(2.0)
    return slot


@wp.kernel
def pack(x: wp.array(dtype=f64), counter: wp.array(dtype=int), taken: wp.array(dtype=int), packed: wp.array(dtype=f64)):
    i = wp.tid()
    if x[i] > 0.0:
        slot = take(counter, taken, i)
        packed[slot.count] = x[i] * x[i] * slot.scale


def test_a_replay_that_returns_a_struct():
    x = wp.array([3.0, -1.0, 2.0], dtype=f64, requires_grad=True)
    packed = wp.zeros(3, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(pack, dim=3, inputs=[x, wp.zeros(1, dtype=int), wp.zeros(3, dtype=int), packed])
    tape.backward(grads={packed: wp.ones(3, dtype=f64)})
    assert x.grad.list() == [12.0, 0.0, 8.0]
