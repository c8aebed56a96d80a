"""Kernels that the tests make operators of, in PyTorch and in Paddle."""

import warp_like as wp

f64 = wp.float64
MATRIX = [0.5, -1.0, 2.0, 0.0, 1.0, 3.0, 1.5, 0.25, -2.0]


@wp.kernel
def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def wave(x: wp.array(dtype=f64), s: f64, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * s


@wp.kernel
def both(x: wp.array(dtype=f64), s: f64, y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i] * s
    z[i] = y[i] * y[i]


@wp.kernel
def weighted(x: wp.array2d[f64], w: wp.array(dtype=f64), total: wp.array(dtype=f64)):
    i, j = wp.tid()
    wp.atomic_add(total, 0, x[i, j] * w[j] * w[j])


@wp.kernel
def square_here(x: wp.array(dtype=f64)):
    i = wp.tid()
    x[i] = x[i] * x[i]


def two_steps(x: wp.array(dtype=f64), s: f64, y: wp.array(dtype=f64)):
    between = wp.zeros_like(x, requires_grad=True)
    wp.launch(square, x.shape[0], [x], [between])
    wp.launch(wave, x.shape[0], [between, s], [y])
