"""Types of kernel parameters as JSON, for files that describe kernels."""

from __future__ import annotations

from typing import Any

from warp_like.ir import types as ir

_SCALARS = {str(t): t for t in ir.SCALARS}


def type_to_json(t: ir.Type) -> Any:
    """Return a type as text or a list: ``"float32"``, ``["vec", 3, "float32"]``, ``["array", "float32", 2]``."""
    match t:
        case ir.Scalar():
            return str(t)
        case ir.Vec(length, dtype):
            return ["vec", length, type_to_json(dtype)]
        case ir.Mat(rows, cols, dtype):
            return ["mat", rows, cols, type_to_json(dtype)]
        case ir.Quat(dtype):
            return ["quat", type_to_json(dtype)]
        case ir.Transform(dtype):
            return ["transform", type_to_json(dtype)]
        case ir.Array(dtype, ndim):
            return ["array", type_to_json(dtype), ndim]
        case ir.IndexedArray():
            return ["indexedarray", type_to_json(t.dtype), t.ndim]
        case ir.Struct(name, fields):
            return ["struct", name, [[field, type_to_json(f)] for field, f in fields]]
    raise TypeError(f"{t} is not the type of a kernel's parameter")


def type_from_json(data: Any) -> ir.Type:
    """Return the type that ``type_to_json`` wrote.

    Raises:
        ValueError: It did not write this.
    """
    match data:
        case str() if data in _SCALARS:
            return _SCALARS[data]
        case ["vec", int(length), dtype]:
            return ir.Vec(length, _scalar(dtype))
        case ["mat", int(rows), int(cols), dtype]:
            return ir.Mat(rows, cols, _scalar(dtype))
        case ["quat", dtype]:
            return ir.Quat(_scalar(dtype))
        case ["transform", dtype]:
            return ir.Transform(_scalar(dtype))
        case ["array", dtype, int(ndim)]:
            return ir.Array(type_from_json(dtype), ndim)
        case ["indexedarray", dtype, int(ndim)]:
            return ir.indexed_array(type_from_json(dtype), ndim)
        case ["struct", str(name), list(fields)]:
            return ir.Struct(name, tuple((str(field), type_from_json(f)) for field, f in fields))
    raise ValueError(f"{data!r} names no type")


def _scalar(data: Any) -> ir.Scalar:
    t = type_from_json(data)
    if not isinstance(t, ir.Scalar):
        raise ValueError(f"{data!r} names no scalar type")
    return t
