"""Powers by constants, which are multiplications and roots, against ``pow`` in higher precision."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp

EXPONENTS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 16.0, -1.0, -2.0, -3.0, -8.0, 0.5, 1.5, -0.5, 2.5, -1.5, 17.0)
MULTIPLIED = 15  # the first of them are not the library's


@wp.kernel
def raised(x: wp.array(dtype=Any), which: int, y: wp.array(dtype=Any)):
    i = wp.tid()
    a = x[i]
    if which == 0:
        y[i] = a**0.0
    elif which == 1:
        y[i] = a**1.0
    elif which == 2:
        y[i] = a**2.0
    elif which == 3:
        y[i] = wp.pow(a, y.dtype(3.0))
    elif which == 4:
        y[i] = a**4.0
    elif which == 5:
        y[i] = a**5.0
    elif which == 6:
        y[i] = a**7.0
    elif which == 7:
        y[i] = a**16.0
    elif which == 8:
        y[i] = a**-1.0
    elif which == 9:
        y[i] = a**-2.0
    elif which == 10:
        y[i] = a**-3.0
    elif which == 11:
        y[i] = a**-8.0
    elif which == 12:
        y[i] = a**0.5
    elif which == 13:
        y[i] = a**1.5
    elif which == 14:
        y[i] = a**-0.5
    elif which == 15:
        y[i] = a**2.5
    elif which == 16:
        y[i] = a**-1.5
    elif which == 17:
        y[i] = a**17.0


def arguments(dtype):
    """Numbers of all sizes and signs, with the ends of what ``dtype`` has."""
    info = np.finfo(dtype)
    rng = np.random.default_rng(5)
    size = rng.uniform(np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)), 2000)
    common = rng.uniform(-3.0, 3.0, 2000)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, -info.smallest_subnormal, 1.0, -1.0]
    x = np.concatenate([np.exp2(size) * rng.choice([-1.0, 1.0], 2000), common, ends])
    return x.astype(dtype)


def power(x, y):
    """C's ``pow`` in the widest type there is."""
    wide = np.asarray(x, np.longdouble)
    return np.power(
        np.where(np.isneginf(wide) & ((y == 0.5) | (y == 1.5) | (y == -0.5)), np.inf, wide), np.longdouble(y)
    )


def ulps(got, expected):
    """How many numbers of the type of ``got`` lie between it and ``expected``, rounded; NaN equals NaN alone."""
    expected = expected.astype(got.dtype)
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[got.itemsize]

    def order(v):
        n = v.view(bits).astype(np.longdouble)
        return np.where(n < 0, np.iinfo(bits).min - n, n)

    both = np.isnan(got) & np.isnan(expected)
    return np.where(
        both, 0.0, np.where(np.isnan(got) != np.isnan(expected), np.inf, np.abs(order(got) - order(expected)))
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_powers(dtype):
    x = arguments(dtype)
    y = wp.zeros(len(x), dtype=wp.dtype_from_numpy(dtype))
    for k, exponent in enumerate(EXPONENTS[:MULTIPLIED]):
        wp.launch(raised, dim=len(x), inputs=[x, k, y])
        got = y.numpy()
        with np.errstate(all="ignore"):
            expected = power(x, exponent)
            far = ulps(got, expected)
        at = int(np.argmax(far))
        assert far[at] <= 1, (exponent, x[at], got[at], expected[at])
        assert (np.signbit(got) == np.signbit(expected))[got == 0].all(), exponent


def slope(x, y):
    """The derivative of ``x**y``; 0 where it does not exist."""
    wide = np.asarray(x, np.longdouble)
    at_zero = (wide == 0) & (y < 1.0) | (wide < 0) & (y != round(y))
    return np.where(at_zero | (y == 0.0), 0, y * power(np.where(at_zero, 1, wide), y - 1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients(dtype):
    x = arguments(dtype)
    a = wp.array(x[np.isfinite(x)], requires_grad=True)
    y = wp.zeros(a.shape, dtype=a.dtype, requires_grad=True)
    for k, exponent in enumerate(EXPONENTS):
        with wp.Tape() as tape:
            wp.launch(raised, dim=a.size, inputs=[a, k, y])
        tape.backward(grads={y: wp.ones_like(y)})
        with np.errstate(all="ignore"):
            expected = slope(a.numpy(), exponent)
            factor = np.abs(expected) / (abs(exponent) or 1.0)  # the power that is multiplied by y must be normal
            normal = (factor == 0) | ((factor >= np.finfo(dtype).tiny) & (factor <= np.finfo(dtype).max))
            far = np.where(normal, ulps(a.grad.numpy(), expected), 0)
        at = int(np.argmax(far))
        assert far[at] <= 4, (exponent, a.numpy()[at], a.grad.numpy()[at])
        tape.zero()


@wp.kernel
def chosen(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    a = x[i]
    out[i] = wp.where(a > x.dtype(0.0), a**0.5 + a**1.5 + a**-0.5 + a**2.5 + a**-1.5 + a ** y[i], a)


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.float16])
def test_powers_that_are_not_chosen_send_no_nan(dtype):
    x = wp.array([-1.0, -0.0, 0.0, -2.5, -0.25, -3.0], dtype=dtype, requires_grad=True)
    y = wp.array([2.5, 0.5, -0.5, -1.5, 0.0, 3.0], dtype=dtype, requires_grad=True)
    out = wp.zeros_like(x, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(chosen, dim=6, inputs=[x, y, out])
    tape.backward(grads={out: wp.ones_like(out)})
    np.testing.assert_array_equal(x.grad.numpy(), 1.0)
    np.testing.assert_array_equal(y.grad.numpy(), 0.0)
