"""Copies of matrices in slices, compared with NumPy in float64 and with products by the matrices themselves."""

import numpy as np
import pytest
import scipy.sparse

import warp_like as wp
from tests.long_tail import tail
from tests.sparse.matrices import random, with_many_rows
from warp_like.optim.linear import aslinearoperator, bicgstab, cg, cr, gmres, preconditioner, sliced, state
from warp_like.optim.linear.dots import Dots
from warp_like.sparse import bsr_assign, bsr_from_scipy, bsr_mv, bsr_zeros
from warp_like.sparse.multiply import MANY_ROWS

N = MANY_ROWS + 7


@pytest.mark.parametrize("dtype", [tail(wp.float16), wp.float32, wp.float64])
def test_products_have_the_bits_of_the_matrix_itself(dtype):
    rng, copy = np.random.default_rng(0), None
    x, w = (wp.array(rng.uniform(-1.0, 1.0, N), dtype=dtype) for _ in range(2))
    y, again, expected = (wp.full(N, np.nan, dtype=dtype) for _ in range(3))
    dots, found, dot = Dots(N, 1, None, x.device), wp.zeros(1, dtype=dtype), wp.zeros(1, dtype=dtype)
    for A, csr in with_many_rows(N, dtype):
        assert sliced.can_be_sliced(A)
        if copy is None or not copy.fits(A):
            copy = sliced.SlicedMatrix(A)
        copy.cut(A)
        copy.multiply(x, y)
        copy.multiply(x, again, w, dots.parts(1))
        dots.sum_parts(dots.parts(1), found.reshape((1, 1)))
        bsr_mv(A, x, expected)
        dots.compute(w, expected, dot)
        product = csr @ x.numpy().astype(float)
        rounding = {wp.float16: 1e-2, wp.float32: 2e-6, wp.float64: 1e-14}[dtype]
        np.testing.assert_allclose(y.numpy(), product, atol=rounding)
        np.testing.assert_array_equal(again.numpy(), y.numpy())
        if dtype is not wp.float16:  # of which some processors round the sum of a product only once
            np.testing.assert_array_equal(y.numpy(), expected.numpy())
            np.testing.assert_array_equal(found.numpy(), dot.numpy())
        np.testing.assert_allclose(found.numpy()[0], w.numpy().astype(float) @ product, rtol=1e-2, atol=300 * rounding)


def test_rows_behind_the_end_of_the_values_are_not_copied():
    A, _ = next(with_many_rows(N, wp.float64))
    copy = sliced.SlicedMatrix(A)
    A.offsets = wp.array(A.offsets.numpy() + np.where(np.arange(N + 1) > 1000, 1 << 30, 0), dtype=int)
    copy.cut(A)
    shapes = copy._shapes.numpy()
    assert (shapes[:62, 1] >= 0).all()
    assert (shapes[62:, 1] == -1).all()


def test_which_matrices_are_copied():
    assert not sliced.can_be_sliced(random(0))
    assert not sliced.can_be_sliced(wp.zeros(N))
    assert not sliced.can_be_sliced(bsr_zeros(N, N, wp.mat22))
    assert sliced.can_be_sliced(bsr_zeros(N, N, float))
    compact, padded = bsr_zeros(N, N, float), bsr_zeros(N, N, float, row_capacity=1)
    bsr_assign(padded, compact, topology="padded")
    assert not sliced.can_be_sliced(padded)


def line(seed):
    """A symmetric matrix of three diagonals, and a right-hand side."""
    rng = np.random.default_rng(seed)
    diagonals = [-rng.uniform(0.5, 1.0, N - abs(k)) if k else rng.uniform(2.5, 3.0, N) for k in (-1, 0, 1)]
    A = scipy.sparse.csr_array(scipy.sparse.diags_array(diagonals, offsets=[-1, 0, 1], shape=(N, N)))
    return 0.5 * (A + A.T), rng.uniform(-1.0, 1.0, N)


@pytest.mark.parametrize("solver", [cg, cr, bicgstab, gmres])
def test_solvers_find_the_same(solver, monkeypatch):
    """With a preconditioner and without, in several systems, and for other values of a solver's matrix."""
    A, b = line(1)
    matrix, given = bsr_from_scipy(A), wp.array(b)
    batch = aslinearoperator(matrix, batch_offsets=wp.array([0, N // 2, N], dtype=int))
    found = {}
    for worth in (state.WORTH_SLICING, 1 << 30):
        monkeypatch.setattr(state, "WORTH_SLICING", worth)
        x = [wp.zeros_like(given) for _ in range(4)]
        solve = solver(matrix, given, x[0], 1e-9, 0.0, run=False)
        results = [solve(), solver(matrix, given, x[1], 1e-9, 0.0, M=preconditioner(matrix, "diag"))]
        results.append(solver(batch, given, x[2], 1e-9, 0.0))
        results.append(solve(A=bsr_from_scipy(0.5 * A), x=x[3]))
        assert (solve._sliced is not None) == (worth < 100)
        assert all(residual <= tolerance for _, residual, tolerance in results)
        np.testing.assert_allclose(A @ x[1].numpy(), b, atol=1e-7)
        np.testing.assert_allclose(0.5 * A @ x[3].numpy(), b, atol=1e-7)
        found[worth] = np.stack([a.numpy() for a in x])
    np.testing.assert_array_equal(*found.values())


def test_a_graph_copies_what_the_matrix_has_then():
    A, b = line(2)
    matrix, x = bsr_from_scipy(A), wp.zeros(N, dtype=wp.float64)
    solve = cg(matrix, wp.array(b), x, 1e-9, 0.0, 100, check_every=0, run=False)
    with wp.ScopedCapture() as capture:
        x.zero_()
        solve()
    for scale in (1.0, 4.0):
        matrix.values.assign(scale * matrix.values.numpy())  # the memory of A
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(A @ x.numpy(), b, atol=1e-7)
