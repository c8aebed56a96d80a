"""Arrays of any framework as NumPy arrays of the host, and the checks of what is logged."""

from __future__ import annotations

from typing import Any

import numpy as np

import warp_like as wp

Array = np.ndarray[Any, Any]


class LogError(ValueError):
    """What was logged can't be shown; the message names it, what was expected and what was given."""


def host(name: str, what: str, data: Any, kinds: str = "fiu") -> Array:
    """Return a copy of ``data`` on the host. It may be an array of any framework that ``wp.array`` takes.

    Args:
        name: The name under which it is logged, for messages.
        what: Which of the arrays it is, for messages.
        data: The array, or a list of numbers.
        kinds: The kinds of NumPy dtypes that are allowed.

    Raises:
        LogError: It is no array of numbers of these kinds.
    """
    try:
        found = np.array(data if isinstance(data, (list, tuple)) else _numbers(data))
    except (TypeError, ValueError, RuntimeError) as error:
        raise LogError(
            f"{what} of {name!r}: expected an array of numbers, got {type(data).__name__}: {error}"
        ) from error
    if found.dtype.kind not in kinds:
        words = " or ".join({"f": "floats", "i": "integers", "u": "unsigned integers"}[kind] for kind in kinds)
        raise LogError(f"{what} of {name!r}: expected {words}, got the dtype {found.dtype}")
    return found


def _numbers(data: Any) -> Array:
    """The elements of an array; ``numpy()`` would give the bits of bfloat16."""
    a = data if isinstance(data, wp.array) else wp.array(data)
    if getattr(a.dtype, "_wp_scalar_type_", a.dtype) is wp.bfloat16:
        return np.asarray(a.list(), np.float32).reshape(*a.shape, *getattr(a.dtype, "_shape_", ()))
    return np.asarray(a.numpy())


def rows(name: str, what: str, data: Any, *widths: int) -> Array:
    """Return ``data`` as float32 of shape (n, width), where the width is one of ``widths``.

    Raises:
        LogError: It has another shape.
    """
    found = host(name, what, data)
    if found.size == 0 and found.ndim == 1:
        found = found.reshape(0, widths[0])
    if found.ndim != 2 or found.shape[1] not in widths:
        shapes = " or ".join(f"(n, {width})" for width in widths)
        raise LogError(f"{what} of {name!r}: expected the shape {shapes}, got {found.shape}")
    return found.astype(np.float32)


def corners(name: str, what: str, data: Any, width: int, count: int) -> Array:
    """Return indices of ``width`` corners in each row as int32; a flat array is taken by rows.

    Raises:
        LogError: They have another shape, or there are no such points.
    """
    empty = isinstance(data, (list, tuple)) and not data
    found = host(name, what, np.empty((0, width), np.int32) if empty else data, "iu")
    if found.ndim == 1 and found.size % width == 0:
        found = found.reshape(-1, width)
    if found.ndim != 2 or found.shape[1] != width:
        raise LogError(f"{what} of {name!r}: expected the shape (n, {width}) or (n * {width},), got {found.shape}")
    wrong = found[(found < 0) | (found >= count)]
    if wrong.size:
        raise LogError(f"{what} of {name!r}: expected indices from 0 to {count - 1}, got {int(wrong[0])}")
    return found.astype(np.int32)


def per_item(name: str, what: str, data: Any, count: int) -> Array:
    """Return ``count`` floats: those of an array, or one number for all.

    Raises:
        LogError: There are more or fewer.
    """
    found = host(name, what, data if np.ndim(data) or not isinstance(data, (int, float)) else [data])
    if found.shape not in ((1,), (count,)):
        raise LogError(f"{what} of {name!r}: expected one number or the shape ({count},), got {found.shape}")
    return np.broadcast_to(found.astype(np.float32), (count,)).copy()


def colours(name: str, data: Any, count: int, default: tuple[float, float, float]) -> Array:
    """Return ``count`` colours as floats from 0 to 1: one for all, or one for each; bytes are divided by 255.

    Raises:
        LogError: The shape is neither (3,) nor (``count``, 3).
    """
    found = host(name, "colors", default if data is None else data)
    if found.shape not in ((3,), (count, 3)):
        raise LogError(f"colors of {name!r}: expected the shape (3,) or ({count}, 3), got {found.shape}")
    scaled = found / 255.0 if found.dtype == np.uint8 else found
    return np.broadcast_to(np.clip(scaled, 0.0, 1.0).astype(np.float32), (count, 3)).copy()


def pixels(name: str, data: Any) -> Array:
    """Return an image as bytes of shape (height, width, 3): from bytes or from floats from 0 to 1, grey or coloured.

    Raises:
        LogError: The shape is that of no image.
    """
    found = host(name, "image", data)
    if found.ndim == 2:
        found = np.repeat(found[:, :, None], 3, axis=2)
    if found.ndim != 3 or found.shape[2] not in (3, 4) or 0 in found.shape:
        raise LogError(
            f"image of {name!r}: expected the shape (height, width) or (height, width, 3 or 4), got {found.shape}"
        )
    if found.dtype == np.uint8:
        return np.ascontiguousarray(found[:, :, :3])
    if found.dtype.kind != "f":
        raise LogError(f"image of {name!r}: expected bytes (uint8) or floats from 0 to 1, got the dtype {found.dtype}")
    return np.round(255 * np.clip(np.nan_to_num(found[:, :, :3]), 0.0, 1.0)).astype(np.uint8)
