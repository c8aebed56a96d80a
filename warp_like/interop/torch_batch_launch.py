"""A kernel, or its adjoint, on every element of a batch of tensors in one native call.

The native dispatcher checks and packs the arguments of the first element; by how many bytes each tensor moves from one
element to the next says the rest. Each function returns what tells its caller that it declines: elements that differ in
more than that, or code that is not compiled yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp_like.interop.op_body import KernelBody, not_recorded
from warp_like.runtime.arrays import objects
from warp_like.runtime.autodiff.differentiation import adjoint_arguments
from warp_like.runtime.kernels.arguments import grid_dims

Tensors = tuple[Sequence[Any], Sequence[Any]]
"""Values, and the batch's dimension in each: None where it has none."""


def launch_forward(
    body: KernelBody, size: int, dims: Sequence[Any], args: Sequence[Any], results: Sequence[Any]
) -> bool:
    """Run the kernel into ``results``, which have the batch's dimension in front; false where that is declined."""
    body.require_current()
    sig = body.signature
    firsts, moves = _first(sig.tensors, (args, dims))
    steps = dict(zip(sig.inputs, moves, strict=True))
    if any(steps[i] for i in sig.as_tensors):
        return False
    given = sig.parameters(firsts)
    for i, result in zip(sig.outputs, results, strict=True):
        given[i], steps[i] = result[0], _step(result)
    kernel, dim = body.placed(firsts, [r[0] for r in results])
    grid = grid_dims(kernel.key, dim)
    dispatcher = kernel.program(sig.types).over(grid).dispatcher
    if dispatcher is None:
        return False
    with not_recorded():
        return dispatcher.try_batch(grid, given, size, [steps.get(i, 0) for i in range(len(given))])


def launch_adjoint(
    body: KernelBody, size: int, grads: Tensors, results: Tensors, args: Tensors, needs: Sequence[bool]
) -> list[Any] | None:
    """Return what ``body.backward`` does, with the batch's dimension in front; None where that is declined."""
    sig, tensors = body.signature, body.signature.tensors
    firsts, moves = _first(tensors, args)
    steps = dict(zip(sig.inputs, moves, strict=True))
    if any(steps[i] for i in sig.as_tensors):
        return None
    given = sig.parameters(firsts)
    shapes = {i: tuple(a.shape) for i, a in zip(sig.inputs, firsts, strict=True) if i in sig.given_tensors}
    wholes: dict[int, Any] = {
        i: tensors.zeros((size, *(shapes[i] if i in sig.arrays else (1, *shapes[i]))), sig.dtypes[i])
        for i, needed in zip(sig.wrt, needs, strict=True)
        if needed and i not in sig.in_out
    }
    for i, grad, dim in zip(sig.from_outputs, *grads, strict=True):
        wholes[i] = tensors.copy(grad.expand(size, *grad.shape) if dim is None else grad.movedim(dim, 0))
    adjoints = {i: whole[0] for i, whole in wholes.items()}
    before = [(x, steps.get(i, 0)) for i, x in enumerate(given)]
    for i in body.answers().unread:
        given[i], steps[i] = tensors.empty(shapes[i], sig.dtypes[i]), 0
    kept, kept_moves = _first(tensors, results)
    for k, (i, shape) in enumerate(zip(sig.outputs, sig.output_shapes(firsts), strict=True)):
        if kept:
            given[i], steps[i] = kept[k], kept_moves[k]
        elif given[i] is None:  # the adjoint does not read it
            given[i], steps[i] = tensors.empty(shape, sig.dtypes[i]), 0
    record = body.record(given, firsts)
    with not_recorded():
        program = body.adjoint(record, adjoints)
        if program is not None and not _run(body, program, record, before, size, steps, wholes):
            return None
    wanted = [i for i, needed in zip(sig.wrt, needs, strict=True) if needed]
    return [wholes[i] if i in sig.arrays else wholes[i].reshape(size, *shapes[i]) for i in wanted]


def _run(
    body: KernelBody,
    program: Any,
    record: Any,
    before: Sequence[tuple[Any, int]],
    size: int,
    steps: dict[int, int],
    wholes: dict[int, Any],
) -> bool:
    """Run the adjoint on all elements; ``before`` is what the kernel got, and how it moves."""
    sig, effects = body.signature, program.effects
    fixed = len(record.args) + len(wholes)
    if program.dispatcher is None or any(p >= fixed for p in effects.writes):  # copies that each element needs
        return False
    moves = [steps.get(i, 0) for i in range(len(record.args))] + [_step(wholes[i]) for i in sorted(wholes)]
    for i in effects.prelaunch_copies:
        original, step = before[i]
        if original is None:
            original, step = sig.tensors.zeros(record.args[i].shape, record.args[i].dtype), 0
        record.prelaunch_copies[i] = sig.as_array(i, original)
        moves.append(step)
    arguments = adjoint_arguments(record, program, {i: whole[0] for i, whole in wholes.items()})
    objects.warn_of_gradients(effects, record.args, f"operator `{sig.name}`")
    return bool(program.dispatcher.try_batch(record.dims, arguments, size, moves))


def _first(tensors: Any, batch: Tensors) -> tuple[list[Any], list[int]]:
    """The first element of each value, and by how many bytes it moves to the next."""
    firsts, moves = [], []
    for value, dim in zip(*batch, strict=True):
        if not isinstance(dim, int):
            firsts.append(value)
            moves.append(0)
            continue
        plain = tensors.plain(value)
        firsts.append(plain.select(dim, 0))
        moves.append(plain.stride(dim) * plain.element_size())
    return firsts, moves


def _step(whole: Any) -> int:
    return int(whole.stride(0)) * int(whole.element_size())
