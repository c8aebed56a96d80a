"""Kernels that the tests of JAX calls share, each with what it computes in NumPy."""

import numpy as np

import warp_like as wp


@wp.kernel
def scale(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i]


@wp.kernel
def stencil(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    left = x[wp.max(i - 1, 0)]
    right = x[wp.min(i + 1, n - 1)]
    y[i] = left * right + x[i]


def stencil_np(x):
    padded = np.concatenate([x[:1], x, x[-1:]])
    return padded[:-2] * padded[2:] + x


@wp.kernel
def lookup(table: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = table[index[i]] * table[index[i]]


@wp.kernel
def total(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def matmul(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def advance(v: wp.array(dtype=float), x: wp.array(dtype=float), dt: float, old: wp.array(dtype=float)):
    i = wp.tid()
    old[i] = x[i]
    x[i] = x[i] * x[i] + dt * v[i]


@wp.kernel
def rotate(
    m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), w: wp.array(dtype=wp.vec3), n: wp.array(dtype=float)
):
    i = wp.tid()
    w[i] = m[i] * v[i]
    n[i] = wp.length_sq(v[i])
