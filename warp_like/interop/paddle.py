"""Paddle: tensors and arrays over the same memory, gradients included."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from warp_like import _native
from warp_like.interop import export, versions, view
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.values import class_of, to_ir


@functools.cache
def _paddle() -> Any:
    try:
        import paddle
    except ImportError as e:
        raise ImportError("this needs Paddle: pip install paddlepaddle") from e
    versions.require_readable(paddle)
    return paddle


def write_hook() -> Callable[[tuple[Any, ...]], object]:
    """Return what bumps the versions of tensors that are written, for Paddle's check of what it saved."""
    return lambda tensors: [tensor._bump_inplace_version() for tensor in tensors]


class PaddleGradient(_native.Link):
    """The tie between a tensor's gradient and ``grad``, the gradient of the array over its memory."""

    __slots__ = ()
    grad: array | None

    def attach(self) -> None:
        """Make the shared buffer the tensor's gradient again; a dropped one means zero, another is copied."""
        tensor = self.tensor()
        if tensor is None or self.grad is None:
            return
        current = tensor.grad
        if current is not None and current.data_ptr() == self.grad.ptr:
            return
        if current is None:
            self.grad.zero_()
        else:
            self.grad.assign(view.as_array(current, self.grad.element.type))
        # A new tensor: dropping the gradient (`t.grad = None`) empties the old one itself.
        tensor.grad_ = _export(self.grad)

    def covers(self, a: array) -> bool:
        """Return whether the tensor is alive and still is what ``to_paddle(a)`` would give."""
        t = self.tensor()
        if t is None or t.stop_gradient or not t.is_leaf or t.data_ptr() != a.ptr:
            return False
        strides = tuple(s * t.element_size() for s in t.strides[: a.ndim])
        return tuple(t.shape) == (*a.shape, *a.element.shape) and strides == a.strides

    def replace(self, grad: array | None) -> None:
        """Follow an array whose gradient was exchanged or dropped."""
        tensor = self.tensor()
        self.grad = grad
        if tensor is not None and grad is not None:
            tensor.grad_ = _export(grad)
        elif tensor is not None:
            tensor.clear_gradient(False)


def from_paddle(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return an array over the memory of Paddle tensor ``t``; the arguments are those of ``from_torch``.

    Example:
        >>> wp.from_paddle(paddle.ones([2])).list()
        [1.0, 1.0]
    """
    paddle = _paddle()
    if not isinstance(t, paddle.Tensor):
        raise TypeError(f"from_paddle() needs a Paddle tensor, got {type(t).__name__}")
    made: array | None = _native.share(t, dtype)
    if made is None:
        made = view.as_array(t, dtype, reinterpret=True)
    if retain_grad:
        made.retain_grad = True
    if grad is not None:
        made.grad = view.as_array(grad, made.element.type)
    elif (not t.stop_gradient) if requires_grad is None else requires_grad:
        unpublished = t.stop_gradient and not t.is_floating_point()
        if not t.is_leaf or not paddle.is_grad_enabled() or unpublished:
            made.requires_grad = True
            return made
        if t.grad is None:
            t.grad_ = paddle.zeros_like(t)
        made.grad = view.as_array(t.grad, made.element.type)
        _tie(made, PaddleGradient(t, made.grad))
    return made


def to_paddle(a: array, requires_grad: bool | None = None) -> Any:
    """Return a Paddle tensor over the memory of ``a``; if ``a`` has a gradient, it is the tensor's too.

    The arguments are those of ``to_torch``. The method ``a.to_paddle()`` leaves gradients out and can copy.

    Raises:
        TypeError: ``a`` is no array, or Paddle has no such dtype.
        ValueError: The array is read-only or has negative strides, which tensors can't be or have.

    Example:
        >>> wp.to_paddle(wp.ones(2)).tolist()
        [1.0, 1.0]
    """
    if not isinstance(a, array):
        raise TypeError(f"to_paddle() needs a warp_like array, got {type(a).__name__}")
    wants = a.requires_grad if requires_grad is None else requires_grad
    if not wants:
        return _shared(a)
    for link in a._grad_links or ():
        if isinstance(link, PaddleGradient) and link.covers(a):
            link.attach()
            return link.tensor()
    t = _export(a)
    t.stop_gradient = False
    if a.grad is not None:
        t.grad_ = _export(a.grad)
        _tie(a, PaddleGradient(weakref.ref(t), a.grad))
    return t


def export_paddle(a: array, copy: bool | None = None) -> Any:
    """Return the elements of ``a`` as a tensor; see ``wp.array.to_paddle``."""
    found = None if copy else _native_view(a)
    return _shared(export.source(PADDLE, a, copy)) if found is None else found


def _native_view(a: array) -> Any:
    """The tensor over the memory of ``a``, the same as before if it is unchanged; None if that is nothing usual."""
    return _native.tensor_over(a, _paddle().Tensor, "stop_gradient", True)


def _shared(a: array) -> Any:
    """The tensor over the memory of ``a``, without gradient."""
    t = _native_view(a)
    return _export(a) if t is None else t


def _export(a: array) -> Any:
    export.require_exportable(PADDLE, a)
    export.require_view(PADDLE, a)
    t = _paddle().utils.dlpack.from_dlpack(_native.dlpack_capsule(a, False))
    t.stop_gradient = True
    export.watch(a, t)
    return t


def _tie(a: array, link: PaddleGradient) -> None:
    """Add a link to those of the gradient, which all views of the array share; dead ones go."""
    links = a._grad_links
    links[:] = [old for old in links if not isinstance(old, PaddleGradient) or old.tensor() is not None]
    links.append(link)


@functools.cache
def _dtypes() -> dict[ir.Scalar, Any]:
    paddle = _paddle()
    named = {t: getattr(paddle, str(t), None) for t in ir.SCALARS}
    return {t: found for t, found in named.items() if str(found) == f"paddle.{t}"}  # paddle.uint16 is bfloat16


def dtype_to_paddle(warp_dtype: Any) -> Any:
    """Return the Paddle dtype of a scalar class."""
    t = to_ir(warp_dtype)
    found = _dtypes().get(t) if isinstance(t, ir.Scalar) else None
    if found is None:
        raise TypeError(f"Paddle has no dtype for {warp_dtype!r}")
    return found


def dtype_from_paddle(paddle_dtype: Any) -> Any:
    """Return the scalar class of a Paddle dtype."""
    for scalar, known in _dtypes().items():
        if known == paddle_dtype:
            return class_of(scalar)
    raise TypeError(f"Paddle dtype {paddle_dtype} has no counterpart")


PADDLE = export.Library(
    "Paddle", "to_paddle", dtype_to_paddle, strides=functools.partial(export.negative_strides, "Paddle")
)


def device_from_paddle(paddle_device: Any) -> Device:
    """Return the device of a Paddle place or its name."""
    name = str(paddle_device).removeprefix("Place(").removesuffix(")")
    return get_device("cpu" if name == "cpu" else name.replace("gpu", "cuda"))


def device_to_paddle(warp_device: DeviceLike) -> str:
    """Return the name by which Paddle knows a device."""
    return str(export.require_device(PADDLE, get_device(warp_device))).replace("cuda", "gpu")
