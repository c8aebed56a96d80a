"""The host class of each IR type, made when it is first asked for.

The classes need each other: a row of a matrix is a vector, and a vector times a matrix is another vector. So their
files ask here, and ``families.py``, which imports all of them, registers how they are made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warp_like.ir import types as ir
from warp_like.values.dtypes import SCALAR_CLASSES

STRUCT_CLASSES: dict[ir.Struct, Any] = {}
"""The classes that ``wp.struct`` has made."""

_makers: dict[type[ir.Type], Callable[[Any], Any]] = {ir.Scalar: SCALAR_CLASSES.__getitem__}
_made: dict[ir.Type, Any] = {}


def register(kind: type[ir.Type], make: Callable[[Any], Any]) -> None:
    """Let ``make(t)`` make the classes of types ``t`` of one kind; each is made once."""
    _makers[kind] = make


@functools.cache
def class_with_shape(shape: tuple[int, ...], scalar: ir.Scalar) -> Any:
    """Return the class of vectors of ``shape`` ``(n,)``, or of matrices of ``(rows, columns)``."""
    first, *columns = shape
    return class_of(ir.Mat(first, columns[0], scalar) if columns else ir.Vec(first, scalar))


def class_of(t: ir.Type) -> Any:
    """Return the host class of a type that is no array; of equal structs the last one."""
    found = _made.get(t)
    if found is None and isinstance(t, ir.Struct):
        found = STRUCT_CLASSES.get(t)
    elif found is None and type(t) in _makers:
        found = _made.setdefault(t, _makers[type(t)](t))
    if found is None:
        raise TypeError(f"{t} has no host class")
    return found
