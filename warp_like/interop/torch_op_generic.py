"""Operators of generic kernels: one for each dtype that is given, made when it is first called with it.

All generic parameters of an instance have one scalar type, that of the first generic array that is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warp_like import values
from warp_like.base.by_name import ByName
from warp_like.interop.op_declare import in_order
from warp_like.interop.torch import _torch, dtype_from_torch
from warp_like.runtime.kernels.generics import overload
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.values.annotation import ArrayAnnotation
from warp_like.values.generic import (
    GenericMatrix,
    GenericVector,
    is_generic_scalar,
)


class GenericTorchOp(ByName):
    """An operator made by ``torch_op`` of a generic kernel. Call it as a ``TorchOp``.

    Attributes:
        name: The name of its operators in ``torch.ops``, to each of which its dtype is appended.
        instances: The operators, by the dtype of the first generic array.
    """

    def __init__(self, kernel: Kernel, name: str, make: Callable[[Kernel, str], Any], module: str) -> None:
        functools.update_wrapper(self, kernel.func)
        self.__module__ = module
        self.name = name
        self._kernel = kernel
        self._make = make
        self.instances: dict[Any, Any] = {}
        self._signature = self._any_instance()._signature
        generic = [i for i in self._signature.arrays if kernel.declared[i][1] is None]
        if not generic:
            raise TypeError(
                f"torch_op(): no array argument of kernel `{kernel.key}` is generic, so none tells the dtype"
            )
        self._place = self._signature.inputs.index(generic[0])

    def _any_instance(self) -> Any:
        """The instance that says which parameters are arguments, and which are results."""
        try:
            return self.instance(_torch().float32)
        except TypeError:  # of integers alone
            return self.instance(_torch().int32)

    def instance(self, dtype: Any) -> Any:
        """Return the operator for tensors of ``dtype``, a ``TorchOp``.

        Raises:
            TypeError: The kernel takes no such elements.
        """
        if dtype not in self.instances:
            scalar = dtype_from_torch(dtype)
            kernel = self._kernel
            types = {
                name: _concrete(kernel, name, kernel.source.annotations[name], scalar)
                for name, t in kernel.declared
                if t is None
            }
            suffix = str(dtype).removeprefix("torch.")
            made = self._make(overload(kernel, types), f"{self.name}_{suffix}")
            made.origin = self, dtype
            self.instances[dtype] = made
        return self.instances[dtype]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator for the dtype of the first generic array."""
        if kwargs or len(args) != len(self._signature.inputs):
            args = in_order(self._signature, self, args, kwargs)
        given = args[self._place]
        import torch  # by a statement, which torch.compile traces

        if not isinstance(given, torch.Tensor):
            self._signature.check(args)  # which says that it is no tensor
        self._prepare(given.dtype)
        return self.instances[given.dtype](*args)

    def _prepare(self, dtype: Any) -> bool:
        """Make the operator for tensors of a dtype, if need be; true."""
        return self.instance(dtype) is not None

    _prepare._dynamo_marked_constant = True  # type: ignore[attr-defined] # torch.compile calls it while it traces

    def __repr__(self) -> str:
        return f"<warp_like torch_op {self.name} of a generic kernel>"


def _concrete(kernel: Kernel, name: str, annotation: Any, scalar: Any) -> Any:
    """An annotation with a scalar type in place of what is generic in it."""
    annotation = getattr(annotation, "_annotation_", annotation)
    if isinstance(annotation, ArrayAnnotation) and isinstance(annotation.ndim, int):
        return type(annotation)(_concrete(kernel, name, annotation.dtype, scalar), annotation.ndim)
    if is_generic_scalar(annotation):
        return scalar
    if isinstance(annotation, GenericVector) and annotation.length is not None:
        return values.vector(annotation.length, scalar)
    if isinstance(annotation, GenericMatrix) and None not in annotation.shape:
        return values.matrix(annotation.shape, scalar)
    if values.to_ir(annotation) is not None:
        return annotation
    raise TypeError(
        f"torch_op(): argument `{name}` of kernel `{kernel.key}` is generic in more than its scalar type, "
        "which a tensor does not tell; give its numbers of dimensions and components"
    )
