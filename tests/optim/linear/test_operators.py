"""Linear operators made of matrices."""

import numpy as np
import pytest

import warp_like as wp
from tests.sparse.matrices import dense, random
from warp_like.optim.linear import LinearOperator, aslinearoperator

RNG = np.random.default_rng(0)
DENSE = RNG.standard_normal((6, 6))
DIAGONAL = RNG.standard_normal(6)


@pytest.mark.parametrize(
    "A, full",
    [
        (wp.array(DENSE), DENSE),
        (wp.array(DIAGONAL), np.diag(DIAGONAL)),
        (wp.array(DIAGONAL.reshape(2, 3), dtype=wp.vec3d), np.diag(DIAGONAL)),
        (random(1, (6, 6), 20), dense(random(1, (6, 6), 20))),
        (random(1, (3, 3), 6, (2, 2)), dense(random(1, (3, 3), 6, (2, 2)))),
    ],
    ids=["dense", "diagonal", "vectors", "numbers", "blocks"],
)
def test_products(A, full):
    op = aslinearoperator(A)
    assert aslinearoperator(op) is op
    assert (op.scalar_type, op.batch_count, op.matrix) == (wp.float64, 1, A)
    x, y = RNG.standard_normal(6), RNG.standard_normal(6)
    z = wp.zeros(6, dtype=wp.float64)
    op.matvec(wp.array(x), wp.array(y), z, 2.0, -1.0)
    np.testing.assert_allclose(z.numpy(), 2 * full @ x - y)
    op.matvec(wp.array(x), z, z, 1.0, 1.0)
    np.testing.assert_allclose(z.numpy(), 3 * full @ x - y)
    z.fill_(np.nan)
    op.matvec(wp.array(x), z, z, 1.0, 0.0)
    np.testing.assert_allclose(z.numpy(), full @ x)


def test_refused_batches():
    with pytest.raises(ValueError, match="batch_offsets is an array of int32"):
        LinearOperator((2, 2), float, "cpu", lambda *args: None, wp.zeros(3))
    x = wp.zeros(12, dtype=wp.float64)[::2]
    with pytest.raises(ValueError, match="contiguous arrays"):
        aslinearoperator(wp.array(DENSE)).matvec(x, x, x, 1.0, 0.0)
