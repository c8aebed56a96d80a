"""Where vectors of lanes end: branches on the thread's index, and the last threads of a row; against NumPy."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed


@pytest.fixture(params=[0, 4, 16])
def width(request):
    wp.config.vector_width = request.param
    yield request.param
    wp.config.vector_width = 0


@wp.kernel
def compared(x: wp.array(dtype=float), at: int, out: wp.array2d(dtype=float)):
    i = wp.tid()
    if i < at:
        out[0, i] = x[i]
    if i <= at:
        out[1, i] = x[i]
    else:
        out[1, i] = -x[i]
    if i > at:
        out[2, i] = x[i]
    if i >= at:
        out[3, i] = x[i]
    if i == at:
        out[4, i] = x[i]
    if i != at:
        out[5, i] = x[i]
    if not (i < at):
        out[6, i] = x[i]
    if at < 2 * i and 5 - i < at:
        out[7, i] = x[i]
    if i < at or 3 * at - i < 2 * i:
        out[8, i] = x[i]
    if not (i > 2 and i < at):
        out[9, i] = x[i]


@pytest.mark.parametrize("n", [1, 16, 37])
@pytest.mark.parametrize("at", [-1, 0, 1, 3, 4, 15, 16, 17, 31, 36, 37, 100])
def test_every_relation(width, n, at):
    x, out = np.random.default_rng(0).normal(size=n).astype(np.float32), np.zeros((10, n), np.float32)
    wp.launch(compared, n, [x, at, out])
    i = np.arange(n)
    taken = [
        i < at, i <= at, i > at, i >= at, i == at, i != at, i >= at, (at < 2 * i) & (5 - i < at),
        (i < at) | (3 * at - i < 2 * i), ~((i > 2) & (i < at)),
    ]  # fmt: skip
    wanted = np.where(taken, x, np.float32(0))
    wanted[1][i > at] = -x[i > at]
    np.testing.assert_array_equal(out, wanted)


@wp.kernel
def smoothed(u: wp.array2d(dtype=wp.float64), inside: wp.array(dtype=int), out: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    value = u[i, j]
    n = 0
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        value = wp.float64(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        if value > wp.float64(0.1):
            n = j
            value = -value
    out[i, j] = value
    wp.atomic_add(inside, 0, n)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 33])
def test_values_out_of_a_branch_at_the_border(width, n):
    u = np.random.default_rng(n).normal(size=(n + 1, n))
    out, inside = np.zeros_like(u), np.zeros(1, np.int32)
    wp.launch(smoothed, u.shape, [u, inside, out])
    wanted = u.copy()
    mean = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    wanted[1:-1, 1:-1] = np.where(mean > 0.1, -mean, mean)
    np.testing.assert_allclose(out, wanted, rtol=1e-14)
    assert inside[0] == (np.arange(1, n - 1) * (mean > 0.1)).sum()


@wp.kernel
def guarded(x: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
    if i >= n:
        return
    total = 0.0
    for k in range(i % 3, 4):
        total += x[i] * float(k)
    out[i] = total


@pytest.mark.parametrize("n", [0, 1, 31, 32, 40])
def test_threads_beyond_the_end(width, n):
    """The grid is larger than the arrays, whose elements beyond the end nobody may touch."""
    x, out = np.arange(n, dtype=np.float32), np.full(n, -1, np.float32)
    wp.launch(guarded, 64, [x, n, out])
    np.testing.assert_array_equal(out, [x[i] * sum(range(i % 3, 4)) for i in range(n)])


@wp.kernel
def guarded_vectors(
    x: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat33), n: int, odd: wp.array(dtype=wp.vec3),
    out: wp.array(dtype=wp.mat33),
):  # fmt: skip
    i = wp.tid()
    if i < n:
        a = x[i]
        b = m[i]
        for k in wp.static(range(16)):
            a = wp.cw_mul(a, x[i]) * 0.5 + x[i] * float(k)
        if a[0] > 12.0:
            odd[i] = a
        out[i] = wp.outer(a, x[i]) + b


@pytest.mark.parametrize("n", [0, 1, 15, 16, 31, 32, 40])
def test_vectors_under_masks(width, n):
    """Elements of several components are loaded as a whole where a mask has all lanes, and gathered where not."""
    rng = np.random.default_rng(n)
    x, m = rng.uniform(0, 1, (n, 3)).astype(np.float32), rng.normal(size=(n, 3, 3)).astype(np.float32)
    odd, out = np.full((n, 3), -1, np.float32), np.full((n, 3, 3), -1, np.float32)
    wp.launch(guarded_vectors, 48, [x, m, n, odd, out])
    a = wide = x.astype(float)
    for k in range(16):
        a = a * wide * 0.5 + wide * k
    np.testing.assert_allclose(out, a[:, :, None] * wide[:, None, :] + m, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(odd, np.where(a[:, :1] > 12, a, -1), rtol=1e-4)


def test_gradient_of_a_stencil_with_a_border(width):
    u = wp.array(np.random.default_rng(3).normal(size=(6, 35)), dtype=wp.float64, requires_grad=True)
    out, inside = wp.zeros_like(u, requires_grad=True), wp.zeros(1, dtype=int)
    with wp.Tape() as tape:
        wp.launch(smoothed, u.shape, [u, inside, out])
    weight = np.random.default_rng(4).normal(size=u.shape)
    tape.backward(grads={out: wp.array(weight, dtype=wp.float64)})
    values = u.numpy()
    mean = 0.25 * (values[:-2, 1:-1] + values[2:, 1:-1] + values[1:-1, :-2] + values[1:-1, 2:])
    wanted, share = weight.copy(), np.where(mean > 0.1, -0.25, 0.25) * weight[1:-1, 1:-1]
    wanted[1:-1, 1:-1] = 0
    for rows, columns in ((slice(0, -2), slice(1, -1)), (slice(2, None), slice(1, -1)),
                          (slice(1, -1), slice(0, -2)), (slice(1, -1), slice(2, None))):  # fmt: skip
        wanted[rows, columns] += share
    np.testing.assert_allclose(u.grad.numpy(), wanted, rtol=1e-12, atol=1e-14)


@wp.func
def step(a: float, b: float, i: int):
    for _k in range(i % 3):
        a = 0.5 * a + 0.25 * b
    return a + 0.125


@wp.kernel
def long_kernel(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    a = x[i, j]
    for k in wp.static(range(60)):
        a = step(a, x[i, j], j + k)
    out[i, j] = a


@pytest.mark.parametrize("m", crossed([1, 15, 16, 17, 50], every=3))
def test_a_large_body_is_there_once(width, m):
    """It runs under a mask for whole vectors as well."""
    x = np.random.default_rng(m).normal(size=(3, m)).astype(np.float32)
    out = np.full((4, m), -1, np.float32)
    wp.launch(long_kernel, (3, m), [x, out])
    a = x.astype(float)
    for k in range(60):
        for turn in range(2):
            a = np.where(turn < (np.arange(m) + k) % 3, 0.5 * a + 0.25 * x, a)
        a = a + 0.125
    np.testing.assert_allclose(out[:3], a, rtol=1e-5)
    assert (out[3] == -1).all()


def test_a_large_body_has_no_code_of_its_own_for_whole_vectors(width):
    rows = np.zeros((4, 16), np.float32)
    assert "\nvectors:" not in long_kernel.inspect("llvm", [rows, rows])
    assert "\nvectors:" in guarded.inspect("llvm")
