"""Forward mode at run time: tangents of a launch, and products of its Hessian with a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warp_like.ir.types import Array, Struct, Type, is_differentiable, leaf_fields
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import clone, zeros_like
from warp_like.runtime.arrays.recording import Capture
from warp_like.runtime.autodiff.differentiation import require_backward
from warp_like.runtime.autodiff.history import share_memory
from warp_like.runtime.kernels.argument_advice import not_a_kernel
from warp_like.runtime.kernels.arguments import Site, convert, grid_dims, require_writable, same_arguments
from warp_like.runtime.kernels.generics import concrete
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.kernels.structs import split_tangents
from warp_like.runtime.launching.launch import bind_arguments, run
from warp_like.runtime.memory.device import Device, get_device
from warp_like.runtime.memory.recorder import recorder, refuse_capture


def jvp(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    tangents: Sequence[Any] = (),
    out_tangents: Sequence[Any] = (),
    device: Device | str | None = None,
) -> list[array | None]:
    """Launch ``kernel`` and compute tangents beside its values: the product of its Jacobian and a vector.

    The launch does all that ``wp.launch`` does, and in the same sweep follows what a change of the inputs in
    the direction ``tangents`` changes (forward mode). For one input and many outputs this costs one launch
    where reverse mode takes one for each output. Nothing is saved, whatever loops the kernel has. A kernel with
    ``atomic_min`` or ``atomic_max`` runs twice, the first time on copies, to find whose values win; each of
    these adds its tangent.

    Args:
        kernel: A function decorated with ``wp.kernel``.
        dim: Number of threads, or 1 to 8 extents of a grid.
        inputs: Arguments for the first parameters, as for ``wp.launch``.
        outputs: Arguments for the remaining parameters.
        tangents: For each of ``inputs`` its tangent, or None for zero; missing ones at the end are zero. That
            of an array has its shape and dtype, that of a float or a vector its type. Where the kernel writes
            an input, its tangent is updated in place as well.
        out_tangents: For each of ``outputs`` an array for its tangent, updated in place, or None for a new
            one that is zero before the launch. What an output held before the launch counts where the kernel
            adds to it.
        device: Where to run; the current device when left out.

    Returns:
        The tangent of each of ``outputs``, with its shape and dtype; None for one that is not an array of
        floats.

    Raises:
        TypeError: An argument has the wrong type, or a tangent is given for something that is not made of
            floats.
        ValueError: A tangent has another shape than its array, or one array has two tangents.
        RuntimeError: A tape is recording, or the kernel writes memory that two arguments share in part.
        WarpCodegenError: The kernel can't be compiled, or has no tangent (``atomic_exch`` depends on the order of
            the threads).

    Example:
        >>> (dy,) = wp.autograd.jvp(square, dim=n, inputs=[x], outputs=[y], tangents=[wp.ones(n)])
    """
    call = _bind(kernel, dim, inputs, outputs, tangents, out_tangents, device)
    _require_alike(call)
    _run_tangent(call)
    return _by_argument(call, call.tangents)[len(inputs) :]


def hvp(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    tangents: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Device | str | None = None,
) -> list[array | None]:
    """Return the product of a Hessian and a vector, by forward over reverse mode.

    The Hessian is that of ``sum(adj_outputs * outputs)`` with respect to the inputs; for a kernel with one
    output of one element, a loss, it is the Hessian of the loss. The product is exact up to rounding and
    costs a few launches; the Hessian is never formed. The kernel is launched, so ``outputs`` hold its results
    afterwards.

    Args:
        kernel: A function decorated with ``wp.kernel``.
        dim: Number of threads, or 1 to 8 extents of a grid.
        inputs: Arguments for the first parameters, as for ``wp.launch``.
        outputs: Arguments for the remaining parameters.
        tangents: The vector: for each of ``inputs`` an array of its shape and dtype, or None for zero; for
            floats and vectors a value. Missing ones at the end are zero.
        adj_outputs: A weight for each of ``outputs``, of its shape and dtype, or None for zero. May be left
            out for one output of one element, whose weight is 1.
        device: Where to run; the current device when left out.

    Returns:
        The product for each of ``inputs``, with its shape and dtype; None for one that is not an array of
        floats.

    Raises:
        TypeError: An argument has the wrong type, or a tangent is given for something that is not made of
            floats.
        ValueError: A tangent or a weight has another shape than its array, or weights are needed and none are
            given.
        RuntimeError: A tape is recording, gradients are switched off for the kernel, or it writes memory that
            two arguments share in part.
        WarpCodegenError: The kernel can't be compiled, or not differentiated twice.

    Example:
        >>> @wp.kernel
        ... def energy(x: wp.array(dtype=float), e: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     wp.atomic_add(e, 0, x[i] * x[i] * x[i])
        >>> hv, *_ = wp.autograd.hvp(energy, dim=n, inputs=[x], outputs=[wp.zeros(1)], tangents=[wp.ones(n)])
        >>> hv.numpy()
        array([ 0.,  6., 12., 18.], dtype=float32)
    """
    call = _bind(kernel, dim, inputs, outputs, tangents, (), device)
    require_backward(call.kernel)
    first = dict(call.same)
    weights = {first.get(i, i): w for i, w in _weights(call, inputs, outputs, adj_outputs).items()}
    written = {first.get(i, i) for i in call.writes if i in call.tangents}
    copies = {i: clone(call.tangents[i], requires_grad=False) for i in written}  # the caller's stay as they are
    call.tangents |= {i: copies[first.get(i, i)] for i in call.tangents if first.get(i, i) in written}
    n = len(call.args)
    wrt = tuple(i for i in range(n) if isinstance(call.types[i], Array) and is_differentiable(call.types[i]))
    varied = (*sorted(call.tangents), *range(n, n + len(wrt)))
    same = same_arguments(call.args)
    shares, alone = call.forward.shares_indices, call.forward.in_order(call.dims, same)
    spares = bool(call.forward.effects.objects)
    program = call.kernel.program(call.types, wrt, same, varied, call.device, alone, shares, spares_objects=spares)
    _require_apart(call, program)

    prelaunch_copies = program.effects.prelaunch_copies
    old = [clone(call.args[i], requires_grad=False) for i in prelaunch_copies]
    old_tangents = [clone(call.tangents[i]) for i in prelaunch_copies if i in call.tangents]
    _run_forward(call, program)
    adjoints = {i: weights[i] if i in weights else zeros_like(call.args[i], requires_grad=False) for i in wrt}
    products = {i: zeros_like(call.args[i], requires_grad=False) for i in wrt}
    args = [*call.args, *(adjoints[i] for i in wrt), *old]
    changes = [*(call.tangents[i] for i in sorted(call.tangents)), *(products[i] for i in wrt), *old_tangents]
    run(program, call.dims, [*args, *changes])
    return _by_argument(call, {i: products[first.get(i, i)] for i in wrt})[: len(inputs)]


@dataclass
class _Call:
    """A launch with its arguments bound and a tangent for each of those that have one."""

    kernel: Kernel
    dims: tuple[int, ...]
    types: tuple[Type, ...]
    args: list[Any]
    tangents: dict[int, Any]
    same: tuple[tuple[int, int], ...]
    forward: Program

    @property
    def device(self) -> Device:
        return self.forward.device

    @property
    def writes(self) -> tuple[int, ...]:
        return self.forward.effects.writes


def _bind(
    kernel: Kernel,
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    tangents: Sequence[Any],
    out_tangents: Sequence[Any],
    device: Device | str | None,
) -> _Call:
    if not isinstance(kernel, Kernel):
        raise not_a_kernel("forward mode", kernel)
    refuse_capture("forward mode")
    if isinstance(recorder.active, Capture):
        recorder.active.refuse("forward mode gives nothing")
    if recorder.active is not None:
        raise RuntimeError(f"kernel `{kernel.key}`: a tape does not record forward mode; use it outside of the tape")
    where = get_device(device)
    kernel = concrete(kernel, inputs, outputs)
    types, args = bind_arguments(kernel, inputs, outputs, where)
    dims = grid_dims(kernel.key, dim)
    forward = kernel.program(types, device=where).over(dims)
    call = _Call(kernel, dims, types, args, {}, same_arguments(args), forward)
    for name, values, given in (("tangents", inputs, tangents), ("out_tangents", outputs, out_tangents)):
        if len(given) > len(values):
            raise ValueError(f"kernel `{kernel.key}`: {name} has {len(given)} entries for {len(values)} arguments")
    padded = [*tangents, *[None] * (len(inputs) - len(tangents)), *out_tangents]
    for i, t in enumerate(split_tangents(kernel, padded)):
        if t is not None:
            call.tangents[i] = _checked(call, i, t)
    _complete(call)
    return call


def _by_argument(call: _Call, found: dict[int, Any]) -> list[Any]:
    """Return what was found for each argument as the user gave it: for a struct, a list by field."""
    results: list[Any] = []
    position = 0
    for _, t in call.kernel.declared:
        if isinstance(t, Struct):
            count = len(leaf_fields(t))
            results.append([found.get(position + k) for k in range(count)])
            position += count
        else:
            results.append(found.get(position))
            position += 1
    return results


def _checked(call: _Call, i: int, given: Any) -> Any:
    """Return a tangent that a user gave for argument ``i``."""
    t, name = call.types[i], f"tangent of {call.kernel.parameter_names[i]}"
    site = Site(call.kernel.key, call.kernel.positions[i], name, t, call.device)
    if not is_differentiable(t):
        raise TypeError(f"{site.text}: {t} is not made of floats and has no tangent")
    value = convert(site, given)
    if isinstance(t, Array):
        if value.shape != call.args[i].shape:
            raise ValueError(f"{site.text}: shape {value.shape} for an array of shape {call.args[i].shape}")
        if i in call.writes:
            require_writable(site, value)
    return value


def _complete(call: _Call) -> None:
    """Add the tangents that nobody gave.

    Arrays seen twice share theirs; those of arrays that are written start with zero.
    """
    for later, first in call.same:
        given = [call.tangents[i] for i in (first, later) if i in call.tangents]
        if len(given) == 2 and (given[0].ptr, given[0].strides) != (given[1].ptr, given[1].strides):
            names = call.kernel.parameter_names
            raise ValueError(
                f"kernel `{call.kernel.key}`: `{names[first]}` and `{names[later]}` are the same array and "
                "were given different tangents"
            )
        if given:
            call.tangents[first] = given[0]
    first_of = dict(call.same)
    call.tangents |= {i: call.tangents[first] for i, first in call.same if first in call.tangents}
    written = {first_of.get(i, i) for i in call.writes}
    for i, t in enumerate(call.types):
        first = first_of.get(i, i)
        if isinstance(t, Array) and is_differentiable(t) and i not in call.tangents and first in written:
            if first not in call.tangents:
                call.tangents[first] = zeros_like(call.args[first], requires_grad=False)
            call.tangents[i] = call.tangents[first]


def _overlaps(call: _Call) -> list[tuple[int, int]]:
    """Return the pairs of different array arguments that share memory which the kernel writes."""
    same = {frozenset(pair) for pair in call.same}
    arrays = [i for i, a in enumerate(call.args) if isinstance(a, array)]
    return [
        (i, j)
        for i in arrays
        for j in call.writes
        if i != j and frozenset((i, j)) not in same and share_memory(call.args[i], call.args[j])
    ]


def _require_alike(call: _Call) -> None:
    """Refuse arguments that overlap in part, unless their tangents overlap in the same way."""
    for i, j in _overlaps(call):
        a, b = call.tangents.get(i), call.tangents.get(j)
        x, y = call.args[i], call.args[j]
        if a is None and b is None:
            continue
        if not (a is not None and b is not None and _placed_alike(a, b, x, y)):
            names = call.kernel.parameter_names
            raise RuntimeError(
                f"kernel `{call.kernel.key}`: `{names[i]}` and `{names[j]}` share a part of their memory, "
                "which the kernel writes; pass tangents that share theirs in the same way, or separate arrays"
            )


def _placed_alike(a: array, b: array, x: array, y: array) -> bool:
    """Return whether ``a`` and ``b`` lie to each other in memory as ``x`` and ``y`` do."""
    return a.ptr - b.ptr == x.ptr - y.ptr and a.strides == x.strides and b.strides == y.strides


def _require_apart(call: _Call, program: Program) -> None:
    """Refuse a second derivative that reads memory which the kernel wrote through another argument."""
    for i, j in _overlaps(call):
        if i in (*program.effects.reads, *program.effects.prelaunch_copies):
            names = call.kernel.parameter_names
            raise RuntimeError(
                f"kernel `{call.kernel.key}`: the gradient needs `{names[i]}`, but the kernel wrote over its "
                f"memory through `{names[j]}`; pass separate arrays"
            )


def _run_tangent(call: _Call) -> None:
    varied = tuple(sorted(call.tangents))
    primal = call.forward
    shares = primal.shares_indices
    program = call.kernel.program(call.types, tangent=varied, device=call.device, shares_indices=shares)
    extremes = [i for i in primal.effects.extremes if i in call.tangents]
    if extremes:
        _find_winners(call, primal, extremes)
    run(program, call.dims, [*call.args, *(call.tangents[i] for i in varied)])


def _find_winners(call: _Call, primal: Program, extremes: list[int]) -> None:
    """Let the arrays that the kernel updates by atomic minima and maxima hold their final values; change nothing else.

    Where a thread has won, what stood there before loses its tangent.
    """
    from warp_like.ir import atomics  # most launches need none of it

    names, first = call.kernel.parameter_names, dict(call.same)
    for i, j in [*_overlaps(call), *call.same]:
        if i in extremes or j in extremes:
            raise RuntimeError(
                f"kernel `{call.kernel.key}`: `{names[i]}` and `{names[j]}` share memory, which "
                f"{atomics.extremes('or')} updates; pass separate arrays for forward mode"
            )
        if frozenset((i, j)) not in map(frozenset, call.same):
            raise RuntimeError(
                f"kernel `{call.kernel.key}`: `{names[i]}` and `{names[j]}` share a part of their memory; forward mode "
                f"of {atomics.extremes('and')} needs separate arrays"
            )
    before = {i: clone(call.args[i], requires_grad=False) for i in extremes}
    copies = {j: clone(call.args[j], requires_grad=False) for j in {first.get(j, j) for j in call.writes}}
    args = [a if i in extremes else copies.get(first.get(i, i), a) for i, a in enumerate(call.args)]
    run(primal, call.dims, args)
    for i in extremes:
        t = call.tangents[i]
        t.assign(np.where(call.args[i]._values() == before[i]._values(), t._values(), 0))


def _run_forward(call: _Call, program: Program) -> None:
    """Run the kernel, with tangents where the second sweep reads some of what it writes."""
    start = len(call.args) + len(program.wrt or ()) + len(program.effects.prelaunch_copies)
    positions = dict(zip(sorted(call.tangents), range(start, start + len(call.tangents)), strict=True))
    reads = program.effects.reads
    if any(positions[i] in reads for i in call.writes if i in positions):
        _run_tangent(call)
    else:
        run(call.forward, call.dims, call.args)


def _weights(
    call: _Call, inputs: Sequence[Any], outputs: Sequence[Any], adj_outputs: Sequence[Any]
) -> dict[int, array]:
    """Return copies of the weights of the outputs, by position."""
    key = call.kernel.key
    if not adj_outputs:
        loss = call.args[-1] if len(outputs) == 1 else None
        if not isinstance(loss, array) or loss.size != 1:
            raise ValueError(f"kernel `{key}`: hvp() needs adj_outputs unless there is one output of one element")
        one = zeros_like(loss, requires_grad=False)
        one.fill_(1)
        return {len(call.args) - 1: one}
    if len(adj_outputs) != len(outputs):
        raise ValueError(f"kernel `{key}`: adj_outputs has {len(adj_outputs)} entries for {len(outputs)} outputs")
    given = split_tangents(call.kernel, [*(None for _ in inputs), *adj_outputs])
    weights = {i: _checked(call, i, w) for i, w in enumerate(given) if w is not None}
    return {i: clone(w, requires_grad=False) for i, w in weights.items() if isinstance(w, array)}


__all__ = ["hvp", "jvp"]
