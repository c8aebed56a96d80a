"""Functions of the vector math library over their whole domain: usual and special arguments in one vector."""

import math
from typing import Any

import mpmath
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
    y[10, i] = wp.atan(a)
    y[11, i] = wp.asin(a)
    y[12, i] = wp.acos(a)
    y[13, i] = wp.erfc(a)
    y[14, i] = wp.erf(a)


REFERENCES = (
    *(np.exp, np.log, np.log2, np.log10, np.sinh, np.cosh, np.tanh, np.sin, np.cos, np.tan, np.arctan),
    *(lambda x: np.arcsin(np.clip(x, -1.0, 1.0)), lambda x: np.arccos(np.clip(x, -1.0, 1.0))),
    *(np.vectorize(f, otypes=[np.float64]) for f in (math.erfc, math.erf)),
)
"""The last two have no version in more than float64."""

NEAR_TURNS = {
    np.float32: (16367173.0 * 2.0**72, 2.0**100, -1.45554e23, 1.5e23, 2.0**76, 2.0**51, 1.1e4, 8388608.5),
    np.float64: (
        *(6381956970095103.0 * 2.0**797, 2.0**1000, 1.7e308, 2.0**52, 8388608.5, 1e22, 2.0**31, 1.4e67),
        *(float.fromhex(x) for x in ("0x1.fa4d7ab47dffbp+49", "-0x1.ca2fb4aecac20p+49", "0x1.f2dc84bf9fd2ap+49")),
    ),
}
"""Large arguments: the first of each type is closest to a multiple of pi / 2; at others the method changes; those below
``2**50`` are far from the turn that a rounded product finds."""


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
    turns = np.concatenate([NEAR_TURNS[dtype], np.rint(np.exp2(rng.uniform(0, 60, 200))) * (np.pi / 2)])
    numbers = np.concatenate([size, rng.uniform(0.0, 3.0, 1000), rng.uniform(0.0, 100.0, 500), edges, turns])
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
def turns(x: wp.array(dtype=Any), y: wp.array2d(dtype=Any)):
    i = wp.tid()
    y[0, i] = wp.sin(x[i])
    y[1, i] = wp.cos(x[i])
    y[2, i] = wp.tan(x[i])


@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [
        *[(np.float32, 23.0, 127.9), (np.float32, -140.0, 127.9)],  # by two pieces of 2 / pi; and in one vector
        *[(np.float64, 13.3, 50.0), (np.float64, 55.0, 1023.9)],  # by parts of pi; by three pieces of 2 / pi
        *[(np.float64, 50.0, 56.0), (np.float64, -1000.0, 1023.9)],  # by four; and in one vector
    ],
)
def test_vectors_of_large_arguments_alone(dtype, least, most):
    """Where no lane is usual, or one is, the periodic functions are as exact as anywhere."""
    rng = np.random.default_rng(7)
    far = np.exp2(rng.uniform(least, most, 200)) * rng.choice([-1.0, 1.0], 200)
    near = np.rint(np.exp2(rng.uniform(max(least, 1.0), min(most, 60.0), 100))) * (np.pi / 2)
    x = np.concatenate([far, near, NEAR_TURNS[dtype]]).astype(dtype)
    x = x[(np.abs(x) >= 2.0**least) & (np.abs(x) < 2.0**most)]
    y = wp.zeros((3, len(x)), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(turns, dim=len(x), inputs=[x, y])
    with mpmath.workprec(1300):
        for k, exact in enumerate((mpmath.sin, mpmath.cos, mpmath.tan)):
            assert_close(y.numpy()[k], np.array([float(exact(float(a))) for a in x]), x, exact.__name__)


@wp.kernel
def inverse_error(x: wp.array(dtype=Any), y: wp.array2d(dtype=Any)):
    i = wp.tid()
    y[0, i] = wp.erfinv(x[i])
    y[1, i] = wp.erf(x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_functions_of_small_numbers(dtype):
    """Denormal ones, and those around the size from which on the inverse is no multiple."""
    rng, info = np.random.default_rng(9), np.finfo(dtype)
    size = [rng.uniform(np.log2(float(info.smallest_subnormal)), 0.0, 300), rng.uniform(-30.0, -12.0, 300)]
    x = (np.exp2(np.concatenate(size)) * 0.99).astype(dtype)
    y = wp.zeros((2, len(x)), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(inverse_error, dim=len(x), inputs=[x, y])
    for got, exact in zip(y.numpy(), (mpmath.erfinv, mpmath.erf), strict=True):
        assert_close(got, np.array([float(exact(float(a))) for a in x]), x, exact.__name__)


@wp.kernel
def angles(y: wp.array(dtype=Any), x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = wp.atan2(y[i], x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles(dtype):
    rng = np.random.default_rng(6)
    every = ends(dtype)
    y, x = arguments(dtype, rng), arguments(dtype, rng)
    with np.errstate(all="ignore"):
        near = (y * np.exp2(rng.uniform(-80, 80, len(y))) * rng.choice([-1.0, 1.0], len(y))).astype(dtype)
    pairs = (y, x), (y, near), (near, y), (np.repeat(every, len(every)), np.tile(every, len(every)))
    for part in (*pairs, tuple(map(np.concatenate, zip(*pairs, strict=True)))):
        y, x = part
        out = wp.zeros(len(x), dtype=wp.dtype_from_numpy(dtype))
        wp.launch(angles, dim=len(x), inputs=[y, x, out])
        with np.errstate(all="ignore"):
            expected = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
        assert_close(out.numpy(), expected, list(zip(y, x, strict=True)), "atan2")
        zero = out.numpy() == 0
        assert (np.signbit(out.numpy()) == np.signbit(expected))[zero].all()


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
    next_to_1 = 1.0 + np.finfo(dtype).eps * rng.integers(-99, 99, 200), rng.uniform(-40.0, 40.0, 200)
    far = (next_to_1[1] / np.finfo(dtype).eps).astype(dtype)
    x = np.concatenate([x, x, near[0], next_to_1[0].astype(dtype), np.repeat(every, len(every))])
    y = np.concatenate([y, small, near[1].astype(dtype), far, np.tile(every, len(every))])
    out = wp.zeros(len(x), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(power, dim=len(x), inputs=[x, y, out])
    wide = np.longdouble
    with np.errstate(all="ignore"):
        base = np.where(np.isneginf(x) & ~(np.rint(y) == y), np.inf, x).astype(wide)
        expected = np.power(base, y.astype(wide))
    assert_close(out.numpy(), expected, list(zip(x, y, strict=True)), "pow")
