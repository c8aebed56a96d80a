"""Threads that store to one element: one store wins, so one thread alone gets the element's adjoint."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import Context, CudaKernel
from tests.long_tail import crossed
from warp_like.backend.target import Options as Lowering
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature

WIDTHS = (0, 1, 4, 16)
SIZES = (1, 5, 64, 1000, 100_000)


@wp.kernel
def cube(s: wp.array(dtype=float), y: wp.array(dtype=float)):
    v = s[0]
    for _ in range(2):
        v = v * s[0]
    y[0] = v


@wp.kernel
def scatter(x: wp.array(dtype=float), place: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        y[place[i]] = 3.0 * x[i]


@wp.kernel
def scatter_vectors(x: wp.array(dtype=wp.vec3), place: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[place[i]] = 2.0 * x[i]


def in_lanes(kernel: Any, width: int) -> Any:
    return kernel.with_options({"vector_width": width}) if width else kernel


def backward(kernel: Any, dim: int, args: list[Any], out: Any) -> None:
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=args)
    tape.backward(grads={out: wp.ones(out.shape, dtype=out.dtype)})


def array(data: Any, dtype: Any = float) -> Any:
    return wp.array(np.asarray(data), dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", SIZES)
def test_all_threads_store_the_same(width: int, n: int) -> None:
    s, y = array([2.0]), array([0.0])
    backward(in_lanes(cube, width), n, [s, y], y)
    np.testing.assert_array_equal(s.grad.numpy(), [12.0])
    np.testing.assert_array_equal(y.grad.numpy(), [0.0])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [1, 5, 64, 3000])
def test_one_thread_of_each_element_gets_its_adjoint(width: int, n: int) -> None:
    rng = np.random.default_rng(n + width)
    place, x = rng.integers(0, 7, n).astype(np.int32), rng.choice([-1.0, 1.0], n)
    a, y = array(x), array(np.zeros(7))
    backward(in_lanes(scatter, width), n, [a, wp.array(place), y], y)
    got = a.grad.numpy()
    assert set(got) <= {0.0, 3.0}
    assert not got[x < 0].any()
    np.testing.assert_array_equal(np.bincount(place, got, 7), 3.0 * (np.bincount(place, x > 0, 7) > 0))


def test_in_lanes_the_thread_whose_store_won_gets_it() -> None:
    n = 16
    place, x = np.array([0, 1, 1, 0, 2, 3, 3, 3, 0, 1, 2, 2, 2, 4, 4, 3], np.int32), np.arange(n) - 2.5
    x[9] = -1.0
    a, y = array(x), array(np.zeros(5))
    backward(in_lanes(scatter, n), n, [a, wp.array(place), y], y)
    winners = [max(i for i in range(n) if place[i] == k and x[i] > 0) for k in range(5) if (place[x > 0] == k).any()]
    np.testing.assert_array_equal(a.grad.numpy(), np.where(np.isin(np.arange(n), winners), 3.0, 0.0))
    np.testing.assert_allclose(y.numpy()[place[winners]], 3.0 * x[winners])


@pytest.mark.parametrize("width", WIDTHS)
def test_components_stay_together(width: int) -> None:
    n = 8
    place = np.arange(n, dtype=np.int32) // 3
    x, y = array(np.ones((n, 3)), wp.vec3), array(np.zeros((3, 3)), wp.vec3)
    backward(in_lanes(scatter_vectors, width), n, [x, wp.array(place), y], y)
    got = x.grad.numpy()
    assert all(len(set(row)) == 1 for row in got.tolist())
    np.testing.assert_array_equal(np.bincount(place, got[:, 0]), [2.0, 2.0, 2.0])


def repeated(dtype: Any) -> Any:
    """A kernel whose threads all store ``2 * x[0]`` to ``y[0]``."""

    @wp.kernel(module="unique")
    def same(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        y[0] = x[0] + x[0]

    return same


ELEMENTS = (wp.float16, wp.bfloat16, wp.float32, wp.float64, wp.vec3h, wp.vec2d, wp.mat22, wp.quat, wp.transform)


@pytest.mark.parametrize(("dtype", "width"), crossed(ELEMENTS, [0, 1, 4], every=2))
def test_element_types(dtype: Any, width: int) -> None:
    x, y = (wp.zeros(1, dtype=dtype, requires_grad=True) for _ in range(2))
    backward(in_lanes(repeated(dtype), width), 37, [x, y], y)
    np.testing.assert_array_equal(x.grad.numpy(), wp.full(1, 2.0, dtype=dtype).numpy())


# --- ways to reach an element -------------------------------------------------------------------------------


@wp.struct
class Body:
    mass: float
    velocity: wp.vec3


@wp.kernel
def field(x: wp.array(dtype=float), y: wp.array(dtype=Body)):
    y[0].mass = 2.0 * x[0]


@wp.kernel
def whole_struct(x: wp.array(dtype=float), y: wp.array(dtype=Body)):
    b = Body()
    b.mass = 2.0 * x[0]
    y[wp.tid() // 100] = b


@wp.kernel
def through_view(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    row = y[wp.tid() // 100]
    row[1] = 2.0 * x[0]


@wp.kernel
def component(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
    y[0][1] = 2.0 * x[0]


@wp.kernel
def own_array(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    kept = wp.zeros(shape=(2,), dtype=float)
    kept[1] = x[0]
    y[0] = 2.0 * kept[1]


@wp.kernel
def indexed(x: wp.array(dtype=float), y: wp.indexedarray(dtype=float)):
    y[wp.tid() // 100] = 2.0 * x[0]


@wp.func
def doubled(x: float):
    return x + x


@wp.func_grad(doubled)
def adj_doubled(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * adj_ret


@wp.kernel
def custom(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = doubled(x[0])


@wp.kernel
def one_column(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i, _j = wp.tid()
    y[i, 0] = 2.0 * x[i]


WAYS = {
    "field": (field, lambda: wp.zeros(1, dtype=Body, requires_grad=True)),
    "whole_struct": (whole_struct, lambda: wp.zeros(1, dtype=Body, requires_grad=True)),
    "through_view": (through_view, lambda: wp.zeros((1, 2), dtype=float, requires_grad=True)),
    "component": (component, lambda: wp.zeros(1, dtype=wp.vec3, requires_grad=True)),
    "own_array": (own_array, lambda: wp.zeros(1, dtype=float, requires_grad=True)),
    "custom": (custom, lambda: wp.zeros(1, dtype=float, requires_grad=True)),
}


@pytest.mark.parametrize(("name", "width"), crossed(WAYS, [0, 1, 4], every=2))
def test_ways_to_an_element(name: str, width: int) -> None:
    kernel, make = WAYS[name]
    x, y = array([1.5]), make()
    with wp.Tape() as tape:
        wp.launch(in_lanes(kernel, width), dim=50, inputs=[x, y])
    y.grad.fill_(1.0) if y.dtype is not Body else y.grad.assign(np.ones(1, y.grad.numpy().dtype))
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0])


@pytest.mark.parametrize("width", [0, 1, 4])
def test_indexed_array(width: int) -> None:
    x, data = array([1.5]), array([0.0, 0.0])
    y = wp.indexedarray(data, [wp.array([1], dtype=int)])
    with wp.Tape() as tape:
        wp.launch(in_lanes(indexed, width), dim=50, inputs=[x, y])
    tape.backward(grads={data: wp.ones(2, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [2.0])


@pytest.mark.parametrize("width", [0, 1, 4])
def test_index_along_one_axis_of_two(width: int) -> None:
    x, y = array(np.ones(3)), array(np.zeros((3, 1)))
    with wp.Tape() as tape:
        wp.launch(in_lanes(one_column, width), dim=(3, 40), inputs=[x, y])
    tape.backward(grads={y: wp.ones((3, 1), dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0, 2.0])


# --- who uses adjoints --------------------------------------------------------------------------------------


def test_hessian_vector_product() -> None:
    for n in (1, 50):
        s, y = array([2.0]), array([0.0])
        (product,) = wp.autograd.hvp(cube, dim=n, inputs=[s], outputs=[y], tangents=[wp.ones(1, dtype=float)])
        np.testing.assert_allclose(product.numpy(), [12.0])


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    from warp_like.jax import jax_kernel

    for n in (1, 50):
        call = jax_kernel(cube, launch_dims=n, enable_backward=True)

        def value(s: Any, call: Any = call) -> Any:
            return call(s, output_dims=1)[0][0]

        s = jax.numpy.array([2.0])
        np.testing.assert_allclose(jax.grad(value)(s), [12.0])
        np.testing.assert_allclose(jax.hessian(value)(s), [[12.0]])
        np.testing.assert_allclose(jax.grad(lambda x, v=value: jax.grad(v)(x)[0])(s), [12.0])


def test_torch() -> None:
    torch = pytest.importorskip("torch")

    @wp.torch_op(dim=50, outputs={"y": 1})
    @wp.kernel
    def cubed(s: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[0] = s[0] * s[0] * s[0]

    s = torch.tensor([2.0], requires_grad=True)
    cubed(s).sum().backward()
    np.testing.assert_allclose(s.grad, [12.0])


def test_cuda_code() -> None:
    """All threads of all blocks, side by side."""
    signature = Signature(scatter.types, wrt=(0, 2))
    n = 40
    place, x = np.arange(n, dtype=np.int32) % 6, np.ones(n, np.float32)
    adj_x, adj_y = np.zeros(n, np.float32), np.ones(6, np.float32)
    g = optimised(scatter.source, signature)
    CudaKernel(g, Lowering())([x, place, np.zeros(6, np.float32), adj_x, adj_y], (n,), Context())
    np.testing.assert_array_equal(np.bincount(place, adj_x), np.full(6, 3.0))
    assert set(adj_x) == {0.0, 3.0}
    assert not adj_y.any()


# --- one OS thread, several, and other launches ---------------------------------------------------------------


@wp.kernel
def add_and_look(y: wp.array(dtype=float), seen: wp.array(dtype=float)):
    i = wp.tid()
    seen[i] = wp.atomic_add(y, i % y.shape[0], 1.0)


@pytest.fixture
def one_os_thread():
    before, wp.config.num_threads = wp.config.num_threads, 1
    yield
    wp.config.num_threads = before


@pytest.mark.parametrize("width", WIDTHS)
def test_launches_of_other_python_threads_lose_nothing(one_os_thread: None, width: int) -> None:
    """The one that takes elements does so without atomics: the other one waits until it is done."""
    n, rounds = 100_000, 20
    x, y, seen = array(np.ones(n)), array(np.zeros(500)), wp.zeros(n, dtype=float)
    taken = 0.0
    with wp.Tape() as tape:
        place = wp.array((np.arange(n) % 500).astype(np.int32))
        wp.launch(in_lanes(scatter, width), dim=n, inputs=[x, place, y])

    def add() -> None:
        for _ in range(rounds):
            wp.launch(add_and_look, dim=n, inputs=[y.grad, seen])

    other, is_last = threading.Thread(target=add), False
    other.start()
    while not is_last:
        is_last = not other.is_alive()
        x.grad.zero_()
        tape.backward()
        taken += x.grad.numpy().sum(dtype=np.float64) / 3.0
    other.join()
    assert taken == rounds * n
    assert not y.grad.numpy().any()


# --- stores to elements of the thread's own -------------------------------------------------------------------


@wp.kernel
def shifted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i + 1] = 2.0 * x[i]


@wp.kernel
def rows(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i = wp.tid()
    for k in range(y.shape[1]):
        y[i, k] = 2.0 * x[i]


@wp.kernel
def swapped(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[j, i] = 2.0 * x[i]


@wp.kernel
def fours(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(4):
        y[4 * i + k] = float(k + 1) * x[i]


@wp.kernel
def long_rows(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(100):
        y[i * 100 + k] = float(k + 1) * x[i]


@wp.kernel
def backwards(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[x.shape[0] - 1 - wp.tid()] = 2.0 * x[wp.tid()]


@wp.kernel
def overlapping_rows(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(5):
        y[4 * i + k] = float(k + 1) * x[i]


@wp.kernel
def neighbours(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]
    y[i + 1] = 3.0 * x[i]


@wp.kernel
def column_of_row(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i, _j = wp.tid()
    y[i, i] = 2.0 * x[i]


@pytest.mark.parametrize("kernel", [shifted, rows, swapped, fours, long_rows, backwards])
def test_own_elements_are_plainly_read_and_cleared(kernel: Any) -> None:
    assert "take" not in kernel.inspect("optimised", wrt=["x", "y"])


@pytest.mark.parametrize("kernel", [scatter, neighbours, overlapping_rows, column_of_row, one_column])
def test_other_elements_are_taken(kernel: Any) -> None:
    assert "take" in kernel.inspect("optimised", wrt=["x", "y"])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("kernel", "count"), [(fours, 4), (long_rows, 100)])
def test_gradients_of_rows_in_one_array(kernel: Any, count: int, width: int) -> None:
    n = 70
    x, y = array(np.ones(n)), array(np.zeros(n * count))
    seed = np.random.default_rng(1).normal(size=(n, count)).astype(np.float32)
    with wp.Tape() as tape:
        wp.launch(in_lanes(kernel, width), dim=n, inputs=[x, y])
    tape.backward(grads={y: wp.array(seed.ravel(), dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), seed @ np.arange(1.0, count + 1), rtol=1e-4, atol=1e-3)
    assert not y.grad.numpy().any()
