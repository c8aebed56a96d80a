"""What all threads of a grid combine into the same elements: in registers, then by blocks."""

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def combine(
    x: wp.array(dtype=float),
    v: wp.array(dtype=wp.vec3d),
    at: int,
    total: wp.array(dtype=float),
    means: wp.array(dtype=wp.vec3d),
    top: wp.array(dtype=float),
    counts: wp.array(dtype=int),
    bits: wp.array(dtype=wp.uint64),
):
    i = wp.tid()
    for k in range(3):
        wp.atomic_add(total, at, x[i] * float(k))
    wp.atomic_sub(means, 1, v[i])
    if x[i] > 0.0:
        wp.atomic_max(top, 0, x[i])
        wp.atomic_add(counts, 1, 1)
    wp.atomic_or(bits, 0, wp.uint64(1) << wp.uint64(i % 64))


@pytest.mark.parametrize(("n", "block_dim"), [(1, 256), (33, 64), (200, 48), (1500, 64), (5000, 256)])
def test_a_grid_is_combined(device, n, block_dim):
    rng = np.random.default_rng(n)
    x, v = rng.normal(size=n).astype(np.float32), rng.normal(size=(n, 3))
    arrays = [
        wp.array(x, device=device),
        wp.array(v, dtype=wp.vec3d, device=device),
        2,
        wp.array([1.0, 2.0, 3.0], dtype=float, device=device),
        wp.zeros(2, dtype=wp.vec3d, device=device),
        wp.array([-5.0], dtype=float, device=device),
        wp.zeros(2, dtype=int, device=device),
        wp.zeros(1, dtype=wp.uint64, device=device),
    ]
    wp.launch(combine, dim=n, inputs=arrays, device=device, block_dim=block_dim)
    total, means, top, counts, bits = (a.numpy() for a in arrays[3:])
    np.testing.assert_allclose(total, [1.0, 2.0, 3.0 + 3.0 * x.sum(dtype=float)], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(means, [[0, 0, 0], -v.sum(axis=0)], rtol=1e-12, atol=1e-12)
    assert top[0] == max(x.max(), -5.0) if (x > 0).any() else -5.0
    np.testing.assert_array_equal(counts, [0, (x > 0).sum()])
    assert bits[0] == (2 ** min(n, 64) - 1)


@wp.kernel
def total_of(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        wp.atomic_add(out, 0, x[i])


def test_no_more_threads_than_run_at_once(fake):
    fake.args_size = 48
    x, out = wp.zeros(1 << 24, device="cuda:0"), wp.zeros(1, device="cuda:0")
    wp.launch(total_of, dim=1 << 24, inputs=[x, out], device="cuda:0")
    resident = fake.occupancy(0, 256) * wp.get_device("cuda:0").sm_count
    assert fake.launches[-1].grid == (resident, 1, 1)
    wp.launch(total_of, dim=1 << 24, inputs=[x, out], device="cuda:0", block_dim=64)
    assert fake.launches[-1].grid == (resident * 4, 1, 1)
    wp.launch(total_of, dim=100, inputs=[x[:128], out], device="cuda:0")
    assert fake.launches[-1].grid == (1, 1, 1)
    total_of.forget_programs()


def test_elements_that_nothing_comes_for_need_not_be_there(device):
    x, out = wp.array(np.full(100, -1.0, np.float32), device=device), wp.zeros(0, dtype=float, device=device)
    wp.launch(total_of, dim=100, inputs=[x, out], device=device)


@wp.kernel
def loss(x: wp.array(dtype=float), slope: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 0, (x[i] * slope[0] + slope[1]) ** 2.0)


def test_gradients_of_parameters_are_combined(device):
    n = 700
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    slope = wp.array([0.5, -0.25], dtype=float, device=device, requires_grad=True)
    out = wp.zeros(1, dtype=float, device=device, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss, dim=n, inputs=[wp.array(x, device=device), slope], outputs=[out], device=device)
    tape.backward(out)
    wide = x.astype(float)
    rest = 2.0 * (0.5 * wide - 0.25)
    np.testing.assert_allclose(out.numpy(), [((0.5 * wide - 0.25) ** 2).sum()], rtol=1e-5)
    np.testing.assert_allclose(slope.grad.numpy(), [(rest * wide).sum(), rest.sum()], rtol=1e-4)


@wp.kernel
def many(x: wp.array(dtype=float), table: wp.array(dtype=wp.mat44)):
    i = wp.tid()
    for k in range(3):
        m = wp.mat44()
        for r in range(4):
            m[r, r] = x[i] * float(k + 1)
        wp.atomic_add(table, 0, m)
        wp.atomic_add(table, 1, m)


def test_more_scalars_than_registers_are_left_to_warps(device):
    x, table = wp.array(np.ones(70, np.float32), device=device), wp.zeros(2, dtype=wp.mat44, device=device)
    wp.launch(many, dim=70, inputs=[x, table], device=device)
    np.testing.assert_allclose(table.numpy(), np.stack([420.0 * np.eye(4)] * 2))


def test_which_kernels_combine_by_blocks():
    assert loss.inspect("ptx", target="sm_90", wrt=["slope", "out"]).count("barrier.sync") == 1
    assert combine.inspect_ptx(target="sm_90").count("barrier.sync") == 1
    assert "barrier.sync" not in many.inspect_ptx(target="sm_90")
