"""Sums of lanes that are kept as vectors until a launch ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import Kernel, Runtime
from warp_like.backend.llvm.entry import lower_entry
from warp_like.backend.llvm.lane_partials import find_additions
from warp_like.backend.llvm.summed_products import find_products
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


def sharing(dtype: Any, vec: Any) -> Any:
    """Return a kernel whose products are summed over the threads and in each."""

    @wp.kernel(module="unique")
    def shares(x: wp.array(dtype=dtype), out: wp.array2d(dtype=vec), total: wp.array(dtype=dtype)):
        i = wp.tid()
        v, added, less, turned = vec(dtype(2)), vec(), vec(), vec()
        v[0] = x[i]
        greatest = dtype(0)
        for k in range(out.shape[1]):
            p = v * (x[i] + dtype(k))
            wp.atomic_add(out, 0, k, p)
            added = p + added
            less = less - p
            turned = turned + -p
            q = v * (x[i] - dtype(k))
            wp.atomic_add(out, 1, k, q)  # others than additions take this product
            greatest = wp.max(greatest, q[0])
            turned = q - turned
        both = added - less + turned
        total[i] = greatest + both[0] - both[1]

    return shares


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64])
@pytest.mark.parametrize("fuse_fp", [True, False])
def test_products_that_are_summed_twice(dtype: Any, fuse_fp: bool) -> None:
    vec, number = wp.types.vector(2, dtype), np.dtype(dtype.__name__)
    f = in_lanes(sharing(dtype, vec))
    if f.schedule.lanes == 1:
        pytest.skip("this processor has no vectors")
    options = Options(contiguous=True, sums=(1,), fuse_fp=fuse_fp)
    sums = {o.value.op for o in find_additions(f)}
    assert [v.hint for v in find_products(f, sums)] == ["p"]
    fused = lower_entry(f, host_target(), options).text.count("@llvm.fmuladd")
    assert fused > 6 if fuse_fp else fused == 0  # three additions of two components
    compiled = Kernel(f, options, Runtime(partials=True))
    for n in (0, 1, f.schedule.lanes + 3, 6 * f.schedule.lanes):
        x = np.random.default_rng(n).integers(-4, 5, n).astype(number)
        out, total = np.zeros((2, 5, 2), number), np.zeros(n, number)
        compiled([x, out, total], (n,))
        compiled.runtime.add_partials()
        v = np.stack([x, np.full(n, 2.0)], axis=1).astype(float)
        greatest, sums, turned = np.zeros(n), np.zeros((n, 2)), np.zeros((n, 2))
        for k in range(5):
            p, q = v * (x[:, None] + k), v * (x[:, None] - k)
            np.testing.assert_array_equal(out[:, k], [p.sum(axis=0), q.sum(axis=0)])
            sums, turned, greatest = sums + 2 * p, q - (turned - p), np.maximum(greatest, q[:, 0])
        both = sums + turned
        np.testing.assert_array_equal(total, greatest + both[:, 0] - both[:, 1])


def energy(dtype: Any) -> Any:
    """Return a kernel that sums the inverse distances of all pairs."""
    vec = wp.types.vector(3, dtype)

    @wp.kernel(module="unique")
    def inverse_distances(points: wp.array(dtype=vec), softening: dtype, out: wp.array(dtype=dtype)):
        i = wp.tid()
        total = dtype(0)
        for j in range(points.shape[0]):
            d = points[j] - points[i]
            total += dtype(1) / wp.sqrt(wp.dot(d, d) + softening)
        wp.atomic_add(out, 0, total)

    return inverse_distances


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64])
def test_gradients_of_inverse_distances(dtype: Any) -> None:
    kernel, number = energy(dtype), np.dtype(dtype.__name__)
    for n, softening in ((0, 0.01), (1, 0.0), (65, 0.01), (511, 0.0)):
        points = np.random.default_rng(n).normal(size=(n, 3)).astype(number)
        p = wp.array(points, dtype=wp.types.vector(3, dtype), requires_grad=True)
        out = wp.zeros(1, dtype=dtype, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=n, inputs=[p, softening], outputs=[out])
        tape.backward(grads={out: wp.array([-0.5], dtype=dtype)})
        d = points.astype(float)[:, None] - points
        square = (d * d).sum(axis=2) + softening
        weights = np.where(square > 0.0, square, np.inf) ** -1.5  # where two points are one, the gradient is 0
        wanted, most = (weights[:, :, None] * d).sum(axis=1), (weights[:, :, None] * abs(d)).sum(axis=1)
        assert (abs(p.grad.numpy() - wanted) <= 40 * np.finfo(number).eps * most + 1e-30).all()
