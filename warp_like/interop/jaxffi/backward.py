"""Gradients of traced calls: the kernel's adjoint as the backward rule of ``jax.custom_vjp``.

An adjoint adds to the adjoints of what the kernel reads and uses up those of what it overwrites. So the former start as
zeros, or as the cotangent where an argument is a result as well, and the latter are copies of the cotangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp_like.base.settings import settings
from warp_like.interop.jaxffi.call import Call
from warp_like.interop.jaxffi.operation import Operation
from warp_like.interop.jaxffi.target import jax_module
from warp_like.ir.types import Array, is_differentiable


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
    return f(*values)


def undifferentiable(op: Operation, values: Sequence[Any]) -> list[Any]:
    """As ``op.forward``; asking for a derivative is refused, with what to do instead."""
    f = jax_module().custom_jvp(lambda *args: op.forward(args))

    def refuse(primals: Any, tangents: Any) -> Any:
        raise TypeError(
            f"kernel `{op.kernel.key}`: a derivative is asked of it; make it with jax_kernel(..., "
            "enable_backward=True) for gradients, or put jax.lax.stop_gradient around its arguments"
        )

    f.defjvp(refuse)
    return f(*values)


def _wrt(op: Operation) -> tuple[int, ...]:
    """The arrays that have adjoints: all that can have one.

    JAX says of which arguments a gradient is asked, but keeps one backward rule for all such choices.
    """
    return tuple(i for i, t in enumerate(op.types) if isinstance(t, Array) and is_differentiable(t))


def _forward(op: Operation, args: Sequence[Any]) -> tuple[list[Any], Any]:
    for i, a in zip(op.dynamic, args, strict=True):
        t = op.types[i]
        if a.perturbed and not isinstance(t, Array) and is_differentiable(t):
            raise TypeError(
                f"kernel `{op.kernel.key}`: a gradient is asked of `{op.kernel.parameter_names[i]}`, which is a {t} "
                "and no array; declare it as an array of one element, or put jax.lax.stop_gradient around it"
            )
    given = {i: a.value for i, a in zip(op.dynamic, args, strict=True)}
    outs = op.forward(list(given.values()))
    artifact = op.code(_wrt(op)).artifact
    used = {*artifact.reads, *artifact.writes, *(i for i, t in enumerate(op.types) if not isinstance(t, Array))}
    after = {**given, **dict(zip(op.results, outs, strict=True))}
    saved = {i: x for i, x in after.items() if i in used}
    before = {i: given[i] for i in artifact.scratch if i in given}
    return outs, (saved, before)


def _backward(op: Operation, residuals: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
    saved, before = residuals
    wrt = _wrt(op)
    code = op.code(wrt)
    call = Call(code, op.dims)
    writes = code.artifact.writes
    for i, t in enumerate(op.types):
        if not isinstance(t, Array):
            call.value(i, op.constants[i] if i in op.constants else saved[i])
        elif i in writes:
            call.write(i, op.shapes[i], saved[i])
        elif i in saved:
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
    return tuple(results[found[i]] if i in found else None for i in op.dynamic)


def _dense(cotangent: Any) -> Any:
    jax = jax_module()
    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        return jax.numpy.zeros(cotangent.shape, cotangent.dtype)
    return cotangent
