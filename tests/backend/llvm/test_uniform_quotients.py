"""Quotients by one number for all lanes have the bits of divisions: with AVX-512 they are products."""

import numpy as np

import warp_like as wp

N, ROWS = 1024, 128


@wp.kernel(enable_backward=False)
def quotients(x: wp.array2d(dtype=float), by: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.tile_store(y[i], wp.tile_map(wp.div, wp.tile_load(x[i], shape=N), by[i]))


@wp.kernel(enable_backward=False)
def sums(x: wp.array2d(dtype=float), by: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(x.shape[0]):
        y[i] += x[k, i] / by[0]


SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 2.0**-60, -(2.0**60), 3.4e38, 1.0, -1.0)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], exponents: int) -> np.ndarray:
    """Numbers of all sizes up to these exponents, special ones among them."""
    mantissa = rng.uniform(1.0, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    with np.errstate(over="ignore"):
        made = np.ldexp(mantissa, rng.integers(-exponents, exponents, shape)).astype(np.float32)
    few = rng.random(shape) < 0.02
    made[few] = rng.choice(SPECIAL, few.sum())
    return made


def assert_divided(x: np.ndarray, by: np.ndarray) -> None:
    y = wp.zeros(x.shape, dtype=float)
    wp.launch_tiled(quotients, dim=len(x), inputs=[wp.array(x), wp.array(by), y], block_dim=1)
    with np.errstate(all="ignore"):
        expected = x / by[:, None]
    got = y.numpy()
    same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), (x[~same][:3], by[np.nonzero(~same)[0][:3]], got[~same][:3])


def test_quotients_of_numbers_of_all_sizes() -> None:
    rng = np.random.default_rng(1)
    for exponents in (20, 70, 150):
        assert_divided(numbers(rng, (ROWS, N), exponents), numbers(rng, (ROWS,), 65))


def test_quotients_that_are_hard_to_round() -> None:
    """Divisors with extreme mantissas, and numerators next to products of them with halves of units."""
    rng = np.random.default_rng(2)
    ends = np.concatenate([0x3FFFFFFF - np.arange(ROWS // 2), 0x3F800000 + np.arange(ROWS // 2)])
    by = ends.astype(np.uint32).view(np.float32)
    near = rng.integers(1 << 23, 1 << 24, (ROWS, N)) + 0.5
    x = (by[:, None].astype(np.float64) * near * 2.0**-24).astype(np.float32)
    assert_divided(x, by)
    assert_divided(rng.uniform(1.0, 2.0, (ROWS, N)).astype(np.float32), by)


def test_rows_of_any_length_and_sums_in_lanes() -> None:
    rng = np.random.default_rng(3)
    x, by = rng.normal(size=(7, 301)).astype(np.float32), np.array([3.0], np.float32)
    y = wp.zeros(301, dtype=float)
    wp.launch(sums, dim=301, inputs=[wp.array(x), wp.array(by), y])
    expected = np.zeros(301, np.float32)
    for row in x:
        expected += row / by[0]
    np.testing.assert_array_equal(y.numpy(), expected)
    cut = wp.zeros((2, 333), dtype=float)
    wp.launch_tiled(quotients, dim=2, inputs=[wp.array(x[:2]), wp.array(x[2, :2].copy()), cut], block_dim=1)
    np.testing.assert_array_equal(cut.numpy()[:, :301], x[:2] / x[2, :2, None])
