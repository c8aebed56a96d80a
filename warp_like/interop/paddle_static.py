"""Operators inside Paddle's static graphs (``paddle.static.Program``, ``paddle.jit.to_static``).

An operator is a ``pylayer`` of the graph, whose forward and backward each hold one operation that calls Python. Both
are made anew for each call that is traced, since they know the call's numbers.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warp_like.interop.op_body import Body
from warp_like.interop.op_signature import OpSignature
from warp_like.interop.paddle import _paddle

_numbers = itertools.count()


@dataclass(frozen=True)
class _Shaped:
    """A value of the graph, as rules for shapes see it."""

    shape: tuple[int, ...]


def call(body: Body, args: Sequence[Any]) -> Any:
    """Put an operator into the graph that Paddle builds, and return its results there.

    Raises:
        TypeError: A tensor is of another dtype or number of dimensions than declared.
        RuntimeError: This Paddle has no operations that call Python.
    """
    from paddle.jit.dy2static.py_layer import StaticPyLayerContext

    paddle, sig = _paddle(), body.signature
    _require_python_ops(sig)
    _check(sig, args)
    tensors = [sig.inputs.index(i) for i in sig.given_tensors]
    wrt = [sig.inputs.index(i) for i in sig.wrt]
    floats = [sig.outputs.index(i) for i in sig.from_outputs]
    needs = [not args[p].stop_gradient for p in wrt]
    values = [args[p] for p in tensors]
    dtypes = [sig.dtypes[i] for i in sig.outputs]

    def with_tensors(given: Sequence[Any]) -> list[Any]:
        found = list(args)
        for p, t in zip(tensors, given, strict=True):
            found[p] = t
        return found

    def forward(*given: Any) -> list[Any]:
        whole = with_tensors(given)
        sig.check(whole)
        return body.forward(whole)

    def backward(used: Sequence[int], *given: Any) -> list[Any]:
        grads, whole = dict(zip(used, given, strict=False)), with_tensors(given[len(used) :])
        made = sig.output_shapes(whole)
        weights = [
            grads[k] if k in grads else sig.tensors.zeros(made[k], dtypes[k]) for k in floats
        ]  # what is not used has none
        results = body.forward(whole) if body.answers().reads_outputs else []
        return body.backward(weights, whole, results, needs)

    def shapes(*given: Any) -> list[Any]:
        return sig.output_shapes(with_tensors([_Shaped(tuple(t.shape)) for t in given]))

    def gradient_shapes(used: Sequence[int], *given: Any) -> list[Any]:
        whole = with_tensors(given[len(used) :])
        return [tuple(whole[p].shape) for p, needed in zip(wrt, needs, strict=True) if needed]

    context = StaticPyLayerContext()

    def forward_block(*_: Any) -> Any:
        if moving:
            context.save_for_backward(*values)
        found = _python_op(sig.name, forward, shapes, dtypes, values)
        return found[0] if len(found) == 1 else tuple(found)

    moving = [args[p] for p, needed in zip(wrt, needs, strict=True) if needed]
    if not moving:
        return forward_block()

    def backward_block(*grads: Any) -> Any:
        used = [k for k in floats if grads[k] is not None]
        given = [*(grads[k] for k in used), *context.saved_tensor()]
        run, shaped = functools.partial(backward, used), functools.partial(gradient_shapes, used)
        found = _python_op(f"{sig.name}_backward", run, shaped, [x.dtype for x in moving], given)
        return found[0] if len(found) == 1 else tuple(found)

    return paddle.static.nn.static_pylayer(forward_block, moving, backward_block)


def _python_op(
    name: str, run: Callable[..., Any], shapes: Callable[..., Any], dtypes: Sequence[Any], values: Sequence[Any]
) -> list[Any]:
    """One operation of the graph that calls ``run``, with the shapes that ``shapes`` says."""
    paddle = _paddle()

    def meta(*given: Any) -> Any:
        found = [paddle.static.MetaTensor(shape=list(s), dtype=d) for s, d in zip(shapes(*given), dtypes, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)

    def dynamic(*given: Any) -> Any:
        with paddle.base.dygraph.base.guard(), paddle.no_grad():
            found = run(*given)
        return found[0] if len(found) == 1 else tuple(found)

    names = [f"x{k}" for k in range(len(values))]
    found = paddle._C_ops._run_python_op(
        *values,
        name=re.sub(r"\W", "_", f"warp_like_{name}_{next(_numbers)}"),
        input_names=names,
        output_names=[f"y{k}" for k in range(len(dtypes))],
        attrs={"infer_meta_fn_ptr": _with_parameters(meta, names), "fn_ptr": _with_parameters(dynamic, names)},
        inplace_map={},
    )
    return list(found)


def _with_parameters(run: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """``run``, called by keywords as well."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return run(*args, *(kwargs[name] for name in names if name in kwargs))

    return called


def _require_python_ops(sig: OpSignature) -> None:
    paddle = _paddle()
    if not (paddle.framework.in_pir_mode() and hasattr(paddle._C_ops, "_run_python_op")):
        raise RuntimeError(
            f"operator `{sig.name}` was called while Paddle builds a static graph, and this graph holds no operations "
            "that call Python, as those of Paddle 3.3 do; call it in dynamic mode"
        )


def _check(sig: OpSignature, args: Sequence[Any]) -> None:
    """Refuse values of another dtype or number of dimensions than declared; shapes are checked when the graph runs."""
    value = _paddle().pir.Value
    for p, i in enumerate(sig.inputs):
        given = args[p]
        if i not in sig.given_tensors:
            if isinstance(given, value):
                raise TypeError(
                    f"operator `{sig.name}`, argument `{sig.names[i]}`: expected {sig.types[i]}, got a tensor"
                )
            continue
        outer = sig.array_type(i).ndim if i in sig.arrays else 0
        ndim = outer + len(sig.element_shapes[i])
        if not isinstance(given, value) or given.dtype != sig.dtypes[i] or len(given.shape) != ndim:
            shown = f"{given.dtype} of shape {tuple(given.shape)}" if isinstance(given, value) else type(given).__name__
            raise TypeError(
                f"operator `{sig.name}`, argument `{sig.names[i]}`: expected a tensor of {sig.dtypes[i]} with {ndim} "
                f"dimensions, got {shown}"
            )
