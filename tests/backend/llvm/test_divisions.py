"""Divisions in lanes: quotients of integers by way of float64, and remainders of floats."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.llvm.test_domains import arguments, ends
from warp_like.builtins import reference


@wp.kernel
def divide(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array2d(dtype=Any)):
    i = wp.tid()
    out[0, i] = x[i] / y[i]
    out[1, i] = x[i] % y[i]
    out[2, i] = x[i] // y[i]


def integers(dtype, rng):
    """Pairs of all sizes: divisors that go into the other number, or nearly so, and the ends of the type."""
    info = np.iinfo(dtype)
    every = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 2], dtype)
    every = np.concatenate([every, -every]) if info.min else every
    size = rng.integers(1, info.bits, (2, 2000))
    x, y = (rng.integers(0, 2**62, 2000) >> (62 - s) for s in size)
    near = (x // np.maximum(y, 1)) * y
    x, y = np.concatenate([x, near, near - 1, -x]), np.concatenate([y, y, y, y])
    x, y = (
        np.concatenate([x.astype(dtype), np.repeat(every, len(every))]),
        np.concatenate([y.astype(dtype), np.tile(every, len(every))]),
    )
    order = rng.permutation(len(x))
    return x[order], y[order]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8, np.uint16, np.int64])
def test_integers(dtype):
    x, y = integers(dtype, np.random.default_rng(1))
    out = wp.zeros((3, len(x)), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(divide, dim=len(x), inputs=[x, y, out])
    with np.errstate(all="ignore"):
        for got, fn in zip(out.numpy(), (reference.divide, reference.remainder, reference.floor_divide), strict=True):
            np.testing.assert_array_equal(got, fn(x, y).astype(dtype), err_msg=fn.__name__)


@wp.kernel
def remain(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i] % y[i]


@pytest.mark.parametrize("width", [0, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders(dtype, width):
    rng = np.random.default_rng(2)
    x, y = arguments(dtype, rng), arguments(dtype, rng)
    factor = np.exp2(rng.uniform(-60.0, 60.0, len(y)))
    every = ends(dtype)
    with np.errstate(all="ignore"):
        near = (rng.integers(-(2**20), 2**20, len(y)) * y).astype(dtype)  # multiples, or next to them
        x = np.concatenate(
            [x, near, np.nextafter(near, dtype(0)), (y * factor).astype(dtype), np.repeat(every, len(every))]
        )
        y = np.concatenate([y, y, y, y, np.tile(every, len(every))])
        for part in (slice(None), np.abs(x) < 2.0**29 * np.abs(y)):
            out = wp.zeros(len(x[part]), dtype=wp.dtype_from_numpy(dtype))
            wp.launch(remain, dim=out.size, inputs=[x[part], y[part], out], options={"vector_width": width})
            expected = np.fmod(x[part], y[part])
            np.testing.assert_array_equal(out.numpy(), expected)
            np.testing.assert_array_equal(np.signbit(out.numpy()[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_of_quotients_of_a_length(dtype):
    """The quotients of a launch have about so many bits, so squares are taken about as often in all vectors."""
    rng, info = np.random.default_rng(4), np.finfo(dtype)
    out = wp.zeros(1000, dtype=wp.dtype_from_numpy(dtype))
    for bits in (1, 21, 23, 29, 44, 45, 50, 51, 53, 102, 103, 204, 270, 1000, 2090):
        least = float(info.smallest_subnormal) * 2.0 ** rng.integers(0, 60, len(out))
        y = np.nextafter((least * rng.uniform(1.0, 2.0, len(out))).astype(dtype), dtype(1))
        with np.errstate(over="ignore"):
            x = np.minimum(np.ldexp(y * rng.uniform(1.0, 2.0, len(out)), bits), float(info.max)).astype(dtype)
        wp.launch(remain, dim=out.size, inputs=[x, y, out])
        np.testing.assert_array_equal(out.numpy(), np.fmod(x, y), err_msg=f"{bits} bits")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_of_divisors_at_the_ends_of_their_digits(dtype):
    """Digits of nearly all or no bits, with which quotients and residues are as large as they get."""
    rng, digits = np.random.default_rng(8), np.finfo(dtype).nmant + 1
    whole = np.concatenate([2**digits - 1 - np.arange(64), 2 ** (digits - 1) + np.arange(64), 1 + np.arange(64)])
    x, y = (rng.choice(whole, 4000).astype(dtype) for _ in range(2))
    low, high = np.finfo(dtype).minexp - digits + 1, np.finfo(dtype).maxexp - digits
    x, y = np.ldexp(x, rng.integers(0, high, len(x))), np.ldexp(y, rng.integers(low, 0, len(y)))
    out = wp.zeros(len(x), dtype=wp.dtype_from_numpy(dtype))
    wp.launch(remain, dim=out.size, inputs=[x, y, out])
    np.testing.assert_array_equal(out.numpy(), np.fmod(x, y))
