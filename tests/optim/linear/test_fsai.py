"""Factorised sparse approximate inverses, compared with a greedy search over dense matrices in NumPy."""

import numpy as np
import pytest
import scipy.sparse

import warp_like as wp
from tests.optim.linear.systems import poisson, sparse, springs
from warp_like.optim.linear import FSAI, cg, cr, preconditioner
from warp_like.sparse import bsr_assign, bsr_copy, bsr_identity, bsr_to_scipy, bsr_zeros

EXACT = {wp.float64: 1e-10, wp.float32: 1e-4}


def dense(matrix):
    return bsr_to_scipy(matrix).toarray()


def random_system(n=18):
    """Sparse, positive definite, with numbers of very different size."""
    rng = np.random.default_rng(1)
    A = np.where(rng.random((n, n)) < 0.35, rng.standard_normal((n, n)), 0.0)
    A += A.T
    np.fill_diagonal(A, np.abs(A).sum(axis=1) + 2.0)
    size = np.geomspace(0.01, 100.0, n)
    return A * size[:, None] * size


def greedy(A, most, step, tolerance):
    """The factor, row by row: a support grows by the columns where it gains most."""
    diagonal = np.diag(A)
    scaled = A / np.sqrt(np.outer(diagonal, diagonal))
    G = np.zeros_like(A)
    for i in range(len(A)):
        support, z = [i], np.ones(1)
        while len(support) < most:
            beside = [c for c in range(i) if c not in support and np.any(A[c, support])]
            ranked = sorted((-round(abs(scaled[c, support] @ z), 9), c) for c in beside)
            chosen = [c for score, c in ranked if score < 0][: min(step, most - len(support))]
            if not chosen:
                break
            before, support = z[0], support + chosen
            z = np.linalg.solve(scaled[np.ix_(support, support)], np.eye(len(support))[0])
            if tolerance > 0 and 1 - before / z[0] <= tolerance:
                break
        G[i, support] = z / np.sqrt(z[0] * diagonal[support])
    return G


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("name, block", [("random", 3), ("springs", 3), ("springs", 1)])
def test_rows_grow_where_they_gain_most(name, block, dtype):
    A = {"random": random_system(), "springs": springs(9).toarray()}[name]
    if dtype is wp.float32:
        A = A.astype(np.float32).astype(np.float64)
    matrix = sparse(scipy.sparse.csr_array(A), block, dtype)
    for step, tolerance in ((1, 0.0), (1, 0.003), (3, 0.1), (3, 0.0)):
        M = FSAI(matrix, 8, tolerance, max_step_size=step)
        G = greedy(A, 8, step, tolerance)
        scale = np.abs(G).max(axis=1, keepdims=True)
        np.testing.assert_allclose(dense(M.G) / scale, G / scale, atol=EXACT[dtype])
        np.testing.assert_array_equal(dense(M.GT), dense(M.G).T)
        assert M.truncated_rows == 0


def test_all_columns_give_the_inverse():
    root = np.random.default_rng(2).standard_normal((8, 8))
    A = root @ root.T + np.eye(8)
    M = FSAI(sparse(scipy.sparse.csr_array(A)), 8, 0.0)
    G = dense(M.G)
    np.testing.assert_allclose(G.T @ G, np.linalg.inv(A), atol=1e-10)
    assert M.update_status is None
    single = dense(FSAI(sparse(scipy.sparse.csr_array(A)), 1).G)
    np.testing.assert_allclose(single, np.diag(1.0 / np.sqrt(np.diag(A))))


@pytest.mark.parametrize("dtype, kept", [(wp.float64, None), (wp.float64, wp.float32), (wp.float32, None)])
def test_application(dtype, kept):
    M = FSAI(sparse(poisson(5), 1, dtype), factor_dtype=kept)
    G = dense(M.G).astype(float)
    given = np.random.default_rng(3).standard_normal((2, 25))
    for alias in ("", "xz", "yz", "xyz"):
        x = wp.array(given[0], dtype=dtype)
        y = x if alias == "xyz" else wp.array(given[1], dtype=dtype)
        z = x if "x" in alias else y if alias else wp.empty_like(x)
        expected = 0.7 * G.T @ G @ x.numpy() - 1.2 * y.numpy()
        M.matvec(x, y, z, 0.7, -1.2)
        np.testing.assert_allclose(z.numpy(), expected, rtol=1e-12 if dtype is wp.float64 else 1e-5, atol=1e-6)
    nothing, two = (wp.full(25, value, dtype=dtype) for value in (np.nan, 2.0))
    M.matvec(nothing, two, two, 0.0, 0.5)
    assert two.list() == [1.0] * 25


@pytest.mark.parametrize("solver", [cg, cr])
def test_it_helps(solver):
    matrix, b = sparse(springs(60), 3), wp.ones(180, dtype=wp.float64)
    counts = []
    for M in (preconditioner(matrix, "diag"), preconditioner(matrix, "fsai"), FSAI(matrix, 24)):
        x = wp.zeros_like(b)
        iterations, residual, tolerance = solver(matrix, b, x, 1e-10, 0.0, 2000, M, check_every=1)
        assert residual <= tolerance
        counts.append(iterations)
    assert 0.7 * counts[0] > counts[1] > counts[2]


def test_a_pivot_ends_a_row():
    near = 1.0 - 1e-14
    A = np.array([[1.0, near, 0.0], [near, 1.0, 0.0], [0.0, 0.0, 2.0]])
    M = FSAI(sparse(scipy.sparse.csr_array(A)))
    assert M.truncated_rows == 1
    np.testing.assert_allclose(dense(M.G), np.diag(1.0 / np.sqrt(np.diag(A))))


@pytest.mark.parametrize("block", [1, 3])
def test_updates(block):
    A = random_system()
    B = A + np.diag(np.arange(18.0))
    first, second = (sparse(scipy.sparse.csr_array(a), block) for a in (A, B))
    M = FSAI(first, 5, reuse_pattern=True)
    support = dense(M.G) != 0
    assert M.update(second) is M
    assert M.source is second
    G = dense(M.G)
    for i in range(18):
        S = np.flatnonzero(support[i])
        z = np.linalg.solve(B[np.ix_(S, S)], np.eye(len(S))[-1])
        np.testing.assert_allclose(G[i, S], z / np.sqrt(z[-1]), rtol=1e-9)
    np.testing.assert_array_equal(dense(M.GT), G.T)
    zero, ones, other = (bsr_copy(second) for _ in range(3))
    zero.values.zero_()
    ones.values.fill_(10.0)
    other.columns.assign(other.columns.numpy()[::-1].copy())
    for wrong, message in ((zero, "not SPD"), (ones, "not SPD"), (other, "sparsity pattern")):
        with pytest.raises(ValueError, match=message):
            M.update(wrong)
        np.testing.assert_array_equal(dense(M.G), G)
        np.testing.assert_array_equal(dense(M.GT), G.T)
    second.values.assign(first.values.numpy())
    np.testing.assert_allclose(dense(M.update().G), dense(FSAI(first, 5).G), rtol=1e-9)


def test_regularised_updates():
    def pairs(first, second):
        return sparse(scipy.sparse.block_diag([np.array(first), np.array(second)], format="csr"))

    well, changed, singular = [[1.0, 0.5], [0.5, 1.0]], [[2.0, 0.5], [0.5, 1.0]], [[1.0, 1.0], [1.0, 1.0]]
    M = FSAI(pairs(well, well), 2, reuse_pattern=True, regularize_refit=True)
    M.update(pairs(singular, changed))
    assert M.update_status.list() == [0, 0, 0, 1]
    expected = dense(FSAI(pairs(well, changed), 2).G)[2:, 2:]
    np.testing.assert_allclose(dense(M.G)[2:, 2:], expected, rtol=1e-12)
    assert np.isfinite(dense(M.G)).all()
    M.update(pairs([[-1.0, 0.5], [0.5, 1.0]], changed))
    status = M.update_status.list()
    assert status[1] == 1
    assert status[2] >= 1
    np.testing.assert_array_equal(dense(M.G)[0], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(dense(M.G)[2:, 2:], expected, rtol=1e-12)


def test_updates_in_a_graph():
    A = sparse(springs(8), 3)
    M = FSAI(A, reuse_pattern=True)
    x, z = wp.ones(24, dtype=wp.float64), wp.zeros(24, dtype=wp.float64)
    M.update()
    with wp.ScopedCapture() as capture:
        M.update()
        M.matvec(x, z, z, 1.0, 0.0)
    values = A.values.numpy().copy()
    for scale in (2.0, 4.0):
        A.values.assign(scale * values)
        wp.capture_launch(capture.graph)
        G = dense(FSAI(A).G)
        np.testing.assert_allclose(z.numpy(), G.T @ G @ np.ones(24), rtol=1e-10)


@pytest.mark.parametrize("block, kept", [(1, None), (3, wp.float32)])
def test_a_pattern_that_is_chosen_by_the_first_update(block, kept):
    A = random_system()
    good, other = (sparse(scipy.sparse.csr_array(a), block) for a in (A, A + np.diag(np.geomspace(1e-3, 1e3, 18))))
    options = {"max_row_size": 5, "max_step_size": 2, "factor_dtype": kept, "reuse_pattern": True}
    matrix = bsr_copy(good)
    matrix.values.fill_(np.nan)  # no value is read
    M = FSAI(matrix, defer_pattern=True, **options)
    assert (M.pattern_ready.list(), M.pattern_status.list(), M.truncated_rows) == ([0], [0] * 4, None)
    x, z = wp.array(np.arange(18.0)), wp.zeros(18, dtype=wp.float64)
    for _ in range(2):
        M.matvec(x, z, z, 1.0, 0.0)
        np.testing.assert_array_equal(z.numpy(), x.numpy())
        with pytest.raises(ValueError, match="finite, positive diagonals; 18 numbers"):
            M.update()
        assert M.pattern_ready.list() == [0]
    expected = FSAI(good, **options)
    for values in (good, other, good):
        matrix.values.assign(values.values.numpy())
        M.update()
        expected.update(values)
        assert (M.pattern_ready.list(), M.update_status.list(), M.pattern_status.list()) == ([1], [0] * 4, [0] * 4)
        np.testing.assert_array_equal(dense(M.G), dense(expected.G))
        np.testing.assert_array_equal(dense(M.GT), dense(expected.GT))
        np.testing.assert_array_equal(M.GT.offsets.numpy(), expected.GT.offsets.numpy())
        M.matvec(x, z, z, 1.0, 0.0)
        G = dense(M.G).astype(float)
        np.testing.assert_allclose(z.numpy(), G.T @ G @ x.numpy(), rtol=1e-10)
    near = np.array([[1.0, 1.0 - 1e-14], [1.0 - 1e-14, 1.0]])
    M = FSAI(sparse(scipy.sparse.csr_array(near)), reuse_pattern=True, defer_pattern=True).update()
    assert M.pattern_status.list()[1] == 1
    empty = FSAI(bsr_zeros(0, 0, wp.float64), reuse_pattern=True, defer_pattern=True).update()
    assert empty.GT.shape == (0, 0)


def test_a_pattern_is_chosen_in_a_graph():
    """The first run chooses it, also for an application that was captured before; later ones keep it."""
    good = sparse(springs(8), 3)
    matrix = bsr_copy(good)
    matrix.values.fill_(np.nan)
    M = FSAI(matrix, reuse_pattern=True, defer_pattern=True)
    b, x, z = wp.ones(24, dtype=wp.float64), wp.zeros(24, dtype=wp.float64), wp.zeros(24, dtype=wp.float64)
    with wp.ScopedCapture() as capture:
        M.update()
        M.matvec(b, z, z, 1.0, 0.0)
        x.zero_()
        cg(matrix, b, x, 1e-10, 0.0, 200, M, check_every=0)
    wp.capture_launch(capture.graph)
    assert M.update_status.list()[1] == 24
    np.testing.assert_array_equal(z.numpy(), 1.0)
    for scale in (2.0, 0.5):
        values = good.values.numpy() * scale
        values[0] += np.diag([0.0, 1e3, 0.0]) * (scale < 1.0)
        matrix.values.assign(values)
        wp.capture_launch(capture.graph)
        if scale == 2.0:
            expected = FSAI(bsr_copy(matrix), reuse_pattern=True)
        G = dense(expected.update(matrix).G)
        np.testing.assert_array_equal(dense(M.G), G)
        np.testing.assert_array_equal(dense(M.GT), G.T)
        np.testing.assert_allclose(z.numpy(), G.T @ G @ np.ones(24), rtol=1e-10)
        np.testing.assert_allclose(dense(matrix) @ x.numpy(), 1.0, atol=1e-8)


def test_a_chosen_pattern_of_a_regularised_update():
    well = [[1.0, 0.5], [0.5, 1.0]]
    A = scipy.sparse.block_diag([np.array([[-1.0, 0.5], [0.5, 1.0]]), np.array(well)], format="csr")
    M = FSAI(sparse(A), 2, reuse_pattern=True, regularize_refit=True, defer_pattern=True).update()
    assert (M.pattern_ready.list(), M.update_status.list()[1]) == ([1], 1)
    G = dense(M.G)
    np.testing.assert_array_equal(G[0], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(G[2:, 2:], dense(FSAI(sparse(scipy.sparse.csr_array(np.array(well)))).G))
    np.testing.assert_array_equal(dense(M.GT), G.T)


def test_padded_and_empty_matrices():
    A = sparse(poisson(4))
    roomy = bsr_zeros(16, 16, A.dtype, row_capacity=8)
    bsr_assign(roomy, A, topology="padded")
    np.testing.assert_array_equal(dense(FSAI(roomy).G), dense(FSAI(A).G))
    with pytest.raises(ValueError, match="reuse_pattern takes a compact matrix"):
        FSAI(roomy, reuse_pattern=True)
    empty = FSAI(bsr_zeros(0, 0, wp.float64), reuse_pattern=True).update()
    assert empty.G.shape == (0, 0)


def test_refused_arguments():
    A = bsr_identity(3, wp.float64)
    for name, values in (
        ("max_row_size", (0, 65, 1.5)),
        ("max_step_size", (0, 65)),
        ("kap_tolerance", (-1.0, 1.0, np.nan)),
        ("pivot_floor", (0.0, 1.0, np.inf)),
        ("factor_dtype", (wp.float16, wp.int32)),
    ):
        for value in values:
            with pytest.raises(ValueError, match=name):
                FSAI(A, **{name: value})
    for wrong in (None, wp.zeros((2, 2)), bsr_zeros(2, 3, wp.float64)):
        with pytest.raises(ValueError, match="square"):
            FSAI(wrong)
    with pytest.raises(TypeError, match="float16, float32 or float64, got int32"):
        FSAI(bsr_identity(3, int))
    for diagonal in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite, positive diagonals; 1 numbers"):
            FSAI(sparse(scipy.sparse.csr_array(np.diag([1.0, diagonal]))))
    for size in (1e-100, 1e100):
        with pytest.raises(ValueError, match="float32 can't hold the factor"):
            FSAI(sparse(scipy.sparse.csr_array(np.diag([size, size]))), factor_dtype=wp.float32)
    with pytest.raises(ValueError, match="defer_pattern requires reuse_pattern"):
        FSAI(A, defer_pattern=True)
    with pytest.raises(ValueError, match="needs reuse_pattern=True"):
        FSAI(A).update()
    M = FSAI(A, reuse_pattern=True)
    with pytest.raises(ValueError, match="takes a compact BSR matrix"):
        M.update(np.eye(3))
    with pytest.raises(ValueError, match="same shape, dtype, device"):
        M.update(bsr_identity(2, wp.float64))
