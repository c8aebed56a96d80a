"""Solvers in operators of PyTorch and functions of JAX, with gradients by one adjoint solve."""

import importlib

import numpy as np
import pytest

import warp_like as wp
from tests.optim.linear.systems import convection, springs
from warp_like.optim.linear import bicgstab, cg, direct
from warp_like.sparse import bsr_matrix_t

D = wp.float64
SIZE = 9
SYSTEMS = {"cg": (cg, springs(3)), "bicgstab": (bicgstab, convection(3)), "direct": (direct, convection(3))}


def solving(solver):
    """A function of the arrays of a matrix that solves a system."""

    def solve(
        offsets: wp.array(dtype=int),
        columns: wp.array(dtype=int),
        values: wp.array(dtype=D),
        b: wp.array(dtype=D),
        x: wp.array(dtype=D),
    ):
        A = bsr_matrix_t(D)()
        A.nrow = A.ncol = b.size
        A.nnz = columns.size
        A.offsets, A.columns, A.values = offsets, columns, values
        solver(A, b, x, tol=1e-13, atol=0.0, maxiter=500)

    return solve


def system(name):
    solver, A = SYSTEMS[name]
    A = A.tocsr()
    A.sum_duplicates()
    b, weights = np.random.default_rng(0).standard_normal((2, SIZE))
    return solving(solver), A, b, weights


def exact_gradients(A, b, weights):
    adjoint = np.linalg.solve(A.toarray().T, weights)
    rows = np.repeat(np.arange(SIZE), np.diff(A.indptr))
    return -adjoint[rows] * np.linalg.solve(A.toarray(), b)[A.indices], adjoint


@pytest.mark.parametrize("name", SYSTEMS)
def test_torch(name):
    torch = pytest.importorskip("torch")
    solve, A, b, weights = system(name)
    op = wp.torch_op(solve, outputs="x", shapes={"x": SIZE})
    places = [torch.from_numpy(a.astype(np.int32)) for a in (A.indptr, A.indices)]
    values, right = (torch.tensor(a, requires_grad=True) for a in (A.data, b))
    found = op(*places, values, right)
    np.testing.assert_allclose(found.detach().numpy(), np.linalg.solve(A.toarray(), b), atol=1e-9)
    (found @ torch.from_numpy(weights)).backward()
    for given, expected in zip((values, right), exact_gradients(A, b, weights), strict=True):
        np.testing.assert_allclose(given.grad.numpy(), expected, atol=1e-8 * np.abs(expected).max())
    assert torch.autograd.gradcheck(lambda *a: op(*places, *a), (values, right), atol=1e-4)


@pytest.mark.parametrize("name", SYSTEMS)
def test_jax(name):
    jax = pytest.importorskip("jax")
    solve, A, b, weights = system(name)
    with jax.enable_x64(True):
        f = wp.jax_callable(solve, output_dims=SIZE, on_host=True)
        places = [jax.numpy.asarray(a.astype(np.int32)) for a in (A.indptr, A.indices)]
        given = A.data, b
        (found,) = f(*places, *given)
        np.testing.assert_allclose(found, np.linalg.solve(A.toarray(), b), atol=1e-9)

        def loss(values, right):
            return f(*places, values, right)[0] @ weights

        for gradients in (jax.grad(loss, (0, 1)), jax.jit(jax.grad(loss, (0, 1)))):
            for gradient, expected in zip(gradients(*given), exact_gradients(A, b, weights), strict=True):
                np.testing.assert_allclose(gradient, expected, atol=1e-8 * np.abs(expected).max())
        importlib.import_module("jax.test_util").check_grads(
            lambda *a: f(*places, *a)[0], given, order=1, modes=["rev"], atol=1e-4, rtol=1e-4
        )
        batch = jax.vmap(lambda right: f(*places, A.data, right)[0])(np.stack([b, 2.0 * b]))
        np.testing.assert_allclose(batch, np.outer([1.0, 2.0], found), atol=1e-8)
