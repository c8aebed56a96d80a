"""Solvers on discretised equations whose solutions are known: errors shrink with the grid as theory says."""

import numpy as np
import pytest
import scipy.sparse

import warp_like as wp
from tests.optim.linear.systems import sparse
from warp_like.optim.linear import FSAI, bicgstab, cg, direct, gmres, preconditioner

TIGHT = {"tol": 1e-11, "atol": 0.0, "maxiter": 3000}


def line(n):
    """Second differences on ``n`` inner points of the unit interval."""
    return scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) * (n + 1.0) ** 2


def slope(n):
    """Central differences there."""
    return scipy.sparse.diags_array([-0.5, 0.5], offsets=[-1, 1], shape=(n, n)) * (n + 1.0)


def along(axis, dims, operator):
    """An operator of one dimension along one of several, as a matrix."""
    made = scipy.sparse.eye_array(1)
    for k in range(dims):
        made = scipy.sparse.kron(made, operator if k == axis else scipy.sparse.eye_array(operator.shape[0]))
    return made


def points(n, dims):
    inner = np.arange(1, n + 1) / (n + 1.0)
    return np.stack([a.ravel() for a in np.meshgrid(*[inner] * dims, indexing="ij")])


def order(errors, sizes):
    return np.log(errors[0] / errors[1]) / np.log((sizes[1] + 1.0) / (sizes[0] + 1.0))


def solve(solver, A, b, block=1, **more):
    matrix, x = sparse(A, block), wp.zeros(b.size, dtype=wp.float64)
    made = {name: make(matrix) for name, make in more.items()}
    _, residual, tolerance = solver(matrix, wp.array(b), x, **made, **TIGHT)
    assert residual <= tolerance
    return x.numpy()


@pytest.mark.parametrize("dims, sizes", [(2, (9, 19)), (3, (5, 11))])
@pytest.mark.parametrize("name", ["ic", "fsai", "large fsai"])
def test_poisson(dims, sizes, name):
    """The Laplacian of a product of sines, by differences of second order."""
    errors = []
    for n in sizes:
        A = sum(along(k, dims, line(n)) for k in range(dims))
        exact = np.sin(np.pi * points(n, dims)).prod(axis=0)
        made = {"M": (lambda A: FSAI(A, 16)) if name == "large fsai" else lambda A: preconditioner(A, name)}
        errors.append(np.abs(solve(cg, A, dims * np.pi**2 * exact, **made) - exact).max())
    assert order(errors, sizes) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("solver", [bicgstab, gmres, direct])
def test_convection(solver):
    """Poisson's equation with a wind, whose matrix is not symmetric."""
    errors, sizes, wind = [], (9, 19), (4.0, -2.0)
    for n in sizes:
        A = sum(along(k, 2, line(n)) + wind[k] * along(k, 2, slope(n)) for k in range(2))
        x, y = np.pi * points(n, 2)
        exact = np.sin(x) * np.sin(y)
        source = 2 * np.pi**2 * exact + np.pi * (4.0 * np.cos(x) * np.sin(y) - 2.0 * np.sin(x) * np.cos(y))
        errors.append(np.abs(solve(solver, A, source) - exact).max())
    assert order(errors, sizes) == pytest.approx(2.0, abs=0.1)


def elasticity(n, stiff, shear):
    """Navier's equations in a plane, with both displacements of a point beside each other: blocks of 2 x 2."""
    second, mixed = [along(k, 2, line(n)) for k in range(2)], along(0, 2, slope(n)) @ along(1, 2, slope(n))
    laplacian = shear * (second[0] + second[1])
    rows = [[laplacian + (stiff + shear) * second[0], -(stiff + shear) * mixed]]
    rows += [[-(stiff + shear) * mixed, laplacian + (stiff + shear) * second[1]]]
    together = np.arange(2 * n * n).reshape(2, -1).T.ravel()
    return scipy.sparse.block_array(rows).tocsr()[together][:, together]


@pytest.mark.parametrize("ptype", ["block_jacobi_direct", "fsai", "ic"])
def test_elasticity(ptype):
    errors, sizes, stiff, shear = [], (9, 19), 1.5, 1.0
    for n in sizes:
        x, y = np.pi * points(n, 2)
        u, v, mixed = np.sin(x) * np.sin(y), np.sin(2 * x) * np.sin(y), np.pi**2 * np.cos(x) * np.cos(y)
        of_u = shear * 2 * np.pi**2 * u + (stiff + shear) * np.pi**2 * (u - 2 * np.cos(2 * x) * np.cos(y))
        of_v = shear * 5 * np.pi**2 * v + (stiff + shear) * (np.pi**2 * v - mixed)
        A, b = elasticity(n, stiff, shear), np.stack([of_u, of_v], axis=1).ravel()
        found = solve(cg, A, b, 2, M=lambda A: preconditioner(A, ptype))
        errors.append(np.abs(found - np.stack([u, v], axis=1).ravel()).max())
    assert order(errors, sizes) == pytest.approx(2.0, abs=0.15)
