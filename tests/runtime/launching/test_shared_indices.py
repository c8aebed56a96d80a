"""Grids of more dimensions than the kernel asks for indices: several threads have the same index.

So no element is a thread's own there: what is proven of a kernel for other grids does not hold.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import warp_like as wp

SURPLUS = [
    (6,),
    (6, 1),
    (6, 5),
    (6, 1, 7),
    (6, 2, 3),
    (6, 40, 3),
    (2, 3, 2, 2),
    (1, 9),
    (6, 1, 1, 1),
    (6, 1, 2, 1, 2, 1, 1, 2),
    (0, 3),
    (3, 0),
]


@wp.kernel
def ask_1(seen: wp.array4d(dtype=int)):
    i = wp.tid()
    wp.atomic_add(seen, i, 0, 0, 0, 1)


@wp.kernel
def ask_2(seen: wp.array4d(dtype=int)):
    i, j = wp.tid()
    wp.atomic_add(seen, i, j, 0, 0, 1)


@wp.kernel
def ask_3(seen: wp.array4d(dtype=int)):
    i, j, k = wp.tid()
    wp.atomic_add(seen, i, j, k, 0, 1)


@wp.kernel
def ask_4(seen: wp.array4d(dtype=int)):
    i, j, k, m = wp.tid()
    wp.atomic_add(seen, i, j, k, m, 1)


@wp.kernel
def ask_in_several_ways(seen: wp.array4d(dtype=int)):
    i = wp.tid()
    a, b = wp.tid()
    x, y, z = wp.tid()
    if i == a and a == x and b == y:
        wp.atomic_add(seen, i, b, z, 0, 1)


@pytest.mark.parametrize("dim", SURPLUS)
@pytest.mark.parametrize("asked", [1, 2, 3, 4])
def test_the_indices_are_the_first_ones(asked, dim):
    kernels = {1: [ask_1], 2: [ask_2], 3: [ask_3, ask_in_several_ways], 4: [ask_4]}[asked]
    for kernel in kernels:
        expected = np.zeros((9, 40, 7, 4), np.int32)
        for thread in itertools.product(*map(range, dim)):
            found = (*thread[:asked], *[0] * 4)[:4]
            expected[found] += 1
        seen = np.zeros_like(expected)
        wp.launch(kernel, dim, outputs=[seen])
        np.testing.assert_array_equal(seen, expected)


@wp.kernel
def row_sums(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    s = 0.0
    for j in range(x.shape[1]):
        s += x[i, j]
    out[i] = s


def test_a_kernel_of_rows_over_the_shape_of_its_array():
    x = np.random.default_rng(0).random((300, 40)).astype(np.float32)
    out = np.zeros(300, np.float32)
    wp.launch(row_sums, x.shape, [x], [out])
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-5)


@wp.kernel
def add_to_own(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] += x[i]


@wp.kernel
def add_and_read(out: wp.array(dtype=int), last: wp.array(dtype=int)):
    i = wp.tid()
    last[wp.atomic_add(out, i, 1)] = i


@wp.kernel
def add_near(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] += x[i]
    out[i + 1] += x[i]


@wp.kernel
def smallest(out: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_min(out, i, -i)
    wp.atomic_max(out, 6, i)


@pytest.fixture(params=[1, 2])
def os_threads(request, monkeypatch):
    monkeypatch.setattr(wp.config, "num_threads", request.param)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("lanes", [0, 1, 8])
@pytest.mark.parametrize("dim", [(6, 5000), (6, 1, 700), (6, 3, 1, 7)])
def test_additions_of_threads_that_share_an_element(os_threads, dim, lanes, deterministic):
    options = {"vector_width": lanes, "deterministic": deterministic}
    each = int(np.prod(dim[1:]))
    x = np.arange(6, dtype=np.float32)
    for _ in range(3):
        out, near = np.ones(6, np.float32), np.zeros(7, np.float32)
        wp.launch(add_to_own, dim, [x], [out], options=options)
        np.testing.assert_array_equal(out, 1 + each * x)
        wp.launch(add_near, dim, [x], [near], options=options)
        np.testing.assert_array_equal(near, each * (np.append(x, 0) + np.append(0, x)))
        counts, last = np.zeros(6, np.int32), np.full(each, -1, np.int32)
        wp.launch(add_and_read, dim, outputs=[counts, last], options=options)
        np.testing.assert_array_equal(counts, each)
        assert last.min() >= 0  # all old values were different ones
        least = np.full(7, 9, np.int32)
        wp.launch(smallest, dim, outputs=[least], options=options)
        np.testing.assert_array_equal(least, [0, -1, -2, -3, -4, -5, 9])


def test_launches_go_from_one_kind_of_grid_to_the_other():
    x = wp.array(np.arange(6), dtype=float)
    for _ in range(3):
        out = wp.zeros(6, dtype=float)
        for dim in (6, (6, 4), (6, 1), (3, 2), (2, 2, 2), (0, 4)):
            wp.launch(add_to_own, dim, [x], [out])
        assert out.list() == [0 * 12, 1 * 12, 2 * 8, 3 * 6, 4 * 6, 5 * 6]


def test_a_recorded_launch_follows_its_grid():
    x, out = wp.array(np.arange(6), dtype=float), wp.zeros(6, dtype=float)
    command = wp.launch(add_to_own, 6, [x], [out], record_cmd=True)
    for dim in (6, (6, 4), (3, 2), 6):
        command.set_dim(dim)
        command.launch()
        command.launch()
    assert out.list() == [0.0, 16.0, 32.0, 36.0, 48.0, 60.0]


def test_the_explanation_tells_the_kinds_of_grids_apart():
    @wp.kernel
    def own(out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 1.0

    for dim in (6, (6, 4)):
        wp.launch(own, dim, outputs=[wp.zeros(6, dtype=float)])
    plain, shared = own.explain().variants
    assert not plain.shares_indices
    assert shared.shares_indices
    assert str(own.explain()).count("several threads with the same indices") == 1


def test_a_graph_keeps_the_code_for_its_grids():
    x, out = wp.array(np.arange(6), dtype=float), wp.zeros(6, dtype=float)
    with wp.ScopedCapture() as capture:
        wp.launch(add_to_own, (6, 400), [x], [out])
        wp.launch(add_to_own, 6, [x], [out])
    out.zero_()
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(out.numpy(), 401 * x.numpy())


def test_a_large_grid_of_small_extents_has_narrow_indices():
    @wp.kernel
    def count(out: wp.array(dtype=wp.int64)):
        i = wp.tid()
        if i >= 1:
            wp.atomic_add(out, 0, wp.int64(i))

    out = np.zeros(1, np.int64)
    wp.launch(count, (2, 2**16, 2**16), outputs=[out])
    assert out[0] == 2**32


def test_an_array_that_is_too_small_for_the_first_index_is_refused():
    x, out = wp.zeros((300, 4), dtype=float), wp.zeros(299, dtype=float)
    with pytest.raises(IndexError, match=r"every thread of the grid \(300, 4\) accesses the element at its own index"):
        wp.launch(row_sums, x.shape, [x], [out])


# --- gradients ---


@wp.kernel
def square(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * x[i]


@wp.kernel
def add_squares(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] += x[i] * x[i]


@wp.kernel
def compact(x: wp.array(dtype=float), n: wp.array(dtype=int), out: wp.array(dtype=float)):
    i, j = wp.tid()
    out[wp.atomic_add(n, 0, 1)] = x[i] * float(j)


def gradient(kernel, dim, *, recorded=True):
    x = wp.array(np.arange(1, 7), dtype=float, requires_grad=True)
    out = wp.zeros(6, dtype=float, requires_grad=True)
    if recorded:
        with wp.Tape() as tape:
            wp.launch(kernel, dim, [x], [out])
        tape.backward(grads={out: wp.ones(6, dtype=float)})
    else:
        wp.launch(kernel, dim, [x], [out])
        out.grad.fill_(1.0)
        wp.launch(kernel, dim, [x], [out], adj_inputs=[None], adj_outputs=[None], adjoint=True)
    return x.grad.numpy()


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("dim", [6, (6, 300), (6, 1, 3)])
def test_the_adjoint_of_a_store_goes_to_one_of_its_threads(dim, recorded, os_threads):
    np.testing.assert_array_equal(gradient(square, dim, recorded=recorded), 2 * np.arange(1, 7))


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("dim", [6, (6, 300), (6, 1, 3)])
def test_every_addition_has_its_adjoint(dim, recorded, os_threads):
    each = int(np.prod(dim)) // 6
    np.testing.assert_array_equal(gradient(add_squares, dim, recorded=recorded), each * 2 * np.arange(1, 7))


def test_results_of_atomics_are_kept_for_every_thread():
    x = wp.array(np.arange(1, 4), dtype=float, requires_grad=True)
    n, out = wp.zeros(1, dtype=int), wp.zeros(3 * 2 * 5, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(compact, (3, 2, 5), [x, n], [out])
    weights = np.random.default_rng(1).random(30).astype(np.float32)
    tape.backward(grads={out: wp.array(weights, dtype=float)})
    expected = [weights[out.numpy() == i].sum() for i in (1, 2, 3)]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


def test_forward_mode():
    x, out = wp.array(np.arange(1, 7), dtype=float), wp.zeros(6, dtype=float)
    t = wp.ones(6, dtype=float)
    for dim, each in ((6, 1), ((6, 4), 4)):
        out.zero_()
        (tangent,) = wp.autograd.jvp(add_squares, dim, [x], [out], tangents=[t])
        np.testing.assert_array_equal(tangent.numpy(), 2 * each * x.numpy())
        np.testing.assert_array_equal(out.numpy(), each * x.numpy() ** 2)


# --- ahead-of-time modules ---


def test_an_ahead_of_time_module_serves_such_grids(tmp_path):
    module = wp.get_module(f"{__name__}.aot")

    @wp.kernel(module=module)
    def own(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] += x[i]

    wp.compile_aot_module(module, device="cpu", module_dir=tmp_path)
    loaded = wp.load_aot_module(module, device="cpu", module_dir=tmp_path)
    x, out = wp.array(np.arange(6), dtype=float), wp.zeros(6, dtype=float)
    wp.launch(loaded.kernels["own"], (6, 300), [x], [out])
    np.testing.assert_array_equal(out.numpy(), 300 * x.numpy())
