"""Products and sums of sparse matrices, compared with NumPy and SciPy in float64."""

import math

import numpy as np
import pytest
import scipy.sparse

import warp_like as wp
from tests.sparse.matrices import block, dense, random, with_many_rows
from warp_like.sparse import (
    BSR_STATUS_ROW_CAPACITY_EXCEEDED,
    bsr_assign,
    bsr_axpy,
    bsr_copy,
    bsr_diag,
    bsr_from_triplets,
    bsr_mm,
    bsr_mm_work_arrays,
    bsr_mv,
    bsr_scale,
    bsr_set_from_triplets,
    bsr_zeros,
)
from warp_like.sparse.multiply import MANY_ROWS

SHAPES = [(1, 1), (3, 2)]


def padded(A, capacity):
    B = bsr_zeros(A.nrow, A.ncol, A.dtype, row_capacity=capacity)
    bsr_assign(B, A, topology="padded")
    return B


def mask_of(A):
    ones = bsr_copy(A)
    ones.values.fill_(1.0)
    return dense(ones)


# --- with vectors ---


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (-2.0, 0.5), (0.0, 3.0)])
def test_vectors(shape, alpha, beta):
    A = random(1, (60, 41), 300, shape)
    full, rng = dense(A), np.random.default_rng(2)
    for matrix in (A, padded(A, 41)):
        x, y = rng.standard_normal(full.shape[1]), rng.standard_normal(full.shape[0])
        if beta == 0:
            y[:] = np.nan  # not read
        expected = alpha * full @ x + (beta * y if beta else 0)
        out = wp.array(y.reshape(60, -1))
        assert bsr_mv(matrix, wp.array(x), out, alpha, beta) is out
        np.testing.assert_allclose(out.numpy().ravel(), expected, atol=1e-12)
        x, y = np.nan_to_num(y, nan=1.0), x
        expected = alpha * full.T @ x + beta * y
        out = wp.array(y)
        bsr_mv(2.0 * matrix, x, out, 0.5 * alpha, beta, transpose=True)
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64])
def test_many_rows(dtype):
    """Groups of rows are summed together: of one length or several, with columns side by side or not."""
    n, rng = MANY_ROWS + 7, np.random.default_rng(9)
    rounding = {wp.float16: 2e-2, wp.float32: 3e-6, wp.float64: 1e-14}[dtype]
    for A, csr in with_many_rows(n, dtype):
        x = wp.array(rng.uniform(-1.0, 1.0, n), dtype=dtype)
        y = wp.full(n, np.nan, dtype=dtype)
        product = csr @ x.numpy().astype(float)
        np.testing.assert_allclose(bsr_mv(A, x, y, -2.0).numpy(), -2.0 * product, atol=rounding)
        sum_of_both = wp.array(np.ones(n), dtype=dtype)
        bsr_mv(A, x, sum_of_both, -1.0, 3.0)
        np.testing.assert_allclose(sum_of_both.numpy(), 3.0 - product, atol=rounding)
        A.values.requires_grad = True  # a thread for each row then
        close = rounding / (1 if dtype is wp.float16 else 10)  # some processors round only once for two operations
        np.testing.assert_allclose(bsr_mv(A, x, alpha=-2.0).numpy(), y.numpy(), atol=close)


def test_vectors_of_other_forms():
    A = random(3, (6, 6), 20, (2, 2))
    full, x = dense(A), np.random.default_rng(4).standard_normal(12)
    for given in (x, x.reshape(6, 2), wp.array(x.reshape(6, 2), dtype=wp.vec2d), wp.array(x.reshape(2, 6)).flatten()):
        y = A @ given
        assert y.dtype is wp.vec2d
        assert y.shape == (6,)
        np.testing.assert_allclose(y.numpy().ravel(), full @ x, atol=1e-14)
    np.testing.assert_allclose((x @ A).numpy().ravel(), x @ full, atol=1e-14)
    same = wp.array(x)
    bsr_mv(A, same, same, 2.0, -1.0)
    np.testing.assert_allclose(same.numpy(), 2.0 * full @ x - x, atol=1e-14)
    buffer, same = wp.zeros(6, dtype=wp.vec2d), wp.array(x)
    bsr_mv(A, same, same, 1.0, 1.0, transpose=True, work_buffer=buffer)
    np.testing.assert_allclose(same.numpy(), full.T @ x + x, atol=1e-14)
    np.testing.assert_array_equal(buffer.numpy().ravel(), x)


def test_vectors_that_do_not_fit():
    A = random(3, (6, 5), 20, (3, 2))
    x = wp.zeros(10, dtype=wp.float64)
    with pytest.raises(ValueError, match="Incompatible 'x' vector for bsr_mv: expected 5 vectors of 2 float64"):
        A @ wp.zeros(11, dtype=wp.float64)
    with pytest.raises(ValueError, match="Incompatible 'x' vector"):
        A @ wp.zeros(10, dtype=float)
    with pytest.raises(ValueError, match="Incompatible 'x' vector"):
        A @ wp.zeros(20, dtype=wp.float64)[::2]
    with pytest.raises(ValueError, match="Incompatible 'y' vector for bsr_mv: expected 6 vectors of 3 float64"):
        bsr_mv(A, x, wp.zeros(5, dtype=wp.vec3d))
    y = wp.zeros(18, dtype=wp.float64)
    B = random(3, (6, 6), 20, (3, 3))
    with pytest.raises(ValueError, match="work_buffer has at least 6 elements, got 5"):
        bsr_mv(B, y, y, work_buffer=wp.zeros(5, dtype=wp.vec3d))


# --- sums ---


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha, beta", [(1.0, 1.0), (-1.5, 2.0), (0.0, -1.0), (2.0, 0.0)])
def test_sums(shape, alpha, beta):
    A, B = random(1, (60, 41), 300, shape), random(2, (60, 41), 200, shape)
    x, y = dense(A), dense(B)
    expected = alpha * x + beta * y
    for left, right in ((A, bsr_copy(B)), (padded(A, 41), bsr_copy(B))):
        assert bsr_axpy(left, right, alpha, beta) is right
        np.testing.assert_allclose(dense(right), expected, atol=1e-14)
        assert right.row_counts is None
    roomy = padded(B, 41)
    bsr_axpy(A, roomy, alpha, beta, topology="padded")
    assert roomy.offsets.list() == list(range(0, 61 * 41, 41))
    np.testing.assert_allclose(dense(roomy), expected, atol=1e-14)
    masked = bsr_copy(B)
    bsr_axpy(A, masked, alpha, beta, topology="masked")
    np.testing.assert_allclose(dense(masked), expected * mask_of(B), atol=1e-14)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_sums_of_matrices_that_have_nearly_the_same_blocks(shape):
    rows, columns = (a.astype(np.int32) for a in np.nonzero(np.random.default_rng(5).random((40, 30)) < 0.4))
    columns[columns == 29] = 28  # so that one can be moved
    A = bsr_from_triplets(40, 30, *(wp.array(a) for a in (rows, columns, np.ones((rows.size, *shape)))))
    x, last = dense(A), rows.size - 1
    for moved in (None, "the first column", "the last column", "a row", "one more", "one less"):
        r, c = rows.copy(), columns.copy()
        if moved == "a row":
            r[rows.size // 2] += 1
        elif moved in ("the first column", "the last column"):
            c[0 if moved == "the first column" else last] = 29
        elif moved is not None:
            r, c = (r[:-1], c[:-1]) if moved == "one less" else (np.append(r, 0), np.append(c, 29))
        blocks = np.arange(1.0, r.size * math.prod(shape) + 1).reshape(r.size, *shape)
        B = bsr_from_triplets(40, 30, *(wp.array(a) for a in (r.astype(np.int32), c.astype(np.int32), blocks)))
        np.testing.assert_allclose(dense(2.0 * A - B), 2.0 * x - dense(B))
        np.testing.assert_allclose(dense(B + A), dense(B) + x)
    nothing = bsr_zeros(40, 30, A.dtype)
    assert not dense(nothing + bsr_zeros(40, 30, A.dtype)).any()
    np.testing.assert_array_equal(dense(nothing + A), x)


def test_operators():
    A, B = random(1, n=10), random(2, n=12)
    x, y = dense(A), dense(B)
    for found, expected in (
        (A + B, x + y),
        (A - B, x - y),
        (2.0 * A + B, 2 * x + y),
        (A - B / 4.0, x - y / 4),
        (-(A * 3.0) - 2.0 * B, -3 * x - 2 * y),
        ((-A).eval(), -x),
        (A - A, 0 * x),
        (A.T.eval() if hasattr(A.T, "eval") else A.T, x.T),
    ):
        np.testing.assert_allclose(dense(found), expected, atol=1e-14)
    np.testing.assert_array_equal(dense(A), x)
    A += 2.0 * A
    np.testing.assert_allclose(dense(A), 3 * x)
    A -= B
    A *= 2.0
    np.testing.assert_allclose(dense(A), 2 * (3 * x - y), atol=1e-14)
    assert (2.0 * A).nnz == A.nnz
    assert (2.0 * A).shape == A.shape
    with pytest.raises(AttributeError, match="has no attribute 'values'"):
        (2.0 * A).values


def test_sums_of_one_matrix():
    for topology, make in (("compact", bsr_copy), ("masked", bsr_copy), ("padded", lambda A: padded(A, 5))):
        A = make(random(3))
        expected = 5.0 * dense(A)
        bsr_axpy(A, A, 2.0, 3.0, topology=topology)
        np.testing.assert_allclose(dense(A), expected)
    assert not dense(bsr_scale(A, 0.0)).any()
    assert A.nnz_sync() == 30
    small = bsr_zeros(6, 5, wp.float64, row_capacity=1)
    bsr_axpy(A, small, topology="padded")
    assert small.status_sync() == BSR_STATUS_ROW_CAPACITY_EXCEEDED


def test_a_new_sum_and_what_does_not_fit():
    A = random(4)
    np.testing.assert_array_equal(dense(bsr_axpy(A, alpha=2.0)), 2.0 * dense(A))
    with pytest.raises(ValueError, match="same number of rows and columns, got 6 x 5 and 6 x 6"):
        bsr_axpy(A, random(4, (6, 6)))
    with pytest.raises(ValueError, match=r"same block shape, got \(1, 1\) and \(2, 2\)"):
        bsr_axpy(A, random(4, shape=(2, 2)))
    with pytest.raises(ValueError, match="same scalar type, got float64 and float32"):
        bsr_axpy(A, random(4, dtype=wp.float32))


# --- with matrices ---


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (-2.0, 0.5)])
def test_matrices(shape, alpha, beta):
    A, B = random(1, (60, 41), 300, shape), random(2, (41, 50), 200, shape[::-1])
    C = random(3, (60, 50), 150, (shape[0], shape[0]))
    expected = alpha * dense(A) @ dense(B) + beta * dense(C)
    for x, y in ((A, B), (padded(A, 41), padded(B, 50))):
        z = bsr_copy(C)
        assert bsr_mm(2.0 * x, y, z, 0.5 * alpha, beta) is z
        np.testing.assert_allclose(dense(z), expected, atol=1e-13)
    roomy = padded(C, 50)
    bsr_mm(A, B, roomy, alpha, beta, topology="padded")
    np.testing.assert_allclose(dense(roomy), expected, atol=1e-13)
    masked = bsr_copy(C)
    bsr_mm(A, B, masked, alpha, beta, topology="masked")
    np.testing.assert_allclose(dense(masked), expected * mask_of(C), atol=1e-13)


def test_a_product_of_numbers_in_blocks():
    A, B = random(1, (5, 4), 12, (1, 3)), random(2, (4, 6), 12, (3, 1))
    np.testing.assert_allclose(dense(A @ B), dense(A) @ dense(B), atol=1e-14)
    z = bsr_zeros(5, 6, wp.types.matrix(shape=(1, 1), dtype=wp.float64))
    np.testing.assert_allclose(dense(bsr_mm(A, B, z)), dense(A) @ dense(B), atol=1e-14)


def test_products_into_their_factors():
    A = random(5, (9, 9), 40, (2, 2))
    full = dense(A)
    B = bsr_copy(A)
    bsr_mm(A, B, B, 2.0, -1.0)
    np.testing.assert_allclose(dense(B), 2 * full @ full - full, atol=1e-13)
    A @= A
    np.testing.assert_allclose(dense(A), full @ full, atol=1e-13)


def test_topology_of_a_product_is_reused():
    A, B = random(6, (30, 20), 90), random(7, (20, 25), 80)
    work = bsr_mm_work_arrays()
    z = bsr_mm(A, B, work_arrays=work)
    A.values.fill_(2.0)
    bsr_mm(A, B, z, work_arrays=work, reuse_topology=True)
    np.testing.assert_allclose(dense(z), dense(A) @ dense(B), atol=1e-14)
    with pytest.raises(ValueError, match="reuse_topology needs the work_arrays"):
        bsr_mm(A, B, reuse_topology=True)
    with pytest.raises(ValueError, match="reuse_topology goes with topology='compact', got 'padded'"):
        bsr_mm(A, B, z, work_arrays=work, reuse_topology=True, topology="padded")
    with pytest.raises(ValueError, match="those of a product of 30 x 25 blocks, not of 20 x 30"):
        bsr_mm(B, random(8, (25, 30), 60), work_arrays=work, reuse_topology=True)
    assert z.nnz_sync() > 1
    products = [z, *(bsr_mm(A, B, work_arrays=work, reuse_topology=True) for _ in range(2))]
    one = wp.zeros(1, dtype=int)
    for _ in range(3):  # changed in place, none changes the others or those to come
        bsr_set_from_triplets(products.pop(0), one, one, wp.ones(1, dtype=wp.float64))
        products.append(bsr_mm(A, B, work_arrays=work, reuse_topology=True))
        for product in products:
            np.testing.assert_allclose(dense(product), dense(A) @ dense(B), atol=1e-14)


def test_a_bound_for_the_product(capfd):
    A = bsr_from_triplets(2, 2, wp.array([0, 0, 1, 1], dtype=int), wp.array([0, 1, 0, 1], dtype=int), wp.ones(4))
    assert bsr_mm(A, A, max_new_nnz=4).nnz_sync() == 4
    assert capfd.readouterr().out == ""
    product = bsr_mm(A, A, max_new_nnz=3)
    assert product.nnz_sync() == 3
    assert capfd.readouterr().out == "bsr_mm: max_new_nnz = 3 is exceeded, the product has 4 blocks\n"
    np.testing.assert_array_equal(dense(product), [[2.0, 2.0], [2.0, 0.0]])
    work = bsr_mm_work_arrays()
    for reuse in (False, True, True):
        product = bsr_mm(A, A, work_arrays=work, reuse_topology=reuse, max_new_nnz=None if reuse else 3)
        np.testing.assert_array_equal(dense(product), [[2.0, 2.0], [2.0, 0.0]])


def test_matrices_that_do_not_fit():
    A = random(1, (5, 4), 12, (1, 3))
    with pytest.raises(ValueError, match=r"Incompatible block sizes for bsr_mm"):
        A @ A
    with pytest.raises(ValueError, match="Incompatible number of rows/columns for bsr_mm: x, y and z are 6 x 5, 6 x 5"):
        random(1) @ random(1)
    with pytest.raises(TypeError, match="y is a BsrMatrix, got NoneType"):
        bsr_mm(A, None)


def poisson(n):
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return (
        scipy.sparse.kron(line, scipy.sparse.eye_array(n)) + scipy.sparse.kron(scipy.sparse.eye_array(n), line)
    ).tocoo()


def test_a_larger_grid_beside_scipy():
    reference = poisson(60)
    rows, columns = (a.astype(np.int32) for a in reference.coords)
    A = bsr_from_triplets(3600, 3600, rows, columns, wp.array(reference.data))
    csr = reference.tocsr()
    csr.sort_indices()
    np.testing.assert_array_equal(A.offsets.numpy(), csr.indptr)
    np.testing.assert_array_equal(A.columns.numpy()[: A.nnz_sync()], csr.indices)
    square, wanted = A @ A, (csr @ csr).tocsr()
    wanted.sort_indices()
    np.testing.assert_array_equal(square.offsets.numpy(), wanted.indptr)
    np.testing.assert_array_equal(square.columns.numpy(), wanted.indices)
    np.testing.assert_allclose(square.values.numpy(), wanted.data)
    x = np.random.default_rng(0).standard_normal(3600)
    np.testing.assert_allclose((A @ wp.array(x)).numpy(), csr @ x, atol=1e-13)


def test_an_identity_is_neutral():
    A = random(8, (6, 6), 20, (2, 2))
    identity = bsr_diag(wp.mat22d(1.0, 0.0, 0.0, 1.0), rows_of_blocks=6)
    np.testing.assert_array_equal(dense(identity @ A), dense(A))
    assert block((1, 1), float) is float
