"""Kernels on tiles run in lanes where iterations wait for each other, else one thread at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir.core import Function
from warp_like.ir.rewrite import grid_ndim
from warp_like.passes.spmd.choice import Choice, choose

f64 = wp.float64


@wp.kernel
def products(a: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=(16, 16))
    wp.tile_store(out[i], wp.tile_matmul(t, t))


@wp.kernel
def row_sums(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile_load(a[i], shape=256)), offset=i)


@wp.kernel
def running_sums(a: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.tile_store(out[i], wp.tile_scan_inclusive(wp.tile_load(a[i], shape=1024)))


@wp.kernel
def factors(a: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i = wp.tid()
    wp.tile_store(out[i], wp.tile_cholesky(wp.tile_load(a[i], shape=(16, 16))))


@wp.struct
class Cell:
    values: wp.array(dtype=float)


@wp.kernel
def nested_swaps(cells: wp.array(dtype=Cell), out: wp.array(dtype=float)):
    i = wp.tid()
    for j in range(len(cells[i].values)):
        out[i] = wp.atomic_cas(cells[i].values, j, out[i], float(j))


def choice(kernel: Any, wanted: int = 0, bits: int = 256) -> Choice:
    return choose(optimised(kernel.source, Signature(kernel.types)), bits, 16, wanted)


@pytest.mark.parametrize("kernel", [products, row_sums])
def test_elements_of_tiles_make_vectors(kernel: Any) -> None:
    chosen = choice(kernel)
    assert (chosen.width, chosen.reason) == (1, "the elements of its tiles make vectors")
    assert choice(kernel, wanted=8).width == 8


def test_sums_that_wait_for_each_other_are_done_in_lanes() -> None:
    """Each lane loads and stores a few elements of its row at once; were each gathered, that would take longer."""
    assert choice(running_sums, bits=512).width == 16


def test_serial_work_on_tiles_is_done_in_lanes() -> None:
    assert choice(factors).width == 8


@wp.kernel
def large_factors(a: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i = wp.tid()
    wp.tile_store(out[i], wp.tile_cholesky(wp.tile_load(a[i], shape=(48, 48))))


def test_fewer_lanes_where_the_arrays_of_more_do_not_fit() -> None:
    chosen = choice(large_factors, bits=512)
    assert (chosen.width, chosen.reason) == (8, "1 x 256-bit vectors of 32-bit numbers")
    refused = choice(large_factors, wanted=16)
    assert (refused.width, refused.reason) == (1, "its threads' own arrays would take 295040 bytes")


@wp.func_native("return x[0];")
def first(x: wp.array(dtype=float)) -> float: ...


@wp.kernel
def nested_calls(cells: wp.array(dtype=Cell), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = first(cells[i].values)


@pytest.mark.parametrize("wanted", [0, 8])
def test_what_lanes_have_not_stays_one_thread(wanted: int) -> None:
    swaps, calls = (choice(kernel, wanted) for kernel in (nested_swaps, nested_calls))
    assert (swaps.width, calls.width) == (1, 1)
    assert swaps.reason == "threads compare and swap in arrays of their own, which elements of an array hold"
    assert calls.reason == "functions take arrays of a thread's own, which elements of an array hold"


@wp.kernel
def factors_of_a_grid(a: wp.array4d(dtype=float), out: wp.array4d(dtype=float)):
    i, j = wp.tid()
    wp.tile_store(out[i, j], wp.tile_cholesky(wp.tile_load(a[i, j], shape=(16, 16))))


@wp.kernel
def scans_of_a_grid(a: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i, j = wp.tid()
    wp.tile_store(out[i, j], wp.tile_scan_inclusive(wp.tile_load(a[i, j], shape=2)))


def test_lanes_go_on_in_the_next_row_where_that_costs_little() -> None:
    assert [grid_ndim(choice(k, bits=512).function) for k in (factors_of_a_grid, scans_of_a_grid)] == [1, 2]


@wp.kernel
def pendulums(q0: wp.array(dtype=float), steps: int, out: wp.array(dtype=float)):
    i = wp.tid()
    q = q0[i]
    for _ in range(steps):
        q -= wp.sin(q)
    out[i] = q


@wp.kernel
def waves(x: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    total = wp.float32(0.0)
    for k in range(w.shape[0]):
        total += wp.sin(w[k] * x[i])
    out[i] = total


@wp.kernel
def wave_sums(x: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(w.shape[0]):
        wp.atomic_add(out, k, wp.sin(w[k] * x[i]))


@wp.kernel
def steps(q0: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    q = q0[i]
    for _ in range(3):  # which is unrolled
        q -= wp.sin(q)
    out[i] = q


@wp.kernel
def harmonics(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sin(x[i]) + wp.sin(2.0 * x[i])


@wp.kernel
def layers(x: wp.array2d(dtype=float), w: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    total = wp.float32(0.0)
    for k in range(w.shape[0]):
        s = x[i, 0] * w[k, 0] + x[i, 1] * w[k, 1] + x[i, 2] * w[k, 2] + x[i, 3] * w[k, 3] + x[i, 4] * w[k, 4]
        total += wp.tanh(s)
    out[i] = total


@wp.kernel
def scattered_layers(x: wp.array2d(dtype=float), w: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    total = wp.float32(0.0)
    for k in range(w.shape[0]):
        s = x[i, k] * w[k, 0] + x[i, k + 1] * w[k, 1] + x[i, k + 9] * w[k, 2] + x[i, k + 13] * w[k, 3] + w[k, 4]
        total += wp.tanh(s)
    out[i] = total


def test_calls_that_wait_for_each_other_and_sums_over_lanes_take_several_registers() -> None:
    assert [choice(k).width for k in (pendulums, waves, wave_sums)] == [32, 8, 32]
    assert [choice(k).width for k in (steps, harmonics)] == [32, 8]


@wp.kernel
def remainders(x: wp.array(dtype=f64), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = x[i] % y[i]


@wp.kernel
def differences(x: wp.array(dtype=f64), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = x[i] - y[i]


def test_remainders_whose_steps_wait_for_each_other_take_two_registers() -> None:
    assert (choice(remainders, bits=512).width, choice(differences, bits=512).width) == (16, 8)


def test_calls_after_long_sums_take_two_registers_where_iterations_load_the_same() -> None:
    assert [choice(k).width for k in (layers, scattered_layers)] == [16, 8]


@wp.kernel
def along_rows(a: wp.array3d(dtype=f64), x: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i, j = wp.tid()
    s = x[i, j]
    t = wp.tile_zeros(shape=6, dtype=f64)
    for k in range(a.shape[1]):
        row = wp.tile_load(a[i, k], shape=6)
        for m in range(1, 6):
            s = (s + row[m]) / (f64(2.0) + s * s + row[m - 1] * row[m - 1])
            t[m] = t[m - 1] * s + row[m]
    out[i, j] = wp.tile_dot(t, t)[0]


def test_short_rows_run_one_thread_at_a_time() -> None:
    """Lanes along rows that load what all of them need; in a row of one thread, one lane would do the work of all."""
    chosen = choice(along_rows, bits=512)
    schedule = chosen.function.schedule
    assert chosen.width > 1
    assert schedule.alone is not None
    assert 1 < schedule.fewest <= chosen.width
    assert chosen.reason.endswith(f", one thread at a time in rows of fewer than {schedule.fewest}")
    assert choice(along_rows, wanted=8, bits=512).function.schedule.alone is None


@pytest.mark.parametrize("columns", [1, 2, 21])
def test_rows_of_any_length(columns: int) -> None:
    rng = np.random.default_rng(columns)
    a, given = rng.normal(size=(5, 3, 6)), rng.normal(size=(5, columns))
    x, out = wp.array(given, requires_grad=True), wp.zeros((5, columns), dtype=f64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(along_rows, (5, columns), [a, x, out])
    np.testing.assert_allclose(out.numpy(), _along_rows(a, given), rtol=1e-12)
    tape.backward(grads={out: wp.ones_like(out)})
    slope = (_along_rows(a, given + 1e-6) - _along_rows(a, given - 1e-6)) / 2e-6
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-5, atol=1e-8)


def _along_rows(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    s, t = x, np.zeros((6, *x.shape))
    for k in range(a.shape[1]):
        for m in range(1, 6):
            row = a[:, k, m, None]
            s = (s + row) / (2.0 + s * s + a[:, k, m - 1, None] ** 2)
            t[m] = t[m - 1] * s + row
    return (t**2).sum(axis=0)


@wp.kernel
def pushes(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3), total: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    mine = wp.vec3()
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        push = d / (wp.dot(d, d) + 1.0)
        wp.atomic_add(out, j, push)
        mine -= push
    total[i] = mine


@wp.kernel
def pulls(x: wp.array(dtype=wp.vec3), total: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    a, b, mine = x[i], x[i + 1], wp.vec3()
    for j in range(x.shape[0]):
        d = x[j] - a
        mine += d / (wp.dot(d, d) + 1.0) + wp.cross(d, b)
    total[i] = mine


def test_loops_that_add_over_the_lanes_take_more_than_the_registers_hold() -> None:
    """What does not fit is loaded, which takes less time than another sum over the lanes."""
    assert choice(pushes).width == 32
    assert choice(pulls).width == 8
    rng = np.random.default_rng(0)
    x = rng.normal(size=(75, 3)).astype(np.float32)  # whole vectors, single registers and a part of one
    out, total = wp.zeros(75, dtype=wp.vec3), wp.zeros(75, dtype=wp.vec3)
    wp.launch(pushes, dim=75, inputs=[wp.array(x, dtype=wp.vec3)], outputs=[out, total])
    d = x[None].astype(float) - x[:, None]
    push = d / (np.sum(d * d, axis=2, keepdims=True) + 1.0)
    np.testing.assert_allclose(out.numpy(), push.sum(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(total.numpy(), -push.sum(axis=1), rtol=1e-4, atol=1e-4)


@wp.kernel
def permuted(x: wp.array(dtype=wp.vec3), at: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[at[i]] = x[i]


@wp.kernel
def picked(x: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[at[i]]


@pytest.mark.parametrize(("kernel", "scalar"), [(permuted, True), (picked, False)], ids=lambda k: str(k))
def test_permutations_of_vectors_are_left_apart(kernel, scalar):
    """LLVM would make gathers or scatters of them, which take longer than loads and stores."""
    f = optimised(kernel.source, Signature(kernel.types))
    made = choose(f, 512, 32, 0)
    assert (made.width == 1 and made.function.schedule.scalar) is scalar
    assert not f.schedule.scalar


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_permutations_of_vectors(n):
    rng = np.random.default_rng(n)
    x, at = rng.random((n, 3)).astype(np.float32), rng.permutation(n).astype(np.int32)
    y = wp.zeros(n, dtype=wp.vec3)
    wp.launch(permuted, n, inputs=[wp.array(x, dtype=wp.vec3), wp.array(at), y])
    expected = np.empty_like(x)
    expected[at] = x
    np.testing.assert_array_equal(y.numpy(), expected)


def many(line: str, count: int) -> Function:
    """A kernel that has ``line`` that often, with numbers from 0 up in place of the braces."""
    kernel = define(
        "@wp.kernel\ndef many(x: wp.array(dtype=float), m: int, y: wp.array(dtype=float)):\n    i = wp.tid()\n"
        "    a = x[i]\n" + "".join(f"    {line.format(k)}\n" for k in range(count)) + "    y[i] = a\n"
    )["many"]
    return optimised(kernel.source, Signature(kernel.types))


def test_many_returns_one_after_the_other():
    """Each leaves fewer threads, until their share of all was 0 to the estimate, which divided by it."""
    assert choose(many("if a == {}.0: return", 150), 512, 32, 0).reason


def test_where_no_cuts_are_made_fewer_loops_run_in_lanes():
    f = many("for j in range(m): a = a + x[j] * {}.0", 301)
    assert "301 loops" in choose(f, 512, 32, 0, whole=True).reason
    assert "loops" not in choose(f, 512, 32, 0).reason
