"""``torch_op``: a kernel, or a function that launches several, as a registered PyTorch operator."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warp_like.base.by_name import ByName, calling_module
from warp_like.interop.op_body import Body
from warp_like.interop.op_declare import components, declare, in_order
from warp_like.interop.torch import _torch, dtype_to_torch, to_torch
from warp_like.interop.torch_batches import is_plain
from warp_like.interop.torch_op_register import is_taken, register
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.launching.blocks import cpu_threads

if TYPE_CHECKING:
    from warp_like.interop.torch_op_generic import GenericTorchOp


class TorchTensors:
    """PyTorch's tensors, as operators see them."""

    maker = "torch_op"
    library = "PyTorch"

    def __init__(self) -> None:
        self._torch = _torch()
        self.kind = self._torch.Tensor
        self.classes: tuple[Any, ...] = self._torch.Tensor, self._torch.nn.Parameter
        self.zeros_like = functools.partial(self._torch.zeros_like, memory_format=self._torch.contiguous_format)
        self.seed: Callable[[Any], Any] = functools.partial(
            self._torch.clone, memory_format=self._torch.contiguous_format
        )

    def dtype(self, scalar: Any) -> Any:
        """Return PyTorch's dtype."""
        return dtype_to_torch(scalar)

    def elsewhere(self, t: Any) -> str | None:
        """Return the device; tensors without data stand for any."""
        return None if t.is_cpu or t.is_meta else str(t.device)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        """Return zeros, whatever the default device is."""
        return self._torch.zeros(shape, dtype=dtype, device="cpu")

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return anything, whatever the default device is."""
        return self._torch.empty(shape, dtype=dtype, device="cpu")

    def cast(self, t: Any, dtype: Any) -> Any:
        """Return the tensor in another dtype."""
        return t.to(dtype)

    def copy(self, t: Any) -> Any:
        """Return a copy without a pending negation."""
        return t.resolve_neg().clone(memory_format=self._torch.contiguous_format)

    def plain(self, t: Any) -> Any:
        """Return the tensor without a pending negation; forward mode has tensors of zeros that have no memory."""
        t = t.resolve_neg() if t.is_neg() else t
        return t.clone() if t._is_zerotensor() else t

    def over(self, a: array) -> Any:
        """Return a tensor that requires no gradient."""
        return to_torch(a, requires_grad=False)


class TorchOp(ByName):
    """An operator made by ``torch_op``. Call it with tensors and numbers; it returns new tensors.

    Attributes:
        name: The operator's name in ``torch.ops``, ``namespace::name``.
        overload: What ``torch.ops`` holds, for ``torch.library.opcheck`` and the like.
        origin: The operator of a generic kernel, and the dtype, of which this is an instance; None for others.
    """

    def __init__(self, name: str, body: Body, wrapped: Any, module: str) -> None:
        functools.update_wrapper(self, wrapped)
        self.__module__ = module
        self.name = name
        self.origin: tuple[GenericTorchOp, Any] | None = None
        self.overload, self._transformed, self._direct = register(name, body)
        sig = body.signature
        self._signature = sig
        self._count = len(sig.inputs)
        self._tensors = [sig.inputs.index(i) for i in sig.given_tensors]
        self.composites = any(not isinstance(t, (ir.Array, ir.Scalar)) for t in body.signature.types)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        if self.composites:
            args = tuple(map(components, args))
            kwargs = {name: components(value) for name, value in kwargs.items()}
        import torch  # by a statement, which torch.compile traces

        if torch.compiler.is_compiling():
            return self.overload(*args, **kwargs)
        if kwargs or len(args) != self._count:
            args = in_order(self._signature, self, args, kwargs)
        if torch._C._are_functorch_transforms_active():
            return self._transformed(*args)
        if is_plain([args[i] for i in self._tensors]):
            return self._direct(*args)
        if not all(isinstance(args[i], torch.Tensor) for i in self._tensors):
            self._signature.check(args)  # says more than PyTorch's check of its schema
        return self.overload(*args)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return super().__reduce__() if self.origin is None else (type(self.origin[0]).instance, self.origin)

    def __repr__(self) -> str:
        return f"<warp_like torch_op {self.name}>"


def torch_op(
    function: Kernel | Callable[..., Any] | None = None,
    *,
    outputs: Sequence[str] | str | None = None,
    in_out: Sequence[str] | str = (),
    shapes: Mapping[str, Any] | None = None,
    dim: Any = None,
    as_tensors: Sequence[str] | str = (),
    name: str | None = None,
    block_dim: int | None = None,
) -> Any:
    """Make a PyTorch operator of a kernel, or of a function that launches several.

    The operator takes the parameters that are no outputs, in their order or by name: a tensor for each array, a
    number for each scalar, a sequence of numbers for a vector or matrix. It returns a new tensor for each output, in
    the order of the parameters: one tensor, or a tuple. It never changes its arguments.

    It is differentiable where its arrays are of floating-point type, through the kernel's adjoint, and works under
    ``torch.no_grad``, ``torch.compile(fullgraph=True)``, ``torch.export``, ``torch.func.grad`` and ``torch.func.vmap``
    (one launch for each element of the batch). An operator that is made of a kernel has second and third derivatives,
    and forward mode. Under ``torch.autocast``, floating-point tensors of 16 and 32 bits are cast to the dtypes that the
    kernel declares.

    Args:
        function: A kernel; of a generic one, all generic parameters get the dtype of the first generic array
            argument. Or a function with concrete annotations that launches kernels and returns nothing. Its arrays are
            ``wp.array``, its inputs read-only. Its gradient runs it again under a ``wp.Tape``, so arrays that it makes
            in between need ``requires_grad=True``.
        outputs: The parameters to return. They start as zeros. For a kernel, when left out, those that it writes.
        in_out: Parameters that are both taken and returned: the kernel works on a copy of the argument.
        shapes: By output, its shape without components: an int or a tuple, or a function of the operator's arguments
            that returns one. As the first array argument's when left out.
        dim: For a kernel, the launch's ``dim``, or a function of the operator's arguments that returns it. When left
            out, the first dimensions of the first array argument, as many as the kernel asks of ``wp.tid()``.
        as_tensors: For a kernel, numbers, vectors and matrices that the operator takes as tensors: of no dimensions,
            or of the shape of their components. Those of floating point get gradients.
        name: ``namespace::name`` in ``torch.ops``; made of the kernel's module and name when left out. An operator
            that has that name already is replaced.
        block_dim: For a kernel, the threads of a block where ``wp.config.enable_cpu_blocks`` is set now, else one.

    Returns:
        A ``TorchOp``; without ``function``, a decorator that makes one. Calling it raises TypeError for a tensor of
        another dtype or number of dimensions than declared, ValueError for another shape of elements or device, and,
        in a backward pass, WarpCodegenError if the kernel can't be differentiated.

    Raises:
        TypeError: ``function`` is neither kernel nor function, or a parameter's type is none that an operator takes.
        ValueError: There is no output, an unknown name, an output whose shape does not follow from the first array's,
            or a kernel that changes an array which is neither in ``outputs`` nor in ``in_out``.

    Example:
        >>> @wp.torch_op
        ... @wp.kernel
        ... def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     y[i] = x[i] * x[i]
        >>> x = torch.arange(3.0, requires_grad=True)
        >>> square(x).sum().backward()
        >>> x.grad
        tensor([0., 2., 4.])
    """
    if function is None:
        how = {"shapes": shapes, "dim": dim, "as_tensors": as_tensors, "name": name, "block_dim": block_dim}
        return functools.partial(torch_op, outputs=outputs, in_out=in_out, **how)
    threads = cpu_threads(f"torch_op({function.key})", block_dim) if isinstance(function, Kernel) else block_dim
    wrapped = function.func if isinstance(function, Kernel) else function
    module = calling_module()

    def make(instance: Any, qualified: str | None = None) -> TorchOp:
        body = declare(TorchTensors(), instance, outputs, in_out, shapes, dim, as_tensors, threads)
        return TorchOp(qualified or _qualified(name, wrapped), body, wrapped, module)

    if isinstance(function, Kernel) and function.is_generic:
        from warp_like.interop.torch_op_generic import GenericTorchOp  # most kernels are not

        def instance(kernel: Kernel, qualified: str) -> TorchOp:  # another operator of the kernel may have the name
            return make(kernel, qualified if name is not None else _free(qualified))

        return GenericTorchOp(function, _qualified(name, wrapped), instance, module)
    return make(function)


def _qualified(name: str | None, function: Callable[..., Any]) -> str:
    if name is not None:
        if not re.fullmatch(r"\w+::(?!__)\w+", name):
            raise ValueError(f"torch_op(): a name has the form namespace::name, without leading __, got {name!r}")
        return name
    path = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
    return _free(
        "warp_like::" + re.sub(r"\W+|__+", "_", path).strip("_")
    )  # __name would be mangled in compiled classes


def _free(plain: str) -> str:
    """The name ``plain``, with a number behind if an operator has it."""
    found, count = plain, 1
    while is_taken(found):
        count += 1
        found = f"{plain}_{count}"
    return found


__all__ = ["TorchOp", "torch_op"]
