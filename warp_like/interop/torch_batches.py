"""``torch.vmap`` of operators: one launch for each element of the batch, right whatever a kernel's threads read.

Where nothing but the batch comes between a call and the computation, the launches write into the elements of the
batched results, past PyTorch's dispatcher, which costs many times what a small launch does. Otherwise, inside of other
transformations, the operator is called for each element.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from warp_like.interop.op_body import Body
from warp_like.interop.torch import _torch

Whole = Callable[[int, Sequence[Any], Sequence[Any]], tuple[Any, Any]]
"""Computes a batch that is not empty: from its size, the batch's dimension in each argument, and the arguments, the
batched results and the dimension of the batch in each."""


def is_plain(tensors: Sequence[Any]) -> bool:
    """Return whether nothing would come between a call with these tensors and the computation.

    That is: they are PyTorch's own tensors on the CPU, and no mode, autocast or tracing is on that an operator sees.
    """
    torch = _torch()
    own = (torch.Tensor, torch.nn.Parameter)
    return (
        all(type(t) in own and t.is_cpu for t in tensors)
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and not torch.is_autocast_enabled("cpu")
        and torch._C._get_tracing_state() is None
    )


def vmap_rule(op: Any, whole: Whole | None = None) -> Callable[..., Any]:
    """Return how ``op`` is mapped: by ``whole``, where it is given and nobody else watches, else call by call."""
    torch = _torch()

    def rule(info: Any, in_dims: Sequence[Any], *args: Any) -> Any:
        def at(index: int | None, value: Any, dim: Any) -> Any:
            if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
                return [at(index, v, d) for v, d in zip(value, dim, strict=True)]
            if dim is None:
                return value
            return value.select(dim, index) if index is not None else value.new_zeros(value.movedim(dim, 0).shape[1:])

        if info.batch_size and whole is not None and _are_bare(args):
            return whole(info.batch_size, in_dims, args)
        if info.batch_size:
            calls = [op(*map(at, [i] * len(args), args, in_dims)) for i in range(info.batch_size)]
        else:
            calls = [op(*map(at, [None] * len(args), args, in_dims))]
        if isinstance(calls[0], torch.Tensor):
            return torch.stack(calls)[: info.batch_size], 0
        columns = type(calls[0])(torch.stack(column)[: info.batch_size] for column in zip(*calls, strict=True))
        return columns, type(columns)([0] * len(columns))

    return rule


def forward_whole(body: Body) -> Whole | None:
    """Return how the results of ``body`` are computed for a batch; None where their shapes may differ in it."""
    sig = body.signature
    if any(map(callable, sig.shapes.values())):
        return None

    def whole(size: int, dims: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
        rows = list(_rows(size, dims, args))
        sig.check(rows[0])
        results = []
        for i, shape in zip(sig.outputs, sig.output_shapes(rows[0]), strict=True):
            if i in sig.in_out:
                place = sig.inputs.index(i)
                given, dim = args[place], dims[place]
                over = given.expand(size, *given.shape) if dim is None else given.movedim(dim, 0)
                results.append(sig.tensors.copy(over))
            else:
                results.append(sig.tensors.zeros((size, *shape), sig.dtypes[i]))
        for row, out in zip(rows, zip(*(r.unbind() for r in results), strict=True), strict=True):
            body.forward(row, list(out))
        return (results[0], 0) if len(results) == 1 else (tuple(results), (0,) * len(results))

    return whole


def each(run: Callable[..., Sequence[Any]]) -> Whole:
    """Return how the tensors that ``run`` makes of one element's arguments are computed for a batch."""
    torch = _torch()

    def whole(size: int, dims: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
        calls = [run(*row) for row in _rows(size, dims, args)]
        columns = tuple(torch.stack(column) for column in zip(*calls, strict=True))
        return columns, (0,) * len(columns)

    return whole


def _rows(size: int, dims: Sequence[Any], args: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """The arguments of each element of a batch; a list of numbers has no dimension of it."""
    columns = (
        a.unbind(d) if isinstance(d, int) else itertools.repeat(a, size) for a, d in zip(args, dims, strict=True)
    )
    return zip(*columns, strict=True)


def _are_bare(args: Sequence[Any]) -> bool:
    """Whether no transformation, no autograd and no mode has to see what is done with these arguments."""
    torch = _torch()
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    watched = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return is_plain(tensors) and not watched and not any(map(wrapped, tensors))
