"""Iterative solvers, compared with direct solutions by SciPy in float64."""

import numpy as np
import pytest
import scipy.sparse.linalg

import warp_like as wp
from tests.optim.linear.systems import convection, poisson, sparse, springs
from warp_like.optim.linear import (
    CG,
    CR,
    GMRES,
    BiCGSTAB,
    Direct,
    LinearOperator,
    LinearSolverState,
    aslinearoperator,
    bicgstab,
    cg,
    cr,
    direct,
    gmres,
    preconditioner,
)
from warp_like.sparse import bsr_mv

SOLVERS = [cg, cr, bicgstab, gmres]
SYMMETRIC = {"poisson": (poisson(12), 1), "springs": (springs(40), 3)}


def solution(A, seed=1):
    """A right-hand side and what solves it."""
    b = np.random.default_rng(seed).standard_normal(A.shape[0])
    return b, scipy.sparse.linalg.spsolve(A.tocsc(), b)


def require_solved(result, x, A, b, exact):
    iterations, residual, tolerance = result
    assert residual <= tolerance
    assert tolerance == pytest.approx(1e-10 * np.linalg.norm(b))
    found = x.numpy().ravel()
    assert np.linalg.norm(A @ found - b) <= 2.0 * tolerance
    np.testing.assert_allclose(found, exact, atol=1e-6 * np.abs(exact).max())
    assert iterations > 0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("ptype", ["id", "diag"])
def test_symmetric_systems(solver, name, ptype):
    A, block = SYMMETRIC[name]
    b, exact = solution(A)
    matrix = sparse(A, block)
    dtype = wp.float64 if block == 1 else wp.vec3d
    given = wp.array(b.reshape(-1, block) if block > 1 else b, dtype=dtype)
    x = wp.zeros_like(given)
    result = solver(matrix, given, x, tol=1e-10, atol=0.0, maxiter=2000, M=preconditioner(matrix, ptype))
    require_solved(result, x, A, b, exact)
    again = solver(matrix, given, x, tol=1e-9, atol=0.0)
    assert again[0] == 0


@pytest.mark.parametrize("solver", [bicgstab, gmres])
@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("ptype", ["id", "diag", "diag_abs"])
def test_unsymmetric_systems(solver, is_left, ptype):
    A = convection(12)
    b, exact = solution(A)
    matrix = sparse(A)
    x = wp.zeros(b.size, dtype=wp.float64)
    M = preconditioner(matrix, ptype)
    result = solver(matrix, wp.array(b), x, tol=1e-10, atol=0.0, maxiter=2000, M=M, is_left_preconditioner=is_left)
    require_solved(result, x, A, b, exact)


def test_blocks_help_more_than_the_diagonal():
    A = springs(60)
    b, exact = solution(A)
    matrix, counts = sparse(A, 3), []
    for ptype in ("id", "diag", "block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile"):
        x = wp.zeros(b.size, dtype=wp.float64)
        result = cg(matrix, wp.array(b), x, 1e-10, 0.0, 1000, M=preconditioner(matrix, ptype), check_every=1)
        require_solved(result, x, A, b, exact)
        counts.append(result[0])
    assert counts[0] > counts[1] > counts[2] == counts[3] == counts[4]


@pytest.mark.parametrize("solver", SOLVERS)
def test_dense_and_diagonal_matrices(solver):
    rng = np.random.default_rng(3)
    root = rng.standard_normal((20, 20))
    A = root @ root.T + np.eye(20)
    b = rng.standard_normal(20)
    x = wp.zeros(20, dtype=wp.float64)
    result = solver(wp.array(A), wp.array(b), x, tol=1e-10, atol=0.0, maxiter=200)
    require_solved(result, x, A, b, np.linalg.solve(A, b))
    diagonal = rng.uniform(1.0, 2.0, 20)
    x.zero_()
    result = solver(wp.array(diagonal), wp.array(b), x, tol=1e-10, atol=0.0, maxiter=200)
    require_solved(result, x, np.diag(diagonal), b, b / diagonal)


def test_an_operator_of_ones_own_and_a_callback():
    A = poisson(8)
    b, exact = solution(A)
    matrix, seen = sparse(A), []

    def matvec(x, y, z, alpha, beta):
        wp.copy(z, y)
        bsr_mv(matrix, x, z, alpha, beta)

    x = wp.zeros(64, dtype=wp.float64)
    own = LinearOperator((64, 64), wp.float64, "cpu", matvec)
    result = cg(own, wp.array(b), x, 1e-10, 0.0, 100, callback=lambda *facts: seen.append(facts), check_every=5)
    require_solved(result, x, A, b, exact)
    assert [n for n, *_ in seen] == list(range(0, result[0] + 1, 5))
    assert seen[-1] == result


def test_a_factorisation_needs_one_solve():
    rng = np.random.default_rng(4)
    dense = rng.standard_normal((20, 20))
    line = scipy.sparse.csr_array(np.diag(rng.uniform(1.0, 2.0, 9)))
    for A, block in (
        (poisson(12), 1),
        (springs(20), 3),
        (convection(12), 1),
        (scipy.sparse.csr_array(dense), 0),
        (line, -1),
    ):
        b, exact = solution(A)
        dtype = wp.vec3d if block == 3 else wp.float64
        given = wp.array(b.reshape(-1, 3) if block == 3 else b, dtype=dtype)
        matrix = sparse(A, block) if block > 0 else wp.array(A.toarray() if block == 0 else A.diagonal())
        x, seen = wp.zeros_like(given), []
        result = direct(matrix, given, x, tol=1e-10, atol=0.0, callback=lambda *facts, seen=seen: seen.append(facts))
        require_solved(result, x, A, b, exact)
        assert [n for n, *_ in seen] == [0, 1]
    for size in (0, 1):
        x = wp.zeros(size, dtype=wp.float64)
        direct(wp.full((size, size), 4.0, dtype=wp.float64), wp.ones(size, dtype=wp.float64), x)
        assert x.list() == [0.25] * size


def test_a_factorisation_is_kept_until_it_is_told():
    b, exact = solution(poisson(8))
    matrix, x = sparse(poisson(8)), wp.zeros(64, dtype=wp.float64)
    state = direct(matrix, wp.array(b), x, tol=1e-10, atol=0.0, run=False)
    require_solved(state(), x, poisson(8), b, exact)
    matrix *= 4.0
    assert state()[0] == 3  # refined by the factors of another matrix
    state.update()
    require_solved(state(), x, 4.0 * poisson(8), b, exact / 4.0)
    require_solved(state(A=sparse(poisson(8))), x, poisson(8), b, exact)


def test_a_factorisation_of_singular_matrices():
    x, b = wp.zeros(4, dtype=wp.float64), wp.ones(4, dtype=wp.float64)
    for matrix in (np.ones((4, 4)), np.diag([1.0, 0.0, 1.0, 1.0])):
        for given in (wp.array(matrix), sparse(scipy.sparse.csr_array(matrix))):
            with pytest.raises(ValueError, match=r"direct\(\): the matrix is singular"):
                direct(given, b, x)
    with pytest.raises(ValueError, match="the matrix is singular"):
        direct(wp.array([1.0, 0.0, 1.0, 1.0]), b, x)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="elements that are not finite"):
            direct(wp.array([1.0, bad, 1.0, 1.0]), b, x)
    with pytest.raises(ValueError, match="a LinearOperator of a function has no elements"):
        direct(LinearOperator((4, 4), wp.float64, "cpu", lambda *args: wp.copy(args[2], args[1])), b, x)
    x.zero_()
    _, residual, _ = direct(wp.ones(4, dtype=wp.float64), wp.array([1.0, np.nan, 1.0, 1.0]), x)
    assert np.isnan(residual)
    with pytest.raises(RuntimeError, match="captured"), wp.ScopedCapture():
        direct(wp.ones(4, dtype=wp.float64), b, x)


@pytest.mark.parametrize("solver", [*SOLVERS, direct])
@pytest.mark.parametrize("ptype", ["id", "diag"])
def test_batches(solver, ptype):
    sizes, tol = [5, 17, 1, 9], 1e-9
    matrices = [poisson(5)[:n, :n] for n in sizes]
    A = scipy.sparse.block_diag(matrices, format="csr")
    b, exact = solution(A)
    n = b.size
    whole = scipy.sparse.block_diag([A, scipy.sparse.eye_array(2)], format="csr")  # two numbers of no system
    offsets = wp.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    M = preconditioner(sparse(whole), ptype)
    op = aslinearoperator(sparse(whole), batch_offsets=offsets, max_batch_length=17)
    assert (op.batch_count, op.max_batch_length) == (4, 17)
    x = wp.full(n + 2, 5.0, dtype=wp.float64)
    x[:n].zero_()
    given = wp.array(np.append(b, [9.0, 9.0]))
    more = {} if solver is direct else {"M": M}
    _, residual, tolerance = solver(op, given, x, tol=tol, atol=0.0, maxiter=100, **more)
    assert residual <= tolerance
    np.testing.assert_allclose(x.numpy()[:n], exact, atol=1e-6)
    assert x.list()[n:] == [5.0, 5.0]
    for begin, end in zip(offsets.list(), offsets.list()[1:], strict=False):
        part = slice(begin, end)
        assert np.linalg.norm((A @ x.numpy()[:n] - b)[part]) <= 2 * tol * np.linalg.norm(b[part])


@pytest.mark.parametrize("solver", [*SOLVERS, direct])
def test_zero_is_the_solution_for_zero(solver):
    x = wp.zeros(64, dtype=wp.float64)
    assert solver(sparse(poisson(8)), wp.zeros(64, dtype=wp.float64), x)[:2] == (0, 0.0)
    x.fill_(1.0)
    _, residual, tolerance = solver(sparse(poisson(8)), wp.zeros(64, dtype=wp.float64), x, maxiter=200)
    assert residual <= tolerance


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_operator_that_computes_on_the_host(solver):
    """Iterations that no kernels do are not captured."""
    A = poisson(8)
    b, exact = solution(A)

    def matvec(x, y, z, alpha, beta):
        z.assign(alpha * (A @ x.numpy()) + (beta * y.numpy() if beta else 0.0))

    x = wp.zeros(64, dtype=wp.float64)
    result = solver(LinearOperator((64, 64), wp.float64, "cpu", matvec), wp.array(b), x, 1e-10, 0.0, check_every=40)
    require_solved(result, x, A, b, exact)


@pytest.mark.parametrize("solver", SOLVERS)
def test_systems_without_a_solution_end(solver):
    x = wp.zeros(4, dtype=wp.float64)
    b = wp.ones(4, dtype=wp.float64)
    for diagonal in ([1.0, 1.0, 0.0, 1.0], [0.0] * 4):
        x.zero_()
        iterations, residual, tolerance = solver(wp.array(diagonal), b, x, maxiter=60, check_every=1)
        assert residual > tolerance
        assert iterations >= 60
        assert np.isfinite(x.numpy()).all()
    for bad in (np.nan, np.inf):
        x.zero_()
        iterations, residual, tolerance = solver(wp.array([1.0, bad, 1.0, 1.0]), b, x, maxiter=1000, check_every=1)
        assert not residual <= tolerance or bad == np.inf
        assert iterations < 100


@pytest.mark.parametrize("solver", [*SOLVERS, direct])
def test_right_hand_sides_whose_norm_is_not_finite(solver):
    """They ended with an infinite tolerance, which any residual reached."""
    for dtype, value in ((wp.float64, np.inf), (wp.float64, np.nan), (wp.float32, 1e20), (wp.float16, 200.0)):
        b, x = wp.array([1.0, 1.0, value, value], dtype=dtype), wp.zeros(4, dtype=dtype)
        A = wp.array(2.0 * np.eye(4), dtype=dtype)
        iterations, residual, tolerance = solver(A, b, x)
        assert not residual <= tolerance
        assert iterations <= 31
        if solver is not direct:
            iterations, residual_sq, limit_sq = solver(A, b, x, check_every=0)
            assert not residual_sq.numpy()[0] <= limit_sq.numpy()[0]
            assert iterations.numpy()[0] <= 31
    offsets, b = wp.array([0, 2, 4], dtype=int), wp.array([0.0, 0.0, 1.0, np.inf])
    _, residual, tolerance = solver(
        aslinearoperator(wp.array(np.full(4, 2.0)), offsets), b, wp.zeros(4, dtype=wp.float64)
    )
    assert np.isnan(tolerance)
    assert not residual <= tolerance


@pytest.mark.parametrize("kind", [CG, CR, BiCGSTAB, GMRES, Direct])
def test_a_solver_is_used_again(kind):
    state, matrix = None, sparse(poisson(8))
    for seed in (1, 2):
        b, exact = solution(poisson(8), seed)
        x = wp.zeros(64, dtype=wp.float64)
        if state is None:
            state = kind(matrix, wp.array(b), x, tol=1e-10, atol=0.0, maxiter=200)
            assert isinstance(state, LinearSolverState)
        require_solved(state(b=wp.array(b), x=x), x, poisson(8), b, exact)
    with pytest.raises(ValueError, match=r"b.shape is \(64,\) as when the solver was made, got \(4,\)"):
        state(b=wp.zeros(4, dtype=wp.float64))
    with pytest.raises(ValueError, match=r"A.shape is \(64, 64\) as when the solver was made"):
        state(A=sparse(poisson(3)))


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_loop_is_part_of_a_graph(solver):
    A = poisson(8)
    b, exact = solution(A)
    given, x = wp.array(b), wp.zeros(64, dtype=wp.float64)
    state = solver(sparse(A), given, x, tol=1e-10, atol=0.0, maxiter=200, check_every=0, run=False)
    with wp.ScopedCapture() as capture:
        results = state()
    for scale in (1.0, -2.0):
        given.assign(scale * b)
        wp.capture_launch(capture.graph)
        iterations, residual_sq, limit_sq = (r.numpy()[0] for r in results)
        assert 0 < iterations <= 200
        assert residual_sq <= limit_sq
        np.testing.assert_allclose(x.numpy(), scale * exact, atol=1e-6)


@pytest.mark.parametrize("solver", [cg, cr])
def test_restarts(solver):
    A, seen = springs(30), []
    b, exact = solution(A)
    x = wp.zeros(90, dtype=wp.float64)
    result = solver(sparse(A, 3), wp.array(b), x, 1e-10, 0.0, 5000, callback=lambda n, *_: seen.append(n), restart=30)
    require_solved(result, x, A, b, exact)
    assert all(n % 30 == 0 for n in seen)
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="restart is"):
            solver(sparse(A), wp.array(b), x, restart=wrong)


@pytest.mark.parametrize("dtype, tol", [(wp.float32, 1e-5), (wp.float16, 2e-2)])
def test_smaller_floats(dtype, tol):
    A = poisson(4) + scipy.sparse.eye_array(16)
    b, exact = solution(A)
    for solver in (*SOLVERS, direct) if dtype is wp.float32 else (cg, cr, gmres, direct):
        x = wp.zeros(16, dtype=dtype)
        _, residual, tolerance = solver(sparse(A, 1, dtype), wp.array(b, dtype=dtype), x, tol=tol, maxiter=60)
        assert residual <= tolerance
        np.testing.assert_allclose(x.numpy(), exact, atol=10 * tol)


def test_refused_arguments():
    A, b, x = sparse(poisson(4)), wp.zeros(16, dtype=wp.float64), wp.zeros(16, dtype=wp.float64)
    for arguments, message in (
        ((A, b[:8], x), "b and x have one shape and dtype"),
        ((A, b, wp.zeros(16)), "x has numbers of float64 as A"),
        ((A, wp.zeros(17, dtype=wp.float64), wp.zeros(17, dtype=wp.float64)), "A is a square matrix for 17 numbers"),
        ((A, [1.0], x), "b is an array, got list"),
        ((3.0, b, x), "a matrix for solvers is a BsrMatrix"),
        ((A, wp.zeros(32, dtype=wp.float64)[::2], x), "contiguous"),
    ):
        with pytest.raises(ValueError, match=message):
            cg(*arguments)
    with pytest.raises(ValueError, match=r"M is a square matrix for 16 numbers as b has, got shape \(9, 9\)"):
        cg(A, b, x, M=sparse(poisson(3)))
    with pytest.raises(ValueError, match="max_batch_length requires batch_offsets"):
        aslinearoperator(A, max_batch_length=3)
    with pytest.raises(ValueError, match="whether BiCGSTAB has a preconditioner"):
        bicgstab(A, b, x, run=False)(M=preconditioner(A))
    with pytest.raises(TypeError, match="no solver by itself"):
        LinearSolverState(A, b, x)
