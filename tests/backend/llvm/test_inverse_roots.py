"""Quotients by square roots: of 1, and others under ``fast_math``."""

from __future__ import annotations

import numpy as np

import warp_like as wp

SPECIAL = [0.0, np.inf, np.nan, -1.0, 1e-45, 1e-40, 1e-38, 3.4e38, 1e38, 1.0, 4.0]


@wp.kernel(fast_math=True)
def quotients(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    r = wp.sqrt(x[i])
    s = wp.sqrt(y[i])
    out[i, 0] = 1.0 / r
    out[i, 1] = y[i] / (r * r * r)
    out[i, 2] = 3.0 / (r * s)
    out[i, 3] = 1.0 / (r * y[i])


@wp.kernel(fast_math=True)
def doubles(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    out[i] = wp.float64(1.0) / wp.sqrt(x[i])


def numbers(n: int) -> np.ndarray:
    found = np.exp(np.random.default_rng(n).uniform(-20.0, 20.0, n))
    found[: len(SPECIAL)] = SPECIAL
    return found.astype(np.float32)


def test_quotients_by_roots_keep_their_ends() -> None:
    n = 1003  # vectors, and a rest
    x, y = numbers(n), np.exp(np.random.default_rng(1).uniform(-5.0, 5.0, n)).astype(np.float32)
    out = wp.zeros((n, 4))
    wp.launch(quotients, dim=n, inputs=[wp.array(x), wp.array(y), out])
    with np.errstate(all="ignore"):
        r, s = np.sqrt(x.astype(float)), np.sqrt(y.astype(float))
        expected = np.stack([1.0 / r, y / r**3, 3.0 / (r * s), 1.0 / (r * y)], -1)
        expected = np.where(abs(expected) > np.finfo(np.float32).max, np.inf, expected)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1.0e-6, atol=1.0e-37)


@wp.kernel(fast_math=True)
def over_the_range(
    m: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array2d(dtype=float)
):
    i = wp.tid()
    r = wp.sqrt(x[i])
    s = wp.sqrt(y[i])
    out[i, 0] = m[i] / r
    out[i, 1] = m[i] / (r * s)
    out[i, 2] = m[i] / (r * r)
    out[i, 3] = m[i] / (r * r * r)
    out[i, 4] = m[i] / (r * r * r * r)
    out[i, 5] = m[i] / (r * r * s)


def any_size(n: int, seed: int) -> np.ndarray:
    """Numbers of all exponents, denormal ones too."""
    draw = np.random.default_rng(seed)
    return np.ldexp(draw.uniform(1.0, 2.0, n), draw.integers(-149, 128, n)).astype(np.float32)


def test_quotients_by_roots_are_right_over_the_whole_range() -> None:
    n = 20_011
    m, x, y = any_size(n, 0), any_size(n, 1), any_size(n, 2)
    m[::2] *= -1.0
    m[:4], x[:4], y[:4] = (3e38, 1e-38, 3e38, 1e-10), (1e-38, 1e38, 1e38, 1e-40), (1e38, 1e-38, 1e-38, 1e-40)
    out = wp.zeros((n, 6))
    wp.launch(over_the_range, dim=n, inputs=[wp.array(m), wp.array(x), wp.array(y), out])
    found, r, s = out.numpy().astype(float), np.sqrt(x.astype(float)), np.sqrt(y.astype(float))
    largest, unit = float(np.finfo(np.float32).max), 2.0**-149
    for k, divisor in enumerate([r, r * s, r**2, r**3, r**4, r * r * s]):
        expected = m / divisor
        # Denormal numbers have fewer digits. A divisor of more than two roots may leave float32, where it is computed.
        relative = 1.0e-6 + unit / divisor + unit / abs(m)
        in_range = (divisor < largest) & (divisor > unit)
        finite = in_range & (abs(expected) * (1.0 + relative) < largest)
        error = abs(found[finite, k] - expected[finite])
        assert np.all(error <= relative[finite] * abs(expected[finite]) + 2.0 * unit), k
        infinite = in_range & (abs(expected) * (1.0 - relative) > largest)
        assert infinite.sum() > 100
        assert np.all(found[infinite, k] == np.sign(m[infinite]) * np.inf), k


def test_doubles_are_divided() -> None:
    x = numbers(100).astype(np.float64)
    out = wp.zeros(100, dtype=wp.float64)
    wp.launch(doubles, dim=100, inputs=[wp.array(x), out])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(out.numpy(), 1.0 / np.sqrt(x), rtol=1.0e-15)


def test_only_products_of_roots_are_estimated() -> None:
    text = quotients.inspect("lanes", target="cpu")
    assert text.count(" div ") == 4
    code = quotients.inspect("llvm")
    if "rsqrt14" in code:  # on processors that have it
        lines = [line for line in code.splitlines() if "fdiv" in line and "<16 x" in line]
        assert lines, "1 / (r * y) is divided"
        exact = quotients.with_options(fast_math=False).inspect("llvm")
        calls = [line for line in exact.splitlines() if "rsqrt14" in line and "call" in line]
        assert len(calls) == 4, "1 / r and y / (r * r * r) are estimated, in whole vectors and in the last one"
        alone = quotients.with_options(fast_math=False, fuse_fp=False).inspect("llvm")
        assert "rsqrt14" not in alone, "without fused operations nothing is estimated"


@wp.kernel
def inverse_root(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 1.0 / wp.sqrt(x[i])


def units_off(x: np.ndarray) -> np.ndarray:
    """How many units in the last place the inverse roots of positive ``x`` are off."""
    out = wp.zeros(len(x))
    wp.launch(inverse_root, dim=len(x), inputs=[wp.array(x), out])
    exact = 1.0 / np.sqrt(x.astype(float))
    return abs(out.numpy() - exact) / np.spacing(exact.astype(np.float32)).astype(float)


def test_inverse_roots_are_no_worse_than_a_root_and_a_division() -> None:
    mantissas = np.arange(0x3F800000, 0x40800000, 7, dtype=np.uint32).view(np.float32)  # from 1 to 4
    powers = np.ldexp(np.float32(1.0), np.arange(-149, 128)).astype(np.float32)
    most = 1.05 if "rsqrt14" in inverse_root.inspect("llvm") else 1.5
    for x in (mantissas, any_size(20_011, 4), powers):
        assert units_off(x).max() < most
    assert np.all(units_off(powers[1::2]) == 0.0)  # of 4**k, which are exact


def test_inverse_roots_keep_their_ends() -> None:
    x = np.array([0.0, -0.0, np.inf, np.nan, -1.0, -1e-45, -np.inf] * 19, np.float32)
    out = wp.zeros(len(x))
    wp.launch(inverse_root, dim=len(x), inputs=[wp.array(x), out])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.numpy(), 1.0 / np.sqrt(x))


@wp.kernel
def over_powers(m: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    r = wp.sqrt(x[i])
    out[i, 0] = m[i] / (r * r)
    out[i, 1] = m[i] / (r * r * r)
    out[i, 2] = m[i] / ((r * r) * (r * r))


def powers_by_steps(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What root, products and division give, each of them rounded to float32."""
    with np.errstate(all="ignore"):
        r = np.sqrt(x)
        return np.stack([m / (r * r), m / (r * r * r), m / ((r * r) * (r * r))], -1)


def launched(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    out = wp.zeros((len(x), 3))
    wp.launch(over_powers, dim=len(x), inputs=[wp.array(m), wp.array(x), out])
    return out.numpy()


def test_quotients_by_powers_are_closer_than_the_roundings_of_each_step() -> None:
    """Root, products and quotient may leave 4, 6 and 8 halves of a relative unit; these leave at most 3, 4 and 4."""
    x = np.concatenate([np.arange(0x3F800000, 0x40800000, 61, dtype=np.uint32).view(np.float32), any_size(50_021, 5)])
    x = x[(x > 2.0**-60) & (x < 2.0**60)]
    m = np.random.default_rng(6).uniform(1.0, 2.0, len(x)).astype(np.float32)
    exact = m[:, None].astype(float) / np.sqrt(x.astype(float))[:, None] ** [2, 3, 4]
    error = (abs(launched(m, x) - exact) / exact).max(0) * 2.0**24
    by_steps = (abs(powers_by_steps(m, x) - exact) / exact).max(0) * 2.0**24
    bounds = [3.0, 4.0, 4.0] if "fpclass" in over_powers.inspect("llvm") else [4.0, 6.0, 8.0]
    assert np.all(error <= bounds)
    assert np.all(error <= by_steps)


def test_quotients_by_powers_at_the_ends_of_the_range_are_those_of_each_step() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -3e38, -1e-45, 1e-45, 1e-40, 3.4e38], np.float32)
    x = np.concatenate([np.tile(special, 13), any_size(20_011, 7)])
    np.random.default_rng(8).shuffle(x)
    m = np.resize(np.concatenate([special, any_size(997, 9), -any_size(991, 10)]), len(x)).astype(np.float32)
    found, expected = launched(m, x), powers_by_steps(m, x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    with np.errstate(all="ignore"):  # a denormal divisor has lost digits
        relative = 1.0e-6 + 2.0**-149 / np.sqrt(x.astype(float))[:, None] ** [2, 3, 4]
        close = abs(found - expected) <= relative * abs(expected) + 2.0**-149
    assert np.all(close | (found == expected) | np.isnan(found))
    np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(found)]))
