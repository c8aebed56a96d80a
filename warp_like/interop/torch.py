"""PyTorch: tensors and arrays over the same memory, gradients included.

The gradient of an array made of a leaf tensor is the tensor's ``.grad``: one buffer, so that what a tape
adds up is what an optimizer reads. A ``TorchGradient`` ties the two and mends the tie when ``.grad`` was
dropped or exchanged. ``.grad`` is published only while PyTorch's grad mode is on: in the body of an
``autograd.Function`` or of a custom operator it is off, PyTorch adds up the gradients itself, and the array
gets a buffer of its own.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

from warp_like import _native
from warp_like.base.warn import warn
from warp_like.interop import export, versions, view
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.values import class_of, to_ir

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def _torch() -> Any:
    try:
        import torch
    except ImportError as e:
        raise ImportError("this needs PyTorch: pip install torch") from e
    versions.require_readable(torch)
    return torch


def write_hook() -> Callable[[tuple[Any, ...]], object]:
    """Return what bumps the versions of tensors that are written, for PyTorch's check of what it saved.

    It is what ``torch.autograd.graph.increment_version`` calls, without the layer of Python.
    """
    hook: Callable[[tuple[Any, ...]], object] = _torch()._C._increment_version
    return hook


class TorchGradient(_native.Link):
    """The tie between a tensor's ``.grad`` and the gradient of the array that shares the tensor's memory.

    Holds no array, and an exported tensor only weakly: the tensor holds the array, so a cycle would never be
    freed.
    """

    __slots__ = ()

    def attach(self) -> None:
        """Make the shared buffer the tensor's ``.grad`` again.

        A dropped ``.grad`` means zero in PyTorch, so the buffer is set to zero. The values of another tensor
        that was put in its place are copied into the buffer.
        """
        tensor = self.tensor()
        if tensor is None or tensor.grad is self.grad:
            return
        torch = _torch()
        current = tensor.grad
        with torch.no_grad():
            if current is None:
                self.grad.zero_()
            elif current.data_ptr() != self.grad.data_ptr() or current.stride() != self.grad.stride():
                self.grad.copy_(current.to_dense() if current.layout is not torch.strided else current)
        tensor.grad = self.grad

    def covers(self, a: array) -> bool:
        """Return whether the tensor is alive and still is what ``to_torch(a)`` would give."""
        t = self.tensor()
        if t is None or not (t.requires_grad and t.is_leaf) or t.data_ptr() != a.ptr:
            return False
        strides = tuple(s * t.element_size() for s in t.stride()[: a.ndim])
        return tuple(t.shape) == (*a.shape, *a.element.shape) and strides == a.strides

    def replace(self, grad: array | None) -> None:
        """Follow an array whose gradient was exchanged or dropped."""
        tensor = self.tensor()
        self.grad = None if grad is None else _export(grad)
        if tensor is not None:
            tensor.grad = self.grad


def _native_first(checked: F) -> F:
    """Return the native function that calls ``checked`` for all but the usual tensors."""
    return cast(F, functools.update_wrapper(_native.torch_reader(checked), checked))


@_native_first
def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return an array over the memory of tensor ``t``.

    Args:
        t: A dense tensor on a device that kernels run on; any strides.
        dtype: The element type; trailing dimensions become the components of a vec or mat. The tensor's when
            left out. Integers are read as those of the same size that it names, bools as integers of 8 bits.
        requires_grad: Whether the array has a gradient; as the tensor's when left out. The gradient of a
            leaf is its ``.grad``, made here if there is none yet, also where the tensor itself requires none.
        grad: A tensor or array to use as the gradient instead.
        return_ctype: Accepted for programs written for Warp; an array is as fast to launch with.
        retain_grad: Keep the gradient of an intermediate array after a backward pass.

    Raises:
        TypeError: ``t`` is no tensor, or its dtype does not fit.
        ValueError: Its layout or device can't be used.

    Example:
        >>> t = torch.zeros(10, requires_grad=True)
        >>> a = wp.from_torch(t)
        >>> a.ptr == t.data_ptr(), a.grad.ptr == t.grad.data_ptr()
        (True, True)
    """
    torch = _torch()
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"from_torch() needs a PyTorch tensor, got {type(t).__name__}")
    made: array | None = _native.share(t, dtype)
    if made is None:
        made = view.as_array(t, dtype, reinterpret=True)
    if retain_grad:
        made.retain_grad = True
    if grad is not None:
        made.grad = view.as_array(grad.detach() if isinstance(grad, torch.Tensor) else grad, made.element.type)
    elif t.requires_grad if requires_grad is None else requires_grad:
        _share_gradient(made, t)
    return made


def _share_gradient(made: array, t: Any) -> None:
    torch = _torch()
    if not t.is_leaf and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        warn(
            "from_torch() was given a tensor that is the result of an operation: gradients computed by a "
            "tape stay in the array's `grad` and do not flow back through that operation. Make the kernel an "
            "operator with wp.torch_op, wrap the launch in a torch.autograd.Function, or pass the leaf tensor."
        )
    if not t.is_leaf or not torch.is_grad_enabled():
        made.requires_grad = True
        return
    publish = t.requires_grad or (t.is_floating_point() and not t.is_inference())
    fresh = t.grad
    if fresh is None:
        fresh = torch.zeros_like(t, memory_format=torch.preserve_format)
        if publish:
            t.grad = fresh
    gradient: array | None = _native.share(fresh, made.dtype)
    if gradient is not None and gradient.shape == made.shape:
        made.grad_array = gradient  # the array is new, so nothing follows its gradient yet
        made._grad_links = []
    else:
        made.grad = view.as_array(fresh.detach(), made.element.type)
    if publish:
        _native.set_torch_link(TorchGradient, torch.is_grad_enabled)  # from now on without Python
        _tie(made, TorchGradient(t, fresh))


def to_torch(a: array, requires_grad: bool | None = None) -> Any:
    """Return a tensor over the memory of ``a``; components are trailing dimensions.

    With a gradient, the tensor is a leaf whose ``.grad`` is the array's gradient, in the same memory, so it
    can be given to an optimizer. While a tensor made earlier is alive, it is returned again. The method
    ``a.to_torch()`` leaves gradients out and can copy.

    Args:
        a: The array.
        requires_grad: As the array's when left out.

    Raises:
        TypeError: ``a`` is no array, or PyTorch has no such dtype.
        ValueError: The array is read-only or has negative strides, which tensors can't be or have.

    Example:
        >>> wp.to_torch(wp.ones(2))
        tensor([1., 1.])
    """
    if not isinstance(a, array):
        raise TypeError(f"to_torch() needs a warp_like array, got {type(a).__name__}")
    wants = a.requires_grad if requires_grad is None else requires_grad
    if not wants:
        return _shared(a)
    for link in a._grad_links or ():
        if isinstance(link, TorchGradient) and link.covers(a):
            link.attach()
            return link.tensor()
    t = _export(a)
    t.requires_grad_(True)
    if a.grad is not None:
        t.grad = _export(a.grad)
        _tie(a, TorchGradient(weakref.ref(t), t.grad))
    return t


def export_torch(a: array, copy: bool | None = None, device: Any = None) -> Any:
    """Return the elements of ``a`` as a tensor; see ``wp.array.to_torch``."""
    if device is None:
        place = None
    else:
        place = _torch().device(device)
        place = None if place.type == str(a.device) else place
    found = _native_view(a) if place is None and not copy else None
    if found is not None:
        return found
    if place is not None and copy is not False and a.device.kind not in TORCH.devices:
        a = a.to(get_device("cpu"))  # by way of the host
    t = _shared(export.source(TORCH, a, copy, place))
    if place is None:
        return t
    try:
        return t.to(place)
    except (AssertionError, RuntimeError) as e:  # the former where PyTorch is built without CUDA
        raise RuntimeError(f"to_torch(): PyTorch can't use device {place}: {str(e).partition(chr(10))[0]}") from e


def _native_view(a: array) -> Any:
    """The tensor over the memory of ``a``, the same as before if it is unchanged; None if that is nothing usual."""
    return _native.tensor_over(a, _torch().Tensor, "requires_grad", False)


def _shared(a: array) -> Any:
    """The tensor over the memory of ``a``, without gradient."""
    t = _native_view(a)
    return _export(a) if t is None else t


def on_host(t: Any) -> array:
    """Return an array of the elements of a tensor on any device, of any layout of strides."""
    if not isinstance(t, _torch().Tensor):
        raise TypeError(f"from_torch() needs a PyTorch tensor, got {type(t).__name__}")
    return view.as_array(t.detach().cpu().resolve_conj().resolve_neg())


def _tie(a: array, link: TorchGradient) -> None:
    """Add a link to those of the gradient, which all views of the array share; dead ones go."""
    links = a._grad_links
    links[:] = [old for old in links if not isinstance(old, TorchGradient) or old.tensor() is not None]
    links.append(link)


def _export(a: array) -> Any:
    torch = _torch()
    export.require_exportable(TORCH, a)
    export.require_view(TORCH, a)
    if a.size == 0:  # PyTorch's importer is told no address for memory that is not there
        return torch.empty((*a.shape, *a.element.shape), dtype=dtype_to_torch(a.element.scalar))
    t = torch.utils.dlpack.from_dlpack(_native.dlpack_capsule(a, False))
    if not t.is_inference():  # such tensors have no version
        export.watch(a, t)
    return t


@functools.cache
def _dtypes() -> dict[ir.Scalar, Any]:
    torch = _torch()
    return {t: found for t in ir.SCALARS if (found := getattr(torch, str(t), None)) is not None}


def dtype_to_torch(warp_dtype: Any) -> Any:
    """Return the PyTorch dtype of a scalar class.

    Raises:
        TypeError: There is none.

    Example:
        >>> wp.dtype_to_torch(wp.float64)
        torch.float64
    """
    t = to_ir(warp_dtype)
    found = _dtypes().get(t) if isinstance(t, ir.Scalar) else None
    if found is None:
        raise TypeError(f"PyTorch has no dtype for {warp_dtype!r}")
    return found


def dtype_from_torch(torch_dtype: Any) -> Any:
    """Return the scalar class of a PyTorch dtype.

    Raises:
        TypeError: There is none.

    Example:
        >>> wp.dtype_from_torch(torch.float64)
        <class 'warp_like.values.dtypes.float64'>
    """
    for scalar, known in _dtypes().items():
        if known == torch_dtype:
            return class_of(scalar)
    raise TypeError(f"PyTorch dtype {torch_dtype} has no counterpart")


TORCH = export.Library(
    "PyTorch", "to_torch", dtype_to_torch, strides=functools.partial(export.negative_strides, "PyTorch")
)


def device_from_torch(torch_device: Any) -> Device:
    """Return the device of a ``torch.device`` or its name.

    Example:
        >>> wp.device_from_torch(torch.device("cpu"))
        'cpu'
    """
    return get_device(str(torch_device))


def device_to_torch(warp_device: DeviceLike) -> str:
    """Return the name by which PyTorch knows a device."""
    return str(export.require_device(TORCH, get_device(warp_device)))
