"""What users give to optimizers: parameters and gradients, checked."""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.runtime.arrays import float_fields


def parameters(params: Any, name: str) -> list[wp.array]:
    """Return the arrays that ``params`` lists, as arrays of this framework.

    Raises:
        TypeError: It is no list, or an element is no array of floats.
        ValueError: An array can't be written, stands there twice, or has elements in one place.
    """
    if not isinstance(params, (list, tuple)):
        raise TypeError(f"{name} takes a list of arrays, got {type(params).__name__}; write [x] for one array x")
    arrays: list[wp.array] = []
    for i, given in enumerate(params):
        what = f"{name} parameter {i}"
        if isinstance(given, wp.indexedarray):
            raise TypeError(f"{what} is an indexed array; give the array that it indexes")
        a = given if isinstance(given, wp.array) else wp.array(given, copy=False)
        float_fields.of_array(a, what)
        if a.readonly:
            raise ValueError(f"{what} is read-only: {a!r}")
        if any(step == 0 and extent > 1 for step, extent in zip(a.strides, a.shape, strict=True)):
            raise ValueError(f"{what} has several elements in one place: {a!r} has strides {a.strides}")
        for j, other in enumerate(arrays):
            if a.size and (other is a or (other.ptr, other.shape, other.strides) == (a.ptr, a.shape, a.strides)):
                raise ValueError(f"{what} is parameter {j} once more")
        arrays.append(a)
    return arrays


def require_like(grad: Any, param: wp.array, name: str, where: str = "") -> wp.array:
    """Return a gradient as an array of this framework.

    Raises:
        TypeError: It has another dtype than the parameter, or is no array.
        ValueError: It has another shape, or lies elsewhere.
    """
    g = grad if isinstance(grad, wp.array) else _shared(grad, param, f"{name} gradient{where}")
    if g.type_code != param.type_code:
        wanted, got = wp.types.type_repr(param.dtype), wp.types.type_repr(g.dtype)
        raise TypeError(f"{name} gradient dtype must match parameter dtype {wanted}, got {got}{where}")
    if g.shape != param.shape:
        raise ValueError(f"{name} gradient shape must match parameter shape {param.shape}, got {g.shape}{where}")
    if g.device is not param.device:
        raise ValueError(f"{name} gradient lies on {g.device}, the parameter on {param.device}{where}")
    return g


def _shared(grad: Any, param: wp.array, what: str) -> wp.array:
    try:
        return wp.array(grad, dtype=param.dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from error


def gradients(given: Any, params: Any, name: str) -> list[Any]:
    """Return a gradient for each parameter: those given, or else their own.

    Raises:
        RuntimeError: There are no parameters, or one has no gradient.
        TypeError: What is given is no list.
        ValueError: It has another length.
    """
    if params is None:
        raise RuntimeError(f"{name} parameters must be set before calling step(), got None")
    if given is None:
        return [_own(p, f"{name} parameter {i}") for i, p in enumerate(params)]
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"{name} step() takes a list of gradients, got {type(given).__name__}")
    if len(given) != len(params):
        raise ValueError(f"{name} has {len(params)} parameters, got {len(given)} gradients")
    return list(given)


def _own(param: Any, what: str) -> Any:
    found = getattr(param, "grad", None)
    if found is None:
        raise RuntimeError(f"{what} has no gradient: make it with requires_grad=True, or give gradients to step()")
    return found
