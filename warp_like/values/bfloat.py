"""Conversions between float32 and the bits of bfloat16, which neither ``struct`` nor NumPy knows."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

_LARGEST = 3.3895313892515355e38


def encode(value: float) -> int:
    """Return the bits of the bfloat16 nearest to ``value``, ties to even.

    Raises:
        OverflowError: ``value`` is finite and lies outside the range.
    """
    if math.isnan(value):
        return 0x7FC0
    if math.isfinite(value) and abs(value) >= _LARGEST * (1 + 2.0**-9):
        raise OverflowError(f"{value!r} does not fit bfloat16")
    bits = struct.unpack("<I", struct.pack("<f", max(min(value, math.inf), -math.inf)))[0]
    return int(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def decode(bits: int) -> float:
    """Return the number that ``bits`` stand for."""
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def round_to(value: float) -> float:
    """Return the bfloat16 nearest to ``value``."""
    return decode(encode(value))


def encode_array(values: Any) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Return the bits of an array of numbers; what is too large becomes infinite."""
    floats = np.ascontiguousarray(values, dtype=np.float32)
    bits = floats.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(floats), np.uint16(0x7FC0), rounded)


def decode_array(bits: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the numbers of an array of bits."""
    return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << 16).view(np.float32)
