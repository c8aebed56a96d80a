"""Gradients of traced calls: the kernel's adjoint as the backward rule of ``jax.custom_vjp``.

An adjoint adds to the adjoints of what the kernel reads and uses up those of what it overwrites. So the former start as
zeros, or as the cotangent where an argument is a result as well, and the latter are copies of the cotangents.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warp_like.base.settings import settings
from warp_like.interop.jaxffi.call import Call, jax_dtype
from warp_like.interop.jaxffi.operation import Operation
from warp_like.interop.jaxffi.target import jax_module
from warp_like.ir.types import Array, element_shape, is_differentiable


def differentiable(op: Operation, values: Sequence[Any]) -> list[Any]:
    """As ``op.forward``, with a gradient.

    Raises:
        RuntimeError: Gradients are switched off for the kernel.
    """
    enabled = settings.enable_backward if op.kernel.enable_backward is None else op.kernel.enable_backward
    if not enabled:
        raise RuntimeError(f"kernel `{op.kernel.key}`: gradients are switched off (enable_backward=False)")
    f = jax_module().custom_vjp(lambda *args: op.forward(args))
    f.defvjp(lambda *args: _forward(op, args), lambda saved, cts: _backward(op, saved, cts), symbolic_zeros=True)
    return f(*values)  # type: ignore[no-any-return]


def undifferentiable(op: Operation, values: Sequence[Any]) -> list[Any]:
    """As ``op.forward``; asking for a derivative is refused, with what to do instead."""
    f = jax_module().custom_jvp(lambda *args: op.forward(args))

    def refuse(primals: Any, tangents: Any) -> Any:
        raise TypeError(
            f"kernel `{op.kernel.key}`: a derivative is asked of it; make it with jax_kernel(..., enable_backward=True) "
            "for gradients, or put jax.lax.stop_gradient around its arguments"
        )

    f.defjvp(refuse)
    return f(*values)  # type: ignore[no-any-return]


def _wrt(op: Operation, asked: Sequence[int]) -> tuple[int, ...]:
    """The arrays that have adjoints: what gradients are asked of, and what they come from."""
    results = [i for i in op.results if is_differentiable(op.types[i])]
    return tuple(sorted({*asked, *results}))


def _forward(op: Operation, args: Sequence[Any]) -> tuple[list[Any], Any]:
    given = {i: a.value for i, a in zip(op.dynamic, args, strict=True)}
    asked = [i for i, a in zip(op.dynamic, args, strict=True) if a.perturbed and is_differentiable(op.types[i])]
    for i in asked:
        if not isinstance(op.types[i], Array):
            name = op.kernel.parameter_names[i]
            raise TypeError(
                f"kernel `{op.kernel.key}`: a gradient is asked of `{name}`, which is a {op.types[i]} and no array; "
                "declare it as an array of one element, or put jax.lax.stop_gradient around it"
            )
    outs = op.forward(list(given.values()))
    artifact = op.code(_wrt(op, asked)).artifact
    used = {*artifact.reads, *artifact.writes, *(i for i, t in enumerate(op.types) if not isinstance(t, Array))}
    after = {**given, **dict(zip(op.results, outs, strict=True))}
    saved = {i: x if i in used else _NOT_NEEDED for i, x in after.items()}
    before = {i: given[i] if i in artifact.scratch else _NOT_NEEDED for i in op.in_out}
    return outs, _saved_class()(saved, before, tuple(asked))


_NOT_NEEDED = np.float32(0)


@functools.cache
def _saved_class() -> Any:
    """What the forward rule hands to the backward rule, as a class that JAX knows."""

    @dataclass
    class Saved:
        after: dict[int, Any]  # arguments and results by position, as they are after the launch
        before: dict[int, Any]  # in-out arguments as they were before
        asked: tuple[int, ...]  # of which gradients are asked; known when the backward rule is traced

    # However many gradients are asked of a call, there are as many leaves, here and among the gradients: older versions
    # of JAX trace one call more than once and insist on it.
    jax_module().tree_util.register_dataclass(Saved, data_fields=["after", "before"], meta_fields=["asked"])
    return Saved


def _backward(op: Operation, residuals: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
    saved, before, asked = residuals.after, residuals.before, residuals.asked
    wrt = _wrt(op, asked)
    code = op.code(wrt)
    call = Call(code, op.dims)
    writes = code.artifact.writes
    for i, t in enumerate(op.types):
        if not isinstance(t, Array):
            call.value(i, op.constants[i] if i in op.constants else saved[i])
        elif i in writes:
            call.write(i, op.shapes[i], saved[i])
        elif i in code.artifact.reads:
            call.read(i, saved[i], op.shapes[i])
        else:
            call.unused(i, op.shapes[i])
    cts = {i: _dense(ct) for i, ct in zip(op.results, cotangents, strict=True) if i in wrt}
    found = {}
    for n, i in enumerate(wrt, start=len(op.types)):
        if i in op.outputs and n not in writes:
            call.read(n, cts[i], op.shapes[i])
        else:
            found[i] = call.write(n, op.shapes[i], cts.get(i))
    for n, i in enumerate(code.artifact.scratch, start=len(op.types) + len(wrt)):
        if n in writes or i not in before:  # outputs held zeros before the launch
            call.write(n, op.shapes[i], before.get(i))
        else:
            call.read(n, before[i], op.shapes[i])
    results = call.run(vmap_method=op.vmap_method)
    return tuple(_gradient(op, i, results[found[i]] if i in asked else None) for i in op.dynamic)


def _gradient(op: Operation, i: int, found: Any) -> Any:
    t = op.types[i]
    if found is not None or not is_differentiable(t):
        return found
    numpy = jax_module().numpy
    return numpy.zeros((*op.shapes.get(i, ()), *element_shape(t.dtype if isinstance(t, Array) else t)), jax_dtype(t))


def _dense(cotangent: Any) -> Any:
    jax = jax_module()
    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        return jax.numpy.zeros(cotangent.shape, cotangent.dtype)
    return cotangent
