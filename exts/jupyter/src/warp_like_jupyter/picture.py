"""Arrays as pictures: which are, their pixels, and PNG, which needs no more than zlib."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

import warp_like as wp

LEAST, MOST = 8, 512
"""Extents of arrays that are shown as pictures, and of the pictures; of larger arrays, pixels are left out."""

NOT_A_NUMBER = (255, 0, 255)
"""The colour of elements that are no finite number."""

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def pixels(a: Any) -> Pixels | None:
    """Return an array's picture as (height, width, 3 or 4) bytes; None if it is none.

    Pictures are arrays of two dimensions, grey from their lowest to their highest number, and arrays with 3 or 4
    numbers a pixel, as vectors or as a third dimension: bytes, or floats from 0 to 1.
    """
    data = np.reshape(a.list(), a.shape) if a.dtype is wp.bfloat16 else a.numpy()
    data = data.astype(np.int8) if data.dtype == np.bool_ else data
    if data.dtype.kind not in "uif" or data.ndim not in (2, 3):
        return None
    colours = data.ndim == 3
    if min(data.shape[:2]) < LEAST or (colours and data.shape[2] not in (3, 4)) or (not colours and a.ndim != 2):
        return None
    data = data[:: -(-data.shape[0] // MOST), :: -(-data.shape[1] // MOST)]
    if data.dtype == np.uint8 and colours:
        return np.ascontiguousarray(data)
    values = data.astype(np.float64)
    finite = np.isfinite(values)
    if not colours:
        values = _stretched(values, finite)
    image = np.round(255 * np.clip(np.where(finite, values, 0.0), 0.0, 1.0)).astype(np.uint8)
    if not colours:
        image = np.repeat(image[:, :, None], 3, axis=2)
        finite = finite[:, :, None]
    wrong = ~finite.all(axis=2)
    image[wrong, :3] = NOT_A_NUMBER
    return image


def _stretched(values: np.ndarray[Any, Any], finite: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values from 0 to 1."""
    if not finite.any():
        return values
    low, high = values[finite].min(), values[finite].max()
    return (values - low) / (high - low) if high > low else np.where(finite, 0.5, values)


def png(image: Pixels) -> bytes:
    """Return a picture in the format PNG (https://www.w3.org/TR/png-3/): true colour, 8 bits, one block of data."""
    height, width, channels = image.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each line starts with its filter, 0 for none
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6 if channels == 4 else 2, 0, 0, 0)
    blocks = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_block(name, data) for name, data in blocks)


def _block(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_url(image: Pixels) -> str:
    """Return a picture as a URL that holds it."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()
