"""Kernels whose integers wrap, and what they give by Python's arithmetic modulo 2**bits; for the CPU and for CUDA."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.runtime.kernels.kernel import Kernel

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
THREADS = 70
"""Enough for several vectors of lanes, the last one not full."""

ALL: list[Kernel] = []
"""Every kernel that was made here."""


def kernel(f: Callable[..., None]) -> Kernel:
    made = wp.kernel(f, module="unique")
    ALL.append(made)
    return made


def ends(name: str) -> tuple[int, int]:
    info = np.iinfo(name)
    return int(info.min), int(info.max)


def wrap(x: int, name: str) -> int:
    low, high = ends(name)
    return (x - low) % (high - low + 1) + low


def offsets(name: str) -> list[int]:
    """Numbers that a thread's index is added to: small ones, and some after which the sum wraps."""
    low, high = ends(name)
    return [wrap(c, name) for c in (0, 3, -3, -20, high - 5, low + 7)]


# --- indices --------------------------------------------------------------------------------------------------


def index_kernel(name: str) -> Kernel:
    t = getattr(wp, name)

    @kernel
    def index(a: wp.array(dtype=float), n: t, c: t, out: wp.array2d(dtype=float)):
        i = wp.tid()
        up = t(i) + c
        down = c - t(i)
        by_three = t(i) * t(3) + c
        by_any = t(i) * c
        if up >= t(0) and up < n:
            out[0, i] = a[up]
        if down >= t(0) and down < n:
            out[1, i] = a[down]
        if by_three >= t(0) and by_three < n:
            out[2, i] = a[by_three]
        if by_any >= t(0) and by_any < n:
            out[3, i] = a[by_any]
        wide = wp.int64(up) - wp.int64(c)
        if wide >= wp.int64(0) and wide < wp.int64(n):
            out[4, i] = a[wide]
        r = up % n
        if r >= t(0):
            out[5, i] = a[r]

    return index


def index_cases(name: str) -> Iterator[tuple[list[Any], np.ndarray]]:
    """Arguments of ``index_kernel`` but the result, and the result."""
    n = 40
    a = np.arange(1, n + 1, dtype=np.float32)
    for c in offsets(name):
        expected = np.zeros((6, THREADS), np.float32)
        for i in range(THREADS):
            up = wrap(i + c, name)
            remainder = abs(up) % n * (-1 if up < 0 else 1)
            found = (up, wrap(c - i, name), wrap(3 * i + c, name), wrap(i * c, name), up - wrap(c, name), remainder)
            for k, at in enumerate(wrap(at, "int64") for at in found):
                if 0 <= at < n:
                    expected[k, i] = a[at]
        yield [a, n, c], expected


def gather_kernel(name: str) -> Kernel:
    t = getattr(wp, name)

    @kernel
    def gather(a: wp.array(dtype=float), at: wp.array(dtype=t), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = a[at[i]] + a[at[i] / t(2)]

    return gather


@kernel
def hashed(n: int, a: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    h = i * 1664525 + 1013904223
    q = h / n
    r = h - q * n
    if r >= 0:
        out[i] = a[r]
    else:
        out[i] = -1.0


# --- branches -------------------------------------------------------------------------------------------------


def branch_kernel(name: str) -> Kernel:
    t = getattr(wp, name)

    @kernel
    def branch(c: t, d: t, s: t, out: wp.array2d(dtype=int)):
        i = wp.tid()
        if t(i) + c < d:
            out[0, i] = 1
        else:
            out[0, i] = 2
        if c - t(i) >= d:
            out[1, i] = 1
        else:
            out[1, i] = 2
        if t(i) * t(5) + c <= d - t(i):
            out[2, i] = 1
        if t(i) + c != d:
            out[3, i] = 1
        if not (t(i) * s > d or t(i) == c):
            out[4, i] = 1

    return branch


def branch_cases(name: str) -> Iterator[tuple[list[Any], np.ndarray]]:
    low, high = ends(name)
    for c in offsets(name):
        for d in (0, 5, high, low, high // 2):
            expected = np.zeros((5, THREADS), np.int32)
            s = high // 4
            for i in range(THREADS):
                x = wrap(i, name)
                expected[0, i] = 1 if wrap(i + c, name) < d else 2
                expected[1, i] = 1 if wrap(c - i, name) >= d else 2
                expected[2, i] = wrap(5 * i + c, name) <= wrap(d - i, name)
                expected[3, i] = wrap(i + c, name) != d
                expected[4, i] = not (wrap(i * s, name) > d or x == c)
            yield [c, d, s], expected


# --- loops ----------------------------------------------------------------------------------------------------


def loop_kernel(name: str, step: int | None) -> Kernel:
    """Each thread runs over a range that begins ``i`` before ``lo``, over one backwards, and leaves one early."""
    t = getattr(wp, name)
    by = t(step or 1)

    @kernel
    def loops(lo: t, hi: t, given: t, away: t, x: wp.array(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
        i = wp.tid()
        a = x[i]
        for k in range(lo - away * t(i), hi, by if wp.static(step is not None) else given):
            a = a * x[i] + wp.float64(k % t(7))
        out[0, i] = a
        b = x[i]
        for k in reversed(range(lo, hi, by if wp.static(step is not None) else given)):
            b = b * x[i] + wp.float64(k % t(5))
        out[1, i] = b
        c = x[i]
        for k in range(lo, hi, by if wp.static(step is not None) else given):
            if c > wp.float64(1.0e9):
                break
            c = c * x[i] + wp.float64(k % t(3))
        out[2, i] = c

    return loops


def loop_cases(name: str, step: int) -> Iterator[tuple[int, int]]:
    """Bounds between which a loop has few iterations."""
    low, high = ends(name)
    for n in (0, 1, 4):
        for start in (0, 3, low, high, high - 2, low + 2 * abs(step), high // 2):
            stop = start + n * step + (1 if step > 0 else -1) * (n % 2)
            if low <= start <= high:
                yield start, min(max(stop, low), high)
    width = high - low
    if width // abs(step) <= 12:  # through the whole type
        yield (low, high) if step > 0 else (high, low)
        yield (high, low) if step > 0 else (low, high)


def remainder(k: int, n: int) -> int:
    return abs(k) % n * (-1 if k < 0 else 1)


def loop_expected(name: str, lo: int, hi: int, step: int, i: int, x: float) -> tuple[list[float], float]:
    """The three results of thread ``i``, and the derivative of their sum."""
    results, slope = [], 0.0
    begin = wrap(lo - (i if step > 0 else -i), name)  # where that wraps, it is behind the end
    ranges = (range(begin, hi, step), range(lo, hi, step)[::-1], range(lo, hi, step))
    for number, (over, n) in enumerate(zip(ranges, (7, 5, 3), strict=True)):
        a, da = x, 1.0
        for k in over:
            if number == 2 and a > 1.0e9:
                break
            a, da = a * x + remainder(k, n), da * x + a
        results.append(a)
        slope += da
    return results, slope
