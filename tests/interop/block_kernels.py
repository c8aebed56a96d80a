"""Kernels whose results depend on the threads of their blocks, each with what it computes in NumPy."""

import numpy as np

import warp_like as wp

f64 = wp.float64


@wp.kernel
def centred(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    t = wp.tile(x[i])
    y[i] = x[i] - wp.tile_sum(t)[0] / f64(wp.block_size())


def centred_np(x, threads):
    return np.concatenate([part - part.mean() for part in blocks_of(x, threads)])


@wp.kernel
def moments(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    third = wp.block_sum(x[i] * x[i] * x[i])
    if wp.block_thread() == 0:
        out[i // 4] = wp.sin(third)


def moments_np(x, threads):
    return np.array([np.sin(np.sum(part**3)) for part in blocks_of(x, threads)])


def blocks_of(x, threads):
    return [x[k : k + threads] for k in range(0, len(x), threads)]
