"""What lanes do each on its own: arrays on their stacks, ops that run lane by lane, loops that save their state."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed, tail
from warp_like.backend import snippets

SIZES = [1, 15, 64, 100]


@pytest.fixture(params=[4, 16, tail(64)])  # several registers a value: LLVM takes seconds for each
def width(request):
    wp.config.vector_width = request.param
    yield request.param
    del wp.config.vector_width


# --- arrays of the threads' own -----------------------------------------------------------------------------


@wp.kernel
def sort_rows(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float), rank: wp.array2d(dtype=wp.uint8)):
    i = wp.tid()
    own = wp.zeros(shape=11, dtype=float)
    at = wp.zeros(shape=11, dtype=wp.uint8)
    for k in range(11):
        j = int(k)
        while j > 0 and own[j - 1] > x[i, k]:
            own[j] = own[j - 1]
            at[j] = at[j - 1]
            j -= 1
        own[j] = x[i, k]
        at[j] = wp.uint8(k)
    for k in range(11):
        out[i, k] = own[k]
        rank[i, k] = at[k]


@pytest.mark.parametrize("n", SIZES)
def test_insertion_sort(width, n):
    x = np.random.default_rng(n).normal(size=(n, 11)).astype(np.float32)
    out, rank = np.zeros_like(x), np.zeros((n, 11), np.uint8)
    wp.launch(sort_rows, n, [x, out, rank])
    np.testing.assert_array_equal(out, np.sort(x, axis=1))
    np.testing.assert_array_equal(rank, np.argsort(x, axis=1))


@wp.struct
class Pair:
    weight: wp.float64
    place: wp.vec3


@wp.kernel
def of_aggregates(at: wp.array(dtype=int), out: wp.array(dtype=wp.vec3), total: wp.array(dtype=wp.float64)):
    i = wp.tid()
    points = wp.zeros(shape=(3, 2), dtype=wp.vec3)
    flags = wp.zeros(shape=4, dtype=bool)
    pairs = wp.zeros(shape=4, dtype=Pair)
    for k in range(at.shape[0]):
        j = at[k]
        if (i + k) % 3 != 1:
            points[j % 3, i % 2] += wp.vec3(float(i), float(k), 1.0)
            flags[(i + k) % 4] = not flags[(i + k) % 4]
            pairs[j % 4].weight += wp.float64(k)
            pairs[i % 4].place += wp.vec3(1.0, 2.0, 3.0)
    row = points[i % 3]
    out[i] = row[0] + row[1] + pairs[i % 4].place
    for k in range(4):
        total[i] += pairs[k].weight
        if flags[k]:
            total[i] += wp.float64(1000.0)


@pytest.mark.parametrize("n", SIZES)
def test_arrays_of_vectors_bools_and_structs(width, n):
    at = np.random.default_rng(7).integers(0, 12, 23).astype(np.int32)
    out, total = np.zeros((n, 3), np.float32), np.zeros(n)
    wp.launch(of_aggregates, n, [at, out, total])
    for i in range(n):
        points, flags = np.zeros((3, 2, 3)), np.zeros(4, bool)
        weights, places = np.zeros(4), np.zeros((4, 3))
        for k, j in enumerate(at.tolist()):
            if (i + k) % 3 != 1:
                points[j % 3, i % 2] += [i, k, 1]
                flags[(i + k) % 4] ^= True
                weights[j % 4] += k
                places[i % 4] += [1, 2, 3]
        np.testing.assert_array_equal(out[i], points[i % 3].sum(0) + places[i % 4])
        assert total[i] == weights.sum() + 1000 * flags.sum()


@wp.struct
class Particle:
    mass: float
    place: wp.vec3


@wp.kernel
def weights(particles: wp.array2d(dtype=Particle), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    row = particles[at[i]]
    for k in range(row.shape[0]):
        out[i] += row[k].mass * row[k].place[1]


def test_rows_of_arrays_of_structs_that_lanes_choose(width):
    rng = np.random.default_rng(9)
    data = np.zeros((7, 5), Particle.numpy_dtype())
    data["mass"], data["place"] = rng.normal(size=(7, 5)), rng.normal(size=(7, 5, 3))
    at, out = rng.integers(0, 7, 33).astype(np.int32), np.zeros(33, np.float32)
    wp.launch(weights, 33, [wp.array(data, dtype=Particle), at, out])
    wanted = (data["mass"].astype(float) * data["place"][..., 1]).sum(1)
    np.testing.assert_allclose(out, wanted[at], rtol=1e-5, atol=1e-6)


@wp.kernel
def horner(x: wp.array(dtype=float), out: wp.array(dtype=float), n: wp.array(dtype=int)):
    i = wp.tid()
    terms = wp.zeros(shape=24, dtype=float)
    for k in range(n[i]):
        terms[k] = x[i] * float(k + 1)
    total = 0.0
    for k in range(24):
        total = total * 0.5 + terms[k] * terms[k]
    out[i] = total


def gradient(kernel, n, *inputs, seed=1.0):
    """The adjoint of the first of ``inputs`` where that of the second is ``seed`` everywhere."""
    arrays = [wp.array(a, requires_grad=a.dtype.kind == "f") for a in inputs]
    with wp.Tape() as tape:
        wp.launch(kernel, n, arrays)
    tape.backward(grads={arrays[1]: wp.full_like(arrays[1], seed)})
    return arrays[0].grad.numpy()


@pytest.mark.parametrize("n", SIZES)
def test_the_gradient_of_arrays_of_their_own(width, n):
    rng = np.random.default_rng(n)
    x, counts = rng.normal(size=n).astype(np.float32), rng.integers(0, 25, n).astype(np.int32)
    got = gradient(horner, n, x, np.zeros_like(x), counts)
    k = np.arange(24.0)
    weights = 0.5 ** (23 - k) * (k + 1) ** 2 * (k < counts[:, None])
    np.testing.assert_allclose(got, 2 * x * weights.sum(1), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("wanted", [0, 64])
def test_large_arrays_of_their_own_keep_a_thread_by_itself(wanted):
    @wp.kernel(vector_width=wanted)
    def large(x: wp.array(dtype=float)):
        own = wp.zeros(shape=40000, dtype=float)
        for k in range(40000):
            own[k] = x[k]
        x[0] = own[wp.tid()]

    (variant,) = large.explain().variants
    assert variant.lanes == 1
    assert variant.lanes_reason.startswith("its threads' own arrays would take ")


# --- lane by lane --------------------------------------------------------------------------------------------


@wp.kernel
def claims(want: wp.array2d(dtype=int), owner: wp.array(dtype=int), won: wp.array(dtype=int)):
    i = wp.tid()
    for k in range(want.shape[1]):
        if wp.atomic_cas(owner, want[i, k], -1, i) == -1:
            won[i] += 1
    if i % 2 == 0:
        wp.atomic_cas(owner, 0, -1, -2)


@pytest.mark.parametrize("n", SIZES)
def test_compare_and_swap(width, n):
    want = np.random.default_rng(n).integers(1, 40, (n, 5)).astype(np.int32)
    owner, won = np.full(40, -1, np.int32), np.zeros(n, np.int32)
    wp.launch(claims, n, [want, owner, won])
    assert owner[0] == -2
    for slot in range(1, 40):
        takers = np.flatnonzero((want == slot).any(axis=1))
        assert owner[slot] in (takers if len(takers) else [-1])
    np.testing.assert_array_equal(np.bincount(owner[owner >= 0], minlength=n), won)


@wp.kernel
def watched(x: wp.array(dtype=float), limit: float, out: wp.array(dtype=float)):
    i = wp.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k]
        if i > 10:
            wp.expect_eq(x[i] < limit, True)
    out[i] = total


def test_a_check_that_fails_names_its_thread_and_numbers(width):
    x, out = np.linspace(0, 1, 60).astype(np.float32), np.zeros(60, np.float32)
    wp.launch(watched, 60, [x, 2.0, out])
    np.testing.assert_allclose(out, np.full(60, x.astype(np.float64).sum()), rtol=1e-5)
    wp.config.num_threads = 1
    try:
        with pytest.raises(AssertionError, match="thread 30"):
            wp.launch(watched, 60, [x, float(x[30]), out])
    finally:
        del wp.config.num_threads


def test_checks_do_not_keep_a_kernel_from_lanes():
    (variant,) = watched.explain().variants
    assert variant.lanes > 1


@wp.kernel
def talking(n: int):
    i = wp.tid()
    for k in range(n):
        if i % 4 == k:
            print(i * 10 + k)


def test_printing(width, capfd):
    wp.config.num_threads = 1
    try:
        wp.launch(talking, 9, [3])
    finally:
        del wp.config.num_threads
    lines = [int(line) for line in capfd.readouterr().out.split()]
    assert sorted(lines) == [i * 10 + i % 4 for i in range(9) if i % 4 < 3]


@pytest.mark.skipif(snippets.host_compiler() is None, reason="there is no C++ compiler")
def test_native_code(width):
    @wp.func_native("v[0] += s; return v[0] * v[1] + v[2];")
    def mixed(v: wp.vec3, s: float) -> float: ...

    @wp.kernel
    def native(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        for k in range(3):
            if (i + k) % 2 == 0:
                out[i] += mixed(x[i], float(k))

    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    out = np.zeros(50, np.float32)
    wp.launch(native, 50, [x, out])
    wanted = [sum((a + k) * b + c for k in range(3) if (i + k) % 2 == 0) for i, (a, b, c) in enumerate(x.astype(float))]
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


# --- loops that save their state -------------------------------------------------------------------------------


@wp.kernel
def newton(a: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    r = a[i]
    while wp.abs(r * r - a[i]) > wp.float64(1e-12) * a[i]:
        r = wp.float64(0.5) * (r + a[i] / r)
    out[i] = r


@wp.kernel
def nested(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64), n: wp.array(dtype=int)):
    i = wp.tid()
    s = x[i]
    for k in range(n[i]):
        if (i + k) % 3 > 0:
            t = s
            m = 0
            while m < (i + k) % 5:
                t = wp.sin(t) + s * wp.float64(0.1)
                m += 1
            s = s + t * wp.float64(0.25)
        elif s > wp.float64(3.0):
            break
        else:
            s = s * wp.float64(1.1)
    out[i] = s


def nested_and_slope(x, n, i):
    """What ``nested`` computes for one thread, and its derivative, by dual numbers."""
    s, ds = x, 1.0
    for k in range(n):
        if (i + k) % 3 > 0:
            t, dt = s, ds
            for _ in range((i + k) % 5):
                t, dt = np.sin(t) + s * 0.1, np.cos(t) * dt + ds * 0.1
            s, ds = s + t * 0.25, ds + dt * 0.25
        elif s > 3.0:
            break
        else:
            s, ds = s * 1.1, ds * 1.1
    return s, ds


@pytest.mark.parametrize("n", SIZES)
def test_the_gradient_of_newton_steps(width, n):
    a = np.random.default_rng(n).uniform(0.01, 1e4, n)
    got = gradient(newton, n, a, np.zeros_like(a))
    # the last step contracts the derivative of all before it
    np.testing.assert_allclose(got, 0.5 / np.sqrt(a), rtol=1e-5)


@pytest.mark.parametrize(("checkpoints", "n"), crossed([False, True], SIZES, every=2))
def test_the_gradient_of_nested_loops_with_breaks(width, n, checkpoints):
    rng = np.random.default_rng(n)
    x, counts = rng.uniform(0.1, 2, n), rng.integers(0, 12, n).astype(np.int32)
    wp.config.checkpoint_loops = checkpoints
    try:
        got = gradient(nested, n, x, np.zeros_like(x), counts)
    finally:
        del wp.config.checkpoint_loops
    wanted = [nested_and_slope(x[i], counts[i], i)[1] for i in range(n)]
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_loops_that_save_run_in_lanes(width):
    for kernel in (newton, nested):
        gradient(kernel, 20, np.ones(20), np.zeros(20), *([np.ones(20, np.int32)] if kernel is nested else []))
        lanes = {v.role: v.lanes for v in kernel.explain().variants}
        assert lanes["forward"] == lanes["adjoint"] == width


@wp.kernel
def in_place(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64), n: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = x[i]
    for _k in range(n[i]):
        if out[i] < wp.float64(2.0):
            out[i] = out[i] * out[i] + wp.float64(0.1)
        else:
            out[i] = wp.sqrt(out[i])


@pytest.mark.parametrize("n", SIZES)
def test_the_gradient_of_updates_in_place(width, n):
    rng = np.random.default_rng(n)
    x, counts = rng.uniform(0.5, 1.6, n), rng.integers(0, 9, n).astype(np.int32)
    got = gradient(in_place, n, x, np.zeros_like(x), counts)
    for i in range(n):
        s, ds = x[i], 1.0
        for _ in range(counts[i]):
            s, ds = (s * s + 0.1, 2 * s * ds) if s < 2 else (np.sqrt(s), ds * 0.5 / np.sqrt(s))
        np.testing.assert_allclose(got[i], ds, rtol=1e-9)


# --- floats to integers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [wp.float32, wp.float64, wp.float16])
def test_floats_become_integers_as_in_one_thread(source):
    """Of lanes, all at once: too large ones end at the limits, and NaN is 0."""
    kinds = [wp.int8, wp.uint8, wp.int16, wp.uint16, wp.int32, wp.uint32, wp.int64]

    @wp.kernel(module="unique")
    def casts(
        x: wp.array(dtype=source), a: wp.array(dtype=wp.int8), b: wp.array(dtype=wp.uint8),
        c: wp.array(dtype=wp.int16), d: wp.array(dtype=wp.uint16), e: wp.array(dtype=wp.int32),
        f: wp.array(dtype=wp.uint32), g: wp.array(dtype=wp.int64),
    ):  # fmt: skip
        i = wp.tid()
        a[i], b[i], c[i], d[i] = wp.int8(x[i]), wp.uint8(x[i]), wp.int16(x[i]), wp.uint16(x[i])
        e[i], f[i], g[i] = wp.int32(x[i]), wp.uint32(x[i]), wp.int64(x[i])

    edges = [2.0**n + d for n in (7, 8, 15, 16, 31, 32, 63) for d in (-129, -1.5, -1, -0.5, 0, 0.5, 1, 300)]
    some = [0.0, 0.5, 0.99, 1e-40, 2.0**31 - 128, 2.0**31 - 64, 1e30, np.inf, np.nan]
    with np.errstate(over="ignore"):
        x = np.array([s * v for v in edges + some for s in (1, -1)]).astype(source.__name__)
    for width in (1, 8, 16):
        got = [wp.zeros(len(x), dtype=t) for t in kinds]
        wp.launch(casts, len(x), inputs=[x], outputs=got, options={"vector_width": width})
        for t, found in zip(kinds, got, strict=True):
            limits = np.iinfo(found.numpy().dtype)
            wanted = [0 if np.isnan(v) else min(max(v, limits.min), limits.max) for v in x.tolist()]
            assert found.list() == [int(v) for v in wanted], (width, t)
