"""The types of the kernel language by name, factories for vectors and matrices of any length, questions about types."""

from __future__ import annotations

from typing import Any

from warp_like.ir.types import Type
from warp_like.runtime.arrays.array import array, fixedarray
from warp_like.runtime.arrays.indexed import indexedarray
from warp_like.values import NAMED, class_of, matrix, quaternion, queries, transformation, vector
from warp_like.values.dtypes import SCALAR_CLASSES, Float, Int, Scalar
from warp_like.values.queries import *  # noqa: F403

NAMES: dict[str, Type] = {str(t): t for t in SCALAR_CLASSES} | NAMED
"""Every type of scalars, vectors, matrices, quaternions and transforms that has a name."""
NAMES["handle"] = NAMES["uint64"]  # the number by which kernels know an object of the runtime

__all__ = [
    "Any",
    "Float",
    "Int",
    "Scalar",
    "array",
    "fixedarray",
    "indexedarray",
    "matrix",
    "quaternion",
    "transformation",
    "vector",
    *NAMES,
    *queries.__all__,
]


def __getattr__(name: str) -> type:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = class_of(NAMES[name])
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})


array_types = (array, indexedarray)
"""The classes of arrays, for ``isinstance``."""
