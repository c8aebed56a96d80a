"""Gradients through solvers, compared with the formulas in NumPy and with finite differences."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from tests.optim.linear.systems import convection, sparse, springs
from warp_like.optim.linear import LinearOperator, aslinearoperator, bicgstab, cg, cr, direct, gmres, preconditioner
from warp_like.sparse import bsr_assign, bsr_mv, bsr_zeros

SOLVERS = [cg, cr, bicgstab, gmres]
TIGHT = {"tol": 1e-12, "atol": 0.0, "maxiter": 3000}


def exact_gradients(A, b, weights):
    """Those of ``weights @ x`` with respect to ``b`` and to all elements of ``A``."""
    adjoint = np.linalg.solve(A.T, weights)
    return adjoint, -np.outer(adjoint, np.linalg.solve(A, b))


def stored(matrix, full):
    """The elements of a dense matrix that a sparse one stores, block by block."""
    r, c = matrix.block_shape
    rows, columns = matrix.uncompress_rows().numpy(), matrix.columns.numpy()
    shaped = full.reshape(matrix.nrow, r, matrix.ncol, c)
    return np.array([shaped[i, :, j] if i >= 0 else np.zeros((r, c)) for i, j in zip(rows, columns, strict=False)])


@pytest.mark.parametrize("solver", [*SOLVERS, direct])
@pytest.mark.parametrize("kind", ["compact", "padded"])
def test_sparse_matrices(solver, kind):
    A, block = (springs(12), 3) if solver in (cg, cr) else (convection(5), 1)
    matrix = sparse(A, block)
    if kind == "padded":
        roomy = bsr_zeros(matrix.nrow, matrix.ncol, matrix.dtype, row_capacity=matrix.ncol)
        bsr_assign(roomy, matrix, topology="padded")
        matrix = roomy
    matrix.nnz_sync()
    matrix.values.requires_grad = True
    rng = np.random.default_rng(1)
    b, weights = rng.standard_normal((2, A.shape[0]))
    given = wp.array(b, requires_grad=True)
    x = wp.zeros_like(given)
    with wp.Tape() as tape:
        more = {} if solver is direct else {"M": preconditioner(matrix)}
        result = solver(matrix, given, x, **more, **TIGHT)
    assert result[1] <= result[2]
    assert len(tape.launches) == 2  # the write of the solution, and the adjoint solve
    right, wanted = exact_gradients(A.todense(), b, weights)
    places = stored(matrix, np.asarray(wanted))
    matrix.values.fill_(7.0)  # what the tape keeps is its own
    tape.backward(grads={x: wp.array(weights)})
    np.testing.assert_allclose(given.grad.numpy(), right, atol=1e-7 * np.abs(right).max())
    found = matrix.scalar_values.grad.numpy()[: len(places)]
    np.testing.assert_allclose(found, places, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.parametrize("solver", [*SOLVERS, direct])
def test_dense_and_diagonal_matrices(solver):
    rng = np.random.default_rng(2)
    root = rng.standard_normal((7, 7))
    full = root @ root.T + np.eye(7) + (0.3 * rng.standard_normal((7, 7)) if solver in (bicgstab, gmres) else 0.0)
    b, weights = rng.standard_normal((2, 7))
    for A in (full, np.diag(full).copy()):
        matrix, given = wp.array(A, requires_grad=True), wp.array(b, requires_grad=True)
        x = wp.zeros_like(given)
        with wp.Tape() as tape:
            solver(matrix, given, x, **TIGHT)
        tape.backward(grads={x: wp.array(weights)})
        right, wanted = exact_gradients(A if A.ndim == 2 else np.diag(A), b, weights)
        np.testing.assert_allclose(given.grad.numpy(), right, atol=1e-8)
        np.testing.assert_allclose(matrix.grad.numpy(), wanted if A.ndim == 2 else np.diag(wanted), atol=1e-8)


@wp.kernel
def cube(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


def test_steps_in_a_row_beside_finite_differences():
    """Each step solves with the cubes of the last solution, which is the next first guess and overwritten."""
    matrix = sparse(convection(3))

    def run(start, tape):
        b = wp.array(start, requires_grad=True)
        first = b
        x = wp.zeros(9, dtype=wp.float64)
        with tape:
            for _ in range(3):
                bicgstab(matrix, b, x, **TIGHT)
                b = wp.zeros_like(b)
                wp.launch(cube, dim=9, inputs=[x], outputs=[b])
        return first, b

    start = np.random.default_rng(3).uniform(0.5, 2.0, 9)
    tape = wp.Tape()
    first, last = run(start, tape)
    tape.backward(grads={last: wp.ones(9, dtype=wp.float64)})
    for i in (0, 4, 8):
        step = np.zeros(9)
        step[i] = 1e-5
        above, below = (run(start + s, wp.Tape())[1].numpy().sum() for s in (step, -step))
        assert first.grad.numpy()[i] == pytest.approx((above - below) / 2e-5, rel=1e-5)


def test_a_small_gradient_is_not_below_the_tolerance():
    matrix, b = sparse(springs(4), 3, wp.float32), wp.ones(12, requires_grad=True)
    x = wp.zeros_like(b)
    with wp.Tape() as tape:
        cg(matrix, b, x, maxiter=500)
    tape.backward(grads={x: wp.full(12, 1e-9)})
    expected = np.linalg.solve(springs(4).todense(), np.full(12, 1e-9))
    np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-3)


def test_batches():
    full = np.diag([2.0, 4.0, 5.0, 9.0])
    full[:2, :2] += 1.0
    op = aslinearoperator(wp.array(full), wp.array([0, 2, 3], dtype=int))
    b = wp.ones(4, dtype=wp.float64, requires_grad=True)
    x = wp.zeros_like(b)
    with wp.Tape() as tape:
        cg(op, b, x, **TIGHT)
    tape.backward(grads={x: wp.ones(4, dtype=wp.float64)})
    expected = np.append(np.linalg.solve(full[:3, :3], np.ones(3)), 0.0)
    np.testing.assert_allclose(b.grad.numpy(), expected, atol=1e-9)


def test_operators_of_functions():
    matrix = sparse(springs(4), 3)

    def matvec(x, y, z, alpha, beta):
        if y.ptr != z.ptr:
            wp.copy(z, y)
        bsr_mv(matrix, x, z, alpha, beta)

    op = LinearOperator((12, 12), wp.float64, "cpu", matvec)
    b = wp.ones(12, dtype=wp.float64, requires_grad=True)
    x = wp.zeros_like(b)
    with wp.Tape() as tape:
        cg(op, b, x, **TIGHT)
    tape.backward(grads={x: wp.ones(12, dtype=wp.float64)})
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.solve(springs(4).todense(), np.ones(12)), atol=1e-8)
    with wp.Tape(), pytest.raises(RuntimeError, match="needs the transpose of the matrix"):
        gmres(op, b, x)


def test_an_inaccurate_gradient_is_told():
    matrix, b = sparse(springs(12), 3), wp.ones(36, dtype=wp.float64, requires_grad=True)
    x = wp.zeros_like(b)
    with wp.Tape() as tape:
        cg(matrix, b, x, maxiter=2)
    with pytest.warns(UserWarning, match="the gradient of a solution by CG is not accurate"):
        tape.backward(grads={x: wp.ones(36, dtype=wp.float64)})


def test_nothing_is_recorded_without_gradients():
    b = wp.ones(12, dtype=wp.float64)
    x = wp.zeros_like(b)
    matrix = sparse(springs(4), 3)
    with wp.Tape() as tape:
        cg(matrix, b, x, **TIGHT)
    assert tape.launches == []
    assert x.numpy().any()
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match="pass check_every=0"):
        cg(sparse(springs(4), 3), b, x)


@pytest.mark.parametrize("solver", [cg, *map(tail, (cr, bicgstab, gmres))])
def test_a_solve_and_its_gradient_in_a_graph(solver):
    full = (springs(4) if solver in (cg, cr) else convection(3)).toarray()
    n, rng = full.shape[0], np.random.default_rng(4)
    A = wp.array(full, requires_grad=True)
    b, seed = wp.zeros(n, dtype=wp.float64, requires_grad=True), wp.array(rng.standard_normal(n))
    x = wp.zeros_like(b)
    with wp.ScopedCapture() as capture:
        for a in (x, A.grad, b.grad):
            a.zero_()
        with wp.Tape() as tape:
            solver(A, b, x, tol=1e-12, atol=0.0, maxiter=500, check_every=0)
        tape.backward(grads={x: seed})
    for scale in (1.0, 2.0):
        A.assign(scale * full)
        b.assign(rng.standard_normal(n))
        wp.capture_launch(capture.graph)
        found, adjoint = (np.linalg.solve(m, v.numpy()) for m, v in ((scale * full, b), (scale * full.T, seed)))
        for given, expected in ((x, found), (b.grad, adjoint), (A.grad, -np.outer(adjoint, found))):
            np.testing.assert_allclose(given.numpy(), expected, atol=1e-8 * np.abs(expected).max())
