"""NumPy in: arrays share the memory of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.allocation import element_type, normalize_shape
from warp_like.runtime.memory.device import DeviceLike, get_device
from warp_like.values import class_of, numpy_dtype, scalar_from_numpy, to_ir


def from_numpy(
    arr: Any,
    dtype: Any = None,
    shape: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return an array over the memory of ``arr``, or a converted copy if ``dtype`` asks for another scalar.

    Without ``dtype``, a two-dimensional ``arr`` becomes an array of vectors and a three-dimensional one an
    array of matrices, as in Warp. A read-only ``arr`` gives a read-only array.

    Example:
        >>> points = np.zeros((100, 3), dtype=np.float32)
        >>> wp.from_numpy(points, dtype=wp.vec3)
        array(shape=(100,), dtype=vec3f)
    """
    place = get_device(device)
    if shape is None and place.is_cpu and type(arr) is np.ndarray and (arr.ndim == 1 or dtype is not None):
        made: array | None = _native.share(arr, dtype)
        if made is not None:
            if requires_grad:
                made.requires_grad = True
            if retain_grad:
                made.retain_grad = True
            return made
    return _from_unusual(arr, dtype, shape, device, requires_grad, retain_grad)


def _from_unusual(
    arr: Any, dtype: Any, shape: Any, device: DeviceLike, requires_grad: bool, retain_grad: bool
) -> array:
    """What ``from_numpy`` returns where the native extension declines: other shapes, conversions, mistakes."""
    data = np.asarray(arr)
    element = element_type(_default_dtype(data) if dtype is None else dtype)
    same = data.dtype == element.numpy if element.is_struct else scalar_from_numpy(data.dtype) == element.scalar
    inner = len(element.shape)
    packed = data.shape[data.ndim - inner :] == element.shape and data.ndim > inner
    if shape is not None:
        data = data.reshape((*normalize_shape(shape), *element.shape))
    elif not packed and inner:
        same = False  # the constructor finds the components in a longer last dimension
    made: array = array(data, element.host, device=device, copy=not same)
    made.retain_grad = retain_grad
    if requires_grad:
        made.requires_grad = True
    return made


def _default_dtype(data: np.ndarray[Any, Any]) -> Any:
    scalar = scalar_from_numpy(data.dtype)
    if scalar is None:
        raise TypeError(f"the NumPy array's dtype {data.dtype} has no counterpart")
    if data.ndim == 2 and data.shape[1]:
        return class_of(ir.Vec(data.shape[1], scalar))
    if data.ndim == 3 and data.shape[1] and data.shape[2]:
        return class_of(ir.Mat(data.shape[1], data.shape[2], scalar))
    return class_of(scalar)


def dtype_from_numpy(numpy_dtype: Any) -> Any:
    """Return the scalar class of a NumPy dtype.

    Raises:
        TypeError: It has no counterpart.

    Example:
        >>> wp.dtype_from_numpy(np.float32)
        <class 'warp_like.values.dtypes.float32'>
    """
    scalar = scalar_from_numpy(numpy_dtype)
    if scalar is None:
        raise TypeError(f"NumPy dtype {numpy_dtype} has no counterpart")
    return class_of(scalar)


def dtype_to_numpy(warp_dtype: Any) -> Any:
    """Return the NumPy scalar type of a scalar class: uint16, its bits, for bfloat16.

    Raises:
        TypeError: ``warp_dtype`` is no scalar type.

    Example:
        >>> wp.dtype_to_numpy(wp.int8)
        <class 'numpy.int8'>
    """
    t = to_ir(warp_dtype)
    if not isinstance(t, ir.Scalar):
        raise TypeError(f"only a scalar type has a NumPy dtype, got {warp_dtype!r}")
    return numpy_dtype(t).type
