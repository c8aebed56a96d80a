"""DLPack: capsules and objects, of either version, in and out."""

from __future__ import annotations

import sys
from typing import Any

from warp_like.ir import types as ir

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}

SCALARS: dict[tuple[int, int, int], ir.Scalar] = {(_CODES[t.kind], t.bits, 1): t for t in ir.SCALARS}
"""The scalar type of a DLPack dtype (code, bits, lanes)."""


def is_jax(obj: Any) -> bool:
    """Return whether ``obj`` is a JAX array, whose immutability DLPack does not tell."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(obj, jax.Array)


def capsule_of(obj: Any, kind: str) -> Any:
    """Return a DLPack capsule of ``obj``, versioned where it offers that: only then does it say that it is read-only."""
    try:
        return obj.__dlpack__(max_version=(1, 0))
    except TypeError:
        return obj.__dlpack__()
    except BufferError as e:
        raise ValueError(f"the {kind} can't be shared: {e}") from e


def from_dlpack(source: Any, dtype: Any = None, hint: Any = None) -> Any:
    """Return an array over the memory of ``source``: a DLPack capsule, which is consumed, or an object that makes one.

    Args:
        source: The capsule or object.
        dtype: The element type; trailing dimensions become the components of a vec or mat.
        hint: Unused; kept for programs written for Warp.
    """
    from warp_like import _native
    from warp_like.interop import view
    from warp_like.runtime.memory import element_type

    element = None if dtype is None else element_type(dtype)
    if type(source).__name__ == "PyCapsule":
        return view.over(view.from_info(_native.dlpack_import(source), "DLPack tensor"), element)
    if not hasattr(source, "__dlpack__"):
        raise TypeError(f"expected a DLPack capsule or an object with __dlpack__, got {type(source).__name__}")
    return view.over(view.describe(source), element)


def to_dlpack(a: Any) -> Any:
    """Return what other libraries' ``from_dlpack`` take: the array itself, which makes its capsules on demand.

    It serves consumers that want an object (NumPy, JAX) as well as those that also take capsules (PyTorch, Paddle).
    """
    from warp_like.runtime.array import array

    if not isinstance(a, array):
        raise TypeError(f"to_dlpack() needs a warp_like array, got {type(a).__name__}")
    return a
