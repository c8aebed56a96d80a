"""What to write instead of an argument that does not fit: the text after ``help:``, for messages alone.

Each text names the argument as the kernel's parameter is named, and works when the caller's name stands there.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.explain import constructor
from warp_like.frontend.function import Function
from warp_like.ir import types as ir
from warp_like.ir.literal import Literal
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.indexed import indexedarray

if TYPE_CHECKING:
    from warp_like.runtime.kernels.arguments import Declared

_LIBRARIES = {"torch": "torch", "jax": "jax", "jaxlib": "jax", "paddle": "paddle", "numpy": "numpy", "cupy": "cupy"}
_PREFIX = {"numpy": "np", "torch": "torch", "jax": "jnp", "cupy": "cupy"}
_SCALARS = {str(t): t for t in ir.SCALARS}


def advice(name: str, expected: ir.Type | None, value: Any) -> str | None:
    """Return what to write instead of ``value`` for parameter ``name``; None where that is not known."""
    if isinstance(expected, ir.Array):
        return _for_array(name, expected, value)
    if isinstance(expected, ir.Scalar):
        return _for_number(name, expected, value)
    return None


def not_a_kernel(taker: str, given: Any) -> TypeError:
    """Return the error for what is given to ``taker`` in place of a kernel."""
    help = None
    if isinstance(given, types.FunctionType):
        shown = f"function `{given.__name__}` ({given.__code__.co_filename}:{given.__code__.co_firstlineno})"
        is_lambda = given.__name__ == "<lambda>"
        help = (
            "write it with def, and @wp.kernel above" if is_lambda else f"put @wp.kernel above `def {given.__name__}`"
        )
    elif isinstance(given, Function):
        shown = f"func `{given.name}`"
        help = f"call it in a kernel: put @wp.kernel above a function that calls {given.name}(...)"
    else:
        shown = f"{type(given).__name__} {given!r}"
    message = f"{taker} takes a kernel made by @wp.kernel, got {shown}"
    return TypeError(message if help is None else f"{message}\n  help: {help}")


def place(kernel: Declared | None, name: str) -> list[str]:
    """Return the lines of a message that show where a kernel declares a parameter, or the struct that has it."""
    if kernel is None:
        return []
    try:
        return [kernel.source.parameter_loc(name.partition(".")[0]).render()]
    except WarpCodegenError:  # loaded without its source, or the file has changed since: the message does without
        return []


def annotation(t: ir.Array) -> str | None:
    """Return how an array type is written as an annotation; None for elements whose name is not known here."""
    named = {ir.float32: "float", ir.int32: "int", ir.bool_: "bool"}
    dtype = named.get(t.dtype, f"wp.{t.dtype}") if isinstance(t.dtype, ir.Scalar) else constructor(t.dtype)
    if dtype is None or not 1 <= t.ndim <= 4:
        return None
    return f"wp.array{'' if t.ndim == 1 else f'{t.ndim}d'}(dtype={dtype})"


def _for_array(name: str, t: ir.Array, value: Any) -> str | None:
    scalar = ir.scalar_of(t.dtype)
    if value is None or scalar is None:
        return None
    if isinstance(value, (list, tuple)):
        return f"{name} = np.array({name}, dtype={_dtype_text('numpy', scalar)}) before the launch"
    if isinstance(value, indexedarray):
        annotated = annotation(ir.Array(t.dtype, value.ndim))
        copied = f"pass a copy, {name}.contiguous()"
        return f"annotate `{name}: {annotated.replace('wp.', 'wp.indexed', 1)}`, or {copied}" if annotated else copied
    if isinstance(value, (bool, int, float, np.generic)):
        return f"np.array([{name}], dtype={_dtype_text('numpy', scalar)}) is an array of one element"
    given = _scalar_of(value)
    if given is None:
        return None
    ndim = len(value.shape) - (0 if isinstance(value, array) else len(ir.element_shape(t.dtype)))
    if given != scalar:
        fits = annotation(ir.Array(ir.with_scalar(t.dtype, given), t.ndim))
        either = f", or annotate `{name}: {fits}`" if fits is not None and ndim == t.ndim else ""
        return f"{name} = {_converted(name, scalar, value)} before the launch{either}"
    packed = ndim < 1 and t.ndim == 1 and value.shape and value.shape[0] % ir.element_count(t.dtype) == 0
    if packed:
        return _reshaped(name, t, ndim, value)
    if ndim == t.ndim or not 1 <= ndim <= 4:
        return None
    fits = annotation(ir.Array(t.dtype, ndim))
    either = f"annotate `{name}: {fits}`" if fits is not None else ""
    return " or ".join(filter(None, (either, f"pass {_reshaped(name, t, ndim, value)}")))


def _scalar_of(value: Any) -> ir.Scalar | None:
    """The type of the numbers in an array of any library."""
    if isinstance(value, array):
        return value.element.scalar
    return _SCALARS.get(str(getattr(value, "dtype", "")).rpartition(".")[2])


def _library(value: Any) -> str | None:
    return _LIBRARIES.get(type(value).__module__.partition(".")[0])


def _dtype_text(library: str, scalar: ir.Scalar) -> str:
    name = "bool_" if scalar.is_bool and library == "numpy" else str(scalar)
    return f'"{scalar}"' if library == "paddle" else f"{_PREFIX[library]}.{name}"


def _converted(name: str, scalar: ir.Scalar, value: Any) -> str:
    """A copy of an array with another dtype."""
    library = _library(value)
    if isinstance(value, array) or library is None:
        dtype = {ir.float32: "float", ir.int32: "int"}.get(scalar, f"wp.{scalar}")
        return f"wp.array({name}.numpy(), dtype={dtype})" if library is None else f"wp.array({name}, dtype={dtype})"
    method = "to" if library == "torch" else "astype"
    return f"{name}.{method}({_dtype_text(library, scalar)})"


def _reshaped(name: str, t: ir.Array, ndim: int, value: Any) -> str:
    """The same elements with as many dimensions as are wanted."""
    if t.ndim == 1:
        inner = ir.element_shape(t.dtype)
        if isinstance(value, array):
            return f"{name}.flatten()"
        if inner:
            return f"{name}.reshape({', '.join(map(str, (-1, *inner)))})"
        return f"{name}.{'flatten' if _library(value) == 'paddle' else 'ravel'}()"
    if t.ndim < ndim:
        return f"a part of it, such as {name}[0]"
    added = (1,) * (t.ndim - ndim)
    shape = ", ".join(map(str, (*added, *value.shape)))
    return f"{name}.reshape(({shape}))"


def _for_number(name: str, t: ir.Scalar, value: Any) -> str | None:
    if isinstance(value, (float, np.floating)) and t.is_int:
        return f"int({name}), or annotate `{name}: float`"
    if isinstance(value, (int, np.integer)) and t.is_int:
        larger = next((x for x in (ir.int64, ir.uint64) if Literal(int(value)).fits(x)), None)
        return f"annotate `{name}: wp.{larger}`" if larger is not None else None
    given = _scalar_of(value) if hasattr(value, "shape") else None
    if given is None or not 1 <= len(value.shape) <= 4:
        return None
    fits = annotation(ir.Array(given, len(value.shape)))
    return f"annotate `{name}: {fits}`, or pass one number: {name}[{', '.join(['0'] * len(value.shape))}]"
