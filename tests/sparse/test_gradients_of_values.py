"""Gradients of the values of sparse matrices on tapes, compared with finite differences in float64."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from tests.sparse.matrices import dense, entries, random
from warp_like.sparse import (
    bsr_assign,
    bsr_axpy,
    bsr_compress,
    bsr_copy,
    bsr_from_triplets,
    bsr_get_diag,
    bsr_mm,
    bsr_mv,
    bsr_scale,
    bsr_set_from_mapped_values,
    bsr_set_from_triplets,
    bsr_set_transpose,
    bsr_transposed,
    bsr_zeros,
)

SHAPES = [(1, 1), (3, 2)]


@wp.kernel
def weigh(values: wp.array3d(dtype=wp.float64), weights: wp.array3d(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i, j, k = wp.tid()
    wp.atomic_add(out, 0, values[i, j, k] * weights[i, j, k] + wp.sin(values[i, j, k]))


def check(function, *given):
    """Compare the gradients of a number that ``function(*arrays)`` gives an array of, with finite differences."""

    def run(numbers, tape):
        arrays = [wp.array(n, requires_grad=True) for n in numbers]
        out = wp.zeros(1, dtype=wp.float64, requires_grad=True)
        with tape:
            found = function(*arrays)
            flat = found.view(wp.float64).flatten() if found.dtype is not wp.float64 else found.flatten()
            weights = np.random.default_rng(9).standard_normal((flat.size, 1, 1))
            wp.launch(weigh, dim=(flat.size, 1, 1), inputs=[flat.reshape((-1, 1, 1)), wp.array(weights)], outputs=[out])
        return arrays, out

    tape = wp.Tape()
    arrays, out = run(given, tape)
    tape.backward(loss=out)
    for k, a in enumerate(arrays):
        gradient = a.grad.numpy()
        assert np.isfinite(gradient).all()
        for place in list(np.ndindex(a.shape))[:: max(1, a.size // 5)]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = [np.array(n) for n in given]
                moved[k][place] += step
                ends.append(run(moved, wp.Tape())[1].numpy()[0])
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-7), (k, place)


def make(places, values, size, shape):
    """A matrix of entries whose blocks are in an array of numbers."""
    rows, columns = places
    blocks = values if shape != (1, 1) else values.flatten()
    return bsr_from_triplets(*size, wp.array(rows), wp.array(columns), blocks, prune_numerical_zeros=False)


@pytest.mark.parametrize("shape", SHAPES)
def test_products_with_vectors(shape):
    rows, columns, values = entries(1, (6, 5), 14, shape)
    x, y = np.random.default_rng(2).standard_normal(5 * shape[1]), np.ones(6 * shape[0])

    def multiply(values, x, y):
        A = make((rows, columns), values, (6, 5), shape)
        bsr_mv(2.0 * A, x, y, 1.5, -0.5)
        return bsr_mv(A, y, transpose=True)

    check(multiply, values, x, y)


@pytest.mark.parametrize(("topology", "shape"), crossed(["compact", "masked", "padded"], SHAPES, every=2))
def test_sums_and_products(shape, topology):
    first, second = entries(1, (6, 5), 14, shape), entries(2, (6, 5), 10, shape)

    def combine(a, b):
        A, B = (make(e[:2], v, (6, 5), shape) for e, v in ((first, a), (second, b)))
        C = bsr_copy(A, topology=topology if topology == "padded" else "compact")
        if topology == "padded":
            C = bsr_zeros(6, 5, A.dtype, row_capacity=5)
            bsr_assign(C, A, topology="padded")
        bsr_axpy(B, C, 2.0, -0.5, topology=topology)
        product = bsr_mm(C, bsr_transposed(B), alpha=0.5)
        D = bsr_copy(product)
        bsr_mm(C, bsr_transposed(A), D, 1.0, 2.0, topology="masked" if topology == "masked" else "compact")
        D = D - 3.0 * product * 2.0 + D  # some have the same blocks
        D.nnz_sync()
        return D.values[: D.nnz]

    check(combine, first[2], second[2])


@pytest.mark.parametrize("shape", SHAPES)
def test_copies_and_transposes(shape):
    rows, columns, values = entries(3, (6, 6), 16, shape)

    def change(values):
        A = make((rows, columns), values, (6, 6), shape)
        single = bsr_copy(A, block_shape=(1, 1))
        bsr_set_transpose(single, 3.0 * single)
        merged = bsr_copy(single, block_shape=(2, 2))
        bsr_compress(merged)
        return bsr_get_diag(bsr_scale(merged, 0.5))

    check(change, values)


@pytest.mark.parametrize("reduction", ["gather", "atomic", "masked"])
def test_mapped_and_masked_values(reduction):
    rows, columns, values = entries(4, (6, 6), 16, (2, 2))
    A = bsr_zeros(6, 6, wp.mat22d)
    places = wp.array(rows), wp.array(columns)
    mapping = bsr_set_from_triplets(A, *places, prune_numerical_zeros=False, build_mapping=True)
    n = A.nnz_sync()

    def fill(values):
        if reduction == "masked":
            bsr_set_from_triplets(A, *places, values, topology="masked")
        else:
            bsr_set_from_mapped_values(A, mapping, values, reduction)
        return A.values[:n]

    check(fill, values)


def test_a_matrix_that_is_filled_again_on_one_tape():
    """What the first product needs is kept although the matrix has other blocks when the backward pass runs."""
    A = bsr_zeros(2, 2, wp.float64)
    x = wp.array([2.0, 3.0], requires_grad=True)
    values = [wp.array(v, requires_grad=True) for v in ([5.0, 7.0], [11.0])]
    places = [([0, 1], [1, 1]), ([1], [0])]
    with wp.Tape() as tape:
        total = wp.zeros(2, dtype=wp.float64, requires_grad=True)
        for v, (rows, columns) in zip(values, places, strict=True):
            bsr_set_from_triplets(A, wp.array(rows, dtype=int), wp.array(columns, dtype=int), v)
            bsr_mv(A, x, total, 1.0, 1.0)
    np.testing.assert_array_equal(total.numpy(), [15.0, 21.0 + 22.0])
    tape.backward(grads={total: wp.array([1.0, 10.0])})
    np.testing.assert_array_equal(x.grad.numpy(), [110.0, 75.0])
    np.testing.assert_array_equal(values[0].grad.numpy(), [3.0, 30.0])
    np.testing.assert_array_equal(values[1].grad.numpy(), [20.0])


def test_matrices_without_gradients_get_none():
    A = random(5)
    assert not (A @ A.T).requires_grad
    with wp.Tape() as tape:
        bsr_mv(A, wp.ones(5, dtype=wp.float64))
    assert not A.requires_grad
    del tape
    assert dense(A).any()
