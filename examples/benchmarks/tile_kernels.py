"""The kernels of ``benchmark_tiles.py``, one factory each: warp_like and warp-lang compile the same text."""

from types import ModuleType
from typing import Any

import numpy as np

SIDE = 64
"""The side of the tiles of the large products, and the width of the layers."""
GRADIENTLESS = {"enable_backward": False, "module": "unique"}


def gemm(wp: ModuleType, real: Any, _: int) -> Any:
    """A large product, by square tiles that each block adds up."""

    @wp.kernel(**GRADIENTLESS)
    def tiled_gemm(a: wp.array2d(dtype=real), b: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
        i, j = wp.tid()
        total = wp.tile_zeros(shape=(SIDE, SIDE), dtype=real)
        for k in range(a.shape[1] // SIDE):
            left = wp.tile_load(a, shape=(SIDE, SIDE), offset=(i * SIDE, k * SIDE))
            right = wp.tile_load(b, shape=(SIDE, SIDE), offset=(k * SIDE, j * SIDE))
            wp.tile_matmul(left, right, total)
        wp.tile_store(out, total, offset=(i * SIDE, j * SIDE))

    return tiled_gemm


def gemm_bfloat16(wp: ModuleType, real: Any, _: int) -> Any:
    """A large product of bfloat16, whose sums are float32 until the end. Only warp_like has this ``precision``."""

    @wp.kernel(**GRADIENTLESS)
    def tiled_gemm(a: wp.array2d(dtype=real), b: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
        i, j = wp.tid()
        total = wp.tile_zeros(shape=(SIDE, SIDE), dtype=float)
        for k in range(a.shape[1] // SIDE):
            left = wp.tile_load(a, shape=(SIDE, SIDE), offset=(i * SIDE, k * SIDE))
            right = wp.tile_load(b, shape=(SIDE, SIDE), offset=(k * SIDE, j * SIDE))
            wp.tile_matmul(left, right, total, precision="tensor_cores")
        wp.tile_store(out, wp.tile_astype(total, dtype=real), offset=(i * SIDE, j * SIDE))

    return tiled_gemm


def products(wp: ModuleType, real: Any, side: int) -> Any:
    """Many small products."""

    @wp.kernel(**GRADIENTLESS)
    def small_products(a: wp.array3d(dtype=real), b: wp.array3d(dtype=real), out: wp.array3d(dtype=real)):
        i = wp.tid()
        left = wp.tile_load(a[i], shape=(side, side))
        right = wp.tile_load(b[i], shape=(side, side))
        wp.tile_store(out[i], wp.tile_matmul(left, right))

    return small_products


def row_sum(wp: ModuleType, real: Any, columns: int) -> Any:
    """The sum of each row."""

    @wp.kernel(**GRADIENTLESS)
    def sum_of_row(x: wp.array2d(dtype=real), out: wp.array(dtype=real)):
        i = wp.tid()
        wp.tile_store(out, wp.tile_sum(wp.tile_load(x[i], shape=columns)), offset=i)

    return sum_of_row


def block_sum(wp: ModuleType, real: Any, threads: int) -> Any:
    """The sum of the values that the threads of a block have."""

    @wp.kernel(**GRADIENTLESS)
    def sum_of_threads(x: wp.array2d(dtype=real), out: wp.array(dtype=real)):
        i, j = wp.tid()
        value = x[i, j]
        wp.tile_store(out, wp.tile_sum(wp.tile(value)), offset=i)

    return sum_of_threads


def softmax(wp: ModuleType, real: Any, columns: int) -> Any:
    """Softmax of each row."""

    @wp.kernel(**GRADIENTLESS)
    def softmax_of_row(x: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
        i = wp.tid()
        t = wp.tile_load(x[i], shape=columns)
        top = wp.tile_max(t)
        e = wp.tile_map(wp.exp, t - wp.tile_broadcast(top, shape=(columns,)))
        total = wp.tile_sum(e)
        wp.tile_store(out[i], wp.tile_map(wp.div, e, wp.tile_broadcast(total, shape=(columns,))))

    return softmax_of_row


def layers(wp: ModuleType, real: Any, _: int) -> Any:
    """Three layers with rectifiers, of a block of columns."""

    @wp.func
    def rectified(x: real):
        return wp.max(x, real(0.0))

    @wp.kernel(module="unique")
    def three_layers(
        u: wp.array2d(dtype=real),
        v: wp.array2d(dtype=real),
        w: wp.array2d(dtype=real),
        x: wp.array2d(dtype=real),
        out: wp.array2d(dtype=real),
    ):
        i = wp.tid()
        first = wp.tile_load(u, shape=(SIDE, SIDE))
        second = wp.tile_load(v, shape=(SIDE, SIDE))
        third = wp.tile_load(w, shape=(SIDE, SIDE))
        t = wp.tile_load(x, shape=(SIDE, SIDE), offset=(0, i * SIDE))
        y = wp.tile_map(rectified, wp.tile_matmul(first, t))
        z = wp.tile_map(rectified, wp.tile_matmul(second, y))
        wp.tile_store(out, wp.tile_matmul(third, z), offset=(0, i * SIDE))

    return three_layers


def cholesky(wp: ModuleType, real: Any, side: int) -> Any:
    """The Cholesky factor of each of many matrices."""

    @wp.kernel(**GRADIENTLESS)
    def factors(a: wp.array3d(dtype=real), out: wp.array3d(dtype=real)):
        i = wp.tid()
        wp.tile_store(out[i], wp.tile_cholesky(wp.tile_load(a[i], shape=(side, side))))

    return factors


def solve(wp: ModuleType, real: Any, side: int) -> Any:
    """A Cholesky factor and a solution for each of many matrices."""

    @wp.kernel(**GRADIENTLESS)
    def solutions(a: wp.array3d(dtype=real), y: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
        i = wp.tid()
        factor = wp.tile_cholesky(wp.tile_load(a[i], shape=(side, side)))
        wp.tile_store(out[i], wp.tile_cholesky_solve(factor, wp.tile_load(y[i], shape=side)))

    return solutions


def fft(wp: ModuleType, _: Any, length: int) -> Any:
    """The Fourier transform of each row; an element is a complex number."""
    pair = wp.vec2f

    @wp.kernel(**GRADIENTLESS)
    def transforms(x: wp.array2d(dtype=pair), out: wp.array2d(dtype=pair)):
        i = wp.tid()
        t = wp.tile_load(x, shape=(1, length), offset=(i, 0))
        wp.tile_fft(t)
        wp.tile_store(out, t, offset=(i, 0))

    return transforms


def sort(wp: ModuleType, real: Any, length: int) -> Any:
    """The order of the numbers of each row: a sort of pairs."""

    @wp.kernel(**GRADIENTLESS)
    def orders(x: wp.array2d(dtype=real), out: wp.array2d(dtype=wp.int32)):
        i = wp.tid()
        keys = wp.tile_load(x[i], shape=length)
        values = wp.tile_arange(length, dtype=wp.int32)
        wp.tile_sort(keys, values)
        wp.tile_store(out[i], values)

    return orders


def scan(wp: ModuleType, real: Any, length: int) -> Any:
    """The running sums of each row."""

    @wp.kernel(**GRADIENTLESS)
    def running_sums(x: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
        i = wp.tid()
        wp.tile_store(out[i], wp.tile_scan_inclusive(wp.tile_load(x[i], shape=length)))

    return running_sums


def dtype(wp: ModuleType, array: np.ndarray) -> Any:
    """Return the type of the elements: complex numbers are vectors of two."""
    return wp.vec2f if array.dtype == np.complex64 else getattr(wp, array.dtype.name)
