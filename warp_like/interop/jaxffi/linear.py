"""The JAX primitive of derivatives: what JAX does with a linear function of arrays, for ``derivative.Form``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError
from warp_like.interop.derivative import Form, differentiable_results, needed_results
from warp_like.interop.jaxffi.operation import TracedOperation
from warp_like.interop.jaxffi.primitive import BatchedPrimitive, Levels
from warp_like.interop.jaxffi.target import jax_module
from warp_like.interop.jaxffi.varying import alike
from warp_like.interop.operation import Operation
from warp_like.ir.types import is_differentiable, scalar_of


def differentiable(op: TracedOperation, values: Sequence[Any]) -> list[Any]:
    """As ``op.forward``, with derivatives up to the third, in forward and reverse mode."""
    run = jax_module().custom_jvp(lambda *args: op.forward(args))

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = run(*primals)
        return results, _tangents(op, primals, results, tangents)

    # What does not change is told apart from what does, but not by JAX up to 0.5: its shard_map can't.
    run.defjvp(rule, symbolic_zeros=hasattr(jax_module(), "shard_map"))
    return run(*values)


def require_enabled(op: TracedOperation) -> None:
    """Refuse derivatives that the kernel or the settings switch off.

    Raises:
        RuntimeError: They are.
    """
    if not op.kernel.option("enable_backward"):
        raise RuntimeError(f"kernel `{op.kernel.key}`: gradients are switched off (enable_backward=False)")


def require_floats_as_floats(op: TracedOperation) -> None:
    """Refuse derivatives of a call that sees a storage as elements of another type.

    Raises:
        TypeError: It does.
    """
    for i, place in op.places.items():
        seen, held = op.element(i), op.storages[place.storage].element
        if scalar_of(seen) != scalar_of(held) and (is_differentiable(seen) or is_differentiable(held)):
            raise TypeError(
                f"kernel `{op.kernel.key}`: a derivative is asked of it, and its argument "
                f"`{op.kernel.parameter_names[i]}` sees memory of {held} as {seen}"
            )


def undifferentiable(op: TracedOperation, values: Sequence[Any]) -> list[Any]:
    """As ``op.forward``; asking for a derivative is refused, with what to do instead."""
    f = jax_module().custom_jvp(lambda *args: op.forward(args))

    def refuse(primals: Any, tangents: Any) -> Any:
        raise TypeError(
            f"kernel `{op.kernel.key}`: a derivative is asked of it; make it with jax_kernel(..., "
            "enable_backward=True) for gradients, or put jax.lax.stop_gradient around its arguments"
        )

    f.defjvp(refuse)
    return f(*values)


def _tangents(
    op: TracedOperation, primals: Sequence[Any], results: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """Return the tangents of the results of a call."""
    jax = jax_module()
    zero = jax.custom_derivatives.SymbolicZero
    moving = {
        i: t
        for i, t in zip(op.dynamic, tangents, strict=True)
        if not isinstance(t, zero) and is_differentiable(_element(op, i))
    }
    known = dict(zip(op.results, results, strict=True))
    smooth = differentiable_results(op)
    changes: dict[int, Any] = {}
    if moving and smooth:
        require_enabled(op)
        require_floats_as_floats(op)
        form = Form(op, (smooth, tuple(moving)), 0)
        found = _primitive().bind([*primals, *(known[k] for k in needed_results(op)), *moving.values()], form)
        changes = dict(zip(smooth, found, strict=True))
    return [changes[k] if k in changes else _no_tangent(y) for k, y in known.items()]


def _element(op: Operation, i: int) -> Any:
    return op.storages[i].element if i in op.storages else op.types[i]


def _no_tangent(y: Any) -> Any:
    return jax_module().custom_derivatives.zero_from_primal(y, symbolic_zeros=False)


@functools.cache
def _primitive() -> BatchedPrimitive:
    from jax.interpreters import ad

    p = BatchedPrimitive("warp_like_derivative", outline=_outline)
    ad.primitive_jvps[p.primitive] = _jvp
    ad.primitive_transposes[p.primitive] = _transpose
    return p


def _outline(form: Form) -> Any:
    """Return a function with results of the types of a form's.

    The form itself is traced, and the code for it compiled, when it is run. Most are not: reverse mode is the transpose
    of a tangent that nobody computes, and that a kernel may not have.
    """

    def types(*operands: Any) -> list[Any]:
        if jax_module().device_count() > 1:  # for what JAX looks for among the parameters of a primitive
            with contextlib.suppress(WarpCodegenError, NotImplementedError):
                return form(*operands)
        zeros = form.zeros()
        return alike([*zeros, *operands])[: len(zeros)]

    return types


def _parts(form: Form, operands: Sequence[Any]) -> dict[int, list[Any]]:
    """Return the operands of each slot that is filled."""
    parts, start = {}, form.fixed
    for k in form.filled:
        end = start + len(form.slots[k])
        parts[k] = list(operands[start:end])
        start = end
    return parts


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], body: Form, levels: Levels, program: Any) -> tuple[Any, Any]:
    from jax.interpreters import ad

    form, ys = body, _primitive().bind(primals, body, levels)
    masks = _masks(levels, len(primals))
    fixed, fixed_masks = list(primals[: form.fixed]), masks[: form.fixed]
    parts, part_masks = _parts(form, primals), _parts(form, masks)
    terms = []
    for k, changes in _parts(form, tangents).items():
        moving = [n for n, t in enumerate(changes) if not isinstance(t, ad.Zero)]
        if not moving:
            continue
        if k == 0:  # all weights are needed
            moving = list(range(len(changes)))
        changed = form.with_parts(k, tuple(form.slots[k][n] for n in moving))
        operands = {**parts, k: [ad.instantiate_zeros(changes[n]) for n in moving]}
        which = {**part_masks, k: [part_masks[k][n] for n in moving]}
        terms.append(_bind_parts(changed, levels, fixed, fixed_masks, operands, which))
    # What the call returned depends on its arguments: this is the derivative by way of both.
    arguments = [
        n
        for n, i in enumerate(form.op.dynamic)
        if not isinstance(tangents[n], ad.Zero) and is_differentiable(_element(form.op, i))
    ]
    if arguments:
        deeper = form.derivative(tuple(form.op.dynamic[n] for n in arguments))
        operands = {**parts, len(form.slots): [tangents[n] for n in arguments]}
        which = {**part_masks, len(form.slots): [masks[n] for n in arguments]}
        terms.append(_bind_parts(deeper, levels, fixed, fixed_masks, operands, which))
    if not terms:
        return ys, [jax_module().numpy.zeros_like(y) for y in ys]
    return ys, [functools.reduce(ad.add_tangents, each) for each in zip(*terms, strict=True)]


def _masks(levels: Levels, count: int) -> list[tuple[bool, ...]]:
    """Return for each operand which levels it has."""
    return [tuple(mapped[n] for _, mapped in levels) for n in range(count)]


def _bind_parts(
    form: Form, levels: Levels, fixed: list[Any], fixed_masks: list[Any], parts: dict[int, Any], masks: dict[int, Any]
) -> list[Any]:
    operands = [*fixed, *(x for k in form.filled for x in parts[k])]
    every = [*fixed_masks, *(m for k in form.filled for m in masks[k])]
    now = tuple((size, tuple(m[n] for m in every)) for n, (size, _) in enumerate(levels))
    return _primitive().bind(operands, form, now)


def _transpose(cotangents: Sequence[Any], *operands: Any, body: Form, levels: Levels, program: Any) -> list[Any]:
    from jax.interpreters import ad

    form = body
    masks = _masks(levels, len(operands))
    parts, part_masks = _parts(form, operands), _parts(form, masks)
    (slot,) = (k for k, each in parts.items() if any(map(ad.is_undefined_primal, each)))
    parts[form.open] = [ad.instantiate_zeros(ct) for ct in cotangents]
    part_masks[form.open] = [(True,) * len(levels)] * len(cotangents)
    found = _bind_parts(form.opened(slot), levels, list(operands[: form.fixed]), masks[: form.fixed], parts, part_masks)
    gradients = {k: [None] * len(form.slots[k]) for k in form.filled}
    gradients[slot] = [
        _summed(g, mask) if ad.is_undefined_primal(x) else None
        for g, mask, x in zip(found, part_masks[slot], parts[slot], strict=True)
    ]
    return [*[None] * form.fixed, *(g for k in form.filled for g in gradients[k])]


def _summed(x: Any, mask: tuple[bool, ...]) -> Any:
    """Sum over the levels, which are the leading dimensions, that an operand does not have."""
    return x.sum(tuple(len(mask) - 1 - n for n, mapped in enumerate(mask) if not mapped))
