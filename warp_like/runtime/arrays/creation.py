"""Functions that make arrays and copy between them: ``wp.zeros`` and its like, ``wp.clone``, ``wp.copy``."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from warp_like import _native
from warp_like.base.warn import warn
from warp_like.frontend.host import in_kernels
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks, nested
from warp_like.runtime.arrays.array import array, bind_foreign, new_array
from warp_like.runtime.arrays.indexed import indexedarray
from warp_like.runtime.arrays.recording import host_copy
from warp_like.runtime.memory.allocation import ElementType, element_type, normalize_shape
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import constant_of, matrix, vector
from warp_like.values.dtypes import SCALAR_CLASSES
from warp_like.values.families import scalar_type
from warp_like.values.struct import StructInstance

P = ParamSpec("P")


def _called_like(other: Callable[P, array]) -> Callable[[Callable[..., array]], Callable[P, array]]:
    """Give a function that hands its arguments on the signature of the one that takes them."""

    def decorate(function: Callable[..., array]) -> Callable[P, array]:
        function.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        function.__annotations__ = other.__annotations__
        return function

    return decorate


def _create(
    shape: Any,
    dtype: Any,
    device: DeviceLike,
    requires_grad: bool,
    pinned: bool,
    retain_grad: bool,
    extra: Any,
    zero: bool = True,
) -> array:
    """A new array, zeroed unless it is to be filled.

    ``extra`` has its ``strides``, ``ndim``, which only repeats what ``shape`` says, and ``n``, an older ``shape``.
    """
    zero = zero or element_type(dtype).holds  # an address that was never written would be followed
    plain = not (extra or pinned) and recorder.graph is None
    out: array | None = _native.make_array(shape, dtype, get_device(device), zero) if plain else None
    if out is None:
        if shape is None and "n" in extra:
            shape = extra.pop("n")
        strides = extra.pop("strides", None)
        ndim = extra.pop("ndim", None)
        if extra:
            raise TypeError(f"unexpected argument {next(iter(extra))!r}")
        if shape is None:
            raise TypeError("a new array needs a shape")
        if ndim is not None and ndim != len(normalize_shape(shape)):
            warn(f"a new array of shape {normalize_shape(shape)} does not have ndim={ndim}; the shape counts")
        place = get_device(device)
        pinned = pinned and place.is_cpu
        if strides is None:
            out = new_array(element_type(dtype), normalize_shape(shape), place, zero, pinned)
        else:
            out = _strided(element_type(dtype), normalize_shape(shape), strides, place, zero, pinned)
    if requires_grad:
        out.requires_grad = True
    if retain_grad:
        out.retain_grad = True
    return out


def _strided(
    element: ElementType, shape: tuple[int, ...], strides: Any, place: Device, zero: bool, pinned: bool
) -> array:
    """A new array with elements that are ``strides`` bytes apart."""
    steps = tuple(map(operator.index, strides))
    if len(steps) != len(shape) or min(steps, default=0) < 0:
        raise ValueError(f"an array of shape {shape} has as many strides, none of them negative, got {steps}")
    span = sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + element.itemsize if all(shape) else 0
    memory = new_array(element_type(SCALAR_CLASSES[ir.uint8]), (span,), place, zero, pinned)
    return bind_foreign(element, memory.ptr, shape, steps, False, place, memory.owner)


@in_kernels("zeros")
def zeros(
    shape: Any = None,
    dtype: Any = float,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **kwargs: Any,
) -> array:
    """Return a new array of zeros; ``strides=`` says how many bytes its elements are apart in each dimension.

    Example:
        >>> wp.zeros((2, 3), dtype=wp.vec3).numpy().shape
        (2, 3, 3)
    """
    return _create(shape, dtype, device, requires_grad, pinned, retain_grad, kwargs)


def empty(
    shape: Any = None,
    dtype: Any = float,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **kwargs: Any,
) -> array:
    """Return a new array whose contents mean nothing, until something writes to it.

    Example:
        >>> wp.empty((2, 3), dtype=wp.vec3).shape
        (2, 3)
    """
    return _create(shape, dtype, device, requires_grad, pinned, retain_grad, kwargs, zero=False)


def full(
    shape: Any = None,
    value: Any = 0,
    dtype: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **kwargs: Any,
) -> array:
    """Return a new array of ``value``, whose type is the dtype where that is left out.

    Of a sequence or a NumPy array of one or two dimensions that is a vector or matrix type.

    Example:
        >>> wp.full(2, wp.vec2(1.0, 2.0)).numpy()
        array([[1., 2.],
               [1., 2.]], dtype=float32)
    """
    kind = _type_of(value) if dtype is None else dtype
    out = _create(shape, kind, device, requires_grad, pinned, retain_grad, kwargs, zero=False)
    out.fill_(value)
    return out


@_called_like(zeros)
def ones(*args: Any, **kwargs: Any) -> array:
    """Return a new array of ones.

    Example:
        >>> wp.ones(3, dtype=wp.int32).list()
        [1, 1, 1]
    """
    out = empty(*args, **kwargs)
    out.fill_(1)
    return out


def zeros_like(
    src: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array of zeros with the shape and dtype of ``src``, and with a gradient if it has one.

    Example:
        >>> wp.zeros_like(x).shape
        (4,)
    """
    return _create_like(src, device, requires_grad, pinned, retain_grad, zero=True)


def _create_like(
    src: Any,
    device: DeviceLike,
    requires_grad: bool | None,
    pinned: bool | None,
    retain_grad: bool,
    zero: bool,
) -> array:
    like = src if isinstance(src, (array, indexedarray)) else interop_hooks.as_array(src)
    place = like.device if device is None else get_device(device)
    locked = place.is_cpu and (isinstance(like, array) and like.pinned if pinned is None else pinned)
    element = element_type(like.dtype)
    out = new_array(element, like.shape, place, zero or element.holds, locked)
    out.requires_grad = like.requires_grad if requires_grad is None else requires_grad
    out.retain_grad = retain_grad
    return out


def empty_like(
    src: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array with the shape and dtype of ``src`` whose contents mean nothing.

    Example:
        >>> wp.empty_like(x).dtype is x.dtype
        True
    """
    return _create_like(src, device, requires_grad, pinned, retain_grad, zero=False)


def full_like(
    src: Any,
    value: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array with the shape and dtype of ``src``, every element set to ``value``.

    Example:
        >>> wp.full_like(x, 7.0).list()
        [7.0, 7.0, 7.0, 7.0]
    """
    out = empty_like(src, device, requires_grad, pinned, retain_grad)
    out.fill_(value)
    return out


@_called_like(zeros_like)
def ones_like(src: Any, *args: Any, **kwargs: Any) -> array:
    """Return a new array of ones with the shape and dtype of ``src``.

    Example:
        >>> wp.ones_like(x).numpy()
        array([1., 1., 1., 1.], dtype=float32)
    """
    out = empty_like(src, *args, **kwargs)
    out.fill_(1)
    return out


@_called_like(zeros_like)
def clone(src: Any, *args: Any, **kwargs: Any) -> array:
    """Return a contiguous copy of ``src``; its gradient, if it gets one, is zero.

    Example:
        >>> b = wp.clone(x)
        >>> b.zero_()
        >>> x.list()
        [0.0, 1.0, 2.0, 3.0]
    """
    if isinstance(src, indexedarray):
        src = src.contiguous()
    out = empty_like(src, *args, **kwargs)
    out.assign(src)
    return out


def copy(dest: Any, src: Any, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Any = None) -> None:
    """Copy the elements of ``src`` to ``dest``, which may lie on different devices.

    With offsets or a ``count``, both arrays are seen as one-dimensional, which those of more dimensions are where they
    are contiguous; otherwise they have the same shape, or as many elements and both contiguous.

    On CUDA devices the copy goes to ``stream``, else by the rules for streams. One that touches pageable memory of the
    host has finished when this returns.

    Example:
        >>> b = wp.zeros(4, dtype=float)
        >>> wp.copy(b, x, dest_offset=1, src_offset=2, count=2)
        >>> b.list()
        [0.0, 2.0, 3.0, 0.0]
    """
    if isinstance(dest, indexedarray) or isinstance(src, indexedarray):
        _copy_indexed(dest, src, (dest_offset, src_offset, count))
        return
    to = dest if isinstance(dest, array) else interop_hooks.as_array(dest, None, recorder.active is not None)
    of = src if isinstance(src, array) else interop_hooks.as_array(src, None, recorder.active is not None)
    if to.type_code != of.type_code:
        raise RuntimeError(f"can't copy {of!r} to {to!r}: the dtypes differ")
    if not all(hasattr(type(n), "__index__") for n in (dest_offset, src_offset, count)):
        raise RuntimeError(f"copy() takes integers as offsets and count, got {(dest_offset, src_offset, count)}")
    if dest_offset or src_offset or count or to.shape != of.shape:
        count = count or of.size - src_offset
        if min(dest_offset, src_offset, count) < 0 or src_offset + count > of.size or dest_offset + count > to.size:
            raise RuntimeError(
                f"can't copy {count} elements from {src_offset} of {of!r} to {dest_offset} of {to!r}: out of range"
            )
        to = _line(to)[dest_offset : dest_offset + count]
        of = _line(of)[src_offset : src_offset + count]
    to._require_writable()
    if to.element.holds:
        nested.require_device(to, of)
    host_copy(to, of, of, stream)


def _line(a: array) -> array:
    return a if a.ndim == 1 else a.flatten()


def _copy_indexed(dest: Any, src: Any, offsets: tuple[int, int, int]) -> None:
    if any(offsets):
        raise RuntimeError("copy() between indexed arrays takes no offsets and no count")
    of = src if isinstance(src, (array, indexedarray)) else interop_hooks.as_array(src)
    if isinstance(dest, indexedarray):
        dest.assign(of)
    else:
        (dest if isinstance(dest, array) else interop_hooks.as_array(dest)).assign(of.contiguous())


def from_ptr(ptr: int, length: int, dtype: Any = None, shape: Any = None, device: DeviceLike = None) -> array:
    """Return an array over ``length`` elements at address ``ptr``, which has to outlive it.

    Example:
        >>> wp.from_ptr(x.ptr, 4, dtype=float).list()  # x has to live as long
        [0.0, 1.0, 2.0, 3.0]
    """
    made: array = array(ptr=ptr, dtype=float if dtype is None else dtype, shape=shape or length, device=device)
    return made


def _type_of(value: Any) -> Any:
    """The dtype that a fill value asks for by itself."""
    if isinstance(value, StructInstance):
        return type(value)
    known = constant_of(value)
    if known is not None:
        return known[0]
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind
    if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) in (1, 2) and np.size(value):
        scalar = scalar_type(value.dtype) if isinstance(value, np.ndarray) else _type_of(np.ravel(value)[0].item())
        return vector(len(value), scalar) if np.ndim(value) == 1 else matrix(np.shape(value), scalar)
    raise TypeError(f"the dtype can't be told from a value of type {type(value).__name__}; give `dtype`")
