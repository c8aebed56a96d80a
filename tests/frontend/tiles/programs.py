"""Kernels on tiles, each with what it computes for a block, in NumPy; the last block reaches beyond the arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

import warp_like as wp

f64 = wp.float64
R, C, BLOCKS, ROWS = 3, 5, 3, 8
SHAPE = (ROWS, C)
A = wp.array2d(dtype=f64)
N = wp.constant(R)

PROGRAMS: dict[str, tuple[Any, Callable[..., Any]]] = {}


def program(reference: Callable[..., Any]) -> Callable[[Any], Any]:
    """Note a kernel, and what it computes of the tiles of ``a`` and ``b``."""

    def note(kernel: Any) -> Any:
        PROGRAMS[kernel.key] = kernel, reference
        return kernel

    return note


def blocks(x: np.ndarray) -> np.ndarray:
    """The tiles of an array, with zeros beyond its end."""
    whole = np.zeros((BLOCKS * R, x.shape[1]))
    whole[: len(x)] = x
    return whole.reshape(BLOCKS, R, x.shape[1])


def expected(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What program ``name`` stores."""
    reference = PROGRAMS[name][1]
    found = np.stack([np.broadcast_to(reference(x, y), (R, C)) for x, y in zip(blocks(a), blocks(b), strict=True)])
    return found.reshape(-1, C)[:ROWS]


def square(x: np.ndarray) -> np.ndarray:
    """A positive definite matrix made of a tile."""
    return x @ x.T + 4.0 * np.eye(R)


def lower_part(x: np.ndarray) -> np.ndarray:
    return np.tril(square(x))


def padded(x: np.ndarray) -> np.ndarray:
    made = np.zeros((R, C))
    made[: x.shape[0], : x.shape[1]] = x
    return made


# --- memory and operators ---


@program(lambda a, b: (2.0 * a + b) / 4.0 - a * b - (-b))
@wp.kernel
def operators(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0), storage="shared")
    wp.tile_store(out, (f64(2.0) * x + y) / f64(4.0) - x * y - (-y), offset=(i * R, 0))


@program(lambda a, b: 1.0 / (a * a + 2.0) + a / (b * b + 1.0))
@wp.kernel
def quotients(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    two = wp.tile_full(shape=(R, C), value=2.0, dtype=f64)
    one = wp.tile_ones(shape=(R, C), dtype=f64)
    wp.tile_store(out, f64(1.0) / (x * x + two) + x / (y * y + one), offset=(i * R, 0))


@program(lambda a, b: np.vstack([a[1:] * 3.0, np.zeros((1, C))]))
@wp.kernel
def beyond_the_edge(a: A, b: A, out: A):
    """Each block reads a row further down as well, and columns that are not there."""
    i = wp.tid()
    x = wp.tile_load(a, shape=(R - 1, C + 2), offset=(i * R + 1, 0))
    wide = wp.tile_zeros(shape=(R, C + 2), dtype=f64)
    wp.tile_assign(wide, x * f64(3.0))
    wp.tile_store(out, wide, offset=(i * R, 0))


@program(lambda a, b: a[::-1] + 2.0 * a)
@wp.kernel
def through_indices(a: A, b: A, out: A):
    i = wp.tid()
    down = wp.tile_arange(N - 1, -1, -1, dtype=int)
    x = wp.tile_load_indexed(a, down, shape=(R, C), offset=(i * R, 0), axis=0)
    y = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    up = wp.tile_arange(0, C, dtype=int)
    wp.tile_store_indexed(out, up, x, offset=(i * R, 0), axis=1)
    wp.tile_atomic_add(out, y * f64(0.5), offset=(i * R, 0))
    wp.tile_atomic_add_indexed(out, up, y * f64(1.5), offset=(i * R, 0), axis=1)


# --- parts ---


@program(lambda a, b: np.vstack([a[1], a[0] + b[2], np.r_[a[2, 1:3], 7.0, b[0, ::-2][:2]]]))
@wp.kernel
def rows_and_slices(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    t = wp.tile_zeros(shape=(R, C), dtype=f64)
    t[0] = x[1]
    row = t[1]
    row += x[0]
    row += y[-1]
    t[2, 0:2] = x[2, 1:3]
    t[N - 1, 2] = f64(7.0)
    t[2, 3:] = y[0, ::-2][0:2]
    wp.tile_store(out, t, offset=(i * R, 0))


def _through_views(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    t = a.copy()
    t.T[1:4, 2] = b[0, :3]
    t.reshape(R * C)[R * C - 1] += 1.0
    t[1, 1:5].reshape(2, 2)[:] *= 2.0
    return t


@program(_through_views)
@wp.kernel
def through_views(a: A, b: A, out: A):
    i = wp.tid()
    t = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    turned = wp.tile_transpose(t)
    part = wp.tile_view(turned, offset=(1, 2), shape=(3, 1))
    wp.tile_assign(wp.tile_squeeze(part, axis=1), wp.tile_view(y, offset=(0, slice(0, 3))))
    line = wp.tile_reshape(t, shape=(-1,))
    line[R * C - 1] += f64(1.0)
    quad = wp.tile_reshape(wp.tile_view(t, offset=(1, 1), shape=(4,)), shape=(2, 2))
    quad *= f64(2.0)
    wp.tile_store(out, t, offset=(i * R, 0))


@program(lambda a, b: a + 2.0 * a[1] + b[:, :1] * np.ones((R, C)))
@wp.kernel
def broadcasts_and_copies(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    first = wp.tile_load(b, shape=(R, 1), offset=(i * R, 0))
    copy = x
    copy[0, 0] = f64(100.0)
    copy *= f64(3.0)
    twice = x[1] + x[1]
    wide = wp.tile_broadcast(twice, shape=(R, C)) + wp.tile_broadcast(first, shape=(R, C))
    wp.tile_store(out, x + wide, offset=(i * R, 0))


@program(lambda a, b: a[[2, 0, 2]] * b)
@wp.kernel
def gathers(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    chosen = wp.tile_zeros(shape=3, dtype=int)
    chosen[0] = 2
    chosen[2] = -1
    wp.tile_store(out, x[chosen, :] * y, offset=(i * R, 0))


# --- control flow and functions ---


@wp.func
def double_in_place(t: wp.tile[f64, R, C], by: f64):
    t *= by
    row = t[0]
    row += t[1]


@wp.func
def total(t: Any):
    return wp.tile_sum(t)[0]


@program(lambda a, b: np.vstack([2.0 * a[0] + 2.0 * a[1], 2.0 * a[1:]]) + a.sum() + (a * b).sum())
@wp.kernel
def functions(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    t = x
    double_in_place(t, f64(2.0))
    t += wp.tile_full(shape=(R, C), value=total(x) + total(x * y))
    wp.tile_store(out, t, offset=(i * R, 0))


def _in_loops(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    t, s = a.copy(), b.copy()
    for k in range(R):
        if t[k, 0] > 0.0:
            t[k] += s[0]
        else:
            s = s * t
        t, s = s, t * 0.5
    return t + s


@program(_in_loops)
@wp.kernel
def in_loops(a: A, b: A, out: A):
    i = wp.tid()
    t = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    s = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    for k in range(R):
        if t[k, 0] > f64(0.0):
            row = t[k]
            row += s[0]
        else:
            s = s * t
        t, s = s, t * f64(0.5)
    wp.tile_store(out, t + s, offset=(i * R, 0))


@program(lambda a, b: a + 3.0 * b)
@wp.kernel
def views_change_in_loops(a: A, b: A, out: A):
    i = wp.tid()
    t = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    line = wp.tile_reshape(t, shape=(R * C,))
    for k in range(5):
        if k == 3:
            break
        line += wp.tile_reshape(y, shape=(R * C,))
    wp.tile_store(out, t, offset=(i * R, 0))


@program(lambda a, b: a * a * b * 2.0 + a * b + b)
@wp.kernel
def used_again_after_a_change(a: A, b: A, out: A):
    i = wp.tid()
    t = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    p = t * y
    t *= p
    q = t + t
    t = y
    wp.tile_store(out, q + p + t, offset=(i * R, 0))


# --- maps, reductions, scans, sorting ---


@wp.func
def bent(x: f64, y: f64, by: f64):
    return wp.sin(x) * y + by


@program(lambda a, b: np.where(a > 0.0, np.sin(a) * b + 0.5, np.tanh(b)))
@wp.kernel
def maps(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    positive = wp.tile_map(wp.gt, x, 0.0)
    t = wp.tile_where(positive, wp.tile_map(bent, x, y, 0.5), wp.tile_map(wp.tanh, y))
    wp.tile_store(out, t, offset=(i * R, 0))


@program(
    lambda a, b: a.sum(axis=0) + a.sum(axis=1)[:, None] * b.max() + a.min() + np.prod(b + 2.0, axis=0) + (a * b).sum()
)
@wp.kernel
def reductions(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    t = wp.tile_broadcast(wp.tile_sum(x, axis=0), shape=(R, C))
    by_row = wp.tile_sum(x, axis=1) * wp.tile_max(y)[0]
    t = t + wp.tile_broadcast(wp.tile_reshape(by_row, shape=(R, 1)), shape=(R, C))
    shifted = y + wp.tile_full(shape=(R, C), value=f64(2.0))
    t = t + wp.tile_broadcast(wp.tile_reduce(wp.mul, shifted, axis=0), shape=(R, C))
    rest = wp.tile_min(x) + wp.tile_dot(x, y)
    wp.tile_store(out, t + wp.tile_broadcast(rest, shape=(R, C)), offset=(i * R, 0))


def _scanned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    sums = np.cumsum(a.ravel())
    highest, lowest = np.maximum.accumulate(b.ravel()), np.minimum.accumulate(b.ravel())
    return (sums + 2.0 * (sums - a.ravel()) + highest * lowest).reshape(R, C)


@program(_scanned)
@wp.kernel
def scans(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    sums = wp.tile_scan_inclusive(x) + f64(2.0) * wp.tile_scan_exclusive(x)
    extremes = wp.tile_scan_max_inclusive(y) * wp.tile_scan_min_inclusive(y)
    wp.tile_store(out, sums + extremes, offset=(i * R, 0))


def _sorted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    order = np.argsort(a.ravel(), kind="stable")
    return (a.ravel()[order] * 2.0 + b.ravel()[order]).reshape(R, C) + np.argmin(a) + 10.0 * np.argmax(b)


@program(_sorted)
@wp.kernel
def sorts(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    places = f64(wp.tile_argmin(x)[0]) + f64(10.0) * f64(wp.tile_argmax(y)[0])
    wp.tile_sort(x, y)
    wp.tile_store(out, x * f64(2.0) + y + wp.tile_full(shape=(R, C), value=places), offset=(i * R, 0))


# --- linear algebra ---


@program(lambda a, b: padded(2.0 * (a @ b.T) @ a[:, :R] + 3.0 * a[:, :R].T @ b[:, :R] - 0.5 * np.eye(R)))
@wp.kernel
def products(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    head = wp.tile_view(x, offset=(0, 0), shape=(R, R))
    t = wp.tile_matmul(wp.tile_matmul(x, wp.tile_transpose(y)), head, alpha=2.0)
    wp.tile_matmul(wp.tile_transpose(head), y[:, 0:R], t, alpha=3.0)
    one = wp.tile_diag_add(wp.tile_zeros(shape=(R, R), dtype=f64), wp.tile_full(shape=R, value=f64(0.5)))
    wp.tile_store(out, t - one, offset=(i * R, 0))


@program(lambda a, b: padded(0.25 * a @ b.T + 3.0 * np.ones((R, R)) * a[0, 0]))
@wp.kernel
def product_updates(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    t = wp.tile_full(shape=(R, R), value=x[0, 0])
    wp.tile_matmul_transpose_update(x, y, t, alpha=0.25, beta=3.0)
    wp.tile_store(out, t, offset=(i * R, 0))


@program(
    lambda a, b: (
        np.linalg.solve(square(a), b) + padded(np.linalg.cholesky(square(a)) + 2 * np.linalg.cholesky(square(b)).T)
    )
)
@wp.kernel
def factors(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    four = wp.tile_full(shape=R, value=f64(4.0))
    lower = wp.tile_cholesky(wp.tile_diag_add(wp.tile_matmul(x, wp.tile_transpose(x)), four))
    upper = wp.tile_cholesky(wp.tile_diag_add(wp.tile_matmul(y, wp.tile_transpose(y)), four), fill_mode="upper")
    t = wp.tile_cholesky_solve(lower, y)
    head = wp.tile_view(t, offset=(0, 0), shape=(R, R))
    head += lower
    head += f64(2.0) * upper
    wp.tile_store(out, t, offset=(i * R, 0))


def _solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lower, upper = lower_part(a), lower_part(a).T
    x = scipy.linalg.solve_triangular(lower, b, lower=True) + scipy.linalg.solve_triangular(upper, b)
    return x + (np.linalg.solve(upper.T @ upper, b[:, 0]))[:, None]


@program(_solved)
@wp.kernel
def triangular_solves(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    m = wp.tile_diag_add(wp.tile_matmul(x, wp.tile_transpose(x)), wp.tile_full(shape=R, value=f64(4.0)))
    turned = wp.tile_transpose(m)
    t = wp.tile_lower_solve(m, y) + wp.tile_upper_solve(turned, y)
    column = y[:, 0]
    column_solved = wp.tile_cholesky_solve(turned, column, fill_mode="upper")
    t = t + wp.tile_broadcast(wp.tile_reshape(column_solved, shape=(R, 1)), shape=(R, C))
    wp.tile_store(out, t, offset=(i * R, 0))


def _transformed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    z = np.fft.fft(a + 1j * b, axis=1)
    back = np.fft.ifft(a - 1j * b, axis=1) * C
    return z.real + 2.0 * z.imag + back.real * back.imag


@wp.func
def mixed(z: wp.vec2d, back: wp.vec2d):
    return z[0] + f64(2.0) * z[1] + back[0] * back[1]


@wp.func
def complex_of(x: f64, y: f64):
    return wp.vec2d(x, y)


@program(_transformed)
@wp.kernel
def transforms(a: A, b: A, out: A):
    i = wp.tid()
    x = wp.tile_load(a, shape=(R, C), offset=(i * R, 0))
    y = wp.tile_load(b, shape=(R, C), offset=(i * R, 0))
    z = wp.tile_map(complex_of, x, y)
    back = wp.tile_map(complex_of, x, -y)
    wp.tile_fft(z)
    wp.tile_ifft(back)
    wp.tile_store(out, wp.tile_map(mixed, z, back), offset=(i * R, 0))
