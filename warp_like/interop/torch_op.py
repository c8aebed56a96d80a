"""``torch_op``: a kernel, or a function that launches several, as a registered PyTorch operator."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like import values
from warp_like.compiler.signature import Options, Signature
from warp_like.frontend.source import parse
from warp_like.interop.torch_op_body import Body, FunctionBody, KernelBody, OpSignature
from warp_like.interop.torch_op_register import is_plain, is_taken, register
from warp_like.ir import types as ir
from warp_like.passes.effects import array_accesses
from warp_like.runtime.kernel import Kernel


class TorchOp:
    """An operator made by ``torch_op``. Call it with tensors and numbers; it returns new tensors.

    Attributes:
        name: The operator's name in ``torch.ops``, ``namespace::name``.
        overload: What ``torch.ops`` holds, for ``torch.library.opcheck`` and the like.
    """

    def __init__(self, name: str, body: Body, wrapped: Any) -> None:
        functools.update_wrapper(self, wrapped)
        self.name = name
        self.overload, self._transformed, self._direct = register(name, body)
        sig = body.signature
        self._inputs = [sig.names[i] for i in sig.inputs]
        self._tensors = [sig.inputs.index(i) for i in sig.arrays]
        self.composites = any(not isinstance(t, (ir.Array, ir.Scalar)) for t in body.signature.types)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        if self.composites:
            args = tuple(map(_components, args))
            kwargs = {name: _components(value) for name, value in kwargs.items()}
        import torch  # by a statement, which torch.compile traces

        if torch.compiler.is_compiling():
            return self.overload(*args, **kwargs)
        if kwargs or len(args) != len(self._inputs):
            args = self._in_order(args, kwargs)
        if torch._C._are_functorch_transforms_active():
            return self._transformed(*args)
        if is_plain([args[i] for i in self._tensors]):
            return self._direct(*args)
        return self.overload(*args)

    def _in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        rest = self._inputs[len(args) :]
        if set(rest) != set(kwargs) or len(args) > len(self._inputs):
            raise TypeError(f"{self!r} takes ({', '.join(self._inputs)})")
        return (*args, *(kwargs[name] for name in rest))

    def __deepcopy__(self, memo: Any) -> TorchOp:
        return self  # modules that hold operators can be copied

    def __repr__(self) -> str:
        return f"<warp_like torch_op {self.name}>"


def torch_op(
    function: Kernel | Callable[..., Any] | None = None,
    *,
    outputs: Sequence[str] | str | None = None,
    in_out: Sequence[str] | str = (),
    shapes: Mapping[str, Any] | None = None,
    dim: Any = None,
    name: str | None = None,
) -> Any:
    """Make a PyTorch operator of a kernel, or of a function that launches several.

    The operator takes the parameters that are no outputs, in their order or by name: a tensor for each array, a
    number for each scalar, a sequence of numbers for a vector or matrix. It returns a new tensor for each output, in
    the order of the parameters: one tensor, or a tuple. It never changes its arguments.

    It is differentiable where its arrays are of floating-point type, through the kernel's adjoint, and works under
    ``torch.no_grad``, ``torch.compile(fullgraph=True)``, ``torch.export``, ``torch.func.grad`` and ``torch.func.vmap``
    (one launch for each element of the batch). Second derivatives are refused. Under ``torch.autocast``,
    floating-point tensors of 16 and 32 bits are cast to the dtypes that the kernel declares.

    Args:
        function: A kernel all of whose parameters have concrete types; or a function with the same kind of
            annotations that launches kernels and returns nothing. Its arrays are ``wp.array``, its inputs read-only.
            Its gradient runs it again under a ``wp.Tape``, so arrays that it makes in between need
            ``requires_grad=True``.
        outputs: The parameters to return. They start as zeros. For a kernel, when left out, those that it writes.
        in_out: Parameters that are both taken and returned: the kernel works on a copy of the argument.
        shapes: By output, its shape without components: an int or a tuple, or a function of the operator's arguments
            that returns one. As the first array argument's when left out.
        dim: For a kernel, the launch's ``dim``, or a function of the operator's arguments that returns it. When left
            out, the first dimensions of the first array argument, as many as the kernel asks of ``wp.tid()``.
        name: ``namespace::name`` in ``torch.ops``; made of the kernel's module and name when left out. An operator
            that has that name already is replaced.

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
        return functools.partial(torch_op, outputs=outputs, in_out=in_out, shapes=shapes, dim=dim, name=name)
    if not isinstance(function, Kernel) and not callable(function):
        raise TypeError(f"torch_op() takes a kernel or a function, got {type(function).__name__}")
    if not isinstance(function, Kernel) and dim is not None:
        raise ValueError(f"torch_op({function.__name__}): a function gives dim to the launches that it makes")
    names, types = _parameters(function)
    title = function.key if isinstance(function, Kernel) else function.__name__
    chosen, kept = _outputs(title, function, names, types, _listed(outputs), _listed(in_out) or ())
    sig = OpSignature(title, names, types, chosen, kept, _shapes(title, names, chosen, kept, shapes or {}))
    _require_shapes(sig)
    body = KernelBody(function, sig, dim) if isinstance(function, Kernel) else FunctionBody(function, sig)
    wrapped = function.func if isinstance(function, Kernel) else function
    return TorchOp(_qualified(name, wrapped), body, wrapped)


def _components(value: Any) -> Any:
    """The numbers of a vector or matrix, which PyTorch's operators take as a flat list."""
    host = values.constant_of(value) if isinstance(value, values.Composite) else None
    return list(host[1]) if host is not None else value


def _listed(given: Sequence[str] | str | None) -> tuple[str, ...] | None:
    return (given,) if isinstance(given, str) else None if given is None else tuple(given)


def _parameters(function: Any) -> tuple[tuple[str, ...], tuple[ir.Type, ...]]:
    """Names and types, all of them ones that PyTorch's operators know."""
    if isinstance(function, Kernel):
        title, found = f"kernel `{function.key}`", list(function.declared)
    else:
        title, source = f"function `{function.__name__}`", parse(function, "operator")
        code = function.__code__
        found = []
        for p in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if p not in source.annotations:
                raise TypeError(f"torch_op(): argument `{p}` of {title} has no annotation")
            found.append((p, values.to_ir(source.annotations[p])))
    for name, t in found:
        if t is None:
            raise TypeError(
                f"torch_op(): the type of argument `{name}` of {title} is inferred at launch, and an operator needs "
                "it before; annotate it with a concrete dtype"
            )
        if ir.scalar_of(t.dtype if isinstance(t, ir.Array) else t) is None:
            raise TypeError(f"torch_op(): argument `{name}` of {title} is a {t}, which PyTorch's operators don't take")
    return tuple(name for name, _ in found), tuple(t for _, t in found if t is not None)


def _outputs(
    title: str,
    function: Any,
    names: tuple[str, ...],
    types: tuple[ir.Type, ...],
    outputs: tuple[str, ...] | None,
    in_out: tuple[str, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of all results, and of those among them that are arguments too."""
    for name in (*(outputs or ()), *in_out):
        if name not in names or not isinstance(types[names.index(name)], ir.Array):
            raise ValueError(f"torch_op({title}): there is no array argument `{name}`; it has {', '.join(names)}")
    kept = {names.index(name) for name in in_out}
    chosen = {names.index(name) for name in outputs or ()} | kept
    if isinstance(function, Kernel):
        written = function.program(types).any_artifact.writes
        if outputs is None:
            chosen |= {i for i in written if i not in kept}
            _require_plain(function, names, types, chosen - kept)
        changed = [names[i] for i in written if i not in chosen]
        if changed:
            raise ValueError(
                f"torch_op({title}): the kernel changes `{changed[0]}`, and an operator must not change its "
                f"arguments; name it in outputs or in in_out"
            )
    if not chosen:
        raise ValueError(f"torch_op({title}): there is no output; name the arrays to return in outputs")
    return tuple(sorted(chosen)), tuple(sorted(kept))


def _require_plain(kernel: Kernel, names: Sequence[str], types: tuple[ir.Type, ...], written: set[int]) -> None:
    """Refuse to guess about arrays that the kernel loads as well: they may be meant as arguments."""
    from warp_like.compiler.pipeline import optimised  # the compiler is not loaded before it is needed

    accesses = array_accesses(optimised(kernel.source, Signature(types, options=Options.current())))
    for i in sorted(written):
        if accesses[i].loaded:
            raise ValueError(
                f'torch_op({kernel.key}): the kernel both reads and writes `{names[i]}`; say in_out=["{names[i]}"] if '
                f'it is an argument of which a changed copy is returned, or outputs=["{names[i]}"] if it starts as '
                "zeros"
            )


def _shapes(
    title: str, names: Sequence[str], outputs: Sequence[int], in_out: Sequence[int], shapes: Mapping[str, Any]
) -> dict[int, Any]:
    pure = [names[i] for i in outputs if i not in in_out]
    for name, rule in shapes.items():
        if name not in pure:
            raise ValueError(f"torch_op({title}): shapes names `{name}`, the outputs are {', '.join(pure)}")
        if not callable(rule) and not isinstance(rule, (int, tuple, list)):
            raise TypeError(f"torch_op({title}): a shape is an int, a tuple or a function, got {rule!r}")
    return {names.index(name): tuple(r) if isinstance(r, list) else r for name, r in shapes.items()}


def _require_shapes(sig: OpSignature) -> None:
    """Require that the shape of each output is given or follows from the first array argument."""
    for i in sig.outputs:
        if i in sig.in_out or i in sig.shapes:
            continue
        if not sig.arrays or sig.array_type(sig.arrays[0]).ndim != sig.array_type(i).ndim:
            what = f"`{sig.names[sig.arrays[0]]}`, which has other dimensions" if sig.arrays else "no array argument"
            raise ValueError(
                f"torch_op({sig.name}): the shape of `{sig.names[i]}` does not follow from {what}; give "
                f'shapes={{"{sig.names[i]}": ...}}'
            )


def _qualified(name: str | None, function: Callable[..., Any]) -> str:
    if name is not None:
        if not re.fullmatch(r"\w+::(?!__)\w+", name):
            raise ValueError(f"torch_op(): a name has the form namespace::name, without leading __, got {name!r}")
        return name
    path = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
    plain = "warp_like::" + re.sub(r"\W+|__+", "_", path).strip("_")  # __name would be mangled in compiled classes
    found, count = plain, 1
    while is_taken(found):
        count += 1
        found = f"{plain}_{count}"
    return found


__all__ = ["TorchOp", "torch_op"]
