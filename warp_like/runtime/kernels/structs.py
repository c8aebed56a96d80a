"""Structs as launch arguments: a compiled kernel takes their fields one by one.

Kernels know of structs only while they are compiled. A launch gives each field that is no struct as an argument of its
own, so that arrays in structs are checked, recorded on tapes and differentiated like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from warp_like.ir.types import Array, IndexedArray, Struct, Type, is_differentiable, leaf_fields
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.indexed import indexedarray
from warp_like.runtime.kernels.arguments import array_type, no_array
from warp_like.values import Composite
from warp_like.values.struct import StructInstance

if TYPE_CHECKING:
    from warp_like.runtime.kernels.kernel import Kernel


def split_arguments(kernel: Kernel, given: Sequence[Any]) -> list[Any]:
    """Return the arguments of a launch with structs replaced by their fields.

    Raises:
        TypeError: An argument is not the struct that its parameter takes.
    """
    if not kernel.takes_structs:
        return list(given)
    return [x for i, value in enumerate(given) for x in split_argument(kernel, i, value)]


def split_argument(kernel: Kernel, i: int, value: Any) -> list[Any]:
    """Return the argument at position ``i``, or its fields if it is a struct."""
    t = kernel.declared[i][1]
    if not isinstance(t, Struct):
        return [value]
    leaves = _leaves(kernel, i, t, value)
    return [_given(leaf, x) for (_, leaf), x in zip(leaf_fields(t), leaves, strict=True)]


def split_adjoints(kernel: Kernel, given: Sequence[Any]) -> list[Any]:
    """Return the adjoints of a launch's arguments by field: of a struct, those of its arrays, or None.

    Raises:
        TypeError: The adjoint of a struct is not such a struct.
    """
    if not kernel.takes_structs:
        return list(given)
    found: list[Any] = []
    for i, ((_, t), value) in enumerate(zip(kernel.declared, given, strict=True)):
        if not isinstance(t, Struct):
            found.append(value)
        elif value is None:
            found += [None] * len(leaf_fields(t))
        else:
            found += [x if isinstance(x, array) else None for x in _leaves(kernel, i, t, value)]
    return found


def split_tangents(kernel: Kernel, given: Sequence[Any]) -> list[Any]:
    """Return the tangents of a launch's first arguments by field; None for a field that is not made of floats.

    Raises:
        TypeError: The tangent of a struct is not such a struct.
    """
    found: list[Any] = []
    for i, ((_, t), value) in enumerate(zip(kernel.declared, given, strict=False)):
        if not isinstance(t, Struct):
            found.append(value)
        elif value is None:
            found += [None] * len(leaf_fields(t))
        else:
            fields = zip(leaf_fields(t), _leaves(kernel, i, t, value), strict=True)
            found += [x if is_differentiable(leaf) else None for (_, leaf), x in fields]
    return found


def _leaves(kernel: Kernel, i: int, t: Struct, value: Any) -> list[Any]:
    if isinstance(value, StructInstance) and value._ir_type_ == t:
        return list(value._leaves())
    if value is None and isinstance(t, IndexedArray):
        return [None] * len(t.fields)
    if isinstance(value, indexedarray) and value.ir_type == t:
        return list(value._leaves())
    given = str(value._ir_type_) if isinstance(value, StructInstance) else type(value).__name__
    if value is None:
        given = "None"
    if isinstance(value, StructInstance) and value._ir_type_.name == t.name:
        given = f"a struct {t.name} with other fields"
    if isinstance(value, (array, indexedarray)):
        given = str(array_type(value) if isinstance(value, array) else value.ir_type)
    name = kernel.declared[i][0]
    raise TypeError(f"kernel `{kernel.key}`, argument {i + 1} `{name}`: expected {t}, got {given}")


def _given(t: Type, value: Any) -> Any:
    """A field as it is now, whatever becomes of the struct."""
    if isinstance(t, Array) and value is None:
        return no_array(t)
    return copy(value) if isinstance(value, Composite) else value
