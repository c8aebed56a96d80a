"""Inner products of vectors, also beside an update of one, compared with NumPy in float64."""

import numpy as np
import pytest

import warp_like as wp
from warp_like.optim.linear.dots import PART, Dots


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64])
@pytest.mark.parametrize("offsets", [None, (0, 3, 3, 5)])
def test_products_and_updates(dtype, offsets):
    rng = np.random.default_rng(0)
    for n in (5,) if offsets else (1, 7, PART - 1, PART, PART + 1, 3 * PART + 100):
        systems = [(0, n)] if offsets is None else list(zip(offsets[:-1], offsets[1:], strict=True))
        given = None if offsets is None else wp.array(offsets, dtype=int)
        dots = Dots(n, 2, given, wp.get_device("cpu"))
        change, r = (wp.array(rng.uniform(0.5, 1.0, n), dtype=dtype) for _ in range(2))
        length = wp.array(rng.uniform(-0.5, 0.5, len(systems)), dtype=dtype)
        a, b, before = (v.numpy().astype(np.float64) for v in (change, length, r))
        found = wp.zeros(len(systems), dtype=dtype)
        dots.compute(change, r, found)
        close = {"rtol": {wp.float16: 2e-3, wp.float32: 1e-6, wp.float64: 1e-14}[dtype]}
        np.testing.assert_allclose(found.numpy(), [a[i:j] @ before[i:j] for i, j in systems], **close)
        dots.subtract(length, change, r, found)
        left = np.concatenate([before[i:j] - b[k] * a[i:j] for k, (i, j) in enumerate(systems)])
        np.testing.assert_allclose(r.numpy(), left, **close)
        now = r.numpy().astype(np.float64)
        np.testing.assert_allclose(found.numpy(), [now[i:j] @ now[i:j] for i, j in systems], **close)
