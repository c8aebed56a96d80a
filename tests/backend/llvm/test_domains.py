"""Functions of the vector math library over their whole domain: usual and special arguments in one vector."""

import math
from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def call_all(x: wp.array(dtype=Any), y: wp.array2d(dtype=Any)):
    i = wp.tid()
    a = x[i]
    y[0, i] = wp.exp(a)
    y[1, i] = wp.log(a)
    y[2, i] = wp.log2(a)
    y[3, i] = wp.log10(a)
    y[4, i] = wp.sinh(a)
    y[5, i] = wp.cosh(a)
    y[6, i] = wp.tanh(a)
    y[7, i] = wp.sin(a)
    y[8, i] = wp.cos(a)
    y[9, i] = wp.tan(a)
    y[10, i] = wp.erfc(a)


REFERENCES = (
    *(np.exp, np.log, np.log2, np.log10, np.sinh, np.cosh, np.tanh, np.sin, np.cos, np.tan),
    np.vectorize(math.erfc, otypes=[np.float64]),
)
"""The last two have no version in more than float64."""


@wp.kernel
def power(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i] ** y[i]


def ends(dtype):
    info = np.finfo(dtype)
    special = [0.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 7 * info.smallest_subnormal, 1.0]
    return np.array([s * x for x in special for s in (1.0, -1.0)], dtype)


def arguments(dtype, rng):
    """Usual arguments, those of every size, and the ends, in random order, so that vectors hold some of each."""
    info = np.finfo(dtype)
    size = np.exp2(rng.uniform(np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)), 1000))
    edges = [9.0, 10.0, 27.0, 86.0, 87.5, 89.0, 103.0, 104.5, 699.0, 705.0, 709.5, 712.0, 740.0, 746.5, 1e4, 4.1e6, 1e9]
    numbers = np.concatenate([size, rng.uniform(0.0, 3.0, 1000), rng.uniform(0.0, 100.0, 500), edges])
    return rng.permutation(np.concatenate([numbers * rng.choice([-1.0, 1.0], len(numbers)), ends(dtype)])).astype(dtype)


def assert_close(got, expected, x, what):
    """At most 4 units in the last place apart, which is what the library promises."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        expected = expected.astype(got.dtype)
        spacing = np.maximum(np.abs(np.spacing(expected)), info.smallest_subnormal)
        close = (got == expected) | (np.isnan(got) & np.isnan(expected)) | (np.abs(got - expected) <= 4 * spacing)
    bad = np.flatnonzero(~close)
    assert not len(bad), (what, x[bad[0]], got[bad[0]], expected[bad[0]])


@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 0), (np.float64, 0), (np.float64, 64)])
def test_functions_of_one_argument(dtype, width):
    x = arguments(dtype, np.random.default_rng(3))
    y = wp.zeros((len(REFERENCES), len(x)), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(call_all, dim=len(x), inputs=[x, y], options={"vector_width": width})
    wide = x.astype(np.float64 if dtype == np.float32 else np.longdouble)
    for k, reference in enumerate(REFERENCES):
        with np.errstate(all="ignore"):
            expected = reference(wide if k < len(REFERENCES) - 2 else x.astype(np.float64))
        assert_close(y.numpy()[k], expected, x, k)


@wp.kernel
def exponentials(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.exp(x[i])


def test_the_exponential_function_in_lanes_is_within_two_units():
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = [88.72283, 88.722839, 88.73, -87.34, -103.2789, -103.97, -103.9721, -103.98, -104.1, -0.0, 1e-30]
    near = np.concatenate([rng.uniform(-105.0, 89.5, 200_000), edges]).astype(np.float32)
    x = np.concatenate([bits, near, ends(np.float32)])
    y = wp.zeros(len(x), dtype=float)
    wp.launch(exponentials, dim=len(x), inputs=[wp.array(x, dtype=float), y])
    with np.errstate(all="ignore"):
        expected = np.exp(x.astype(np.float64))
        spacing = np.maximum(np.spacing(expected.astype(np.float32)).astype(np.float64), 2.0**-149)
        got = y.numpy().astype(np.float64)
        close = (got == expected.astype(np.float32)) | (np.abs(got - expected) <= 1.1 * spacing) | np.isnan(x)
    assert close.all(), x[~close]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers(dtype):
    rng = np.random.default_rng(4)
    every = ends(dtype)
    x, y = arguments(dtype, rng), arguments(dtype, rng)
    small = rng.integers(-9, 10, len(x)).astype(dtype)
    near = rng.choice(x, len(x)), rng.choice([-300.0, -2.0, -0.5, 0.5, 2.0, 300.0], len(x)) / rng.uniform(1, 9, len(x))
    x = np.concatenate([x, x, near[0], np.repeat(every, len(every))])
    y = np.concatenate([y, small, near[1].astype(dtype), np.tile(every, len(every))])
    out = wp.zeros(len(x), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(power, dim=len(x), inputs=[x, y, out])
    wide = np.longdouble
    with np.errstate(all="ignore"):
        base = np.where(np.isneginf(x) & ~(np.rint(y) == y), np.inf, x).astype(wide)
        expected = np.power(base, y.astype(wide))
    assert_close(out.numpy(), expected, list(zip(x, y, strict=True)), "pow")
