"""``func_grad`` and ``func_replay``: the gradient that the user wrote is the one that is used."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.gradients import check
from warp_like.frontend.closure import capture
from warp_like.frontend.source import parse

f64 = wp.float64
RNG = np.random.default_rng(12)


@wp.func
def safe_sqrt(x: f64):
    return wp.sqrt(x)


@wp.func_grad(safe_sqrt)
def adj_safe_sqrt(x: f64, adj_ret: f64):
    if x > 0.0:
        wp.adjoint[x] += f64(0.5) / safe_sqrt(x) * adj_ret


@wp.func
def pair(x: f64, v: wp.vec2d, n: int):
    """Two results; its gradient is written out, and returns early."""
    if n > 2:
        return x * v, x * x
    return v * f64(n), wp.dot(v, v) * x


@wp.func_grad(pair)
def adj_pair(x: f64, v: wp.vec2d, n: int, adj_w: wp.vec2d, adj_s: f64) -> None:
    if n > 2:
        wp.adjoint[x] = wp.dot(adj_w, v) + f64(2.0) * x * adj_s
        wp.adjoint[v] += x * adj_w
        return
    wp.adjoint[v].x += f64(n) * adj_w.x + f64(2.0) * x * v.x * adj_s
    wp.adjoint[v][1] += f64(n) * adj_w.y
    wp.adjoint[v][1] += f64(2.0) * x * v.y * adj_s
    wp.adjoint[x] += wp.dot(v, v) * adj_s


@wp.func
def lookup(table: wp.array2d(dtype=f64), i: int, x: f64):
    return table[i, 0] * x + table[i, 1]


@wp.func_grad(lookup)
def adj_lookup(table: wp.array2d(dtype=f64), i: int, x: f64, g: f64):
    wp.adjoint[table][i, 0] += g * x
    wp.atomic_add(wp.adjoint[table], i, 1, g)
    wp.adjoint[x] += g * table[i, 0]


@wp.func
def scaled(x: f64):
    return x


@wp.func
def scaled(x: wp.vec2d):  # noqa: F811
    return x


@wp.func_grad(scaled)
def adj_scaled(x: wp.vec2d, g: wp.vec2d):
    wp.adjoint[x] += f64(10.0) * g


@wp.func
def anything(x: Any):
    return x * x


@wp.func_grad(anything)
def adj_anything(x: Any, g: Any):
    wp.adjoint[x] += x * g + g * x


@wp.kernel
def straight(x: wp.array(dtype=f64), v: wp.array(dtype=wp.vec2d), out: wp.array(dtype=f64)):
    i = wp.tid()
    w, s = pair(x[i], v[i], i)
    u, r = pair(s, w, 3 - i)
    out[i] = safe_sqrt(s * s + f64(0.1)) * r + wp.dot(u, w)


@wp.kernel
def looping(x: wp.array(dtype=f64), table: wp.array2d(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    s = x[i]
    for j in range(n):
        if s < 1.0:
            s = safe_sqrt(s * s + f64(0.3)) * x[j % 3]
        else:
            s = anything(lookup(table, j % 2, s) * f64(0.1))
        k = j
        while k > 0:
            s += wp.sin(lookup(table, 0, s))
            k -= 2
    out[i] = s


@wp.kernel
def by_overload(x: wp.array(dtype=f64), v: wp.array(dtype=wp.vec2d), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = scaled(x[i]) + scaled(v[i]).x


@wp.kernel
def rooted(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = safe_sqrt(x[i])


def gradients(kernel, dim, *arrays, grads=None):
    """The gradients of the sum of the last array."""
    bound = [a if not isinstance(a, np.ndarray) else wp.array(a, dtype=_dtype(kernel, i), requires_grad=True)
             for i, a in enumerate(arrays)]  # fmt: skip
    with wp.Tape() as tape:
        wp.launch(kernel, dim, inputs=bound)
    tape.backward(grads={bound[-1]: wp.ones_like(bound[-1])})
    return [a.grad.numpy() for a in bound if isinstance(a, wp.array) and a.grad is not None]


def _dtype(kernel, i):
    from warp_like import values

    return values.from_ir(kernel.parameters[i][1].dtype)


def test_the_gradient_is_that_of_the_user():
    x = wp.array([4.0, 0.0], dtype=f64, requires_grad=True)
    out = wp.zeros(2, dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rooted, 2, inputs=[x], outputs=[out])
    tape.backward(grads={out: wp.ones(2, dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), [0.25, 0.0])
    np.testing.assert_array_equal(out.numpy(), [2.0, 0.0])


def test_several_results_components_and_early_return():
    check(straight, 4, [RNG.normal(size=4), RNG.normal(size=(4, 2))], 4)


def test_in_loops_and_branches():
    check(looping, 3, [RNG.uniform(0.3, 0.9, size=3), RNG.normal(size=(2, 2)), 6], 3)


def test_a_gradient_belongs_to_one_overload():
    gx, gv, _ = gradients(by_overload, 2, np.ones(2), np.ones((2, 2)), np.zeros(2))
    np.testing.assert_array_equal(gx, [1, 1])
    np.testing.assert_array_equal(gv, [[10, 0], [10, 0]])


def test_an_array_without_gradient():
    table = wp.array(np.array([[2.0, 1.0]]), dtype=f64)
    x = wp.array([3.0], dtype=f64, requires_grad=True)
    out = wp.zeros(1, dtype=f64, requires_grad=True)

    @wp.kernel
    def k(table: wp.array2d(dtype=f64), x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        out[0] = lookup(table, 0, x[0])

    with wp.Tape() as tape:
        wp.launch(k, 1, inputs=[table, x], outputs=[out])
    tape.backward(loss=out)
    assert x.grad.numpy()[0] == 2.0


@wp.func
def read_row(row: wp.array(dtype=f64), k: int):
    return row[k] * row[k]


@wp.func_grad(read_row)
def adj_read_row(row: wp.array(dtype=f64), k: int, g: f64):
    wp.adjoint[row][k] += f64(2.0) * row[k] * g


def test_views_as_arguments():
    @wp.kernel
    def k(x: wp.array2d(dtype=f64), out: wp.array(dtype=f64)):
        i = wp.tid()
        out[i] = read_row(x[i], 1) + read_row(x[2 - i], 0)

    check(k, 3, [RNG.normal(size=(3, 2))], 3)


# --- functions that write ---


@wp.func
def push_sine(x: f64, i: int, out: wp.array(dtype=f64)):
    out[i] = wp.sin(x)


@wp.func_grad(push_sine)
def adj_push_sine(x: f64, i: int, out: wp.array(dtype=f64)):
    # out[i] is what the function left there
    wp.adjoint[x] += wp.adjoint[out][i] * wp.sqrt(f64(1.0) - out[i] * out[i])
    wp.adjoint[out][i] = f64(0.0)


def test_a_function_without_results():
    @wp.kernel
    def k(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        i = wp.tid()
        push_sine(x[i] * x[i], i, out)

    check(k, 3, [np.array([0.2, 0.5, 1.1])], 3)


@wp.func
def bump(a: wp.array(dtype=f64), i: int, x: f64):
    a[i] = a[i] * x
    return a[i] + x


@wp.func_grad(bump)
def adj_bump(a: wp.array(dtype=f64), i: int, x: f64, g: f64):
    both = g + wp.adjoint[a][i]
    wp.adjoint[x] += both * a[i] / x + g  # a[i] / x is what stood there before
    wp.adjoint[a][i] = both * x


def test_a_function_that_overwrites_what_it_reads():
    @wp.kernel
    def k(a: wp.array(dtype=f64), x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        i = wp.tid()
        y = bump(a, i, x[i])
        out[i] = y * y + wp.sin(a[i])

    check(k, 3, [RNG.uniform(0.5, 1.0, size=3), RNG.uniform(0.5, 1.0, size=3)], 3)


# --- replay ---


@wp.func
def take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int):
    place = wp.atomic_add(counter, 0, 1)
    taken[i] = place
    return place


@wp.func_replay(take)
def replay_take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int):
    return taken[i]


@wp.kernel
def compact(
    x: wp.array(dtype=f64),
    counter: wp.array(dtype=int),
    taken: wp.array(dtype=int),
    packed: wp.array(dtype=f64),
    out: wp.array(dtype=f64),
):
    i = wp.tid()
    if x[i] > 0.0:
        at = take(counter, taken, i)
        packed[at] = x[i] * x[i]
        wp.atomic_add(out, 0, x[i] * x[i] * f64(1.0 + 0.0))


@pytest.mark.parametrize("again", [False, True])
def test_replay_of_an_atomic(again):
    values = np.array([3.0, -1.0, 2.0, 5.0])
    x = wp.array(values, dtype=f64, requires_grad=True)
    packed = wp.zeros(4, dtype=f64, requires_grad=True)
    out = wp.zeros(1, dtype=f64, requires_grad=True)
    counter, taken = wp.zeros(1, dtype=int), wp.full(4, -1, dtype=int)
    with wp.Tape() as tape:
        wp.launch(compact, 4, inputs=[x, counter, taken, packed, out])
        order = taken.numpy().copy()
        if again:  # what the replay reads is overwritten: the tape keeps it
            taken.fill_(7)
    weights = np.array([1.0, 10.0, 100.0, 0.0])
    tape.backward(grads={packed: wp.array(weights, dtype=f64)})
    expected = np.where(values > 0, 2 * values * weights[order.clip(0)], 0)
    np.testing.assert_allclose(x.grad.numpy(), expected)


@wp.kernel
def compact_once(
    x: wp.array(dtype=f64),
    waiting: wp.array(dtype=int),
    counter: wp.array(dtype=int),
    taken: wp.array(dtype=int),
    packed: wp.array(dtype=f64),
):
    i = wp.tid()
    for _ in range(waiting[i]):  # tapes keep the results of atomics outside of loops
        waiting[i] = 0  # the reverse sweep asks for the value before
        packed[take(counter, taken, i)] = x[i] * x[i]


def test_replay_beside_an_array_that_is_overwritten():
    """A replay reads the arrays as the launch left them, so they need no pre-launch copies."""
    values, weights = np.array([3.0, -1.0, 2.0, 5.0]), np.array([1.0, 10.0, 100.0, 1000.0])
    x, packed = wp.array(values, dtype=f64, requires_grad=True), wp.zeros(4, dtype=f64, requires_grad=True)
    waiting, counter, taken = wp.array([1, 0, 1, 1], dtype=int), wp.zeros(1, dtype=int), wp.full(4, -1, dtype=int)
    with wp.Tape() as tape:
        wp.launch(compact_once, 4, inputs=[x, waiting, counter, taken, packed])
    tape.backward(grads={packed: wp.array(weights, dtype=f64)})
    order = taken.numpy()
    assert sorted(order) == [-1, 0, 1, 2]
    np.testing.assert_allclose(x.grad.numpy(), np.where(order < 0, 0, 2 * values * weights[order.clip(0)]))


@wp.func
def noisy(x: f64, n: wp.array(dtype=int)):
    k = wp.atomic_add(n, 0, 1)
    return x * x * x, k


@wp.func_replay(noisy)
def replay_noisy(x: f64, n: wp.array(dtype=int)):
    return x * x * x, 0


def test_a_function_with_a_replay_alone_is_differentiated():
    @wp.kernel
    def k(x: wp.array(dtype=f64), n: wp.array(dtype=int), out: wp.array(dtype=f64)):
        i = wp.tid()
        y, _ = noisy(x[i], n)
        for _j in range(3 + i):
            z, _ = noisy(y, n)
            y = wp.sin(z) * y
        out[i] = y * y

    check(k, 3, [RNG.uniform(0.5, 1.0, size=3), np.zeros(1, np.int32)], 3)


@wp.func
def both(x: f64, n: wp.array(dtype=int)):
    wp.atomic_add(n, 0, 1)
    return x * x


@wp.func_grad(both)
def adj_both(x: f64, n: wp.array(dtype=int), g: f64):
    wp.adjoint[x] += f64(20.0) * x * g


@wp.func_replay(both)
def replay_both(x: f64, n: wp.array(dtype=int)):
    return x * x


def test_gradient_and_replay():
    @wp.kernel
    def k(x: wp.array(dtype=f64), n: wp.array(dtype=int), out: wp.array(dtype=f64)):
        i = wp.tid()
        y = both(x[i], n)
        out[i] = y * y

    x = np.array([2.0])
    gx = gradients(k, 1, x, wp.zeros(1, dtype=int), np.zeros(1))[0]
    np.testing.assert_allclose(gx, 2 * 4.0 * 40.0)


# --- what is refused ---


@wp.func
def plain(a: wp.array(dtype=f64), i: int):
    return a[i] * a[i]


@wp.func_grad(plain)
def adj_plain(a: wp.array(dtype=f64), i: int, g: f64):
    wp.adjoint[a][i] += f64(2.0) * a[i] * g


def test_a_gradient_that_reads_what_the_kernel_overwrites():
    @wp.kernel
    def k(a: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        i = wp.tid()
        out[i] = plain(a, i)
        a[i] = 0.0

    with pytest.raises(wp.WarpCodegenError, match="gradient function of `plain` reads this element of `a`, which the"):
        gradients(k, 1, np.ones(1), np.zeros(1))


@wp.func
def careless(a: wp.array(dtype=f64), i: int):
    return a[i]


@wp.func_grad(careless)
def adj_careless(a: wp.array(dtype=f64), i: int, g: f64):
    a[i] = g


@wp.func
def counted(a: wp.array(dtype=f64), i: int):
    return a[i]


@wp.func_replay(counted)
def replay_counted(a: wp.array(dtype=f64), i: int):
    a[i] = 0.0
    return a[i]


def test_writing_to_anything_but_adjoints():
    @wp.kernel
    def k(a: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        out[0] = careless(a, 0)

    @wp.kernel
    def k2(a: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        out[0] = counted(a, 0)

    with pytest.raises(wp.WarpCodegenError, match="`careless` writes to `a`; it may write to adjoints only"):
        gradients(k, 1, np.ones(1), np.zeros(1))
    with pytest.raises(wp.WarpCodegenError, match="replay function `replay_counted` changes memory"):
        gradients(k2, 1, np.ones(1), np.zeros(1))


def test_only_functions_get_gradients():
    with pytest.raises(TypeError, match=r"func_grad\(\) takes a function made by @wp.func, got function"):
        wp.func_grad(len if False else (lambda x: x))
    with pytest.raises(TypeError, match="belongs to the code of a gradient function"):
        wp.adjoint[0]


# --- keys and redefinition ---

SOURCE = """
@wp.func
def f(x: wp.float64):
    return x

@wp.func_grad(f)
def adj_f(x: wp.float64, g: wp.float64):
    wp.adjoint[x] += FACTOR * g

def k(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    out[0] = f(x[0])
"""


def test_the_cache_key_covers_gradient_and_replay():
    def key(source, **names):
        return capture(parse(define(source, **names)["k"], "kernel")).meanings

    first = key(SOURCE, FACTOR=wp.float64(2.0))
    assert first == key(SOURCE, FACTOR=wp.float64(2.0))
    assert first != key(SOURCE, FACTOR=wp.float64(3.0))
    assert first != key(SOURCE.replace("+=", "-="), FACTOR=wp.float64(2.0))
    replay = SOURCE.replace("func_grad(f)", "func_replay(f)").replace(", g:", "):  #")
    assert first != key(replay, FACTOR=wp.float64(2.0))


def test_a_gradient_declared_after_the_first_backward():
    @wp.func
    def late(x: f64):
        return x

    @wp.kernel
    def k(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
        out[0] = late(x[0])

    assert gradients(k, 1, np.ones(1), np.zeros(1))[0] == 1

    @wp.func_grad(late)
    def adj_late(x: f64, g: f64):
        wp.adjoint[x] += f64(5.0) * g

    assert gradients(k, 1, np.ones(1), np.zeros(1))[0] == 5


def test_a_new_definition_drops_the_gradient():
    def define_it():
        @wp.func
        def again(x: f64):
            return x

        return again

    first = define_it()
    wp.func_grad(first)(adj_scaled_scalar)
    assert first.overloads[0].customs
    assert not define_it().overloads[0].customs


def adj_scaled_scalar(x: f64, g: f64):
    wp.adjoint[x] += f64(2.0) * g
