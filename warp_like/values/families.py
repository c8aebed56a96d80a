"""How the classes of vectors, matrices, quaternions and transforms are made, and their short names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from warp_like.ir import types as ir
from warp_like.values.classes import class_of, register
from warp_like.values.composite import bind
from warp_like.values.dtypes import scalar_from_numpy
from warp_like.values.generic import (
    GenericMatrix,
    GenericQuaternion,
    GenericTransformation,
    GenericVector,
    is_generic_scalar,
)
from warp_like.values.mat import Mat
from warp_like.values.quat import Quat
from warp_like.values.transform import Transform
from warp_like.values.vec import Vec, component

SUFFIXES = {
    ir.bool_: "bool",
    ir.int8: "b",
    ir.uint8: "ub",
    ir.int16: "s",
    ir.uint16: "us",
    ir.int32: "i",
    ir.uint32: "ui",
    ir.int64: "l",
    ir.uint64: "ul",
    ir.float16: "h",
    ir.bfloat16: "bf",
    ir.float32: "f",
    ir.float64: "d",
}
"""How the names of vectors and matrices end, by the type of their components."""

MAX_LENGTH = 255
"""Rows and columns each take a byte in the code by which the native extension tells types apart."""


def scalar_type(dtype: Any) -> ir.Scalar | None:
    """Return the IR scalar that ``dtype`` names: a host class, int, float, bool, a NumPy dtype or itself."""
    if isinstance(dtype, ir.Scalar):
        return dtype
    if isinstance(dtype, type):
        own = getattr(dtype, "_ir_type_", None)
        if own is not None:
            return own if isinstance(own, ir.Scalar) else None
        python = {int: ir.int32, float: ir.float32, bool: ir.bool_}.get(dtype)
        if python is not None:
            return python
        if getattr(dtype, "__module__", "") not in ("numpy", "ml_dtypes"):
            return None
    elif not (hasattr(dtype, "itemsize") and hasattr(dtype, "kind")):
        return None
    return scalar_from_numpy(dtype)


def vector(length: Any, dtype: Any) -> Any:
    """Return the class of vectors of ``length`` components of ``dtype``.

    With ``Any`` for the length, or ``Any``, ``wp.Scalar``, ``wp.Int`` or ``wp.Float`` for the dtype, it is no class but
    an annotation that stands for all of them, for generic functions and kernels.

    A vector without components is what an empty slice gives. No array, struct or argument of a launch can hold one.

    Example:
        >>> vec5 = wp.types.vector(length=5, dtype=wp.float64)
        >>> vec5(1.0)
        vec5d([1.0, 1.0, 1.0, 1.0, 1.0])
    """
    n = None if length is Any else _extent(length, "the length of a vector", 0)
    if n is None or is_generic_scalar(dtype):
        return GenericVector(n, _dtype(dtype, "a vector"))
    return class_of(ir.Vec(n, _require_scalar(dtype, "a vector")))


def matrix(shape: Sequence[Any], dtype: Any) -> Any:
    """Return the class of matrices of ``shape`` (rows, columns) of ``dtype``; generic ones as for ``vector``."""
    if not isinstance(shape, Sequence) or len(shape) != 2:
        raise ValueError(f"the shape of a matrix is a pair (rows, columns), got {shape!r}")
    rows, cols = (None if n is Any else _extent(n, "a dimension of a matrix") for n in shape)
    if rows is None or cols is None or is_generic_scalar(dtype):
        return GenericMatrix((rows, cols), _dtype(dtype, "a matrix"))
    return class_of(ir.Mat(rows, cols, _require_scalar(dtype, "a matrix")))


def quaternion(dtype: Any = ir.float32) -> Any:
    """Return the class of quaternions of ``dtype``, a float type, or with a generic dtype an annotation for all."""
    if is_generic_scalar(dtype):
        return GenericQuaternion(dtype)
    return class_of(ir.Quat(_require_float(dtype, "a quaternion")))


def transformation(dtype: Any = ir.float32) -> Any:
    """Return the class of rigid transformations of ``dtype``, or with a generic dtype an annotation for all."""
    if is_generic_scalar(dtype):
        return GenericTransformation(dtype)
    return class_of(ir.Transform(_require_float(dtype, "a transform")))


def transform_expand(t: Any) -> Any:
    """Return the ``wp.transform`` of a flat sequence of seven numbers: position, then quaternion ``x, y, z, w``.

    Example:
        >>> wp.transform_expand([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]).p
        vec3f([1.0, 2.0, 3.0])
    """
    return class_of(ir.Transform(ir.float32))(*t)


def _vector(t: ir.Vec) -> type:
    names = {name: component(i, name) for i, name in enumerate("xyzw"[: t.length])}
    return bind(Vec, f"vec{t.length}{SUFFIXES[t.dtype]}", t, names)


def _matrix(t: ir.Mat) -> type:
    digits = f"{t.rows}{t.cols}" if max(t.rows, t.cols) < 10 else f"{t.rows}x{t.cols}"
    return bind(Mat, f"mat{digits}{SUFFIXES[t.dtype]}", t, {})


def _quaternion(t: ir.Quat) -> type:
    names = {name: component(i, name) for i, name in enumerate("xyzw")}
    return bind(Quat, f"quat{SUFFIXES[t.dtype]}", t, names)


def _transform(t: ir.Transform) -> type:
    return bind(Transform, f"transform{SUFFIXES[t.dtype]}", t, {})


register(ir.Vec, _vector)
register(ir.Mat, _matrix)
register(ir.Quat, _quaternion)
register(ir.Transform, _transform)


def _extent(n: Any, what: str, least: int = 1) -> int:
    try:
        value = operator.index(n)
    except TypeError:
        raise TypeError(f"{what} is an integer, got {n!r}") from None
    if not least <= value <= MAX_LENGTH:
        raise ValueError(f"{what} lies between {least} and {MAX_LENGTH}, got {value}")
    return value


def _dtype(dtype: Any, what: str) -> Any:
    """The dtype of a generic type: a generic one as it is, another as the IR's."""
    return dtype if is_generic_scalar(dtype) else _require_scalar(dtype, what)


def _require_scalar(dtype: Any, what: str) -> ir.Scalar:
    t = scalar_type(dtype)
    if t is None:
        raise TypeError(f"the dtype of {what} is a scalar type such as wp.float32, got {dtype!r}")
    return t


def _require_float(dtype: Any, what: str) -> ir.Scalar:
    t = _require_scalar(dtype, what)
    if not t.is_float:
        raise TypeError(f"the dtype of {what} is a float type, got {t}")
    return t


def _named() -> dict[str, ir.Type]:
    found: dict[str, ir.Type] = {}
    for t, suffix in SUFFIXES.items():
        if suffix in ("bool", "bf"):
            continue
        for n in (2, 3, 4):
            found[f"vec{n}{suffix}"] = ir.Vec(n, t)
            if suffix in ("h", "f", "d"):
                found[f"mat{n}{n}{suffix}"] = ir.Mat(n, n, t)
    for n in (2, 3, 4):
        found[f"vec{n}"] = found[f"vec{n}f"]
        found[f"mat{n}{n}"] = found[f"mat{n}{n}f"]
    for t in (ir.float16, ir.float32, ir.float64):
        found[f"quat{SUFFIXES[t]}"] = ir.Quat(t)
        found[f"transform{SUFFIXES[t]}"] = ir.Transform(t)
        found[f"spatial_vector{SUFFIXES[t]}"] = ir.Vec(6, t)
        found[f"spatial_matrix{SUFFIXES[t]}"] = ir.Mat(6, 6, t)
    for name in ("quat", "transform", "spatial_vector", "spatial_matrix"):
        found[name] = found[f"{name}f"]
    return found


NAMED: dict[str, ir.Type] = _named()
"""What the short names stand for, with suffixes (none means float32): ``vec2`` to ``vec4``, ``mat22`` to ``mat44``,
``quat``, ``transform``, ``spatial_vector`` and ``spatial_matrix``, which are a vector and a matrix of 6. ``class_of``
makes a class when it is first asked for: there are 60, and a program uses a few."""


def __getattr__(name: str) -> Any:
    """Return the class of that name, such as ``vec5d``: by it classes are pickled."""
    import re  # for classes that are unpickled

    scalars = {suffix: t for t, suffix in SUFFIXES.items()}
    kinds = r"vec(\d+)|mat(\d+)x(\d+)|mat(\d)(\d)|(quat)|transform"
    found = re.fullmatch(f"(?:{kinds})({'|'.join(scalars)})", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    length, *extents, quaternion, suffix = found.groups()
    if length:
        return vector(int(length), scalars[suffix])
    if any(extents):
        return matrix([int(n) for n in extents if n], scalars[suffix])
    return class_of((ir.Quat if quaternion else ir.Transform)(scalars[suffix]))
