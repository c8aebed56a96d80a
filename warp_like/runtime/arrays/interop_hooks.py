"""The interop hooks: functions that make an array of another library's object, and the other way round.

This floor knows no framework. ``warp_like.interop`` registers its functions here when the package is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.values import struct

_as_array: Callable[..., Any] | None = None
_before_write: Callable[[Any], None] | None = None
_is_guarded: Callable[[Any], bool] | None = None

exporters: dict[str, Callable[..., Any]] = {}
"""By library: ``exporter(a, copy, ...)`` gives a view of ``a``, a copy, or whichever is possible (None)."""

readers: dict[str, Callable[[Any], Any]] = {}
"""By library, what makes an array in the host's memory of one of its arrays, which may lie anywhere."""


def register(
    as_array: Callable[..., Any], before_write: Callable[[Any], None], is_guarded: Callable[[Any], bool]
) -> None:
    """Make ``as_array(obj, dtype=None, gradients=False)`` the way foreign objects become arrays.

    ``before_write(owner)`` is told of writes by the host to the memory of ``owner``; launches do that natively.
    ``is_guarded(obj)`` tells whether the library of ``obj`` refuses to write to it in place at this moment.
    """
    global _as_array, _before_write, _is_guarded
    _as_array, _before_write, _is_guarded = as_array, before_write, is_guarded
    struct.array_of = functools.partial(as_array, gradients=True)


def before_write(owner: Any) -> None:
    """Tell the libraries of a tensor, and of tensors over our memory, that the host is about to write there."""
    if _before_write is None:
        return
    if type(owner) is not _native.Buffer:
        _before_write(owner)
    for weak in (owner.watchers or ()) if type(owner) is _native.Buffer else ():
        tensor = weak()
        if tensor is not None:
            _before_write(tensor)


def is_guarded(obj: Any) -> bool:
    """Return whether the library of ``obj`` refuses to write to it in place, for the sake of its gradient."""
    return _is_guarded is not None and hasattr(obj, "is_leaf") and _is_guarded(obj)  # `interop` loads for tensors alone


def as_array(obj: Any, dtype: Any = None, gradients: bool = False) -> Any:
    """Return an array over the memory of ``obj``; an ``array`` as it is.

    Args:
        obj: An array of any library.
        dtype: The element type wanted, where it is known; trailing dimensions become the components of a vec
            or mat.
        gradients: Share the gradient of a tensor that requires one.

    Raises:
        TypeError: ``obj`` is no array, or its dtype is another.
        ValueError: Its memory can't be used as it is; the message says why.
    """
    if not gradients or isinstance(obj, np.ndarray):
        made = _native.share(obj, dtype)
        if made is not None:
            return made
    if _as_array is None:
        raise TypeError(f"{type(obj).__name__} is not a warp_like array, and no converter is registered")
    return _as_array(obj, dtype, gradients)
