"""Sums of lanes that are kept as vectors until a launch ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import Kernel, Runtime
from warp_like.backend.target import Options, host_target
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir.core import Function
from warp_like.passes.spmd.choice import choose


def summing(dtype: Any, vec: Any) -> Any:
    """Return a kernel whose threads add to elements that a loop goes over, and to their own."""

    @wp.kernel(module="unique")
    def sums(x: wp.array(dtype=dtype), out: wp.array2d(dtype=vec), total: wp.array(dtype=dtype)):
        i = wp.tid()
        v = vec()
        for c in range(wp.static(vec._length_)):
            v[c] = x[i] * dtype(c + 1)
        for k in range(out.shape[1]):
            wp.atomic_add(out, 1, k, v * dtype(k))
            if x[i] > dtype(k - 1):  # not all lanes
                wp.atomic_sub(out, 0, k, v)
        wp.atomic_add(total, wp.min(i, total.shape[0] - 1), x[i])

    return sums


def in_lanes(kernel: Any) -> Function:
    target = host_target()
    f = optimised(kernel.source, Signature(kernel.types))
    return choose(f, target.vector_bits, target.vector_registers, 0).function


def expected(x: np.ndarray, columns: int, components: int, shape: int) -> tuple[np.ndarray, np.ndarray]:
    v = x[:, None] * np.arange(1.0, components + 1)
    out = np.zeros((2, columns, components))
    for k in range(columns):
        out[0, k] = -v[x > k - 1].sum(axis=0)
        out[1, k] = k * v.sum(axis=0)
    total = np.zeros(shape)
    np.add.at(total, np.minimum(np.arange(len(x)), shape - 1), x)
    return out, total


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64])
@pytest.mark.parametrize("given", [True, False])
def test_sums_in_vectors_are_sums(dtype: Any, given: bool) -> None:
    vec = wp.types.vector(3, dtype)
    f = in_lanes(summing(dtype, vec))
    if f.schedule.lanes == 1:
        pytest.skip("this processor has no vectors")
    compiled = Kernel(f, Options(contiguous=True, sums=(1, 2)), Runtime(partials=given))
    number = np.dtype(dtype.__name__)
    for n in (1, f.schedule.lanes, 5 * f.schedule.lanes + 3):
        x = np.random.default_rng(n).integers(-4, 5, n).astype(number)  # whole numbers, whose sums are exact
        out, total = np.zeros((2, 4, 3), number), np.zeros(7, number)
        compiled([x, out, total], (n,), splits=[n // 3])
        found = compiled.runtime.partials
        if given:
            assert found is not None
            assert list(found) == [out.ctypes.data]  # not of those whose elements differ between lanes
            assert found[out.ctypes.data].any() == (n > 3 * f.schedule.lanes)
            compiled.runtime.add_partials()
        wanted = expected(x.astype(float), 4, 3, 7)
        np.testing.assert_array_equal(out, wanted[0])
        np.testing.assert_array_equal(total, wanted[1])


@wp.kernel
def weighted(
    x: wp.array2d(dtype=float), w: wp.array2d(dtype=float), rows: wp.array(dtype=int), out: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    total = wp.float32(0.0)
    for k in range(rows[0]):
        total += w[j % 3, k] * x[i, k] * x[i, k]
    out[i, j] = total


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 130), (300, 257)])
def test_gradients_of_weights(threads: int, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "num_threads", threads)
    draw = np.random.default_rng(shape[0])
    x, seed = draw.integers(-3, 4, (shape[0], 6)), draw.integers(-3, 4, shape)
    w = draw.integers(-3, 4, (3, 6))
    given = [wp.array(a, dtype=float, requires_grad=True) for a in (x, w)]
    rows, out = wp.array([5], dtype=int), wp.zeros(shape, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(weighted, dim=shape, inputs=[*given, rows], outputs=[out])
    rounds = 3  # gradients add up, and the memory is used again
    for _ in range(rounds):
        tape.backward(grads={out: wp.array(seed, dtype=float)})
    which = np.arange(shape[1]) % 3
    of_w, of_x = np.zeros((3, 6)), np.zeros((shape[0], 6))
    for j in range(shape[1]):
        of_w[which[j], :5] += seed[:, j] @ (x[:, :5] ** 2)
        of_x[:, :5] += 2 * seed[:, j, None] * w[which[j], :5] * x[:, :5]
    np.testing.assert_array_equal(given[1].grad.numpy(), rounds * of_w)
    np.testing.assert_array_equal(given[0].grad.numpy(), rounds * of_x)


@wp.kernel
def distances(points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    total = wp.float32(0.0)
    for j in range(points.shape[0]):
        d = points[j] - points[i]
        total += wp.dot(d, d)
    wp.atomic_add(out, 0, total)


@pytest.mark.parametrize("n", [65, 1500])
@pytest.mark.parametrize("deterministic", [False, True])
def test_elements_that_threads_and_lanes_share(n: int, deterministic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "deterministic", deterministic)
    points = np.random.default_rng(n).integers(-3, 4, (n, 3))
    p, out = wp.array(points, dtype=wp.vec3, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(distances, dim=n, inputs=[p], outputs=[out])
    for _ in range(2):
        tape.zero()
        tape.backward(out)
        np.testing.assert_array_equal(p.grad.numpy(), 4 * (n * points - points.sum(axis=0)))
