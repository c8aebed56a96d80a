"""Integers that atomics return: a recorded launch keeps them, so that compaction and cell lists have gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import Context, CudaKernel
from tests.runtime.launching.test_cpu_blocks import cpu_blocks
from warp_like.backend.target import Options as Lowering
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir.layout import SAVED_RESULTS


@wp.kernel
def pack(x: wp.array(dtype=float), n: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        slot = wp.atomic_add(n, 0, 1)
        out[slot] = 2.0 * x[i]


def array(data: Any) -> Any:
    return wp.array(np.asarray(data), dtype=float, requires_grad=True)


def counter(dtype: Any = int) -> Any:
    return wp.zeros(2, dtype=dtype)


def backward(tape: Any, out: Any, weights: np.ndarray) -> None:
    tape.backward(grads={out: wp.array(weights, dtype=float)})


def order_of(values: np.ndarray, packed: np.ndarray) -> np.ndarray:
    """Where each of ``values``, all different, stands in ``packed``."""
    places = {v: k for k, v in enumerate(packed.tolist())}
    return np.array([places[v] for v in values.tolist()], np.int64)


@pytest.mark.parametrize("width", [0, 1, 8])
@pytest.mark.parametrize("n", [2, 50, 1000, 60_000])
def test_compaction(n: int, width: int) -> None:
    rng = np.random.default_rng(n)
    data = ((rng.permutation(n) + 1) * rng.choice([-1, 1], n)).astype(np.float32)
    weights = rng.normal(size=n).astype(np.float32)
    x, out = array(data), array(np.zeros(n))
    with wp.Tape() as tape:
        wp.launch(pack, dim=n, inputs=[x, counter(), out], options={"vector_width": width})
    backward(tape, out, weights)
    taken, expected = data > 0, np.zeros(n, np.float32)
    expected[taken] = 2.0 * weights[order_of(2.0 * data[taken], out.numpy())]
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@wp.kernel
def pack_twice(x: wp.array2d(dtype=float), n: wp.array(dtype=wp.uint32), out: wp.array(dtype=float)):
    i, j = wp.tid()
    first = wp.atomic_add(n, 0, wp.uint32(2))
    out[first] = x[i, j]
    out[first + wp.uint32(1)] = 2.0 * x[i, j]
    if x[i, j] > 3.5:
        second = wp.atomic_sub(n, 1, wp.uint32(1))
        out[second] = 3.0 * x[i, j]


@wp.kernel
def pack_components(x: wp.array(dtype=wp.vec3), n: wp.array(dtype=wp.int64), out: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(3):
        out[wp.atomic_add(n, 0, wp.int64(1))] = x[i][k]


@wp.kernel
def claim(x: wp.array(dtype=float), n: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if wp.atomic_cas(n, i % 2, 0, i + 1) == 0:
        out[i % 2] = x[i] * x[i]


@wp.kernel
def chain(x: wp.array(dtype=float), n: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    before = wp.atomic_exch(n, 0, i)
    out[i] = x[i] * x[before]


@pytest.mark.parametrize("width", [0, 1, 4])
def test_a_grid_of_two_dimensions(width: int) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3) + 1.0
    x, out, n = array(data), array(np.zeros(20)), wp.array([0, 19], dtype=wp.uint32)
    weights = np.arange(20, dtype=np.float32)
    with wp.Tape() as tape:
        wp.launch(pack_twice, dim=(2, 3), inputs=[x, n, out], options={"vector_width": width})
    backward(tape, out, weights)
    packed = out.numpy()
    expected = np.zeros_like(data)
    for at in np.ndindex(2, 3):
        first = next(k for k in range(0, 12, 2) if packed[k] == data[at])
        expected[at] = weights[first] + 2.0 * weights[first + 1]
        if data[at] > 3.5:
            expected[at] += 3.0 * weights[next(k for k in range(12, 20) if packed[k] == 3.0 * data[at])]
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_a_loop_of_constant_length() -> None:
    data = np.arange(12, dtype=np.float32).reshape(4, 3) + 1.0
    x, out = wp.array(data, dtype=wp.vec3, requires_grad=True), array(np.zeros(12))
    with wp.Tape() as tape:
        wp.launch(pack_components, dim=4, inputs=[x, counter(wp.int64), out])
    backward(tape, out, np.arange(12, dtype=np.float32))
    np.testing.assert_array_equal(x.grad.numpy().ravel(), order_of(data.ravel(), out.numpy()))


@pytest.mark.parametrize("width", [0, 1, 4])
def test_compare_and_swap(width: int) -> None:
    x, out = array(np.arange(6) + 1.0), array(np.zeros(2))
    with wp.Tape() as tape:
        wp.launch(claim, dim=6, inputs=[x, counter(), out], options={"vector_width": width})
    backward(tape, out, np.array([1.0, 10.0]))
    won = np.isin(x.numpy() ** 2, out.numpy())
    np.testing.assert_array_equal(x.grad.numpy(), np.where(won, 2.0 * x.numpy() * [1, 10, 1, 10, 1, 10], 0.0))


@pytest.mark.parametrize("width", [0, 1, 4])
def test_exchange_of_integers(width: int) -> None:
    x, out = array(np.arange(6) + 1.0), array(np.zeros(6))
    with wp.Tape() as tape:
        wp.launch(chain, dim=6, inputs=[x, counter(), out], options={"vector_width": width})
    backward(tape, out, np.ones(6))
    before = np.rint(out.numpy() / x.numpy()).astype(int) - 1
    np.testing.assert_allclose(x.grad.numpy(), x.numpy()[before] + np.bincount(before, x.numpy(), 6))


# --- around the kernel ------------------------------------------------------------------------------------------


@wp.struct
class Packed:
    n: wp.array(dtype=int)
    out: wp.array(dtype=float)


@wp.func
def doubled(x: float, n: wp.array(dtype=int)):
    wp.atomic_add(n, 1, wp.atomic_add(n, 1, 1))
    return 2.0 * x


@wp.func_grad(doubled)
def adj_doubled(x: float, n: wp.array(dtype=int), adj_ret: float):
    wp.adjoint[x] += 2.0 * adj_ret


@wp.kernel
def pack_struct(x: wp.array(dtype=float), into: Packed):
    i = wp.tid()
    y = doubled(x[i], into.n)
    into.out[wp.atomic_add(into.n, 0, 1)] = y


def test_structs_and_functions_with_a_gradient() -> None:
    x, into = array(np.arange(5) + 1.0), Packed()
    into.n, into.out = counter(), array(np.zeros(5))
    with wp.Tape() as tape:
        wp.launch(pack_struct, dim=5, inputs=[x, into])
    backward(tape, into.out, np.arange(5))
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * order_of(2.0 * x.numpy(), into.out.numpy()))


def test_several_launches_and_passes() -> None:
    data, n = np.array([1.0, -2.0, 3.0, 4.0]), counter()
    x, y, z = array(data), array(np.zeros(4)), array(np.zeros(4))
    bound = wp.launch(pack, dim=4, inputs=[y, n, z], record_cmd=True)
    with wp.Tape() as tape:
        wp.launch(pack, dim=4, inputs=[x, n, y])
        n.zero_()
        bound.launch()
    for _ in range(2):
        backward(tape, z, np.ones(4))
        np.testing.assert_array_equal(x.grad.numpy(), np.where(data > 0, 4.0, 0.0))
        tape.zero()
    assert "saved" not in tape.visualize(format="mermaid")


def test_another_run_is_noticed() -> None:
    x, n, out = array([1.0, -2.0, 3.0]), counter(), array(np.zeros(3))
    with wp.Tape() as tape:
        wp.launch(pack, dim=3, inputs=[x, n, out])
    x.assign([-1.0, 2.0, 3.0])
    n.zero_()
    wp.launch(pack, dim=3, inputs=[x, n, out])
    with pytest.raises(RuntimeError, match="record the forward pass again"):
        backward(tape, out, np.ones(3))


@wp.kernel
def note(x: wp.array(dtype=float), n: wp.array(dtype=int), list_: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    list_[wp.atomic_add(n, 0, 1)] = i
    out[i] = 2.0 * x[i]


def test_nothing_is_kept_that_no_gradient_needs() -> None:
    x, out = array(np.ones(4)), array(np.zeros(4))
    with wp.Tape() as tape:
        wp.launch(note, dim=4, inputs=[x, counter(), wp.zeros(4, dtype=int), out])
    assert len(tape.launches[0].args) == 4
    backward(tape, out, np.ones(4))
    np.testing.assert_array_equal(x.grad.numpy(), np.full(4, 2.0))


def test_without_a_tape_it_is_refused() -> None:
    x, n, out = array([1.0, 2.0]), counter(), array(np.zeros(2))
    with pytest.raises(wp.WarpCodegenError, match=r"record the launch on a wp\.Tape"):
        wp.launch(pack, dim=2, inputs=[x, n, out], adj_inputs=[None, None], adj_outputs=[], adjoint=True)


def test_cuda_code() -> None:
    """The kernel and its adjoint for CUDA, threads of a block side by side."""
    types, n = (*pack.types, SAVED_RESULTS), 20
    data = np.arange(n, dtype=np.float32) - 7.5
    count, out, kept = np.zeros(2, np.int32), np.zeros(n, np.float32), np.zeros((1, n), np.int64)
    forward = optimised(pack.source, Signature(types, saves_results=True))
    CudaKernel(forward, Lowering())([data, count, out, kept], (n,), Context())
    adj_x, adj_out = np.zeros(n, np.float32), np.arange(n, dtype=np.float32)
    adjoint = optimised(pack.source, Signature(types, wrt=(0, 2), saves_results=True))
    CudaKernel(adjoint, Lowering())([data, count, out, kept, adj_x, adj_out], (n,), Context())
    taken = data > 0
    np.testing.assert_array_equal(adj_x[taken], 2.0 * order_of(2.0 * data[taken], out))
    assert not adj_x[~taken].any()


@wp.kernel
def pack_by_block(x: wp.array(dtype=wp.float64), n: wp.array(dtype=int), out: wp.array(dtype=wp.float64)):
    i, j = wp.tid()
    v = x[i * 5 + j]
    if v < 0.0:
        return
    mean = wp.tile_sum(wp.tile(v))[0]
    place = wp.atomic_add(n, 0, 1)
    if j % 2 == 0:
        place = wp.atomic_add(n, 0, 2) + 1
    out[place] = v * v * mean


def check_blocks(threads: int, device: str) -> None:
    """Compare the gradient of ``pack_by_block`` in blocks of so many threads with what its results tell."""
    given = np.random.default_rng(4).normal(size=10)
    x = wp.array(given, dtype=wp.float64, requires_grad=True, device=device)
    n, out = wp.zeros(1, dtype=int, device=device), wp.zeros(30, dtype=wp.float64, requires_grad=True, device=device)
    with cpu_blocks(), wp.Tape() as tape:
        wp.launch(pack_by_block, (2, 5), [x, n], [out], block_dim=threads, device=device)
    weights = np.random.default_rng(5).normal(size=30)
    tape.backward(grads={out: wp.array(weights, dtype=wp.float64, device=device)})
    expected = np.zeros(10)
    for row in range(2):
        for first in range(0, 5, threads):
            there = [k for k in range(row * 5 + first, row * 5 + min(first + threads, 5)) if given[k] >= 0.0]
            mean = sum(given[k] for k in there)
            place = {k: np.flatnonzero(np.isclose(out.numpy(), given[k] ** 2 * mean))[0] for k in there}
            for k in there:
                expected[k] += 2.0 * given[k] * mean * weights[place[k]]
                expected[k] += sum(given[q] ** 2 * weights[place[q]] for q in there)
    np.testing.assert_allclose(x.grad.numpy(), expected)


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_each_thread_of_a_joined_block_keeps_its_own(threads: int) -> None:
    check_blocks(threads, "cpu")
