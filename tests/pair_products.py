"""What products of tiles of bfloat16 are that are summed in pairs, and the instruction that does it, by NumPy and libm.

Written from Intel's Software Developer's Manual ("VDPBF16PS"): the second numbers of two pairs are multiplied and added
first, then the first ones, each by a fused operation that rounds to the nearest; denormal numbers are zero on the way
in and on the way out.
"""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np

_libm = ctypes.CDLL(ctypes.util.find_library("m"))
_libm.fmaf.restype, _libm.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
_fma = np.vectorize(_libm.fmaf, otypes=[np.float32])
TINY = np.float32(2.0**-126)


def flushed(x: np.ndarray) -> np.ndarray:
    """``x`` with zeros of the same sign for denormal numbers."""
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0.0), x), x).astype(np.float32)


def widened(bits: np.ndarray) -> np.ndarray:
    """The float32 that bits of bfloat16 are."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of finite numbers as bfloat16, rounded to the nearest."""
    n = np.asarray(x, np.float32).view(np.uint32)
    return ((n + 0x7FFF + ((n >> 16) & 1)) >> 16).astype(np.uint16)


def dot_of_pairs(total: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One step, of arrays of the same shape whose last axis has both numbers of each pair as bits."""
    with np.errstate(all="ignore"):
        for k in (1, 0):
            total = flushed(_fma(flushed(widened(x[..., k])), flushed(widened(y[..., k])), flushed(total)))
    return total


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``x @ y`` in float32 of bits, summed in pairs; an odd last column and row are paired with zeros."""
    if x.shape[1] % 2:
        x, y = np.pad(x, ((0, 0), (0, 1))), np.pad(y, ((0, 1), (0, 0)))
    shape = (x.shape[0], y.shape[1])
    total = np.zeros(shape, np.float32)
    for p in range(0, x.shape[1], 2):
        left = np.broadcast_to(x[:, None, p : p + 2], (*shape, 2))
        right = np.broadcast_to(y[p : p + 2].T[None], (*shape, 2))
        total = dot_of_pairs(total, left, right)
    return total
