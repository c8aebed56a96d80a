"""``paddle_op``: a kernel, or a function that launches several, as a Paddle operator.

The operator is a ``PyLayer``. Signature and body are those of ``torch_op``; what is Paddle's own is here: which
tensors are saved and how their changes are noticed, since Paddle does not watch what a ``PyLayer`` saves, and that a
gradient can't be differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like import _native
from warp_like.base.by_name import ByName, calling_module
from warp_like.interop.op_body import Body
from warp_like.interop.op_declare import components, declare, in_order
from warp_like.interop.op_signature import Absent
from warp_like.interop.paddle import _paddle, dtype_from_paddle, dtype_to_paddle, to_paddle
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.launching.blocks import cpu_threads
from warp_like.runtime.memory.device import get_device


class PaddleTensors:
    """Paddle's tensors, as operators see them."""

    maker = "paddle_op"
    library = "Paddle"

    def __init__(self) -> None:
        self._paddle = _paddle()
        self.kind = self._paddle.Tensor
        self.classes: tuple[Any, ...] = (self._paddle.Tensor,)
        self.seed: Callable[[Any], Any] = self.copy
        self._device = get_device("cpu")
        self._class_of = functools.cache(dtype_from_paddle)

    def dtype(self, scalar: Any) -> Any:
        """Return Paddle's dtype."""
        return dtype_to_paddle(scalar)

    def elsewhere(self, t: Any) -> str | None:
        """Return the device."""
        place = t.place
        return None if place.is_cpu_place() else str(place)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        """Return zeros, whatever the default device is."""
        return self._fresh(self._paddle.zeros, shape, dtype, zero=True)

    def zeros_like(self, t: Any) -> Any:
        """Return zeros of a tensor's shape and dtype."""
        return self._fresh(self._paddle.zeros, t.shape, t.dtype, zero=True)

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return anything, whatever the default device is."""
        return self._fresh(self._paddle.empty, shape, dtype, zero=False)

    def _fresh(self, make: Callable[..., Any], shape: Any, dtype: Any, zero: bool) -> Any:
        """A tensor over memory of ours, which takes less time than Paddle's way; what that can't do, ``make`` does."""
        memory = _native.make_array(tuple(shape), self._class_of(dtype), self._device, zero)
        made = None if memory is None else _native.tensor_over(memory, self.kind, "stop_gradient", True)
        if made is not None:
            return made
        made = make(list(shape), dtype=dtype)
        return made if made.place.is_cpu_place() else made.cpu()

    def cast(self, t: Any, dtype: Any) -> Any:
        """Return the tensor in another dtype."""
        return t.astype(dtype)

    def copy(self, t: Any) -> Any:
        """Return a contiguous copy."""
        return t.detach().clone()

    def plain(self, t: Any) -> Any:
        """Return the tensor: Paddle computes at once."""
        return t

    def over(self, a: array) -> Any:
        """Return a tensor that requires no gradient."""
        return to_paddle(a, requires_grad=False)


class PaddleOp(ByName):
    """An operator made by ``paddle_op``. Call it with tensors and numbers; it returns new tensors.

    Attributes:
        name: The kernel's or the function's name.
    """

    def __init__(self, body: Body, wrapped: Any, module: str) -> None:
        functools.update_wrapper(self, wrapped)
        self.__module__ = module
        sig = body.signature
        self.name = sig.name
        self._body, self._signature = body, sig
        self._count = len(sig.inputs)
        self._wrt = [sig.inputs.index(i) for i in sig.wrt]
        self._layer = _layer(body)
        unified = _paddle().jit.marker.unified  # to_static then calls a function as it is
        unified(type(self).__call__, for_sot=False)
        self._entry = unified(lambda *args, **kwargs: self._run(args, kwargs))
        self._composites = any(not isinstance(t, (ir.Array, ir.Scalar)) for t in sig.types)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self._entry(*args, **kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        paddle = _paddle()
        if kwargs or len(args) != self._count:
            args = in_order(self._signature, self, args, kwargs)
        if self._composites:
            args = tuple(map(components, args))
        if not paddle.in_dynamic_mode():
            from warp_like.interop import paddle_static  # most programs have no static graphs

            return paddle_static.call(self._body, args)
        if self._may_cast(args) and paddle.amp.is_autocast_enabled():
            args = tuple(self._signature.autocast(args))
        if paddle.is_grad_enabled() and any(not getattr(args[p], "stop_gradient", True) for p in self._wrt):
            return self._layer.apply(*args)
        results = _results(self._body, args)
        return results[0] if len(results) == 1 else tuple(results)

    def _may_cast(self, args: tuple[Any, ...]) -> bool:
        """Whether a tensor has another dtype than declared: a look at that takes less time than at Paddle's mode."""
        dtypes = self._signature.dtypes
        for p, i in zip(self._wrt, self._signature.wrt, strict=True):
            if getattr(args[p], "dtype", None) != dtypes[i]:
                return True
        return False

    def __repr__(self) -> str:
        return f"<warp_like paddle_op {self.name}>"


def paddle_op(
    function: Kernel | Callable[..., Any] | None = None,
    *,
    outputs: Sequence[str] | str | None = None,
    in_out: Sequence[str] | str = (),
    shapes: Mapping[str, Any] | None = None,
    dim: Any = None,
    as_tensors: Sequence[str] | str = (),
    block_dim: int | None = None,
) -> Any:
    """Make a Paddle operator of a kernel, or of a function that launches several.

    The operator takes the parameters that are no outputs, in their order or by name: a tensor for each array, a
    number for each scalar, a sequence of numbers for a vector or matrix. It returns a new tensor for each output, in
    the order of the parameters: one tensor, or a tuple. It never changes its arguments. It is differentiable where its
    arrays are of floating-point type, through the kernel's adjoint, also in static graphs (``paddle.jit.to_static``).
    Second derivatives are refused. Under ``paddle.amp.auto_cast``, floating-point tensors of 16 and 32 bits are cast to
    the dtypes that the kernel declares.

    Args:
        function: As for ``torch_op``, and so are the others.
        outputs: The parameters to return. They start as zeros. For a kernel, when left out, those that it writes.
        in_out: Parameters that are both taken and returned: the kernel works on a copy of the argument.
        shapes: By output, its shape without components: an int or a tuple, or a function of the operator's arguments
            that returns one. As the first array argument's when left out.
        dim: For a kernel, the launch's ``dim``, or a function of the operator's arguments that returns it. When left
            out, the first dimensions of the first array argument, as many as the kernel asks of ``wp.tid()``.
        as_tensors: For a kernel, numbers, vectors and matrices that the operator takes as tensors: of no dimensions,
            or of the shape of their components. Those of floating point get gradients.
        block_dim: For a kernel, the threads of a block; see ``torch_op``.

    Returns:
        A ``PaddleOp``; without ``function``, a decorator that makes one. Calling it raises TypeError for a tensor of
        another dtype or number of dimensions than declared, ValueError for another shape of elements or device, and,
        where a gradient is wanted, WarpCodegenError if the kernel can't be differentiated. In a backward pass, a saved
        tensor that was changed in place is an error; Paddle raises what goes wrong there as an OSError with its text.

    Raises:
        ImportError: Paddle is not installed.
        TypeError: ``function`` is neither kernel nor function, or a parameter's type is none that an operator takes.
        ValueError: There is no output, an unknown name, an output whose shape does not follow from the first array's,
            or a kernel that changes an array which is neither in ``outputs`` nor in ``in_out``.

    Example:
        >>> @wp.paddle_op
        ... @wp.kernel
        ... def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     y[i] = x[i] * x[i]
        >>> x = paddle.arange(3, dtype="float32")
        >>> x.stop_gradient = False
        >>> square(x).sum().backward()
        >>> x.grad.tolist()
        [0.0, 2.0, 4.0]
    """
    if function is None:
        return functools.partial(
            paddle_op, outputs=outputs, in_out=in_out, shapes=shapes, dim=dim, as_tensors=as_tensors,
            block_dim=block_dim,
        )  # fmt: skip
    threads = cpu_threads(f"paddle_op({function.key})", block_dim) if isinstance(function, Kernel) else block_dim
    body = declare(PaddleTensors(), function, outputs, in_out, shapes, dim, as_tensors, threads)
    return PaddleOp(body, function.func if isinstance(function, Kernel) else function, calling_module())


def _results(body: Body, args: tuple[Any, ...]) -> list[Any]:
    """Run the operator; TypeError or ValueError for arguments that it can't take."""
    results = body.try_forward(args)
    if results is None:
        body.signature.check(args)
        results = body.forward(args)
    return results


def _layer(body: Body) -> Any:
    """The ``PyLayer`` of an operator."""
    sig = body.signature
    places = [sig.inputs.index(i) for i in sig.wrt]
    tensors = [sig.inputs.index(i) for i in sig.given_tensors]

    def forward(ctx: Any, *args: Any) -> Any:
        results = _results(body, args)
        for i, result in zip(sig.outputs, results, strict=True):
            if i not in sig.from_outputs:
                ctx.mark_non_differentiable(result)
        ctx.needs = [not args[p].stop_gradient for p in places]
        reads_outputs, _, unread = body.answers()
        ctx.args = [
            Absent(a.shape, a.dtype) if p in unread else a if p not in tensors else None for p, a in enumerate(args)
        ]
        ctx.saved = [p for p in tensors if p not in unread]
        saved = [args[p] for p in ctx.saved] + (results if reads_outputs else [])
        ctx.versions = [t._inplace_version() for t in saved]
        ctx.save_for_backward(*saved)
        return results[0] if len(results) == 1 else tuple(results)

    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensor()
        _require_unchanged(sig.name, saved, ctx.versions)
        args, count = list(ctx.args), len(ctx.saved)
        for p, t in zip(ctx.saved, saved[:count], strict=True):
            args[p] = t
        wanted = [g for i, g in zip(sig.outputs, grads, strict=True) if i in sig.from_outputs]
        got = body.backward(wanted, args, saved[count:], ctx.needs)
        if _paddle().is_grad_enabled():  # create_graph=True
            got = _final(sig.name, got, [*saved[:count], *wanted])
        found = dict(zip([p for p, needed in zip(places, ctx.needs, strict=True) if needed], got, strict=True))
        gradients = tuple(found.get(p) for p in tensors)
        return gradients if len(gradients) > 1 else gradients[0]

    rules = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("KernelOperator", (_paddle().autograd.PyLayer,), rules)


def _require_unchanged(name: str, saved: Sequence[Any], versions: Sequence[int]) -> None:
    for t, version in zip(saved, versions, strict=True):
        if t._inplace_version() != version:
            raise RuntimeError(
                f"operator `{name}`: a tensor of shape {tuple(t.shape)} that its gradient needs was changed in place "
                f"after the operator had run (version {t._inplace_version()}, expected {version}); change a copy"
            )


def _final(name: str, gradients: list[Any], reasons: list[Any]) -> list[Any]:
    """The gradients as functions of ``reasons``, whose own gradient is refused."""

    def forward(ctx: Any, *args: Any) -> Any:
        return tuple(t.clone() for t in args[: len(gradients)])  # an argument itself would count as changed in place

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"operator `{name}` has no second derivative: its gradient was differentiated again (create_graph=True)"
        )

    rules = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    layer: Any = type("FinalGradient", (_paddle().autograd.PyLayer,), rules)
    return list(layer.apply(*gradients, *reasons))


__all__ = ["PaddleOp", "paddle_op"]
