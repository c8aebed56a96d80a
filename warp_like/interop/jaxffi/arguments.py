"""Matching what a JAX kernel is called with to the kernel's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warp_like import values
from warp_like.interop.jaxffi.call import constant, jax_dtype
from warp_like.interop.jaxffi.target import jax_module
from warp_like.ir.types import Array, IndexedArray, Scalar, Struct, Type, element_shape, scalar_of
from warp_like.runtime.kernels.arguments import Site, convert, grid_dims, infer_type
from warp_like.values.struct import StructInstance


def is_array(x: Any) -> bool:
    """Return whether ``x`` is an array that JAX takes, traced or not."""
    return isinstance(x, (jax_module().Array, np.ndarray))


def declared_type(site: str, declared: Type | None, value: Any) -> Type:
    """Return the type of a parameter; where it is left open, that of ``value``.

    Raises:
        TypeError: ``value`` is nothing that a kernel takes.
    """
    if declared is not None:
        return declared
    if not is_array(value):
        try:
            return infer_type(value)
        except TypeError as e:
            raise TypeError(f"{site}: {e}") from e
    scalar = _scalar(value)
    if scalar is None:
        raise TypeError(f"{site}: there is no counterpart of dtype {value.dtype}")
    return Array(scalar, value.ndim) if value.ndim else scalar


def split_structs(kernel: str, declared: Sequence[tuple[str, Type | None]], args: Sequence[Any]) -> list[Any]:
    """Return the arguments of a call with structs replaced by their fields.

    Raises:
        TypeError: An argument is not the struct that its parameter takes.
    """
    found: list[Any] = []
    for i, ((name, t), value) in enumerate(zip(declared, args, strict=True)):
        site = f"kernel `{kernel}`, argument {i + 1} `{name}`"
        found += _fields(site, t, value) if isinstance(t, Struct) else [value]
    return found


def _fields(site: str, t: Struct, value: Any) -> list[Any]:
    if isinstance(t, IndexedArray):
        raise TypeError(
            f"{site}: JAX has no indexed arrays; take the array and the indices, and use them in the kernel"
        )
    if isinstance(value, StructInstance) and value._ir_type_ == t:
        value = {name: getattr(value, name) for name, _ in t.fields}
    if not isinstance(value, Mapping):
        raise TypeError(f"{site}: expected {t} or a dict of its fields, got {type(value).__name__}")
    names = [name for name, _ in t.fields]
    if set(value) != set(names):
        raise TypeError(f"{site}: {t} has the fields {', '.join(names)}, got {', '.join(map(str, value))}")
    found: list[Any] = []
    for name, field in t.fields:
        found += _fields(f"{site}, field `{name}`", field, value[name]) if isinstance(field, Struct) else [value[name]]
    return found


def split(site: Site, t: Type, value: Any) -> tuple[Any, bytes | None]:
    """Return an argument as something that JAX passes, or else, where it has no type for it, as bytes.

    Raises:
        TypeError: It has another type.
        ValueError: It is a number that does not fit.
    """
    if isinstance(t, Array):
        if not is_array(value):
            raise site.type_error(f"{type(value).__name__}, and not a JAX or NumPy array")
        return value, None
    if is_array(value):
        return value, None
    number = constant(t, convert(site, value))
    if jax_module().dtypes.canonicalize_dtype(number.dtype) == number.dtype:
        return number, None
    return None, number.tobytes()


def fit(site: Site, t: Type, x: Any) -> Any:
    """Return a traced argument with the dtype and number of dimensions of its parameter.

    Raises:
        TypeError: It has others, or symbols for extents. Only Python's numbers, which JAX calls weakly typed, are
            converted.
    """
    if not all(isinstance(n, int) for n in x.shape):
        raise TypeError(
            f"{site.text}: the shape {x.shape} has symbols; a call is made for a shape that is known, so export the "
            "function once for each"
        )
    element = t.dtype if isinstance(t, Array) else t
    inner = element_shape(element)
    given = _scalar(x)
    if given != scalar_of(element):
        weak = getattr(x, "weak_type", False) and x.ndim == 0
        if given is not None and weak and isinstance(t, Scalar) and (t.is_float or (t.is_int and given.is_int)):
            return x.astype(jax_dtype(t))
        raise site.type_error(_describe(x))
    outer = x.shape[: len(x.shape) - len(inner)]
    if x.shape[len(outer) :] != inner:
        raise site.type_error(f"{_describe(x)}, whose last dimensions are not {inner}")
    if not isinstance(t, Array):
        if outer:
            raise site.type_error(_describe(x))
        return x
    if not outer and t.ndim == 1:
        return x.reshape((1, *inner))  # a single element is an array of one
    if len(outer) != t.ndim:
        raise site.type_error(_describe(x))
    return x


def output_shapes(
    kernel: str,
    outputs: Sequence[tuple[str, Array]],
    output_dims: Any,
    dims: tuple[int, ...],
    first: tuple[int, ...] | None,
) -> list[tuple[int, ...]]:
    """Return the shape of each output.

    Args:
        kernel: The kernel's name.
        outputs: Name and type of each.
        output_dims: An extent, extents for all, or extents by name, with or without those of the elements; where None
            or not named, those of the grid, or of the first array argument if the grid has fewer than the output.
        dims: The extents of the grid.
        first: Those of the first array argument.

    Raises:
        TypeError: An extent is no int.
        ValueError: A name is unknown, or the number of dimensions is not that of the parameter.
    """
    if isinstance(output_dims, dict):
        unknown = set(output_dims) - {name for name, _ in outputs}
        if unknown:
            raise ValueError(f"kernel `{kernel}`: output_dims names `{sorted(unknown)[0]}`, which is no output")
    shapes = []
    for name, t in outputs:
        given = output_dims.get(name) if isinstance(output_dims, dict) else output_dims
        inner = element_shape(t.dtype)
        if given is None:
            shape = first if first is not None and len(first) == t.ndim > len(dims) else dims
        else:
            full = inner and isinstance(given, Sequence) and tuple(given[t.ndim :]) == inner
            shape = grid_dims(kernel, given[: t.ndim] if full else given)
        if len(shape) != t.ndim:
            source = "the grid" if given is None else "output_dims"
            raise ValueError(
                f"kernel `{kernel}`: the output `{name}` is an {t}, and {source} gives it the shape {shape}; "
                "pass output_dims="
            )
        if jax_module().dtypes.canonicalize_dtype(jax_dtype(t.dtype)) != jax_dtype(t.dtype):
            raise TypeError(
                f"kernel `{kernel}`: the output `{name}` is an {t}, and JAX has no 64-bit types unless "
                'jax.config.update("jax_enable_x64", True) is called first'
            )
        shapes.append(shape)
    return shapes


def _scalar(x: Any) -> Scalar | None:
    try:
        return values.scalar_from_numpy(x.dtype)
    except TypeError:  # a dtype of JAX's own, such as that of random keys
        return None


def _describe(x: Any) -> str:
    return f"a JAX array of dtype {x.dtype} and shape {tuple(x.shape)}"
