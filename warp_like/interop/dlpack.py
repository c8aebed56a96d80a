"""DLPack: capsules and objects, of either version, in and out."""

from __future__ import annotations

from typing import Any

from warp_like import _native
from warp_like.interop import view
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.allocation import element_type


def from_dlpack(source: Any, dtype: Any = None, hint: Any = None) -> array:
    """Return an array over the memory of ``source``.

    Args:
        source: A DLPack capsule, which is consumed, or an object that makes one.
        dtype: The element type; trailing dimensions become the components of a vec or mat. Integers are read as those
            of the same size that it names, bools as integers of 8 bits.
        hint: Unused; kept for programs written for Warp.

    Example:
        >>> wp.from_dlpack(np.arange(3.0)).list()
        [0.0, 1.0, 2.0]
    """
    element = None if dtype is None else element_type(dtype)
    if type(source).__name__ == "PyCapsule":
        return view.over(view.from_info(_native.dlpack_import(source), "DLPack tensor"), element, reinterpret=True)
    if not hasattr(source, "__dlpack__"):
        raise TypeError(f"expected a DLPack capsule or an object with __dlpack__, got {type(source).__name__}")
    return view.over(view.describe(source), element, reinterpret=True)


def to_dlpack(wp_array: array) -> array:
    """Return what the ``from_dlpack`` of other libraries takes: the array itself, which makes its capsules.

    It serves consumers that want an object (NumPy, JAX) and those that also take capsules (PyTorch, Paddle).

    Example:
        >>> np.from_dlpack(wp.to_dlpack(wp.ones(2)))
        array([1., 1.], dtype=float32)
    """
    if not isinstance(wp_array, array):
        raise TypeError(f"to_dlpack() needs a warp_like array, got {type(wp_array).__name__}")
    return wp_array
