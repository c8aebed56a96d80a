"""Preconditioners: the inverses of diagonals and of blocks, compared with NumPy."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import warp_like as wp
from tests.optim.linear.systems import poisson, sparse, springs
from warp_like.optim.linear import cg, preconditioner
from warp_like.sparse import bsr_diag, bsr_identity, bsr_zeros

BLOCKS = ["block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile"]


def applied(A, ptype, x, dtype=wp.float64):
    given, z = wp.array(x, dtype=dtype), wp.full(x.size, 3.0, dtype=dtype)
    preconditioner(A, ptype).matvec(given, z, z, alpha=2.0, beta=-1.0)
    return (z.numpy().astype(float) + 3.0) / 2.0


def test_diagonals():
    dense = np.array([[2.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
    x = np.array([1.0, 2.0, 3.0])
    for ptype, expected in (("diag", [0.5, -0.5, 3.0]), ("diag_abs", [0.5, 0.5, 3.0])):
        np.testing.assert_array_equal(applied(wp.array(dense), ptype, x), expected)
        np.testing.assert_array_equal(applied(bsr_diag(wp.array(np.diag(dense))), ptype, x), expected)
        np.testing.assert_array_equal(applied(bsr_diag(wp.array([dense], dtype=wp.mat33d)), ptype, x), expected)
    assert preconditioner(wp.array(dense), "id") is None


@pytest.mark.parametrize("ptype", BLOCKS)
@pytest.mark.parametrize("size", [2, 5])
def test_blocks(ptype, size):
    rng = np.random.default_rng(size)
    roots = rng.standard_normal((7, size, size))
    blocks = roots @ roots.transpose(0, 2, 1) + np.eye(size)
    x = rng.standard_normal((7, size))
    for dtype, tolerance in ((wp.float64, 1e-11), (wp.float32, 1e-4)):
        A = bsr_diag(wp.array(blocks, dtype=wp.types.matrix(shape=(size, size), dtype=dtype)))
        found = applied(A, ptype, x.ravel(), dtype)
        np.testing.assert_allclose(found, np.linalg.solve(blocks, x[..., None]).ravel(), atol=tolerance)


@pytest.mark.parametrize("ptype", BLOCKS)
def test_the_identity_stands_in_for_what_has_no_inverse(ptype):
    blocks = np.array(
        [np.zeros((2, 2)), np.ones((2, 2)), np.full((2, 2), np.nan), [[0.0, 1.0], [2.0, 0.0]], np.diag([-1.0, 2.0])]
    )
    x = np.arange(1.0, 11.0)
    found = applied(bsr_diag(wp.array(blocks, dtype=wp.mat22d)), ptype, x)
    np.testing.assert_array_equal(found[:6], x[:6])
    expected = np.linalg.solve(blocks[3:], x[6:].reshape(2, 2, 1)).ravel() if ptype == BLOCKS[0] else x[6:]
    np.testing.assert_allclose(found[6:], expected)


def exact_incomplete_factor(A):
    """Gaussian elimination in NumPy that drops what falls beside the numbers of the matrix."""
    L = np.tril(A)
    kept = L != 0
    for k in range(len(L)):
        L[k, k] = np.sqrt(L[k, k])
        L[k + 1 :, k] /= L[k, k]
        for j in range(k + 1, len(L)):
            L[j:, j] -= L[j:, k] * L[j, k] * kept[j:, j]
    return L


@pytest.mark.parametrize("name, block", [("poisson", 1), ("springs", 3), ("wide", 2), ("empty", 1)])
def test_an_incomplete_factorisation(name, block):
    wide = np.kron(np.eye(1100), [[4.0, 1.0], [1.0, 3.0]])  # two levels of 1100 rows, each a launch
    systems = {"poisson": poisson(7), "springs": springs(15), "wide": wide, "empty": np.zeros((0, 0))}
    full = scipy.sparse.csr_array(systems[name])
    x = np.random.default_rng(1).standard_normal(full.shape[0])
    if name == "wide":
        expected = scipy.sparse.linalg.spsolve(full.tocsc(), x)
    else:
        L = exact_incomplete_factor(full.toarray())
        expected = np.linalg.solve(L @ L.T, x)
    np.testing.assert_allclose(applied(sparse(full, block), "ic", x), expected, atol=1e-12)
    found = applied(sparse(full, block, wp.float32), "ic", x, wp.float32)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-4)


def test_an_incomplete_factorisation_raises_the_diagonal_where_a_pivot_is_lost():
    """Kershaw's matrix is positive definite, and has no incomplete factorisation of its own."""
    dense = np.array([[3.0, -2.0, 0.0, 2.0], [-2.0, 3.0, -2.0, 0.0], [0.0, -2.0, 3.0, -2.0], [2.0, 0.0, -2.0, 3.0]])
    assert np.linalg.eigvalsh(dense).min() > 0.1
    x = np.array([1.0, -2.0, 3.0, 0.5])
    L = exact_incomplete_factor(dense + np.diag(np.full(4, 3.0)))
    found = applied(sparse(scipy.sparse.csr_array(dense)), "ic", x)
    np.testing.assert_allclose(found, np.linalg.solve(L @ L.T, x), atol=1e-12)


@pytest.mark.parametrize("diagonal", [[1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0], [1.0, 0.0, 1.0]])
def test_an_incomplete_factorisation_of_what_is_not_definite(diagonal):
    A = sparse(scipy.sparse.csr_array(np.diag(diagonal) + np.diag([0.5, 0.5], 1) + np.diag([0.5, 0.5], -1)))
    with pytest.raises(ValueError, match="the diagonal of row 1 is not stored, not positive or not finite"):
        preconditioner(A, "ic")


def test_an_incomplete_factorisation_needs_fewer_iterations():
    matrix, b = sparse(poisson(24)), wp.ones(576, dtype=wp.float64)
    counts = []
    for ptype in ("diag", "ic"):
        x = wp.zeros_like(b)
        M = preconditioner(matrix, ptype)
        iterations, residual, tolerance = cg(matrix, b, x, 1e-10, 0.0, 2000, M, check_every=1)
        assert residual <= tolerance
        counts.append(iterations)
    assert counts[1] < 0.6 * counts[0]


def test_refused_matrices():
    with pytest.raises(ValueError, match="ptype is one of 'diag', 'diag_abs'.*got 'ilu'"):
        preconditioner(bsr_identity(2, float), "ilu")
    for ptype in ("fsai", "ic"):
        with pytest.raises(ValueError, match=f"{ptype!r}.* takes a BsrMatrix.*, got array"):
            preconditioner(wp.zeros((2, 2)), ptype)
        with pytest.raises(ValueError, match=f"{ptype!r}.* square matrix with square blocks"):
            preconditioner(bsr_zeros(2, 3, float), ptype)
    for wrong in (bsr_zeros(2, 3, float), bsr_zeros(2, 2, wp.types.matrix(shape=(1, 2), dtype=float))):
        with pytest.raises(ValueError, match="square matrix with square matrix blocks"):
            preconditioner(wrong)
    with pytest.raises(ValueError, match="'block_jacobi_direct' takes a BsrMatrix, got array"):
        preconditioner(wp.zeros((2, 2)), "block_jacobi_direct")
    with pytest.raises(ValueError, match="takes matrices of float32 or float64, got float16"):
        preconditioner(bsr_identity(2, wp.mat22h), "block_jacobi_tile")
