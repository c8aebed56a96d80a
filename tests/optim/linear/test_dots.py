"""Inner products of vectors, also beside an update of one, compared with NumPy in float64."""

import itertools

import numpy as np
import pytest

import warp_like as wp
from warp_like.optim.linear.dots import PART, Dots


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64])
@pytest.mark.parametrize("offsets", [None, (0, 3, 3, 5)])
def test_products_and_updates(dtype, offsets):
    rng = np.random.default_rng(0)
    close = {"rtol": {wp.float16: 2e-3, wp.float32: 1e-6, wp.float64: 1e-14}[dtype]}
    for n in (5,) if offsets else (1, 7, 16, PART - 1, PART, PART + 1, 3 * PART + 100):
        systems = [(0, n)] if offsets is None else list(itertools.pairwise(offsets))
        given = None if offsets is None else wp.array(offsets, dtype=int)
        dots = Dots(n, 2, given, wp.get_device("cpu"))
        a, r = (wp.array(rng.uniform(0.5, 1.0, n), dtype=dtype) for _ in range(2))
        both = wp.array(np.stack([a.numpy(), r.numpy()]), dtype=dtype)
        found, pairs = wp.zeros(len(systems), dtype=dtype), wp.zeros((2, len(systems)), dtype=dtype)
        dots.compute(a, r, found)
        dots.compute(both, r, pairs)
        left, right = (v.numpy().astype(np.float64) for v in (a, r))
        expected = [[v[i:j] @ right[i:j] for i, j in systems] for v in (left, right)]
        np.testing.assert_allclose(found.numpy(), expected[0], **close)
        np.testing.assert_allclose(pairs.numpy(), expected, **close)
        length = wp.array(rng.uniform(-0.5, 0.5, len(systems)), dtype=dtype)
        dots.subtract(length, a, r, found)
        lengths = length.numpy().astype(np.float64)
        moved = [right[i:j] - lengths[k] * left[i:j] for k, (i, j) in enumerate(systems)]
        np.testing.assert_allclose(r.numpy(), np.concatenate(moved), atol=close["rtol"] / 2, **close)
        now = r.numpy().astype(np.float64)
        np.testing.assert_allclose(found.numpy(), [now[i:j] @ now[i:j] for i, j in systems], **close)
