"""The floats in the elements of an array, whatever they are a part of, as arrays of scalars over the same memory.

For each *field* of floats in the elements there is an array of scalars, with dimensions for the components of vectors
and matrices. An array that is not of structs is its only field, named "". Integers are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from warp_like.ir import types as ir
from warp_like.ir.layout import field_offsets
from warp_like.runtime.arrays.array import array, bind_foreign
from warp_like.runtime.memory.allocation import element_type
from warp_like.values.queries import type_repr


class Field(NamedTuple):
    """Floats in the elements of an array: their dotted name, their offset in bytes, and their type."""

    name: str
    offset: int
    type: ir.Type

    def of(self, a: array) -> array:
        """Return the scalars of the field in all elements of an array that has some."""
        if isinstance(a.element.type, ir.Scalar):
            return a
        element = element_type(self.type)
        values = bind_foreign(element, a.ptr + self.offset, a.shape, a.strides, a.readonly, a.device, a)
        return values.view(self.scalar)

    @property
    def scalar(self) -> Any:
        """The dtype of the floats."""
        return element_type(ir.scalar_of(self.type)).host

    @property
    def accumulator(self) -> Any:
        """The dtype of what is kept from step to step: the field's own, with float32 in place of shorter floats."""
        scalar = ir.scalar_of(self.type)
        assert scalar is not None
        return element_type(ir.with_scalar(self.type, ir.float32) if scalar.bits < 32 else self.type).host


def of_array(a: array, what: str = "the array") -> list[Field]:
    """Return the fields of floats in the elements of ``a``, which errors call ``what``.

    Raises:
        TypeError: There are none, or a field is an array.
    """
    found = list(_fields(a.element.type, "", 0, what))
    if not found:
        dtype = type_repr(a.dtype)
        raise TypeError(f"{what} has dtype {dtype}; it takes floats, vectors or matrices of them, and structs of these")
    return found


def _fields(t: ir.Type, name: str, offset: int, what: str) -> Iterator[Field]:
    if isinstance(t, ir.Struct):
        for (part, inner), at in zip(t.fields, field_offsets(t), strict=True):
            yield from _fields(inner, f"{name}.{part}" if name else part, offset + at, what)
        return
    scalar = ir.scalar_of(t)
    if scalar is None:
        raise TypeError(f"{what}: the field `{name}` of its structs is an array; give that array by itself")
    if scalar.is_float:
        yield Field(name, offset, t)


def scalars_of(a: array) -> array:
    """Return the scalars of an array of scalars, vectors or matrices."""
    return Field("", 0, a.element.type).of(a)


def part_of(a: array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> array:
    """Return elements of ``a`` from ``offset`` bytes on, as an array of other dimensions; strides are in bytes."""
    return bind_foreign(a.element, a.ptr + offset, shape, strides, a.readonly, a.device, a)
