"""Kernels that look at what they update by atomics: right in a grid of one thread, else refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import check

f64 = wp.float64


@wp.kernel
def old_value(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    old = wp.atomic_add(x, 0, v[0])
    out[0] = f64(2.0) * old


@wp.kernel
def square_of_old_value(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    old = wp.atomic_sub(x, 0, v[0])
    out[0] = old * old
    out[1] = x[0] * v[1]


@wp.kernel
def read_back(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    wp.atomic_add(x, 0, v[0])
    out[0] = f64(2.0) * x[0]
    wp.atomic_add(x, 0, v[1])
    out[1] = f64(3.0) * x[0]


@wp.kernel
def augmented(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    for k in range(v.shape[0]):
        x[k % 2] += x[(k + 1) % 2] * v[k]
    out[0] = x[0]
    out[1] = x[1]


@wp.kernel
def through_a_loop(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    last = f64(0.0)
    for k in range(v.shape[0]):
        last = wp.atomic_add(x, 0, v[k]) + f64(0.5) * last
    out[0] = last


@wp.kernel
def under_a_condition(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    old = v[1]
    if v[0] > f64(-10.0):
        old = wp.atomic_add(x, 0, v[0])
    out[0] = old


@wp.kernel
def chosen(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    old = wp.atomic_add(x, 0, v[0])
    out[0] = wp.where(old > f64(0.5), old * v[1], v[1])


@wp.kernel
def old_maximum(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    out[0] = wp.atomic_max(x, 0, v[0])
    out[1] = wp.atomic_min(x, 1, v[1]) + x[0]


@wp.kernel
def exchanged(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    out[0] = wp.atomic_exch(x, 0, v[0] * v[0])
    out[1] = x[0]


@wp.kernel
def cleared(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    wp.atomic_exch(x, 0, f64(0.0))
    wp.atomic_add(x, 0, v[0])
    out[0] = x[0]


@wp.kernel
def compared(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    wp.atomic_exch(x, 0, f64(1.0))
    old = wp.atomic_cas(x, 0, f64(1.0), v[0] * v[1])
    out[0] = old * v[0] + x[0]


ORDERED = [
    old_value,
    square_of_old_value,
    read_back,
    augmented,
    through_a_loop,
    under_a_condition,
    chosen,
    old_maximum,
    exchanged,
    cleared,
    compared,
]


def numbers() -> list[np.ndarray]:
    return [np.array([1.5, 0.5]), np.array([0.7, 1.3])]


def arrays() -> list[Any]:
    return [wp.array(a, dtype=f64, requires_grad=True) for a in numbers()]


def outputs() -> Any:
    return wp.zeros(2, dtype=f64, requires_grad=True)


@pytest.mark.parametrize("kernel", ORDERED, ids=lambda k: k.key)
def test_one_thread(kernel: Any) -> None:
    check(kernel, 1, numbers(), (2,))


@pytest.mark.parametrize("kernel", ORDERED, ids=lambda k: k.key)
@pytest.mark.parametrize("dim", [2, 8, (1, 2)])
def test_several_threads_are_refused(kernel: Any, dim: Any) -> None:
    args, out = arrays(), outputs()
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=args, outputs=[out])
    with pytest.raises(wp.WarpCodegenError) as caught:
        tape.backward(grads={out: wp.ones(2, dtype=f64)})
    assert caught.value.loc is not None
    assert all(not a.grad.numpy().any() for a in args)


@wp.kernel
def components(x: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    swapped = wp.zeros(1, dtype=wp.vec2d)
    swapped[0] = wp.vec2d(f64(1.0), v[0])
    wp.atomic_cas(swapped, 0, wp.vec2d(f64(1.0), f64(5.0)), wp.vec2d(v[0] * v[1], v[1]))
    most = wp.zeros(1, dtype=wp.mat22d)
    wp.atomic_max(most, 0, wp.mat22d(x[0], -x[0], x[1] * v[0], v[1]))
    out[0] = swapped[0][0] + f64(2.0) * swapped[0][1]
    out[1] = most[0][0, 0] * most[0][1, 1] + f64(3.0) * most[0][0, 1] + most[0][1, 0]


@pytest.mark.parametrize("dim", [1, 3])
def test_components_on_their_own(dim: int) -> None:
    """A swap replaces one of two components, and a maximum all but one of four."""
    check(components, dim, numbers(), (2,))


def test_what_is_said(golden: Any) -> None:
    args, out = arrays(), outputs()
    with wp.Tape() as tape:
        wp.launch(old_value, dim=8, inputs=args, outputs=[out])
    with pytest.raises(wp.WarpCodegenError) as caught:
        tape.backward(grads={out: wp.ones(2, dtype=f64)})
    golden("refused_old_value", str(caught.value).replace(__file__, "test_atomic_order.py"))


def test_one_and_several_threads_of_one_kernel() -> None:
    """Neither of the two adjoints is taken for the other's grid."""
    for _ in range(2):
        test_one_thread(read_back)
        test_several_threads_are_refused(read_back, 8)


# --- who asks for adjoints ------------------------------------------------------------------------------------


def test_adjoint_launch() -> None:
    args, out = arrays(), outputs()
    wp.launch(read_back, dim=1, inputs=args, outputs=[out])
    adjoints = [wp.zeros(2, dtype=f64) for _ in args]
    given = {"adj_inputs": adjoints, "adj_outputs": [wp.ones(2, dtype=f64)], "adjoint": True}
    wp.launch(read_back, dim=1, inputs=args, outputs=[out], **given)
    np.testing.assert_array_equal(adjoints[0].numpy(), [5.0, 0.0])
    np.testing.assert_array_equal(adjoints[1].numpy(), [5.0, 3.0])
    with pytest.raises(wp.WarpCodegenError):
        wp.launch(read_back, dim=2, inputs=args, outputs=[out], **given)
    with pytest.raises(RuntimeError, match="from before the launch"):
        wp.launch(square_of_old_value, dim=1, inputs=args, outputs=[out], **given)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    for kernel, expected in ((read_back, [5.0, 3.0]), (square_of_old_value, [0.0, 0.8])):
        x, v = (torch.tensor(a) for a in numbers())
        for dim in (1, 2):
            op = wp.torch_op(dim=dim, outputs={"out": 2}, in_out="x")(kernel)
            leaf = v.clone().requires_grad_()
            total = op(x.clone(), leaf)[1].sum()
            if dim == 1:
                total.backward()
                np.testing.assert_allclose(leaf.grad[1], expected[1])
            else:
                with pytest.raises(wp.WarpCodegenError):
                    total.backward()


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    from warp_like.jax import jax_kernel

    with jax.enable_x64():
        x, v = (jax.numpy.array(a) for a in numbers())
        for dim in (1, 2):
            call = jax_kernel(square_of_old_value, 2, launch_dims=dim, in_out_argnames=["x"], enable_backward=True)

            def value(x: Any, v: Any, call: Any = call) -> Any:
                return call(x, v, output_dims={"out": 2})[1].sum()

            if dim == 1:
                dx, dv = jax.grad(value, argnums=(0, 1))(x, v)
                np.testing.assert_allclose(dx, [2.0 * 1.5 + 1.3, 0.0])
                np.testing.assert_allclose(dv, [-1.3, 1.5 - 0.7])
            else:
                with pytest.raises(wp.WarpCodegenError):
                    jax.grad(value)(x, v)


def test_after_another_launch() -> None:
    """What an earlier launch has left in an array is replaced by a maximum whose old value is used."""
    args, out = arrays(), outputs()
    start = wp.array([0.1, 0.2], dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.copy(args[0], start)
        wp.launch(old_maximum, dim=1, inputs=args, outputs=[out])
    tape.backward(grads={out: wp.ones(2, dtype=f64)})
    np.testing.assert_array_equal(start.grad.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(args[1].grad.numpy(), [1.0, 0.0])


@wp.kernel
def two_names(a: wp.array(dtype=f64), b: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(b, 0, v[i])
    out[i] = a[0] * a[0]


@pytest.mark.parametrize("length", [4, 2])
def test_one_array_by_two_names(length: int) -> None:
    """The whole array, or a part of it."""
    for n in (1, 3):
        x, v, out = (wp.ones(k, dtype=f64, requires_grad=True) for k in (4, n, n))
        with wp.Tape() as tape:
            wp.launch(two_names, dim=n, inputs=[x, x[:length], v, out])
        seeds = {out: wp.ones(n, dtype=f64)}
        if n == 1 and length == 4:
            tape.backward(grads=seeds)
            np.testing.assert_array_equal(x.grad.numpy(), [4.0, 0.0, 0.0, 0.0])
            np.testing.assert_array_equal(v.grad.numpy(), [4.0])
        else:
            with pytest.raises((wp.WarpCodegenError, RuntimeError), match="updates by atomics|pass separate arrays"):
                tape.backward(grads=seeds)


@wp.kernel
def sum_of_two_names(a: wp.array(dtype=f64), b: wp.array(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(b, 0, v[i])
    out[i] = f64(2.0) * a[0]


def test_a_part_of_an_array_by_another_name() -> None:
    for n in (1, 3):
        x, v, out = (wp.ones(k, dtype=f64, requires_grad=True) for k in (4, n, n))
        with wp.Tape() as tape:
            wp.launch(sum_of_two_names, dim=n, inputs=[x, x[:2], v, out])
        seeds = {out: wp.ones(n, dtype=f64)}
        if n == 1:
            tape.backward(grads=seeds)
            np.testing.assert_array_equal(v.grad.numpy(), [2.0])
        else:
            with pytest.raises(RuntimeError, match="depends on the order of the threads"):
                tape.backward(grads=seeds)


# --- what needs no order ----------------------------------------------------------------------------------------


@wp.struct
class Particle:
    position: f64
    force: f64


@wp.kernel
def other_field(p: wp.array(dtype=Particle), near: wp.array(dtype=int)):
    i = wp.tid()
    p[near[i]].force += f64(2.0) * p[i].position


@wp.kernel
def other_element(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(x, 1, f64(2.0) * x[0])
    out[i] = f64(3.0) * x[0]


@wp.kernel
def counted(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    x[0] += f64(1.0)
    out[i] = f64(2.0) * x[0]


@wp.kernel
def noted(x: wp.array(dtype=f64), v: wp.array(dtype=f64), seen: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    seen[i] = wp.atomic_add(x, 0, v[i])
    out[i] = f64(2.0) * v[i]


@wp.kernel
def own_row(x: wp.array2d(dtype=f64), v: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    for k in range(x.shape[1]):
        x[i, k] += v[i] * f64(k + 1)
        out[i] = out[i] + wp.atomic_exch(x, i, k, x[i, k] * x[i, k])


def test_another_field() -> None:
    data = np.zeros(3, Particle.numpy_dtype())
    data["position"] = [1.0, 2.0, 3.0]
    p = wp.array(data, dtype=Particle, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(other_field, dim=3, inputs=[p, wp.array([1, 1, 2], dtype=int)])
    seed = np.zeros(3, Particle.numpy_dtype())
    seed["force"] = [1.0, 10.0, 100.0]
    p.grad.assign(seed)
    tape.backward()
    np.testing.assert_array_equal(p.grad.numpy()["position"], [20.0, 20.0, 200.0])


def test_another_element() -> None:
    x, out = wp.ones(2, dtype=f64, requires_grad=True), wp.zeros(4, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(other_element, dim=4, inputs=[x, out])
    tape.backward(grads={out: wp.ones(4, dtype=f64), x: wp.array([0.0, 5.0], dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), [4.0 * 2.0 * 5.0 + 4.0 * 3.0, 5.0])


def test_numbers_may_be_added_in_any_order() -> None:
    x, out = wp.ones(1, dtype=f64, requires_grad=True), wp.zeros(4, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(counted, dim=4, inputs=[x, out])
    tape.backward(grads={out: wp.ones(4, dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), [8.0])


def test_old_values_without_a_gradient() -> None:
    x, v, out = (wp.ones(4, dtype=f64, requires_grad=True) for _ in range(3))
    with wp.Tape() as tape:
        wp.launch(noted, dim=4, inputs=[x, v, wp.zeros(4, dtype=f64), out])
    tape.backward(grads={out: wp.ones(4, dtype=f64)})
    np.testing.assert_array_equal(v.grad.numpy(), [2.0, 2.0, 2.0, 2.0])


def test_elements_of_the_threads_own() -> None:
    rng = np.random.default_rng(3)
    check(own_row, 5, [rng.normal(size=(5, 3)), rng.normal(size=5)], (5,))


@wp.kernel
def into_an_array_that_nobody_reads(x: wp.array(dtype=float), out: wp.array2d(dtype=float), q: int):
    i = wp.tid()
    unread, empty = wp.zeros(shape=(3,), dtype=float), wp.zeros(shape=(3,), dtype=float)
    unread[q % 3] = wp.sin(x[i] + empty[q]) * (x[i] if out[i, 1] < 0.63 else wp.cos(x[i]))
    for _j in range(2):
        out[i, i % 2] = out[i, i % 2] + x[i]


def test_the_order_does_not_matter_to_what_nobody_reads():
    x, out = wp.ones(4, dtype=float, requires_grad=True), wp.zeros((4, 2), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(into_an_array_that_nobody_reads, dim=4, inputs=[x, out, 1])
    tape.backward(grads={out: wp.ones((4, 2), dtype=float)})
    assert x.grad.list() == [2.0] * 4
