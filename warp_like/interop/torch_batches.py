"""``torch.vmap`` of operators: right whatever a kernel's threads read, since no element of the batch sees another.

Where nothing but the batch comes between a call and the computation, the results are made for the whole batch and the
kernel goes over it in one native call (``torch_batch_launch.py``); a function of several launches is called for each
element, and writes into its results. Under autograd and other transformations of ``torch.func`` the same happens in an
``autograd.Function`` over the batch. Otherwise, under modes and while PyTorch traces, the operator is called for each
element.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from warp_like.interop.op_body import Body, KernelBody
from warp_like.interop.torch import _torch
from warp_like.interop.torch_batch_launch import launch_adjoint, launch_forward

Whole = Callable[[int, Sequence[Any], Sequence[Any]], Any]
"""Computes a batch that is not empty: from its size, the batch's dimension in each argument, and the arguments, the
batched results and the dimension of the batch in each; None where that can't be done for the whole."""

Watched = Callable[[int, Sequence[Any], Sequence[Any]], Any]
"""As ``Whole``, where autograd or another transformation has to see what is computed."""


def is_plain(tensors: Sequence[Any]) -> bool:
    """Return whether nothing would come between a call with these tensors and the computation.

    That is: they are PyTorch's own tensors on the CPU, and no mode, autocast or tracing is on that an operator sees.
    """
    torch = _torch()
    own = (torch.Tensor, torch.nn.Parameter)
    for t in tensors:  # a loop takes less time than all()
        if type(t) not in own or not t.is_cpu:
            return False
    return (
        not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and not torch.is_autocast_enabled("cpu")
        and torch._C._get_tracing_state() is None
    )


def vmap_rule(op: Any, whole: Whole | None = None, watched: Watched | None = None) -> Callable[..., Any]:
    """Return how ``op`` is mapped: by ``whole`` where nobody else watches, by ``watched`` where somebody does.

    Else, and where these decline, it is called for each element.
    """
    torch = _torch()

    def rule(info: Any, in_dims: Sequence[Any], *args: Any) -> Any:
        def at(index: int | None, value: Any, dim: Any) -> Any:
            if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
                return [at(index, v, d) for v, d in zip(value, dim, strict=True)]
            if dim is None:
                return value
            return value.select(dim, index) if index is not None else value.new_zeros(value.movedim(dim, 0).shape[1:])

        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if info.batch_size and whole is not None and is_plain(tensors):
            run = whole if _are_bare(tensors) else None if in_forward_mode() else watched
            found = None if run is None else run(info.batch_size, in_dims, args)
            if found is not None:
                return found
        if info.batch_size:
            calls = [op(*map(at, [i] * len(args), args, in_dims)) for i in range(info.batch_size)]
        else:
            calls = [op(*map(at, [None] * len(args), args, in_dims))]
        if isinstance(calls[0], torch.Tensor):
            return torch.stack(calls)[: info.batch_size], 0
        columns = type(calls[0])(torch.stack(column)[: info.batch_size] for column in zip(*calls, strict=True))
        return columns, type(columns)([0] * len(columns))

    return rule


def in_forward_mode() -> bool:
    """Return whether tensors may have tangents."""
    return bool(_torch().autograd.forward_ad._current_level >= 0)


def has_fixed_shapes(body: Body) -> bool:
    """Return whether the shapes of the results, and the grid, follow from the shapes of tensors alone."""
    return not any(map(callable, (*body.signature.shapes.values(), getattr(body, "dim", None))))


def forward_whole(body: Body) -> Whole:
    """Return how the results of ``body`` are computed for a batch."""
    sig = body.signature
    fixed = has_fixed_shapes(body)

    def whole(size: int, dims: Sequence[Any], args: Sequence[Any]) -> Any:
        first = [a.select(d, 0) if isinstance(d, int) else a for a, d in zip(args, dims, strict=True)]
        sig.check(first)
        shapes = sig.output_shapes(first)
        if not fixed and any(sig.output_shapes(row) != shapes for row in _rows(size, dims, args)):
            return None
        results = []
        for i, shape in zip(sig.outputs, shapes, strict=True):
            if i in sig.in_out:
                place = sig.inputs.index(i)
                results.append(sig.tensors.copy(batch_first(size, args[place], dims[place])))
            else:
                results.append(sig.tensors.zeros((size, *shape), sig.dtypes[i]))
        if not (fixed and isinstance(body, KernelBody) and launch_forward(body, size, dims, args, results)):
            columns = zip(*(r.unbind() for r in results), strict=True)
            for row, out in zip(_rows(size, dims, args), columns, strict=True):
                body.forward(row, list(out))
        return (results[0], 0) if len(results) == 1 else (tuple(results), (0,) * len(results))

    return whole


def backward_whole(body: Body) -> Whole:
    """Return how the gradients of ``body`` are computed for a batch.

    The arguments are how many gradients and results there are, which gradients are needed, the gradients, the results,
    and what the forward got.
    """
    torch = _torch()
    fixed = has_fixed_shapes(body)

    def whole(size: int, dims: Sequence[Any], args: Sequence[Any]) -> Any:
        grads, end, needs = args[0], args[0] + args[1], args[2]
        flat, places = args[3:], dims[3:]
        found = None
        if fixed and isinstance(body, KernelBody):
            part = [(flat[s], places[s]) for s in (slice(grads), slice(grads, end), slice(end, None))]
            found = launch_adjoint(body, size, part[0], part[1], part[2], needs)
        if found is None:
            calls = [
                body.backward(list(row[:grads]), row[end:], list(row[grads:end]), needs)
                for row in _rows(size, places, flat)
            ]
            found = [torch.stack(column) for column in zip(*calls, strict=True)]
        return tuple(found), (0,) * len(found)

    return whole


def batch_first(size: int, value: Any, dim: int | None) -> Any:
    """Return a tensor with the batch's dimension in front; one without it is repeated, not copied."""
    return value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)


def _rows(size: int, dims: Sequence[Any], args: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """The arguments of each element of a batch; a list of numbers has no dimension of it."""
    columns = (
        a.unbind(d) if isinstance(d, int) else itertools.repeat(a, size) for a, d in zip(args, dims, strict=True)
    )
    return zip(*columns, strict=True)


def _are_bare(tensors: Sequence[Any]) -> bool:
    """Whether neither a transformation nor autograd has to see what is done with these tensors."""
    torch = _torch()
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    watched = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not watched and not any(map(wrapped, tensors))
