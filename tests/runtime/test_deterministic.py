"""``wp.config.deterministic``: the same bits whatever the number of threads, and whatever the time that they take."""

import numpy as np
import pytest

import warp_like as wp
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.sums import depends_on_order


@pytest.fixture
def deterministic():
    wp.config.deterministic = True
    yield
    del wp.config.deterministic
    del wp.config.num_threads


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, i % 3, wp.sin(x[i]) * 1.0e3)


@wp.kernel
def waves(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    s = 0.0
    for k in range(20):
        s += wp.sin(x[i] * float(k)) * wp.exp(-x[i])
    out[i] = s


@wp.kernel
def smooth(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sin(x[i]) + wp.exp(-x[i]) * x[i]


@pytest.mark.parametrize(
    ("kernel", "size"), [(total, 3), (waves, 200_001), (smooth, 200_001)], ids=lambda k: getattr(k, "key", "")
)
def test_the_same_bits_for_any_number_of_threads(deterministic, kernel, size):
    x = np.random.default_rng(0).random(200_001).astype(np.float32)
    seen = set()
    for wp.config.num_threads in (1, 2, 3, 5) * 2:
        out = np.zeros(size, np.float32)
        wp.launch(kernel, len(x), [x, out])
        seen.add(out.tobytes())
    assert len(seen) == 1


def test_a_chunk_of_the_grid_is_like_the_whole(deterministic):
    x = np.random.default_rng(1).random(1000).astype(np.float32)
    out = np.zeros(1000, np.float32)
    wp.launch(smooth, 1000, [x, out])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, np.sin(wide) + np.exp(-wide) * wide, rtol=1e-6)


@wp.kernel
def counts(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    wp.atomic_add(out, x[wp.tid()], 1)


@wp.kernel
def own(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, i, x[i])


@wp.kernel
def slots(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    out[wp.atomic_add(x, 0, 1)] = i


@wp.kernel
def largest(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_max(out, 0, x[wp.tid()])


@pytest.mark.parametrize(
    ("kernel", "ordered"),
    [(total, True), (slots, True), (counts, False), (own, False), (largest, False), (waves, False)],
    ids=lambda k: getattr(k, "key", ""),
)
def test_what_depends_on_the_order_of_threads(kernel, ordered):
    assert depends_on_order(optimised(kernel.source, Signature(kernel.types))) == ordered


def test_gradients(deterministic):
    x = np.random.default_rng(2).random(50_001).astype(np.float32)
    seen = set()
    for wp.config.num_threads in (1, 2, 4):
        points = wp.array(x, requires_grad=True)
        out = wp.zeros(3, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(total, len(x), [points, out])
        tape.backward(grads={out: wp.ones_like(out)})
        seen.add(points.grad.numpy().tobytes() + out.numpy().tobytes())
    assert len(seen) == 1
